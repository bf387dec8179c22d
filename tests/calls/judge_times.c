/* SPDX-License-Identifier: MIT */
/*
 * Compares times with a program's own log (programs/timed_calls.c): judge_times RECORDING LOG
 * [FUNCTION NANOSECONDS HITS].
 *
 * A line of the log is "TID + FUNCTION TSC" at the beginning of a function, inside, or "TID -
 * FUNCTION TSC" at its end, in the order in which a thread ran. So each call began between two
 * lines, and ended between two lines, and these times must not contradict the bounds of its marks;
 * so no call can be said to have taken longer than it did. Ends that are no returns have no line:
 * they are between the others. Prints how many calls there were, and how far their estimated times
 * from the log's: these depend on what else the machine does, and are not judged. What all calls of
 * a function took together must not contradict the least and the most that its call tree says. A
 * watch cannot have hit more often than calls of the function took so long.
 */
#include <ptah/calls.h>
#include <ptah/session.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TSC_MASK  ((UINT64_C(1) << 56) - 1)
#define DEPTH	  1000
#define FUNCTIONS 32

struct line {
	int tid;
	char sign, name[32];
	uint64_t tsc;
};

struct open_call {
	size_t line; /* its beginning; 0: it has none */
	uint64_t low, high;
	uint64_t from, to;  /* it began between these lines of the log */
	const char *inside; /* its name, unless it is part of another call of the function */
};

struct thread {
	int tid;
	size_t next, end; /* its lines that were not met yet */
	struct open_call open[DEPTH];
	size_t depth;
};

struct sums {
	char name[32];
	uint64_t calls, truth, estimate;
	/* All calls together, in ticks: what the log leaves open, and what the trees say in ns. */
	uint64_t shortest, longest;
	double least, most;
	bool open, endless; /* the log, or a tree, does not say how long at most */
};

struct judge {
	const struct ptah_session *session;
	struct ptah_functions *functions;
	struct line *log; /* the first one is of no thread, and early */
	size_t count;
	struct thread **threads;
	size_t thread_count;
	struct sums sums[FUNCTIONS];
	unsigned wrong;
};

static void add_line(struct judge *j, const struct line *line)
{
	if (!(j->count & (j->count + 1)))
		j->log = realloc(j->log, 2 * (j->count + 1) * sizeof(*j->log));
	if (!j->log)
		abort();
	j->log[j->count] = *line;
	j->log[j->count++].tsc &= TSC_MASK;
}

static void read_log(struct judge *j, const char *path)
{
	FILE *f = fopen(path, "r");
	struct line l = {0};

	add_line(j, &l);
	while (f && fscanf(f, "%d %c %31s %" SCNu64, &l.tid, &l.sign, l.name, &l.tsc) == 4)
		add_line(j, &l);
	if (f)
		fclose(f);
}

static struct thread *thread_of(struct judge *j, int tid)
{
	struct thread *t;

	for (size_t i = 0; i < j->thread_count; i++)
		if (j->threads[i]->tid == tid)
			return j->threads[i];
	j->threads = realloc(j->threads, (j->thread_count + 1) * sizeof(struct thread *));
	t = calloc(1, sizeof(*t));
	if (!j->threads || !t)
		abort();
	t->tid = tid;
	for (t->next = 1; t->next < j->count && j->log[t->next].tid != tid; t->next++)
		;
	for (t->end = t->next; t->end < j->count && j->log[t->end].tid == tid; t->end++)
		;
	return j->threads[j->thread_count++] = t;
}

static const char *name_of(struct judge *j, const struct ptah_call_thread *thread,
			   const struct ptah_call_mark *m)
{
	struct ptah_function_name name;

	if (!ptah_functions_name(j->functions, ptah_call_thread_space(thread, m->space),
				 m->function, 0, &name) ||
	    !name.name || strncmp(name.name, "time_", 5))
		return NULL;
	return name.name;
}

/* The line before the thread's next one; and the time of a line from there on. */
static uint64_t before(const struct judge *j, const struct thread *t)
{
	return t->next > 1 && j->log[t->next - 1].tid == t->tid ? j->log[t->next - 1].tsc : 0;
}

static uint64_t after(const struct judge *j, const struct thread *t, size_t lines)
{
	return t->next + lines < t->end ? j->log[t->next + lines].tsc : TSC_MASK;
}

static bool is_next(const struct judge *j, const struct thread *t, char sign, const char *name)
{
	const struct line *l = &j->log[t->next];

	return t->next < t->end && l->sign == sign && !strcmp(l->name, name);
}

static void complain(struct judge *j, const struct thread *t, const char *what, const char *name)
{
	if (j->wrong++ < 10)
		printf("thread %d, before line %zu, %s: %s\n", t->tid, t->next, name, what);
}

