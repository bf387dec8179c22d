/* SPDX-License-Identifier: MIT */
/* Adds up the calls of a recording in groups (graph_groups.h). */
#include "base/order.h"
#include "graph_groups.h"
#include "render.h"
#include "call_trees.h"
#include "wall_trees.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const graph_by_words[] = {"all", "process", "thread", "cpu", NULL};

static bool is_group(const struct graph_groups *g, const struct graph_group *group,
		     const struct ptah_call_thread *thread)
{
	if (g->by == GRAPH_BY_ALL)
		return true;
	if (g->by == GRAPH_BY_CPU)
		return group->cpu == g->cpu;
	if (group->pid != thread->pid || strcmp(group->comm, thread->comm) != 0)
		return false;
	return g->by == GRAPH_BY_PROCESS || group->tid == thread->tid;
}

static struct graph_group *add_group(struct graph_groups *g, const struct ptah_call_thread *thread)
{
	struct graph_group *groups = reallocarray(g->groups, g->count + 1, sizeof(*groups));
	struct graph_group *group;

	if (!groups)
		return NULL;
	g->groups = groups;
	group = &groups[g->count];
	*group = (struct graph_group){.pid = INT32_MIN, .tid = INT32_MIN, .cpu = INT32_MIN};
	if (call_graph_new(&g->config, &group->graph) < 0)
		return NULL;
	g->count++;
	if (g->by == GRAPH_BY_CPU)
		group->cpu = g->cpu;
	if ((g->by == GRAPH_BY_PROCESS || g->by == GRAPH_BY_THREAD) && thread) {
		group->pid = thread->pid;
		memcpy(group->comm, thread->comm, sizeof(group->comm));
	}
	if (g->by == GRAPH_BY_THREAD && thread)
		group->tid = thread->tid;
	return group;
}

int graph_groups_take(void *groups, const struct ptah_call_thread *thread,
		      const struct ptah_call_tree *tree)
{
	struct graph_groups *g = groups;
	struct graph_group *group = NULL;

	for (size_t i = 0; i < g->count && !group; i++)
		if (is_group(g, &g->groups[i], thread))
			group = &g->groups[i];
	if (!group)
		group = add_group(g, thread);
	if (!group)
		return PTAH_E_NOMEM;
	group->threads++;
	return call_graph_add(group->graph, thread, tree);
}

/* The lowest CPU above `cpu` that a stream is of. -1: there is none. */
static int32_t next_cpu(const struct ptah_session *session, int32_t cpu)
{
	struct ptah_stream_info info;
	int32_t next = -1;

	for (size_t i = 0; ptah_session_stream_info(session, i, &info) >= 0; i++)
		if (info.cpu > cpu && (next < 0 || info.cpu < next))
			next = info.cpu;
	return next;
}

/*
 * Reads the streams of each CPU by themselves. A call that moves to another CPU has a loss on both,
 * where the thread was away.
 */
static int read_group_cpus(const struct input *input, const struct ptah_session *session,
			   struct graph_groups *g, uint64_t *errors)
{
	struct input one = *input;
	char cpu[16];
	int status = 0;

	for (g->cpu = next_cpu(session, -1); g->cpu >= 0 && status >= 0;
	     g->cpu = next_cpu(session, g->cpu)) {
		uint64_t more = 0;

		snprintf(cpu, sizeof(cpu), "%d", (int)g->cpu);
		one.cpu = cpu;
		if (!input->cpu || !strcmp(input->cpu, cpu))
			status = input_call_trees(&one, session, graph_groups_take, g, &more);
		*errors += more;
	}
	return status;
}

static int read_wall(const struct command *command, const struct input *input,
		     const struct ptah_session *session, struct graph_groups *g, uint64_t *errors)
{
	int status;

	if (g->by == GRAPH_BY_CPU)
		return fail_usage(command, "--value=wall --by=cpu: who waits is on no CPU");
	if (!ptah_session_samples(session))
		return fail(command, "the recording has neither system calls nor context switches "
				     "with which waits are found: see --value=time");
	g->config.labels = &g->labels;
	status = input_wall_trees(input, session, g->config.names, &g->labels, graph_groups_take, g,
				  errors);
	return status < 0 ? fail(command, "%s", ptah_strerror(status)) : 0;
}

int graph_groups_read(const struct command *command, const struct input *input,
		      const struct ptah_session *session, struct graph_groups *g, uint64_t *errors)
{
	struct input shown = *input;
	int status;

	/* Tables and trees show one value; other formats have all of them. */
	shown.no_times = input->format == FORMAT_TEXT && g->config.value != PTAH_CALL_VALUE_TIME &&
			 command != &command_export;
	*errors = 0;
	if (g->wall)
		return read_wall(command, input, session, g, errors);
	if (g->by == GRAPH_BY_CPU && next_cpu(session, -1) < 0)
		return fail_usage(command, "--by=cpu: the recording has a stream for each thread, "
					   "and does not say on which CPU it ran");
	if (g->by == GRAPH_BY_CPU)
		status = read_group_cpus(&shown, session, g, errors);
	else
		status = input_call_trees(&shown, session, graph_groups_take, g, errors);
	return status < 0 ? fail(command, "%s", ptah_strerror(status)) : 0;
}

static int by_total(const void *a, const void *b)
{
	const struct graph_group *x = a, *y = b;
	const enum ptah_call_value value = x->graph->config.value;
	const uint64_t m = graph_figure(&x->graph->totals.inclusive, value);
	const uint64_t n = graph_figure(&y->graph->totals.inclusive, value);

	return COMPARE_THEN(
	    n, m,
	    COMPARE_THEN(x->cpu, y->cpu, COMPARE_THEN(x->pid, y->pid, COMPARE(x->tid, y->tid))));
}

int graph_groups_sort(struct graph_groups *g)
{
	int status = g->count || add_group(g, NULL) ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < g->count && status >= 0; i++)
		status = call_graph_sort(g->groups[i].graph);
	if (status >= 0)
		qsort(g->groups, g->count, sizeof(*g->groups), by_total);
	return status;
}

int graph_groups_check_value(const struct command *command, const struct graph_groups *g,
			     const struct ptah_session *session)
{
	uint32_t mult, shift;

	for (size_t i = 0; i < g->count; i++)
		if (graph_figure(&g->groups[i].graph->totals.inclusive, g->config.value))
			return 0;
	if (g->config.value == PTAH_CALL_VALUE_CYCLES)
		return fail(command, "the recording has no cycles (CYC packets): record with "
				     "-e intel_pt/cyc/u");
	if (g->config.value != PTAH_CALL_VALUE_TIME)
		return 0;
	if (!session)
		return fail(command, "the saved calls have no times");
	if (!ptah_session_time_scale(session, &mult, &shift))
		return fail(command, "the recording does not say how long a tick of its TSC is");
	if (g->wall)
		return fail(command, "no thread ran here whose time is known: see ptah waits");
	return fail(command, "the recording has no times within its calls: record with "
			     "-e intel_pt/mtc,cyc/u");
}

bool graph_groups_have_calls(const struct graph_groups *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->groups[i].graph->node_count > 1)
			return true;
	return false;
}

void graph_groups_free(struct graph_groups *g)
{
	for (size_t i = 0; i < g->count; i++)
		call_graph_free(g->groups[i].graph);
	free(g->groups);
	for (size_t i = 0; i < g->labels.count; i++)
		free(g->labels.texts[i]);
	free(g->labels.texts);
}
