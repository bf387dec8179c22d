/* SPDX-License-Identifier: MIT */
/*
 * Records a command, or reads a pipe, and decodes it live; then decodes the file that was written
 * beside it, or the recording that came through the pipe, and compares: blocks and edges of every
 * stream, functions and their calls, and the recorder's truth.
 *
 *	follow [-r RECORDER] [-j JOBS] [-q QUEUE] [-b BUFFER] [-c CHUNK] [-W WATCH] [-s SYMFS] FILE
 *		-- COMMAND...
 *	follow [...] -i FILE    reads FILE, which has the layout of a pipe, from standard input
 */
#include "live/live.h"

#include <ptah/live.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST 10 /* differences that are shown */

static unsigned differences;
static bool differ(bool different)
{
	differences += different;
	return different && differences <= MOST;
}

struct options {
	enum ptah_recorder_kind recorder;
	unsigned jobs, what, poll;
	uint64_t queue, buffer;
	size_t chunk;
	bool input, drop;
	const char *file;
	struct ptah_session_config session;
	char **command;
	struct ptah_watch watches[PTAH_LIVE_WATCHES];
	size_t watch_count;
	uint64_t hits[PTAH_LIVE_WATCHES], most[PTAH_LIVE_WATCHES];
	uint64_t lost; /* bytes that on_loss has reported */
	struct marks *marks, *items;
	unsigned holds;
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "follow: %s: %s\n", what, why);
	exit(1);
}

/* Counts */

/* A block or an edge (`end` is then where it goes) of a program of a process. */
struct counted {
	int32_t space;
	uint8_t mode, insn_class, ninsn;
	bool truncated, edge;
	uint64_t ip, end, target, count, taken, unknown;
};

struct counts {
	const struct ptah_session *session;
	struct counted *list;
	size_t count, capacity;
	uint64_t instructions, errors, overflows, gaps;
};

static void add_counted(struct counts *c, struct counted one)
{
	if (c->count == c->capacity) {
		c->capacity = 2 * c->capacity + 1024;
		c->list = reallocarray(c->list, c->capacity, sizeof(*c->list));
	}
	c->list[c->count++] = one;
}

static int take_counts(void *context, size_t stream, struct ptah_profile *profile)
{
	struct counts *c = context;
	struct ptah_profile_totals totals;
	struct ptah_profile_block *b;
	struct ptah_profile_edge *e;
	size_t n;

	ptah_profile_totals(profile, &totals);
	c->instructions += totals.instructions;
	c->errors += totals.errors;
	c->overflows += totals.overflows;
	c->gaps += totals.gaps;
	if (totals.errors)
		printf("stream %zu: error %d at offset %" PRIu64 ", ip 0x%" PRIx64 "\n", stream,
		       totals.first_error.status, totals.first_error.offset, totals.first_error.ip);
	ptah_profile_blocks(profile, &b, &n);
	for (size_t i = 0; i < n; i++)
		add_counted(c, (struct counted){.space = ptah_session_profile_pid(
						    c->session, stream, profile, b[i].space),
						.mode = b[i].mode,
						.insn_class = b[i].insn_class,
						.ninsn = (uint8_t)b[i].ninsn,
						.truncated = b[i].truncated,
						.ip = b[i].ip,
						.end = b[i].end,
						.target = b[i].target,
						.count = b[i].count,
						.taken = b[i].taken,
						.unknown = b[i].unknown});
	free(b);
	ptah_profile_edges(profile, &e, &n);
	for (size_t i = 0; i < n; i++)
		add_counted(c, (struct counted){.space = ptah_session_profile_pid(
						    c->session, stream, profile, e[i].space),
						.mode = e[i].mode,
						.insn_class = e[i].insn_class,
						.edge = true,
						.ip = e[i].from,
						.end = e[i].to,
						.count = e[i].count});
	free(e);
	return 0;
}

#define ORDER(field)                                                                               \
	if (x->field != y->field)                                                                  \
	return x->field < y->field ? -1 : 1

static int by_place(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;

	ORDER(space);
	ORDER(edge);
	ORDER(ip);
	ORDER(end);
	ORDER(mode);
	ORDER(insn_class);
	ORDER(truncated);
	ORDER(ninsn);
	ORDER(target);
	return 0;
}

