/* SPDX-License-Identifier: MIT */
/*
 * Test group T3: after N bytes of output the position is N, and the buffer,
 * unrolled, contains the processor's output, oldest byte first. For N near 0,
 * near a region's size and near whole laps and cycles; with every shape, policy
 * and way to stop.
 */
#include "engine/stream.h"

#define ARENA ((size_t)4 << 20)

/* How the capture is stopped before it is examined. */
enum ending {
	BY_STOP,
	BY_PAUSE,
	BY_FLUSH,  /* and the trace continues */
	BY_SWITCH, /* a thread leaves: by XSAVES, or by MSRs without it */
	BY_MSR,	   /* a thread leaves, by MSRs */
	BY_NMI,	   /* paused on its processor */
	ENDINGS
};

struct kind {
	const char *processor;
	uint8_t shape;
	bool no_pmi;
	size_t buffer, region;
	unsigned pmis;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, false, 65536, 4096, 0},
    {"skylake", PTAH_SHAPE_RING, true, 65536, 4096, 0},
    {"skylake", PTAH_SHAPE_RING, false, 65536, 16384, 4},
    {"maximal", PTAH_SHAPE_RING, false, 3 * 8192, 8192, 1},
    {"goldmont", PTAH_SHAPE_RING, false, 4096, 4096, 0},
    {"ice-lake", PTAH_SHAPE_RING, false, 520 * 4096, 4096, 0},
    {"skylake", PTAH_SHAPE_OVERFLOW, false, 32768, 0, 0},
    {"skylake", PTAH_SHAPE_OVERFLOW, true, 32768, 0, 0},
    {"skylake", PTAH_SHAPE_SINGLE, false, 32768, 0, 0},
    {"minimal-range", PTAH_SHAPE_AUTO, false, 8192, 0, 0},
    {"minimal", PTAH_SHAPE_AUTO, false, 32768, 4096, 0},
    {"minimal", PTAH_SHAPE_AUTO, true, 32768, 4096, 0},
    {"broadwell", PTAH_SHAPE_AUTO, false, 16384, 8192, 0},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct trial {
	struct rig rig;
	struct stream stream;
	struct ptah_capture *c;
	struct ptah_capture_status s;
	enum ending ending;
	bool swap; /* single-entry tables: PMIs and region ends come early */
};

static bool is_thread(enum ending ending)
{
	return ending == BY_SWITCH || ending == BY_MSR;
}

static void open_trial(struct trial *t, const struct kind *kind, uint8_t policy, enum ending ending)
{
	struct ptah_model_faults faults = {0};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;

	memset(t, 0, sizeof(*t));
	t->ending = ending;
	rig_open_at(&t->rig, ptah_model_find(kind->processor), 1, ARENA, 0x10000000);
	rig_silence(&t->rig, 0, &faults);
	config = rig_config(&t->rig, &trace);
	config.shape = kind->shape;
	config.policy = policy;
	config.no_pmi = kind->no_pmi;
	config.buffer = kind->buffer;
	config.region = kind->region;
	config.pmis = kind->pmis;
	config.no_xsaves = ending == BY_MSR;
	config.cpu = is_thread(ending) ? PTAH_CAPTURE_THREAD : 0;
	t->c = rig_capture(&t->rig, &config);
	t->s = rig_status(t->c);
	t->swap = t->s.shape == PTAH_SHAPE_RING && !ptah_engine_caps(t->rig.engine, 0)->topa_multi;
}

static void close_trial(struct trial *t)
{
	assert_int_equal(ptah_capture_free(t->c), PTAH_OK);
	assert_int_equal(t->rig.foreign, 0);
	rig_close(&t->rig);
	stream_free(&t->stream);
}

static void begin(struct trial *t)
{
	int status = t->s.state == PTAH_CAPTURE_PAUSED ? ptah_capture_resume(t->c)
						       : ptah_capture_start(t->c);

	if (status != PTAH_OK)
		assert_int_equal(status, PTAH_E_NOSPACE);
	else if (is_thread(t->ending))
		rig_switch(&t->rig, t->c, 0, true);
}

