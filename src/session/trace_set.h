/* SPDX-License-Identifier: MIT */
/* What a trace set brings into a session, for the files that open one and read its records. */
#ifndef PTAH_SESSION_TRACE_SET_H
#define PTAH_SESSION_TRACE_SET_H

#include "session/session.h"
#include "traceset/set.h"

/* A file that a process of the set mapped. */
struct set_map {
	int32_t pid;
	struct change change;
};

struct set_maps {
	struct set_map *maps;
	size_t count, capacity;
};

/* Adds the set's trace: a stream for each CPU or thread. */
int session_add_set_streams(struct ptah_session *s, const struct ptah_trace_set *set,
			    struct ptah_message *why);

/* Checks that the sideband does not name the same records again and again. */
int session_check_sideband(struct ptah_session *s, const struct ptah_trace_set *set,
			   struct ptah_message *why);

/* Lists the code that belongs to processes, in the order of the set. The caller frees maps->maps.
 */
int session_list_set_maps(struct ptah_session *s, const struct ptah_trace_set *set,
			  struct set_maps *maps, struct ptah_message *why);

/* Adds the other code to the session's image, and lists the address spaces that it names. */
int session_add_set_code(struct ptah_session *s, const struct ptah_trace_set *set,
			 struct ptah_message *why);

/*
 * Gives each of these address spaces a number, and a program that stands for it, before there are
 * other programs.
 */
int session_number_spaces(struct ptah_session *s, const struct ptah_space *spaces, size_t n);

/* "cr3:1000" */
void session_name_space(const struct ptah_space *space, char comm[16]);

/* The number of the named address space that code in `space` belongs to; -1: none. */
int32_t session_number_space(const struct ptah_session *s, const struct ptah_space *space);

/* Which section of the set's code that belongs to no process holds an address. */
bool session_find_set_map(const struct ptah_session *s, int32_t space, uint64_t address,
			  struct ptah_map *map);

void session_free_set(struct ptah_session *s);

#endif
