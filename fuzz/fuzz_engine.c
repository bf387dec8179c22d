/* SPDX-License-Identifier: MIT */
/*
 * Proves of the capture engine, for any calls in any order, whatever the
 * processor and its environment do meanwhile: no instruction of the engine
 * raises #GP; while TraceEn is 1 it writes no PT register but IA32_RTIT_CTL; it
 * breaks no rule of hal.h; and all output goes to the memory of the capture. A
 * capture's position never goes back. While tracing is disabled, it is the
 * number of bytes that the processors have output into the capture's buffer,
 * and these bytes can be read. The engine reports what it cannot know.
 *
 * The judge: each byte of output is a function of the capture whose memory the
 * output registers point to, and of the number of bytes that went there before.
 *
 * Input: the processor, the faults (three bytes), then calls: a byte that
 * chooses the call, and two for its arguments.
 */
#include "fuzz.h"

#include <ptah/engine/engine.h>
#include <ptah/model/machine.h>

#define CPUS	 2u
#define CAPTURES 3u
#define ARENA	 (4u << 20)
#define BLOCKS	 512u
#define NOWHERE	 (-1)
#define PT_FIRST PTAH_IA32_RTIT_OUTPUT_BASE
#define PT_LAST	 0x587u /* IA32_RTIT_ADDR3_B */
#define GAP_PUT	 64u

struct shadow {
	struct ptah_capture *c;
	unsigned serial;
	bool single;
	uint64_t output;   /* bytes that processors have output into its buffer */
	uint64_t laps;	   /* of these, bytes in laps that the engine reported as unseen */
	uint64_t floor;	   /* bytes below may have been overwritten in a reset */
	uint64_t position; /* at the last check */
	uint64_t compared;
	uint32_t flags; /* of all records since they were last read */
	uint64_t mapping;
	int in; /* the processor that its thread is on */
};

/* Memory of the engine, and the capture that it belongs to. */
struct block {
	uint64_t physical, size;
	int slot; /* NOWHERE: of the engine itself */
};

static struct play {
	struct ptah_machine *machine;
	struct ptah_model_processor processor;
	struct ptah_hal inner, hal;
	struct ptah_engine *engine;
	struct shadow shadow[CAPTURES];
	struct block blocks[BLOCKS];
	size_t nblocks;
	int slot; /* the capture for which memory is being allocated */
	bool resizing;
	unsigned serial, cpu;
	bool offline[CPUS], vmx[CPUS], announced[CPUS];
	int guest; /* the capture that runs as a guest on `cpu` */
	struct ptah_model_vmcs vmcs;
	unsigned gaps;
	uint64_t chance;
	bool closing;
} p;

static uint8_t *arena;

static struct ptah_model *model(unsigned cpu)
{
	return ptah_machine_model(p.machine, cpu);
}

static uint64_t read_msr(unsigned cpu, uint32_t msr)
{
	uint64_t value = 0;

	ptah_model_rdmsr(model(cpu), msr, &value);
	return value;
}

