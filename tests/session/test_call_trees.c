/* SPDX-License-Identifier: MIT */
/*
 * Calls read as spans, ahead by several threads, and added up in trees by several threads, which
 * take streams or segments of one, are those that a call machine finds in the items of a stream:
 * random programs. Before a loss spans show a little more, because a packet may say where the last
 * branch went: of such traces the calls that one thread reads are compared with those that several
 * read, and their sums with the items.
 */
#include "test.h"

#include "../calls/same_trees.h"
#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "calls/calls.h"

#include <ptah/calls.h>
#include <ptah/session.h>
#include <ptah/trace_set.h>

#include <stdio.h>
#include <unistd.h>

#define STREAMS 4

/* ThreadSanitizer is slower still. */
#ifdef __SANITIZE_THREAD__
#define PROGRAMS 2
#else
#define PROGRAMS RANDOM_PROGRAMS(8, 4)
#endif

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_true(fwrite(bytes, 1, n, file) == n);
	assert_int_equal(fclose(file), 0);
}

/* Several streams with this trace, each of a thread. */
static struct ptah_session *session_of(const uint8_t *code, size_t code_size, const uint8_t *trace,
				       size_t size)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file.path = "trees.pt", .cpu = -1, .pid = 7};
	const struct ptah_trace_code c = {.size = sizeof(c),
					  .kind = PTAH_TRACE_CODE_RAW,
					  .file.path = "trees.code",
					  .address = BASE};
	struct ptah_trace_set *set;
	struct ptah_session *session;
	struct ptah_message why;

	put_file(stream.file.path, trace, size);
	put_file(c.file.path, code, code_size);
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_code(set, &c), 0);
	for (int32_t i = 0; i < STREAMS; i++) {
		stream.tid = 7 + i;
		assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	}
	config.set = set;
	if (ptah_session_open(NULL, &config, &session, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(set);
	assert_int_equal(ptah_session_streams(session), STREAMS);
	return session;
}

struct marks {
	struct ptah_call_mark *list;
	size_t count, room;
	uint64_t errors, instructions;
};

/* Room for n more. */
static struct ptah_call_mark *room_for(struct marks *m, size_t n)
{
	if (m->count + n > m->room) {
		m->room = 2 * m->room + n;
		m->list = realloc(m->list, m->room * sizeof(*m->list));
		assert_non_null(m->list);
	}
	return m->list + m->count;
}

static struct ptah_functions *functions;

static bool find(void *context, unsigned space, uint64_t address, uint64_t tsc,
		 struct ptah_function *function)
{
	(void)space;
	return ptah_functions_find(functions, *(int32_t *)context, address, tsc, function);
}

/* What a machine makes of a stream's items. */
static struct marks marks_of_items(const struct ptah_session *session, size_t stream)
{
	struct ptah_stream_info info;
	const struct calls_config config = {
	    .size = sizeof(config), .find = find, .find_context = &info.space};
	struct ptah_reader *s;
	struct calls_marks *calls;
	struct marks m = {0};
	struct ptah_item items[64];
	size_t count;
	int n, used;

	assert_int_equal(ptah_session_stream_info(session, stream, &info), 0);
	assert_int_equal(ptah_reader_new(session, stream, NULL, &s), 0);
	assert_int_equal(calls_marks_new(&config, &calls), 0);
	while ((n = ptah_reader_read(s, items, 64)) > 0) {
		for (int i = 0; i < n; i++) {
			m.errors += items[i].type == PTAH_ITEM_ERROR;
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			m.instructions += items[i].ninsn;
			items[i].code.space = 0; /* the process has one */
		}
		for (int i = 0; i < n; i += used) {
			used = calls_marks_take(calls, items + i, (size_t)(n - i),
						room_for(&m, 100), 100, &count);
			assert_true(used >= 0);
			m.count += count;
		}
	}
	assert_int_equal(n, 0);
	while ((n = calls_marks_finish(calls, room_for(&m, 100), 100)) > 0)
		m.count += (size_t)n;
	calls_marks_free(calls);
	ptah_reader_free(s);
	return m;
}

/* What a call reader finds in the streams in the caller's thread. */
static void read_alone(const struct ptah_session *session, struct marks found[STREAMS])
{
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .functions = functions};
	struct ptah_call_reader *reader;
	const struct ptah_call_batch *batch;
	int status;

	memset(found, 0, STREAMS * sizeof(*found));
	assert_int_equal(ptah_call_reader_new(session, &config, &reader), 0);
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		struct marks *m = &found[batch->thread->number];

		if (batch->count)
			memcpy(room_for(m, batch->count), batch->marks,
			       batch->count * sizeof(*batch->marks));
		m->count += batch->count;
		m->errors = batch->thread->errors;
	}
	assert_int_equal(status, 0);
	ptah_call_reader_free(reader);
}

