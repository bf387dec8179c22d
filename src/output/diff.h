/* SPDX-License-Identifier: MIT */
/*
 * Compares two lists of counts: which functions, lines or branches of two runs belong together, and
 * what changed. The two runs may be of two versions of a program, in which addresses differ.
 */
#ifndef PTAH_OUTPUT_DIFF_H
#define PTAH_OUTPUT_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function, line or branch of one run. Texts belong to the caller, and must outlive the rows. */
struct diff_entry {
	const char *path; /* of its object */
	const char *name; /* "": code without a name */
	/*
	 * The name where the other run had another file. NULL: the same. A name that was made from
	 * an address means nothing there and is "" then; entries of one name are added up.
	 */
	const char *other_name;
	/* The names as people read them; NULL: the same. */
	const char *shown, *other_shown;
	const uint8_t *build_id; /* of the object */
	size_t build_id_size;	 /* 0: not known */
	uint64_t value;		 /* what is compared: instructions, or executions */
	uint64_t calls;		 /* or how often a branch was taken */
	bool shared;		 /* set by diff_compare(): others of the object are shown alike */
};

/* The two sides of a row. */
enum diff_side {
	DIFF_OLD,
	DIFF_NEW,
	DIFF_SIDES
};

struct diff_row {
	const char *path; /* in the new run, if it is there */
	const char *name, *shown;
	bool in[DIFF_SIDES]; /* false: it did not run there */
	uint64_t value[DIFF_SIDES], calls[DIFF_SIDES];
};

/* Two objects with different paths that were compared. */
struct diff_pair {
	const char *path[DIFF_SIDES];
};

struct diff {
	struct diff_row *rows; /* the greatest difference first */
	size_t count;
	struct diff_pair *renamed;
	size_t renamed_count;
};

/*
 * Compares. The entries are sorted and changed. 0, or PTAH_E_NOMEM; diff_fini() frees what *diff
 * has in both cases.
 */
int diff_compare(struct diff_entry *entries[DIFF_SIDES], const size_t counts[DIFF_SIDES],
		 struct diff *diff);
void diff_fini(struct diff *diff);

#endif