static void add_up_counts(struct counts *c)
{
	size_t last = 0;

	if (!c->count)
		return;
	qsort(c->list, c->count, sizeof(*c->list), by_place);
	for (size_t i = 1; i < c->count; i++) {
		if (by_place(&c->list[last], &c->list[i])) {
			c->list[++last] = c->list[i];
			continue;
		}
		c->list[last].count += c->list[i].count;
		c->list[last].taken += c->list[i].taken;
		c->list[last].unknown += c->list[i].unknown;
	}
	c->count = last + 1;
}

static void compare_counts(const struct ptah_session *file, struct ptah_live *live)
{
	struct counts a = {.session = ptah_live_session(live)}, b = {.session = file};
	struct ptah_jobs jobs = {.size = sizeof(jobs)};

	if (ptah_live_counts(live, take_counts, &a) < 0 ||
	    ptah_session_count(file, &jobs, NULL, take_counts, &b) < 0)
		fail("counts", "cannot be read");
	add_up_counts(&a);
	add_up_counts(&b);
	if (differ(a.count != b.count || a.instructions != b.instructions || a.errors != b.errors ||
		   a.overflows != b.overflows || a.gaps != b.gaps))
		printf("live %zu blocks and edges, %" PRIu64 " instructions, %" PRIu64
		       " errors; file %zu, %" PRIu64 ", %" PRIu64 "\n",
		       a.count, a.instructions, a.errors, b.count, b.instructions, b.errors);
	for (size_t i = 0; i < a.count && i < b.count; i++) {
		const struct counted *x = &a.list[i], *y = &b.list[i];

		if (differ(by_place(x, y) || x->count != y->count || x->taken != y->taken ||
			   x->unknown != y->unknown)) {
			printf("block %zu: live 0x%" PRIx64 " of %d * %" PRIu64 ", file 0x%" PRIx64
			       " of %d * %" PRIu64 "\n",
			       i, x->ip, x->space, x->count, y->ip, y->space, y->count);
			break;
		}
	}
	printf("%zu blocks and edges\n", a.count);
	free(a.list);
	free(b.list);
}

/*
 * Numbers of address spaces. Those of a file are in the order of time, live they are in the order
 * in which records came, which is another one where several children are made at once.
 */
struct spaces {
	struct {
		int32_t live, file;
	} list[4096];
	size_t count;
};

static void add_space(struct spaces *s, int32_t live, int32_t file)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->list[i].live == live || s->list[i].file == file) {
			if (differ(s->list[i].live != live || s->list[i].file != file))
				printf("space %d of live is %d and %d of the file\n", live, file,
				       s->list[i].file);
			return;
		}
	if (s->count == sizeof(s->list) / sizeof(*s->list))
		fail("spaces", "too many");
	s->list[s->count].live = live;
	s->list[s->count++].file = file;
}

static int32_t live_space(const struct spaces *s, int32_t file)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->list[i].file == file)
			return s->list[i].live;
	return file;
}

static void match_spaces(const struct ptah_session *file, struct ptah_live *live, struct spaces *s)
{
	struct ptah_stream_info info;

	for (size_t i = 0; i < ptah_session_streams(file); i++) {
		struct ptah_live_thread thread = {.size = sizeof(thread)};

		if (ptah_session_stream_info(file, i, &info) >= 0 && info.cpu < 0 &&
		    ptah_live_thread(live, i, &thread) >= 0)
			add_space(s, thread.space, info.space);
	}
}

static void compare_truth(const struct ptah_session *file, struct ptah_live *live)
{
	for (size_t i = 0; i < ptah_session_streams(file); i++) {
		struct ptah_live_thread thread = {.size = sizeof(thread)};
		struct ptah_stream_info info;

		ptah_session_stream_info(file, i, &info);
		if (ptah_live_thread(live, i, &thread) < 0 || !info.has_truth)
			continue;
		if (differ(thread.pid != info.pid || thread.tid != info.tid ||
			   strcmp(thread.comm, info.comm) != 0))
			printf("stream %zu: live %d/%d %s, file %d/%d %s\n", i, thread.pid,
			       thread.tid, thread.comm, info.pid, info.tid, info.comm);
		if (differ(thread.instructions != info.truth.instructions))
			printf("stream %zu: %" PRIu64 " instructions decoded, the recorder counted "
			       "%" PRIu64 "\n",
			       i, thread.instructions, info.truth.instructions);
	}
}

/* Marks of calls */

