/* SPDX-License-Identifier: MIT */
/* A processor without packet generation, until trace.c has it. */
#include "model/processor.h"

#define WEAK __attribute__((weak))

WEAK void model_trace_started(struct ptah_model *m)
{
	(void)m;
}

WEAK void model_trace_stopping(struct ptah_model *m)
{
	(void)m;
}

WEAK void model_trace_lost(struct ptah_model *m)
{
	(void)m;
}

WEAK void model_trace_vm(struct ptah_model *m, bool entry)
{
	(void)m;
	(void)entry;
}
