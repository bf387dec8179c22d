/* SPDX-License-Identifier: MIT */
/*
 * A question of the page ("bars?thread=0&axis=time") and its answer. The server and the file that
 * `ptah view -o` writes pass questions to the model and know nothing else of it.
 */
#ifndef PTAH_VIEW_QUERY_H
#define PTAH_VIEW_QUERY_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIEW_QUERY_SIZE	      1024 /* of the text, with its NUL */
#define VIEW_QUERY_PARAMETERS 16

/* Names and values may hold any bytes but NUL, as the sender wishes. */
struct view_parameter {
	const char *name, *value;
};

/* The strings point into `text`: a copy of the struct has to be parsed again. */
struct view_query {
	const char *path; /* "bars" or "diff/functions" */
	struct view_parameter parameters[VIEW_QUERY_PARAMETERS];
	size_t count;
	char text[VIEW_QUERY_SIZE];
};

struct view_answer {
	unsigned status;  /* of HTTP: 200, or 400, 404 or 503 with a sentence as text */
	const char *type; /* "application/json"; a string that lives as long as the program */
	char *bytes;	  /* of malloc(); the caller frees */
	size_t size;
};

/* Answers a question. Any thread calls it, several at once. 0 or PTAH_E_NOMEM. */
typedef int view_answerer(void *context, const struct view_query *query,
			  struct view_answer *answer);

/*
 * Parses PATH[?NAME=VALUE[&NAME=VALUE]...]. %XX stands for a byte; + stands for itself. Returns 0,
 * or PTAH_E_INVAL: the text is too long, has too many parameters, an incomplete %XX, a %00, or a
 * name twice.
 */
int view_query_parse(struct view_query *query, const char *text);

/* The value of a parameter; NULL: it is not given. */
const char *view_query_text(const struct view_query *query, const char *name);

/* A decimal number of at most `most`. false: it is not given or is no such number. */
bool view_query_number(const struct view_query *query, const char *name, uint64_t most,
		       uint64_t *value);

/* A finite number as JavaScript prints it. */
bool view_query_real(const struct view_query *query, const char *name, double *value);

/* Makes a sentence the answer, with a status of HTTP that is not 200. 0 or PTAH_E_NOMEM. */
int view_answer_refuse(struct view_answer *answer, unsigned status, const char *why);

#endif
