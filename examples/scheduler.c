/* SPDX-License-Identifier: MIT */
/*
 * Two threads take turns on two processors and change the processor each time. A
 * capture follows each thread: it is switched out with the thread, and switched in on
 * the processor where the thread continues. Its trace is one stream of that thread, which
 * the companion writes to scheduler.data.
 */
#include "board.h"
#include "companion.h"

#include <ptah/event.h>

#include <inttypes.h>

#define KERNEL UINT64_C(0xffffffff81000000)

static const uint8_t code[] = {0xff, 0xc9, 0x75, 0xfc}; /* dec ecx; jnz back to it */

static const struct ptah_model_context in_user = {.cpl = 3, .mode = PTAH_EXEC_64};
static const struct ptah_model_context in_kernel = {.cpl = 0, .mode = PTAH_EXEC_64};

struct thread {
	uint64_t ip; /* where its code begins */
	struct ptah_capture *capture;
};

/* What a scheduler does when `t` begins to run, and when the timer interrupts it. */
static void run_slice(struct board *board, struct thread *t, unsigned cpu)
{
	struct ptah_model *m = ptah_machine_model(board->machine, cpu);
	struct ptah_model_transfer enter = {.kind = PTAH_MODEL_IRET, .to = t->ip, .after = in_user};
	struct ptah_model_transfer timer = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = t->ip, .to = KERNEL, .after = in_kernel};
	struct ptah_model_branch jnz = {t->ip + 2, t->ip + 4, t->ip, PTAH_INSN_COND, true};
	uint64_t irqs;

	ptah_machine_set_cpu(board->machine, cpu);
	irqs = board->hal.irq_save(board->machine);
	if (ptah_capture_switch_in(t->capture) < 0)
		exit(1);
	board->hal.irq_restore(board->machine, irqs);
	ptah_model_transfer(m, &enter);
	for (int i = 0; i < 1000; i++)
		ptah_model_branch(m, &jnz);
	ptah_model_transfer(m, &timer);
	irqs = board->hal.irq_save(board->machine);
	ptah_capture_switch_out(t->capture);
	board->hal.irq_restore(board->machine, irqs);
}

int main(void)
{
	struct thread threads[2] = {{0x401000, NULL}, {0x501000, NULL}};
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = &trace, .cpu = PTAH_CAPTURE_THREAD, .buffer = 1 << 20};
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct ptah_recording *r;
	struct ptah_engine *engine;
	struct board board;

	if (board_open(&board, "skylake", 2) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	trace.os = false;
	for (int i = 0; i < 2; i++)
		if (ptah_capture_new(engine, &config, &threads[i].capture, NULL) < 0 ||
		    ptah_capture_start(threads[i].capture) < 0)
			return 1;
	for (unsigned slice = 0; slice < 80; slice++)
		run_slice(&board, &threads[slice % 2], (slice + slice / 2) % 2);
	r = companion_open("scheduler.data", PTAH_RECORDING_THREADS, ptah_engine_caps(engine, 0),
			   &trace);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "second" : "first";
		const int32_t pid = 100 + i;

		ptah_capture_stop(threads[i].capture);
		ptah_capture_status(threads[i].capture, &status);
		printf("%s: %" PRIu64 " slices, %" PRIu64 " bytes of trace\n", name, status.starts,
		       status.position);
		companion_add_process(r, pid, name, threads[i].ip, code, sizeof(code));
		companion_drain(r, companion_add_stream(r, 0, pid), threads[i].capture);
		ptah_capture_free(threads[i].capture);
	}
	companion_close(r);
	return ptah_engine_free(engine) < 0 || !board_close(&board);
}
