/* SPDX-License-Identifier: MIT */
/*
 * A companion program: it has a capture's page and buffer mapped, and follows the trace
 * with <ptah/engine/capture_page.h> alone, without a system call but when the capture waits for
 * it. main() is the driver; in a system it would be another program, in the kernel.
 */
#include "board.h"

#include <ptah/engine/engine.h>
#include <ptah/event.h>

#include <inttypes.h>
#include <stdio.h>

#define PROCESS 1234 /* the owner of the mappings */

struct companion {
	struct ptah_capture_reader reader;
	uint64_t bytes, records, calls;
	uint32_t flags;
};

/* Saves what is new. Returns whether the driver has to be called. */
static bool follow(struct companion *c)
{
	struct ptah_capture_record record;
	struct ptah_capture_view view;
	const void *bytes;
	uint64_t at;
	size_t n;

	while (ptah_capture_reader_record(&c->reader, &record)) {
		c->records++;
		c->flags |= record.flags;
	}
	if (!ptah_capture_reader_view(&c->reader, &view))
		return false; /* the engine is writing it: later */
	for (at = view.tail; at < view.end; at += n) {
		n = ptah_capture_reader_bytes(&c->reader, at, view.end, &bytes);
		c->bytes += n; /* here: fwrite(bytes, 1, n, file) */
	}
	return ptah_capture_reader_release(&c->reader, view.end);
}

static void work(struct ptah_model *m)
{
	struct ptah_model_branch jump = {0x100000, 0x100002, 0x200000, PTAH_INSN_JUMP_IND, true};

	for (int i = 0; i < 1000; i++, jump.to += 0x10000)
		ptah_model_branch(m, &jump);
}

static struct ptah_engine *engine;

static void pmi_handler(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	ptah_engine_pmi(engine);
}

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = &trace, .policy = PTAH_POLICY_DRAIN, .buffer = 65536};
	struct companion companion = {.bytes = 0};
	struct ptah_capture *capture;
	uint64_t buffer, page, position;
	struct board board;
	size_t size;

	if (board_open(&board, "skylake", 1) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	ptah_machine_on_pmi(board.machine, pmi_handler, NULL);
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	if (ptah_capture_new(engine, &config, &capture, NULL) < 0 ||
	    ptah_capture_map(capture, PROCESS, false, &buffer) < 0 ||
	    ptah_capture_map_page(capture, PROCESS, true, &page) < 0 ||
	    !ptah_capture_reader_init(&companion.reader,
				      ptah_machine_user(board.machine, PROCESS, page, &size),
				      ptah_machine_user(board.machine, PROCESS, buffer, &size)) ||
	    ptah_capture_start(capture) < 0)
		return 1;
	for (int i = 0; i < 200; i++) {
		work(ptah_machine_model(board.machine, 0));
		if (follow(&companion)) /* in a process: ioctl() */
			companion.calls += ptah_capture_page_sync(capture) == PTAH_OK;
	}
	ptah_capture_stop(capture);
	position = ptah_capture_position(capture);
	follow(&companion);
	printf("%" PRIu64 " of %" PRIu64 " bytes, %s\n", companion.bytes, position,
	       companion.flags & PTAH_CAPTURED_FULL ? "with gaps" : "without gaps");
	printf("%" PRIu64 " records, %" PRIu64 " calls\n", companion.records, companion.calls);
	ptah_engine_release_owner(engine, PROCESS); /* the process has ended */
	return ptah_capture_free(capture) || ptah_engine_free(engine) || !board_close(&board);
}
