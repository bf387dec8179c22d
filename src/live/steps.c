/* SPDX-License-Identifier: MIT */
/*
 * A step: what was queued goes into the session, in the order of time; what may be decoded is, for
 * some milliseconds; then its trace is freed. Between steps the session stands still, and questions
 * can be asked.
 */
#include "live/live.h"

#include "base/order.h"
#include "perfdata/message.h"
#include "session/jit.h"
#include "session/jit_follow.h"
#include "session/records.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* So much of a stream, and of all streams together, is decoded in one step. */
#define SLICE (UINT64_C(128) << 10)
#define STEP  (UINT64_C(1) << 20)

/* Decoders of so many threads that have ended exist at once: each takes megabytes. */
#define ENDED_MOST 8

/* For so many rounds the beginning of a program is waited for that a thread executes. */
#define EXEC_ROUNDS 1000

/* So many times the queue may wait, of processors' trace, for what must come before it. */
#define WAITING_MOST 8

struct batch {
	struct live_list rounds, used;
	uint64_t freed; /* bytes of records that are not kept */
};

/* Records */

/* The bytes of a record are not needed any longer. */
static void use_up(struct batch *b, struct live_entry *e)
{
	live_list_add(&b->used, e);
	b->freed += sizeof(*e) + e->size;
}

static int take_record(struct ptah_live *live, struct batch *b, struct live_entry *e)
{
	struct ptah_message why = {""};
	struct live_timed *t;
	bool keep = false;
	int status;

	if (!LIST_ROOM(live->waiting, live->waiting_count, live->waiting_capacity)) {
		free(e);
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	}
	t = &live->waiting[live->waiting_count];
	status =
	    perfdata_push(live->session->file, e->bytes, (size_t)e->size, &t->record, &keep, &why);
	if (status > 0)
		status = grow_take(live->session, &t->record, &t->tsc, &why);
	if (keep)
		live_list_add(&live->kept, e);
	if (status <= 0 && !keep)
		use_up(b, e);
	if (status < 0)
		return live_fail(live, status, "%s",
				 why.text[0] ? why.text : ptah_strerror(status));
	if (!status)
		return 0;
	t->entry = keep ? NULL : e;
	t->order = live->record_count++;
	live->waiting_count++;
	live->newest = t->tsc > live->newest ? t->tsc : live->newest;
	return 0;
}

static int compare_records(const void *a, const void *b)
{
	const struct live_timed *x = a, *y = b;

	return COMPARE_THEN(x->tsc, y->tsc, COMPARE(x->order, y->order));
}

static void end_soon(struct live_stream *ls)
{
	if (!ls->ended)
		ls->ended_at = ls->live->rounds;
	ls->ended = true;
}

/* A thread has ended: nothing follows in its stream, which is the last one with its number. */
static void note_exit(struct ptah_live *live, const struct perfdata_record *r)
{
	const int32_t tid = r->tid;

	live_note_exited(live, tid);
	if (tid == r->pid)
		jit_follow_exited(live->session, tid);
	for (size_t i = live->count; i-- > 0;)
		if (live->session->streams[i].info.tid == tid) {
			end_soon(live->streams[i]);
			return;
		}
}

/* Applies the records that have waited long enough. Returns how many; or an error. */
static int apply_known(struct ptah_live *live, struct batch *b)
{
	struct ptah_session *s = live->session;
	size_t n = 0;
	int status = 0;

	qsort(live->waiting, live->waiting_count, sizeof(*live->waiting), compare_records);
	for (; n < live->waiting_count && status >= 0; n++) {
		struct live_timed *t = &live->waiting[n];

		/* Threads have records of their own, so those that come are all there are. */
		if (live->per_cpu && t->tsc > live->known)
			break;
		if (t->record.type == PERFDATA_FORK && t->record.pid != t->record.ppid)
			jit_follow_forked(s, t->record.pid, t->record.time);
		status = session_take_record(s, &t->record, t->tsc);
		if (t->record.type == PERFDATA_EXIT)
			note_exit(live, &t->record);
		if (t->entry)
			use_up(b, t->entry);
	}
	live->waiting_count -= n;
	memmove(live->waiting, live->waiting + n, live->waiting_count * sizeof(*live->waiting));
	return status < 0 ? status : n > 0;
}

