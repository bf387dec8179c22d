/* SPDX-License-Identifier: MIT */
/*
 * Test group T8: consumers that are slow, stall, are absent, or read while the
 * trace runs, under each policy. What a consumer may rely on: the bytes that it
 * gets are the trace, in order; the bytes that it never gets are counted
 * exactly; what the policy keeps is not overwritten; and it gets every record.
 */
#include "engine/live.h"

/* The most bytes that a processor writes by itself when it starts and stops. */
#define SLICE 128u

struct kind {
	const char *processor;
	uint8_t shape;
	bool no_pmi;
	size_t buffer, region;
	bool swaps; /* single-entry tables: regions are not always filled to their end */
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, false, 65536, 4096, false},
    {"skylake", PTAH_SHAPE_RING, true, 65536, 4096, false},
    {"skylake", PTAH_SHAPE_RING, false, 65536, 0, false},
    {"maximal", PTAH_SHAPE_RING, false, 3 * 8192, 8192, false},
    {"skylake", PTAH_SHAPE_RING, false, 4096, 4096, false},
    {"skylake", PTAH_SHAPE_OVERFLOW, false, 32768, 0, false},
    {"skylake", PTAH_SHAPE_OVERFLOW, true, 32768, 0, false},
    {"minimal", PTAH_SHAPE_AUTO, false, 32768, 0, true},
    {"minimal", PTAH_SHAPE_AUTO, true, 32768, 4096, true},
    {"broadwell", PTAH_SHAPE_AUTO, false, 32768, 8192, true},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct ptah_capture *open_kind(struct rig *rig, const struct kind *kind, uint8_t policy,
				      struct ptah_capture_config *config,
				      struct ptah_trace_config *trace)
{
	rig_open(rig, ptah_model_find(kind->processor), 2);
	*config = rig_config(rig, trace);
	config->shape = kind->shape;
	config->policy = policy;
	config->no_pmi = kind->no_pmi;
	config->buffer = kind->buffer;
	config->region = kind->region;
	return rig_capture(rig, config);
}

/* At most this many bytes are the processor's own packets. */
static size_t others(const struct ptah_capture_status *s)
{
	return (size_t)(SLICE * (s->looks + s->starts + 2));
}

static void close_kind(struct rig *rig, struct ptah_capture *c)
{
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_int_equal(rig->foreign, 0);
	rig_close(rig);
}

/* How often marks may be missing since the last call: as often as the engine reported it. */
static void count_cuts(struct ptah_capture *c, struct live_reader *r)
{
	struct ptah_capture_record records[16];
	int n, i;

	while ((n = ptah_capture_records(c, records, 16)) > 0) {
		for (i = 0; i < n; i++) {
			r->flags |= records[i].flags;
			r->cuts += (records[i].flags &
				    (PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_FULL)) != 0;
		}
	}
}

/* Reads what is still there of [tail, upto), and releases it. */
static void consume(struct ptah_capture *c, struct live_reader *r, uint64_t upto)
{
	struct ptah_capture_status s = rig_status(c);
	uint64_t from = s.oldest > r->tail ? s.oldest : r->tail, lost;
	uint8_t *bytes;

	assert_int_equal(s.tail, r->tail);
	count_cuts(c, r);
	if (from > upto)
		from = upto;
	bytes = rig_bytes(c, from, upto);
	assert_int_equal(ptah_capture_consume(c, upto, &lost), PTAH_OK);
	assert_true(lost <= upto - r->tail && r->tail + lost >= from);
	if (lost)
		live_lose(r, lost);
	live_read(r, bytes + (r->tail + lost - from), (size_t)(upto - r->tail - lost));
	free(bytes);
	r->tail = upto;
}

/* Slow consumers */

