/* SPDX-License-Identifier: MIT */
/*
 * ptah_capture_live(): a lower and an upper bound of what has been written, read while the trace
 * runs. The bytes that the processor has counted are the judge; they are read before and after the
 * call, and nothing in between may write a register, stop the trace or change the capture.
 */
#include "random.h"
#include "engine/stream.h"

static uint64_t seed = 1;

static uint64_t below(uint64_t n)
{
	return random_below(&seed, n);
}

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_capture *c;
	struct ptah_model_faults faults;
	unsigned writes; /* of registers, during a call */
	unsigned reads;	 /* likewise */
	unsigned put_at; /* before this read (from 1) the processor outputs put_bytes */
	uint64_t put_bytes;
};

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct scene *s = argument;

	s->writes += !strcmp(callback, "wrmsr") || !strcmp(callback, "xsaves");
	if (!strcmp(callback, "rdmsr") && ++s->reads == s->put_at)
		stream_put(&s->stream, &s->rig, cpu, s->put_bytes);
}

static void open_scene(struct scene *s, const char *processor)
{
	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find(processor), 2);
	s->config = rig_config(&s->rig, &s->trace);
}

/* Starts the capture; a thread's runs on processor 0. */
static void start(struct scene *s)
{
	rig_silence(&s->rig, 0, &s->faults);
	s->c = rig_capture(&s->rig, &s->config);
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	if (s->config.cpu < 0)
		rig_switch(&s->rig, s->c, 0, true);
	ptah_machine_set_cpu(s->rig.machine, 1);
}

static void close_scene(struct scene *s)
{
	ptah_machine_on_gap(s->rig.machine, NULL, NULL);
	if (s->config.cpu < 0)
		rig_switch(&s->rig, s->c, 0, false);
	assert_int_equal(ptah_capture_stop(s->c), PTAH_OK);
	assert_int_equal(ptah_capture_position(s->c), rig_output(&s->rig, 0));
	stream_check(&s->stream, s->c, rig_status(s->c).oldest, s->stream.n);
	assert_int_equal(ptah_capture_free(s->c), PTAH_OK);
	stream_free(&s->stream);
	rig_close(&s->rig);
}

static struct ptah_capture_live live(struct scene *s)
{
	struct ptah_capture_live l = {.size = sizeof(l)};
	bool enabled = rig_enabled(&s->rig, 0);
	struct ptah_capture_status before = rig_status(s->c), after;
	uint64_t output;

	s->writes = s->reads = 0;
	ptah_machine_on_gap(s->rig.machine, gap, s);
	assert_int_equal(ptah_capture_live(s->c, &l), PTAH_OK);
	ptah_machine_on_gap(s->rig.machine, NULL, NULL);
	output = rig_output(&s->rig, 0);
	after = rig_status(s->c);
	if (!s->put_at) {
		assert_int_equal(s->writes, 0);
		assert_int_equal(enabled, rig_enabled(&s->rig, 0));
		assert_int_equal(after.looks, before.looks);
	}
	assert_true(l.position >= before.position);
	assert_true(l.position <= output);
	assert_true(l.limit >= l.position);
	if (!s->put_at)
		assert_true(l.limit >= output);
	if (l.exact)
		assert_true(l.position == output && l.limit == output);
	return l;
}

struct kind {
	const char *processor;
	uint8_t shape, policy;
	bool no_pmi, thread;
	size_t buffer, region;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, true, 65536, 0},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, true, false, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, false, false, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_STOP, false, false, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false, 4096 * 600, 4096},
    {"skylake", PTAH_SHAPE_OVERFLOW, PTAH_POLICY_WRAP, false, false, 65536, 0},
    {"skylake", PTAH_SHAPE_SINGLE, PTAH_POLICY_WRAP, false, false, 65536, 0},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false, 65536, 4096},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, false, false, 65536, 4096},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void set_kind(struct scene *s, const struct kind *k)
{
	s->config.shape = k->shape;
	s->config.policy = k->policy;
	s->config.no_pmi = k->no_pmi;
	s->config.cpu = k->thread ? PTAH_CAPTURE_THREAD : 0;
	s->config.buffer = k->buffer;
	s->config.region = k->region;
}

/* The processor's registers do not lag: every byte is counted, over several cycles. */
TEST(every_byte)
{
	struct scene s;
	size_t i;
	unsigned k;

	for (i = 0; i < KINDS; i++) {
		const struct kind *kind = &kinds[i];
		uint64_t total = 0;

		open_scene(&s, kind->processor);
		set_kind(&s, kind);
		start(&s);
		for (k = 0; k < 300 || total < 3 * rig_status(s.c).cycle; k++) {
			uint64_t n = 1 + below(k % 3 ? 5000 : 100);

			if (kind->buffer > 1000000)
				n *= 40;
			stream_put(&s.stream, &s.rig, 0, n);
			total += n;
			if (kind->shape == PTAH_SHAPE_SINGLE && k % 4 == 3)
				assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
			assert_int_equal(live(&s).position, rig_output(&s.rig, 0));
			if (kind->policy != PTAH_POLICY_WRAP)
				assert_int_equal(
				    ptah_capture_consume(s.c, ptah_capture_position(s.c), NULL),
				    PTAH_OK);
			/* Full, and all of it consumed: continue. */
			if (rig_status(s.c).state == PTAH_CAPTURE_FULL)
				ptah_capture_resume(s.c);
			if (kind->policy == PTAH_POLICY_STOP && k > 300)
				break;
			if (kind->no_pmi && k > 300)
				break;
		}
		if (kind->policy == PTAH_POLICY_WRAP && !kind->no_pmi)
			assert_true(rig_output(&s.rig, 0) >= 2 * rig_status(s.c).cycle);
		close_scene(&s);
	}
}

