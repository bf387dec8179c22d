/* SPDX-License-Identifier: MIT */
/*
 * The trace of a CPU that several processes share. All have different code at the same address, so
 * that an instruction that is counted for the wrong process is noticed. The kernel switches while
 * packets are off, at a time that is in its records; the time stamps in the trace are around that
 * time.
 */
#include "perfdata/build.h"

#include "model/clock.h"

#include <ptah/counts.h>
#include <ptah/session.h>

#include <sys/stat.h>

#define BASE 0x12345

/* Loops through jmp rax, with as many instructions as their names say. */
static const uint8_t three[] = {0x90, 0x90, 0xff, 0xe0};
static const uint8_t two[] = {0x66, 0x90, 0xff, 0xe0};
static const uint8_t four[] = {0x90, 0x90, 0x90, 0xff, 0xe0};

struct made {
	struct perfdata_buffer file;
	struct ptah_generator g;
	uint8_t trace[8192];
};

/*
 * Begins a recording with process 7, whose loop has three instructions, and process 8, whose loop
 * has two.
 */
static void begin(struct made *m)
{
	memset(m, 0, sizeof(*m));
	build_begin(&m->file);
	build_with_cpus(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m->file, 7, 7, false, "seven", 0);
	build_mmap2(&m->file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	build_comm(&m->file, 8, 8, false, "eight", 0);
	build_mmap2(&m->file, 8, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m->file, 8, 0, BASE, two, sizeof(two));
	generator_init(&m->g, m->trace, false, false);
}

/* n jumps between two stays in the kernel. */
static void jumps(struct made *m, unsigned n)
{
	generator_enable(&m->g, BASE);
	while (n--)
		generator_tip(&m->g, BASE);
	generator_async_disable(&m->g, BASE);
}

/* The same, with a time stamp `tsc` before the first jump. */
static void jumps_at(struct made *m, uint64_t tsc, unsigned n)
{
	generator_enable(&m->g, BASE);
	generator_tsc(&m->g, tsc);
	while (n--)
		generator_tip(&m->g, BASE);
	generator_async_disable(&m->g, BASE);
}

static void stamp(struct made *m, uint64_t tsc)
{
	generator_psb(&m->g, tsc, 20, false, 0);
}

/* A switch: one thread leaves, the other arrives. */
static void switches(struct made *m, int32_t from, int32_t to, uint64_t tsc)
{
	build_switch(&m->file, true, from, from, to, to, tsc);
	build_switch(&m->file, false, to, to, from, from, tsc);
}

/*
 * The trace of a CPU. perf writes the number of the first thread that it was told to trace into the
 * record of every CPU's buffer, whichever threads ran there.
 */
#define NAMED_BY_PERF 7

static void put_trace(struct made *m, uint32_t cpu, const struct made *of)
{
	const size_t n = (size_t)(of->g.out - of->trace);

	build_auxtrace(&m->file, cpu, NAMED_BY_PERF, (int32_t)cpu, 0, of->trace, n, n);
}

static struct ptah_session *finish(struct made *m)
{
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	char path[32];

	put_trace(m, 0, m);
	build_end(&m->file, PERFDATA_FEATURE_ARCH, "x86_64");
	build_file(path, m->file.bytes, m->file.size);
	if (ptah_session_open(path, NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	unlink(path);
	perfdata_buffer_free(&m->file);
	return s;
}

/* Instructions by thread; [0]: of unknown threads. */
struct ran {
	uint64_t insns[16], errors, nobody;
};

static struct ran decode_stream(const struct ptah_session *s, size_t index)
{
	struct ran ran = {0};
	struct ptah_item items[5];
	struct ptah_thread thread;
	struct ptah_reader *st;
	int n;

	assert_int_equal(ptah_reader_new(s, index, NULL, &st), 0);
	while ((n = ptah_reader_read(st, items, 5)) > 0) {
		assert_int_equal(ptah_reader_thread(st, &thread), 0);
		if (thread.tid == 7)
			assert_string_equal(thread.comm, "seven");
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK)
				ran.insns[thread.tid > 0 ? thread.tid : 0] += items[i].ninsn;
			else if (items[i].type == PTAH_ITEM_ERROR)
				ran.errors++;
			ran.nobody +=
			    items[i].type == PTAH_ITEM_ERROR && items[i].status == PTAH_E_NO_THREAD;
		}
	}
	assert_int_equal(n, 0);
	ptah_reader_free(st);
	return ran;
}

static struct ran decode(const struct ptah_session *s)
{
	return decode_stream(s, 0);
}

struct counted {
	const struct ptah_session *session;
	uint64_t insns[16], errors;
};

static int take(void *context, size_t stream, struct ptah_profile *profile)
{
	struct counted *c = context;
	struct ptah_profile_totals totals;
	struct ptah_profile_block *blocks;
	size_t n;

	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	c->errors += totals.errors;
	assert_int_equal(ptah_profile_blocks(profile, &blocks, &n), 0);
	for (size_t i = 0; i < n; i++) {
		int32_t pid =
		    ptah_session_profile_pid(c->session, stream, profile, blocks[i].space);

		c->insns[pid > 0 ? pid : 0] += blocks[i].count * blocks[i].ninsn;
	}
	free(blocks);
	return 0;
}

/* 9 is a thread of 7. */
static void by_process(uint64_t insns[16], const struct ran *ran)
{
	memcpy(insns, ran->insns, sizeof(ran->insns));
	insns[7] += insns[9];
	insns[9] = 0;
}

/* The counts equal what was read, by one thread and by several. */
static void check_counts(const struct ptah_session *s, const struct ran *ran)
{
	uint64_t insns[16];

	by_process(insns, ran);

	for (unsigned jobs = 1; jobs <= 2; jobs++) {
		const struct ptah_jobs how = {.size = sizeof(how), .jobs = jobs, .segment = 64};
		struct counted c = {.session = s};

		assert_int_equal(ptah_session_count(s, &how, NULL, take, &c), 0);
		assert_int_equal(c.errors, ran->errors);
		assert_memory_equal(c.insns, insns, sizeof(insns));
	}
}

/* Saved counts are kept by process. */
static int keep(void *context, size_t stream, struct ptah_profile *profile)
{
	struct counted *c = context;
	struct ptah_counts *counts;
	struct ptah_counts_process p;

	assert_int_equal(ptah_counts_new(&counts), 0);
	assert_int_equal(ptah_counts_add_stream(counts, c->session, stream, profile), 0);
	for (size_t i = 0; ptah_counts_process(counts, i, &p); i++)
		c->insns[p.pid > 0 ? p.pid : 0] += p.totals.instructions;
	ptah_counts_free(counts);
	return 0;
}

static void check_kept(const struct ptah_session *s, const struct ran *ran)
{
	struct counted c = {.session = s};
	uint64_t insns[16];

	by_process(insns, ran);
	assert_int_equal(ptah_session_count(s, NULL, NULL, keep, &c), 0);
	assert_memory_equal(c.insns, insns, sizeof(insns));
}

static struct ran check(struct made *m)
{
	struct ptah_session *s = finish(m);
	struct ptah_stream_info info;
	struct ran ran = decode(s);

	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.pid, -1);
	assert_int_equal(info.tid, -1);
	assert_int_equal(info.cpu, 0);
	assert_null(ptah_session_note(s, 0));
	check_counts(s, &ran);
	check_kept(s, &ran);
	ptah_session_close(s);
	return ran;
}

