/* SPDX-License-Identifier: MIT */
/* The call graphs of a recording: one for everything, or for each process, thread or CPU. */
#ifndef PTAH_CLI_GRAPH_GROUPS_H
#define PTAH_CLI_GRAPH_GROUPS_H

#include "input.h"

#include "output/call_graph.h"

enum graph_by {
	GRAPH_BY_ALL,
	GRAPH_BY_PROCESS,
	GRAPH_BY_THREAD,
	GRAPH_BY_CPU,
};

/* The words of --by, in the order of enum graph_by. */
extern const char *const graph_by_words[];

/* The calls that are shown together: all, or those of a process, of a thread, or on a CPU. */
struct graph_group {
	int32_t pid, tid, cpu; /* INT32_MIN: of several */
	char comm[16];
	uint64_t threads;
	struct call_graph *graph;
};

/* The caller sets `by`, `wall` and `config`; the rest is 0. */
struct graph_groups {
	struct graph_group *groups;
	size_t count;
	enum graph_by by;
	bool wall; /* all of the time, with what was waited for: see wall_trees.h */
	struct graph_labels labels;
	int32_t cpu; /* GRAPH_BY_CPU: the one that is being read */
	struct call_graph_config config;
};

/* Adds the calls of a thread: a callback of input_call_trees(). */
int graph_groups_take(void *groups, const struct ptah_call_thread *thread,
		      const struct ptah_call_tree *tree);

/* Reads the chosen streams. *errors: decoding errors. Returns an exit code, after a message. */
int graph_groups_read(const struct command *command, const struct input *input,
		      const struct ptah_session *session, struct graph_groups *groups,
		      uint64_t *errors);

/*
 * Orders the groups, and the calls in each, those with the most first. To be called when everything
 * is read. There is one group at least afterwards. 0 or an error.
 */
int graph_groups_sort(struct graph_groups *groups);

/*
 * Finds out whether the value of the configuration is in the recording (NULL: saved counts). If
 * not, says which option records it, and returns an exit code.
 */
int graph_groups_check_value(const struct command *command, const struct graph_groups *groups,
			     const struct ptah_session *session);

bool graph_groups_have_calls(const struct graph_groups *groups);
void graph_groups_free(struct graph_groups *groups);

#endif