static int give_changes(struct ptah_live *live)
{
	struct growth *g = live->session->growth;
	int status = 0;

	for (size_t i = 0; i < g->fresh_count && status >= 0; i++)
		for (size_t k = 0; k < live->count && status >= 0; k++)
			if (live->streams[k]->opened &&
			    grow_concerns(live->session, live->streams[k]->index,
					  g->fresh[i].process))
				status = live_take_change(live->streams[k], g->fresh[i].process,
							  &g->fresh[i].change);
	g->fresh_count = 0;
	return status;
}

/* Reads lists of generated code: what they say of it is in them before it runs. 1: they have grown.
 */
static int read_lists(struct ptah_live *live, bool complete)
{
	const int grown = jit_follow_read(live->session, complete);

	if (grown <= 0 || !functions_refresh(live->functions))
		return grown;
	for (size_t i = 0; i < live->count; i++)
		if (live->streams[i]->opened && live->streams[i]->own.thread)
			call_thread_code_changed(live->streams[i]->own.thread);
	live->code_changes++;
	return grown;
}

static int apply_records(struct ptah_live *live, struct batch *b, bool all)
{
	int status, grown;

	live->per_cpu =
	    !live->session->is_guest && (live->per_cpu || perfdata_per_cpu(live->session->file));
	status = live->waiting_count ? apply_known(live, b) : 0;
	live->session->growth->known = live->known;
	live->session->growth->rounds = live->rounds;
	grown = status < 0 ? 0 : read_lists(live, all);
	if (status < 0 || (!status && grown <= 0))
		return status < 0 ? status : grown;
	status = grow_settle(live->session);
	for (size_t i = 0; i < live->count; i++)
		if (live->streams[i]->opened)
			live_refresh(live->streams[i], 0, 0);
	if (status >= 0)
		status = give_changes(live);
	for (size_t i = 0; i < live->count && status >= 0; i++)
		if (live->streams[i]->opened)
			status = live_settle(live->streams[i]);
	return status;
}

/* Trace */

/* The stream of an entry; it is made if it is the first one. NULL: an error. */
static struct live_stream *stream_of(struct ptah_live *live, const struct live_entry *e)
{
	const size_t index = grow_stream(live->session, e->stream, e->tid, e->cpu);
	struct live_stream *ls;

	while (index != SESSION_NONE && live->count <= index) {
		if (!LIST_ROOM(live->streams, live->count, live->capacity))
			return NULL;
		ls = calloc(1, sizeof(*ls));
		if (!ls)
			return NULL;
		ls->live = live;
		ls->index = live->count;
		live_list_init(&ls->blocks);
		live_list_init(&ls->losses);
		live->streams[live->count++] = ls;
	}
	return index == SESSION_NONE ? NULL : live->streams[index];
}

/* Frees trace that is not decoded. */
static void drop_trace_entry(struct ptah_live *live, struct live_entry *e)
{
	pthread_mutex_lock(&live->lock);
	live->figures.decoded += e->size;
	live->figures.behind -= e->size;
	live->figures.memory -= e->size;
	live->ready_bytes -= e->size < live->ready_bytes ? e->size : live->ready_bytes;
	pthread_mutex_unlock(&live->lock);
	free(e);
}

static int add_trace(struct ptah_live *live, struct live_entry *e)
{
	static const uint8_t zeros[8];
	struct live_stream *ls = stream_of(live, e);
	uint64_t before;
	int status;

	if (!ls) {
		free(e);
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	}
	if (e->kind == LIVE_LOSS) {
		e->end = live->session->streams[ls->index].info.bytes;
		ls->dropped += e->size;
		live_list_add(&ls->losses, e);
		return 0;
	}
	/* Padding after the trace of a thread that has ended. */
	if (ls->retired && e->size < 8 && !memcmp(e->bytes, zeros, (size_t)e->size)) {
		drop_trace_entry(live, e);
		return 0;
	}
	before = live->session->streams[ls->index].info.bytes;
	status = grow_trace(live->session, ls->index, e->offset, e->bytes, e->size);
	e->end = live->session->streams[ls->index].info.bytes;
	if (e->end == before)
		drop_trace_entry(live, e); /* all of it had come already */
	else
		live_list_add(&ls->blocks, e);
	return status < 0 ? live_fail(live, status, "out of memory") : 0;
}

