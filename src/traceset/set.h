/* SPDX-License-Identifier: MIT */
/* The content of a trace set, for the readers that fill it and for the session that decodes it. */
#ifndef PTAH_TRACESET_SET_H
#define PTAH_TRACESET_SET_H

#include <ptah/trace_set.h>

#define TRACESET_FILE "ptah.trace" /* the text file's name in a folder */

/*
 * All paths are absolute and belong to the set, as every other string does. Structs are those that
 * were added, with pid and tid -1 where they are unknown, and with a space of PTAH_SPACE_ANY.
 */
struct ptah_trace_set {
	char *origin; /* the path that was opened; NULL: built by calls */
	char *folder; /* relative paths are relative to it; NULL: to the working folder */
	struct ptah_trace_stream *streams;
	size_t stream_count, stream_capacity;
	struct ptah_trace_code *code;
	size_t code_count, code_capacity;
	struct ptah_trace_thread *threads;
	size_t thread_count, thread_capacity;
	struct ptah_trace_switch *switches;
	size_t switch_count, switch_capacity;
	struct ptah_trace_sideband *sideband;
	size_t sideband_count, sideband_capacity;
	struct ptah_trace_event *events;
	size_t event_count, event_capacity;
	struct ptah_trace_processor processor;
	const char *kcore, *kallsyms;	       /* NULL: none */
	const char *root;		       /* NULL: none */
	const char *filter;		       /* NULL: none */
	const char *vdso[PTAH_TRACE_VDSO_MAX]; /* NULL: none */
	const char **notes;
	size_t note_count, note_capacity;
	char **strings; /* all strings, to be freed */
	size_t string_count, string_capacity;
};

/*
 * Rewrites the files of a filter's text: relative ones become those of the folder `of`, and those
 * below the folder `below` become relative to it. Either may be NULL. NULL: out of memory. The
 * caller frees the text.
 */
char *traceset_move_filter(const char *text, const char *of, const char *below);

/* Paths that are added from now on are relative to this folder, which is an absolute path. */
int traceset_set_folder(struct ptah_trace_set *set, const char *folder);

/* Whether ptah_trace_set_open() knows what `path` is. Looks at names and first bytes only. */
bool traceset_is(const char *path);

/* A remark for people, which ptah_session_note() returns. */
int trace_set_note(struct ptah_trace_set *set, const char *text);

#endif