/* No unread byte is overwritten, and nothing is missing except while the trace waited. */
static void drains_slowly(const struct kind *kind)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct live_reader r = {0};
	struct ptah_capture_status s;
	struct ptah_capture *c;
	unsigned round, full = 0;
	struct rig rig;

	c = open_kind(&rig, kind, PTAH_POLICY_DRAIN, &config, &trace);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (round = 0; round < 60; round++) {
		rig_mark(&rig, 0, (round * 733 + 11) % 3000);
		if (round % 3 == 0)
			assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		s = rig_status(c);
		assert_true(s.tail >= s.oldest);
		if (s.state == PTAH_CAPTURE_FULL) {
			full++;
			assert_false(rig_enabled(&rig, 0));
		}
		consume(c, &r, s.tail + (s.position - s.tail) * 2 / 3);
		if (round % 4 == 0) {
			consume(c, &r, s.position);
			assert_true(rig_enabled(&rig, 0));
		}
	}
	assert_true(full > 0 || kind->no_pmi);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	s = rig_status(c);
	assert_int_equal(s.position, rig_output(&rig, 0));
	consume(c, &r, s.position);
	assert_int_equal(r.lost, 0);
	assert_int_equal(rig_status(c).lost, 0);
	assert_true(r.next <= rig.next && r.next > 1000);
	/* Marks are missing where a loss was reported, and nowhere else. */
	assert_false(r.flags & PTAH_CAPTURED_DROPPED);
	assert_true(r.skipped <= r.cuts);
	close_kind(&rig, c);
}

/* A buffer that wraps: the loss is what arithmetic gives. */
static void wraps_slowly(const struct kind *kind)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct live_reader r = {0};
	struct ptah_capture_status s;
	struct ptah_capture *c;
	uint64_t sum = 0, upto, lost, expected, oldest;
	unsigned round;
	struct rig rig;

	c = open_kind(&rig, kind, PTAH_POLICY_WRAP, &config, &trace);
	for (round = 0; round < 60; round++) {
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, (round * 1733 + 11) % 5000);
		/* The trace is stopped, so the content of the buffer is known. */
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.position, rig_output(&rig, 0));
		oldest = s.position > s.buffer ? s.position - s.buffer : 0;
		if (kind->swaps)
			oldest = s.oldest;
		assert_int_equal(s.oldest, oldest);
		upto = s.tail + (s.position - s.tail) * (1 + round % 4) / 4;
		expected = oldest > s.tail ? (oldest < upto ? oldest : upto) - s.tail : 0;
		assert_int_equal(r.lost, sum);
		consume(c, &r, upto);
		sum += expected;
		assert_int_equal(r.lost, sum);
		assert_int_equal(rig_status(c).lost, sum);
		/* The same bytes again: they are not counted as lost twice. */
		assert_int_equal(ptah_capture_consume(c, upto, &lost), PTAH_OK);
		assert_int_equal(lost, 0);
		assert_int_equal(ptah_capture_consume(c, s.position + 1, &lost), PTAH_E_INVAL);
		assert_int_equal(ptah_capture_resume(c), PTAH_OK);
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_true(sum > 0 || (kind->swaps && kind->no_pmi));
	if (!kind->no_pmi) { /* without PMIs it may have ended early */
		consume(c, &r, ptah_capture_position(c));
		assert_int_equal(r.next, rig.next);
	}
	close_kind(&rig, c);
}

TEST(slow)
{
	size_t i;

	for (i = 0; i < KINDS; i++) {
		drains_slowly(&kinds[i]);
		wraps_slowly(&kinds[i]);
	}
}

/* While the trace runs, consume() reads the position: its result refers to that position. */
TEST(loss_while_running)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t lost, position, oldest;

	c = open_kind(&rig, &kinds[0], PTAH_POLICY_WRAP, &config, &trace);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(&rig, 0, 100);
	assert_int_equal(ptah_capture_flush(c, &position), PTAH_OK);
	assert_int_equal(ptah_capture_consume(c, 1000, &lost), PTAH_OK);
	assert_int_equal(lost, 0);
	rig_mark(&rig, 0, (65536 - 200) / MARK);
	oldest = rig_output(&rig, 0) - 65536;
	assert_int_equal(ptah_capture_consume(c, position, &lost), PTAH_OK);
	/* The bytes that consume() itself caused come in addition. */
	assert_true(ptah_capture_position(c) - 65536 >= oldest);
	assert_true(ptah_capture_position(c) - 65536 <= oldest + SLICE);
	assert_int_equal(lost, ptah_capture_position(c) - 65536 - 1000);
	assert_true(lost > 0 && lost < position - 1000);
	assert_int_equal(rig_status(c).lost, lost);
	close_kind(&rig, c);
}