/* Trace of a round that may be decoded goes to its streams. */
static int release(struct ptah_live *live, struct live_list *trace)
{
	int status = 0;

	while (trace->first && status >= 0) {
		struct live_entry *e = trace->first;

		trace->first = e->next;
		if (!trace->first)
			live_list_init(trace);
		status = add_trace(live, e);
	}
	return status;
}

/* What a stream is of is what its first piece was of, whatever is said of the others. */
static bool is_of_processor(struct ptah_live *live, const struct live_entry *e)
{
	const size_t i = grow_stream(live->session, e->stream, e->tid, e->cpu);

	/* A virtual machine's processors have changes of their own each, and no threads. */
	return i != SESSION_NONE && live->session->streams[i].info.cpu >= 0 &&
	       !live->session->is_guest;
}

/*
 * Trace of processors waits for one more round: only then the records that were written before it
 * are applied in their order, because what a round brings of one processor may be earlier than what
 * the round before it has brought of another.
 */
static int end_round(struct ptah_live *live)
{
	struct live_list *waits = &live->trace[2], *last = &live->trace[1];
	int status = release(live, waits);

	while (live->per_cpu && last->first) {
		struct live_entry *e = last->first;

		last->first = e->next;
		if (!last->first)
			live_list_init(last);
		if (is_of_processor(live, e))
			live_list_add(waits, e);
		else if (status >= 0)
			status = add_trace(live, e);
		else
			free(e);
	}
	if (status >= 0)
		status = release(live, last);
	live->rounds++;
	live->known = live->ended;
	live->ended = live->newest;
	live_list_move(last, &live->trace[0]);
	return status;
}

static int sort_entries(struct ptah_live *live, struct batch *b)
{
	int status = 0;

	while (b->rounds.first && status >= 0) {
		struct live_entry *e = b->rounds.first;

		b->rounds.first = e->next;
		switch (e->kind) {
		case LIVE_RECORD:
			status = take_record(live, b, e);
			break;
		case LIVE_ROUND:
			live_list_add(&b->used, e);
			status = end_round(live);
			break;
		default:
			live_list_add(&live->trace[0], e);

			/* Streams are numbered in the order in which their trace came. */
			if (!stream_of(live, e))
				status = PTAH_E_NOMEM;
			else
				live->per_cpu = live->per_cpu || is_of_processor(live, e);
			break;
		}
	}
	return status;
}

/* A thread has one stream at a time: those before this one have ended. */
static void end_before(struct ptah_live *live, size_t stream)
{
	const struct stream *streams = live->session->streams;

	for (size_t i = 0; i < stream; i++)
		if (streams[i].info.tid >= 0 && streams[i].info.tid == streams[stream].info.tid)
			end_soon(live->streams[i]);
}

/* How many threads have ended that are being decoded. */
static size_t count_ended(const struct ptah_live *live)
{
	size_t n = 0;

	for (size_t i = 0; i < live->count; i++)
		n += live->streams[i]->opened && live->streams[i]->ended &&
		     live->streams[i]->decoded < live->session->streams[i].info.bytes;
	return n;
}

/* Who it is whose first trace has come. */
static int name_stream(struct ptah_live *live, struct live_stream *ls)
{
	const struct stream *stream = &live->session->streams[ls->index];
	struct ptah_message why = {""};
	int status = grow_begin(live->session, &why);

	if (status >= 0 && stream->info.cpu >= 0 && !live->session->has_clock &&
	    !live->session->is_guest)
		status = perfdata_message(
		    &why, PTAH_E_FOREIGN,
		    "the trace of processors is not followed in a recording without times: "
		    "record with a buffer for each thread (--per-thread)");
	if (status >= 0 && !ls->named)
		status = grow_name(live->session, ls->index);
	if (status < 0)
		return live_fail(live, status, "%s",
				 why.text[0] ? why.text : ptah_strerror(status));
	if (!ls->named)
		end_before(live, ls->index);
	ls->named = true;
	if (ls->retired) {
		ls->ended = false;
		ls->closed_at = 0;
	}
	return 0;
}