/* Those of a thread, in the order in which they came. */
struct marked {
	uint64_t key, count, hash;
	uint64_t times; /* a hash of them alone */
};

struct marks {
	struct marked *list;
	size_t count, capacity;
};

static void mix(uint64_t *hash, uint64_t value)
{
	*hash = (*hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	*hash ^= *hash >> 29;
}

/* A thread that moves between processors has one number; what else ran has that of its stream. */
static struct marked *marked_of(struct marks *m, size_t stream, int32_t cpu, int32_t pid,
				int32_t tid)
{
	const uint64_t key = cpu >= 0 && tid > 0 ? (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid
						 : UINT64_C(1) << 63 | stream;

	for (size_t i = 0; i < m->count; i++)
		if (m->list[i].key == key)
			return &m->list[i];
	if (m->count == m->capacity) {
		m->capacity = 2 * m->capacity + 64;
		m->list = reallocarray(m->list, m->capacity, sizeof(*m->list));
	}
	m->list[m->count] = (struct marked){.key = key};
	return &m->list[m->count++];
}

static void add_marks(struct marked *to, const struct ptah_call_mark *marks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_mark *m = &marks[i];

		to->count++;
		mix(&to->hash, m->function + m->end);
		mix(&to->hash, (uint64_t)m->how << 32 | m->flags);
		mix(&to->times, m->tsc);
		mix(&to->hash, m->thread.instructions);
		mix(&to->hash, m->thread.cycles);
		mix(&to->times, m->total.ticks);
		mix(&to->hash, m->self.instructions);
	}
}

static int on_calls(void *context, const struct ptah_live_thread *thread,
		    const struct ptah_call_mark *marks, size_t n)
{
	struct options *o = context;

	add_marks(marked_of(o->marks, thread->number, thread->cpu, thread->pid, thread->tid), marks,
		  n);
	return 0;
}

/* Items of a stream, with the thread that ran. */
static void add_items(struct marked *to, int32_t tid, const struct ptah_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ptah_item *item = &items[i];

		to->count++;
		mix(&to->hash, (uint64_t)item->type << 32 | (uint32_t)tid);
		mix(&to->hash, item->tsc);
		mix(&to->hash, item->offset);
		if (item->type == PTAH_ITEM_BLOCK)
			mix(&to->hash, item->ip + item->ninsn);
	}
}