/* Stalled consumers */

static void sum_records(struct ptah_capture *c, uint64_t *lost, uint32_t *flags)
{
	struct ptah_capture_record records[7];
	int n, i;

	while ((n = ptah_capture_records(c, records, 7)) > 0) {
		for (i = 0; i < n; i++) {
			*lost += records[i].lost;
			*flags |= records[i].flags;
			assert_int_equal(records[i].lost != 0,
					 (records[i].flags & PTAH_CAPTURED_LOST) != 0);
		}
	}
}

/* A consumer that began to read and then stops reading for a long time. */
TEST(stalled)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	uint64_t lost = 0, told = 0;
	uint32_t flags = 0;
	unsigned policy, round;
	struct rig rig;
	size_t i;

	for (i = 0; i < KINDS * PTAH_POLICY_MAX; i++) {
		const struct kind *kind = &kinds[i / PTAH_POLICY_MAX];

		policy = (unsigned)(i % PTAH_POLICY_MAX);
		if (kind->no_pmi && policy == PTAH_POLICY_WRAP)
			continue; /* it ends early, and the engine reports it */
		told = flags = 0;
		c = open_kind(&rig, kind, (uint8_t)policy, &config, &trace);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 50);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_consume(c, 500, &lost), PTAH_OK);
		for (round = 0; round < 40; round++) {
			rig_mark(&rig, 0, 1000);
			assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
			sum_records(c, &told, &flags);
		}
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
		sum_records(c, &told, &flags);
		s = rig_status(c);
		assert_int_equal(s.position, rig_output(&rig, 0));
		assert_int_equal(s.tail, 500);
		if (policy == PTAH_POLICY_WRAP) {
			/* When it continues, each loss is reported once. */
			assert_true(flags & PTAH_CAPTURED_LOST);
			assert_int_equal(told, s.oldest - 500);
			if (!kind->swaps)
				assert_int_equal(s.oldest, s.position - s.buffer);
			assert_int_equal(ptah_capture_consume(c, s.position, &lost), PTAH_OK);
			assert_int_equal(lost, told);
		} else {
			/*
			 * The trace waits; the content from when the buffer was full is still
			 * there.
			 */
			assert_true(flags & PTAH_CAPTURED_FULL);
			assert_false(flags & PTAH_CAPTURED_LOST);
			assert_int_equal(told, 0);
			assert_true(s.oldest <= 500 && s.position <= 500 + s.buffer);
			assert_true(s.position > s.buffer / 2);
			/* Without PMIs, single-entry tables wait after each region for a call. */
			if (!kind->swaps || !kind->no_pmi)
				rig_check(c, 500 + SLICE, s.position, UINT64_MAX, others(&s));
			assert_int_equal(ptah_capture_consume(c, s.position, &lost), PTAH_OK);
			assert_int_equal(lost, 0);
			assert_int_equal(ptah_capture_resume(c), PTAH_OK);
			assert_true(rig_enabled(&rig, 0));
			rig_mark(&rig, 0, 10);
			assert_int_equal(ptah_capture_pause(c), PTAH_OK);
			assert_true(ptah_capture_position(c) >= s.position + 10 * MARK);
		}
		close_kind(&rig, c);
	}
}