/* It happened between two times of the log. */
static void check(struct judge *j, const struct thread *t, const struct open_call *c, uint64_t from,
		  uint64_t to, const char *name)
{
	if (c->low <= to && c->high >= from)
		return;
	complain(j, t, "not within its bounds", name);
	printf("  [%" PRIu64 ", %" PRIu64 "], log %" PRIu64 " to %" PRIu64 "\n", c->low, c->high,
	       from, to);
}

static bool is_running(const struct thread *t, const char *name)
{
	for (size_t i = 0; i < t->depth; i++)
		if (t->open[i].inside && !strcmp(t->open[i].inside, name))
			return true;
	return false;
}

static struct sums *sums_of(struct judge *j, const char *name)
{
	struct sums *s = j->sums;

	while (s < &j->sums[FUNCTIONS - 1] && s->name[0] && strcmp(s->name, name))
		s++;
	if (!s->name[0])
		snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

/* The call ended between these lines, whatever the way. */
static void add_up(struct judge *j, const struct open_call *c, uint64_t from, uint64_t to)
{
	struct sums *s;

	if (!c->inside)
		return;
	s = sums_of(j, c->inside);
	s->shortest += from > c->to ? from - c->to : 0;
	s->longest += to - c->from;
	s->open |= to == TSC_MASK || !c->from;
}

static void begin(struct judge *j, struct thread *t, const struct ptah_call_mark *m,
		  const char *name, struct open_call *c)
{
	check(j, t, c, before(j, t), after(j, t, 0), name);
	c->from = before(j, t);
	c->to = after(j, t, 0);
	c->inside = is_running(t, name) ? NULL : sums_of(j, name)->name;
	if (m->how != PTAH_CALL_RESUMED && !is_next(j, t, '+', name))
		complain(j, t, "another call", name);
	else if (m->how != PTAH_CALL_RESUMED)
		c->line = t->next++;
	if (t->depth == DEPTH)
		abort();
	t->open[t->depth++] = *c;
}

/* The call returns. */
static void take_return(struct judge *j, struct thread *t, const struct ptah_call_mark *m,
			const struct open_call *b, const struct open_call *e, const char *name)
{
	struct sums *s = sums_of(j, name);
	const uint64_t tsc = after(j, t, 0), next = after(j, t, 1);
	uint64_t begun, earliest;

	if (!is_next(j, t, '-', name)) {
		complain(j, t, "another end", name);
		return;
	}
	check(j, t, e, tsc, next, name);
	add_up(j, b, tsc, next);
	t->next++;
	if (m->tsc < m->begin_tsc || m->tsc - m->begin_tsc != m->total.ticks)
		complain(j, t, "another time than that between its marks", name);
	if (!b->line)
		return;
	begun = j->log[b->line].tsc;
	earliest = j->log[b->line - 1].tid == t->tid ? j->log[b->line - 1].tsc : 0;
	/* A watch would fire for less. */
	if (e->low > b->high && e->low - b->high > next - earliest)
		complain(j, t, "it is said to have taken longer", name);
	s->calls++;
	s->truth += tsc - begun;
	s->estimate += m->total.ticks;
}

static void end_otherwise(struct judge *j, const struct thread *t, const struct open_call *b,
			  const struct open_call *e, const char *name)
{
	check(j, t, e, before(j, t), after(j, t, 1), name);
	add_up(j, b, before(j, t), after(j, t, 1));
}

static void end(struct judge *j, struct thread *t, const struct ptah_call_mark *m, const char *name,
		const struct open_call *e)
{
	if (!t->depth) {
		complain(j, t, "an end without a beginning", name);
		return;
	}
	t->depth--;
	if (m->how == PTAH_CALL_END_RETURN)
		take_return(j, t, m, &t->open[t->depth], e, name);
	else /* at the latest with the function that called it */
		end_otherwise(j, t, &t->open[t->depth], e, name);
}

static void take(struct judge *j, const struct ptah_call_batch *batch)
{
	struct thread *t = thread_of(j, batch->thread->tid);

	for (size_t i = 0; i < batch->count; i++) {
		const struct ptah_call_mark *m = &batch->marks[i];
		const char *name = name_of(j, batch->thread, m);
		struct open_call c = {0};

		if (!name)
			continue;
		if (ptah_session_time_bounds(j->session, batch->thread->stream, m->offset, &c.low,
					     &c.high) < 0) {
			puts("there are no bounds");
			exit(1);
		}
		if (m->end)
			end(j, t, m, name, &c);
		else
			begin(j, t, m, name, &c);
	}
}

/* A callback of ptah_session_call_trees(). */
static int take_tree(void *context, const struct ptah_call_thread *thread,
		     struct ptah_call_tree *tree)
{
	struct ptah_call_function *list;
	struct judge *j = context;
	size_t n;

