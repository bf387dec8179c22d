/* SPDX-License-Identifier: MIT */
/*
 * The recording of each virtual CPU: its processor's output goes to a ring in this process and from
 * there to the recorder, between two blocks. A virtual CPU waits while the recorder is behind.
 */
#include "record/system/outside.h"

#include "model/emit.h"
#include "record/system/channel.h"
#include "record/system/guest_names.h"
#include "record/system/system.h"
#include "support/monotonic.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RING	UINT64_C(0x400000)
#define ENOUGH	UINT64_C(0x40000) /* so much is sent at a time */
#define RING_AT UINT64_C(0x40000000)

/* What the recorder wants of every virtual CPU. */
enum wish {
	WISH_TRACE,
	WISH_PAUSE,
	WISH_END
};

struct outside {
	struct system_vcpu *vcpu;
	struct code_view view;
	struct code_space *any, *space;
	uint64_t cr3; /* of `space`, and the kind of paging then */
	uint8_t paging;
	uint8_t *ring;
	uint64_t sent;	   /* bytes of the trace that were sent */
	uint64_t last_tsc; /* of the last change of code */
	enum wish granted;
	uint64_t instructions; /* of the blocks that have begun: the time */
	bool started;	       /* the address that begins the trace was reached */
	bool ended;
	struct guest_names names;
	bool called;	   /* the block before ended with SYSCALL */
	bool was_kernel;   /* it was not user code */
	uint64_t last_cr3; /* of the address space before `space` */
};

static int channel = -1;
static struct channel_setup setup;
static atomic_int wish = WISH_TRACE;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the channel, and of `all` */
static struct outside *all[1024];
static unsigned all_count;

/* The channel */

static bool send_all(struct iovec *parts, int count)
{
	while (count) {
		const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
		ssize_t n = sendmsg(channel, &message, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		while (count && (size_t)n >= parts->iov_len) {
			n -= (ssize_t)parts->iov_len;
			parts++;
			count--;
		}
		if (count) {
			parts->iov_base = (uint8_t *)parts->iov_base + n;
			parts->iov_len -= (size_t)n;
		}
	}
	return true;
}

/* Sends a frame and its bytes. Without a recorder the guest runs on untraced. */
static void send_parts(struct channel_frame *frame, const void *bytes, size_t n, const void *more,
		       size_t m)
{
	struct iovec parts[] = {
	    {frame, sizeof(*frame)}, {(void *)(uintptr_t)bytes, n}, {(void *)(uintptr_t)more, m}};

	frame->bytes = (uint32_t)(n + m);
	pthread_mutex_lock(&lock);
	if (channel >= 0 && !send_all(parts, 3)) {
		atomic_store(&wish, WISH_END);
		close(channel);
		channel = -1;
	}
	pthread_mutex_unlock(&lock);
}

static void send_frame(struct channel_frame *frame, const void *bytes, size_t n)
{
	send_parts(frame, bytes, n, NULL, 0);
}

static bool receive(void *to, size_t n)
{
	ssize_t got = recv(channel, to, n, MSG_WAITALL);

	return got == (ssize_t)n;
}

static void *take_orders(void *unused)
{
	const int socket = channel;
	char order;

	(void)unused;
	while (recv(socket, &order, 1, 0) == 1)
		atomic_store(&wish, order == ORDER_PAUSE    ? WISH_PAUSE
				    : order == ORDER_RESUME ? WISH_TRACE
							    : WISH_END);
	return NULL;
}

bool outside_open(int socket)
{
	sigset_t signals, before;
	pthread_t thread;
	int error;

	channel = socket;
	if (!receive(&setup, sizeof(setup)) || setup.magic != CHANNEL_MAGIC ||
	    setup.size != sizeof(setup)) {
		system_say("record=%d: this is not the socket of a recorder of this version",
			   socket);
		return false;
	}
	atomic_store(&wish, setup.paused ? WISH_PAUSE : WISH_TRACE);
	/* Signals are QEMU's business. */
	sigfillset(&signals);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	error = pthread_create(&thread, NULL, take_orders, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		system_say("no thread for the recorder's orders: %s", strerror(error));
	return !error;
}

bool outside_is_open(void)
{
	return setup.magic;
}

/* Trace */

static uint8_t *ring_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	const struct outside *o = ((struct system_vcpu *)port)->outside;

	if (physical < RING_AT || physical >= RING_AT + RING)
		return NULL;
	*bytes = RING_AT + RING - physical;
	return o->ring + (physical - RING_AT);
}

static void drain(struct outside *o)
{
	struct ptah_model *m = o->vcpu->model;
	struct channel_frame frame = {.type = FRAME_TRACE, .cpu = (int32_t)o->vcpu->index};
	uint64_t at, n, first;

	model_output_settle(m);
	n = m->bytes - o->sent;
	if (!n)
		return;
	at = o->sent % RING;
	first = n < RING - at ? n : RING - at;
	frame.value = o->sent;
	frame.tsc = outside_now(o->vcpu);
	send_parts(&frame, o->ring + at, first, o->ring, n - first);
	o->sent += n;
	frame = (struct channel_frame){.type = FRAME_PROGRESS,
				       .cpu = (int32_t)o->vcpu->index,
				       .value = o->vcpu->truth.all.counts[SYSTEM_INSNS]};
	send_frame(&frame, NULL, 0);
}

uint64_t outside_now(const struct system_vcpu *v)
{
	if (!setup.host_clock)
		return v->outside->instructions + 1;
	return (uint64_t)monotonic_ns();
}

static void reach_now(struct outside *o)
{
	struct ptah_model *m = o->vcpu->model;
	const uint64_t now = outside_now(o->vcpu), before = ptah_model_tsc(m);

	if (now > before)
		ptah_model_pass(m, now - before);
}

/* Switches TraceEn. A stretch begins with a PSB+, so that a decoder knows CR3 at once. */
static void enable(struct outside *o, bool on)
{
	struct ptah_model *m = o->vcpu->model;

	if (on == model_trace_en(m))
		return;
	reach_now(o);
	if (on)
		m->psb_count = 0;
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, on ? setup.control : setup.control & ~UINT64_C(1));
}