TEST(stamps_on_both_sides_of_a_switch)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	switches(&m, 8, 7, 450);
	switches(&m, 7, 8, 650);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 300);
	jumps_at(&m, 301, 7);
	stamp(&m, 400);
	jumps_at(&m, 401, 11);
	stamp(&m, 500);
	jumps_at(&m, 501, 13);
	stamp(&m, 700);
	jumps_at(&m, 701, 17);
	stamp(&m, 800);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 13));
	assert_int_equal(ran.insns[8], 2 * (7 + 11 + 17));
}

/*
 * Two stays, and a switch to a thread of the kernel and back that may have been in either: the user
 * code between them is that of the process around them. A process of which no memory is known may
 * have had user code.
 */
TEST(away_to_a_kernel_thread)
{
	for (int kernel = 0; kernel <= 1; kernel++) {
		struct made m;
		struct ran ran;

		(void)state;
		begin(&m);
		build_fork(&m.file, 2, 2, kernel ? 0 : 1, kernel ? 0 : 1, 0);
		build_comm(&m.file, 2, 2, false, "kthreadd", 0);
		build_fork(&m.file, 15, 15, kernel ? 2 : 1, kernel ? 2 : 1, 0);
		switches(&m, 8, 7, 150);
		switches(&m, 7, 15, 250);
		switches(&m, 15, 7, 260);
		switches(&m, 7, 8, 450);
		stamp(&m, 100);
		jumps_at(&m, 101, 3);
		stamp(&m, 200);
		jumps_at(&m, 201, 5);
		jumps(&m, 7);
		jumps(&m, 11);
		stamp(&m, 300);
		jumps_at(&m, 301, 13);
		stamp(&m, 400);
		jumps_at(&m, 401, 17);
		stamp(&m, 500);
		jumps_at(&m, 501, 19);
		ran = check(&m);
		assert_int_equal(ran.insns[8], 2 * (3 + 19));
		if (kernel) {
			assert_int_equal(ran.errors, 0);
			assert_int_equal(ran.insns[7], 3 * (5 + 7 + 11 + 13 + 17));
		} else {
			assert_int_not_equal(ran.nobody, 0);
			assert_int_equal(ran.insns[7], 3 * (5 + 13 + 17));
		}
	}
}

