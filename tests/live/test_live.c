/* SPDX-License-Identifier: MIT */
/*
 * Recordings through a pipe, built by hand, that are followed: what changes takes effect at its
 * time whenever its record comes, losses are where they happened, and what is no recording is
 * refused.
 */
#include "perfdata/build.h"

#include <ptah/live.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define BASE 0x12345

/* Loops through jmp rax, with as many instructions as their names say. */
static const uint8_t three[] = {0x90, 0x90, 0xff, 0xe0}; /* nop; nop; jmp */
static const uint8_t two[] = {0x66, 0x90, 0xff, 0xe0};	 /* xchg ax, ax; jmp */

struct made {
	struct perfdata_buffer file; /* the records begin at BUILD_DATA */
	struct ptah_generator g;
	uint8_t trace[1 << 16];
	size_t given; /* bytes of trace in records */
	/* What came of it. */
	unsigned losses;
	uint64_t lost;
};

static struct made *begin(void)
{
	struct made *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	build_begin(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m->file, 7, 7, false, "prog", 0);
	build_itrace_start(&m->file, 7, 7, 0);
	generator_init(&m->g, m->trace, false, false);
	return m;
}

static void end_round(struct made *m)
{
	perfdata_put32(&m->file, 68);
	perfdata_put16(&m->file, 0);
	perfdata_put16(&m->file, 8);
}

/* A PSB+ at `tsc`, and `n` jumps from BASE to BASE. */
static void jumps(struct made *m, uint64_t tsc, bool running, unsigned n)
{
	generator_psb(&m->g, tsc, 20, running, BASE);
	if (!running)
		generator_enable(&m->g, BASE);
	while (n--)
		generator_tip(&m->g, BASE);
}

/* The trace that was generated since the last record of trace; `skip` bytes of it are missing. */
static void give(struct made *m, size_t skip)
{
	const size_t n = (size_t)(m->g.out - m->trace) - m->given - skip;

	m->given += skip;
	build_auxtrace(&m->file, 0, 7, -1, m->given, m->trace + m->given, n, (n + 7) & ~(size_t)7);
	m->given += n;
}

static int on_loss(void *context, const struct ptah_live_loss *loss)
{
	struct made *m = context;

	assert_int_equal(loss->tid, 7);
	assert_true(loss->since && loss->until >= loss->since);
	m->losses++;
	m->lost += loss->bytes;
	return 0;
}

static struct ptah_live *new_live(struct made *m, const struct ptah_live_config *like)
{
	struct ptah_live_config config = {.size = sizeof(config)};
	struct ptah_live *live;

	if (like)
		config = *like;
	config.on_loss = on_loss;
	config.context = m;
	assert_int_equal(ptah_live_new(&config, &live), 0);
	return live;
}

/* The header of a pipe, the event, and the records; in chunks. Returns the first error. */
static int feed(struct made *m, struct ptah_live *live, size_t chunk)
{
	struct perfdata_buffer pipe = {0};
	int status = 0;

	perfdata_put(&pipe, "PERFILE2", 8);
	perfdata_put64(&pipe, 16);
	perfdata_put32(&pipe, PERFDATA_HEADER_ATTR);
	perfdata_put16(&pipe, 0);
	perfdata_put16(&pipe, 8 + 120);
	perfdata_put(&pipe, m->file.bytes + 112, 120);
	perfdata_put(&pipe, m->file.bytes + BUILD_DATA, m->file.size - BUILD_DATA);
	for (size_t at = 0, n; at < pipe.size && status >= 0; at += n) {
		n = pipe.size - at < chunk ? pipe.size - at : chunk;
		status = ptah_live_feed(live, pipe.bytes + at, n);
		if (status >= 0)
			status = ptah_live_poll(live);
	}
	perfdata_buffer_free(&pipe);
	return status;
}