static bool is_tracing(unsigned cpu)
{
	return read_msr(cpu, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_TRACE_EN;
}

static uint8_t byte_of(unsigned serial, uint64_t index)
{
	return (uint8_t)((index + serial * UINT64_C(0x51ed27)) * UINT64_C(0x9e3779b97f4a7c15) >>
			 56);
}

/* The processor's output */

/* Returns the capture whose memory this processor outputs to. There must be one. */
static struct shadow *traced_on(unsigned cpu)
{
	uint64_t base;
	size_t i;

	if (!is_tracing(cpu))
		return NULL;
	/* SDM: a read while TraceEn is 1 may lag, but even then the table is the capture's. */
	base = read_msr(cpu, PTAH_IA32_RTIT_OUTPUT_BASE);
	for (i = 0; i < p.nblocks; i++) {
		const struct block *b = &p.blocks[i];

		if (base >= b->physical && base - b->physical < b->size) {
			CHECK(b->slot != NOWHERE && p.shadow[b->slot].serial);
			return &p.shadow[b->slot];
		}
	}
	CHECK(!"a trace goes to memory that is nobody's");
	return NULL;
}

/* PMIs come at the end of each part, so all of a part belongs to one capture. */
static void put(unsigned cpu, unsigned n)
{
	uint8_t bytes[64];

	while (n) {
		struct shadow *s = traced_on(cpu);
		unsigned part = n < sizeof(bytes) ? n : (unsigned)sizeof(bytes), i;
		uint64_t before;

		if (!s)
			return;
		for (i = 0; i < part; i++)
			bytes[i] = byte_of(s->serial, s->output + i);
		before = ptah_model_output_bytes(model(cpu), NULL);
		ptah_model_put(model(cpu), bytes, part);
		s->output += ptah_model_output_bytes(model(cpu), NULL) - before;
		ptah_model_boundary(model(cpu));
		n -= part;
	}
}

/* The judge between the engine and the machine */

static int judged_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	int status;

	if (msr >= PT_FIRST && msr <= PT_LAST && msr != PTAH_IA32_RTIT_CTL)
		CHECK(!is_tracing(ptah_machine_cpu(p.machine)));
	status = p.inner.wrmsr(port, msr, value);
	CHECK(status == PTAH_OK);
	return status;
}

static int judged_xrstors(void *port, void *area, uint64_t components)
{
	int status;

	CHECK(!is_tracing(ptah_machine_cpu(p.machine)));
	status = p.inner.xrstors(port, area, components);
	CHECK(status == PTAH_OK);
	return status;
}

static int judged_xsaves(void *port, void *area, uint64_t components)
{
	int status = p.inner.xsaves(port, area, components);

	CHECK(status == PTAH_OK);
	return status;
}

static int noted_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	int status = p.inner.alloc(port, size, align, memory);

	if (status == PTAH_OK) {
		CHECK(p.nblocks < BLOCKS);
		p.blocks[p.nblocks++] = (struct block){memory->physical, memory->size, p.slot};
	}
	return status;
}

static void noted_release(void *port, const struct ptah_hal_memory *memory)
{
	unsigned cpu;
	size_t i;

	for (i = 0; i < p.nblocks && p.blocks[i].physical != memory->physical; i++)
		;
	CHECK(i < p.nblocks);
	/* What a resized capture releases is its old memory: no table in it may be in use. */
	for (cpu = 0; cpu < CPUS; cpu++) {
		uint64_t base = read_msr(cpu, PTAH_IA32_RTIT_OUTPUT_BASE);

		if (is_tracing(cpu) && p.resizing)
			CHECK(base - p.blocks[i].physical >= p.blocks[i].size);
		else
			CHECK(!is_tracing(cpu) || traced_on(cpu) != &p.shadow[p.blocks[i].slot]);
	}
	p.blocks[i] = p.blocks[--p.nblocks];
	p.inner.release(port, memory);
}

static void leave_guest(void)
{
	struct shadow *s = &p.shadow[p.guest];

	p.guest = NOWHERE;
	CHECK(ptah_model_vm_exit(model(p.cpu), &p.vmcs) == PTAH_OK);
	ptah_capture_vmexit(s->c);
}

/* In a guest the NMI causes a VM exit. The host calls vmexit() later, not in the NMI's handler. */
static void on_pmi(void *argument, unsigned cpu)
{
	const bool in = p.guest != NOWHERE && cpu == p.cpu;

	(void)argument;
	if (in)
		CHECK(ptah_model_vm_exit(model(cpu), &p.vmcs) == PTAH_OK);
	if (in)
		p.guest = NOWHERE;
	ptah_engine_pmi(p.engine);
}

/* Between two instructions of the engine: they are traced too, and NMIs and SMIs are delivered. */
static void on_gap(void *argument, unsigned cpu, const char *callback)
{
	struct ptah_model *m = model(cpu);

	(void)argument;
	(void)callback;
	if (!p.gaps)
		return;
	p.gaps--;
	switch (fuzz_random(&p.chance) % 8) {
	case 0:
		ptah_model_nmi(m);
		break;
	case 1:
		CHECK(ptah_model_smi(m) == PTAH_OK && ptah_model_rsm(m) == PTAH_OK);
		break;
	default:
		put(cpu, (unsigned)(fuzz_random(&p.chance) % GAP_PUT));
	}
}

