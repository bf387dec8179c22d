/* SPDX-License-Identifier: MIT */
/*
 * Turns what a thread does into its trace: reports it to the thread's simulated processor, and
 * counts what a decoder will have to find.
 *
 * A thread that returns from the kernel is reported to be in user code only when its next
 * instruction has been executed. Until then a signal, or a restarted system call, may send it
 * elsewhere.
 */
#include "record/ptrace/tracer.h"

#include "record/simulated/simulated.h"

#include "model/emit.h"

#include <ptah/packet.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* TSC ticks after which the processor is taken to have slept, without MTC packets. */
#define SLEEP	 (UINT64_C(1) << 16)
#define PIECES	 64
#define PROGRESS 16384 /* instructions between two reports of progress */

/* Output */

/* Sends the bytes [from, to) of the trace, which are in the buffer and end with a whole packet. */
static void send_bytes(struct thread *t, uint64_t from, uint64_t to)
{
	const uint64_t size = t->output.buffer_size;
	const uint8_t *buffer = t->output.buffer;
	struct tracer_message message = {.type = TRACER_TRACE,
					 .tid = t->tid,
					 .stream = t->stream,
					 .size = (uint32_t)(to - from)};

	if (from == to)
		return;
	tracer_send(t->r, &message, NULL);
	while (from < to) {
		uint64_t at = from % size, n = size - at < to - from ? size - at : to - from;

		tracer_send_part(t->r, buffer + at, n);
		from += n;
	}
}

/* Called in the PMI: sends the new bytes while the thread waits, so that nothing is lost. */
static uint64_t drain(void *cookie, struct ptah_capture *capture, uint64_t tail, uint64_t position)
{
	struct thread *t = cookie;

	(void)capture;
	if (t->sent < position)
		send_bytes(t, t->sent > tail ? t->sent : tail, position);
	if (t->sent < position)
		t->sent = position;
	return position;
}

static uint64_t position_of(const struct thread *t)
{
	return ptah_capture_position(t->output.capture);
}

/* Sends those bytes that the processor holds, which begin at `position` of the trace. */
static void send_held(struct thread *t, uint64_t position)
{
	const uint64_t held = (uint64_t)(t->m.g.out - t->m.staging);
	const struct tracer_message message = {.type = TRACER_TRACE,
					       .tid = t->tid,
					       .stream = t->stream,
					       .size = (uint32_t)(position + held - t->sent)};

	if (t->m.status & PTAH_RTIT_STATUS_STOPPED || position + held <= t->sent)
		return;
	tracer_send(t->r, &message, NULL);
	tracer_send_part(t->r, t->m.staging + (t->sent - position), message.size);
	t->sent = position + held;
}

void trace_send_early(struct thread *t)
{
	uint64_t position;

	if (!t->begun || t->output.policy != PTAH_POLICY_DRAIN)
		return;
	position = t->m.bytes;
	if (t->sent < position) {
		send_bytes(t, t->sent, position);
		t->sent = position;
	}
	send_held(t, position);
}

/* The number of bytes of whole packets in [from, to) of the trace, which begins with one. */
static uint64_t whole_packets(const struct thread *t, uint64_t from, uint64_t to)
{
	const uint8_t *bytes = t->output.buffer + from % t->output.buffer_size;
	struct ptah_packet packet;
	uint64_t done = 0;
	int size;

	while ((size = ptah_packet_decode(&packet, bytes + done, to - from - done, 0)) > 0)
		done += (uint64_t)size;
	return done;
}

/* The first PSB in [from, to); `to` when there is none. */
static uint64_t first_psb(const struct thread *t, uint64_t from, uint64_t to)
{
	const uint64_t size = t->output.buffer_size;
	uint8_t *joined = malloc(to - from);
	const uint8_t *psb = NULL;
	uint64_t at = from % size, first = size - at < to - from ? size - at : to - from;

	if (!joined)
		return to;
	memcpy(joined, t->output.buffer + at, first);
	memcpy(joined + first, t->output.buffer, to - from - first);
	psb = ptah_packet_find_psb(joined, joined + (to - from));
	from = psb ? from + (uint64_t)(psb - joined) : to;
	free(joined);
	return from;
}

static void report_lost(struct thread *t, uint64_t bytes, uint64_t times)
{
	const struct tracer_message message = {.type = TRACER_LOST,
					       .tid = t->tid,
					       .stream = t->stream,
					       .value = bytes,
					       .address = times};

	tracer_send(t->r, &message, NULL);
}

/* Sends what is in the buffer and was not sent yet. The processor holds no bytes any more. */
static void send_rest(struct thread *t)
{
	struct ptah_capture_status status = {.size = sizeof(status)};
	uint64_t from = t->sent, to = position_of(t);

	ptah_capture_status(t->output.capture, &status);
	if (from < status.oldest) { /* the buffer begins inside a packet */
		from = first_psb(t, status.oldest, to);
		report_lost(t, from - t->sent, 0);
		if (t->sent)
			tracer_note(
			    t->r,
			    "snapshot: %" PRIu64
			    " bytes of a thread's trace between two of them were overwritten",
			    from - t->sent);
	}
	if (t->output.policy == PTAH_POLICY_STOP && to - from == t->output.buffer_size)
		to = from + whole_packets(t, from, to);
	send_bytes(t, from, to);
	t->sent = to;
}