static void end(struct trial *t)
{
	switch (t->ending) {
	case BY_PAUSE:
		assert_int_equal(ptah_capture_pause(t->c), PTAH_OK);
		break;
	case BY_FLUSH:
		assert_int_equal(ptah_capture_flush(t->c, NULL), PTAH_OK);
		break;
	case BY_NMI:
		assert_int_equal(ptah_capture_pause_here(t->c), PTAH_OK);
		break;
	case BY_SWITCH:
	case BY_MSR:
		rig_switch(&t->rig, t->c, 0, false);
		break;
	default:
		assert_int_equal(ptah_capture_stop(t->c), PTAH_OK);
		break;
	}
	if (t->ending != BY_FLUSH)
		assert_false(rig_enabled(&t->rig, 0));
	t->s = rig_status(t->c);
}

/* The oldest byte that is still in the buffer, by counting. */
static uint64_t oldest_of(const struct trial *t)
{
	return t->stream.n > t->s.buffer ? t->stream.n - t->s.buffer : 0;
}

/*
 * While a single range is traced, a mark to recognise laps overwrites the
 * newest bytes: engine.h.
 */
static uint64_t readable(const struct trial *t)
{
	if (t->s.shape != PTAH_SHAPE_SINGLE || t->s.state != PTAH_CAPTURE_RUNNING)
		return t->s.position;
	return t->s.position > t->s.oldest + 64 ? t->s.position - 64 : t->s.oldest;
}

static void check(struct trial *t)
{
	assert_int_equal(t->s.position, t->stream.n);
	assert_int_equal(ptah_capture_position(t->c), t->stream.n);
	assert_true(t->s.oldest >= oldest_of(t));
	if (!t->swap)
		assert_int_equal(t->s.oldest, oldest_of(t));
	else /* all regions but one, less what was left of them */
		assert_true(t->s.position - t->s.oldest + 256 * t->s.regions >=
				t->s.buffer - t->s.region ||
			    !t->s.oldest);
	stream_check(&t->stream, t->c, t->s.oldest, readable(t));
	assert_int_equal(ptah_capture_pieces(t->c, t->s.oldest - 1, t->s.position, NULL, 0),
			 t->s.oldest ? PTAH_E_LOST : PTAH_E_INVAL);
}

/* Lists the lengths of interest and returns their number. */
static unsigned lengths(const struct trial *t, uint64_t n[32])
{
	const uint64_t region = t->s.region, lap = t->s.buffer;
	unsigned k = 0, laps;
	int d;

	n[k++] = 0;
	n[k++] = 1;
	for (d = -1; d <= 1; d++)
		n[k++] = region + (uint64_t)(int64_t)d;
	for (laps = 1; laps <= 3; laps++) {
		for (d = -1; d <= 1; d++)
			n[k++] = laps * lap + (uint64_t)(int64_t)d;
	}
	return k;
}

/*
 * How many of `n` bytes that are output at once reach the buffer. With
 * single-entry tables the PMI comes before the region is full, so that nothing
 * need be lost; without PMIs the output ends with the first region.
 */
static uint64_t expected(const struct trial *t, uint8_t policy, uint64_t n)
{
	if (t->swap && !t->s.pmi)
		return n < t->s.region ? n : t->s.region;
	if (policy != PTAH_POLICY_WRAP)
		return n < t->s.buffer ? n : t->s.buffer;
	/* Without PMIs a STOP mark ends the cycle. */
	return t->s.pmi || n < t->s.cycle ? n : t->s.cycle;
}

static void from_empty(const struct kind *kind, uint8_t policy, enum ending ending)
{
	uint64_t n[32];
	struct trial t;
	unsigned i, count;

	open_trial(&t, kind, policy, ending);
	count = lengths(&t, n);
	close_trial(&t);
	for (i = 0; i < count; i++) {
		open_trial(&t, kind, policy, ending);
		begin(&t);
		/* One lap of a single range is noticed; several count as one. */
		if (t.s.shape == PTAH_SHAPE_SINGLE && n[i] > t.s.buffer) {
			stream_put(&t.stream, &t.rig, 0, t.s.buffer / 2);
			assert_int_equal(ptah_capture_flush(t.c, NULL), PTAH_OK);
			n[i] = t.s.buffer + t.s.buffer / 2 + n[i] % 3;
			stream_put(&t.stream, &t.rig, 0, n[i] - t.s.buffer / 2);
		} else {
			stream_put(&t.stream, &t.rig, 0, n[i]);
		}
		end(&t);
		check(&t);
		if (t.s.shape == PTAH_SHAPE_SINGLE)
			assert_int_equal(t.s.position, n[i]);
		else if (!t.swap || policy == PTAH_POLICY_WRAP)
			assert_int_equal(t.s.position, expected(&t, policy, n[i]));
		close_trial(&t);
	}
}