/* No consumer: nothing counts as lost; and the first record is not lost itself. */
TEST(absent)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	uint64_t told;
	uint32_t flags;
	unsigned policy;
	struct rig rig;
	size_t i;

	for (i = 0; i < KINDS * PTAH_POLICY_MAX; i++) {
		const struct kind *kind = &kinds[i / PTAH_POLICY_MAX];

		policy = (unsigned)(i % PTAH_POLICY_MAX);
		told = flags = 0;
		c = open_kind(&rig, kind, (uint8_t)policy, &config, &trace);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 20000);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.position, rig_output(&rig, 0));
		assert_int_equal(s.tail, 0);
		assert_int_equal(s.lost, 0);
		sum_records(c, &told, &flags);
		assert_int_equal(told, 0);
		assert_false(flags & PTAH_CAPTURED_LOST);
		assert_int_equal((flags & PTAH_CAPTURED_WRAPPED) != 0, s.oldest > 0);
		if (policy != PTAH_POLICY_WRAP) {
			assert_true(flags & PTAH_CAPTURED_FULL || kind->no_pmi);
			assert_int_equal(s.oldest, 0);
			/* The first bytes of the trace are kept. */
			assert_true(rig_check(c, 0, s.position, 0, others(&s)) > 100);
		} else if (!kind->no_pmi) {
			assert_true(s.oldest > 0);
			assert_int_equal(rig_check(c, s.oldest, s.position, UINT64_MAX, SIZE_MAX),
					 20000);
		}
		close_kind(&rig, c);
	}
}

/* Consumers inside the PMI */

struct drained {
	size_t n;
	unsigned mode, calls;
	uint64_t tail; /* the tail at the last call */
	struct ptah_capture *c;
	uint8_t bytes[4 << 20];
};

/* Appends the bytes that it gets to one long buffer. */
static uint64_t drain(void *cookie, struct ptah_capture *c, uint64_t tail, uint64_t position)
{
	struct drained *d = cookie;
	uint8_t *bytes = rig_bytes(c, tail, position);

	assert_int_equal(d->n, tail);
	assert_true(position <= sizeof(d->bytes));
	memcpy(d->bytes + d->n, bytes, (size_t)(position - tail));
	d->n = (size_t)position;
	free(bytes);
	return position;
}

/* The buffer is emptied inside the PMI: the trace never waits, and nothing is lost. */
TEST(drained_in_the_pmi)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct drained *d = malloc(sizeof(*d));
	struct ptah_capture *c;
	uint64_t next, at;
	struct rig rig;
	size_t i;

	assert_non_null(d);
	for (i = 0; i < 4; i += 2) {
		rig_open(&rig, ptah_model_find(kinds[i].processor), 1);
		config = rig_config(&rig, &trace);
		config.policy = PTAH_POLICY_DRAIN;
		config.region = 4096;
		config.cookie = d;
		d->n = 0;
		config.drain = drain;
		c = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 100000);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.position, rig_output(&rig, 0));
		assert_true(s.position >= 100000 * MARK);
		assert_int_equal(s.full, 0);
		assert_false(rig_flags(c) & (PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_FULL));
		assert_int_equal(d->n, s.position);
		for (next = at = 0; at + MARK <= d->n;) {
			if (!rig_is_mark(d->bytes + at)) {
				at++;
				continue;
			}
			assert_int_equal(rig_number(d->bytes + at), next);
			next++;
			at += MARK;
		}
		assert_int_equal(next, 100000);
		close_kind(&rig, c);
	}
	free(d);
}

enum {
	DRAIN_NOTHING,
	DRAIN_HALF,
	DRAIN_TOO_MUCH,
	DRAIN_BACKWARDS,
	DRAIN_MODES
};

/* Return values outside of the two limits are ignored. */
static uint64_t drain_badly(void *cookie, struct ptah_capture *c, uint64_t tail, uint64_t position)
{
	struct drained *d = cookie;

	(void)c;
	d->calls++;
	assert_true(tail >= d->tail && tail <= position);
	d->tail = tail;
	switch (d->mode) {
	case DRAIN_HALF:
		return tail + (position - tail) / 2;
	case DRAIN_TOO_MUCH:
		return position + 1;
	case DRAIN_BACKWARDS:
		return tail ? tail - 1 : 0;
	default:
		return tail;
	}
}

