/* SPDX-License-Identifier: MIT */
/*
 * Asks a table of coverage (cover_table.h) which processes reached a line or a function. The file
 * need not be trustworthy: one that was not written by cover_table_close() is refused, and a
 * damaged one gives an error or wrong answers, in a time in proportion to its size.
 *
 *	cover_query_open("tests.db", &query, &why);
 *	cover_query_add(query, "parse.c:42", &why);
 *	cover_query_answer(query, &answers, &n, &why);
 */
#ifndef PTAH_EXPORT_COVER_QUERY_H
#define PTAH_EXPORT_COVER_QUERY_H

#include <ptah/session.h>

struct cover_query;

/* 0 or an error with a sentence. */
int cover_query_open(const char *path, struct cover_query **query, struct ptah_message *why);
void cover_query_free(struct cover_query *query);

/*
 * Adds a place to the question: FILE:LINE or FILE:FIRST-LAST, where FILE is a whole path or its end
 * after a slash; else the name of a function, demangled without parameters or as it is in the file.
 * 1; 0: the table has no such function, and no code in such a line; or an error.
 */
int cover_query_add(struct cover_query *query, const char *place, struct ptah_message *why);

/* A process that reached one of the places. Strings live as long as the query. */
struct cover_answer {
	int64_t process;
	int32_t pid;
	int32_t exit_status, exit_signal; /* -1: not known, or it ended in the other way */
	const char *comm, *command;	  /* command "": not known */
	/*
	 * How often it executed the places, added up: of a function its first instruction, of a
	 * line the one of its instructions that ran most often, in each function that has the line.
	 */
	uint64_t count;
};

/* In the order in which the processes are in the table. To be called once. 0 or an error. */
int cover_query_answer(struct cover_query *query, const struct cover_answer **answers, size_t *n,
		       struct ptah_message *why);

#endif
