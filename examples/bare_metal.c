/* SPDX-License-Identifier: MIT */
/*
 * The capture engine without an operating system: one processor, its PMI handler, a
 * buffer that wraps. At the end the newest packets become bare_metal.data: on a real board
 * they are copied to another machine, on which the companion runs.
 */
#include "board.h"
#include "companion.h"

#include <ptah/event.h>

#include <inttypes.h>
#include <string.h>

#define BUFFER	((size_t)64 << 10)
#define ROUNDS	100000u
#define CODE	UINT64_C(0x100000)
#define ENTRIES 64
#define TABLE	(CODE + 16) /* round n jumps to TABLE + 16 * (n % ENTRIES), and back */

static struct ptah_engine *engine;
static unsigned foreign; /* PMIs of the performance counters */

/* The handler in the interrupt table for the vector in the local APIC's LVT entry. */
static void pmi_handler(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	foreign += ptah_engine_pmi(engine) == PTAH_PMI_NONE;
}

/* Runs a loop of five rounds, then a jump through a table, again and again. */
static void work(struct ptah_model *m)
{
	struct ptah_model_branch loop = {CODE + 5, CODE + 7, CODE, PTAH_INSN_COND, true};
	struct ptah_model_branch jump = {CODE + 7, CODE + 9, 0, PTAH_INSN_JUMP_IND, true};
	struct ptah_model_branch back = {0, 0, CODE, PTAH_INSN_JUMP, true};

	for (unsigned n = 0; n < ROUNDS; n++) {
		for (int left = 5; left; left--) {
			loop.taken = left > 1;
			ptah_model_branch(m, &loop);
		}
		jump.to = back.ip = TABLE + 16 * (n % ENTRIES);
		back.end = back.ip + 5;
		ptah_model_branch(m, &jump);
		ptah_model_branch(m, &back);
	}
}

/* All code is one process, which runs on the processor from the beginning. */
static void write_recording(struct ptah_capture *capture, const struct ptah_trace_config *trace)
{
	static const uint8_t loop[] = {0x0f, 0x1f, 0x44, 0, 0, /* nop */
				       0x75, 0xf9,	       /* jnz back to it */
				       0xff, 0xe0};	       /* jmp rax */
	uint8_t code[16 + 16 * ENTRIES] = {0};
	struct ptah_recording *r = companion_open("bare_metal.data", PTAH_RECORDING_CPUS,
						  ptah_engine_caps(engine, 0), trace);

	memcpy(code, loop, sizeof(loop));
	for (int32_t at = 16, back; at < (int32_t)sizeof(code); at += 16) {
		code[at] = 0xe9; /* jmp CODE */
		back = -(at + 5);
		memcpy(code + at + 1, &back, 4);
	}
	companion_add_process(r, 1, "firmware", CODE, code, sizeof(code));
	companion_check(r, ptah_recording_add_switch(r, 0, 0, 1, 1));
	companion_drain(r, companion_add_stream(r, 0, 0), capture);
	printf("the last %" PRIu64 " bytes in bare_metal.data\n", ptah_recording_bytes(r));
	companion_close(r);
}

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = &trace, .buffer = BUFFER, .pmis = 2 /* per lap */};
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct ptah_capture *capture;
	struct board board;

	if (board_open(&board, "goldmont", 1) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	ptah_machine_on_pmi(board.machine, pmi_handler, NULL);
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	if (ptah_capture_new(engine, &config, &capture, NULL) < 0 ||
	    ptah_capture_start(capture) < 0)
		return 1;
	work(ptah_machine_model(board.machine, 0));
	ptah_capture_stop(capture);
	ptah_capture_status(capture, &status);
	printf("%" PRIu64 " bytes written, %" PRIu64 " PMIs\n", status.position, status.pmis);
	write_recording(capture, &trace);
	return foreign || ptah_capture_free(capture) < 0 || ptah_engine_free(engine) < 0 ||
	       !board_close(&board);
}