/* A window begins with the thread and the memory of then, whatever ran before. */
TEST(windows_of_a_shared_cpu)
{
	const unsigned turns = 14;
	struct ptah_session *s;
	struct made m;

	begin(&m);
	for (unsigned i = 1; i < turns; i++)
		switches(&m, i & 1 ? 7 : 8, i & 1 ? 8 : 7, 100 * i + 50);
	for (unsigned i = 0; i < turns; i++) {
		stamp(&m, 100 * (i + 1));
		jumps_at(&m, 100 * (i + 1) + 1, i + 2);
	}
	s = finish(&m);
	for (unsigned from = 0; from < turns; from++) {
		for (unsigned to = from; to < turns; to++) {
			const struct ptah_window w = {.size = sizeof(w),
						      .since = 100 * (from + 1),
						      .until = 100 * (to + 1) + 50,
						      .last = UINT64_MAX};
			uint64_t insns[16] = {0};
			struct ran ran;

			for (unsigned i = from; i <= to; i++)
				insns[i & 1 ? 8 : 7] += (i & 1 ? 2 : 3) * (i + 2);
			assert_int_equal(ptah_session_set_window(s, &w), 0);
			ran = decode(s);
			assert_int_equal(ran.errors, 0);
			assert_memory_equal(ran.insns, insns, sizeof(insns));
			check_counts(s, &ran);
		}
	}
	ptah_session_close(s);
}

/*
 * perf's clock may have begun after the TSC, as in a guest: TIME_ZERO is negative. With -1000 in
 * place of 1000 the records have the times of TSC values that are 8000 larger.
 */
TEST(clock_that_began_after_the_tsc)
{
	const uint64_t more = 8000;
	struct ptah_session *s;
	struct made m;
	struct ran ran;

	begin(&m);
	store_le64(m.file.bytes + BUILD_INFO + 8 * PERFDATA_INFO_TIME_ZERO, (uint64_t)-1000);
	switches(&m, 7, 8, 250);
	switches(&m, 8, 7, 450);
	stamp(&m, more + 200);
	jumps_at(&m, more + 201, 5);
	stamp(&m, more + 300);
	jumps_at(&m, more + 301, 7);
	stamp(&m, more + 400);
	jumps_at(&m, more + 401, 11);
	stamp(&m, more + 500);
	jumps_at(&m, more + 501, 13);
	s = finish(&m);
	ran = decode(s);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 13));
	assert_int_equal(ran.insns[8], 2 * (7 + 11));
	assert_int_equal(ptah_session_time(s, more + 200), 1000 + 200 / 4);
	check_counts(s, &ran);
	ptah_session_close(s);
}

/* Between the time stamps packets are off only once: the switch is there. */
TEST(one_stay_between_stamps)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	/* 220: the last known time before the switch */
	stamp(&m, 220);
	generator_enable(&m.g, BASE);
	for (unsigned i = 0; i < 3; i++)
		generator_tip(&m.g, BASE);
	generator_tsc(&m.g, 230);
	generator_async_disable(&m.g, BASE);
	generator_enable(&m.g, BASE);
	for (unsigned i = 0; i < 7; i++)
		generator_tip(&m.g, BASE);
	generator_tsc(&m.g, 300);
	for (unsigned i = 0; i < 4; i++)
		generator_tip(&m.g, BASE);
	generator_async_disable(&m.g, BASE);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 3));
	assert_int_equal(ran.insns[8], 2 * (7 + 4));
}

/* The clock of a CPU that sends MTCs, whose trace begins now. */
static struct ptah_clock begin_clock(struct made *m)
{
	struct ptah_clock clock = {.tsc_en = true,
				   .mtc_en = true,
				   .mtc_freq = 3,
				   .nominal_ratio = BUILD_RATIO,
				   .ratio = BUILD_RATIO,
				   .n = 2,
				   .d = 1,
				   .tsc = 10000};

	build_timing(&m->file, PERFDATA_PT_MTC | 3 << 14);
	clock_init(&clock);
	clock_psb(&clock, &m->g, false, 0);
	return clock;
}

/*
 * A PSB+ has a TSC, and the next MTC comes only when the thread has left its code again. Before that
 * MTC, less time has passed than between two MTCs, so that the first of the two stays ends long
 * before the switch.
 */
TEST(psb_in_a_stay_before_that_of_the_switch)
{
	struct ptah_clock clock;
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 20500);
	switches(&m, 8, 7, 30500);
	clock = begin_clock(&m);
	jumps(&m, 5);
	clock_pass(&clock, &m.g, 10 * 256);
	clock_psb(&clock, &m.g, false, 0);
	jumps(&m, 7);
	clock_pass(&clock, &m.g, 20700 - clock.tsc);
	jumps(&m, 11);
	clock_pass(&clock, &m.g, 30700 - clock.tsc);
	jumps(&m, 13);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 7 + 13));
	assert_int_equal(ran.insns[8], 2 * 11);
}