TEST(n_bytes_from_empty)
{
	unsigned k, policy, ending;

	for (k = 0; k < KINDS; k++) {
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			bool single = kinds[k].shape == PTAH_SHAPE_SINGLE ||
				      !strcmp(kinds[k].processor, "minimal-range");

			for (ending = 0; ending < ENDINGS; ending++) {
				/* Millions of bytes: once is enough. */
				if (kinds[k].buffer > 1u << 20 && ending != policy)
					continue;
				if (!single || policy == PTAH_POLICY_WRAP)
					from_empty(&kinds[k], (uint8_t)policy, (enum ending)ending);
			}
		}
	}
}

/* Slices of different lengths in the same buffer, with a consumer that keeps up. */
static void slices(const struct kind *kind, uint8_t policy, enum ending ending)
{
	uint64_t n[32], before;
	struct trial t;
	unsigned i, count;

	open_trial(&t, kind, policy, ending);
	count = lengths(&t, n);
	for (i = 0; i < 3 * count; i++) {
		uint64_t part = n[(i * 5) % count];

		if (t.s.shape == PTAH_SHAPE_SINGLE && part > t.s.buffer)
			part = part % t.s.buffer;
		before = t.s.position;
		begin(&t);
		stream_put(&t.stream, &t.rig, 0, part);
		end(&t);
		check(&t);
		assert_true(t.s.position >= before);
		if (policy != PTAH_POLICY_WRAP)
			assert_int_equal(ptah_capture_consume(t.c, t.s.position, NULL), PTAH_OK);
		else if (!t.swap && (t.s.pmi || t.s.shape == PTAH_SHAPE_SINGLE))
			assert_int_equal(t.s.position, before + part);
	}
	close_trial(&t);
}

TEST(slice_after_slice)
{
	unsigned k, policy, ending;

	for (k = 0; k < KINDS; k++) {
		bool single = kinds[k].shape == PTAH_SHAPE_SINGLE ||
			      !strcmp(kinds[k].processor, "minimal-range");

		for (policy = 0; policy < (single ? 1u : PTAH_POLICY_MAX); policy++) {
			for (ending = 0; ending < ENDINGS; ending++) {
				if (kinds[k].buffer <= 1u << 20)
					slices(&kinds[k], (uint8_t)policy, (enum ending)ending);
			}
		}
	}
}

/* So many bytes between two calls that the output goes through the tables more than once. */
TEST(cycles)
{
	static const int around[] = {-1, 0, 1};
	uint64_t n;
	struct trial t;
	unsigned k, i, times;

	for (k = 0; k < KINDS; k++) {
		for (times = 1; times <= 2; times++) {
			for (i = 0; i < 3; i++) {
				open_trial(&t, &kinds[k], PTAH_POLICY_WRAP, BY_STOP);
				if (t.swap || t.s.shape == PTAH_SHAPE_SINGLE || kinds[k].no_pmi) {
					close_trial(&t);
					continue;
				}
				n = times * t.s.cycle + (uint64_t)(int64_t)around[i];
				begin(&t);
				stream_put(&t.stream, &t.rig, 0, n);
				end(&t);
				check(&t);
				assert_int_equal(t.s.position, n);
				assert_false(rig_flags(t.c) & PTAH_CAPTURED_UNSURE);
				close_trial(&t);
			}
		}
	}
}

/*
 * Where nothing stops the output, an unseen lap counts as one, and the engine
 * reports that it may be more.
 */