static void configure(struct outside *o)
{
	struct ptah_model *m = o->vcpu->model;

	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, RING_AT);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, RING - 1);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_CR3_MATCH, setup.cr3);
	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		const struct ptah_range *r = &setup.ranges[i];

		if (!r->mode)
			continue;
		ptah_model_wrmsr(m, PTAH_IA32_RTIT_ADDR0_A + 2 * i, r->first);
		ptah_model_wrmsr(m, PTAH_IA32_RTIT_ADDR0_A + 2 * i + 1, r->last);
	}
}

/* Code */

static void add_page(uint32_t number, const uint8_t *bytes)
{
	struct channel_frame frame = {.type = FRAME_PAGE, .value = number};

	send_frame(&frame, bytes, CODE_PAGE);
}

/*
 * A page that replaces another does so at a time of its own, for which the trace gets a PSB+. The
 * block before has been reported, and the one that needs the page has not.
 */
static void add_map(void *context, const struct code_news *news)
{
	struct outside *o = context;
	struct channel_frame frame = {.type = FRAME_MAP,
				      .cpu = (int32_t)o->vcpu->index,
				      .address = news->address,
				      .cr3 = news->cr3,
				      .value = news->page};

	if (news->changed) {
		struct ptah_model *m = o->vcpu->model;

		reach_now(o);
		if (ptah_model_tsc(m) <= o->last_tsc)
			ptah_model_pass(m, o->last_tsc + 1 - ptah_model_tsc(m));
		frame.tsc = ptah_model_tsc(m);
		o->last_tsc = frame.tsc;
		model_emit_begin(m);
		m->psb_due = true;
		model_emit_end(m);
	}
	send_frame(&frame, NULL, 0);
}

static void send_name(const struct outside *o, uint64_t cr3, const char *name)
{
	struct channel_frame frame = {
	    .type = FRAME_SPACE, .cpu = (int32_t)o->vcpu->index, .cr3 = cr3};

	frame.tsc = outside_now(o->vcpu);
	send_frame(&frame, name, strlen(name));
}

/*
 * Which bits of CR3 a PIP has depends on the kind of paging. Where that changes and CR3 stays, a
 * decoder learns of it by the next PSB+, which is sent now.
 */
static void send_paging(struct outside *o)
{
	struct ptah_model *m = o->vcpu->model;

	o->paging = m->program.paging;
	if (!(m->program.cr3 & (CODE_PAGE - 1)) || !model_trace_en(m))
		return;
	model_emit_begin(m);
	m->psb_due = true;
	model_emit_end(m);
}

/* The address space as PIP packets have it; without them all code is of any. */
static void enter_space(struct outside *o)
{
	const struct model_program *p = &o->vcpu->model->program;
	const uint64_t low = p->paging == MODEL_PAGING_PAE ? 0x1f : CODE_PAGE - 1;

	if (o->paging != p->paging)
		send_paging(o);
	o->cr3 = p->cr3;
	if (o->space)
		o->last_cr3 = o->space->cr3;
	o->space = setup.control & PTAH_RTIT_CTL_OS
		       ? code_space(&o->view, p->cr3 & ~low & ~(UINT64_C(1) << 63))
		       : o->any;
	if (!o->space)
		system_no_memory();
	if (!o->space->entered && o->space != o->any)
		send_name(o, o->space->cr3, ""); /* so that the recording has it */
	o->space->entered = true;
}

