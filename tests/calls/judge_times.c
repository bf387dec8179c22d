/* SPDX-License-Identifier: MIT */
/*
 * Compares times with a program's own log (programs/timed_calls.c): judge_times RECORDING LOG
 * [FUNCTION NANOSECONDS HITS].
 *
 * Each call must have begun and ended within the bounds of its marks; so no call can be said to have
 * taken longer than it did. The log is written around the call's own instructions, on both sides.
 * Prints how many calls there were, and how far their estimated times are from the log's: these
 * depend on what else the machine does, and are not judged. A watch cannot have hit more often than
 * calls of the function took so long.
 */
#include <ptah/calls.h>
#include <ptah/session.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 6
#define TSC_MASK  ((UINT64_C(1) << 56) - 1)

static const char *const names[FUNCTIONS] = {"time_short", "time_long", "time_system",
					     "time_sleep", "time_lock", "time_miss"};

struct truth {
	int tid, function;
	uint64_t before, begin, end, after;
};

/* Calls do not nest here: one is open in a thread at most. */
struct thread {
	int tid;
	size_t next; /* of the thread's calls in the log */
	uint64_t begin_low, begin_high, begin_tsc;
};

struct sums {
	uint64_t calls, truth, estimate;
};

struct judge {
	const struct ptah_session *session;
	struct ptah_functions *functions;
	struct truth *log;
	size_t count;
	struct thread *threads;
	size_t thread_count;
	struct sums sums[FUNCTIONS];
	unsigned wrong;
};

static void read_log(struct judge *j, const char *path)
{
	FILE *f = fopen(path, "r");
	size_t capacity = 0;
	struct truth t;

	while (f && fscanf(f, "%d %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &t.tid,
			   &t.function, &t.before, &t.begin, &t.end, &t.after) == 6) {
		if (j->count == capacity) {
			capacity = capacity ? 2 * capacity : 1024;
			j->log = realloc(j->log, capacity * sizeof(*j->log));
			if (!j->log)
				abort();
		}
		j->log[j->count++] = t;
	}
	if (f)
		fclose(f);
}

static struct thread *thread_of(struct judge *j, int tid)
{
	for (size_t i = 0; i < j->thread_count; i++)
		if (j->threads[i].tid == tid)
			return &j->threads[i];
	j->threads = realloc(j->threads, (j->thread_count + 1) * sizeof(*j->threads));
	if (!j->threads)
		abort();
	j->threads[j->thread_count] = (struct thread){.tid = tid};
	while (j->threads[j->thread_count].next < j->count &&
	       j->log[j->threads[j->thread_count].next].tid != tid)
		j->threads[j->thread_count].next++;
	return &j->threads[j->thread_count++];
}

static int function_of(struct judge *j, const struct ptah_call_thread *thread,
		       const struct ptah_call_mark *m)
{
	struct ptah_function_name name;

	if (!ptah_functions_name(j->functions, ptah_call_thread_space(thread, m->space),
				 m->function, 0, &name) ||
	    !name.name)
		return -1;
	for (int i = 0; i < FUNCTIONS; i++)
		if (!strcmp(name.name, names[i]))
			return i;
	return -1;
}

static void complain(struct judge *j, const struct truth *t, const char *what, uint64_t low,
		     uint64_t high)
{
	if (j->wrong++ < 10)
		printf("thread %d, %s: %s is not within [%" PRIu64 ", %" PRIu64 "]: log %" PRIu64
		       " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       t->tid, names[t->function], what, low, high, t->before & TSC_MASK,
		       t->begin & TSC_MASK, t->end & TSC_MASK, t->after & TSC_MASK);
}

static void take_end(struct judge *j, struct thread *thread, const struct ptah_call_mark *m,
		     int function, uint64_t low, uint64_t high)
{
	const struct truth *t = &j->log[thread->next];

	if (thread->next >= j->count || t->tid != thread->tid || t->function != function) {
		printf("thread %d: call %zu is of another function\n", thread->tid, thread->next);
		j->wrong++;
		return;
	}
	thread->next++;
	if (thread->begin_low > (t->begin & TSC_MASK) ||
	    thread->begin_high < (t->before & TSC_MASK))
		complain(j, t, "the beginning", thread->begin_low, thread->begin_high);
	if (low > (t->after & TSC_MASK) || high < (t->end & TSC_MASK))
		complain(j, t, "the end", low, high);
	/* A watch would fire for less. */
	if (low > thread->begin_high && low - thread->begin_high > t->after - t->before)
		complain(j, t, "the least time", thread->begin_high, low);
	if (m->tsc < m->begin_tsc || m->tsc - m->begin_tsc != m->total.ticks)
		complain(j, t, "the time", m->begin_tsc, m->tsc);
	j->sums[function].calls++;
	j->sums[function].truth += t->end - t->begin;
	j->sums[function].estimate += m->total.ticks;
}

static void take(struct judge *j, const struct ptah_call_batch *batch)
{
	struct thread *thread = thread_of(j, batch->thread->tid);

	for (size_t i = 0; i < batch->count; i++) {
		const struct ptah_call_mark *m = &batch->marks[i];
		const int function = function_of(j, batch->thread, m);
		uint64_t low, high;

		if (function < 0)
			continue;
		if (ptah_session_time_bounds(j->session, batch->thread->stream, m->offset, &low,
					     &high) < 0) {
			puts("there are no bounds");
			exit(1);
		}
		if (m->end) {
			take_end(j, thread, m, function, low, high);
			continue;
		}
		thread->begin_low = low;
		thread->begin_high = high;
		thread->begin_tsc = m->tsc;
	}
}

/* Those that took longer, by what the log says around them. */
static uint64_t count_longer(const struct judge *j, const char *function, uint64_t ns)
{
	uint32_t mult = 0, shift = 0;
	uint64_t n = 0;

	ptah_session_time_scale(j->session, &mult, &shift);
	for (size_t i = 0; i < j->count; i++) {
		const struct truth *t = &j->log[i];

		n += !strcmp(names[t->function], function) &&
		     (unsigned __int128)(t->after - t->before) * mult >> shift > ns;
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

int main(int argc, char **argv)
{
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	struct ptah_session *session;
	struct ptah_message why;
	struct judge j = {0};
	uint64_t calls = 0;
	int status;

	if (argc < 3 || ptah_session_open(argv[1], NULL, &session, &why) < 0)
		return 2;
	j.session = session;
	read_log(&j, argv[2]);
	if (ptah_functions_new(session, &j.functions) < 0 ||
	    ptah_call_reader_new(session, NULL, &reader) < 0)
		return 2;
	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
		take(&j, batch);
	for (int i = 0; i < FUNCTIONS; i++) {
		const struct sums *s = &j.sums[i];

		calls += s->calls;
		printf("%s: %" PRIu64 " calls, %.0f ticks each, estimated %+.1f %%\n", names[i],
		       s->calls, s->calls ? (double)s->truth / (double)s->calls : 0.0,
		       s->truth ? 100 * ((double)s->estimate / (double)s->truth - 1) : 0.0);
	}
	if (argc > 5)
		judge_hits(&j, argv + 3);
	if (calls != j.count)
		printf("%" PRIu64 " of %zu calls\n", calls, j.count);
	if (j.wrong)
		printf("%u are wrong\n", j.wrong);
	ptah_call_reader_free(reader);
	ptah_functions_free(j.functions);
	ptah_session_close(session);
	free(j.threads);
	free(j.log);
	return status < 0 || j.wrong || calls != j.count || !j.count;
}
