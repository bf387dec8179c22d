/* SPDX-License-Identifier: MIT */
/*
 * Which function an address of a recorded process belongs to.
 *
 *	struct ptah_functions *functions;
 *	struct ptah_function f;
 *
 *	ptah_functions_new(session, &functions);
 *	if (ptah_functions_find(functions, space, ip, tsc, &f))
 *		printf("%#" PRIx64 " is in the function at %#" PRIx64 "\n", ip, f.start);
 *	ptah_functions_free(functions);
 *
 * Bounds and names come from the files that the process had mapped (symbol.h) and, in the kernel,
 * from its list of symbols. What is found is kept, so that a second look-up is fast. Different
 * threads may use one finder at the same time.
 */
#ifndef PTAH_FUNCTIONS_H
#define PTAH_FUNCTIONS_H

#include <ptah/function.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_functions;

/* The session must live as long as the finder. */
PTAH_API int ptah_functions_new(const struct ptah_session *session,
				struct ptah_functions **functions);
PTAH_API void ptah_functions_free(struct ptah_functions *functions);

/*
 * The bounds of the function that was at `address` in `space` (as in ptah_session_find_map()) at
 * time `tsc`, 0: at the end. With PTAH_FUNCTION_SECTION only the bounds of what is around it are
 * known. false: nothing is known.
 */
PTAH_API bool ptah_functions_find(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function *function);

/*
 * What the code at an address is called. Of a function of a file, path and offset are the same
 * wherever and in however many processes the file was mapped.
 */
struct ptah_function_name {
	const char *name; /* not demangled; NULL: not known. Lives as long as the finder */
	bool named;	  /* false: there is no symbol, and `name` is made up (fn_5a20) */
	const char
	    *path;	/* of the mapping, as in struct ptah_map; or a module ("[ext4]"); or NULL */
	uint64_t start; /* the address that has the name; without a name, the address itself */
	uint64_t file_offset; /* of `start`, if `path` is that of a file */
};

/* Returns false when neither name nor path is known. The name of a function is that of its start.
 */
PTAH_API bool ptah_functions_name(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function_name *name);

/*
 * The line of source code of generated code, from the jitdump that has it; file NULL and line 0 are
 * never reported. `file` lives as long as the session and the finder, and may have characters that
 * must not reach a terminal. Those of files have <ptah/symbol.h>.
 */
struct ptah_function_line {
	const char *file;
	uint32_t line;
};

/* False: the address has no generated code, or the line is not known. */
PTAH_API bool ptah_functions_line(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function_line *line);

PTAH_END_DECLS

#endif