/* The same records as pieces of a recorder. Returns the first error. */
static int give_pieces(struct made *m, struct ptah_live *live)
{
	const struct ptah_record_sink *sink = ptah_live_sink(live);
	struct perfdata_buffer attr = {0};
	int status;

	perfdata_put(&attr, "\100\0\0\0\0\0\200\0", 8);
	perfdata_put(&attr, m->file.bytes + 112, 120);
	status =
	    sink->take(sink->context, &(struct ptah_record_piece){.kind = PTAH_RECORD_PIECE_RECORD,
								  .bytes = attr.bytes,
								  .size = attr.size});
	perfdata_buffer_free(&attr);
	for (size_t at = BUILD_DATA; at < m->file.size && status >= 0;) {
		const uint8_t *r = m->file.bytes + at;
		struct ptah_record_piece piece = {
		    .kind = PTAH_RECORD_PIECE_RECORD, .bytes = r, .size = load_le16(r + 6)};

		at += piece.size;
		if (load_le32(r) == PERFDATA_AUXTRACE) {
			piece = (struct ptah_record_piece){.kind = PTAH_RECORD_PIECE_TRACE,
							   .tid = 7,
							   .cpu = -1,
							   .offset = load_le64(r + 16),
							   .bytes = m->file.bytes + at,
							   .size = load_le64(r + 8)};
			at += piece.size;
		}
		status = sink->take(sink->context, &piece);
		if (status >= 0)
			status = ptah_live_poll(live);
	}
	return status;
}

struct sums {
	uint64_t instructions, errors;
	int first;
};

static int take(void *context, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_totals totals;
	struct sums *sums = context;

	(void)stream;
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	sums->instructions += totals.instructions;
	sums->errors += totals.errors;
	sums->first = totals.errors ? totals.first_error.status : 0;
	return 0;
}

static void done(struct made *m, struct ptah_live *live)
{
	ptah_live_free(live);
	perfdata_buffer_free(&m->file);
	free(m);
}

/* Feeds everything in different ways; all count the same. */
static void expect(struct made *m, uint64_t instructions, uint64_t errors, int first)
{
	static const size_t chunks[] = {1, 8, 1000, 1 << 20};
	struct ptah_live *live = NULL;

	for (size_t i = 0; i < 8; i++) {
		struct ptah_live_config config = {.size = sizeof(config), .jobs = i / 4};
		struct ptah_live_status s = {.size = sizeof(s)};
		struct sums sums = {0};

		ptah_live_free(live);
		live = new_live(m, &config);
		if (feed(m, live, chunks[i % 4]) < 0 || ptah_live_finish(live) < 0)
			fail_msg("%s", ptah_live_why(live));
		assert_int_equal(ptah_live_counts(live, take, &sums), 0);
		assert_int_equal(sums.errors, errors);
		assert_int_equal(sums.first, first);
		assert_int_equal(sums.instructions, instructions);
		assert_int_equal(ptah_live_status(live, &s), 0);
		assert_int_equal(s.instructions, instructions);
		assert_int_equal(s.errors, errors);
		assert_int_equal(s.bytes, s.decoded);
		assert_int_equal(s.behind, 0);
		assert_true(s.finished && s.threads == 1);
	}
	done(m, live);
}

/* The record of a child comes after its parent has become another program. */
TEST(a_child_has_the_memory_that_its_parent_had)
{
	struct made *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	build_begin(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	generator_init(&m->g, m->trace, false, false);
	build_comm(&m->file, 1, 1, false, "parent", 0);
	build_code(&m->file, 1, 10, BASE, three, sizeof(three));
	end_round(m);
	build_comm(&m->file, 1, 1, true, "other", 60);
	end_round(m);
	end_round(m);
	build_fork(&m->file, 7, 7, 1, 1, 40);
	build_itrace_start(&m->file, 7, 7, 41);
	jumps(m, 100, false, 5);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	expect(m, 5 * 3, 0, 0);
}

/* The record of the change comes in the round after the trace that needs it. */
TEST(a_change_takes_effect_at_its_time)
{
	struct made *m = begin();

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 5);
	give(m, 0);
	end_round(m);
	jumps(m, 200, true, 4);
	give(m, 0);
	end_round(m);
	build_code(&m->file, 7, 200, BASE, two, sizeof(two));
	jumps(m, 300, true, 2);
	give(m, 0);
	end_round(m);
	build_code(&m->file, 7, 300, BASE, three, sizeof(three));
	end_round(m);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	/* A jump is counted with the code in which it begins. */
	expect(m, 5 * 3 + 4 * 2 + 2 * 3, 0, 0);
}

TEST(without_rounds_all_is_decoded_at_the_end)
{
	struct made *m = begin();

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 5);
	give(m, 0);
	build_code(&m->file, 7, 200, BASE, two, sizeof(two));
	jumps(m, 200, true, 4);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	expect(m, 5 * 3 + 4 * 2, 0, 0);
}

