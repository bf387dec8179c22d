/* SPDX-License-Identifier: MIT */
/*
 * The capture engine without an operating system: one processor, its PMI handler, a
 * buffer that wraps. At the end the newest packets are read out of the buffer.
 */
#include "board.h"

#include <ptah/engine.h>
#include <ptah/event.h>
#include <ptah/packet.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BUFFER ((size_t)64 << 10)
#define ROUNDS 100000u
#define TABLE  UINT64_C(0x200000) /* round n jumps to TABLE + 16 * n */

static struct ptah_engine *engine;
static unsigned foreign; /* PMIs of the performance counters */

/* The handler in the interrupt table for the vector in the local APIC's LVT entry. */
static void pmi_handler(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	foreign += ptah_engine_pmi(engine) == PTAH_PMI_NONE;
}

/* The code that is traced: a loop of five rounds, then a jump through a table. */
static void work(struct ptah_model *m)
{
	struct ptah_model_branch loop = {0x100005, 0x100007, 0x100000, PTAH_INSN_COND, true};
	struct ptah_model_branch jump = {0x100007, 0x100009, TABLE, PTAH_INSN_JUMP_IND, true};

	for (; jump.to < TABLE + 16 * ROUNDS; jump.to += 16) {
		for (int left = 5; left; left--) {
			loop.taken = left > 1;
			ptah_model_branch(m, &loop);
		}
		ptah_model_branch(m, &jump);
	}
}

/* Prints what the buffer holds, from its first PSB on. */
static void show(const struct ptah_capture *capture, const struct ptah_capture_status *s)
{
	static uint8_t bytes[BUFFER];
	const uint8_t *p;
	uint8_t *end = bytes;
	struct ptah_piece pieces[2];
	uint64_t last_ip = 0, tips = 0;
	struct ptah_packet packet;
	int n = ptah_capture_pieces(capture, s->oldest, s->position, pieces, 2);

	for (int i = 0; i < n; end += pieces[i++].size)
		memcpy(end, pieces[i].address, pieces[i].size);
	p = ptah_packet_find_psb(bytes, end);
	while (p && ptah_packet_decode(&packet, p, (size_t)(end - p), PTAH_BLOCK_NONE) > 0) {
		p += packet.size;
		if (packet.type == PTAH_PACKET_PSB)
			last_ip = 0;
		if (packet.type == PTAH_PACKET_TIP || packet.type == PTAH_PACKET_FUP)
			ptah_packet_ip(&last_ip, packet.u.ip.ipc, packet.u.ip.ip, &last_ip);
		tips += packet.type == PTAH_PACKET_TIP;
	}
	printf("%" PRIu64 " TIP packets, the last to %" PRIx64 "\n", tips, last_ip);
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
	show(capture, &status);
	return foreign || ptah_capture_free(capture) < 0 || ptah_engine_free(engine) < 0 ||
	       !board_close(&board);
}