/* The same where the first stay may be in trace that was lost, before a PSB+ in the thread's code. */
TEST(psb_after_what_was_lost)
{
	struct ptah_clock clock;
	struct ptah_session *s;
	struct made m;
	struct ran ran;
	size_t first, n;

	begin(&m);
	switches(&m, 7, 8, 20500);
	clock = begin_clock(&m);
	jumps(&m, 5);
	first = (size_t)(m.g.out - m.trace);
	clock_pass(&clock, &m.g, 10 * 256);
	n = (size_t)(m.g.out - m.trace);
	clock_psb(&clock, &m.g, true, BASE);
	for (unsigned i = 0; i < 7; i++)
		generator_tip(&m.g, BASE);
	generator_async_disable(&m.g, BASE);
	clock_pass(&clock, &m.g, 20700 - clock.tsc);
	jumps(&m, 11);
	build_auxtrace(&m.file, 0, NAMED_BY_PERF, 0, 0, m.trace, first, first);
	build_auxtrace(&m.file, 0, NAMED_BY_PERF, 0, n, m.trace + n,
		       (size_t)(m.g.out - m.trace) - n, (size_t)(m.g.out - m.trace) - n);
	m.g.out = m.trace;
	s = finish(&m);
	ran = decode(s);
	check_counts(s, &ran);
	ptah_session_close(s);
	assert_int_equal(ran.errors, 1); /* what was lost */
	assert_int_equal(ran.insns[7], 3 * (5 + 7));
	assert_int_equal(ran.insns[8], 2 * 11);
}

/*
 * Packets are off twice: what ran between the two stays belongs to an unknown thread, which is
 * reported.
 */
TEST(two_stays_between_stamps)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps(&m, 5);
	jumps(&m, 9);
	jumps(&m, 7);
	stamp(&m, 300);
	jumps(&m, 6);
	stamp(&m, 400);
	ran = check(&m);
	assert_int_equal(ran.nobody, 1);
	assert_int_equal(ran.insns[0], 0);
	/* The first stay is before the first jump: 200 may have been long ago. */
	assert_int_equal(ran.insns[7], 0);
	assert_int_equal(ran.insns[8], 2 * 6);
}

/* After the last time stamp it is unknown when the next switch happens. */
TEST(switch_behind_the_last_stamp)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 240);
	jumps(&m, 9);
	ran = check(&m);
	assert_int_equal(ran.insns[7], 3 * 5);
	assert_int_equal(ran.insns[8], 0);
	assert_int_equal(ran.nobody, 1);
}

/* At this time the kernel ends a part of the trace, which has what was made so far. */
static void end_part(struct made *m, uint64_t tsc)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, 0);
	perfdata_put64(&body, (uint64_t)(m->g.out - m->trace));
	perfdata_put64(&body, 0);
	build_record(&m->file, PERFDATA_AUX, 0, &body, 7, 7, build_time(tsc));
	perfdata_buffer_free(&body);
}

/*
 * perf record -- program: the thread ends, and with it the trace. The processor becomes idle after
 * that, and no time stamp says so.
 */
TEST(switch_after_the_last_part)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 240);
	jumps(&m, 9);
	end_part(&m, 245);
	ran = check(&m);
	assert_int_equal(ran.insns[7], 3 * (5 + 9));
	assert_int_equal(ran.errors, 0);
}

/* As two_stays_between_stamps(), but a part of the trace ended before the switch. */
TEST(part_ends_between_stamps)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps(&m, 5);
	jumps(&m, 9);
	end_part(&m, 220);
	jumps(&m, 7);
	stamp(&m, 300);
	jumps(&m, 6);
	stamp(&m, 400);
	ran = check(&m);
	assert_int_equal(ran.nobody, 1);
	assert_int_equal(ran.insns[7], 3 * (5 + 9));
	assert_int_equal(ran.insns[8], 2 * 6);
}

/* The trace was never off, so it contradicts the records. */
TEST(switch_without_a_stay)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 8, 250);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 220);
	generator_enable(&m.g, BASE);
	generator_tsc(&m.g, 230);
	generator_tip(&m.g, BASE);
	generator_tsc(&m.g, 300);
	generator_tip(&m.g, BASE);
	generator_async_disable(&m.g, BASE);
	stamp(&m, 400);
	ran = check(&m);
	assert_int_equal(ran.nobody, 1);
	assert_int_equal(ran.insns[7], 3 * (5 + 1));
}

/* An idle CPU, another thread of the same process, and records of only one of two threads. */
TEST(idle_and_threads)
{
	struct made m;
	struct ran ran;

	begin(&m);
	build_fork(&m.file, 7, 9, 7, 7, 10);
	switches(&m, 7, 0, 250);
	switches(&m, 0, 8, 350);
	build_switch(&m.file, true, 8, 8, -1, -1, 450);
	build_switch(&m.file, false, 7, 9, -1, -1, 550);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 240);
	stamp(&m, 400);
	jumps_at(&m, 401, 7);
	stamp(&m, 440);
	stamp(&m, 600);
	jumps_at(&m, 601, 11);
	stamp(&m, 700);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * 5);
	assert_int_equal(ran.insns[8], 2 * 7);
	assert_int_equal(ran.insns[9], 3 * 11);
}

