/* SPDX-License-Identifier: MIT */
/* Finds and makes the threads of a call reader. */
#include "session/call_threads.h"

#include "calls/steps.h"
#include "session/grow.h"
#include "session/versions.h"
#include "calls/calls.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

void call_threads_init(struct call_threads *all, const struct ptah_session *session,
		       struct ptah_functions *functions, const struct ptah_call_tree_config *trees)
{
	*all = (struct call_threads){.session = session, .functions = functions, .trees = trees};
}

void call_thread_end(struct call_thread *t)
{
	calls_marks_free(t->calls);
	calls_adder_free(t->adder);
	t->calls = NULL;
	t->adder = NULL;
	t->ended = true;
}

void call_threads_fini(struct call_threads *all)
{
	for (size_t i = 0; i < all->count; i++) {
		call_thread_end(all->list[i]);
		ptah_call_tree_free(all->list[i]->tree);
		free(all->list[i]->unseen);
		free(all->list[i]);
	}
	free(all->list);
	table_free(&all->by_hash);
	*all = (struct call_threads){.session = all->session};
}

/* Finds the next execve of the thread's process after `changes`. */
static void find_exec(struct call_thread *t)
{
	const struct process *p;

	t->exec = UINT64_MAX;
	if (t->process == SESSION_NONE)
		return;
	p = &t->all->session->processes[t->process];
	while (t->changes < p->count && t->changes < t->last_change) {
		const struct change *change = &p->changes[t->changes++];

		if (change->type == CHANGE_EXEC && change->tsc) {
			t->exec = change->tsc;
			return;
		}
	}
}

void call_thread_find_exec(struct call_thread *t)
{
	if (t->exec == UINT64_MAX)
		find_exec(t);
}

/* The machine of a thread calls this: the finder wants the session's number of the space. */
static bool find_function(void *context, unsigned space, uint64_t address, uint64_t tsc,
			  struct ptah_function *function)
{
	const struct call_thread *t = context;

	return ptah_functions_find(t->all->functions, ptah_call_thread_space(&t->info, space),
				   address, tsc, function);
}

static unsigned count_insns(void *context, unsigned space, uint64_t from, uint64_t to, uint64_t tsc)
{
	const struct call_thread *t = context;

	return session_count_insns(t->all->session, ptah_call_thread_space(&t->info, space), from,
				   to, tsc);
}

static int new_machine(struct call_thread *t)
{
	const struct calls_config config = {
	    .size = sizeof(config), .find = find_function, .find_context = t, .count = count_insns};
	int status;

	t->calls = NULL;
	t->adder = NULL;
	t->tree = NULL;
	if (!t->all->trees)
		return t->all->steps ? calls_new_steps(&config, &t->calls)
				     : calls_marks_new(&config, &t->calls);
	status = ptah_call_tree_new(t->all->trees, &t->tree);
	if (status < 0)
		return status;
	status = calls_adder_new(&config, t->tree, &t->adder);
	if (status < 0)
		ptah_call_tree_free(t->tree);
	return status;
}

/* Adds a thread; `from` has what is known of it. */
static struct call_thread *add(struct call_threads *all, const struct call_thread *from)
{
	struct call_thread *t = malloc(sizeof(*t));

	if (!t || !LIST_ROOM(all->list, all->count, all->capacity)) {
		free(t);
		return NULL;
	}
	*t = *from;
	t->all = all;
	t->info.number = all->count;
	t->info.errors = 0;
	if (new_machine(t) < 0) {
		free(t);
		return NULL;
	}
	find_exec(t);
	return all->list[all->count++] = t;
}

struct call_thread *call_threads_new(struct call_threads *all, size_t stream,
				     const struct ptah_thread *who)
{
	const struct stream *st = &all->session->streams[stream];
	struct call_thread t = {
	    .info = {.pid = who->pid, .tid = who->tid, .space = st->info.space, .stream = stream},
	    .process = st->process,
	    .stream = stream,
	    .changes = st->first,
	    .last_change = st->last};

	memcpy(t.info.comm, who->comm, sizeof(t.info.comm));
	return add(all, &t);
}

/* Whether the thread is the one of this turn in this stream. */
static bool is_of(const struct call_thread *t, const struct call_thread *other)
{
	return t->info.tid == other->info.tid && t->info.pid == other->info.pid &&
	       t->process == other->process && t->stream == other->stream && !t->ended;
}

static uint32_t hash_of(const struct call_thread *t)
{
	return (uint32_t)t->info.tid ^ (uint32_t)t->process * 0x9e3779b9u ^
	       (uint32_t)t->stream * 0x85ebca6bu;
}

/* Adds a thread that call_threads_find() finds. */
static struct call_thread *add_found(struct call_threads *all, const struct call_thread *from)
{
	const uint32_t hash = hash_of(from);
	const size_t older = table_get(&all->by_hash, hash);
	struct call_thread *t = add(all, from);

	if (!t || table_set(&all->by_hash, hash, t->info.number) < 0)
		return NULL;
	t->older = older == SESSION_NONE ? NULL : all->list[older];
	return t;
}