/* Time */

/*
 * Lets time pass for the processor, which may emit packets about it, up to `time`, when the
 * instruction begins.
 */
static void report_time(struct thread *t, uint64_t time)
{
	const struct ptah_trace_config *trace = &t->output.trace;
	struct ptah_model *m = &t->m;

	if (time <= m->clock.tsc)
		return;
	if (!trace->mtc && !trace->cyc) {
		ptah_model_set_tsc(m, time);
	} else if (time > m->clock.tsc + SLEEP) {
		const struct ptah_model_wake wake = {.ticks = time - m->clock.tsc};

		ptah_model_wake(m, &wake);
	} else {
		ptah_model_pass(m, time - m->clock.tsc);
	}
}

/*
 * If code or the thread's name has changed since the last PSB+ of this thread, emits one with a
 * later time: a decoder must apply the change before it decodes what runs now.
 */
static void report_change(struct thread *t)
{
	const uint64_t changed = t->process->changed > t->named ? t->process->changed : t->named;
	struct ptah_model *m = &t->m;

	if (t->psb_time >= changed)
		return;
	t->psb_time = changed;
	if (m->clock.tsc < changed)
		ptah_model_set_tsc(m, changed);
	m->psb_due = true;
	model_emit_begin(m);
	model_emit_end(m);
}

/* Passes address ranges that have become known since the last call on to the processor. */
static void report_ranges(struct thread *t)
{
	const struct process *p = t->process;

	if (t->ranges_seen == p->ranges_known)
		return;
	t->ranges_seen = p->ranges_known;
	memcpy(t->output.trace.ranges, p->ranges, sizeof(p->ranges));
	if (ptah_capture_reconfigure(t->output.capture, &t->output.trace, NULL) < 0)
		tracer_note(t->r, "a filter could not be moved to where its code is");
}

/* Entering and leaving the kernel */

/* Where system calls are recorded, decoders have to know their places. */
static void stamp(struct thread *t)
{
	const struct ptah_trace_config *trace = &t->output.trace;

	if (!trace->mtc && !trace->cyc && !t->r->config->backend.no_syscalls)
		trace_output_stamp(&t->m, tracer_time(t->r));
}

void trace_leave(struct thread *t, unsigned kind, uint64_t ip)
{
	struct ptah_model_transfer transfer = {
	    .kind = (uint8_t)kind, .ip = ip, .to = SIMULATED_KERNEL_IP};

	if (!t->begun || t->kernel)
		return;
	report_time(t, tracer_time(t->r));
	ptah_model_stand(&t->m, ip);
	stamp(t);
	ptah_model_context(&t->m, &transfer.after);
	transfer.after.cpl = 0;
	ptah_model_transfer(&t->m, &transfer);
	t->kernel = true;
}

/* Prepares the processor for the instruction at ip, which is executed in user code. */
static void arrive(struct thread *t, uint64_t ip)
{
	struct ptah_model_transfer transfer = {
	    .kind = PTAH_MODEL_FAR, .ip = SIMULATED_KERNEL_IP, .to = ip};

	report_ranges(t);
	report_time(t, tracer_time(t->r));
	if (t->kernel) {
		report_change(t);
		stamp(t);
		ptah_model_context(&t->m, &transfer.after);
		transfer.after.cpl = 3;
		ptah_model_transfer(&t->m, &transfer);
		t->kernel = false;
	} else {
		ptah_model_stand(&t->m, ip);
		report_change(t);
	}
}

/* Instructions */

static void report_progress(struct tracer *r)
{
	const struct tracer_message message = {.type = TRACER_PROGRESS, .value = r->instructions};

	tracer_send(r, &message, NULL);
}

static void count_traced_insn(struct thread *t, const struct insn *insn)
{
	t->instructions++;
	if (++t->r->instructions % PROGRESS == 0)
		report_progress(t->r);
	t->counts[insn->kind]++;
	path_hash_add(&t->path, insn->ip, insn->end);
}

void trace_pass(struct thread *t, const struct insn *insn, uint64_t next)
{
	arrive(t, insn->ip);
	/* A rep instruction counts when it is left. Count first: the report may raise a PMI. */
	if (t->m.packet_en && !(insn->kind == KIND_REP && next == insn->ip))
		count_traced_insn(t, insn);
	trace_output_insn(&t->m, insn->kind, insn->ip, insn->end, next);
	t->r->clock++;
}

/*
 * SDM "FUP Cases and IP Payload": the packets of a software interrupt carry its own address, so
 * that decoders do not know whether it was executed; SYSCALL and SYSENTER count as executed.
 */