/* Every call ends, and what ran in all of them is what ran. */
static void check_sums(const struct marks *found, const struct marks *items)
{
	uint64_t begins = 0, ends = 0, self = 0, outside = items->instructions;

	for (size_t i = 0; i < found->count; i++) {
		const struct ptah_call_mark *mark = &found->list[i];

		begins += !mark->end;
		ends += mark->end;
		self += mark->self.instructions;
		assert_int_equal(mark->depth, begins - ends - !mark->end);
		/* Between the calls that are outermost. */
		if (!mark->depth && !mark->end)
			outside -= mark->thread.instructions;
		if (!mark->depth && mark->end)
			outside += mark->thread.instructions;
	}
	assert_int_equal(begins, ends);
	assert_int_equal(self, outside - items->instructions);
	assert_int_equal(found->errors, items->errors);
	assert_int_equal(found->list[found->count - 1].thread.instructions, items->instructions);
}

static void check_reader(const struct ptah_session *session,
			 const struct ptah_call_reader_config *config, const struct marks *expected)
{
	struct ptah_call_reader *reader;
	const struct ptah_call_batch *batch;
	size_t next[STREAMS] = {0};
	int status;

	assert_int_equal(ptah_call_reader_new(session, config, &reader), 0);
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		const size_t i = batch->thread->number;

		assert_true(i < STREAMS && batch->thread->tid == 7 + (int32_t)i);
		assert_true(next[i] + batch->count <= expected[i].count);
		if (batch->count)
			assert_memory_equal(batch->marks, expected[i].list + next[i],
					    batch->count * sizeof(*batch->marks));
		next[i] += batch->count;
		if (batch->ended)
			assert_int_equal(batch->thread->errors, expected[i].errors);
	}
	assert_int_equal(status, 0);
	for (size_t i = 0; i < STREAMS; i++)
		assert_int_equal(next[i], expected[i].count);
	ptah_call_reader_free(reader);
}

/* Steps are the marks in short. */
static void check_steps(const struct ptah_session *session,
			const struct ptah_call_reader_config *like, const struct marks *expected)
{
	struct ptah_call_reader_config config = *like;
	struct ptah_call_reader *reader;
	const struct ptah_call_batch *batch;
	size_t next[STREAMS] = {0};
	int status;

	config.steps = true;
	assert_int_equal(ptah_call_reader_new(session, &config, &reader), 0);
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		const size_t n = batch->thread->number;

		assert_null(batch->marks);
		assert_true(next[n] + batch->count <= expected[n].count);
		for (size_t i = 0; i < batch->count; i++) {
			const struct ptah_call_mark *m = &expected[n].list[next[n]++];
			const struct ptah_call_step step = {.function = m->end ? 0 : m->function,
							    .site = m->site,
							    .tsc = m->tsc,
							    .thread = m->thread,
							    .flags = m->flags,
							    .space = m->space,
							    .end = m->end,
							    .how = m->how};

			assert_memory_equal(&batch->steps[i], &step, sizeof(step));
		}
	}
	assert_int_equal(status, 0);
	for (size_t i = 0; i < STREAMS; i++)
		assert_int_equal(next[i], expected[i].count);
	ptah_call_reader_free(reader);
}

struct taking {
	const struct marks *expected;
	size_t count;
};