/* What is missing is one error, and decoding goes on at the next PSB. */
TEST(missing_trace_is_an_error)
{
	struct made *m = begin();

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 5);
	give(m, 0);
	end_round(m);
	jumps(m, 200, true, 100);
	give(m, (size_t)(m->g.out - m->trace) - m->given - 8); /* all but the last eight bytes */
	end_round(m);
	jumps(m, 300, true, 2);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	expect(m, 5 * 3 + 2 * 3, 1, PTAH_E_LOST);
}

/* Trace that waits is left out, reported, and an error where it is missing. */
TEST(what_waits_too_long_is_left_out)
{
	struct ptah_live_config config = {
	    .size = sizeof(config), .policy = PTAH_LIVE_DROP, .queue = 100};
	struct ptah_live_status s = {.size = sizeof(s)};
	struct made *m = begin();
	struct ptah_live *live;
	struct sums sums = {0};

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 100);
	give(m, 0);
	jumps(m, 200, true, 300); /* the queue is full */
	give(m, 0);
	jumps(m, 250, true, 10);
	give(m, 0);
	end_round(m);
	end_round(m);
	end_round(m);
	jumps(m, 300, true, 2);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	end_round(m);
	live = new_live(m, &config);
	assert_int_equal(give_pieces(m, live), 0);
	assert_int_equal(ptah_live_finish(live), 0);
	assert_int_equal(ptah_live_status(live, &s), 0);
	assert_int_equal(m->losses, 1);
	assert_int_equal(s.losses, 1);
	assert_int_equal(s.dropped, m->lost);
	assert_int_equal(s.bytes, s.decoded + s.dropped);
	assert_int_equal(ptah_live_counts(live, take, &sums), 0);
	assert_int_equal(sums.instructions, 100 * 3 + 2 * 3);
	assert_int_equal(sums.errors, 1);
	assert_int_equal(sums.first, PTAH_E_LOST);
	done(m, live);
}

/* Of the trace the end is saved, from a PSB on; the records say what the code was then. */
static void the_end_is_saved_by(bool trim)
{
	struct made *m = begin();
	struct ptah_live_config config = {.size = sizeof(config)};
	struct ptah_session_config all = {.size = sizeof(all)};
	struct ptah_jobs jobs = {.size = sizeof(jobs)};
	struct ptah_live_keep *keep;
	struct ptah_session *session;
	struct ptah_message why = {""};
	struct ptah_hit hit = {.size = sizeof(hit),
			       .time = 350,
			       .since = 300,
			       .pid = 7,
			       .tid = 7,
			       .text = "it happened"};
	struct ptah_live *live;
	struct sums sums = {0};

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	build_code(&m->file, 7, 200, BASE, two, sizeof(two));
	jumps(m, 100, false, 100);
	give(m, 0);
	jumps(m, 200, true, 50);
	give(m, 0);
	jumps(m, 300, true, 40);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	assert_int_equal(ptah_live_keep_new(0, 1, false, &keep), PTAH_E_INVAL);
	/* More than the last piece, less than the last two. */
	assert_int_equal(ptah_live_keep_new(trim ? UINT64_MAX : 200, 1 << 20, false, &keep), 0);
	config.tee = ptah_live_keep_sink(keep);
	live = new_live(m, &config);
	assert_int_equal(give_pieces(m, live), 0);
	assert_int_equal(ptah_live_finish(live), 0);
	assert_false(ptah_live_keep_has_ended(keep, 7));
	if (trim)
		ptah_live_keep_forget(keep, 200, UINT64_MAX);
	/* All of it came later. */
	ptah_live_keep_forget(keep, 1, 1);
	assert_int_equal(ptah_live_keep_save(keep, "/nonexistent/x", NULL, &why), PTAH_E_SYSTEM);
	/* Nobody reads: it does not wait for somebody. */
	assert_int_equal(mkfifo("kept.fifo", 0600), 0);
	assert_int_equal(ptah_live_keep_save(keep, "kept.fifo", &hit, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "kept.fifo: not written"));
	unlink("kept.fifo");
	assert_int_equal(ptah_live_keep_save(keep, "kept.data", &hit, &why), 0);
	ptah_live_keep_free(keep);
	if (ptah_session_open("kept.data", &all, &session, &why) < 0)
		fail_msg("%s", why.text);
	memset(&hit, 0, sizeof(hit));
	hit.size = sizeof(hit);
	assert_int_equal(ptah_session_hit(session, 0, &hit), 0);
	assert_string_equal(hit.text, "it happened");
	assert_int_equal(hit.time, 350);
	assert_int_equal(hit.since, 300);
	assert_int_equal(hit.pid, 7);
	assert_int_equal(ptah_session_hit(session, 1, &hit), PTAH_E_MISSING);
	assert_int_equal(ptah_session_count(session, &jobs, NULL, take, &sums), 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.instructions, (50 + 40) * 2);
	ptah_session_close(session);
	unlink("kept.data");
	done(m, live);
}