TEST(drained_badly)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct drained *d = calloc(1, sizeof(*d));
	struct rig rig;

	assert_non_null(d);
	for (d->mode = 0; d->mode < DRAIN_MODES; d->mode++) {
		d->calls = 0;
		d->tail = 0;
		rig_open(&rig, ptah_model_find("skylake"), 1);
		config = rig_config(&rig, &trace);
		config.policy = PTAH_POLICY_DRAIN;
		config.region = 4096;
		config.cookie = d;
		config.drain = drain_badly;
		d->c = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(d->c), PTAH_OK);
		rig_mark(&rig, 0, 20000);
		assert_int_equal(ptah_capture_pause(d->c), PTAH_OK);
		s = rig_status(d->c);
		assert_true(d->calls > 2);
		assert_int_equal(s.position, rig_output(&rig, 0));
		if (d->mode == DRAIN_HALF) {
			assert_true(s.position >= 20000 * MARK && s.tail > 0);
			assert_int_equal(s.full, 0);
		} else {
			assert_int_equal(s.full, 1);
			assert_int_equal(s.tail, 0);
			assert_int_equal(s.oldest, 0);
			rig_check(d->c, 0, s.position, 0, others(&s));
		}
		close_kind(&rig, d->c);
	}
	free(d);
}

/* Mappings */

static bool asked_writable;
static int (*real_map)(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
		       bool writable, uint64_t *address);

static int noting_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
		      bool writable, uint64_t *address)
{
	asked_writable = writable;
	return real_map(port, owner, pieces, n, writable, address);
}

/* The bytes [from, to) at the owner's mapping are those that the engine reads. */
static void expect_seen(struct rig *rig, struct ptah_capture *c, uint64_t owner, uint64_t address)
{
	struct ptah_capture_status s = rig_status(c);
	struct ptah_piece pieces[64];
	uint64_t at = s.oldest;
	size_t bytes;
	int n, i;

	while (at < s.position) {
		n = ptah_capture_pieces(c, at, s.position, pieces, 64);
		assert_true(n > 0);
		for (i = 0; i < n; i++) {
			const uint8_t *seen = ptah_machine_user(rig->machine, owner,
								address + pieces[i].offset, &bytes);

			assert_ptr_equal(seen, pieces[i].address);
			assert_true(pieces[i].offset + pieces[i].size <= s.buffer);
			at += pieces[i].size;
		}
	}
	assert_int_equal(at, s.position);
	/* Only the buffer is mapped. */
	assert_non_null(ptah_machine_user(rig->machine, owner, address + s.buffer - 1, &bytes));
	assert_int_equal(bytes, 1);
	assert_null(ptah_machine_user(rig->machine, owner, address + s.buffer, &bytes));
	assert_null(ptah_machine_user(rig->machine, owner, address - 1, &bytes));
}

TEST(mapped)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	uint64_t read, write;
	struct rig rig;
	size_t bytes, i;

	for (i = 0; i < KINDS; i++) {
		c = open_kind(&rig, &kinds[i], PTAH_POLICY_WRAP, &config, &trace);
		real_map = rig.hal.user_map;
		rig.hal.user_map = noting_map;
		assert_int_equal(ptah_capture_map(c, 4, false, &read), PTAH_OK);
		assert_false(asked_writable);
		assert_int_equal(ptah_capture_map(c, 5, true, &write), PTAH_OK);
		assert_true(asked_writable);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 9000);
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
		expect_seen(&rig, c, 4, read);
		expect_seen(&rig, c, 5, write);
		/* No other owner can read it, nor the previous one. */
		assert_null(ptah_machine_user(rig.machine, 5, read, &bytes));
		assert_int_equal(ptah_capture_unmap(c, 4, read), PTAH_OK);
		assert_null(ptah_machine_user(rig.machine, 4, read, &bytes));
		expect_seen(&rig, c, 5, write);
		assert_int_equal(ptah_capture_unmap(c, 5, write), PTAH_OK);
		close_kind(&rig, c);
	}
	c = open_kind(&rig, &kinds[0], PTAH_POLICY_WRAP, &config, &trace);
	rig.hal.user_map = NULL;
	rig.hal.user_unmap = NULL;
	assert_int_equal(ptah_capture_map(c, 4, false, &read), PTAH_E_UNSUPPORTED);
	close_kind(&rig, c);
}

/* Exactly full */

static uint8_t byte_at(uint64_t position)
{
	return (uint8_t)(position * 0x9e3779b1 >> 16 ^ position);
}