static int on_items(void *context, const struct ptah_live_thread *thread,
		    const struct ptah_item *items, size_t n)
{
	struct options *o = context;

	add_items(marked_of(o->items, thread->number, -1, -1, -1), thread->tid, items, n);
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct marked *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/*
 * Each thread has the same marks in the same order. Estimated times are not compared: those of the
 * file know what the whole of it says of the costs of code, those of a live session what it has said
 * so far.
 */
static void compare_marks(const struct ptah_session *file, struct marks *live)
{
	const struct ptah_call_batch *batch;
	struct ptah_call_reader_config config = {.size = sizeof(config)};
	struct ptah_call_reader *reader;
	const bool timed = !ptah_session_times(file).estimated;
	struct ptah_stream_info info;
	struct marks m = {0};
	int status = ptah_call_reader_new(file, &config, &reader);

	while (status >= 0 && (status = ptah_call_reader_next(reader, &batch)) > 0) {
		const struct ptah_call_thread *t = batch->thread;

		ptah_session_stream_info(file, t->stream, &info);
		if (batch->count)
			add_marks(marked_of(&m, t->stream, info.cpu, t->pid, t->tid), batch->marks,
				  batch->count);
	}
	if (status < 0)
		fail("marks", "cannot be read");
	ptah_call_reader_free(reader);
	if (live->count)
		qsort(live->list, live->count, sizeof(*live->list), by_key);
	if (m.count)
		qsort(m.list, m.count, sizeof(*m.list), by_key);
	if (differ(live->count != m.count))
		printf("live %zu threads have marks, file %zu\n", live->count, m.count);
	for (size_t i = 0; i < m.count && i < live->count; i++)
		if (differ(m.list[i].key != live->list[i].key ||
			   m.list[i].count != live->list[i].count ||
			   m.list[i].hash != live->list[i].hash ||
			   (timed && m.list[i].times != live->list[i].times)))
			printf("thread %" PRIx64 ": live %" PRIu64 " marks, file %" PRIx64
			       ": %" PRIu64 "\n",
			       live->list[i].key, live->list[i].count, m.list[i].key,
			       m.list[i].count);
	free(m.list);
}

static void compare_items(const struct ptah_session *file, struct marks *live)
{
	for (size_t i = 0; i < ptah_session_streams(file); i++) {
		struct marked m = {0}, *of = marked_of(live, i, -1, -1, -1);
		struct ptah_item items[256];
		struct ptah_thread who;
		struct ptah_reader *s;
		int n = ptah_reader_new(file, i, NULL, &s);

		while (n >= 0 && (n = ptah_reader_read(s, items, 256)) > 0) {
			ptah_reader_thread(s, &who);
			add_items(&m, who.tid, items, (size_t)n);
		}
		ptah_reader_free(s);
		if (differ(n < 0 || m.count != of->count || m.hash != of->hash))
			printf("stream %zu: live %" PRIu64 " items, file %" PRIu64 "\n", i,
			       of->count, m.count);
	}
}

/* Calls */

struct functions {
	const struct ptah_session *session;
	struct ptah_live_function *rows;
	size_t count, capacity;
	struct spaces spaces;
};

static int take_tree(void *context, const struct ptah_call_thread *thread,
		     struct ptah_call_tree *tree)
{
	struct functions *f = context;
	struct ptah_call_function *list;
	size_t n;

	if (ptah_call_tree_functions(tree, &list, &n) < 0)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		int32_t space = ptah_call_thread_space(thread, list[i].space);
		struct ptah_live_function *r;
		uint64_t tsc;

		/* Live, functions that were at one address in turn are added up. */
		ptah_session_version(f->session, &space, &tsc);
		if (f->count == f->capacity) {
			f->capacity = 2 * f->capacity + 64;
			f->rows = reallocarray(f->rows, f->capacity, sizeof(*f->rows));
		}
		r = &f->rows[f->count++];
		*r = (struct ptah_live_function){
		    .space = live_space(&f->spaces, space),
		    .function = list[i].function,
		    .calls = list[i].count,
		    .instructions = list[i].self.instructions,
		    .ended = list[i].histogram[PTAH_CALL_VALUE_INSTRUCTIONS].calls,
		    .max_instructions = list[i].histogram[PTAH_CALL_VALUE_INSTRUCTIONS].calls
					    ? list[i].histogram[PTAH_CALL_VALUE_INSTRUCTIONS].max
					    : 0};
	}
	free(list);
	return 0;
}

