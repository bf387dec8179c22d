/* SPDX-License-Identifier: MIT */
/*
 * The recorder vm: records a virtual machine from outside, from its first instruction on. It runs
 * QEMU with the plugin ptah-system.so, which sends the processors' trace and the code that ran
 * through a socket (record/system/channel.h), and writes both into the recording.
 */
#include "perfdata/format.h"
#include "support/monotonic.h"
#include "record/recorder.h"
#include "record/system/channel.h"
#include "record/vm/guest_symbols.h"

#include <ptah/engine/rtit.h>
#include <ptah/record.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_PSB_PERIOD 3 /* 16 KiB */
#define CPU_MAX		   1024
#define END_MS		   5000

struct recording {
	struct ptah_recorder *r;
	char **command; /* of QEMU */
	char *plugin;	/* of the command, with the descriptor of the socket */
	pid_t pid;	/* 0: it has ended */
	int socket, plugins;
	struct channel_frame frame; /* the one that is being received */
	uint8_t *bytes;
	size_t got;	  /* of the frame and its bytes */
	bool closed;	  /* the plugin sends nothing any more */
	unsigned paused;  /* processors that have done what was ordered last */
	unsigned started; /* processors that have sent anything */
	bool seen[CPU_MAX];
	bool truth[CPU_MAX];
	uint64_t instructions[CPU_MAX];
	uint64_t lost;
	struct guest_symbols *symbols;
	bool placed; /* the recording says where the kernel lies */
};

static int fail_system(struct recording *r, const char *what)
{
	return recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM, "%s: %s", what,
			     strerror(errno));
}

/* Frames */

static void on_trace(struct recording *r)
{
	const struct channel_frame *f = &r->frame;
	const struct perfdata_aux aux = {.index = (uint32_t)f->cpu,
					 .tid = -1,
					 .cpu = f->cpu,
					 .offset = f->value,
					 .reference = f->tsc ? f->tsc : 1,
					 .bytes = r->bytes,
					 .size = f->bytes};

	recorder_wrote(r->r, perfdata_write_aux(r->r->writer, &aux));
	r->r->status.trace_bytes += f->bytes;
}

static void on_truth(struct recording *r)
{
	const struct channel_frame *f = &r->frame;
	struct channel_truth t;
	struct ptah_truth truth;

	memcpy(&t, r->bytes, sizeof(t));
	truth = (struct ptah_truth){.instructions = t.instructions,
				    .conditional = t.conditional,
				    .indirect = t.indirect,
				    .returns = t.returns,
				    .path_hash = t.path_hash};
	r->truth[f->cpu] = true;
	r->instructions[f->cpu] = t.instructions;
	r->lost += f->value;
	recorder_wrote(
	    r->r, perfdata_add_truth(r->r->writer, (uint32_t)f->cpu, -1, -1, &truth, f->value));
}

static void on_map(struct recording *r)
{
	const struct channel_frame *f = &r->frame;
	const struct perfdata_guest_map map = {.cpu = f->cpu,
					       .page = (uint32_t)f->value,
					       .tsc = f->tsc,
					       .address = f->address,
					       .cr3 = f->cr3};

	recorder_wrote(r->r, perfdata_add_guest_map(r->r->writer, &map));
}

/* Up to the end of what kernels map: modules lie behind the kernel itself. */
#define KERNEL_END UINT64_C(0xffffffffff000000)

static void on_kernel(struct recording *r)
{
	const uint64_t text = guest_symbol(r->symbols, "_text") + r->frame.value;
	const struct perfdata_mapping mapping = {
	    .address = text, .size = KERNEL_END - text, .file_offset = text};
	const struct perfdata_build_id none = {.size = 0};

	if (r->placed || text >= KERNEL_END || text < UINT64_C(1) << 63)
		return;
	r->placed = true;
	recorder_wrote(r->r, perfdata_write_kernel_map(r->r->writer, 0, &mapping,
						       "[kernel.kallsyms]_text", &none));
}

static void on_text(struct recording *r)
{
	char text[1024];
	const size_t n = r->frame.bytes < sizeof(text) - 1 ? r->frame.bytes : sizeof(text) - 1;

	memcpy(text, r->bytes, n);
	text[n] = '\0';
	if (r->frame.type == FRAME_NOTE)
		recorder_note(r->r, "%s", text);
	else
		recorder_wrote(r->r,
			       perfdata_add_space(r->r->writer, r->frame.cr3, r->frame.tsc, text));
}