/* Samples of a tracepoint name only threads, whose processes are known from other records. */
TEST(threads_without_their_processes)
{
	struct made m;
	struct ran ran;

	begin(&m);
	build_fork(&m.file, 7, 9, 7, 7, 10);
	build_switch(&m.file, true, 7, 7, -1, 8, 250);
	build_switch(&m.file, true, 8, 8, -1, 9, 450);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 300);
	jumps_at(&m, 301, 7);
	stamp(&m, 500);
	jumps_at(&m, 501, 11);
	stamp(&m, 600);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * 5);
	assert_int_equal(ran.insns[8], 2 * 7);
	assert_int_equal(ran.insns[9], 3 * 11);
}

/* Memory changes at its time, whichever process runs then. */
TEST(memory_changes_while_another_runs)
{
	struct made m;
	struct ran ran;

	begin(&m);
	build_code(&m.file, 7, 350, BASE, four, sizeof(four));
	build_code(&m.file, 7, 550, BASE, two, sizeof(two));
	switches(&m, 7, 8, 250);
	switches(&m, 8, 7, 450);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 300);
	jumps_at(&m, 301, 7);
	stamp(&m, 400);
	jumps_at(&m, 401, 11);
	stamp(&m, 500);
	jumps_at(&m, 501, 13);
	stamp(&m, 600);
	jumps_at(&m, 601, 17);
	stamp(&m, 700);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * 5 + 4 * 13 + 2 * 17);
	assert_int_equal(ran.insns[8], 2 * (7 + 11));
}

/* Process 8 ends, and another process gets its pid, with memory of its own. */
TEST(number_that_comes_back)
{
	struct made m;
	struct ran ran;

	begin(&m);
	build_fork(&m.file, 8, 8, 7, 7, 400);
	switches(&m, 8, 7, 250);
	switches(&m, 7, 8, 450);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 300);
	jumps_at(&m, 301, 7);
	stamp(&m, 500);
	jumps_at(&m, 501, 11);
	stamp(&m, 600);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * 7);
	assert_int_equal(ran.insns[8], 2 * 5 + 3 * 11);
}

/* An unknown process: its addresses have no code. */
TEST(process_without_maps)
{
	struct made m;
	struct ran ran;

	begin(&m);
	switches(&m, 7, 13, 250);
	switches(&m, 13, 8, 450);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 300);
	jumps_at(&m, 301, 7);
	stamp(&m, 500);
	jumps_at(&m, 501, 11);
	stamp(&m, 600);
	ran = check(&m);
	assert_true(ran.errors > 0);
	assert_int_equal(ran.nobody, 0);
	assert_int_equal(ran.insns[7], 3 * 5);
	assert_int_equal(ran.insns[13], 0);
	assert_int_equal(ran.insns[8], 2 * 11);
}

/* A switch may have happened where trace is missing or the processor lost packets. */
TEST(switch_in_what_was_lost)
{
	struct made m;
	struct ran ran;
	struct ptah_session *s;
	struct ptah_stream_info info;
	size_t first, n;

	begin(&m);
	switches(&m, 7, 8, 250);
	switches(&m, 8, 7, 450);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	stamp(&m, 210);
	first = (size_t)(m.g.out - m.trace);
	stamp(&m, 300);
	generator_enable(&m.g, BASE);
	generator_tip(&m.g, BASE);
	generator_tsc(&m.g, 400);
	generator_tip(&m.g, BASE);
	generator_overflow(&m.g);
	generator_ip_packet(&m.g, OPCODE_FUP, BASE); /* the FUP after it */
	generator_tsc(&m.g, 500);
	for (unsigned i = 0; i < 11; i++)
		generator_tip(&m.g, BASE);
	generator_async_disable(&m.g, BASE);
	stamp(&m, 600);
	n = (size_t)(m.g.out - m.trace);
	build_auxtrace(&m.file, 0, -1, 0, 0, m.trace, first, first);
	build_auxtrace(&m.file, 0, -1, 0, first + 80, m.trace + first, n - first, n - first);
	m.g.out = m.trace;
	s = finish(&m);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.lost, 80);
	ran = decode(s);
	assert_int_equal(ran.errors, 1); /* the gap */
	assert_int_equal(ran.nobody, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 11));
	assert_int_equal(ran.insns[8], 2 * 2);
	check_counts(s, &ran);
	ptah_session_close(s);
}

TEST(no_switches_are_told)
{
	struct made m;
	struct ran ran;
	struct ptah_session *s;

	begin(&m);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	s = finish(&m);
	assert_non_null(ptah_session_note(s, 0));
	assert_non_null(strstr(ptah_session_note(s, 0), "--switch-events"));
	ran = decode(s);
	assert_true(ran.errors > 0);
	ptah_session_close(s);
}