TEST(the_end_is_saved)
{
	the_end_is_saved_by(false);
	the_end_is_saved_by(true);
}

struct asked {
	struct ptah_live *live;
	unsigned times;
	uint64_t least; /* lag */
};

static int ask_lag(void *context, const struct ptah_live_thread *thread,
		   const struct ptah_item *items, size_t n)
{
	struct ptah_live_status s = {.size = sizeof(s)};
	struct asked *a = context;

	(void)thread, (void)items, (void)n;
	assert_int_equal(ptah_live_status(a->live, &s), 0);
	a->least = !a->times++ || s.lag < a->least ? s.lag : a->least;
	return 0;
}

/* While trace is being decoded it is behind: who asks meanwhile would forget it otherwise. */
TEST(what_is_being_decoded_is_behind)
{
	struct made *m = begin();
	struct asked a = {.times = 0};
	struct ptah_live_config config = {
	    .size = sizeof(config), .what = PTAH_LIVE_ITEMS, .on_items = ask_lag, .context = &a};
	struct ptah_live_status s = {.size = sizeof(s)};

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 10);
	give(m, 0);
	end_round(m);
	end_round(m);
	jumps(m, 200, true, 10);
	give(m, 0);
	assert_int_equal(ptah_live_new(&config, &a.live), 0);
	assert_int_equal(feed(m, a.live, 1 << 20), 0);
	assert_int_equal(a.times, 1);
	assert_int_equal(ptah_live_finish(a.live), 0);
	assert_int_equal(a.times, 2);
	assert_true(a.least > 0);
	assert_int_equal(ptah_live_status(a.live, &s), 0);
	assert_int_equal(s.lag, 0);
	done(m, a.live);
}

static void takes_end(struct ptah_live_keep *keep, int32_t pid)
{
	const struct ptah_record_sink *sink = ptah_live_keep_sink(keep);

	assert_int_equal(sink->ended(sink->context, pid, 6), 0);
}

/*
 * How a process ended may be told long after its last trace has come. Until then, and until there
 * was time to save it, what it left is not forgotten; without `await` it is.
 */
static void an_end_is_waited_for(bool await)
{
	const struct ptah_hit hit = {
	    .size = sizeof(hit), .time = 1, .pid = 7, .tid = 7, .text = "it was killed"};
	struct made *m = begin();
	struct ptah_live_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};
	struct ptah_live_keep *keep;
	struct ptah_live *live;
	struct timespec t;
	uint64_t now;

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 100);
	give(m, 0);
	jumps(m, 200, true, 100);
	give(m, 0);
	build_task(&m->file, PERFDATA_EXIT, 7, 7, 1, 1, 300);
	assert_int_equal(ptah_live_keep_new(UINT64_MAX, 1 << 20, await, &keep), 0);
	config.tee = ptah_live_keep_sink(keep);
	assert_true(ptah_live_keep_has_ended(keep, 7)); /* it is not known */
	live = new_live(m, &config);
	assert_int_equal(give_pieces(m, live), 0);
	assert_int_equal(ptah_live_finish(live), 0);
	assert_true(ptah_live_keep_has_ended(keep, 7));
	assert_int_equal(ptah_live_keep_save(keep, "kept.data", &hit, &why), 0);
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	ptah_live_keep_forget(keep, 0, now);
	unlink("kept.data");
	assert_int_equal(ptah_live_keep_save(keep, "kept.data", &hit, &why),
			 await ? 0 : PTAH_E_EMPTY);
	assert_int_equal(!access("kept.data", F_OK), await);
	takes_end(keep, 8);
	takes_end(keep, 7);
	/* What was told after that time is wanted. */
	ptah_live_keep_forget(keep, 0, now);
	assert_int_equal(ptah_live_keep_save(keep, "kept.data", &hit, &why),
			 await ? 0 : PTAH_E_EMPTY);
	ptah_live_keep_forget(keep, 0, UINT64_MAX);
	unlink("kept.data");
	assert_int_equal(ptah_live_keep_save(keep, "kept.data", &hit, &why), PTAH_E_EMPTY);
	assert_non_null(strstr(why.text, "kept.data"));
	assert_int_equal(access("kept.data", F_OK), -1);
	ptah_live_keep_free(keep);
	done(m, live);
}