static void check_code(struct outside *o, const struct code_block *code, uint64_t address)
{
	struct code_space *space;

	space = address >> 63 ? o->any : o->space;
	if (UNLIKELY(!code_is_known(space, code, address)) &&
	    !code_learn(&o->view, space, code, address))
		system_no_memory();
}

struct code_block *outside_code(const struct qemu_plugin_tb *tb)
{
	const size_t n = qemu_plugin_tb_n_insns(tb);
	const uint64_t start = qemu_plugin_tb_vaddr(tb);
	const uint8_t *host_pages[2] = {NULL, NULL};
	uint8_t bytes[2 * CODE_PAGE];
	struct code_block *block;
	size_t size = 0;

	for (size_t i = 0; i < n && size < sizeof(bytes) - X86_MAX_SIZE; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t address = start + size;
		const uint8_t *at = qemu_plugin_insn_haddr(insn);
		const bool second = start / CODE_PAGE != address / CODE_PAGE;
		uint8_t buffer[X86_MAX_SIZE];
		size_t length = X86_MAX_SIZE;
		const uint8_t *from = qemu_api_insn_bytes(insn, buffer, &length);

		if (at && !host_pages[second])
			host_pages[second] = at - address % CODE_PAGE;
		memcpy(bytes + size, from, length);
		size += length;
	}
	block = code_block_new(start, bytes, size, host_pages[0], host_pages[1]);
	if (!block)
		system_no_memory();
	block->calls_system = size >= 2 && bytes[size - 2] == 0x0f && bytes[size - 1] == 0x05;
	return block;
}

/* Beginning and end */

/*
 * Any processor with linear addresses in its packets: where the code segment has a base, others
 * send offsets, which say too little.
 */
const struct ptah_model_processor *outside_processor(void)
{
	static struct ptah_model_processor processor;

	if (!processor.name) {
		processor = *ptah_model_find("skylake");
		processor.leaf_14_0[2] |= UINT32_C(1) << 31;
		processor.errata = 0;
	}
	return &processor;
}

void outside_begin(struct system_vcpu *v, uint64_t ip)
{
	struct outside *o = calloc(1, sizeof(*o));
	struct ptah_model_context context;
	struct system_place place;

	if (!o || !(o->ring = malloc(RING)))
		system_no_memory();
	v->outside = o;
	o->vcpu = v;
	o->view = (struct code_view){.add_page = add_page, .add_map = add_map, .context = o};
	o->any = code_space(&o->view, CODE_ANY);
	if (!o->any)
		system_no_memory();
	o->granted = WISH_PAUSE;
	o->started = setup.start == CHANNEL_NONE;
	v->model->memory = ring_memory;
	v->model->pmi = NULL;
	system_find_place(v, &place);
	v->cr3 = place.cr3;
	v->base = place.base;
	context = (struct ptah_model_context){
	    .cr3 = place.cr3, .cpl = place.cpl, .mode = place.mode, .interrupts = place.interrupts};
	ptah_model_begin(v->model, ip, &context);
	ptah_model_set_tsc(v->model, outside_now(v));
	configure(o);
	enter_space(o);
	o->names.symbols = setup.symbols;
	o->was_kernel = true;
	system_tracing(v, true);
	pthread_mutex_lock(&lock);
	if (all_count < ARRAY_SIZE(all))
		all[all_count++] = o;
	pthread_mutex_unlock(&lock);
}

/* A trace that ends and begins again. What was about to run has not run. */
void outside_reset(struct system_vcpu *v)
{
	const bool on = model_trace_en(v->model);
	struct ptah_model_context context;
	struct system_place place;

	enable(v->outside, false);
	system_find_place(v, &place);
	v->running = NULL;
	v->known = false;
	v->cr3 = place.cr3;
	v->base = place.base;
	context = (struct ptah_model_context){
	    .cr3 = place.cr3, .cpl = place.cpl, .mode = place.mode, .interrupts = place.interrupts};
	ptah_model_begin(v->model, place.ip, &context);
	enable(v->outside, on);
}

static void finish_outside(struct outside *o)
{
	struct channel_frame frame = {.type = FRAME_TRUTH, .cpu = (int32_t)o->vcpu->index};
	const struct system_path *all_of = &o->vcpu->truth.all;
	const struct channel_truth truth = {
	    .instructions = all_of->counts[SYSTEM_INSNS],
	    .conditional = all_of->counts[SYSTEM_TAKEN] + all_of->counts[SYSTEM_NOT_TAKEN],
	    .indirect = all_of->counts[SYSTEM_JUMPS_IND] + all_of->counts[SYSTEM_CALLS_IND],
	    .returns = all_of->counts[SYSTEM_RETURNS],
	    .path_hash = path_hash_value(&all_of->hash),
	};

	if (o->ended)
		return;
	o->ended = true;
	enable(o, false);
	drain(o);
	frame.value = o->vcpu->truth.lost;
	frame.tsc = outside_now(o->vcpu);
	send_frame(&frame, &truth, sizeof(truth));
}