/*
 * As perf records a command and its children: each thread has separate records of leaving and
 * arriving, and tracing begins again, with a time stamp, before the record of the one that arrives.
 */
TEST(threads_that_come_alone)
{
	struct made m;
	struct ran ran;

	begin(&m);
	build_switch(&m.file, true, 7, 7, -1, -1, 250);
	build_switch(&m.file, false, 8, 8, -1, -1, 350);
	stamp(&m, 200);
	jumps(&m, 5);
	jumps(&m, 6);
	/* It is unknown which stays were before 250, but this one lasted until 300. */
	stamp(&m, 300);
	jumps(&m, 7);
	jumps(&m, 9);
	jumps_at(&m, 400, 3);
	stamp(&m, 500);
	ran = check(&m);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * (5 + 6));
	assert_int_equal(ran.insns[8], 2 * (7 + 9 + 3));
}

static unsigned random_number(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	return *seed >> 8;
}

/* One thread leaves, and the other arrives some time later, possibly after a time stamp. */
static uint64_t switch_alone(struct made *m, unsigned *seed, int32_t now, uint64_t tsc)
{
	build_switch(&m->file, true, now, now, -1, -1, 4 * tsc);
	tsc += 1 + random_number(seed) % 50;
	if (random_number(seed) % 2)
		stamp(m, 4 * tsc);
	tsc += 1 + random_number(seed) % 50;
	build_switch(&m->file, false, 15 - now, 15 - now, -1, -1, 4 * tsc);
	return tsc;
}

/*
 * Random runs, switches and time stamps: what is counted for a process is what it ran, or less, in
 * which case an error is reported.
 */
TEST(by_chance)
{
	unsigned exact = 0, told = 0;

	for (unsigned round = 0; round < 300; round++) {
		unsigned seed = round, often = 1 + round % 5;
		uint64_t tsc = 1000, expected[2] = {0};
		struct ran ran;
		struct made m;
		int32_t now = 7;

		begin(&m);
		stamp(&m, tsc);
		for (unsigned i = 0; i < 40; i++) {
			unsigned n = random_number(&seed) % 9;

			tsc += 1 + random_number(&seed) % 50;
			if (random_number(&seed) % 4 == 0) {
				if (round & 1)
					tsc = switch_alone(&m, &seed, now, tsc);
				else
					switches(&m, now, 15 - now, 4 * tsc);
				now = 15 - now;
			}
			tsc += 1 + random_number(&seed) % 50;
			if (random_number(&seed) % 16 == 0)
				stamp(&m, 4 * tsc);
			if (random_number(&seed) % often == 0)
				jumps_at(&m, 4 * ++tsc, n);
			else
				jumps(&m, n);
			expected[now - 7] += (now == 7 ? 3u : 2u) * n;
		}
		stamp(&m, 4 * tsc + 400);
		ran = check(&m);
		if (!ran.errors) {
			assert_int_equal(ran.insns[7], expected[0]);
			assert_int_equal(ran.insns[8], expected[1]);
			exact++;
		} else {
			assert_true(ran.nobody > 0);
			assert_true(ran.insns[7] <= expected[0]);
			assert_true(ran.insns[8] <= expected[1]);
			told++;
		}
		assert_int_equal(ran.insns[0], 0);
		/* With a time stamp in each run everything is known. */
		assert_true(often > 1 || !ran.errors);
	}
	assert_true(exact >= 60 && told > 60);
}

/* Thread `tid` of process 7 arrives at a CPU, or leaves it. */
static void comes(struct made *m, uint32_t cpu, int32_t tid, uint64_t tsc)
{
	build_switch_on(&m->file, cpu, false, 7, tid, -1, -1, tsc);
}

static void leaves(struct made *m, uint32_t cpu, int32_t tid, uint64_t tsc)
{
	build_switch_on(&m->file, cpu, true, 7, tid, -1, -1, tsc);
}

/* A thread runs from `tsc` on: tracing begins with a PSB. */
static void runs(struct made *m, uint64_t tsc, unsigned n)
{
	stamp(m, tsc);
	jumps_at(m, tsc + 1, n);
}

/*
 * `perf record -- program`: process 7 begins as perf-exec, and becomes the program by execve. Its
 * two threads move between two CPUs.
 */
static void begin_program(struct made *m)
{
	memset(m, 0, sizeof(*m));
	build_begin(&m->file);
	build_with_cpus(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m->file, 7, 7, false, "perf-exec", 0);
	build_code(&m->file, 7, 0, BASE, two, sizeof(two));
	build_comm(&m->file, 7, 7, true, "seven", 150);
	build_mmap2(&m->file, 7, 0x50000, 4096, 0, "//anon", 151, NULL);
	build_code(&m->file, 7, 152, BASE, three, sizeof(three));
	build_fork(&m->file, 7, 9, 7, 7, 230);
	generator_init(&m->g, m->trace, false, false);
}

