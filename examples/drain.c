/* SPDX-License-Identifier: MIT */
/*
 * A driver that captures two processors, and its companion, which empties the buffers while
 * they are traced and writes drain.data: `ptah stat drain.data`, `perf script -i drain.data
 * --itrace=i0ns`. Three processes take turns on the processors; the scheduler's context
 * switches say who ran.
 */
#include "board.h"
#include "companion.h"

#include <ptah/event.h>

#include <inttypes.h>

#define CPUS	  2
#define PROCESSES 3
#define TURNS	  300
#define PASSES	  1000
#define CODE	  UINT64_C(0x401000)
#define KERNEL	  UINT64_C(0xffffffff81000000)

static const uint8_t code[] = {0xff, 0xc9, 0x75, 0xfc}; /* dec ecx; jnz back to it */

static const struct ptah_model_context in_user = {.cpl = 3, .mode = PTAH_EXEC_64};
static const struct ptah_model_context in_kernel = {.cpl = 0, .mode = PTAH_EXEC_64};

/* A turn of whatever process, from the kernel's IRET to the timer's interrupt. */
static void run_turn(struct ptah_model *m)
{
	struct ptah_model_transfer enter = {.kind = PTAH_MODEL_IRET, .to = CODE, .after = in_user};
	struct ptah_model_transfer timer = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = CODE, .to = KERNEL, .after = in_kernel};
	struct ptah_model_branch jnz = {CODE + 2, CODE + 4, CODE, PTAH_INSN_COND, true};

	ptah_model_pass(m, 5000);
	ptah_model_transfer(m, &enter);
	for (int i = 0; i < PASSES; i++) {
		ptah_model_pass(m, 50);
		ptah_model_branch(m, &jnz);
	}
	ptah_model_transfer(m, &timer);
	ptah_model_pass(m, 5000);
}

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = &trace, .policy = PTAH_POLICY_DRAIN};
	struct ptah_capture *captures[CPUS];
	struct ptah_recording *r;
	struct ptah_engine *engine;
	struct board board;

	if (board_open(&board, "skylake", CPUS) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	trace.os = false;
	trace.mtc = true; /* without MTC packets it is hard to say when a thread came */
	trace.mtc_period = 3;
	r = companion_open("drain.data", PTAH_RECORDING_CPUS, ptah_engine_caps(engine, 0), &trace);
	for (int32_t i = 0; i < PROCESSES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "worker-%d", i);
		companion_add_process(r, 100 + i, name, CODE, code, sizeof(code));
	}
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		config.cpu = (int)cpu;
		if (ptah_capture_new(engine, &config, &captures[cpu], NULL) < 0 ||
		    ptah_capture_start(captures[cpu]) < 0 || companion_add_stream(r, cpu, 0) != cpu)
			return 1;
	}
	for (unsigned turn = 0; turn < TURNS; turn++) {
		const unsigned cpu = turn % CPUS;
		const int32_t pid = 100 + (int32_t)(turn / CPUS % PROCESSES);
		struct ptah_model *m = ptah_machine_model(board.machine, cpu);

		ptah_machine_set_cpu(board.machine, cpu);
		companion_check(
		    r, ptah_recording_add_switch(r, (int32_t)cpu, ptah_model_tsc(m), pid, pid));
		run_turn(m);
		if (turn % 32 >= 30) /* a thread of its own, where the driver wakes it */
			companion_drain(r, cpu, captures[cpu]);
	}
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		ptah_capture_stop(captures[cpu]);
		companion_drain(r, cpu, captures[cpu]);
		ptah_capture_free(captures[cpu]);
	}
	printf("%" PRIu64 " bytes of trace in drain.data\n", ptah_recording_bytes(r));
	companion_close(r);
	return ptah_engine_free(engine) < 0 || !board_close(&board);
}