TEST(ends_are_waited_for)
{
	an_end_is_waited_for(true);
	an_end_is_waited_for(false);
}

static void refuse(const void *bytes, size_t n, int status)
{
	struct ptah_live_config config = {.size = sizeof(config)};
	struct ptah_live *live;

	assert_int_equal(ptah_live_new(&config, &live), 0);
	assert_int_equal(ptah_live_feed(live, bytes, n), status);
	assert_true(*ptah_live_why(live));
	assert_int_equal(ptah_live_feed(live, bytes, n), status);
	assert_int_equal(ptah_live_finish(live), status);
	ptah_live_free(live);
}

TEST(what_is_no_recording_is_refused)
{
	static const uint8_t small[24] = {'P', 'E', 'R', 'F', 'I', 'L', 'E', '2', 16,
					  0,   0,   0,	 0,   0,   0,	0,   3,	  0};
	struct made *m = begin();
	struct ptah_live *live;

	refuse("this is no recording at all", 27, PTAH_E_FOREIGN);
	refuse(m->file.bytes, m->file.size, PTAH_E_FOREIGN); /* the layout of a file */
	refuse(small, sizeof(small), PTAH_E_BAD_FILE);	     /* a record of size 0 */
	/* A recording without trace. */
	live = new_live(m, NULL);
	assert_int_equal(feed(m, live, 8), 0);
	assert_int_equal(ptah_live_finish(live), PTAH_E_EMPTY);
	done(m, live);
}

/* A pipe with these bytes, compressed, in a record. */
static void refuse_packed(const void *bytes, size_t n, const char *why)
{
	struct ptah_live_config config = {.size = sizeof(config)};
	struct perfdata_buffer pipe = {0};
	uint8_t packed[512];
	const size_t size = ZSTD_compress(packed, sizeof(packed), bytes, n, 3);
	struct ptah_live *live;

	assert_false(ZSTD_isError(size));
	perfdata_put(&pipe, PERFDATA_MAGIC, 8);
	perfdata_put64(&pipe, PERFDATA_PIPE_SIZE);
	perfdata_put32(&pipe, PERFDATA_COMPRESSED);
	perfdata_put16(&pipe, 0);
	perfdata_put16(&pipe, (uint16_t)(8 + size));
	perfdata_put(&pipe, packed, size);
	assert_int_equal(ptah_live_new(&config, &live), 0);
	assert_int_equal(ptah_live_feed(live, pipe.bytes, pipe.size), PTAH_E_BAD_FILE);
	assert_non_null(strstr(ptah_live_why(live), why));
	ptah_live_free(live);
	perfdata_buffer_free(&pipe);
}

TEST(what_makes_no_sense_compressed_is_refused)
{
	/* The sizes of two compressed records that are not compressed, of the older form and of
	 * the newer, which says that there is more than there is. */
	static const uint8_t plain[] = "PERFILE2\x10\0\0\0\0\0\0\0\x51\0\0\0\0\0\x10\0nothing";
	static const uint8_t more[] =
	    "PERFILE2\x10\0\0\0\0\0\0\0\x53\0\0\0\0\0\x10\0\1\0\0\0\0\0\0";
	static const uint8_t small[8] = {PERFDATA_COMM, 0, 0, 0, 0, 0, 7};
	uint8_t own[PERFDATA_AUXTRACE_HEADER] = {PERFDATA_AUXTRACE, 0, 0, 0, 0, 0, sizeof(own)};

	refuse(plain, sizeof(plain), PTAH_E_BAD_FILE);
	refuse(more, sizeof(more), PTAH_E_BAD_FILE);
	refuse_packed(small, sizeof(small), "holds no records");
	refuse_packed(own, sizeof(own), "71");
	own[0] = PERFDATA_COMPRESSED;
	refuse_packed(own, sizeof(own), "81");
	own[0] = PERFDATA_FINISHED_ROUND;
	refuse_packed(own, sizeof(own), "68");
}

/* The input ends inside a record: what came is decoded, and that there was more is an error. */
TEST(an_input_that_ends_early)
{
	struct made *m = begin();

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 5);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	perfdata_put32(&m->file, PERFDATA_COMM);
	expect(m, 5 * 3, 1, PTAH_E_TRUNCATED);
}