/* The checks */

static void compare(const struct shadow *s, uint64_t from, uint64_t to)
{
	struct ptah_piece pieces[4];
	uint64_t at = from;

	while (at < to) {
		int n = ptah_capture_pieces(s->c, at, to, pieces, 4), i;

		CHECK(n > 0);
		for (i = 0; i < n; i++) {
			const uint8_t *bytes = pieces[i].address;
			size_t k;

			for (k = 0; k < pieces[i].size; k++, at++)
				CHECK(bytes[k] == byte_of(s->serial, at + s->laps));
		}
	}
	CHECK(at == to);
}

static void take_records(struct shadow *s)
{
	struct ptah_capture_record records[8];
	int n, i;

	while ((n = ptah_capture_records(s->c, records, 8)) > 0) {
		for (i = 0; i < n; i++)
			s->flags |= records[i].flags;
	}
	CHECK(n == 0);
}

/*
 * With a single range the engine can notice one lap, but not count several; it
 * reports that it may be more.
 */
static void account_laps(struct shadow *s, const struct ptah_capture_status *now)
{
	uint64_t missing = s->output - s->laps - now->position;

	if (!missing)
		return;
	CHECK(s->single && s->flags & PTAH_CAPTURED_UNSURE && missing % now->buffer == 0);
	s->laps += missing;
}

static void check(struct shadow *s)
{
	struct ptah_capture_status now = {.size = sizeof(now)};
	uint64_t from;

	if (!s->c)
		return;
	CHECK(ptah_capture_status(s->c, &now) == PTAH_OK);
	CHECK(now.state < PTAH_CAPTURE_STATE_MAX && now.msr == 0);
	CHECK(now.position >= s->position && now.tail <= now.position);
	CHECK(now.position <= s->output - s->laps || s->single);
	CHECK(now.policy == PTAH_POLICY_WRAP || now.oldest <= now.tail);
	s->position = now.position;
	take_records(s);
	CHECK(!(s->flags & PTAH_CAPTURED_ERROR));
	CHECK(!(s->flags & PTAH_CAPTURED_UNSURE) || s->single);
	if (now.cpu >= 0)
		return;
	account_laps(s, &now);
	from = now.oldest > s->floor ? now.oldest : s->floor;
	if (now.policy == PTAH_POLICY_DRAIN && now.tail > from)
		from = now.tail;
	if (s->compared != s->output)
		compare(s, from < now.position ? from : now.position, now.position);
	s->compared = s->output;
	s->flags = 0;
}

static void check_all(void)
{
	const char *violation = ptah_machine_violation(p.machine);
	unsigned i;

	if (violation)
		fprintf(stderr, "%s\n", violation);
	CHECK(!violation);
	for (i = 0; i < CPUS; i++)
		CHECK(!p.offline[i] || !is_tracing(i));
	for (i = 0; i < CAPTURES; i++)
		check(&p.shadow[i]);
}

/* Inside the PMI, with tracing disabled: the bytes that the engine passes are in the buffer. */
static uint64_t on_drain(void *cookie, struct ptah_capture *c, uint64_t tail, uint64_t position)
{
	const struct shadow *s = cookie;

	(void)c;
	CHECK(position == s->output - s->laps || p.closing);
	if (s->c)
		compare(s, tail > s->floor ? tail : s->floor, position);
	return tail + fuzz_random(&p.chance) % (position - tail + 1);
}

/* Calls */

static void pinned(void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs = p.hal.irq_save(p.machine);

	what(p.engine);
	p.hal.irq_restore(p.machine, irqs);
}

