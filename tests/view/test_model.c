/* SPDX-License-Identifier: MIT */
/*
 * What the model answers of random programs is what their marks say (<ptah/calls.h>): bars at
 * every zoom against bars found the slow way, single calls, marks of a function, and flame graphs.
 * Also with so little memory that nearly everything comes from the log, and while the recording is
 * being read.
 */
#include "test.h"

#include "../flow/random_machine.h"

#include "view/bars.h"
#include "view/flame.h"

#include <ptah/session.h>
#include <ptah/trace_set.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STREAMS 2

/* With ThreadSanitizer all is ten times as slow, and only what threads share is looked at. */
#ifdef __SANITIZE_THREAD__
#define SEEDS 0
#define RUNS  0
#else
#define SEEDS 3
#define RUNS  24
#endif

/* A call, as its marks say. */
struct call {
	size_t depth;
	uint64_t begin[LOG_AXES], end[LOG_AXES];
	uint64_t number, function;
	struct ptah_call_counts total, self;
	unsigned how, flags;
};

struct calls {
	struct call *list; /* in the order in which they end */
	size_t count, capacity;
	uint64_t length[LOG_AXES];
};

/* A recording of a machine, and its calls. */
struct recorded {
	struct machine *machine;
	struct ptah_session *session;
	struct names *names;
	struct calls threads[STREAMS];
	uint64_t first; /* time */
};

static uint64_t seed;

static uint64_t pick(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return n ? seed % n : 0;
}

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_true(fwrite(bytes, 1, n, file) == n);
	assert_int_equal(fclose(file), 0);
}