/* They lag by so many bytes: the lower bound is too small by no more. */
TEST(stale)
{
	struct scene s;
	size_t i;
	unsigned k;

	for (i = 0; i < KINDS; i++) {
		bool lagged = false;

		open_scene(&s, kinds[i].processor);
		set_kind(&s, &kinds[i]);
		s.faults.stale_bytes = 3000;
		s.faults.pmi_skid_bytes = 2000;
		start(&s);
		for (k = 0; k < 400; k++) {
			struct ptah_capture_live l;

			stream_put(&s.stream, &s.rig, 0, 1 + below(2000));
			if (kinds[i].shape == PTAH_SHAPE_SINGLE && k % 20 == 19)
				assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
			l = live(&s);
			assert_true(rig_output(&s.rig, 0) - l.position < 3000 + 64);
			lagged |= l.position < rig_output(&s.rig, 0);
			ptah_capture_consume(s.c, ptah_capture_position(s.c), NULL);
		}
		assert_true(lagged);
		close_scene(&s);
	}
}

/* Output goes on to the next table between the reads of two registers that belong together. */
TEST(next_table_between)
{
	struct scene s;
	unsigned at, near;

	for (near = 1; near < 5000; near += 700) {
		for (at = 1; at <= 6; at++) {
			uint64_t n = 511 * 4096 - near;

			open_scene(&s, "skylake");
			s.config.buffer = 4096 * 700;
			s.config.region = 4096;
			s.config.pages = 3;
			start(&s);
			stream_put(&s.stream, &s.rig, 0, n);
			s.put_at = at;
			s.put_bytes = 8192;
			assert_true(live(&s).position >= ptah_capture_position(s.c));
			s.put_at = 0;
			assert_int_equal(live(&s).position, rig_output(&s.rig, 0));
			close_scene(&s);
		}
	}
}

/* PMIs, as NMIs, between any two instructions of the call. */
TEST(nmi_in_every_gap)
{
	struct scene s;
	size_t i;
	unsigned at;

	for (i = 0; i < KINDS; i++) {
		for (at = 1; at <= 8; at++) {
			unsigned k;

			open_scene(&s, kinds[i].processor);
			set_kind(&s, &kinds[i]);
			start(&s);
			for (k = 0; k < 20; k++) {
				stream_put(&s.stream, &s.rig, 0, 1 + below(9000));
				s.put_at = at;
				s.put_bytes = 1 + below(9000);
				/* Less than a lap between two looks. */
				if (kinds[i].shape == PTAH_SHAPE_SINGLE)
					ptah_capture_flush(s.c, NULL);
				live(&s);
				s.put_at = 0;
				ptah_capture_consume(s.c, ptah_capture_position(s.c), NULL);
			}
			close_scene(&s);
		}
	}
}

/* Where output stops by itself, the upper bound is that place to the byte. */
TEST(where_it_stops)
{
	struct ptah_capture_live l;
	struct scene s;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		if (kinds[i].policy == PTAH_POLICY_WRAP && !kinds[i].no_pmi)
			continue;
		open_scene(&s, kinds[i].processor);
		set_kind(&s, &kinds[i]);
		start(&s);
		stream_put(&s.stream, &s.rig, 0, 5000);
		l = live(&s);
		stream_put(&s.stream, &s.rig, 0, rig_status(s.c).cycle + 5000);
		if (strcmp(kinds[i].processor, "minimal") != 0)
			assert_int_equal(rig_output(&s.rig, 0), l.limit);
		close_scene(&s);
	}
}

/* Nothing is traced: exact, in every state. */
TEST(exact)
{
	struct ptah_capture_live l;
	struct scene s;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		open_scene(&s, kinds[i].processor);
		set_kind(&s, &kinds[i]);
		start(&s);
		stream_put(&s.stream, &s.rig, 0, 1000);
		assert_false(live(&s).exact);
		assert_int_equal(ptah_capture_pause(s.c), PTAH_OK);
		l = live(&s);
		assert_true(l.exact);
		assert_int_equal(l.position, 1000);
		assert_int_equal(ptah_capture_resume(s.c), PTAH_OK);
		stream_put(&s.stream, &s.rig, 0, 500);
		assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
		assert_true(live(&s).exact);
		assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
		if (kinds[i].thread) {
			assert_true(live(&s).exact);
			rig_switch(&s.rig, s.c, 0, true);
			ptah_machine_set_cpu(s.rig.machine, 1);
		}
		assert_false(live(&s).exact);
		close_scene(&s);
	}
	open_scene(&s, "skylake");
	start(&s);
	l.size = sizeof(l) - 1;
	assert_int_equal(ptah_capture_live(s.c, &l), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_live(NULL, &l), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_live(s.c, NULL), PTAH_E_INVAL);
	close_scene(&s);
}

/* A single range has been filled to its end and more since the last look. */
TEST(a_lap_of_a_single_range)
{
	static const uint32_t lags[] = {0, 100, 5000};
	struct scene s;
	unsigned k, lag;

	for (lag = 0; lag < 3; lag++) {
		for (k = 0; k < 200; k += 3) {
			uint64_t n = 65536 - 100 + k;

			open_scene(&s, "skylake");
			s.config.shape = PTAH_SHAPE_SINGLE;
			s.faults.stale_bytes = lags[lag];
			start(&s);
			stream_put(&s.stream, &s.rig, 0, 5000);
			assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
			stream_put(&s.stream, &s.rig, 0, n);
			assert_true(rig_output(&s.rig, 0) - live(&s).position <= lags[lag] + 200);
			close_scene(&s);
		}
	}
}
