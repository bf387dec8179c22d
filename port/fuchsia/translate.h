/* SPDX-License-Identifier: MIT */
/* Requests of the protocol and the engine's configuration. Each function writes *problem. */
#ifndef PTAH_PORT_FUCHSIA_TRANSLATE_H
#define PTAH_PORT_FUCHSIA_TRANSLATE_H

#include "insntrace.h"

#include <ptah/engine/caps.h>
#include <ptah/engine/engine.h>

/* ZX_ERR_INVALID_ARGS. */
zx_status_t request_refuse(struct insntrace_problem *problem, const char *field,
			   const char *reason);
zx_status_t request_translate(struct insntrace_problem *problem, const struct ptah_caps *caps,
			      const struct insntrace_buffer_config *from,
			      struct ptah_trace_config *to);
/* The engine's result, with the name that the protocol has for the field. */
zx_status_t request_judge(struct insntrace_problem *problem, int status,
			  const struct ptah_trace_problem *why);

#endif
