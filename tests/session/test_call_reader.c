/* SPDX-License-Identifier: MIT */
/*
 * The calls of threads in streams per CPU. The trace is written here, turn by turn, so what each
 * thread called and how many instructions ran in it is known.
 */
#include "perfdata/build.h"

#include <ptah/calls.h>
#include <ptah/session.h>

/* A program: main calls f, and both jump to where RAX says. */
#define MAIN  UINT64_C(0x12000)
#define CALL  (MAIN + 1)
#define AFTER (MAIN + 6) /* what f returns to: nop, jmp rax */
#define F     (MAIN + 0x20)
#define WORK  (F + 1) /* nop, jmp rax */
#define LEAVE (F + 4) /* ret */

static const uint8_t code[0x25] = {
    [0] = 0x90,	   [1] = 0xe8,	  [2] = 0x1a,	 [6] = 0x90,	[7] = 0xff,    [8] = 0xe0,
    [0x20] = 0x90, [0x21] = 0x90, [0x22] = 0xff, [0x23] = 0xe0, [0x24] = 0xc3,
};

/* A CPU's trace. */
struct cpu {
	struct ptah_generator g;
	uint8_t trace[8192];
};

struct made {
	struct perfdata_buffer file;
	struct cpu cpus[2];
};

static void begin(struct made *m)
{
	memset(m, 0, sizeof(*m));
	build_begin(&m->file);
	build_with_cpus(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	for (int32_t pid = 7; pid <= 8; pid++) {
		build_comm(&m->file, pid, pid, false, pid == 7 ? "seven" : "eight", 0);
		build_mmap2(&m->file, pid, 0x50000, 4096, 0, "//anon", 0, NULL);
		build_code(&m->file, pid, 0, MAIN, code, sizeof(code));
	}
	for (unsigned i = 0; i < 2; i++)
		generator_init(&m->cpus[i].g, m->cpus[i].trace, false, false);
}

/* A time stamp while packets are off. */
static void stamp(struct made *m, unsigned cpu, uint64_t tsc)
{
	generator_psb(&m->cpus[cpu].g, tsc, 20, false, 0);
}

/* A stay in user code, from `ip` over indirect jumps and returns to each of `to`, up to 0. */
static void runs(struct made *m, unsigned cpu, uint64_t tsc, uint64_t ip, const uint64_t *to)
{
	struct ptah_generator *g = &m->cpus[cpu].g;

	generator_enable(g, ip);
	generator_tsc(g, tsc);
	for (; *to; to++) {
		ip = *to;
		generator_tip(g, ip);
	}
	generator_async_disable(g, ip);
}

#define RUNS(m, cpu, tsc, ip, ...) runs(m, cpu, tsc, ip, (const uint64_t[]){__VA_ARGS__, 0})

static void switches(struct made *m, unsigned cpu, int32_t from, int32_t to, uint64_t tsc)
{
	build_switch_on(&m->file, cpu, true, from, from, to, to, tsc);
	build_switch_on(&m->file, cpu, false, to, to, from, from, tsc);
}

/* A folder with the recording and what says where its functions are. */
static char folder[] = "/tmp/call_readerXXXXXX";

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put_file(const char *name, const void *bytes, size_t n)
{
	FILE *file = fopen(path_of(name), "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
	static const char map[] = "12000 20 main\n12020 5 f\n";

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	put_file("perf-7.map", map, sizeof(map) - 1);
	put_file("perf-8.map", map, sizeof(map) - 1);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path_of("perf-7.map"));
	unlink(path_of("perf-8.map"));
	unlink(path_of("perf.data"));
	return rmdir(folder);
}

static struct ptah_session *finish(struct made *m)
{
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	for (unsigned i = 0; i < 2; i++) {
		const size_t n = (size_t)(m->cpus[i].g.out - m->cpus[i].trace);

		build_auxtrace(&m->file, i, 7, (int32_t)i, 0, m->cpus[i].trace, n, n);
	}
	build_end(&m->file, PERFDATA_FEATURE_ARCH, "x86_64");
	put_file("perf.data", m->file.bytes, m->file.size);
	if (ptah_session_open(path_of("perf.data"), NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	perfdata_buffer_free(&m->file);
	return s;
}

/* The marks of a thread, and the errors between them. */
struct read {
	size_t number;
	int32_t tid;
	struct ptah_call_mark marks[64];
	size_t count, errors;
	bool ended;
};

static void take(struct read *read, const struct ptah_call_batch *batch)
{
	assert_false(read->ended);
	read->tid = batch->thread->tid;
	for (size_t i = 0; i < batch->count; i++) {
		assert_true(read->count < ARRAY_SIZE(read->marks));
		read->marks[read->count++] = batch->marks[i];
		assert_int_equal(batch->marks[i].space, 0);
	}
	if (batch->event && batch->event->type == PTAH_ITEM_ERROR)
		read->errors++;
	read->ended = batch->ended;
}

#define THREADS 8

static void read_calls(struct made *m, struct read threads[THREADS])
{
	const struct ptah_call_reader_config config = {.size = sizeof(config)};
	struct ptah_session *s = finish(m);
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	uint64_t bytes = 0;
	int status;

	memset(threads, 0, THREADS * sizeof(*threads));
	for (size_t i = 0; i < ptah_session_streams(s); i++) {
		struct ptah_stream_info info;

		assert_int_equal(ptah_session_stream_info(s, i, &info), 0);
		bytes += info.bytes;
	}
	assert_int_equal(ptah_call_reader_new(s, &config, &reader), 0);
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		assert_true(batch->thread->number < THREADS);
		take(&threads[batch->thread->number], batch);
	}
	assert_int_equal(status, 0);
	assert_int_equal(ptah_call_reader_offset(reader), bytes);
	for (size_t i = 0; i < THREADS; i++)
		assert_true(threads[i].ended || !threads[i].tid);
	ptah_call_reader_free(reader);
	ptah_session_close(s);
}

/* The i-th thread of this number that appears. */
static const struct read *thread_of(const struct read threads[THREADS], int32_t tid, unsigned i)
{
	for (size_t k = 0; k < THREADS; k++)
		if (threads[k].tid == tid && !i--)
			return &threads[k];
	fail_msg("no thread %d", tid);
	return NULL;
}

struct expected {
	uint64_t function;
	uint64_t total, self; /* of an end; 0: a beginning */
	uint8_t how;
	bool in_loss;
};

static void check(const struct read *read, const struct expected *expected, size_t n)
{
	assert_int_equal(read->count, n);
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_mark *mark = &read->marks[i];

		assert_int_equal(mark->end, expected[i].total != 0);
		assert_int_equal(mark->how, expected[i].how);
		assert_int_equal(mark->function, expected[i].function);
		assert_int_equal(!!(mark->flags & PTAH_CALL_HAS_LOSS), expected[i].in_loss);
		if (!mark->end)
			continue;
		assert_int_equal(mark->total.instructions, expected[i].total);
		assert_int_equal(mark->self.instructions, expected[i].self);
	}
}

#define CHECK(read, expected) check(read, expected, ARRAY_SIZE(expected))

/* 7 runs on CPU 0, on CPU 1, and on CPU 0 again, and f returns on another CPU than it began on. */
TEST(a_thread_moves_between_cpus)
{
	static const struct expected seven[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3 + 2 + 2 + 1, 8, PTAH_CALL_END_RETURN, false},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3, 3, PTAH_CALL_END_TRACE, false},
	    {MAIN, 2 + 8 + 2 + 1 + 3, 2 + 2 + 1, PTAH_CALL_END_TRACE, false},
	};
	static const struct expected eight[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3 + 2 + 1, 6, PTAH_CALL_END_RETURN, false},
	    {MAIN, 2 + 6 + 2, 4, PTAH_CALL_END_TRACE, false},
	};
	struct read threads[THREADS];
	struct made m;

	begin(&m);
	switches(&m, 0, 7, 8, 240);
	switches(&m, 1, 0, 7, 340);
	switches(&m, 0, 8, 0, 440);
	switches(&m, 1, 7, 0, 540);
	switches(&m, 0, 0, 7, 640);
	stamp(&m, 0, 200);
	RUNS(&m, 0, 201, MAIN, WORK);
	stamp(&m, 0, 300);
	RUNS(&m, 0, 301, MAIN, WORK, LEAVE, AFTER, AFTER);
	stamp(&m, 0, 500);
	stamp(&m, 0, 700);
	RUNS(&m, 0, 701, AFTER, CALL, LEAVE);
	stamp(&m, 0, 800);
	stamp(&m, 1, 300);
	stamp(&m, 1, 400);
	RUNS(&m, 1, 401, WORK, WORK, LEAVE, AFTER);
	stamp(&m, 1, 600);
	read_calls(&m, threads);
	CHECK(thread_of(threads, 7, 0), seven);
	CHECK(thread_of(threads, 8, 0), eight);
}

