/* SPDX-License-Identifier: MIT */
/*
 * Random programs run on a simulated processor. The code is that of
 * flow/world.h. What runs, and which of it the trace must report, is listed
 * here by rules of its own: the enables are computed from the privilege level,
 * CR3 and the ranges, not read from the processor.
 */
#ifndef PTAH_TESTS_MODEL_PROGRAM_H
#define PTAH_TESTS_MODEL_PROGRAM_H

#include "flow/world.h"
#include "rig.h"

#include <ptah/flow.h>

#define PROGRAM_STEPS  3000
#define PROGRAM_EVENTS (PROGRAM_STEPS * 16)
#define PROGRAM_CUTS   2000
#define PROGRAM_TRACE  (4u << 20)
#define IN_RANGE       0x3fffu /* of each region */
#define STOP_FIRST     (OUTSIDE + 0x2000)
#define STOP_LAST      (OUTSIDE + 0x2fff)
#define NO_ADDRESS     UINT64_MAX

struct program_ran {
	uint64_t ip;
	uint8_t size, mode;
	bool in_tx;
	bool taken; /* a conditional branch */
	bool bare;  /* it left the filter, and no packet reports that */
};

/* An event of these classes, in the order of the trace. */
enum program_class {
	CLASS_ENABLE, /* enabled, disabled, asynchronous branches, overflow, stop */
	CLASS_PAGING,
	CLASS_TSX,
	CLASS_PTWRITE,
	CLASS_POWER,
	CLASS_EVENT,
	CLASS_MAX
};

struct program_event {
	uint8_t type; /* enum ptah_item_type */
	uint64_t ip, to, value;
	uint64_t tsc;
};

/* From instruction `begin` until `resume` the trace is lost. */
struct program_cut {
	size_t begin, resume;
};

struct program_options {
	const char *processor;
	bool os, user, cr3_filter, filter, one_mode, lossy, slices;
	bool no_mov_cr3;
	bool mov_cr3_leaves; /* with the filter by CR3 every MOV CR3 does */
	struct ptah_model_choices choices;
	uint64_t ctl;
};

struct program {
	struct program_options o;
	struct world *w; /* its code and its random numbers */
	struct rig *rig;
	struct ptah_model *m;
	struct ptah_model_context context;
	int at;
	bool in_filter, stopped, lost, tsx;
	struct program_ran *ran;
	size_t ran_count;
	struct program_event *events[CLASS_MAX];
	size_t event_count[CLASS_MAX];
	struct program_cut cuts[PROGRAM_CUTS];
	size_t cut_count;
};

/* The random choice of this processor's capabilities. */
struct program_options program_options(const struct ptah_model_processor *is, unsigned seed);

/* Runs the program to its end. Release it with program_free(). */
struct program *program_new(unsigned seed, const struct program_options *options);
void program_free(struct program *p);

#endif