static void create(struct shadow *s, unsigned a, unsigned b)
{
	static const size_t regions[] = {0, 4096, 8192, 16384};
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct ptah_capture_config config = {.size = sizeof(config)};
	struct ptah_trace_config trace;
	int result;

	if (s->c)
		return;
	*s = (struct shadow){.serial = ++p.serial, .in = NOWHERE};
	ptah_trace_config_default(ptah_engine_caps(p.engine, 0), &trace);
	trace.force_psb = b & 1;
	config.trace = &trace;
	config.cpu = a % 3 < CPUS ? (int)(a % 3) : PTAH_CAPTURE_THREAD;
	config.owner = a & 1;
	config.shape = (uint8_t)(a / 3 % PTAH_SHAPE_MAX);
	config.policy = (uint8_t)(a / 12 % PTAH_POLICY_MAX);
	config.paused = a & 0x80;
	config.no_pmi = b & 2;
	config.no_xsaves = b & 4;
	config.region = regions[b >> 3 & 3];
	config.buffer = b & 0x20 ? 32768 : 16384 * (1 + (b >> 5));
	config.records = 1 + (b & 8);
	config.records = config.records > 1 ? 16 : 1;
	config.cookie = s;
	config.drain = config.policy == PTAH_POLICY_DRAIN && b & 0x10 ? on_drain : NULL;
	p.slot = (int)(s - p.shadow);
	result = ptah_capture_new(p.engine, &config, &s->c, NULL);
	p.slot = NOWHERE;
	CHECK(result == PTAH_OK || result == PTAH_E_INVAL || result == PTAH_E_NOMEM);
	if (result != PTAH_OK) {
		*s = (struct shadow){.in = NOWHERE};
		return;
	}
	CHECK(ptah_capture_status(s->c, &status) == PTAH_OK);
	s->single = status.shape == PTAH_SHAPE_SINGLE;
}

static void forget(struct shadow *s)
{
	*s = (struct shadow){.in = NOWHERE};
}

static void destroy(struct shadow *s)
{
	int status = ptah_capture_free(s->c);

	CHECK(status == (s->mapping ? PTAH_E_BUSY : PTAH_OK));
	if (status == PTAH_OK)
		forget(s);
}

static void reconfigure(struct shadow *s, unsigned a)
{
	struct ptah_trace_config trace;
	int status;

	ptah_trace_config_default(ptah_engine_caps(p.engine, 0), &trace);
	trace.no_retcomp = a & 1;
	trace.tsc = a & 2;
	trace.force_psb = a & 4;
	trace.psb_period = a >> 4;
	status = ptah_capture_reconfigure(s->c, &trace, NULL);
	CHECK(status == PTAH_OK || status == PTAH_E_INVAL);
}

/* Nothing changes but the buffer, and on failure not even that. */
static void resize(struct shadow *s, unsigned a, unsigned b)
{
	static const size_t regions[] = {0, 4096, 8192, 0};
	struct ptah_capture_status before = {.size = sizeof(before)}, after = before;
	size_t buffer = a & 1 ? (size_t)16384 << (a >> 1 & 3) : 16384 * (size_t)(1 + (a >> 4));
	int status;

	CHECK(ptah_capture_status(s->c, &before) == PTAH_OK);
	p.slot = (int)(s - p.shadow);
	p.resizing = true;
	status = ptah_capture_resize(s->c, buffer, regions[b & 3], NULL);
	p.resizing = false;
	p.slot = NOWHERE;
	CHECK(ptah_capture_status(s->c, &after) == PTAH_OK);
	CHECK(status == PTAH_OK || status == PTAH_E_INVAL || status == PTAH_E_NOMEM ||
	      (status == PTAH_E_BUSY && s->mapping) ||
	      (status == PTAH_E_NOSPACE && before.policy != PTAH_POLICY_WRAP));
	CHECK(status == PTAH_OK || after.buffer == before.buffer);
	CHECK(after.tail >= before.tail);
	if (status == PTAH_OK)
		s->compared = UINT64_MAX;
}

/* Tracing goes on, and what is reported lies between the last look and the truth. */
static void live(struct shadow *s)
{
	struct ptah_capture_live l = {.size = sizeof(l)};
	uint64_t before = ptah_capture_position(s->c);

	if (ptah_capture_live(s->c, &l) != PTAH_OK)
		return;
	CHECK(l.position >= before && l.limit >= l.position);
	CHECK(l.position <= s->output - s->laps);
	CHECK(!l.exact || l.position == l.limit);
}

