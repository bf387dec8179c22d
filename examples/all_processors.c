/* SPDX-License-Identifier: MIT */
/*
 * Traces all processors of a machine as one: a set of captures that starts together,
 * takes a processor that comes online later, and is mapped for its reader.
 */
#include "board.h"

#include <ptah/engine/captures.h>
#include <ptah/event.h>
#include <ptah/packet.h>

#include <inttypes.h>
#include <stdio.h>

#define CPUS   4u
#define LATE   2u /* comes online later */
#define READER 1u /* an owner; in a kernel a process */

static struct ptah_engine *engine;

/* Each processor runs a loop of its own length. */
static void work(struct board *board, unsigned cpu)
{
	struct ptah_model_branch jnz = {0x100005, 0x100007, 0x100000, PTAH_INSN_COND, true};

	for (unsigned n = 6000 * (cpu + 1); n; n--)
		ptah_model_branch(ptah_machine_model(board->machine, cpu), &jnz);
}

static void come_online(struct board *board, unsigned cpu)
{
	uint64_t irqs;

	ptah_machine_set_online(board->machine, cpu, true);
	ptah_machine_set_cpu(board->machine, cpu);
	irqs = board->hal.irq_save(board->machine);
	ptah_engine_cpu_online(engine);
	board->hal.irq_restore(board->machine, irqs);
	ptah_machine_set_cpu(board->machine, 0);
}

/* Counts branch outcomes in what the reader sees of a buffer that has not wrapped. */
static void show(struct board *board, const struct ptah_captures_mapping *map)
{
	size_t there, left = (size_t)ptah_capture_position(map->capture);
	const uint8_t *p = ptah_machine_user(board->machine, READER, map->address, &there);
	struct ptah_packet packet;
	unsigned outcomes = 0;

	for (; left && ptah_packet_decode(&packet, p, left, PTAH_BLOCK_NONE) > 0;
	     left -= packet.size, p += packet.size)
		outcomes += packet.type == PTAH_PACKET_TNT_8 ? packet.u.tnt.count : 0;
	printf("processor %u: %u branches\n", map->cpu, outcomes);
}

static int report(const struct ptah_captures_problem *problem)
{
	printf("processor %d: %s\n", problem->cpu, problem->reason);
	return 1;
}

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config capture = {
	    .size = sizeof(capture), .trace = &trace, .buffer = 64 << 10};
	struct ptah_captures_config config = {.size = sizeof(config), .capture = &capture};
	struct ptah_captures_status status = {.size = sizeof(status)};
	struct ptah_captures_mapping maps[CPUS];
	struct ptah_captures_problem problem;
	struct ptah_captures *set;
	struct board board;
	int n;

	if (board_open(&board, "skylake", CPUS) < 0)
		return 1;
	ptah_machine_set_online(board.machine, LATE, false);
	if (ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	if (ptah_captures_new(engine, &config, &set, &problem) < 0 ||
	    ptah_captures_start(set, &problem) < 0)
		return report(&problem);
	come_online(&board, LATE); /* and then, where the port may sleep: */
	if (ptah_captures_update(set, &problem) < 0)
		return report(&problem);
	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		work(&board, cpu);
	ptah_captures_stop(set);
	ptah_captures_status(set, &status);
	printf("%" PRIu32 " processors, skew %" PRIu64 "\n", status.cpus,
	       status.ended.last - status.ended.first);
	n = ptah_captures_map(set, READER, false, maps, CPUS, &problem);
	for (int i = 0; i < n; i++)
		show(&board, &maps[i]);
	ptah_captures_unmap(set, READER);
	return ptah_captures_free(set) < 0 || ptah_engine_free(engine) < 0 || !board_close(&board);
}