/* by_cpu: the streams are those of CPUs. */
static struct ptah_session *open_session(const struct machine *m, size_t size, bool by_cpu)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file.path = "model.pt", .cpu = -1, .pid = 7};
	const struct ptah_trace_code code = {.size = sizeof(code),
					     .kind = PTAH_TRACE_CODE_RAW,
					     .file.path = "model.code",
					     .address = BASE};
	const struct ptah_trace_processor processor = {
	    .size = sizeof(processor), .has_clock = true, .time_shift = 10, .time_mult = 700};
	struct ptah_trace_set *set;
	struct ptah_session *session;
	struct ptah_message why;

	put_file(stream.file.path, m->trace, size);
	put_file(code.file.path, m->code, sizeof(m->code));
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_code(set, &code), 0);
	assert_int_equal(ptah_trace_set_processor(set, &processor), 0);
	for (int32_t i = 0; i < STREAMS; i++) {
		stream.tid = 7 + i;
		stream.cpu = by_cpu ? 3 - i : -1;
		assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	}
	config.set = set;
	if (ptah_session_open(NULL, &config, &session, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(set);
	return session;
}

/* Pairs the marks of a thread. */
struct pairing {
	struct call open[PTAH_CALLS_MAX_DEPTH];
	size_t depth;
	uint64_t number, time, first;
	const struct ptah_session *session;
};

static void take_mark(struct pairing *p, struct calls *c, const struct ptah_call_mark *m)
{
	const uint64_t ns = m->tsc ? ptah_session_time(p->session, m->tsc) - p->first : 0;
	struct call *call;

	p->time = ns > p->time ? ns : p->time;
	c->length[LOG_TIME] = p->time;
	c->length[LOG_INSTRUCTIONS] = m->thread.instructions;
	if (!m->end) {
		p->open[p->depth] = (struct call){.depth = p->depth,
						  .begin = {p->time, m->thread.instructions},
						  .number = p->number++,
						  .function = m->function,
						  .how = m->how,
						  .flags = m->flags};
		p->depth++;
		return;
	}
	call = &p->open[--p->depth];
	call->end[LOG_TIME] = p->time;
	call->end[LOG_INSTRUCTIONS] = m->thread.instructions;
	call->total = m->total;
	call->self = m->self;
	call->flags |= m->flags;
	if (c->count == c->capacity) {
		c->capacity = 2 * c->capacity + 1000;
		c->list = realloc(c->list, c->capacity * sizeof(*c->list));
		assert_non_null(c->list);
	}
	c->list[c->count++] = *call;
}

static void read_calls(struct recorded *r)
{
	struct pairing *pairing = calloc(STREAMS, sizeof(*pairing));
	struct ptah_call_reader *reader;
	const struct ptah_call_batch *batch;
	int status;

	assert_non_null(pairing);
	assert_int_equal(ptah_call_reader_new(r->session, NULL, &reader), 0);
	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
		for (size_t i = 0; i < batch->count; i++) {
			const size_t n = batch->thread->number;

			pairing[n].session = r->session;
			pairing[n].first = r->first;
			take_mark(&pairing[n], &r->threads[n], &batch->marks[i]);
		}
	assert_int_equal(status, 0);
	ptah_call_reader_free(reader);
	free(pairing);
}

static void record(struct recorded *r, unsigned number, bool lossy)
{
	uint64_t last;
	size_t size;

	memset(r, 0, sizeof(*r));
	seed = number * UINT64_C(0x9e3779b97f4a7c15);
	r->machine = machine_new(number, number & 1, false, lossy, &size);
	r->session = open_session(r->machine, size, false);
	assert_int_equal(ptah_session_stream_times(r->session, 0, &r->first, &last), 0);
	r->first = ptah_session_time(r->session, r->first);
	assert_int_equal(names_new(r->session, NULL, &r->names), 0);
	read_calls(r);
}

static void forget(struct recorded *r)
{
	for (size_t i = 0; i < STREAMS; i++)
		free(r->threads[i].list);
	names_free(r->names);
	ptah_session_close(r->session);
	machine_free(r->machine);
}

static struct view_model *open_model(const struct recorded *r, uint64_t memory, uint64_t log)
{
	const struct view_model_config config = {
	    .recordings[VIEW_SHOWN] = {.session = r->session, .names = r->names, .path = "model"},
	    .jobs = 2,
	    .memory = memory,
	    .log = log};
	struct view_model *m;
	struct ptah_message why;

	assert_int_equal(view_model_new(&config, &m, &why), 0);
	return m;
}

/* The text of an answer, which the caller frees. */
static char *ask(struct view_model *m, unsigned status, const char *text)
{
	struct view_query query;
	struct view_answer answer;

	assert_int_equal(view_query_parse(&query, text), 0);
	assert_int_equal(view_model_answer(m, &query, &answer), 0);
	if (answer.status != status)
		fail_msg("%s: %u: %s", text, answer.status, answer.bytes);
	return answer.bytes;
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t n = 0;

	if (!at || sscanf(at + strlen(key), "%" SCNu64, &n) != 1)
		fail_msg("%s in %s", key, text);
	return n;
}

/* Bars */

static bool is_in(const struct bar *b, uint64_t from, uint64_t to)
{
	return b->begin < to && (b->end > from || (b->begin == b->end && b->begin == from));
}

/* The bars of a depth by definition, of one function or of all (UINT64_MAX). */
static size_t slow_bars(struct view_model *m, const struct calls *c, enum log_axis axis,
			size_t depth, uint64_t unit, uint64_t function, struct bar *bars)
{
	bool mergeable = false;
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct call *call = &c->list[i];
		const uint64_t length = call->end[axis] - call->begin[axis];

		if (call->depth != depth || (function != UINT64_MAX && call->function != function))
			continue;
		if (length < unit && mergeable &&
		    bars[n - 1].begin / unit == call->begin[axis] / unit) {
			bars[n - 1].end = call->end[axis];
			bars[n - 1].calls++;
			continue;
		}
		bars[n++] =
		    (struct bar){.begin = call->begin[axis],
				 .end = call->end[axis],
				 .calls = 1,
				 .longest = call->function,
				 .flags = (call->flags & PTAH_CALL_NO_BEGIN ? BAR_NO_BEGIN : 0) |
					  (call->flags & PTAH_CALL_NO_END ? BAR_NO_END : 0) |
					  (call->flags & PTAH_CALL_HAS_LOSS ? BAR_LOSS : 0) |
					  (call->how == PTAH_CALL_TAIL ? BAR_TAIL : 0)};
		mergeable = length < unit;
	}
	(void)m;
	return n;
}