void trace_call(struct thread *t, const struct insn *insn)
{
	arrive(t, insn->ip);
	if (t->m.packet_en && !insn->interrupt)
		count_traced_insn(t, insn);
	t->r->clock++;
	trace_leave(t, insn->interrupt ? PTAH_MODEL_INT : PTAH_MODEL_FAR, insn->ip);
}

void trace_lose(struct thread *t)
{
	t->lost += t->m.packet_en;
	trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
	ptah_model_overflow(&t->m, true);
	ptah_model_overflow(&t->m, false);
}

/* Beginning and end */

static uint8_t policy_of(const struct ptah_record_config *config)
{
	return config->buffer.policy == PTAH_RECORD_SNAPSHOT	     ? PTAH_POLICY_WRAP
	       : config->buffer.policy == PTAH_RECORD_STOP_WHEN_FULL ? PTAH_POLICY_STOP
								     : PTAH_POLICY_DRAIN;
}

bool trace_begin(struct thread *t)
{
	const struct tracer_setup *setup = t->r->setup;
	const struct tracer_message message = {.type = TRACER_THREAD,
					       .pid = t->process->pid,
					       .tid = t->tid,
					       .stream = t->r->streams,
					       .tsc = tracer_time(t->r)};

	t->memory = malloc(SIMULATED_STAGING + setup->buffer);
	if (!t->memory)
		return false;
	t->kernel = true;
	t->output = (struct trace_output){
	    .m = &t->m,
	    .staging = t->memory,
	    .buffer = t->memory + SIMULATED_STAGING,
	    .buffer_size = setup->buffer,
	    .trace = setup->trace,
	    .policy = policy_of(t->r->config),
	    .cookie = t,
	    .long_tnt = t->r->config->backend.long_tnt,
	    .mark_loops = t->r->config->backend.mark_loops,
	    .pid = t->process->pid,
	    .time = message.tsc,
	};
	t->output.drain = t->output.policy == PTAH_POLICY_DRAIN ? drain : NULL;
	t->ranges_seen = t->process->ranges_known;
	memcpy(t->output.trace.ranges, t->process->ranges, sizeof(t->process->ranges));
	t->stream = t->r->streams;
	t->begun =
	    t->r->paused ? trace_output_begin_paused(&t->output) : trace_output_begin(&t->output);
	if (!t->begun)
		return false;
	t->psb_time = message.tsc;
	t->r->streams++;
	tracer_send(t->r, &message, NULL);
	return true;
}

void trace_pause(struct thread *t, bool on)
{
	if (!t->begun)
		return;
	report_time(t, tracer_time(t->r));
	if (on)
		ptah_capture_pause(t->output.capture);
	else
		ptah_capture_resume(t->output.capture);
}

void trace_snapshot(struct thread *t)
{
	if (!t->begun || ptah_capture_flush(t->output.capture, NULL) < 0)
		return;
	send_rest(t);
	ptah_capture_consume(t->output.capture, t->sent, NULL);
}

/*
 * Whether the trace lacks its beginning or its end, so that the truth cannot be compared with it.
 */
static bool is_part(struct thread *t, uint64_t sent_before)
{
	const uint64_t bytes = position_of(t), size = t->output.buffer_size;

	if (t->output.policy == PTAH_POLICY_WRAP && (bytes > size || sent_before)) {
		tracer_note(t->r, SIMULATED_NOTE_END, bytes < size ? bytes : size, bytes);
	} else if (t->output.policy == PTAH_POLICY_STOP && bytes >= size) {
		tracer_note(t->r, SIMULATED_NOTE_FULL, size);
		report_lost(t, 0, 1);
	} else {
		return false;
	}
	return true;
}

static void send_truth(struct thread *t)
{
	const struct ptah_truth truth = {
	    .instructions = t->instructions,
	    .conditional = t->counts[PTAH_INSN_COND],
	    .indirect = t->counts[PTAH_INSN_JUMP_IND] + t->counts[PTAH_INSN_CALL_IND],
	    .returns = t->counts[PTAH_INSN_RETURN],
	    .path_hash = path_hash_value(&t->path),
	};
	const struct tracer_message message = {
	    .type = TRACER_TRUTH,
	    .size = sizeof(truth),
	    .stream = t->stream,
	    .pid = t->process->pid,
	    .tid = t->tid,
	    .value = t->lost,
	};

	tracer_send(t->r, &message, &truth);
}

void trace_end(struct thread *t)
{
	struct tracer_message message = {
	    .type = TRACER_EXIT, .pid = t->process->pid, .tid = t->tid};
	uint64_t before;

	if (!t->begun)
		return;
	trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
	before = t->sent;
	ptah_capture_stop(t->output.capture);
	send_rest(t);
	if (!is_part(t, before))
		send_truth(t);
	message.tsc = tracer_time(t->r);
	message.value = t->instructions;
	tracer_send(t->r, &message, NULL);
	t->begun = false;
}

void trace_free(struct thread *t)
{
	trace_output_end(&t->output);
	free(t->memory);
	t->memory = NULL;
}