/* The processor outputs n bytes and no packets by itself; fewer if it is stopped. */
static void put(struct rig *rig, uint64_t n)
{
	uint8_t bytes[64];
	uint64_t k, part;

	for (; n && rig_enabled(rig, 0); n -= part) {
		uint64_t at = rig_output(rig, 0);

		part = n < sizeof(bytes) ? n : sizeof(bytes);
		for (k = 0; k < part; k++)
			bytes[k] = byte_at(at + k);
		ptah_machine_put(rig->machine, 0, bytes, (size_t)part);
	}
}

static void expect_bytes(struct ptah_capture *c, uint64_t from, uint64_t to)
{
	uint8_t *bytes = rig_bytes(c, from, to);
	uint64_t at;

	for (at = from; at < to; at++)
		assert_int_equal(bytes[at - from], byte_at(at));
	free(bytes);
}

static void fills(const struct kind *kind, uint8_t policy, int extra)
{
	const struct ptah_model_faults faults = {.silent = true};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t buffer, lost, n;

	c = open_kind(&rig, kind, policy, &config, &trace);
	ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &faults);
	buffer = rig_status(c).buffer;
	n = buffer + (uint64_t)extra;
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	put(&rig, n);
	assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
	s = rig_status(c);
	assert_int_equal(s.position, rig_output(&rig, 0));
	if (policy != PTAH_POLICY_WRAP) {
		assert_int_equal(s.oldest, 0);
		assert_int_equal(s.position, n < buffer ? n : buffer);
		assert_int_equal(s.state, n < buffer ? PTAH_CAPTURE_RUNNING : PTAH_CAPTURE_FULL);
		expect_bytes(c, 0, s.position);
		/* One byte too few was released, and that one may not be overwritten yet. */
		assert_int_equal(ptah_capture_consume(c, 1, &lost), PTAH_OK);
		put(&rig, buffer);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		expect_bytes(c, 1, rig_output(&rig, 0));
		assert_int_equal(ptah_capture_consume(c, ptah_capture_position(c), &lost), PTAH_OK);
		assert_int_equal(lost, 0);
		if (policy == PTAH_POLICY_STOP)
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
		/* All of it was released: the whole buffer is free again. */
		s = rig_status(c);
		put(&rig, buffer - kind->region - 1);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_position(c), s.position + buffer - kind->region - 1);
		expect_bytes(c, s.position, ptah_capture_position(c));
	} else {
		assert_int_equal(s.position, n);
		assert_int_equal(s.oldest, n > buffer ? n - buffer : 0);
		assert_int_equal((rig_flags(c) & PTAH_CAPTURED_WRAPPED) != 0, n > buffer);
		expect_bytes(c, s.oldest, n);
		if (s.oldest)
			assert_int_equal(ptah_capture_pieces(c, s.oldest - 1, n, NULL, 0),
					 PTAH_E_LOST);
		assert_int_equal(ptah_capture_pieces(c, 0, n + 1, NULL, 0), PTAH_E_INVAL);
	}
	close_kind(&rig, c);
}

TEST(exactly_full)
{
	static const int extra[] = {-4097, -4096, -1, 0, 1, 4096};
	unsigned policy, e;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		if (kinds[i].swaps || kinds[i].buffer <= 4097)
			continue;
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			for (e = 0; e < 6; e++)
				fills(&kinds[i], (uint8_t)policy, extra[e]);
		}
	}
}

/* Records */

/* The same sequence of calls, with room for `records` records. */
static struct ptah_capture *eventful(struct rig *rig, unsigned records)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	unsigned i;

	rig_open(rig, ptah_model_find("skylake"), 1);
	config = rig_config(rig, &trace);
	config.region = 4096;
	config.records = records;
	c = rig_capture(rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(rig, 0, 10);
	assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_consume(c, 1, NULL), PTAH_OK);
	for (i = 0; i < 30; i++) {
		rig_mark(rig, 0, 1000);
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
		if (i == 7)
			assert_int_equal(ptah_capture_reconfigure(c, &trace, NULL), PTAH_OK);
		if (i == 11)
			ptah_model_senter(ptah_machine_model(rig->machine, 0));
		assert_int_equal(ptah_capture_resume(c), PTAH_OK);
		if (i == 12)
			ptah_model_senter(ptah_machine_model(rig->machine, 0));
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	return c;
}