static void consume(struct shadow *s, unsigned a)
{
	struct ptah_capture_status now = {.size = sizeof(now)};
	uint64_t upto, lost;

	CHECK(ptah_capture_status(s->c, &now) == PTAH_OK);
	upto = now.tail + (now.position - now.tail) * a / 255;
	CHECK(ptah_capture_consume(s->c, upto, &lost) == PTAH_OK);
	CHECK(lost <= upto - now.tail && (now.policy == PTAH_POLICY_WRAP || !lost));
	CHECK(ptah_capture_consume(s->c, UINT64_MAX, &lost) == PTAH_E_INVAL);
}

static void switch_out(struct shadow *s)
{
	uint64_t irqs;

	if (s->in == NOWHERE || p.offline[s->in])
		return;
	ptah_machine_set_cpu(p.machine, (unsigned)s->in);
	irqs = p.hal.irq_save(p.machine);
	ptah_capture_switch_out(s->c);
	p.hal.irq_restore(p.machine, irqs);
	ptah_machine_set_cpu(p.machine, p.cpu);
	s->in = NOWHERE;
}

/* What a scheduler guarantees: a thread is on one processor, and a processor runs one thread. */
static void switch_in(struct shadow *s)
{
	uint64_t irqs;
	unsigned i;
	int status;

	for (i = 0; i < CAPTURES; i++) {
		if (&p.shadow[i] == s || p.shadow[i].in == (int)p.cpu)
			switch_out(&p.shadow[i]);
	}
	irqs = p.hal.irq_save(p.machine);
	status = ptah_capture_switch_in(s->c);
	p.hal.irq_restore(p.machine, irqs);
	if (status != PTAH_E_INVAL)
		s->in = (int)p.cpu;
}

static void go_offline(void)
{
	unsigned i;

	if (p.offline[p.cpu ^ 1])
		return;
	pinned(ptah_engine_cpu_offline);
	CHECK(!is_tracing(p.cpu));
	ptah_machine_set_online(p.machine, p.cpu, false);
	p.offline[p.cpu] = true;
	for (i = 0; i < CAPTURES; i++) {
		if (p.shadow[i].in == (int)p.cpu)
			p.shadow[i].in = NOWHERE;
	}
	p.cpu ^= 1;
	ptah_machine_set_cpu(p.machine, p.cpu);
}

static void come_online(unsigned cpu, bool slept)
{
	if (!p.offline[cpu])
		return;
	if (slept && !p.vmx[cpu]) {
		ptah_model_reset(model(cpu), true);
		ptah_model_wrmsr(model(cpu), PTAH_IA32_XSS, PTAH_XSTATE_PT);
	}
	ptah_machine_set_online(p.machine, cpu, true);
	p.offline[cpu] = false;
	ptah_machine_set_cpu(p.machine, cpu);
	pinned(ptah_engine_cpu_online);
	ptah_machine_set_cpu(p.machine, p.cpu);
}

/* With notice, or without it before VMXON: the engine then notices by itself. */
static void toggle_vmx(bool announce)
{
	if (!p.vmx[p.cpu]) {
		p.announced[p.cpu] = announce;
		if (announce)
			pinned(ptah_engine_vmxon);
		p.vmx[p.cpu] = ptah_model_vmxon(model(p.cpu)) == PTAH_OK;
	} else {
		CHECK(ptah_model_vmxoff(model(p.cpu)) == PTAH_OK);
		p.vmx[p.cpu] = false;
	}
	if (!p.vmx[p.cpu] && p.announced[p.cpu])
		pinned(ptah_engine_vmxoff);
}

/* TraceEn is cleared without notice: the engine reports that at its next call. */
static void lose_trace_en(bool senter)
{
	struct shadow *s = traced_on(p.cpu);

	if (senter) {
		ptah_model_senter(model(p.cpu));
	} else if (p.vmx[p.cpu] || ptah_model_processor(model(p.cpu))->vmx_pt) {
		return;
	} else {
		p.announced[p.cpu] = false;
		p.vmx[p.cpu] = ptah_model_vmxon(model(p.cpu)) == PTAH_OK;
		if (!p.vmx[p.cpu])
			return;
	}
	if (!s)
		return;
	ptah_capture_flush(s->c, NULL);
	take_records(s);
	CHECK(s->flags & PTAH_CAPTURED_PARTIAL);
}