TEST(a_full_lap_from_empty)
{
	struct trial t;
	unsigned k;

	for (k = 0; k < KINDS; k++) {
		open_trial(&t, &kinds[k], PTAH_POLICY_WRAP, BY_STOP);
		begin(&t);
		stream_put(&t.stream, &t.rig, 0, t.s.buffer);
		end(&t);
		assert_int_equal(t.s.position, t.stream.n);
		if (!t.swap)
			assert_int_equal(t.s.position, t.s.buffer);
		assert_int_equal((rig_flags(t.c) & PTAH_CAPTURED_UNSURE) != 0,
				 t.s.shape == PTAH_SHAPE_SINGLE);
		close_trial(&t);
		if (t.s.shape != PTAH_SHAPE_SINGLE)
			continue;
		open_trial(&t, &kinds[k], PTAH_POLICY_WRAP, BY_STOP);
		begin(&t);
		stream_put(&t.stream, &t.rig, 0, 3 * t.s.buffer + 5);
		end(&t);
		assert_int_equal(t.s.position, t.s.buffer + 5);
		assert_true(rig_flags(t.c) & PTAH_CAPTURED_UNSURE);
		close_trial(&t);
	}
}

/*
 * Without PMIs the output ends early, rather than wrap unseen, and the engine
 * reports it; the next call continues.
 */
TEST(a_cage_ends_the_cycle)
{
	struct trial t;
	unsigned k;

	for (k = 0; k < KINDS; k++) {
		if (!kinds[k].no_pmi)
			continue;
		open_trial(&t, &kinds[k], PTAH_POLICY_WRAP, BY_FLUSH);
		begin(&t);
		stream_put(&t.stream, &t.rig, 0, t.s.cycle + 4097);
		end(&t);
		check(&t);
		assert_true(t.s.position <= t.s.cycle);
		assert_true(rig_flags(t.c) & PTAH_CAPTURED_TRUNCATED);
		assert_true(rig_enabled(&t.rig, 0));
		stream_put(&t.stream, &t.rig, 0, 777);
		end(&t);
		check(&t);
		assert_false(rig_flags(t.c) & PTAH_CAPTURED_TRUNCATED);
		close_trial(&t);
	}
}

/*
 * Registers that are read while TraceEn is 1 lag, and the last bytes wait for a
 * fence: neither affects the result.
 */
TEST(stale_registers_and_late_bytes)
{
	struct ptah_model_faults faults = {.stale_bytes = 5000, .withhold = 64, .cache_next = true};
	struct trial t;
	unsigned k, ending, i;

	for (k = 0; k < KINDS; k++) {
		for (ending = 0; ending < ENDINGS; ending++) {
			open_trial(&t, &kinds[k], PTAH_POLICY_WRAP, (enum ending)ending);
			rig_silence(&t.rig, 0, &faults);
			for (i = 0; i < 12; i++) {
				begin(&t);
				stream_put(&t.stream, &t.rig, 0, 1 + i * 997 % 4097);
				end(&t);
				check(&t);
			}
			close_trial(&t);
		}
	}
}

/* Errata TGL052, ADL037, RPL017: a single range of more than 4 KB contains wrong data. */
TEST(a_single_range_of_4_kb)
{
	struct ptah_model_faults faults = {.single_range_4k_only = true, .silent = true};
	struct ptah_trace_problem problem = {0};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct trial t;

	memset(&t, 0, sizeof(t));
	rig_open(&t.rig, ptah_model_find("alder-lake-p"), 1);
	ptah_model_set_faults(ptah_machine_model(t.rig.machine, 0), &faults);
	config = rig_config(&t.rig, &trace);
	config.shape = PTAH_SHAPE_SINGLE;
	config.buffer = 8192;
	assert_int_equal(ptah_capture_new(t.rig.engine, &config, &t.c, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "buffer");
	assert_int_equal(problem.valid, 4096);
	config.buffer = 4096;
	t.c = rig_capture(&t.rig, &config);
	begin(&t);
	stream_put(&t.stream, &t.rig, 0, 4000);
	end(&t);
	check(&t);
	begin(&t);
	stream_put(&t.stream, &t.rig, 0, 4000);
	end(&t);
	check(&t);
	close_trial(&t);
}
