/* SPDX-License-Identifier: MIT */
/* What one run counted, as entries for diff_compare(): by function, or by line of source code. */
#ifndef PTAH_OUTPUT_DIFF_LIST_H
#define PTAH_OUTPUT_DIFF_LIST_H

#include "base/compiler.h"
#include "output/annotate.h"
#include "output/diff.h"
#include "output/hotspots.h"

struct diff_list {
	/* To be set before, and to live as long as the list: */
	const struct ptah_counts *counts;
	struct names *names;	      /* which use the counts, and show all names */
	const struct annotation *use; /* of the same counts; NULL: one is made where needed */
	/* The result: */
	struct diff_entry *entries;
	size_t count;
	/* What the entries point to. */
	struct hotspot *functions;
	struct annotation *annotation;
	char **texts;
	size_t text_count;
	struct ptah_counts_file *files; /* each path once */
	size_t file_count;
};

/* Make the list. 0 or an error; diff_list_fini() in both cases. */
int diff_list_functions(struct diff_list *list);
int diff_list_lines(struct diff_list *list);
void diff_list_fini(struct diff_list *list);

/* For whoever makes another list. */

/* Finds the files, for diff_list_identify(). */
int diff_list_files(struct diff_list *list);

/* Room for n entries with so many texts each. */
int diff_list_reserve(struct diff_list *list, size_t n, size_t texts);

/* Makes a text that lives as long as the list. NULL when out of memory. */
const char *diff_list_text(struct diff_list *list, const char *format, ...) PRINTF_LIKE(2, 3);

/* Sets the build id that the object of an entry had. */
void diff_list_identify(const struct diff_list *list, struct diff_entry *entry);

#endif