/* The threads of begin_program() have the names of their time, and ran on both CPUs. */
static void check_threads(const struct ptah_session *s, size_t stream)
{
	static const struct {
		int32_t tid;
		uint64_t tsc, until;
		const char *comm;
	} names[] = {
	    {7, 120, 148, "perf-exec"}, /* the record's time is that of TSC 148 */
	    {7, 148, UINT64_MAX, "seven"},
	    {9, 320, UINT64_MAX, "seven"},
	};
	struct ptah_thread thread;
	char comm[16] = "";
	uint64_t until;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(ptah_session_thread_name(s, names[i].tid, names[i].tsc, comm, &until));
		assert_string_equal(comm, names[i].comm);
		assert_int_equal(until, names[i].until);
	}
	assert_false(ptah_session_thread_name(s, 8, 320, comm, &until));
	assert_int_equal(ptah_session_stream_thread(s, stream, 0, &thread), 0);
	assert_int_equal(thread.tid, 7);
	assert_string_equal(thread.comm, "seven");
	assert_int_equal(ptah_session_stream_thread(s, stream, 1, &thread), 0);
	assert_int_equal(thread.pid, 7);
	assert_int_equal(thread.tid, 9);
	assert_int_equal(ptah_session_stream_thread(s, stream, 2, &thread), PTAH_E_MISSING);
}

TEST(threads_of_one_program_move)
{
	struct ptah_stream_info info;
	struct ptah_session *s;
	struct made m, other = {.trace = {0}};
	struct ran first, second;

	begin_program(&m);
	generator_init(&other.g, other.trace, false, false);
	comes(&m, 0, 7, 110);
	runs(&m, 120, 3);
	runs(&m, 200, 5);
	leaves(&m, 0, 7, 300);
	comes(&m, 0, 9, 310);
	runs(&m, 320, 7);
	comes(&m, 1, 7, 350);
	runs(&other, 360, 11);
	leaves(&m, 0, 9, 400);
	leaves(&m, 1, 7, 450);
	comes(&m, 1, 9, 460);
	runs(&other, 470, 13);
	leaves(&m, 1, 9, 500);
	comes(&m, 0, 7, 600);
	runs(&m, 610, 2);
	put_trace(&m, 1, &other);
	s = finish(&m);
	assert_int_equal(ptah_session_streams(s), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ptah_session_stream_info(s, i, &info), 0);
		assert_int_equal(info.pid, 7);
		assert_int_equal(info.tid, -1);
		assert_int_equal(info.cpu, 1 - i);
		assert_string_equal(info.comm, "seven");
		check_threads(s, i);
	}
	second = decode_stream(s, 0); /* the streams are in the order of the file */
	first = decode_stream(s, 1);
	assert_int_equal(first.errors + second.errors, 0);
	assert_int_equal(first.insns[7], 2 * 3 + 3 * (5 + 2));
	assert_int_equal(first.insns[9], 3 * 7);
	assert_int_equal(second.insns[7], 3 * 11);
	assert_int_equal(second.insns[9], 3 * 13);
	for (size_t i = 0; i < 16; i++)
		first.insns[i] += second.insns[i];
	check_counts(s, &first);
	check_kept(s, &first);
	ptah_session_close(s);
}

/* Where the place of a switch is not known, the thread is not; the code is. */
TEST(unknown_thread_of_one_program)
{
	struct ptah_session *s;
	struct made m;
	struct ran ran;

	begin_program(&m);
	comes(&m, 0, 7, 170);
	leaves(&m, 0, 7, 250);
	comes(&m, 0, 9, 250);
	stamp(&m, 200);
	jumps_at(&m, 201, 5);
	jumps(&m, 9);
	jumps(&m, 7);
	stamp(&m, 300);
	jumps_at(&m, 301, 6);
	s = finish(&m);
	ran = decode(s);
	assert_int_equal(ran.errors, 0);
	assert_int_equal(ran.insns[7], 3 * 5);
	assert_int_equal(ran.insns[0], 3 * (9 + 7));
	assert_int_equal(ran.insns[9], 3 * 6);
	check_counts(s, &(struct ran){.insns[7] = 3 * (5 + 9 + 7 + 6)});
	ptah_session_close(s);
}

/* The kernel's code (nop; nop; iretq) is in every address space. User code: nop; syscall. */
#define KERNEL UINT64_C(0xffffffff81000000)

static const uint8_t kernel_code[] = {0x90, 0x90, 0x48, 0xcf};
static const uint8_t user_code[] = {0x90, 0x0f, 0x05};
static const uint8_t other_code[] = {0x90, 0x90, 0x0f, 0x05};

/*
 * Makes a folder of perf's with a copy of the kernel: an ELF core file with one loadable segment.
 */