TEST(records_overflow)
{
	struct ptah_capture_record all[256], few[256];
	struct ptah_capture *c;
	struct rig rig;
	uint64_t lost, lost_of_few, position;
	uint32_t flags, flags_of_few;
	unsigned room;
	int n, k, i;

	c = eventful(&rig, 256);
	n = ptah_capture_records(c, all, 256);
	assert_true(n > 60 && n < 256);
	assert_int_equal(rig_status(c).dropped_records, 0);
	position = ptah_capture_position(c);
	for (i = 0, lost = flags = 0; i < n; i++) {
		assert_true(!i || all[i].position >= all[i - 1].position);
		assert_true(!i || all[i].time >= all[i - 1].time);
		lost += all[i].lost;
		flags |= all[i].flags;
	}
	assert_int_equal(all[n - 1].position, position);
	assert_int_equal(lost, rig_status(c).oldest - 1);
	assert_true(flags & PTAH_CAPTURED_PARTIAL && flags & PTAH_CAPTURED_RECONFIGURED);
	close_kind(&rig, c);
	for (room = 1; room <= 128; room *= 2) {
		c = eventful(&rig, room);
		assert_int_equal(ptah_capture_position(c), position);
		/* The first records are unchanged; the rest is merged into one. */
		for (k = 0; (i = ptah_capture_records(c, few + k, 256)) > 0; k += i)
			;
		for (i = 0, lost_of_few = flags_of_few = 0; i < k; i++) {
			lost_of_few += few[i].lost;
			flags_of_few |= few[i].flags;
			if ((unsigned)i < room)
				assert_int_equal(few[i].position, all[i].position);
		}
		assert_int_equal(lost_of_few, lost);
		assert_int_equal(flags_of_few & ~PTAH_CAPTURED_DROPPED, flags);
		assert_int_equal((flags_of_few & PTAH_CAPTURED_DROPPED) != 0, (int)room < n);
		assert_int_equal(rig_status(c).dropped_records, (int)room < n ? n - (int)room : 0);
		close_kind(&rig, c);
	}
}

static unsigned wakes;

static void wake(void *port, void *cookie)
{
	(void)port;
	assert_ptr_equal(cookie, &wakes);
	wakes++;
}

TEST(woken)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_record record;
	struct ptah_capture *c;
	struct rig rig;
	unsigned i, n = 0;

	wakes = 0;
	rig_open(&rig, ptah_model_find("skylake"), 1);
	rig.hal.wake = wake;
	config = rig_config(&rig, &trace);
	config.cookie = &wakes;
	c = rig_capture(&rig, &config);
	for (i = 0; i < 20; i++) {
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 1000);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		while (ptah_capture_records(c, &record, 1) == 1)
			n++;
		/* Each record woke the consumer. */
		assert_int_equal(n, wakes);
	}
	assert_true(n >= 40);
	close_kind(&rig, c);
}

/* Racing consumers, on a processor of their own */

#define ROUNDS 3000u

static struct {
	struct ptah_capture *c;
	uint64_t written;
	unsigned tries;
} race;

static void produce(unsigned cpu)
{
	unsigned round;

	if (cpu)
		return;
	for (round = 0; round < ROUNDS; round++) {
		live_poll();
		live_marks(&race.written, 1 + round * 7 % 90);
		if (round % 8 == 0)
			sched_yield();
	}
}

/* Reads memory that another processor's trace is written to meanwhile, as hardware does. */
LIVE_HARDWARE static void copy_racing(uint8_t *to, const volatile uint8_t *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = from[i];
}

/* Copies [from, upto) into `bytes`; false: some of it was overwritten. */
static bool copy_pieces(uint64_t from, uint64_t upto, uint8_t *bytes)
{
	struct ptah_piece piece;
	uint64_t at = from;
	int n;

	while (at < upto) {
		n = ptah_capture_pieces(race.c, at, upto, &piece, 1);
		if (n == PTAH_E_LOST)
			return false;
		assert_int_equal(n, 1);
		copy_racing(bytes + (at - from), piece.address, piece.size);
		at += piece.size;
	}
	return true;
}