/* The plugin runs beside the emulated machine, and not in it; but a frame may have been cut. */
static bool is_sound(const struct channel_frame *f)
{
	return f->cpu >= 0 && f->cpu < CPU_MAX && f->bytes <= CHANNEL_FRAME_MAX &&
	       (f->type != FRAME_PAGE || f->bytes == PERFDATA_PAGE) &&
	       (f->type != FRAME_TRUTH || f->bytes == sizeof(struct channel_truth));
}

static void on_frame(struct recording *r)
{
	const struct channel_frame *f = &r->frame;

	if (!r->seen[f->cpu] && (f->type == FRAME_TRACE || f->type == FRAME_PAUSED)) {
		r->seen[f->cpu] = true;
		r->r->status.threads++;
		r->started++;
	}
	switch (f->type) {
	case FRAME_TRACE:
		on_trace(r);
		break;
	case FRAME_PAGE:
		recorder_wrote(r->r, perfdata_add_page(r->r->writer, (uint32_t)f->value, r->bytes));
		break;
	case FRAME_MAP:
		on_map(r);
		break;
	case FRAME_SPACE:
	case FRAME_NOTE:
		on_text(r);
		break;
	case FRAME_KERNEL:
		on_kernel(r);
		break;
	case FRAME_TRUTH:
		on_truth(r);
		break;
	case FRAME_PROGRESS:
		r->instructions[f->cpu] = f->value;
		break;
	case FRAME_PAUSED:
		r->paused++;
		break;
	default:
		break;
	}
}

/* Receives some bytes. False: none are there. */
static bool receive(struct recording *r, uint8_t *to, size_t n)
{
	const ssize_t got = recv(r->socket, to, n, MSG_DONTWAIT);

	if (got > 0)
		r->got += (size_t)got;
	else if (!got || (errno != EAGAIN && errno != EINTR))
		r->closed = true;
	return got > 0;
}

static bool receive_frame(struct recording *r)
{
	const size_t head = sizeof(r->frame);

	if (r->got < head)
		return receive(r, (uint8_t *)&r->frame + r->got, head - r->got);
	return receive(r, r->bytes + (r->got - head), r->frame.bytes - (r->got - head));
}

/* Takes what has come. False: nothing had. */
static bool take_frames(struct recording *r)
{
	bool any = false;

	while (!r->closed && r->r->error >= 0 && receive_frame(r)) {
		any = true;
		if (r->got < sizeof(r->frame))
			continue;
		if (!is_sound(&r->frame)) {
			recorder_fail(r->r, PTAH_RECORD_BROKEN, PTAH_E_BAD_FILE,
				      "the plugin sent something that makes no sense: it is of "
				      "another version");
			return false;
		}
		if (r->got < sizeof(r->frame) + r->frame.bytes)
			continue;
		on_frame(r);
		r->got = 0;
		if (recorder_is_full(r->r))
			break;
	}
	return any;
}

static void count_progress(struct recording *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < CPU_MAX; i++)
		n += r->instructions[i];
	r->r->status.instructions = n;
}

static void wait_and_take(struct recording *r, int timeout_ms)
{
	struct pollfd fd = {.fd = r->closed ? -1 : r->socket, .events = POLLIN};

	if (poll(&fd, 1, timeout_ms) > 0)
		take_frames(r);
	count_progress(r);
	recorder_flush(r->r);
}