static void make_folder(const struct perfdata_buffer *data)
{
	uint8_t elf[64 + 56] = "\x7f"
			       "ELF\x02\x01\x01";
	FILE *f;

	store_le16(elf + 16, 4); /* ET_CORE */
	store_le16(elf + 18, 62);
	store_le32(elf + 20, 1);
	store_le64(elf + 32, 64);
	store_le16(elf + 52, 64);
	store_le16(elf + 54, 56);
	store_le16(elf + 56, 1);
	store_le32(elf + 64, 1); /* PT_LOAD, RWX */
	store_le32(elf + 68, 7);
	store_le64(elf + 72, sizeof(elf));
	store_le64(elf + 80, KERNEL);
	store_le64(elf + 96, sizeof(kernel_code));
	store_le64(elf + 104, sizeof(kernel_code));
	assert_int_equal(mkdir("folder", 0700), 0);
	assert_int_equal(mkdir("folder/kcore_dir", 0700), 0);
	f = fopen("folder/kcore_dir/kcore", "w");
	assert_non_null(f);
	assert_int_equal(fwrite(elf, sizeof(elf), 1, f), 1);
	assert_int_equal(fwrite(kernel_code, sizeof(kernel_code), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	f = fopen("folder/data", "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data->bytes, data->size, 1, f), 1);
	assert_int_equal(fclose(f), 0);
}

static void remove_folder(void)
{
	unlink("folder/kcore_dir/kcore");
	unlink("folder/data");
	rmdir("folder/kcore_dir");
	rmdir("folder");
}

static void call(struct made *m, uint64_t back)
{
	generator_tip(&m->g, KERNEL);
	generator_tip(&m->g, back);
}

/* At this time the kernel's two nops become one: a record TEXT_POKE. */
static void poke(struct made *m, uint64_t tsc)
{
	static const uint8_t bytes[] = {0x90, 0x90, 0x66, 0x90};
	struct perfdata_buffer body = {0};

	store_le32(m->file.bytes + 112, 0); /* the event of AUXTRACE_INFO: the kernel is traced */
	perfdata_put64(&body, KERNEL);
	perfdata_put16(&body, 2);
	perfdata_put16(&body, 2);
	perfdata_put(&body, bytes, sizeof(bytes));
	build_record(&m->file, PERFDATA_TEXT_POKE, PERFDATA_MISC_KERNEL, &body, 0, 0,
		     build_time(tsc));
	perfdata_buffer_free(&body);
}

static void trace_kernel(bool poked)
{
	struct made m = {.file = {0}};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	struct ran ran;
	size_t n;

	build_begin(&m.file);
	build_with_cpus(&m.file);
	build_info(&m.file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m.file, 7, 7, false, "seven", 0);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, user_code, sizeof(user_code));
	build_comm(&m.file, 8, 8, true, "eight", 0);
	build_mmap2(&m.file, 8, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 8, 0, BASE, other_code, sizeof(other_code));
	if (poked)
		poke(&m, 350);
	switches(&m, 7, 8, 250);
	switches(&m, 8, 7, 450);
	generator_init(&m.g, m.trace, false, false);
	generator_psb(&m.g, 200, 20, true, BASE);
	for (unsigned i = 0; i < 5; i++)
		call(&m, BASE);
	generator_tsc(&m.g, 240);
	/* In the kernel between 240 and 300. */
	generator_tip(&m.g, KERNEL);
	generator_pip(&m.g, 0x2000000, false);
	generator_tsc(&m.g, 300);
	generator_tip(&m.g, BASE);
	for (unsigned i = 0; i < 6; i++)
		call(&m, BASE);
	generator_tsc(&m.g, 400);
	/* Three stays, but CR3 changes only in the second. */
	call(&m, BASE);
	generator_tip(&m.g, KERNEL);
	generator_pip(&m.g, 0x1000000, false);
	generator_tip(&m.g, BASE);
	call(&m, BASE);
	generator_tsc(&m.g, 500);
	call(&m, BASE);
	generator_async_disable(&m.g, BASE);
	n = (size_t)(m.g.out - m.trace);
	build_auxtrace(&m.file, 0, -1, 0, 0, m.trace, n, n);
	build_end(&m.file, PERFDATA_FEATURE_ARCH, "x86_64");
	remove_folder();
	make_folder(&m.file);
	if (ptah_session_open("folder", NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	ran = decode(s);
	assert_int_equal(ran.errors, 0);
	/*
	 * 5 calls and the way into the kernel. The rest of the kernel's code counts for the next
	 * thread.
	 */
	n = poked ? 2 : 3; /* from 400 on */
	assert_int_equal(ran.insns[7], 5 * (2 + 3) + 2 + n + 2 * (2 + n));
	assert_int_equal(ran.insns[8], 3 + 6 * (3 + 3) + (3 + n) + 3);
	check_counts(s, &ran);
	ptah_session_close(s);
	remove_folder();
	perfdata_buffer_free(&m.file);
}

TEST(traced_kernel)
{
	trace_kernel(false);
}

/* The kernel's code changes for all processes that share the CPU. */
TEST(kernel_changes_while_processes_run)
{
	trace_kernel(true);
}