static void consume_racing(struct live_reader *r)
{
	uint64_t upto = ptah_capture_position(race.c);
	struct ptah_capture_status s = rig_status(race.c);
	uint64_t from = s.oldest > r->tail ? s.oldest : r->tail, lost;
	uint8_t *bytes;
	bool there;

	if (from > upto)
		from = upto;
	count_cuts(race.c, r);
	bytes = malloc((size_t)(upto - from) + 1);
	assert_non_null(bytes);
	there = copy_pieces(from, upto, bytes);
	if (!there && race.tries++ % 4) { /* again, with the current content */
		free(bytes);
		return;
	}
	assert_int_equal(ptah_capture_consume(race.c, upto, &lost), PTAH_OK);
	assert_true(lost <= upto - r->tail && (lost >= from - r->tail || from == r->tail));
	if (lost)
		live_lose(r, lost);
	/* The loss is at the beginning: all later bytes were read. */
	if (there)
		live_read(r, bytes + (r->tail + lost - from), (size_t)(upto - r->tail - lost));
	else
		live_lose(r, upto - r->tail - lost);
	free(bytes);
	r->tail = upto;
}

static void races(const char *processor, uint8_t policy, size_t buffer)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct live_reader r = {0};
	unsigned round;

	memset(&race, 0, sizeof(race));
	live_open(processor, 2, produce);
	config = rig_config(&live.rig, &trace);
	config.policy = policy;
	config.buffer = buffer;
	config.region = 4096;
	config.records = 1024;
	race.c = rig_capture(&live.rig, &config);
	assert_int_equal(ptah_capture_start(race.c), PTAH_OK);
	atomic_store(&live.go, true);
	for (round = 0; atomic_load(&live.working); round++) {
		live_poll();
		consume_racing(&r);
		/* The buffer may have filled up again meanwhile. */
		if (policy == PTAH_POLICY_STOP && rig_status(race.c).state == PTAH_CAPTURE_FULL) {
			int status = ptah_capture_start(race.c);

			assert_true(status == PTAH_OK || status == PTAH_E_NOSPACE);
		}
		if (round % 3)
			sched_yield();
	}
	assert_int_equal(ptah_capture_stop(race.c), PTAH_OK);
	race.tries = 0;
	consume_racing(&r);
	s = rig_status(race.c);
	print_message("%llu bytes, %llu lost in %u times, %u marks, full %llu\n",
		      (unsigned long long)s.position, (unsigned long long)r.lost, r.losses,
		      (unsigned)r.next, (unsigned long long)s.full);
	assert_int_equal(s.position, rig_output(&live.rig, 0));
	assert_int_equal(r.tail, s.position);
	assert_false(r.flags &
		     (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_PARTIAL | PTAH_CAPTURED_UNSURE));
	assert_int_equal(atomic_load(&live.rig.foreign), 0);
	if (policy == PTAH_POLICY_WRAP) {
		/* Marks are missing where a loss was reported, and nowhere else. */
		assert_true(r.skipped <= r.losses);
		assert_int_equal(r.next, race.written);
	} else {
		assert_int_equal(r.lost, 0);
		assert_int_equal(s.lost, 0);
		assert_false(r.flags & PTAH_CAPTURED_DROPPED);
		assert_true(r.skipped <= r.cuts);
	}
	assert_int_equal(ptah_capture_free(race.c), PTAH_OK);
	live_close();
}

TEST(racing_drain)
{
	races("skylake", PTAH_POLICY_DRAIN, 65536);
	races("minimal", PTAH_POLICY_DRAIN, 65536);
	races("skylake", PTAH_POLICY_DRAIN, 8192);
}

TEST(racing_wrap)
{
	races("skylake", PTAH_POLICY_WRAP, 1 << 20);
	races("skylake", PTAH_POLICY_WRAP, 8192);
	races("minimal", PTAH_POLICY_WRAP, 16384);
}

TEST(racing_stop)
{
	races("skylake", PTAH_POLICY_STOP, 65536);
	races("minimal", PTAH_POLICY_STOP, 65536);
}
