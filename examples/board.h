/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine that the engine's examples run on. In a kernel a port takes
 * its place (docs/porting.md), and the rest of an example stays the same.
 */
#ifndef PTAH_EXAMPLES_BOARD_H
#define PTAH_EXAMPLES_BOARD_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* for realpath() in companion.h */
#endif

#include <ptah/model/machine.h>

#include <stdlib.h>

#define BOARD_MEMORY ((size_t)16 << 20)

struct board {
	struct ptah_machine *machine; /* passed to the callbacks of `hal` */
	struct ptah_hal hal;
	void *memory;
};

static inline int board_open(struct board *board, const char *processor, unsigned cpus)
{
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = cpus,
	    .processor = ptah_model_find(processor),
	    .arena_size = BOARD_MEMORY,
	};
	int status = PTAH_E_NOMEM;

	board->machine = malloc(ptah_machine_size(cpus));
	board->memory = config.arena = aligned_alloc(4096, BOARD_MEMORY);
	if (board->machine && board->memory)
		status = ptah_machine_init(board->machine, &config);
	if (status != PTAH_OK)
		return status;
	ptah_machine_hal(board->machine, &board->hal);
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		struct ptah_model *m = ptah_machine_model(board->machine, cpu);

		/* As processors do; perf relies on it, and takes TSC 0 for no time. */
		ptah_model_choose(m, &(struct ptah_model_choices){.whole_ip = true});
		ptah_model_set_tsc(m, 1000000000);
	}
	return PTAH_OK;
}

/* True when no call broke a rule of hal.h. */
static inline bool board_close(struct board *board)
{
	bool kept = !ptah_machine_violation(board->machine);

	free(board->machine);
	free(board->memory);
	return kept;
}

#endif