static void order(struct recording *r, enum channel_order what)
{
	const char byte = (char)what;

	if (!r->closed && send(r->socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		r->closed = true;
}

/* The machine */

static int start_vm(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	r->pid = fork();
	if (r->pid == 0) {
		if (fcntl(r->plugins, F_SETFD, 0))
			_exit(127);
		execv(r->command[0], r->command);
		_exit(127);
	}
	close(r->plugins);
	r->plugins = -1;
	if (r->pid < 0) {
		r->pid = 0;
		return fail_system(r, r->command[0]);
	}
	recorder->status.pid = r->pid;
	recorder->status.processes = 1;
	return 0;
}

static void note_rest(struct recording *r)
{
	unsigned without = 0;

	for (unsigned i = 0; i < CPU_MAX; i++)
		without += r->seen[i] && !r->truth[i];
	if (without)
		recorder_note(
		    r->r,
		    "the trace of %u processor%s has no end: QEMU was killed, and what it "
		    "had not sent is missing",
		    without, without > 1 ? "s" : "");
	if (r->lost)
		recorder_note(r->r,
			      "%" PRIu64 " times the plugin could not follow where a processor "
			      "went: the trace is not exact there",
			      r->lost);
	if (r->symbols && !r->placed)
		recorder_note(r->r, "where the guest's kernel lay is not known, because no "
				    "program called it: its functions have no names");
}

static int end_vm_recording(struct recording *r)
{
	note_rest(r);
	if (!r->started && r->r->error >= 0)
		recorder_fail(
		    r->r, PTAH_RECORD_NO_EMULATOR, PTAH_E_EMPTY,
		    "nothing was recorded: %s did not run a guest (its own message stands "
		    "above)",
		    r->command[0]);
	return r->r->error;
}

static int poll_machine(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	pid_t pid;

	wait_and_take(r, timeout_ms);
	if (recorder->error < 0)
		return recorder->error;
	if (recorder_is_full(recorder))
		return 1; /* ptah_recorder_poll() ends the recording */
	pid = waitpid(r->pid, &recorder->status.wait_status, WNOHANG);
	if (pid != r->pid && !(pid < 0 && errno != EINTR)) {
		if (r->closed) /* QEMU is about to end */
			poll(NULL, 0, timeout_ms < 10 ? timeout_ms : 10);
		return 1;
	}
	r->pid = recorder->status.pid = 0;
	while (!r->closed && recorder->error >= 0 && take_frames(r))
		;
	count_progress(r);
	return end_vm_recording(r);
}

/* Waits until every processor has answered an order; those that sleep do not. */
static int await_answers(struct recording *r, int most_ms)
{
	const int64_t until = monotonic_ms() + most_ms;

	while (r->paused < r->started && !r->closed && r->r->error >= 0 && monotonic_ms() < until &&
	       !recorder_is_late(r->r))
		wait_and_take(r, 10);
	return r->r->error;
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	struct recording *r = recorder->self;

	r->paused = 0;
	order(r, on ? ORDER_PAUSE : ORDER_RESUME);
	return await_answers(r, 200);
}

static int no_snapshot(struct ptah_recorder *recorder)
{
	(void)recorder;
	return PTAH_E_INVAL;
}

static int stop_vm(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	const int64_t until = monotonic_ms() + END_MS;
	unsigned truths = 0;

	if (!r->pid)
		return recorder->error;
	order(r, ORDER_END);
	while (truths < r->started && !r->closed && recorder->error >= 0 &&
	       monotonic_ms() < until && !recorder_is_late(recorder)) {
		wait_and_take(r, 10);
		truths = 0;
		for (unsigned i = 0; i < CPU_MAX; i++)
			truths += r->truth[i];
	}
	shutdown(r->socket, SHUT_RDWR);
	return end_vm_recording(r);
}

/* Opening and closing */

static enum ptah_record_problem check_trace(const struct ptah_record_config *config,
					    struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;
	const struct ptah_trace_config *trace = &config->trace;

	if (!trace->tsc || !trace->branch)
		return recorder_refuse(why, no,
				       "TSC and branch packets cannot be left out: without them "
				       "nothing could be decoded");
	if (trace->cyc || (trace->mtc && trace->mtc_period != PTAH_RECORD_CHOOSE))
		return recorder_refuse(why, no,
				       "a virtual machine that is recorded from outside has no MTC "
				       "and CYC packets: its time is in TSC packets");
	if (trace->ptwrite || trace->fup_on_ptwrite || trace->power_events || trace->event_trace ||
	    trace->no_tnt || config->backend.pmu_config || config->backend.long_tnt ||
	    config->backend.mark_loops)
		return recorder_refuse(why, no,
				       "the recorder vm has no such packets (ptw, fup_on_ptw, "
				       "pwr_evt, event, notnt, TNT-64, marks of loops)");
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_wishes(const struct ptah_record_config *config,
					     struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (config->target.kind != PTAH_RECORD_COMMAND)
		return recorder_refuse(why, no,
				       "the recorder vm starts the virtual machine itself");
	if (config->target.no_inherit || config->target.per_thread || config->target.no_existing ||
	    config->output.kcore)
		return recorder_refuse(
		    why, no,
		    "a virtual machine has no children, threads and maps that "
		    "could be left out, and its kernel's code is recorded in any "
		    "case");
	if (config->buffer.policy != PTAH_RECORD_DRAIN || config->buffer.size)
		return recorder_refuse(why, no,
				       "the recorder vm keeps all trace: the guest waits while it "
				       "is written");
	for (size_t i = 0; i < config->filter_count; i++)
		if (config->filters[i].path)
			return recorder_refuse(why, no,
					       "filter %zu: which files a guest has is not known; "
					       "name addresses",
					       i);
	return check_trace(config, why);
}

static enum ptah_record_problem check_vm_config(const struct ptah_record_config *config,
						struct ptah_message *why)
{
	enum ptah_record_problem problem;
	struct ptah_vm_config vm = {.size = sizeof(vm), .plugin = config->backend.plugin};
	char **command;

	if (config->backend.kind != PTAH_RECORDER_VM)
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "a virtual machine was not asked for");
	problem = check_wishes(config, why);
	if (problem)
		return problem;
	vm.qemu = config->target.argv[0];
	vm.options = config->target.argv + 1;
	switch (ptah_vm_command(&vm, &command, why)) {
	case PTAH_OK:
		free(command);
		return PTAH_RECORD_FINE;
	case PTAH_E_INVAL:
		return PTAH_RECORD_BAD_OPTION;
	case PTAH_E_NOMEM:
		return PTAH_RECORD_NO_MEMORY;
	default:
		return PTAH_RECORD_NO_EMULATOR;
	}
}

/* IA32_RTIT_CTL, but for TraceEn's being switched by the plugin. */
static uint64_t control(const struct ptah_record_config *config)
{
	const struct ptah_trace_config *t = &config->trace;
	const unsigned psb =
	    t->psb_period == PTAH_RECORD_CHOOSE ? DEFAULT_PSB_PERIOD : t->psb_period;
	uint64_t ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_BRANCH_EN | PTAH_RTIT_CTL_TSC_EN |
		       (uint64_t)psb << PTAH_RTIT_CTL_PSB_FREQ;

	ctl |= t->os ? PTAH_RTIT_CTL_OS : 0;
	ctl |= t->user ? PTAH_RTIT_CTL_USER : 0;
	ctl |= t->no_retcomp ? PTAH_RTIT_CTL_DIS_RETC : 0;
	ctl |= config->guest.cr3 ? PTAH_RTIT_CTL_CR3_FILTER : 0;
	for (unsigned i = 0; i < config->filter_count && i < PTAH_RANGES; i++)
		ctl |= (uint64_t)config->filters[i].mode << PTAH_RTIT_CTL_ADDR_CFG(i);
	return ctl;
}

static int send_setup(struct recording *r)
{
	const struct ptah_record_config *config = &r->r->config;
	struct channel_setup setup = {
	    .magic = CHANNEL_MAGIC,
	    .size = sizeof(setup),
	    .control = control(config),
	    .cr3 = config->guest.cr3,
	    .start = config->guest.start_at ? config->guest.start_at : CHANNEL_NONE,
	    .stop = config->guest.stop_at ? config->guest.stop_at : CHANNEL_NONE,
	    .paused = config->target.start_paused,
	    .host_clock = config->backend.clock == PTAH_CLOCK_HOST,
	};

	for (size_t i = 0; i < config->filter_count && i < PTAH_RANGES; i++) {
		const struct ptah_record_filter *f = &config->filters[i];

		setup.ranges[i] = (struct ptah_range){.first = f->start,
						      .last = f->size - 1 > UINT64_MAX - f->start
								  ? UINT64_MAX
								  : f->start + (f->size - 1),
						      .mode = (uint8_t)f->mode};
	}
	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		setup.symbols[i] = guest_symbol(r->symbols, channel_symbol(i));
	if (send(r->socket, &setup, sizeof(setup), MSG_NOSIGNAL) != sizeof(setup))
		return fail_system(r, "the plugin's socket");
	return 0;
}

/* -plugin is the first option of the command line that Ptah makes. */
static int make_command(struct recording *r)
{
	const struct ptah_record_config *config = &r->r->config;
	struct ptah_vm_config vm = {.size = sizeof(vm),
				    .qemu = config->target.argv[0],
				    .plugin = config->backend.plugin,
				    .options = config->target.argv + 1};
	struct ptah_message why = {""};
	int status = ptah_vm_command(&vm, &r->command, &why);

	if (status < 0)
		return recorder_fail(r->r, PTAH_RECORD_NO_EMULATOR, status, "%s", why.text);
	if (asprintf(&r->plugin, "%s,record=%d", r->command[2], r->plugins) < 0) {
		r->plugin = NULL;
		return PTAH_E_NOMEM;
	}
	r->command[2] = r->plugin; /* the command is one block */
	return 0;
}

static const char *event_name(uint64_t ctl)
{
	if (!(ctl & PTAH_RTIT_CTL_OS))
		return "intel_pt//u";
	return ctl & PTAH_RTIT_CTL_USER ? "intel_pt//" : "intel_pt//k";
}

static void format_filters(const struct ptah_record_config *config, char *text, size_t size)
{
	size_t n = 0;

	*text = '\0';
	for (size_t i = 0; i < config->filter_count && n < size; i++)
		n += (size_t)snprintf(
		    text + n, size - n, "%s%s 0x%" PRIx64 "/0x%" PRIx64, n ? "," : "",
		    config->filters[i].mode == PTAH_RANGE_STOP ? "stop" : "filter",
		    config->filters[i].start, config->filters[i].size);
}

#define OPTIONS                                                                                    \
	(PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_DIS_RETC | PTAH_RTIT_CTL_BRANCH_EN |                 \
	 UINT64_C(15) << PTAH_RTIT_CTL_PSB_FREQ)

static int open_writer(struct recording *r)
{
	static const uint64_t id = 1;
	const uint64_t ctl = control(&r->r->config);
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	const struct perfdata_event event = {event_name(ctl), attr, &id, 1, 0};
	const struct perfdata_driver driver = {
	    .events = &event,
	    .event_count = 1,
	    .pmu_type = PERFDATA_PMU_TYPE,
	    .tsc_bit = PERFDATA_PT_TSC,
	    .noretcomp_bit = PERFDATA_PT_NORETCOMP,
	    .per_cpu = true,
	    .time_zero = true,
	    .no_index = true,
	};
	char filters[512];
	struct perfdata_writer_config config = {
	    .clock = {.mult = 1},
	    .time_source = r->r->config.backend.clock == PTAH_CLOCK_HOST ? PERFDATA_TIME_STAMPED
									 : PERFDATA_TIME_SIMULATED,
	    .filter = filters,
	    .osrelease = "",
	    .driver = &driver};

	perfdata_build_attr(
	    attr, (ctl & OPTIONS) | PERFDATA_PT_PT,
	    (ctl & PTAH_RTIT_CTL_OS ? 0 : PERFDATA_ATTR_EXCLUDE_KERNEL | PERFDATA_ATTR_EXCLUDE_HV) |
		(ctl & PTAH_RTIT_CTL_USER ? 0 : PERFDATA_ATTR_EXCLUDE_USER));
	format_filters(&r->r->config, filters, sizeof(filters));
	memcpy(r->r->metadata.vendor, "GenuineIntel", sizeof(r->r->metadata.vendor));
	r->r->metadata.time_mult = 1;
	r->r->metadata.rtit_ctl = ctl;
	return recorder_open_writer(r->r, &config);
}

static int open_sockets(struct recording *r)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return fail_system(r, "the plugin's socket");
	r->socket = pair[0];
	r->plugins = pair[1];
	return 0;
}

static int open_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	struct ptah_message why = {""};
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->r = recorder;
	r->socket = r->plugins = -1;
	r->bytes = malloc(CHANNEL_FRAME_MAX);
	if (!r->bytes)
		return PTAH_E_NOMEM;
	if (recorder->config.guest.symbols) {
		status = guest_symbols_read(recorder->config.guest.symbols, &r->symbols, &why);
		if (status < 0)
			return recorder_fail(recorder, PTAH_RECORD_BAD_OPTION, status, "%s",
					     why.text);
	}
	status = open_sockets(r);
	if (status >= 0)
		status = make_command(r);
	if (status >= 0)
		status = open_writer(r);
	/* A recording of a virtual machine, even if nothing of it is traced */
	if (status >= 0)
		status = recorder_wrote(
		    recorder, perfdata_add_space(recorder->writer, PERFDATA_ANY_SPACE, 0, ""));
	return status < 0 ? status : send_setup(r);
}

static void close_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	if (r->socket >= 0)
		close(r->socket);
	if (r->plugins >= 0)
		close(r->plugins);
	free(r->command);
	free(r->plugin);
	guest_symbols_free(r->symbols);
	free(r->bytes);
	free(r);
}

const struct recorder_backend recorder_vm = {
    .kind = PTAH_RECORDER_VM,
    .check = check_vm_config,
    .open = open_recorder,
    .start = start_vm,
    .poll = poll_machine,
    .pause = set_paused,
    .snapshot = no_snapshot,
    .stop = stop_vm,
    .close = close_recorder,
};
