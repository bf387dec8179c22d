/* SPDX-License-Identifier: MIT */
/*
 * The functions of a recording, each once wherever its file was mapped, and the places from which
 * they were called. One thread adds; any other thread reads what it has got the number of.
 */
#ifndef PTAH_VIEW_FUNCTIONS_H
#define PTAH_VIEW_FUNCTIONS_H

#include "view/model.h"

/* A function that was called in a way, from a place. */
struct view_entry {
	uint64_t function; /* where it begins, in `space` */
	uint64_t site;	   /* of the call; 0: not known */
	int32_t space;	   /* as for ptah_session_find_map() */
	uint32_t id;	   /* of the function */
	uint16_t flags;	   /* enum ptah_call_flags of the beginning */
	uint8_t how;	   /* enum ptah_call_begin */
};

struct view_functions;

int view_functions_new(struct view_functions **functions);
void view_functions_free(struct view_functions *functions);

/*
 * The number of the function at an address; UINT32_MAX: out of memory. Names are asked between
 * lock() and unlock(), which get the context.
 */
struct view_naming {
	struct names *names;
	void (*lock)(void *context);
	void (*unlock)(void *context);
	void *context;
};

uint32_t view_functions_id(struct view_functions *functions, const struct view_naming *naming,
			   int32_t space, uint64_t address);

/* The number of an entry, whose `id` is filled in here; UINT32_MAX: out of memory. */
uint32_t view_functions_entry(struct view_functions *functions, const struct view_naming *naming,
			      const struct view_entry *entry);

uint32_t view_functions_count(const struct view_functions *functions);

/* NULL: there is none of this number. */
const struct view_function *view_functions_get(const struct view_functions *functions, uint64_t id);
const struct view_entry *view_functions_get_entry(const struct view_functions *functions,
						  uint64_t number);

/* Finds the lines where functions begin, which may take long. Once, after all were added. */
void view_functions_find_lines(struct view_functions *functions, const struct view_naming *naming,
			       bool (*stopped)(void *context));
bool view_functions_have_lines(const struct view_functions *functions);

#endif