/* Streams whose threads have ended may wait for others of that kind. 1: some do. */
static int open_streams(struct ptah_live *live)
{
	size_t ended = count_ended(live);
	int status = 0, waits = 0;

	for (size_t i = 0; i < live->count && status >= 0; i++) {
		struct live_stream *ls = live->streams[i];

		if (ls->opened || !live->session->streams[i].count)
			continue;
		if (!ls->named || ls->retired)
			status = name_stream(live, ls);
		if (status >= 0 && ls->ended && ended == ENDED_MOST) {
			waits = 1;
			continue;
		}
		if (status >= 0)
			status = live_open(ls);
		ended += ls->ended;
	}
	if (status < 0)
		return live_fail(live, status, "%s", ptah_strerror(status));
	return waits;
}

/* Everything that was queued up to the last mark goes into the session. */
static int take_queue(struct ptah_live *live)
{
	struct batch b = {0};
	bool all, fresh;
	int status;

	all = live_take_rounds(live, &b.rounds);
	if (!b.rounds.first && !all)
		return 0;
	/* At the end there are steps that bring nothing: what waits does not go on by itself. */
	fresh = b.rounds.first || !live->session->growth->complete;
	live_list_init(&b.used);
	status = sort_entries(live, &b);
	if (all) {
		live->known = UINT64_MAX;
		live->session->growth->complete = true;
	}
	if (status >= 0)
		status = apply_records(live, &b, all);
	for (size_t i = 0; i < 3 && all && status >= 0; i++)
		status = end_round(live);
	for (size_t i = 0; i < live->count; i++) {
		live->streams[i]->dry = live->streams[i]->dry && !fresh;
		if (live->streams[i]->opened)
			live_refresh(live->streams[i], 0, 0);
	}
	if (status >= 0)
		status = grow_place_limits(live->session);
	live_list_free(&b.used);
	live_list_free(&b.rounds);
	pthread_mutex_lock(&live->lock);
	live->figures.memory -= b.freed;
	pthread_mutex_unlock(&live->lock);
	return status < 0 ? live_fail(live, status, "%s", ptah_strerror(status)) : 0;
}

/* Decoding */

struct work {
	struct ptah_live *live;
	size_t *list; /* streams that have trace */
	uint64_t *stops;
};

static void decode(void *context, size_t i)
{
	const struct work *w = context;
	struct live_stream *ls = w->live->streams[w->list[i]];

	ls->status = live_decode(ls, w->stops[i]);
}

/*
 * Whether nothing follows in the stream: two rounds after its end became known, its last trace has
 * come. A stream whose recorder has said all of it may end because its thread executes another
 * program; what it executed is known when that begins, much later, and is how its calls end.
 */
static bool is_over(struct live_stream *ls)
{
	const uint64_t rounds = ls->live->rounds;

	if (ls->live->session->streams[ls->index].info.has_truth && !ls->closed_at)
		ls->closed_at = rounds + 1;
	return (ls->ended && rounds >= ls->ended_at + 3) ||
	       (ls->closed_at && rounds >= ls->closed_at + EXEC_ROUNDS);
}

/*
 * So much of a stream waits at most for the time at which it ran, and for so many rounds, which are
 * a few milliseconds each: a loop without a system call may never have a stamp behind it.
 */
#define HELD_MOST   (UINT64_C(1) << 20)
#define HELD_ROUNDS 200

/*
 * How far a stream can be decoded. Of a thread that goes on, what has no stamp behind it yet waits
 * for one: its times would be others than those of the recording when it is complete.
 */
static uint64_t decodable(struct ptah_live *live, struct live_stream *ls)
{
	const struct stream *stream = &live->session->streams[ls->index];
	const uint64_t there = stream->info.bytes;

	if (!ls->calls || !ls->times.used || is_over(ls) || !stream->grows ||
	    there - ls->decoded > HELD_MOST)
		return there;
	if (live_follow_stamps(ls) < 0)
		return there;
	if (ls->known > ls->decoded || there == ls->decoded) {
		ls->held_since = live->rounds;
		return ls->known > ls->decoded ? ls->known : ls->decoded;
	}
	return live->rounds - ls->held_since > HELD_ROUNDS ? there : ls->decoded;
}

/*
 * Chooses the streams that are decoded in this step, and how far. Returns how many. *more: there is
 * more. hold: what has no time yet waits; *held: something does.
 */