struct call_thread *call_threads_find(struct call_threads *all, size_t stream,
				      const struct turn *turn)
{
	const struct ptah_session *session = all->session;
	const struct stream *st = &session->streams[stream];
	struct call_thread wanted = {.info = {.pid = st->info.pid, .tid = -1},
				     .process = st->process,
				     .stream = stream,
				     .last_change = SESSION_NONE};
	size_t i;

	if (session->growth && session->growth->only != SESSION_NONE) {
		wanted.process = session->growth->only;
		wanted.info.pid = session->processes[wanted.process].pid;
	}
	if (turn) {
		wanted.info.pid = turn->pid;
		wanted.info.tid = turn->tid;
		wanted.process = turn->process;
		if (turn->tid > 0)
			wanted.stream = SESSION_NONE;
	}
	wanted.info.stream = stream;
	wanted.info.space = stream_is_shared(st) ? wanted.info.pid : st->info.space;
	i = table_get(&all->by_hash, hash_of(&wanted));
	for (struct call_thread *t = i == SESSION_NONE ? NULL : all->list[i]; t; t = t->older)
		if (is_of(t, &wanted))
			return t;
	i = turn && turn->tid > 0 ? table_get(&session->threads_by_tid, (uint32_t)turn->tid)
				  : SESSION_NONE;
	if (i != SESSION_NONE)
		memcpy(wanted.info.comm, session->threads[i].comm, sizeof(wanted.info.comm));
	return add_found(all, &wanted);
}

/* Takes the earliest of the times at which the thread may have run unseen. */
static void drop_unseen(struct call_thread *t)
{
	const uint64_t last = t->unseen[--t->unseen_count];
	size_t at = 0, below;

	for (; (below = 2 * at + 1) < t->unseen_count; at = below) {
		if (below + 1 < t->unseen_count && t->unseen[below + 1] < t->unseen[below])
			below++;
		if (t->unseen[below] >= last)
			break;
		t->unseen[at] = t->unseen[below];
	}
	t->unseen[at] = last;
}

static int add_unseen(struct call_thread *t, uint64_t tsc)
{
	size_t at = t->unseen_count;

	if (!LIST_ROOM(t->unseen, t->unseen_count, t->unseen_capacity))
		return PTAH_E_NOMEM;
	for (; at && t->unseen[(at - 1) / 2] > tsc; at = (at - 1) / 2)
		t->unseen[at] = t->unseen[(at - 1) / 2];
	t->unseen[at] = tsc;
	t->unseen_count++;
	return 0;
}

struct call_thread *call_threads_exec(struct call_threads *all, struct call_thread *before)
{
	struct call_thread t = *before, *after;

	before->unseen = NULL;
	before->unseen_count = before->unseen_capacity = 0;
	t.born = before->exec;
	while (t.unseen_count && t.unseen[0] <= t.born)
		drop_unseen(&t);
	t.older = NULL;
	t.more_cycles -= t.cycles;
	t.cycles = 0;
	after = add_found(all, &t);
	if (!after)
		free(t.unseen);
	return after;
}

/*
 * The thread of this turn may have run at a time, from this turn on, at which the running thread is
 * not known: its next turn begins with a loss.
 */
static int lose_turn(struct call_threads *all, size_t stream, const struct turn *turn)
{
	struct call_thread *t;

	if (turn->tid <= 0)
		return 0;
	t = call_threads_find(all, stream, turn);
	if (!t)
		return PTAH_E_NOMEM;
	return !t->born || turn->tsc > t->born ? add_unseen(t, turn->tsc) : 0;
}

int call_threads_lose_turns(struct call_threads *all, size_t stream, size_t from, size_t to)
{
	const struct cpu *cpu = &all->session->cpus[all->session->streams[stream].cpu];
	int status = 0;

	/* Also the thread before them, which may have run on. */
	if (from > cpu->gone) {
		struct turn before = *cpu_turn(cpu, from - 1);

		before.tsc = cpu_turn(cpu, from)->tsc;
		status = lose_turn(all, stream, &before);
	}
	for (; from <= to && status >= 0; from++)
		status = lose_turn(all, stream, cpu_turn(cpu, from));
	return status;
}

void call_thread_begin(struct call_thread *t, uint64_t tsc)
{
	while (!t->begun && t->exec <= tsc)
		find_exec(t);
	t->begun = true;
}

bool call_thread_is_lost(struct call_thread *t, uint64_t tsc)
{
	bool lost = false;

	for (; t->unseen_count && t->unseen[0] <= tsc; lost = true)
		drop_unseen(t);
	return lost;
}

uint64_t call_thread_time(const struct call_thread *t)
{
	return t->adder ? calls_adder_time(t->adder) : calls_marks_time(t->calls);
}

void call_thread_wait(struct call_thread *t, uint64_t until)
{
	if (t->adder)
		calls_adder_wait(t->adder, until);
	else
		calls_marks_wait(t->calls, until);
}

int call_thread_lost(struct call_thread *t)
{
	return t->adder ? calls_adder_lost(t->adder) : calls_marks_lost(t->calls);
}

int call_thread_exec(struct call_thread *t, uint64_t tsc)
{
	return t->adder ? calls_adder_exec(t->adder, tsc) : calls_marks_exec(t->calls, tsc);
}

void call_thread_code_changed(struct call_thread *t)
{
	if (t->adder)
		calls_adder_code_changed(t->adder);
	else
		calls_marks_code_changed(t->calls);
}

int32_t ptah_call_thread_space(const struct ptah_call_thread *thread, unsigned space)
{
	if (!thread)
		return -1;
	if (space > PTAH_CALLS_VERSION)
		return versions_space(space - PTAH_CALLS_VERSION);
	return space ? -1 - (int32_t)space : thread->space;
}