/*
 * On CPU 1 it is not known which of two threads ran between two stays in the kernel: what 7 did
 * there is unknown, and its calls say so.
 */
TEST(a_thread_may_have_run_unseen)
{
	static const struct expected seven[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3 + 2 + 1, 6, PTAH_CALL_END_RETURN, true},
	    {MAIN, 2 + 6 + 2, 4, PTAH_CALL_END_TRACE, true},
	};
	struct read threads[THREADS];
	size_t errors = 0;
	struct made m;

	begin(&m);
	switches(&m, 0, 7, 0, 240);
	switches(&m, 1, 8, 7, 340);
	switches(&m, 1, 7, 8, 360);
	switches(&m, 0, 0, 7, 640);
	stamp(&m, 0, 200);
	RUNS(&m, 0, 201, MAIN, WORK);
	stamp(&m, 0, 300);
	stamp(&m, 0, 700);
	RUNS(&m, 0, 701, WORK, LEAVE, AFTER, AFTER);
	stamp(&m, 0, 800);
	stamp(&m, 1, 300);
	RUNS(&m, 1, 301, MAIN, WORK);
	for (unsigned i = 0; i < 3; i++) {
		generator_enable(&m.cpus[1].g, WORK);
		generator_tip(&m.cpus[1].g, WORK);
		generator_async_disable(&m.cpus[1].g, WORK);
	}
	stamp(&m, 1, 400);
	RUNS(&m, 1, 401, WORK, WORK);
	stamp(&m, 1, 500);
	read_calls(&m, threads);
	CHECK(thread_of(threads, 7, 0), seven);
	for (size_t i = 0; i < THREADS; i++)
		errors += threads[i].tid == -1 ? threads[i].errors : 0;
	assert_true(errors);
}