static size_t choose_step_streams(struct ptah_live *live, struct work *w, bool hold, bool *more,
				  bool *held)
{
	uint64_t budget = STEP;
	size_t n = 0;

	*more = *held = false;
	for (size_t i = 0; i < live->count; i++) {
		const size_t k = (live->next + i) % live->count;
		const struct live_stream *ls = live->streams[k];
		uint64_t there, size;

		if (!ls->opened || ls->dry)
			continue;
		there = live->session->streams[k].info.bytes;
		if (hold && there != ls->decoded) {
			const uint64_t all = there;

			there = decodable(live, live->streams[k]);
			*held = *held || there < all;
		}
		size = there - ls->decoded;
		if (!size)
			continue;
		if (!budget) {
			*more = true;
			break;
		}
		size = size < SLICE ? size : SLICE;
		size = size < budget ? size : budget;
		budget -= size;
		*more = *more || ls->decoded + size < there;
		w->stops[n] = ls->decoded + size;
		w->list[n++] = k;
	}
	live->next = live->count ? (live->next + n) % live->count : 0;
	return n;
}

static int report_losses(struct live_stream *ls)
{
	struct ptah_live *live = ls->live;
	int status = 0;

	while (ls->losses.first && ls->losses.first->end <= ls->decoded && status >= 0) {
		struct live_entry *e = ls->losses.first;
		struct ptah_live_thread thread;
		struct ptah_live_loss loss = {.size = sizeof(loss),
					      .number = ls->index,
					      .offset = e->offset,
					      .bytes = e->size,
					      .since = e->when,
					      .until = e->until};

		live_describe(ls, &thread);
		loss.pid = thread.pid;
		loss.tid = thread.tid;
		loss.cpu = thread.cpu;
		loss.tsc = thread.tsc;
		ls->losses.first = e->next;
		if (!e->next)
			live_list_init(&ls->losses);
		free(e);
		if (live->config.on_loss)
			status = live->config.on_loss(live->config.context, &loss);
	}
	return status;
}

/*
 * Frees what has been decoded of a stream, which was asked for up to `stop`. A processor's stream
 * may not have come so far.
 */
static void free_trace(struct live_stream *ls, uint64_t stop, uint64_t *freed, uint64_t *oldest)
{
	struct stream *stream = &ls->live->session->streams[ls->index];
	const uint64_t decoded = stream->cpu == SESSION_NONE ? stop : live_position(ls);

	ls->decoded = decoded;
	ls->dry = decoded < stop;
	live_refresh(ls, grow_trim(stream, decoded), 0);
	if (stream->cpu != SESSION_NONE)
		live_trim(ls);
	while (ls->blocks.first && ls->blocks.first->end <= decoded) {
		struct live_entry *e = ls->blocks.first;

		*freed += e->size;
		if (!*oldest || e->when < *oldest)
			*oldest = e->when;
		ls->blocks.first = e->next;
		if (!e->next)
			live_list_init(&ls->blocks);
		free(e);
	}
}

/* When the oldest trace came that is not decoded; 0: there is none. */
static uint64_t find_oldest(const struct ptah_live *live)
{
	uint64_t oldest = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct live_entry *e = live->streams[i]->blocks.first;

		if (e && (!oldest || e->when < oldest))
			oldest = e->when;
	}
	for (size_t i = 0; i < 3; i++) {
		const struct live_entry *e = live->trace[i].first;

		if (e && (!oldest || e->when < oldest))
			oldest = e->when;
	}
	return oldest;
}

static uint64_t list_bytes(const struct live_list *list)
{
	uint64_t bytes = 0;

	for (const struct live_entry *e = list->first; e; e = e->next)
		bytes += e->kind == LIVE_TRACE ? e->size : 0;
	return bytes;
}

/* Bytes of processors' trace in the session that cannot be decoded now. *most: whose are the most.
 */
static uint64_t waiting_bytes(const struct ptah_live *live, size_t *most)
{
	uint64_t sum = 0, greatest = 0;

	*most = SESSION_NONE;
	for (size_t i = 0; i < live->count && live->per_cpu; i++) {
		const uint64_t bytes =
		    live->streams[i]->dry ? list_bytes(&live->streams[i]->blocks) : 0;

		sum += bytes;
		if (bytes > greatest) {
			greatest = bytes;
			*most = i;
		}
	}
	return sum;
}