static size_t deepest(const struct calls *c)
{
	size_t depth = 0;

	for (size_t i = 0; i < c->count; i++)
		depth = c->list[i].depth > depth ? c->list[i].depth : depth;
	return depth;
}

static void compare_bar(struct view_model *m, const struct bar *bar, const struct bar *slow)
{
	struct view_function f;

	assert_int_equal(bar->begin, slow->begin);
	assert_int_equal(bar->end, slow->end);
	assert_int_equal(bar->calls, slow->calls);
	assert_int_equal(!!(bar->flags & BAR_MERGED), slow->calls > 1);
	assert_true(view_function(m, bar->function, &f));
	if (slow->calls > 1)
		return;
	assert_int_equal(bar->flags, slow->flags);
	assert_int_equal(f.ip, slow->longest);
}

/* `bars` are those of `c` that touch the window. */
static void compare_bars(struct view_model *m, const struct calls *c, enum log_axis axis,
			 uint64_t from, uint64_t to, uint64_t function, const struct bars *bars)
{
	struct bar *slow = calloc(c->count + 1, sizeof(*slow));
	const size_t most = deepest(c);
	size_t next = 0;

	assert_non_null(slow);
	for (size_t depth = 0; depth <= most; depth++) {
		const size_t n = slow_bars(m, c, axis, depth, bars->unit, function, slow);

		for (size_t i = 0; i < n; i++) {
			if (!is_in(&slow[i], from, to))
				continue;
			assert_true(next < bars->count);
			assert_int_equal(bars->list[next].depth, depth);
			compare_bar(m, &bars->list[next++].bar, &slow[i]);
		}
	}
	assert_int_equal(next, bars->count);
	free(slow);
}

static void check_bars(struct view_model *m, const struct recorded *r, unsigned runs)
{
	for (unsigned run = 0; run < runs; run++) {
		const size_t n = pick(STREAMS);
		const enum log_axis axis = run % 2 ? LOG_TIME : LOG_INSTRUCTIONS;
		const struct calls *c = &r->threads[n];
		const uint64_t unit = UINT64_C(1) << 2 * pick(8);
		const uint64_t from = run < 2 ? 0 : pick(c->length[axis]);
		const uint64_t to =
		    run < 2 ? c->length[axis] + 1 : from + pick(run % 3 ? 100 * unit : 5000);
		struct bars bars;

		assert_int_equal(view_bars(m, view_thread_get(m, n), axis, from, to, unit, &bars),
				 0);
		assert_int_equal(bars.state, 0);
		assert_true(bars.unit == unit ||
			    (bars.unit < unit && c->length[axis] < 256 * unit));
		compare_bars(m, c, axis, from, to, UINT64_MAX, &bars);
		free(bars.list);
	}
}

static void check_marks(struct view_model *m, const struct recorded *r, unsigned runs)
{
	for (unsigned run = 0; run < runs; run++) {
		const size_t n = pick(STREAMS);
		const enum log_axis axis = run % 2 ? LOG_TIME : LOG_INSTRUCTIONS;
		const struct calls *c = &r->threads[n];
		const uint64_t unit = UINT64_C(1) << 2 * pick(8), from = pick(c->length[axis]);
		const uint64_t to = from + pick(c->length[axis]);
		const uint32_t id = (uint32_t)pick(view_function_count(m));
		struct view_function f;
		struct bars bars;

		assert_true(view_function(m, id, &f));
		assert_int_equal(
		    view_function_bars(m, view_thread_get(m, n), axis, from, to, unit, id, &bars),
		    0);
		compare_bars(m, c, axis, from, to, f.ip, &bars);
		free(bars.list);
	}
}

/* Calls */

