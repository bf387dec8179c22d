/* SPDX-License-Identifier: MIT */
/* Answers which threads ran in a stream, and which name a thread had at which time. */
#include "base/order.h"
#include "session/records.h"

#include <stdlib.h>
#include <string.h>

static int compare_runners(const void *a, const void *b)
{
	const struct runner *x = a, *y = b;

	return COMPARE_THEN(x->pid, y->pid, COMPARE(x->tid, y->tid));
}

/* Whether the trace of a stream can be of this turn's thread. */
static bool may_be_of(const struct stream *stream, const struct turn *turn)
{
	return turn->tid > 0 && (stream_is_shared(stream) || turn->pid == stream->info.pid);
}

int session_list_runners(const struct ptah_session *s, struct stream *stream)
{
	const struct cpu *cpu = &s->cpus[stream->cpu];
	struct runner *runners = malloc((cpu->count + 1) * sizeof(*runners)), *fewer;
	size_t n = 0, last = 0;

	if (!runners)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < cpu->count; i++)
		if (may_be_of(stream, &cpu->turns[i]))
			runners[n++] = (struct runner){cpu->turns[i].pid, cpu->turns[i].tid};
	qsort(runners, n, sizeof(*runners), compare_runners);
	for (size_t i = 1; i < n; i++)
		if (compare_runners(&runners[last], &runners[i]))
			runners[++last] = runners[i];
	stream->runner_count = n ? last + 1 : 0;
	fewer = realloc(runners, (stream->runner_count + 1) * sizeof(*runners));
	stream->runners = fewer ? fewer : runners;
	return 0;
}

/* Fills in the thread's last name. */
static void name_thread(const struct ptah_session *s, struct ptah_thread *thread)
{
	const size_t i = table_get(&s->threads_by_tid, (uint32_t)thread->tid);

	if (i != SESSION_NONE)
		memcpy(thread->comm, s->threads[i].comm, sizeof(thread->comm));
}

int ptah_session_stream_thread(const struct ptah_session *s, size_t stream, size_t i,
			       struct ptah_thread *thread)
{
	const struct stream *st;

	if (!s || stream >= s->stream_count || !thread)
		return PTAH_E_INVAL;
	st = &s->streams[stream];
	if (st->info.tid >= 0 && !i) {
		*thread = (struct ptah_thread){.pid = st->info.pid, .tid = st->info.tid};
		memcpy(thread->comm, st->info.comm, sizeof(thread->comm));
		return 0;
	}
	if (i >= st->runner_count)
		return PTAH_E_MISSING;
	*thread = (struct ptah_thread){.pid = st->runners[i].pid, .tid = st->runners[i].tid};
	name_thread(s, thread);
	return 0;
}

bool ptah_session_thread_name(const struct ptah_session *s, int32_t tid, uint64_t tsc,
			      char comm[16], uint64_t *until)
{
	size_t i = tid > 0 ? table_get(&s->threads_by_tid, (uint32_t)tid) : SESSION_NONE;
	size_t low = 0, high;
	const struct thread *t;

	if (i == SESSION_NONE || !s->has_clock || !s->threads[i].name_count)
		return false;
	t = &s->threads[i];
	/* The last name with a time up to tsc is before `high`. */
	high = t->name_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (t->names[middle].tsc <= tsc)
			low = middle + 1;
		else
			high = middle;
	}
	memcpy(comm, t->names[high ? high - 1 : 0].comm, sizeof(t->comm));
	*until = high < t->name_count ? t->names[high].tsc : UINT64_MAX;
	return true;
}