/* Sums up what has been decoded, for ptah_live_status(). */
static void sum_up(struct ptah_live *live, uint64_t freed, uint64_t oldest)
{
	struct ptah_live_status *f = &live->figures;
	const uint64_t now = live_now();
	size_t most;

	pthread_mutex_lock(&live->lock);
	live->waiting_bytes = waiting_bytes(live, &most) + list_bytes(&live->trace[2]);
	f->decoded += freed;
	f->behind -= freed;
	f->memory -= freed;
	live->ready_bytes -= freed < live->ready_bytes ? freed : live->ready_bytes;
	if (oldest && now - oldest > f->worst_lag)
		f->worst_lag = now - oldest;
	live->oldest = find_oldest(live);
	f->threads = live->count;
	f->processes = live->session->process_count;
	f->calls = 0;
	/* What profiles have counted is added up when somebody asks. */
	if (live->config.what != PTAH_LIVE_COUNTS)
		f->errors = f->overflows = 0;
	if (live->config.what & PTAH_LIVE_CALLS)
		f->instructions = 0;
	for (size_t i = 0; i < live->count; i++) {
		const struct live_stream *ls = live->streams[i];

		if (live->config.what != PTAH_LIVE_COUNTS) {
			f->errors += ls->errors;
			f->overflows += ls->overflows;
		}
		f->calls += ls->own.tally.calls;
		if (live->config.what & PTAH_LIVE_CALLS)
			f->instructions += ls->own.tally.total;
	}
	for (size_t i = 0; i < live->runner_count; i++)
		if (live->runners[i]) {
			f->calls += live->runners[i]->tally.calls;
			f->instructions += live->runners[i]->tally.total;
		}
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
}

/* A stream that has the figures of this one's program. NULL: there is none. */
static struct live_stream *heir_of(const struct ptah_live *live, const struct live_stream *ls)
{
	const struct stream *streams = live->session->streams, *stream = &streams[ls->index];

	for (size_t i = 0; i < live->count; i++) {
		struct live_stream *other = live->streams[i];

		if (i != ls->index && other->named && streams[i].process == stream->process &&
		    streams[i].info.space == stream->info.space &&
		    streams[i].process != SESSION_NONE && (other->opened || other->keeps))
			return other;
	}
	return NULL;
}

/* Frees the decoders of streams that are over. */
static int retire(struct ptah_live *live)
{
	int status = 0;

	for (size_t i = 0; i < live->count && status >= 0; i++) {
		struct live_stream *ls = live->streams[i];
		struct stream *stream = &live->session->streams[i];

		if (stream->cpu != SESSION_NONE)
			continue;
		if (!ls->opened || !is_over(ls) || ls->decoded != stream->info.bytes ||
		    ls->losses.first)
			continue;
		stream->grows = false;
		status = live_decode(ls, UINT64_MAX);
		if (status >= 0)
			status = live_end_calls(ls);
		stream->grows = true;
		if (status >= 0) {
			struct live_stream *heir = heir_of(live, ls);

			ls->keeps = !heir;
			status = live_retire(ls, heir);
			if (status >= 0 && !heir)
				status = live_fold(ls);
		}
	}
	return status;
}

/* Decodes a part of what may be decoded. 1: there is more. */
static int decode_some(struct ptah_live *live)
{
	struct work w = {.live = live,
			 .list = calloc(live->count + 1, sizeof(*w.list)),
			 .stops = calloc(live->count + 1, sizeof(*w.stops))};
	uint64_t freed = 0, oldest = 0;
	int followed = 0;
	bool more = false, held = false;
	size_t n;
	int status = w.list && w.stops ? 0 : PTAH_E_NOMEM;

	n = status < 0 ? 0 : choose_step_streams(live, &w, true, &more, &held);
	if (!n && held && live_is_full(live))
		n = choose_step_streams(live, &w, false, &more, &held);
	live_crew_run(live->crew, n, decode, &w);
	if (status >= 0 && live->per_cpu && live->config.what & PTAH_LIVE_CALLS)
		status = followed =
		    live_run_processors(live, live->session->growth->forced != SESSION_NONE);
	for (size_t i = 0; i < n && status >= 0; i++) {
		struct live_stream *ls = live->streams[w.list[i]];

		status = ls->status;
		free_trace(ls, w.stops[i], &freed, &oldest);
		if (status >= 0)
			status = report_losses(ls);
	}
	/* What waited for another processor may go on. */
	for (size_t i = 0; i < live->count && followed > 0; i++)
		live->streams[i]->dry = false;
	more = more || followed > 0;
	if (status >= 0)
		status = retire(live);
	if (status >= 0 && live->runner_count)
		status = live_end_runners(live, false);
	sum_up(live, freed, oldest);
	free(w.list);
	free(w.stops);
	/* Nothing comes until some of what is held has been decoded: in the next step. */
	more = more || (held && live_is_full(live));
	return status < 0 ? live_fail(live, status, "%s", ptah_strerror(status)) : more;
}