static void run_guest(struct shadow *s, unsigned n)
{
	uint64_t irqs;
	int status;

	if (!p.vmx[p.cpu] || !ptah_model_processor(model(p.cpu))->vmx_pt)
		return;
	p.vmcs = (struct ptah_model_vmcs){.load_rtit_ctl = true, .clear_rtit_ctl = true};
	irqs = p.hal.irq_save(p.machine);
	status = ptah_capture_vmentry(s->c, &p.vmcs.guest_rtit_ctl);
	if (status == PTAH_OK) {
		p.guest = (int)(s - p.shadow);
		CHECK(ptah_model_vm_entry(model(p.cpu), &p.vmcs) == PTAH_OK);
		if (p.guest != NOWHERE)
			put(p.cpu, n);
		if (p.guest != NOWHERE)
			leave_guest();
		else
			ptah_capture_vmexit(s->c);
	}
	p.hal.irq_restore(p.machine, irqs);
}

static void toggle_map(struct shadow *s)
{
	if (s->mapping) {
		CHECK(ptah_capture_unmap(s->c, 9, s->mapping) == PTAH_OK);
		s->mapping = 0;
	} else if (ptah_capture_map(s->c, 9, true, &s->mapping) < 0) {
		s->mapping = 0;
	}
}

static void owner_dies(uint64_t owner)
{
	unsigned i;

	/* Owners 0 and 1 have captures, owner 9 has mappings. */
	ptah_engine_release_owner(p.engine, owner);
	for (i = 0; i < CAPTURES; i++) {
		struct shadow *s = &p.shadow[i];
		size_t k;
		bool there = false;

		for (k = 0; k < p.nblocks; k++)
			there |= p.blocks[k].slot == (int)i;
		if (s->c && !there)
			forget(s);
		else if (owner == 9)
			s->mapping = 0;
	}
}

static void set_faults(unsigned a, unsigned b, unsigned c)
{
	struct ptah_model_faults faults = {
	    .silent = true,
	    .stale_bytes = a & 1 ? b * 16 : 0,
	    .pmi_skid_bytes = a & 2 ? b * 32 : 0,
	    .pmi_skid_boundaries = a & 4 ? c : 0,
	    .cache_next = a & 8,
	    .withhold = a & 16 ? c & 63 : 0,
	    .ack_needs_topa = a & 32,
	    .pmi_lost_when_masked = a & 64,
	};
	unsigned cpu;

	for (cpu = 0; cpu < CPUS; cpu++)
		ptah_model_set_faults(model(cpu), &faults);
}

/* Calls a function of the capture `s`, which exists. */
static void call_of(struct shadow *s, unsigned which, unsigned a)
{
	switch (which) {
	case 0:
		ptah_capture_start(s->c);
		break;
	case 1:
		CHECK(ptah_capture_stop(s->c) == PTAH_OK);
		break;
	case 2:
		ptah_capture_pause(s->c);
		break;
	case 3:
		ptah_capture_resume(s->c);
		break;
	case 4:
		CHECK(ptah_capture_flush(s->c, NULL) == PTAH_OK);
		break;
	case 5:
		reconfigure(s, a);
		break;
	case 6:
		consume(s, a);
		break;
	case 7:
		switch_in(s);
		break;
	case 8:
		switch_out(s);
		break;
	case 9:
		run_guest(s, a * 64);
		break;
	case 10:
		toggle_map(s);
		break;
	case 11:
		ptah_capture_pause_here(s->c);
		break;
	case 12:
		ptah_capture_resume_here(s->c);
		break;
	default:
		destroy(s);
	}
}