/* The place shown for the first caller is that from which it made the call. */
static void check_caller_site(const char *answer)
{
	static const char key[] = "\"site\": {\"address\": ";
	const char *callers = strstr(answer, "\"callers\": ["), *site = strstr(answer, key);
	const char *of_caller = callers ? strstr(callers, key) : NULL;

	assert_non_null(callers);
	if (site && site < callers && of_caller)
		assert_memory_equal(site, of_caller,
				    strlen(key) + strcspn(site + strlen(key), "}"));
}

static void check_call(struct view_model *m, const struct calls *c, size_t n, size_t i)
{
	const struct call *call = &c->list[i];
	char text[256], *answer;

	/* In the middle, where it is the only one of its depth. */
	snprintf(text, sizeof(text), "call?thread=%zu&axis=instructions&at=%" PRIu64 "&depth=%zu",
		 n, (call->begin[LOG_INSTRUCTIONS] + call->end[LOG_INSTRUCTIONS]) / 2, call->depth);
	answer = ask(m, 200, text);
	assert_int_equal(number_after(answer, "\"id\": "), call->number);
	assert_int_equal(number_after(answer, "\"depth\": "), call->depth);
	assert_int_equal(number_after(answer, "\"begin\": {\"time\": "), call->begin[LOG_TIME]);
	assert_int_equal(number_after(answer, "\"end\": {\"time\": "), call->end[LOG_TIME]);
	assert_int_equal(number_after(answer, "\"total\": {\"instructions\": "),
			 call->total.instructions);
	assert_int_equal(number_after(answer, "\"self\": {\"instructions\": "),
			 call->self.instructions);
	check_caller_site(answer);
	free(answer);
}

static void check_calls(struct view_model *m, const struct recorded *r, unsigned runs)
{
	for (unsigned run = 0; run < runs; run++) {
		const size_t n = pick(STREAMS), i = pick(r->threads[n].count);
		const struct call *call = &r->threads[n].list[i];

		/* The last ones are the longest. */
		if (run % 2)
			check_call(m, &r->threads[n], n, r->threads[n].count - 1 - run % 8 / 2);
		if (call->end[LOG_INSTRUCTIONS] - call->begin[LOG_INSTRUCTIONS] > 1)
			check_call(m, &r->threads[n], n, i);
	}
	free(ask(m, 404, "call?thread=0&axis=time&at=5&depth=100000"));
}

/* Flame graphs */

static void compare_flames(const struct flame *a, struct flame *b)
{
	uint32_t *numbers = calloc(a->count, sizeof(*numbers));

	assert_non_null(numbers);
	assert_int_equal(a->count, b->count);
	for (uint32_t i = 1; i < a->count; i++) {
		const struct flame_node *n = &a->nodes[i];
		const uint32_t other =
		    flame_child(b, numbers[n->parent], (enum flame_special)n->special, n->function);

		assert_true(other < a->count);
		numbers[i] = other;
		assert_int_equal(b->nodes[other].self, n->self);
		assert_int_equal(b->nodes[other].count, n->count);
		assert_int_equal(b->nodes[other].inclusive, n->inclusive);
	}
	free(numbers);
}

/* From the trees and from the logs; and in two parts. */
static void check_flames(struct view_model *m, const struct recorded *r)
{
	for (unsigned axis = 0; axis < LOG_AXES; axis++) {
		const enum ptah_call_value value =
		    axis == LOG_TIME ? PTAH_CALL_VALUE_TIME : PTAH_CALL_VALUE_INSTRUCTIONS;
		const uint64_t middle = pick(r->threads[0].length[axis]);
		const struct flame_window whole = {(enum log_axis)axis, 0, UINT64_MAX / 2, value};
		const struct flame_window first = {(enum log_axis)axis, 0, middle, value};
		const struct flame_window second = {(enum log_axis)axis, middle, UINT64_MAX / 2,
						    value};
		struct flame trees, logs, parts;

		assert_int_equal(flame_init(&trees) | flame_init(&logs) | flame_init(&parts), 0);
		assert_int_equal(flame_from_trees(view_trees_get(m), value, &trees), 0);
		for (size_t i = 0; i < STREAMS; i++) {
			struct view_thread *t = view_thread_get(m, i);

			assert_int_equal(flame_add_thread(&logs, m, t, &whole), 0);
			assert_int_equal(flame_add_thread(&parts, m, t, &first), 0);
			assert_int_equal(flame_add_thread(&parts, m, t, &second), 0);
		}
		assert_false(logs.inexact);
		flame_sum(&trees);
		flame_sum(&logs);
		flame_sum(&parts);
		assert_true(trees.nodes[0].inclusive > 0);
		compare_flames(&trees, &logs);
		compare_flames(&logs, &parts);
		flame_fini(&trees);
		flame_fini(&logs);
		flame_fini(&parts);
	}
}