/*
 * So much waits that what waits most is decoded with what is known now, so that memory is bounded.
 * What this is wrong about is an error in the results. 1: there may be more to do.
 */
static int force_some(struct ptah_live *live)
{
	struct growth *g = live->session->growth;
	uint64_t before;
	size_t most;
	int status;

	if (waiting_bytes(live, &most) / WAITING_MOST <= live->config.queue || most == SESSION_NONE)
		return 0;
	g->forced = most;
	live->streams[most]->dry = false;
	before = live->streams[most]->decoded;
	status = decode_some(live);
	g->forced = SESSION_NONE;
	/* What is left may be the beginning of a packet. */
	return status < 0 ? status : status || live->streams[most]->decoded != before;
}

int live_step(struct ptah_live *live)
{
	int status, waits = 0;

	pthread_mutex_lock(&live->lock);
	status = live->status;
	pthread_mutex_unlock(&live->lock);
	if (status >= 0)
		status = take_queue(live);
	if (status >= 0)
		status = waits = open_streams(live);
	if (status >= 0)
		status = decode_some(live);
	if (!status && live->per_cpu)
		status = force_some(live);
	return status < 0 ? status : status || waits;
}

static void end_stream(void *context, size_t i)
{
	struct live_stream *ls = ((struct ptah_live *)context)->streams[i];

	if (!ls->opened)
		return;
	ls->status = live_decode(ls, UINT64_MAX);
	if (ls->status >= 0)
		ls->status = live_end_calls(ls);
	ls->ended = true;
}

/* What profiles have counted, which takes a while to add up. */
void live_count_up(struct ptah_live *live)
{
	uint64_t instructions = 0, errors = 0, overflows = 0;

	if (live->config.what & PTAH_LIVE_CALLS || !(live->config.what & PTAH_LIVE_COUNTS))
		return;
	for (size_t i = 0; i < live->count; i++) {
		struct ptah_live_thread thread = {.size = sizeof(thread)};

		ptah_live_thread(live, i, &thread);
		instructions += thread.instructions;
		errors += thread.errors;
		overflows += thread.overflows;
	}
	pthread_mutex_lock(&live->lock);
	live->figures.instructions = instructions;
	live->figures.errors = errors;
	live->figures.overflows = overflows;
	pthread_mutex_unlock(&live->lock);
}

int live_end(struct ptah_live *live)
{
	uint64_t freed = 0, oldest = 0;
	int status = 0;

	if (live->cut)
		perfdata_cut_pushed(live->session->file);
	for (size_t i = 0; i < live->count; i++)
		live->session->streams[i].grows = false;
	live_crew_run(live->crew, live->count, end_stream, live);
	status = live_end_runners(live, true);
	for (size_t i = 0; i < live->count && status >= 0; i++) {
		struct live_stream *ls = live->streams[i];

		status = ls->status;
		if (status >= 0 && ls->opened)
			free_trace(ls, live->session->streams[i].info.bytes, &freed, &oldest);
		if (status >= 0)
			status = report_losses(ls);
	}
	sum_up(live, freed, oldest);
	live_count_up(live);
	return status < 0 ? live_fail(live, status, "%s", ptah_strerror(status)) : 0;
}

void live_forget(struct ptah_live *live)
{
	live_free_runners(live);
	live_fold_free(&live->fold);
	call_threads_fini(&live->threads);
	for (size_t i = 0; i < live->count; i++)
		live_close(live->streams[i]);
	free(live->streams);
	ptah_functions_free(live->functions);
	ptah_session_close(live->session);
	for (size_t i = 0; i < 3; i++)
		live_list_free(&live->trace[i]);
	for (size_t i = 0; i < live->waiting_count; i++)
		free(live->waiting[i].entry);
	free(live->waiting);
	live_list_free(&live->kept);
	live_list_free(&live->queue);
	for (size_t i = 0; i < live->drop_count; i++)
		free(live->drops[i].loss);
	free(live->drops);
}