static int by_function(const void *a, const void *b)
{
	const struct ptah_live_function *x = a, *y = b;

	if (x->space != y->space)
		return x->space < y->space ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static void add_up(struct functions *f)
{
	size_t last = 0;

	if (!f->count)
		return;
	qsort(f->rows, f->count, sizeof(*f->rows), by_function);
	for (size_t i = 1; i < f->count; i++) {
		struct ptah_live_function *to = &f->rows[last], *from = &f->rows[i];

		if (by_function(to, from)) {
			f->rows[++last] = *from;
			continue;
		}
		to->calls += from->calls;
		to->instructions += from->instructions;
		to->ended += from->ended;
		if (from->max_instructions > to->max_instructions)
			to->max_instructions = from->max_instructions;
	}
	f->count = last + 1;
}

static void compare_calls(const struct ptah_session *file, struct ptah_live *live)
{
	struct ptah_call_reader_config config = {.size = sizeof(config)};
	struct functions f = {.session = file};
	struct ptah_live_function *rows;
	uint64_t calls = 0;
	size_t n = 0, k = 0;

	match_spaces(file, live, &f.spaces);
	if (ptah_session_call_trees(file, &config, take_tree, &f) < 0 ||
	    ptah_live_functions(live, &rows, &n) < 0)
		fail("calls", "cannot be read");
	add_up(&f);
	for (size_t i = 0; i < n; i++) {
		const struct ptah_live_function *a = &rows[i], *b;

		/* What ran in no function has no row in a tree. */
		if (!a->function)
			continue;
		calls += a->calls;
		b = k < f.count ? &f.rows[k++] : NULL;
		if (differ(!b || by_function(a, b) || a->calls != b->calls ||
			   a->instructions != b->instructions || a->ended != b->ended ||
			   a->max_instructions != b->max_instructions || a->open)) {
			printf("function 0x%" PRIx64 " of %d: live %" PRIu64 " calls, %" PRIu64
			       " instructions, %" PRIu64 " ended, at most %" PRIu64 "\n",
			       a->function, a->space, a->calls, a->instructions, a->ended,
			       a->max_instructions);
			if (b)
				printf("function 0x%" PRIx64 " of %d: file %" PRIu64
				       " calls, %" PRIu64 " instructions, %" PRIu64
				       " ended, at most %" PRIu64 "\n",
				       b->function, b->space, b->calls, b->instructions, b->ended,
				       b->max_instructions);
		}
		if (differ(live_quantile(live, a, 1) != a->max_ticks))
			printf("function 0x%" PRIx64 ": quantile\n", a->function);
	}
	if (differ(k != f.count))
		printf("live %zu functions, file %zu\n", k, f.count);
	printf("%zu functions, %" PRIu64 " calls\n", k, calls);
	free(rows);
	free(f.rows);
}

/* Following */

static int on_loss(void *context, const struct ptah_live_loss *loss)
{
	struct options *o = context;

	o->lost += loss->bytes;
	return 0;
}

static int on_hit(void *context, const struct ptah_live_hit *hit)
{
	struct options *o = context;

	o->hits[hit->watch]++;
	if (hit->value > o->most[hit->watch])
		o->most[hit->watch] = hit->value;
	return 0;
}

static void add_watch(struct options *o, const char *text)
{
	struct ptah_message why;

	if (o->watch_count == PTAH_LIVE_WATCHES ||
	    ptah_watch_parse(text, &o->watches[o->watch_count++], &why) < 0)
		fail(text, "not a watch");
}

/* Questions may be asked at any time. */
static void look(struct ptah_live *live, struct options *o)
{
	struct ptah_live_function *rows;
	size_t n;

	ptah_live_hold(live);
	if (o->what & PTAH_LIVE_CALLS && ptah_live_functions(live, &rows, &n) >= 0)
		free(rows);
	ptah_live_release(live);
	o->holds++;
}

static void record(struct ptah_live *live, struct options *o)
{
	struct ptah_record_config config = {.size = sizeof(config), .target.argv = o->command};
	struct ptah_recorder *r;
	struct ptah_message why = {""};
	int status;

	config.backend.kind = o->recorder;
	config.backend.truth = true;
	config.buffer.size = o->buffer;
	config.output.sink = ptah_live_sink(live);
	status = ptah_recorder_new(&config, &r, NULL, &why);
	if (status == PTAH_E_MISSING) {
		printf("SKIP: %s\n", why.text);
		exit(77);
	}
	if (status < 0)
		fail("record", why.text);
	status = ptah_recorder_start(r);
	while (status >= 0 && (status = ptah_recorder_poll(r, (int)o->poll)) > 0) {
		status = ptah_live_poll(live);
		look(live, o);
	}
	if (status >= 0)
		status = ptah_recorder_finish(r);
	if (status < 0)
		fail(ptah_recorder_why(r, NULL), ptah_live_why(live));
	ptah_recorder_free(r);
}

static void read_input(struct ptah_live *live, struct options *o)
{
	uint8_t *bytes = malloc(o->chunk);
	int status = 1;
	ssize_t n;

	while (!o->chunk && (status = ptah_live_feed_fd(live, 0, 100)) > 0) {
		status = ptah_live_poll(live);
		look(live, o);
	}
	while (o->chunk && status >= 0 && (n = read(0, bytes, o->chunk)) > 0) {
		status = ptah_live_feed(live, bytes, (size_t)n);
		if (status >= 0)
			status = ptah_live_poll(live);
	}
	free(bytes);
	if (status < 0)
		fail("feed", ptah_live_why(live));
}

static void follow(struct ptah_live *live, struct options *o)
{
	struct ptah_live_status s = {.size = sizeof(s)};
	struct rusage usage;

	if (o->input)
		read_input(live, o);
	else
		record(live, o);
	ptah_live_status(live, &s);
	printf("%" PRIu64 " bytes wait for the end\n", s.behind);
	if (ptah_live_finish(live) < 0)
		fail("finish", ptah_live_why(live));
	ptah_live_status(live, &s);
	getrusage(RUSAGE_SELF, &usage);
	printf("%" PRIu64 " bytes of trace, %" PRIu64 " rounds, %zu threads, %" PRIu64
	       " instructions, %" PRIu64 " errors; lag at most %" PRIu64 " ms, waited %" PRIu64
	       " ms; %ld MB, asked %u times\n",
	       s.bytes, s.rounds, s.threads, s.instructions, s.errors, s.worst_lag / 1000000,
	       s.waited / 1000000, usage.ru_maxrss / 1024, o->holds);
	if (differ(s.bytes != s.decoded + s.dropped || s.behind || s.queued || s.lag ||
		   !s.finished || s.dropped != o->lost))
		printf("of %" PRIu64 " bytes %" PRIu64 " were decoded, %" PRIu64
		       " dropped (%" PRIu64 " reported), %" PRIu64 " wait\n",
		       s.bytes, s.decoded, s.dropped, o->lost, s.behind);
	if (o->drop)
		printf("dropped %" PRIu64 " bytes in %" PRIu64 " pieces\n", s.dropped, s.losses);
	for (size_t i = 0; i < o->watch_count; i++)
		printf("watch %zu: %" PRIu64 " hits, at most %" PRIu64 "\n", i, o->hits[i],
		       o->most[i]);
	for (size_t i = 0; ptah_session_note(ptah_live_session(live), i); i++)
		printf("note: %s\n", ptah_session_note(ptah_live_session(live), i));
}

static void compare(struct ptah_live *live, const struct options *o)
{
	struct ptah_session *file;
	struct ptah_message why = {""};

	if (o->drop)
		return;
	if (ptah_session_open(o->file, &o->session, &file, &why) < 0)
		fail("open", why.text);
	if (o->what & PTAH_LIVE_COUNTS)
		compare_counts(file, live);
	if (o->what & PTAH_LIVE_CALLS) {
		compare_calls(file, live);
		compare_marks(file, o->marks);
	}
	if (o->what & PTAH_LIVE_ITEMS)
		compare_items(file, o->items);
	compare_truth(file, live);
	ptah_session_close(file);
}

static void parse(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+r:j:q:b:c:w:p:W:s:id")) != -1)
		switch (c) {
		case 'r':
			for (unsigned i = 0; i < PTAH_RECORDER_MAX; i++)
				if (!strcmp(ptah_recorder_name(i), optarg))
					o->recorder = i;
			break;
		case 'j':
			o->jobs = (unsigned)atoi(optarg);
			break;
		case 'q':
			o->queue = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			o->buffer = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			o->chunk = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			o->what = (unsigned)atoi(optarg);
			break;
		case 'p':
			o->poll = (unsigned)atoi(optarg);
			break;
		case 'W':
			add_watch(o, optarg);
			break;
		case 's':
			o->session.symfs = optarg;
			break;
		case 'i':
			o->input = true;
			break;
		case 'd':
			o->drop = true;
			break;
		default:
			fail("usage", "see the beginning of the source");
		}
	o->file = argv[optind++];
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	o->command = argv + optind;
}

int main(int argc, char **argv)
{
	struct options o = {.what = PTAH_LIVE_COUNTS | PTAH_LIVE_CALLS,
			    .poll = 10,
			    .session.size = sizeof(o.session)};
	struct ptah_live_config config = {.size = sizeof(config)};
	struct marks marks = {0}, items = {0};
	struct ptah_live_file *file = NULL;
	struct ptah_message why = {""};
	struct ptah_live *live;

	parse(&o, argc, argv);
	config.session = o.session;
	config.what = o.what;
	config.jobs = o.jobs;
	config.queue = o.queue;
	config.policy = o.drop ? PTAH_LIVE_DROP : PTAH_LIVE_WAIT;
	o.marks = &marks;
	o.items = &items;
	config.on_items = on_items;
	config.on_calls = on_calls;
	config.on_loss = on_loss;
	config.on_hit = on_hit;
	config.watches = o.watches;
	config.watch_count = o.watch_count;
	config.context = &o;
	if (!o.input && ptah_live_file_new(o.file, &file, &why) < 0)
		fail("file", why.text);
	config.tee = ptah_live_file_sink(file);
	if (ptah_live_new(&config, &live) < 0)
		fail("new", "failed");
	follow(live, &o);
	if (file && ptah_live_file_finish(file) < 0)
		fail("file", "not written");
	ptah_live_file_free(file);
	compare(live, &o);
	ptah_live_free(live);
	free(marks.list);
	free(items.list);
	if (differences)
		printf("%u differences\n", differences);
	return differences != 0;
}
