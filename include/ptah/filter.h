/* SPDX-License-Identifier: MIT */
/*
 * Filters: parses perf's text of address filters.
 *
 * The text is what `perf record --filter` accepts, and what a recording stores:
 *
 *	ACTION START[/SIZE or /END] [@FILE]
 *
 * Several filters are separated by commas or blanks. ACTION is filter, stop or
 * tracestop. A place is a number (decimal, 0x or octal), the name of a function
 * ("main", "main#2" for the second of that name), or "*" for all of a file.
 *
 *	while (*at) {
 *		if (ptah_filter_parse(&at, &filter, &problem) < 0)
 *			die(problem, at);
 *		use(&filter);
 *		at += strspn(at, ", ");
 *	}
 *
 * Nothing is looked up: names and files are returned as they are in the text.
 */
#ifndef PTAH_FILTER_H
#define PTAH_FILTER_H

#include <ptah/api.h>
#include <ptah/error.h>
#include <ptah/trace_config.h>

#include <stdbool.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

#define PTAH_FILTER_NAME_MAX 1024 /* bytes, with the NUL */
#define PTAH_FILTER_FILE_MAX 4096

/* One end of a range: a number, or a function's name and its number among those of that name. */
struct ptah_filter_place {
	char name[PTAH_FILTER_NAME_MAX]; /* "": a number; "*": the whole file */
	uint64_t number; /* or, with a name, which function of that name, from 1; 0: the only one */
};

struct ptah_filter {
	uint8_t mode; /* PTAH_RANGE_FILTER or PTAH_RANGE_STOP */
	bool has_end;
	struct ptah_filter_place start;
	struct ptah_filter_place end;	 /* a size, or the name of the last function */
	char file[PTAH_FILTER_FILE_MAX]; /* "": none */
};

/*
 * Parses one filter at *at, which afterwards points at the text after it.
 * PTAH_E_INVAL: *at points at the mistake, and *problem (may be NULL) says what
 * it is.
 */
PTAH_API int ptah_filter_parse(const char **at, struct ptah_filter *filter, const char **problem);

PTAH_END_DECLS

#endif