/* Does what the recorder wants, where this differs from what is done. */
NOINLINE static void grant(struct outside *o, enum wish want)
{
	struct channel_frame frame = {.type = FRAME_PAUSED, .cpu = (int32_t)o->vcpu->index};

	o->granted = want;
	if (o->ended)
		return;
	enable(o, want == WISH_TRACE && o->started);
	if (want == WISH_END) {
		finish_outside(o);
		return;
	}
	drain(o);
	frame.value = want == WISH_PAUSE;
	send_frame(&frame, NULL, 0);
}

static bool holds(const struct code_block *code, uint64_t start, uint64_t address)
{
	return address - start < code->size;
}

/* Addresses at which the trace begins or ends. */
static void watch(struct outside *o, const struct code_block *code, uint64_t address)
{
	if (!o->started && holds(code, address, setup.start)) {
		o->started = true;
		enable(o, o->granted == WISH_TRACE);
	} else if (o->started && holds(code, address, setup.stop)) {
		o->started = false;
		setup.start = CHANNEL_NONE; /* once */
		enable(o, false);
	}
}

/* Names */

/*
 * The guest has arrived in user code. Under page-table isolation a process has another address
 * space in the kernel, whose CR3 differs in one bit, and from which it has come.
 */
static void name_space(struct outside *o)
{
	const uint64_t kernel_gs = system_read(o->vcpu->cpu, HOST_KERNEL_GS);
	const bool la57 = system_read(o->vcpu->cpu, HOST_CR4) >> 12 & 1;
	struct linux_task task;

	if (!guest_names_task(&o->names, o->cr3, kernel_gs, la57, &task) || task.pid != task.tid ||
	    !task.comm[0] || !strcmp(o->space->name, task.comm))
		return;
	memcpy(o->space->name, task.comm, sizeof(o->space->name));
	send_name(o, o->space->cr3, task.comm);
	if ((o->last_cr3 ^ o->space->cr3) == CODE_PAGE)
		send_name(o, o->last_cr3, task.comm);
}

static void place_kernel(struct outside *o, uint64_t address)
{
	struct channel_frame frame = {.type = FRAME_KERNEL, .cpu = (int32_t)o->vcpu->index};

	if (!(address >> 63) || !guest_names_place(&o->names, address))
		return;
	frame.value = o->names.slide;
	send_frame(&frame, NULL, 0);
}

/* Looks who runs where the guest arrives in user code, and where its kernel is called. */
static void learn_names(struct outside *o, const struct system_block *b)
{
	const bool kernel = o->vcpu->model->program.cpl != 3;

	if (UNLIKELY(o->called && kernel && !o->names.placed))
		place_kernel(o, b->start);
	o->called = b->code->calls_system;
	if (!kernel && UNLIKELY(o->was_kernel) && b->mode == PTAH_EXEC_64)
		name_space(o);
	o->was_kernel = kernel;
}

void outside_block(struct system_vcpu *v, const struct system_block *b)
{
	struct outside *o = v->outside;
	const enum wish want = (enum wish)atomic_load_explicit(&wish, memory_order_relaxed);

	o->instructions += b->ninsn;
	if (UNLIKELY(want != o->granted))
		grant(o, want);
	if (UNLIKELY(setup.start != CHANNEL_NONE || setup.stop != CHANNEL_NONE))
		watch(o, b->code, b->start);
	if (UNLIKELY(o->cr3 != v->model->program.cr3 || o->paging != v->model->program.paging))
		enter_space(o);
	if (setup.symbols[0] != CHANNEL_NONE)
		learn_names(o, b);
	/* Also where nothing is traced there may be packets: PIP, TIP.PGD. */
	if (UNLIKELY(v->model->bytes - o->sent >= ENOUGH))
		drain(o);
	if (v->model->packet_en)
		check_code(o, b->code, b->start);
}

/*
 * The virtual CPUs stand still, or are about to: where the guest itself ends QEMU by a device,
 * others may still run. They end their traces themselves, at their next block; those that wait for
 * an interrupt do not, and get a moment.
 */
void outside_end(void)
{
	if (!outside_is_open())
		return;
	atomic_store(&wish, WISH_END);
	for (unsigned i = 0; i < all_count; i++)
		for (unsigned n = 0; !all[i]->ended && n < 20 && all_count > 1; n++)
			usleep(1000);
	for (unsigned i = 0; i < all_count; i++)
		finish_outside(all[i]);
}