static void check_all(const struct recorded *r, uint64_t memory, unsigned runs)
{
	struct view_model *m = open_model(r, memory, 0);

	assert_int_equal(view_model_wait(m, NULL), 0);
	check_bars(m, r, runs);
	check_marks(m, r, runs / 2);
	check_calls(m, r, runs);
	check_flames(m, r);
	view_model_free(m);
}

TEST(random_programs)
{
	for (unsigned number = 1; number <= SEEDS; number++) {
		struct recorded r;

		record(&r, number, number & 2);
		check_all(&r, 0, RUNS);
		check_all(&r, 200000, RUNS);
		forget(&r);
	}
}

/* The levels keep to their memory. */
TEST(budget)
{
	const uint64_t memory = 300000;
	struct recorded r;
	struct view_model *m;
	uint64_t bytes = 0;

	record(&r, 9, false);
	m = open_model(&r, memory, 0);
	assert_int_equal(view_model_wait(m, NULL), 0);
	for (size_t i = 0; i < STREAMS; i++)
		for (unsigned axis = 0; axis < LOG_AXES; axis++)
			bytes += view_thread_get(m, i)->levels[axis].bytes;
	assert_true(bytes <= memory);
	view_model_free(m);
	forget(&r);
}

/* Where the log has no room, the levels answer, and say that there is nothing finer. */
TEST(no_log)
{
	struct recorded r;
	struct view_model *m;
	struct bars bars;
	unsigned first;
	char *info;

	record(&r, 5, false);
	m = open_model(&r, 300000, 1);
	assert_int_equal(view_model_wait(m, NULL), 0);
	first = view_thread_get(m, 0)->levels[LOG_TIME].first;
	assert_int_equal(view_bars(m, view_thread_get(m, 0), LOG_TIME, 0, 100000, 1, &bars), 0);
	assert_int_equal(bars.state, BARS_COARSE);
	assert_int_equal(bars.unit, level_unit(first));
	compare_bars(m, &r.threads[0], LOG_TIME, 0, 100000, UINT64_MAX, &bars);
	free(bars.list);
	info = ask(m, 200, "info");
	assert_non_null(strstr(info, "There was no room for the file of single calls"));
	free(info);
	view_model_free(m);
	forget(&r);
}

/* Questions are answered while the recording is read, and a model that reads can be freed. */
TEST(meanwhile)
{
	static const char *const questions[] = {
	    "info",
	    "functions",
	    "bars?thread=0&axis=instructions&from=0&to=100000&unit=64",
	    "bars?thread=0&axis=time&from=0&to=5000&unit=1",
	    "marks?thread=0&axis=time&function=0",
	    "events?thread=0&axis=time",
	    "flame?value=time&direction=up",
	    "flame?value=instructions&thread=0&axis=time&from=100&to=100000",
	    "call?thread=0&axis=time&at=100&depth=1",
	    "histogram?function=0&value=instructions",
	};
	struct recorded r;

	record(&r, 6, true);
	for (unsigned stop = 0; stop < 2; stop++) {
		struct view_model *m = open_model(&r, 300000, 0);
		struct view_query query;
		struct view_answer answer;
		char *info;

		for (unsigned run = 0; run < 20; run++)
			for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
				assert_int_equal(view_query_parse(&query, questions[i]), 0);
				assert_int_equal(view_model_answer(m, &query, &answer), 0);
				assert_true(answer.status == 200 || answer.status == 404 ||
					    answer.status == 503);
				free(answer.bytes);
			}
		if (!stop) {
			assert_int_equal(view_model_wait(m, NULL), 0);
			info = ask(m, 200, "info");
			assert_non_null(strstr(info, "\"complete\": true,\n"));
			assert_non_null(strstr(info, "\"coarse\": false,\n"));
			free(info);
		} else {
			view_model_stop(m);
			free(ask(m, 503, "info"));
		}
		view_model_free(m);
	}
	forget(&r);
}