static void event(unsigned which, unsigned a, unsigned b)
{
	switch (which) {
	case 0:
	case 1:
		put(p.cpu, a * 16 + b);
		break;
	case 2:
		put(p.cpu, (a + 1) * 512);
		break;
	case 3:
		p.gaps = a;
		break;
	case 4:
		if (!p.offline[p.cpu ^ 1])
			p.cpu ^= 1;
		ptah_machine_set_cpu(p.machine, p.cpu);
		break;
	case 5:
		ptah_model_nmi(model(p.cpu));
		break;
	case 6:
		go_offline();
		break;
	case 7:
		come_online(p.cpu ^ 1, a & 1);
		break;
	case 8:
		toggle_vmx(a & 1);
		break;
	case 9:
		lose_trace_en(a & 1);
		break;
	case 10:
		CHECK(ptah_model_smi(model(p.cpu)) == PTAH_OK);
		CHECK(ptah_model_rsm(model(p.cpu)) == PTAH_OK);
		break;
	case 11:
		set_faults(a, b, a ^ b);
		break;
	case 12:
		ptah_machine_fail_alloc(p.machine, a % 8);
		break;
	default:
		owner_dies(a % 3 < 2 ? a % 3 : 9);
	}
}

static void act(unsigned which, unsigned a, unsigned b)
{
	struct shadow *s = &p.shadow[which % 4 % CAPTURES];

	which /= 4;
	if (which < 14)
		event(which, a, b);
	else if (which < 20 || !s->c)
		create(s, a, b);
	else if (which >= 62)
		live(s);
	else if (which >= 60)
		resize(s, a, b);
	else
		call_of(s, which % 14, a);
	check_all();
}

static bool open_play(unsigned which)
{
	static const char *const names[] = {"skylake",	     "broadwell", "maximal", "minimal",
					    "minimal-range", "goldmont",  "tremont", "skylake"};
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = CPUS,
	    .arena_size = ARENA,
	    .physical = 0x10000000,
	    .maskable = which & 0x80,
	};

	memset(&p, 0, sizeof(p));
	p.chance = which * 2 + 1;
	p.slot = p.guest = NOWHERE;
	p.processor = *ptah_model_find(names[which & 7]);
	p.processor.vmx = true;
	if (which & 0x40)
		p.processor.vmx_pt = false;
	config.processor = &p.processor;
	if (!arena)
		arena = aligned_alloc(4096, ARENA);
	p.machine = malloc(ptah_machine_size(CPUS));
	CHECK(arena && p.machine);
	config.arena = arena;
	CHECK(ptah_machine_init(p.machine, &config) == PTAH_OK);
	ptah_machine_hal(p.machine, &p.inner);
	p.hal = p.inner;
	p.hal.wrmsr = judged_wrmsr;
	p.hal.alloc = noted_alloc;
	p.hal.release = noted_release;
	if (p.inner.xsaves) {
		p.hal.xsaves = judged_xsaves;
		p.hal.xrstors = judged_xrstors;
	}
	ptah_machine_on_pmi(p.machine, on_pmi, NULL);
	ptah_machine_on_gap(p.machine, on_gap, NULL);
	return ptah_engine_new(&p.hal, p.machine, &p.engine) == PTAH_OK;
}

static void close_play(void)
{
	unsigned i;

	p.gaps = 0;
	ptah_machine_fail_alloc(p.machine, 0);
	come_online(p.cpu ^ 1, false);
	for (i = 0; i < CAPTURES; i++) {
		struct shadow *s = &p.shadow[i];

		if (!s->c)
			continue;
		CHECK(ptah_capture_stop(s->c) == PTAH_OK);
		s->compared = UINT64_MAX;
		check_all();
		if (s->mapping)
			toggle_map(s);
		destroy(s);
	}
	CHECK(!is_tracing(0) && !is_tracing(1));
	CHECK(ptah_engine_free(p.engine) == PTAH_OK);
	CHECK(!ptah_machine_violation(p.machine));
	CHECK(ptah_machine_allocated(p.machine) == 0 && ptah_machine_mapped(p.machine) == 0);
	free(p.machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t i;

	if (size < 4)
		return 0;
	CHECK(open_play(data[0]));
	set_faults(data[1], data[2], data[3]);
	for (i = 4; i + 3 <= size && i < 4 + 3 * 400; i += 3)
		act(data[i], data[i + 1], data[i + 2]);
	close_play();
	return 0;
}