static int take(void *context, const struct ptah_call_thread *thread, struct ptah_call_tree *tree)
{
	struct taking *t = context;
	struct ptah_call_tree *other;

	assert_int_equal(thread->number, t->count);
	assert_int_equal(thread->tid, 7 + (int32_t)t->count);
	assert_int_equal(thread->errors, t->expected[t->count].errors);
	assert_int_equal(ptah_call_tree_new(NULL, &other), 0);
	assert_int_equal(
	    ptah_call_tree_add(other, t->expected[t->count].list, t->expected[t->count].count), 0);
	assert_same_trees(tree, other);
	ptah_call_tree_free(other);
	t->count++;
	return 0;
}

static bool is_first(void *context, size_t stream)
{
	(void)context;
	return !stream;
}

static void check_all(const uint8_t *code, size_t code_size, const uint8_t *trace, size_t size,
		      bool lossy)
{
	struct ptah_session *session = session_of(code, code_size, trace, size);
	struct marks expected[STREAMS], items;

	assert_int_equal(ptah_functions_new(session, &functions), 0);
	read_alone(session, expected);
	items = marks_of_items(session, 0);
	for (size_t i = 0; i < STREAMS; i++) {
		check_sums(&expected[i], &items);
		if (lossy)
			continue;
		assert_int_equal(expected[i].count, items.count);
		assert_memory_equal(expected[i].list, items.list,
				    items.count * sizeof(*items.list));
	}
	free(items.list);
	for (unsigned jobs = 1; jobs <= 3; jobs++) {
		struct ptah_call_reader_config config = {.size = sizeof(config),
							 .functions = functions,
							 .jobs = jobs,
							 .segment = 500 + size % 1001 * jobs};
		struct taking taking = {expected, 0};

		check_reader(session, &config, expected);
		check_steps(session, &config, expected);
		config.wants = is_first;
		assert_int_equal(ptah_session_call_trees(session, &config, take, &taking), 0);
		assert_int_equal(taking.count, 1);
		config.wants = NULL;
		taking.count = 0;
		assert_int_equal(ptah_session_call_trees(session, &config, take, &taking), 0);
		assert_int_equal(taking.count, STREAMS);
	}
	for (size_t i = 0; i < STREAMS; i++)
		free(expected[i].list);
	ptah_functions_free(functions);
	ptah_session_close(session);
}

TEST(machines)
{
	for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);

		check_all(m->code, sizeof(m->code), m->trace, size, seed & 4);
		machine_free(m);
	}
}

TEST(worlds)
{
	for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);

		if (seed % 2)
			for (unsigned i = 0; i < 10; i++)
				w->trace[world_pick(w, (unsigned)size)] ^=
				    (uint8_t)(1 << world_pick(w, 8));
		check_all(w->code, sizeof(w->code), w->trace, size, true);
		world_free(w);
	}
}

static bool enough(void *context, uint64_t bytes)
{
	(void)bytes;
	return ++*(unsigned *)context < 2;
}

static int count_trees(void *context, const struct ptah_call_thread *thread,
		       struct ptah_call_tree *tree)
{
	(void)thread;
	assert_non_null(tree);
	return ++*(size_t *)context < 2 ? 0 : PTAH_E_LIMIT;
}

/* The caller ends the work: by the progress, or by what take() returns. */
TEST(early_end)
{
	struct machine *m;
	struct ptah_session *s;
	size_t size;

	m = machine_new(3, true, false, false, &size);
	s = session_of(m->code, sizeof(m->code), m->trace, size);
	for (unsigned jobs = 1; jobs <= 2; jobs++) {
		unsigned reports = 0;
		struct ptah_call_reader_config config = {
		    .size = sizeof(config), .jobs = jobs, .progress = enough, .context = &reports};
		size_t trees = 0;
		const int status = ptah_session_call_trees(s, &config, count_trees, &trees);

		assert_true(!status || status == PTAH_E_LIMIT);
		trees = 0;
		config.progress = NULL;
		assert_int_equal(ptah_session_call_trees(s, &config, count_trees, &trees),
				 PTAH_E_LIMIT);
		assert_int_equal(trees, 2);
	}
	ptah_session_close(s);
	machine_free(m);
}

static int remove_files(void **state)
{
	(void)state;
	unlink("trees.pt");
	unlink("trees.code");
	return 0;
}

TEST_GROUP(NULL, remove_files)