/* A CPU's row shows who ran on it. */
TEST(cpus)
{
	struct recorded r = {0};
	struct view_model *m;
	char *info;
	size_t size;

	r.machine = machine_new(3, true, false, false, &size);
	r.session = open_session(r.machine, size, true);
	assert_int_equal(names_new(r.session, NULL, &r.names), 0);
	m = open_model(&r, 0, 0);
	assert_int_equal(view_model_wait(m, NULL), 0);
	info = ask(m, 200, "info");
	assert_non_null(strstr(info, "\"cpus\": [\n    2,\n    3\n  ]"));
	free(info);
	for (unsigned cpu = 2; cpu < 4; cpu++) {
		const uint64_t end = view_thread_get(m, 0)->now.time;
		struct view_query query;
		struct view_answer answer;
		char text[64];
		double place[2];
		uint32_t thread;

		snprintf(text, sizeof(text), "turns?cpu=%u&unit=64", cpu);
		assert_int_equal(view_query_parse(&query, text), 0);
		assert_int_equal(view_model_answer(m, &query, &answer), 0);
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer.size, 24 + 32);
		memcpy(place, answer.bytes + 24, sizeof(place));
		memcpy(&thread, answer.bytes + 40, sizeof(thread));
		assert_true(place[0] == 0 && place[1] == (double)end);
		assert_int_equal(view_thread_get(m, thread)->info.tid, 7 + 3 - (int)cpu);
		free(answer.bytes);
	}
	free(ask(m, 404, "turns?cpu=1"));
	view_model_free(m);
	names_free(r.names);
	ptah_session_close(r.session);
	machine_free(r.machine);
}

/* What makes no sense is refused with a sentence. */
TEST(refusals)
{
	static const struct {
		const char *query;
		unsigned status;
	} wrong[] = {
	    {"nothing", 404},
	    {"bars", 400},
	    {"bars?thread=99&axis=time", 404},
	    {"bars?thread=-1&axis=time", 400},
	    {"bars?thread=0&axis=space", 400},
	    {"bars?thread=0&axis=time&from=5&to=4", 400},
	    {"bars?thread=0&axis=time&from=nan&to=4", 400},
	    {"bars?thread=0&axis=time&from=0&to=1e300", 400},
	    {"bars?thread=0&axis=time&unit=-5", 400},
	    {"marks?thread=0&axis=time&function=4000000000", 404},
	    {"marks?thread=0&axis=time", 404},
	    {"call?thread=0&axis=time", 400},
	    {"call?thread=0&axis=time&at=-1&depth=0", 400},
	    {"flame?value=joy", 400},
	    {"flame?value=cycles", 404},
	    {"flame?direction=left", 400},
	    {"histogram?function=99999999&value=time", 404},
	};
	struct recorded r;
	struct view_model *m;

	record(&r, 2, false);
	m = open_model(&r, 0, 0);
	assert_int_equal(view_model_wait(m, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char *text = ask(m, wrong[i].status, wrong[i].query);

		assert_true(strlen(text) > 10 && text[strlen(text) - 1] == '.');
		free(text);
	}
	view_model_free(m);
	forget(&r);
}

static int remove_files(void **state)
{
	(void)state;
	unlink("model.pt");
	unlink("model.code");
	return 0;
}

TEST_GROUP(NULL, remove_files)