TEST(memory_has_a_limit)
{
	struct ptah_live_config config = {.size = sizeof(config), .memory = 1 << 16};
	static const uint8_t nops[4096];
	struct made *m = begin();
	struct ptah_live *live = new_live(m, &config);

	for (unsigned i = 0; i < 32; i++) {
		build_code(&m->file, 7, i, BASE, nops, sizeof(nops));
		end_round(m);
	}
	assert_int_equal(feed(m, live, 1000), PTAH_E_LIMIT);
	assert_non_null(strstr(ptah_live_why(live), "65536"));
	done(m, live);
}

TEST(wrong_arguments)
{
	struct ptah_live_config config = {.size = sizeof(config), .what = 64};
	struct ptah_live *live;

	assert_int_equal(ptah_live_new(NULL, &live), PTAH_E_INVAL);
	assert_int_equal(ptah_live_new(&config, &live), PTAH_E_INVAL);
	config.what = 0;
	config.policy = 2;
	assert_int_equal(ptah_live_new(&config, &live), PTAH_E_INVAL);
	config.policy = 0;
	config.size--;
	assert_int_equal(ptah_live_new(&config, &live), PTAH_E_INVAL);
	config.size++;
	assert_int_equal(ptah_live_new(&config, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_live_new(&config, &live), 0);
	assert_int_equal(ptah_live_feed(live, NULL, 1), PTAH_E_INVAL);
	assert_int_equal(ptah_live_functions(live, NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_live_status(live, NULL), PTAH_E_INVAL);
	ptah_live_free(live);
	ptah_live_free(NULL);
}

/* A program writes the pipe while it is read. */
TEST(a_pipe_is_read_while_it_is_written)
{
	struct made *m = begin();
	struct ptah_live *live = new_live(m, NULL);
	struct perfdata_buffer head = {0};
	struct sums sums = {0};
	int ends[2], status;
	pid_t child;

	build_code(&m->file, 7, 0, BASE, three, sizeof(three));
	jumps(m, 100, false, 5);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	perfdata_put(&head, "PERFILE2\20\0\0\0\0\0\0\0\100\0\0\0\0\0\200\0", 24);
	perfdata_put(&head, m->file.bytes + 112, 120);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		bool ok = write(ends[1], head.bytes, head.size) == (ssize_t)head.size;

		for (size_t i = BUILD_DATA; i < m->file.size; i++)
			ok = ok && write(ends[1], m->file.bytes + i, 1) == 1;
		_exit(!ok);
	}
	close(ends[1]);
	while ((status = ptah_live_feed_fd(live, ends[0], -1)) > 0)
		assert_int_equal(ptah_live_poll(live), 0);
	assert_int_equal(status, 0);
	assert_int_equal(ptah_live_finish(live), 0);
	assert_int_equal(ptah_live_counts(live, take, &sums), 0);
	assert_int_equal(sums.instructions, 5 * 3);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	perfdata_buffer_free(&head);
	done(m, live);
}

/* A jitdump that is written while the recording comes */

static char dump_path[64];

static void make_dump_folder(int32_t pid)
{
	const size_t n = sizeof(dump_path);

	snprintf(dump_path, n, "/tmp/ptah-live-%d", (int)getpid());
	assert_int_equal(mkdir(dump_path, 0700), 0);
	snprintf(dump_path + strlen(dump_path), n - strlen(dump_path), "/jit-%d.dump", (int)pid);
}

static void remove_dump_folder(void)
{
	*strrchr(dump_path, '/') = '\0';
	assert_int_equal(rmdir(dump_path), 0);
}

/* Adds the bytes [from, to) of a jitdump to its file. */
static void append_dump(const struct perfdata_buffer *dump, size_t from, size_t to)
{
	FILE *f = fopen(dump_path, from ? "a" : "w");

	assert_non_null(f);
	assert_int_equal(fwrite(dump->bytes + from, to - from, 1, f), 1);
	assert_int_equal(fclose(f), 0);
}

static void put_load(struct perfdata_buffer *b, uint64_t time, const char *name, const void *code,
		     uint32_t size)
{
	perfdata_put32(b, 0);
	perfdata_put32(b, 16 + 40 + (uint32_t)strlen(name) + 1 + size);
	perfdata_put64(b, time);
	perfdata_put32(b, 7);
	perfdata_put32(b, 7);
	perfdata_put64(b, BASE);
	perfdata_put64(b, BASE);
	perfdata_put64(b, size);
	perfdata_put64(b, 1);
	perfdata_put(b, name, strlen(name) + 1);
	perfdata_put(b, code, size);
}

/* The header, which says that its clock is the TSC. */
static void begin_dump(struct perfdata_buffer *b)
{
	perfdata_put32(b, 0x4a695444);
	perfdata_put32(b, 1);
	perfdata_put32(b, 40);
	perfdata_put32(b, 62);
	perfdata_put32(b, 0);
	perfdata_put32(b, 7);
	perfdata_put64(b, 40);
	perfdata_put64(b, 1);
}

/* Feeds what was added to the recording since; first the header of a pipe and the event. */
static void feed_more(struct made *m, struct ptah_live *live, size_t *fed)
{
	struct perfdata_buffer head = {0};

	if (!*fed) {
		perfdata_put(&head, "PERFILE2", 8);
		perfdata_put64(&head, 16);
		perfdata_put32(&head, PERFDATA_HEADER_ATTR);
		perfdata_put16(&head, 0);
		perfdata_put16(&head, 8 + 120);
		perfdata_put(&head, m->file.bytes + 112, 120);
		assert_int_equal(ptah_live_feed(live, head.bytes, head.size), 0);
		perfdata_buffer_free(&head);
		*fed = BUILD_DATA;
	}
	assert_int_equal(ptah_live_feed(live, m->file.bytes + *fed, m->file.size - *fed), 0);
	*fed = m->file.size;
	assert_int_equal(ptah_live_poll(live), 0);
}

static void expect_name(struct ptah_live *live, uint64_t tsc, const char *name)
{
	struct ptah_function_name found;

	assert_true(ptah_functions_name(ptah_live_finder(live), 7, BASE + 2, tsc, &found));
	assert_string_equal(found.name, name);
	assert_string_equal(found.path, "[JIT] tid 7");
	assert_int_equal(found.start, BASE);
}

TEST(a_jitdump_is_read_while_it_is_written)
{
	const struct ptah_live_config config = {.size = sizeof(config), .what = PTAH_LIVE_COUNTS};
	struct perfdata_buffer dump = {0};
	struct made *m = begin();
	struct ptah_live *live = new_live(m, &config);
	struct sums sums = {0};
	size_t fed = 0, known;

	make_dump_folder(7);
	begin_dump(&dump);
	put_load(&dump, 50, "three", three, sizeof(three));
	known = dump.size;
	append_dump(&dump, 0, known);
	build_mmap2(&m->file, 7, 0x700000, 4096, 0, dump_path, 60, NULL);
	jumps(m, 100, false, 5);
	give(m, 0);
	end_round(m);
	end_round(m);
	feed_more(m, live, &fed);
	expect_name(live, 150, "three");
	expect_name(live, 0, "three");

	/* The code that replaces it is half written, then all of it. */
	put_load(&dump, 200, "two", two, sizeof(two));
	append_dump(&dump, known, known + 30);
	end_round(m);
	feed_more(m, live, &fed);
	expect_name(live, 0, "three");
	append_dump(&dump, known + 30, dump.size);
	jumps(m, 200, true, 4);
	give(m, 0);
	end_round(m);
	end_round(m);
	feed_more(m, live, &fed);
	expect_name(live, 150, "three");
	expect_name(live, 250, "two");

	/* A file that is deleted is still read. */
	known = dump.size;
	put_load(&dump, 300, "three again", three, sizeof(three));
	append_dump(&dump, known, dump.size);
	assert_int_equal(unlink(dump_path), 0);
	jumps(m, 300, true, 2);
	generator_async_disable(&m->g, BASE);
	give(m, 0);
	feed_more(m, live, &fed);
	assert_int_equal(ptah_live_finish(live), 0);
	expect_name(live, 250, "two");
	expect_name(live, 350, "three again");
	assert_int_equal(ptah_live_counts(live, take, &sums), 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.instructions, 5 * 3 + 4 * 2 + 2 * 3);
	remove_dump_folder();
	perfdata_buffer_free(&dump);
	done(m, live);
}

/* Its jitdump is read if all comes at once: that it began, and that it mapped the file. */
TEST(a_new_process_has_its_jitdump)
{
	struct perfdata_buffer dump = {0};
	struct made *m = begin();
	struct ptah_live *live = new_live(m, NULL);
	size_t fed = 0;

	make_dump_folder(7);
	begin_dump(&dump);
	put_load(&dump, 50, "three", three, sizeof(three));
	append_dump(&dump, 0, dump.size);
	build_fork(&m->file, 7, 7, 1, 1, 40);
	build_mmap2(&m->file, 7, 0x700000, 4096, 0, dump_path, 60, NULL);
	jumps(m, 100, false, 5);
	give(m, 0);
	end_round(m);
	end_round(m);
	feed_more(m, live, &fed);
	expect_name(live, 150, "three");
	assert_int_equal(ptah_live_finish(live), 0);
	assert_int_equal(unlink(dump_path), 0);
	remove_dump_folder();
	perfdata_buffer_free(&dump);
	done(m, live);
}

/* A jitdump that this program has open, and a recording of a process that has its number. */
static bool finds_own_dump(const char *host)
{
	const int32_t pid = (int32_t)getpid();
	struct perfdata_buffer dump = {0};
	struct made *m = calloc(1, sizeof(*m));
	struct ptah_live *live = new_live(m, NULL);
	struct ptah_function_name found;
	size_t fed = 0;
	bool named;
	FILE *f;

	make_dump_folder(pid);
	begin_dump(&dump);
	put_load(&dump, 50, "three", three, sizeof(three));
	f = fopen(dump_path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(dump.bytes, dump.size, 1, f), 1);
	assert_int_equal(fflush(f), 0);
	build_begin(&m->file);
	if (host) {
		perfdata_put32(&m->file, PERFDATA_HEADER_FEATURE);
		perfdata_put16(&m->file, 0);
		perfdata_put16(&m->file, 8 + 8 + 4 + 64);
		perfdata_put64(&m->file, PERFDATA_FEATURE_HOSTNAME);
		perfdata_put32(&m->file, 64);
		for (size_t i = 0; i < 64; i++)
			perfdata_put(&m->file, i < strlen(host) ? &host[i] : "", 1);
	}
	build_comm(&m->file, pid, pid, false, "prog", 10);
	build_mmap2(&m->file, pid, BASE & ~UINT64_C(4095), 4096, 0, "//anon", 20, NULL);
	end_round(m);
	end_round(m);
	feed_more(m, live, &fed);
	named = ptah_functions_name(ptah_live_finder(live), pid, BASE + 2, 0, &found) &&
		found.name && !strcmp(found.name, "three");
	fclose(f);
	assert_int_equal(unlink(dump_path), 0);
	remove_dump_folder();
	perfdata_buffer_free(&dump);
	done(m, live);
	return named;
}

/* How many files this program has open that were deleted. */
static unsigned count_deleted(void)
{
	struct dirent *entry;
	char target[256];
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	while ((entry = readdir(d))) {
		const ssize_t k = readlinkat(dirfd(d), entry->d_name, target, sizeof(target) - 1);

		target[k > 0 ? k : 0] = '\0';
		n += strstr(target, "jit-7.dump (deleted)") != NULL;
	}
	closedir(d);
	return n;
}

/* A recording may say that a process has mapped its jitdump by any number of paths. */
TEST(few_jitdumps_are_open)
{
	struct perfdata_buffer dump = {0};
	struct made *m = begin();
	struct ptah_live *live = new_live(m, NULL);
	char path[4096];
	size_t fed = 0;

	make_dump_folder(7);
	begin_dump(&dump);
	append_dump(&dump, 0, dump.size);
	for (int i = 0; i < 12; i++) {
		snprintf(path, sizeof(path), "%.*s%s", i, "/////////////", dump_path);
		build_mmap2(&m->file, 7, 0x700000, 4096, 0, path, 60, NULL);
	}
	end_round(m);
	end_round(m);
	feed_more(m, live, &fed);
	assert_int_equal(unlink(dump_path), 0);
	assert_in_range(count_deleted(), 1, 4);
	remove_dump_folder();
	perfdata_buffer_free(&dump);
	done(m, live);
}

/* A process of another machine may have the number of one of this. */
TEST(processes_of_this_machine_have_their_lists)
{
	struct utsname here, other;

	assert_int_equal(uname(&here), 0);
	other = here;
	other.nodename[0] = other.nodename[0] == 'x' ? 'y' : 'x';
	assert_true(finds_own_dump(here.nodename));
	assert_false(finds_own_dump(other.nodename));
	assert_false(finds_own_dump(NULL));
}
