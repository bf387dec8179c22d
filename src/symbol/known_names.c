/* SPDX-License-Identifier: MIT */
/*
 * Functions that do not return to their callers as others do: those that change stacks, unwind, or
 * return twice. Nothing in their code says so, but their names are part of well-known interfaces.
 */
#include "symbol/known_names.h"

#include "base/compiler.h"

#include <stddef.h>
#include <string.h>

struct known_name {
	const char *name; /* without leading underscores */
	unsigned flags;
};

static const struct known_name known_names[] = {
    /* makecontext(3) */
    {"setcontext", PTAH_FUNCTION_SWITCH},
    {"swapcontext", PTAH_FUNCTION_SWITCH},
    /* Boost.Context */
    {"jump_fcontext", PTAH_FUNCTION_SWITCH},
    {"ontop_fcontext", PTAH_FUNCTION_SWITCH},
    /* Go */
    {"runtime.gogo", PTAH_FUNCTION_SWITCH},
    {"runtime.gogo.abi0", PTAH_FUNCTION_SWITCH},
    {"runtime.mcall", PTAH_FUNCTION_SWITCH},
    {"runtime.mcall.abi0", PTAH_FUNCTION_SWITCH},
    /* OCaml 5 */
    {"caml_perform", PTAH_FUNCTION_SWITCH},
    {"caml_reperform", PTAH_FUNCTION_SWITCH},
    {"caml_resume", PTAH_FUNCTION_SWITCH},
    {"caml_runstack", PTAH_FUNCTION_SWITCH},
    /* Linux */
    {"switch_to_asm", PTAH_FUNCTION_SWITCH},
    /* Exceptions and the cancellation of threads */
    {"Unwind_Resume", PTAH_FUNCTION_UNWINDS},
    {"pthread_unwind_next", PTAH_FUNCTION_UNWINDS},
    /* setjmp(3), and what is used like it */
    {"setjmp", PTAH_FUNCTION_TWICE},
    {"sigsetjmp", PTAH_FUNCTION_TWICE},
    {"savectx", PTAH_FUNCTION_TWICE},
    {"getcontext", PTAH_FUNCTION_TWICE},
};

unsigned symbol_name_flags(const char *name)
{
	size_t length;

	name += strspn(name, "_");
	length = strcspn(name, "@");
	for (size_t i = 0; i < ARRAY_SIZE(known_names); i++)
		if (strncmp(known_names[i].name, name, length) == 0 && !known_names[i].name[length])
			return known_names[i].flags;
	if (strncmp(name, "dl_runtime_resolve", 18) == 0 ||
	    strncmp(name, "dl_runtime_profile", 18) == 0)
		return PTAH_FUNCTION_RESOLVER;
	return 0;
}