	if (ptah_call_tree_functions(tree, &list, &n) < 0)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_mark m = {.function = list[i].function,
						 .space = list[i].space};
		const char *name = name_of(j, thread, &m);
		struct sums *s = name ? sums_of(j, name) : NULL;

		if (!s)
			continue;
		s->least += (double)list[i].time_least;
		s->most += (double)list[i].time_most;
		s->endless |= !list[i].time_most;
		if (list[i].inclusive.time < list[i].time_least ||
		    (list[i].time_most && list[i].inclusive.time > list[i].time_most))
			complain(j, &(struct thread){0}, "its total is not within its bounds",
				 name);
	}
	free(list);
	return 0;
}

static void judge_totals(struct judge *j)
{
	const struct ptah_call_reader_config config = {
	    .size = sizeof(config), .bounds = true, .functions = j->functions};
	uint32_t mult = 0, shift = 0;
	double ns;

	ptah_session_time_scale(j->session, &mult, &shift);
	ns = (double)mult / (double)(UINT64_C(1) << shift);
	if (ptah_session_call_trees(j->session, &config, take_tree, j) < 0)
		complain(j, &(struct thread){0}, "no", "trees");
	for (struct sums *s = j->sums; s < &j->sums[FUNCTIONS] && s->name[0]; s++) {
		if ((double)s->shortest * ns > s->most + 1000 && !s->endless)
			complain(j, &(struct thread){0}, "all calls took longer", s->name);
		if ((double)s->longest * ns + 1000 < s->least && !s->open)
			complain(j, &(struct thread){0}, "all calls took less", s->name);
	}
}

/* Calls that may have taken longer, by what the log says around them; they do not nest. */
static uint64_t count_longer(const struct judge *j, const char *function, uint64_t ns)
{
	uint32_t mult = 0, shift = 0;
	uint64_t n = 0;

	ptah_session_time_scale(j->session, &mult, &shift);
	for (size_t i = 1; i + 1 < j->count; i++) {
		const struct line *l = &j->log[i];
		const uint64_t from = l[-1].tid == l->tid ? l[-1].tsc : 0;
		const uint64_t to = i + 2 < j->count && l[2].tid == l->tid ? l[2].tsc : TSC_MASK;

		n += l->sign == '+' && !strcmp(l->name, function) &&
		     (unsigned __int128)(to - from) * mult >> shift > ns;
	}
	return n;
}

static void judge_hits(struct judge *j, char **argv)
{
	const uint64_t longer = count_longer(j, argv[0], strtoull(argv[1], NULL, 0));
	const uint64_t hits = strtoull(argv[2], NULL, 0);

	printf("%s > %s ns: %" PRIu64 " hits of %" PRIu64 "\n", argv[0], argv[1], hits, longer);
	j->wrong += hits > longer;
}

/* Prints what was found. Returns how many lines of the log were not met. */
static size_t conclude(const struct judge *j)
{
	size_t left = j->count - 1;

	for (const struct sums *s = j->sums; s < &j->sums[FUNCTIONS] && s->name[0]; s++)
		printf("%s: %" PRIu64 " calls, %.0f ticks each, estimated %+.1f %%, "
		       "all at least %.0f, at most %.0f ns\n",
		       s->name, s->calls, s->calls ? (double)s->truth / (double)s->calls : 0.0,
		       s->truth ? 100 * ((double)s->estimate / (double)s->truth - 1) : 0.0,
		       s->least, s->endless ? INFINITY : s->most);
	for (size_t i = 0; i < j->thread_count; i++) {
		const struct thread *t = j->threads[i];

		for (size_t k = t->next; k > 1 && j->log[k - 1].tid == t->tid; k--)
			left--;
		free(j->threads[i]);
	}
	if (left)
		printf("%zu of %zu lines were not met\n", left, j->count - 1);
	if (j->wrong)
		printf("%u are wrong\n", j->wrong);
	return left;
}

int main(int argc, char **argv)
{
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	struct ptah_session *session;
	struct ptah_message why;
	struct judge j = {0};
	int status;
	size_t left;

	if (argc < 3 || ptah_session_open(argv[1], NULL, &session, &why) < 0)
		return 2;
	j.session = session;
	read_log(&j, argv[2]);
	if (ptah_functions_new(session, &j.functions) < 0 ||
	    ptah_call_reader_new(session, NULL, &reader) < 0)
		return 2;
	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
		take(&j, batch);
	judge_totals(&j);
	if (argc > 5)
		judge_hits(&j, argv + 3);
	left = conclude(&j);
	ptah_call_reader_free(reader);
	ptah_functions_free(j.functions);
	ptah_session_close(session);
	free(j.threads);
	free(j.log);
	return status < 0 || j.wrong || left || j.count < 2;
}
