/* SPDX-License-Identifier: MIT */
/* What the files of the adder share. */
#ifndef PTAH_CALLS_ADDER_INTERNAL_H
#define PTAH_CALLS_ADDER_INTERNAL_H

#include "calls/adder.h"
#include "calls/machine.h"

struct calls_adder {
	struct calls_machine machine; /* first: the sink gets a pointer to it */
	struct ptah_call_tree *tree;
};

int calls_adder_status(const struct calls_adder *a);

#endif