/* 7 executes another program: its calls end, and what comes then is another thread's. */
TEST(a_thread_executes_a_program)
{
	static const struct expected before[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3, 3, PTAH_CALL_END_EXEC, false},
	    {MAIN, 5, 2, PTAH_CALL_END_EXEC, false},
	};
	static const struct expected after[] = {
	    {.function = MAIN, .how = PTAH_CALL_RUNNING},
	    {MAIN, 4, 4, PTAH_CALL_END_TRACE, false},
	};
	struct read threads[THREADS];
	struct made m;

	begin(&m);
	switches(&m, 0, 7, 8, 640);
	switches(&m, 1, 0, 8, 40);
	build_comm(&m.file, 7, 7, true, "other", 300);
	build_mmap2(&m.file, 7, 0x60000, 4096, 0, "//anon", 304, NULL);
	build_code(&m.file, 7, 304, MAIN, code, sizeof(code));
	stamp(&m, 0, 200);
	RUNS(&m, 0, 201, MAIN, WORK);
	stamp(&m, 0, 400);
	RUNS(&m, 0, 401, AFTER, AFTER, AFTER);
	stamp(&m, 0, 700);
	read_calls(&m, threads);
	CHECK(thread_of(threads, 7, 0), before);
	CHECK(thread_of(threads, 7, 1), after);
}

/* 7 arrives at a CPU or leaves it, by the records of a task's event, which name no other thread. */
static void moves(struct made *m, unsigned cpu, bool out, uint64_t tsc)
{
	build_switch_on(&m->file, cpu, out, 7, 7, -1, -1, tsc);
}

/*
 * The same without records of other threads. So it is not known since when 7 runs on a CPU at
 * first, and CPU 1, to which it comes back, was nobody else's meanwhile.
 */
TEST(a_thread_comes_back)
{
	static const struct expected seven[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3 + 2 + 2 + 1, 8, PTAH_CALL_END_RETURN, false},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3, 3, PTAH_CALL_END_TRACE, false},
	    {MAIN, 2 + 8 + 2 + 1 + 3, 2 + 2 + 1, PTAH_CALL_END_TRACE, false},
	};
	struct read threads[THREADS];
	struct made m;

	begin(&m);
	moves(&m, 1, false, 140);
	moves(&m, 1, true, 240);
	moves(&m, 0, false, 340);
	moves(&m, 0, true, 540);
	moves(&m, 1, false, 640);
	stamp(&m, 1, 200);
	RUNS(&m, 1, 201, MAIN, WORK);
	stamp(&m, 0, 400);
	RUNS(&m, 0, 401, WORK, WORK, LEAVE, AFTER);
	stamp(&m, 1, 700);
	RUNS(&m, 1, 701, AFTER, CALL, LEAVE);
	stamp(&m, 1, 800);
	read_calls(&m, threads);
	CHECK(thread_of(threads, 7, 0), seven);
}

/* 7 leaves CPU 0, and executes another program on CPU 1 before the next packets of CPU 0. */
TEST(a_thread_executes_a_program_elsewhere)
{
	static const struct expected before[] = {
	    {.function = MAIN, .how = PTAH_CALL_CALLED},
	    {.function = F, .how = PTAH_CALL_CALLED},
	    {F, 3 + 2 + 1, 6, PTAH_CALL_END_RETURN, false},
	    {MAIN, 2 + 6 + 2, 4, PTAH_CALL_END_EXEC, false},
	};
	static const struct expected after[] = {
	    {.function = MAIN, .how = PTAH_CALL_RUNNING},
	    {MAIN, 4, 4, PTAH_CALL_END_TRACE, false},
	};
	struct read threads[THREADS];
	struct made m;

	begin(&m);
	switches(&m, 0, 7, 0, 220);
	switches(&m, 1, 0, 7, 240);
	build_comm(&m.file, 7, 7, true, "other", 300);
	build_mmap2(&m.file, 7, 0x60000, 4096, 0, "//anon", 304, NULL);
	build_code(&m.file, 7, 304, MAIN, code, sizeof(code));
	stamp(&m, 0, 200);
	RUNS(&m, 0, 201, MAIN, WORK);
	stamp(&m, 0, 700);
	stamp(&m, 1, 230);
	stamp(&m, 1, 250);
	RUNS(&m, 1, 251, WORK, LEAVE, AFTER, AFTER);
	stamp(&m, 1, 400);
	RUNS(&m, 1, 401, AFTER, AFTER, AFTER);
	stamp(&m, 1, 700);
	read_calls(&m, threads);
	CHECK(thread_of(threads, 7, 0), before);
	CHECK(thread_of(threads, 7, 1), after);
}

TEST_GROUP(make_folder, remove_folder)
