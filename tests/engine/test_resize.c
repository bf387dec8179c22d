/* SPDX-License-Identifier: MIT */
/*
 * A capture gets a buffer of another size, in every shape and state: the position continues, every
 * byte that was promised is where the capture says, and what was not kept is counted. A copy of the
 * processor's output is the judge.
 */
#include "random.h"
#include "engine/live.h"
#include "engine/stream.h"

static uint64_t seed = 7;

static uint64_t below(uint64_t n)
{
	return random_below(&seed, n);
}

struct kind {
	const char *processor;
	uint8_t shape, policy;
	bool no_pmi, thread, no_xsaves;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false, false},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, true, false},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, true, true, true},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, false, false, false},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_STOP, false, true, false},
    {"skylake", PTAH_SHAPE_OVERFLOW, PTAH_POLICY_WRAP, false, false, false},
    {"skylake", PTAH_SHAPE_SINGLE, PTAH_POLICY_WRAP, false, false, false},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false, false},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, false, true, false},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_STOP, false, false, false},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_capture *c;
	const struct kind *kind;
	struct ptah_model_faults faults;
	uint64_t per_gap; /* bytes that are output in every gap of a call; 0: none */
	uint64_t lost;	  /* as the records say */
	uint32_t flags;
};

static bool wraps(const struct scene *s)
{
	return s->config.policy == PTAH_POLICY_WRAP;
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct scene *s = argument;

	(void)callback;
	if (rig_enabled(&s->rig, cpu))
		stream_put(&s->stream, &s->rig, cpu, 1 + below(s->per_gap));
}

static void open_scene(struct scene *s, const struct kind *kind)
{
	memset(s, 0, sizeof(*s));
	s->kind = kind;
	rig_open(&s->rig, ptah_model_find(kind->processor), 2);
	s->config = rig_config(&s->rig, &s->trace);
	s->config.shape = kind->shape;
	s->config.policy = kind->policy;
	s->config.no_pmi = kind->no_pmi;
	s->config.no_xsaves = kind->no_xsaves;
	s->config.cpu = kind->thread ? PTAH_CAPTURE_THREAD : 0;
}

static void start(struct scene *s)
{
	rig_silence(&s->rig, 0, &s->faults);
	s->c = rig_capture(&s->rig, &s->config);
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	if (s->kind->thread)
		rig_switch(&s->rig, s->c, 0, true);
	ptah_machine_set_cpu(s->rig.machine, 1);
}

static void take_records(struct scene *s)
{
	struct ptah_capture_record records[16];
	int n, i;

	while ((n = ptah_capture_records(s->c, records, 16)) > 0) {
		for (i = 0; i < n; i++) {
			s->flags |= records[i].flags;
			s->lost += records[i].lost;
			assert_true(records[i].position <= rig_output(&s->rig, 0));
		}
	}
}

/* Everything that can be read is what was output. */
static void check(struct scene *s)
{
	struct ptah_capture_status status;
	bool runs = rig_enabled(&s->rig, 0);

	/* The pattern over the newest bytes of a single range is there while it is traced. */
	if (runs)
		assert_int_equal(ptah_capture_pause(s->c), PTAH_OK);
	status = rig_status(s->c);
	assert_int_equal(status.position, rig_output(&s->rig, 0));
	assert_true(status.oldest <= status.position);
	assert_true(status.tail >= status.oldest || wraps(s));
	stream_check(&s->stream, s->c, status.oldest, status.position);
	if (runs)
		assert_int_equal(ptah_capture_resume(s->c), PTAH_OK);
	take_records(s);
}

static void close_scene(struct scene *s)
{
	ptah_machine_on_gap(s->rig.machine, NULL, NULL);
	if (s->kind->thread)
		rig_switch(&s->rig, s->c, 0, false);
	assert_int_equal(ptah_capture_stop(s->c), PTAH_OK);
	check(s);
	assert_false(s->flags & PTAH_CAPTURED_UNSURE);
	assert_int_equal(ptah_capture_free(s->c), PTAH_OK);
	stream_free(&s->stream);
	rig_close(&s->rig);
}

/* Calls it on processor 1, with output in every gap if the scene says so. */
static int resize(struct scene *s, size_t buffer, size_t region)
{
	struct ptah_trace_problem problem;
	int status;

	ptah_machine_set_cpu(s->rig.machine, 1);
	if (s->per_gap)
		ptah_machine_on_gap(s->rig.machine, gap, s);
	status = ptah_capture_resize(s->c, buffer, region, &problem);
	ptah_machine_on_gap(s->rig.machine, NULL, NULL);
	return status;
}

static void consume_all(struct scene *s)
{
	assert_int_equal(ptah_capture_consume(s->c, ptah_capture_position(s->c), NULL), PTAH_OK);
	if (rig_status(s->c).state == PTAH_CAPTURE_FULL)
		ptah_capture_resume(s->c);
}

enum state {
	RUNNING,
	PAUSED,
	STOPPED,
	OUT, /* of a thread; else as RUNNING */
	STATES
};

static void enter(struct scene *s, enum state state)
{
	if (state == PAUSED)
		assert_int_equal(ptah_capture_pause(s->c), PTAH_OK);
	if (state == STOPPED)
		assert_int_equal(ptah_capture_stop(s->c), PTAH_OK);
	if (state == OUT && s->kind->thread)
		rig_switch(&s->rig, s->c, 0, false);
	ptah_machine_set_cpu(s->rig.machine, 1);
}

static void leave(struct scene *s, enum state state)
{
	int status = PTAH_OK;

	if (state == PAUSED)
		status = ptah_capture_resume(s->c);
	if (state == STOPPED)
		status = ptah_capture_start(s->c);
	if (status == PTAH_E_NOSPACE) {
		consume_all(s);
		status = ptah_capture_start(s->c);
	}
	assert_int_equal(status, PTAH_OK);
	if (s->kind->thread && (state == OUT || state == STOPPED))
		rig_switch(&s->rig, s->c, 0, true);
	ptah_machine_set_cpu(s->rig.machine, 1);
}

/*
 * One exchange in one state. A snapshot keeps all that it could read or, if the new buffer is
 * smaller, the newest bytes of that, to the byte (with single-entry ToPA to the region).
 */
static void exchange_once(struct scene *s, enum state state, size_t size)
{
	struct ptah_capture_status before, after;
	uint64_t expected, lap, slack = 0;
	int status;

	enter(s, state);
	assert_int_equal(ptah_capture_flush(s->c, NULL), PTAH_OK);
	take_records(s);
	s->lost = 0;
	s->flags = 0;
	before = rig_status(s->c);
	status = resize(s, size, 0);
	after = rig_status(s->c);
	lap = after.buffer;
	/* A region that is full counts as overwritten when the next one is begun. */
	if (!strcmp(s->kind->processor, "minimal"))
		slack = after.region;
	if (status == PTAH_E_NOSPACE) {
		assert_false(wraps(s));
		assert_true(before.position - before.tail > size);
		assert_int_equal(after.buffer, before.buffer);
	} else {
		assert_int_equal(status, PTAH_OK);
		assert_true(lap == size || after.shape == PTAH_SHAPE_OVERFLOW);
		expected = wraps(s) ? before.oldest : before.tail;
		if (after.position > lap && expected < after.position - lap)
			expected = after.position - lap;
		if (!s->per_gap) {
			assert_int_equal(after.position, before.position);
			assert_true(after.oldest >= expected && after.oldest <= expected + slack);
		}
		assert_int_equal(after.tail, before.tail);
	}
	leave(s, state);
	check(s);
	if (status == PTAH_OK) {
		assert_true(s->flags & PTAH_CAPTURED_RESIZED);
		/* Nobody consumes a snapshot here: all that was dropped is reported. */
		if (wraps(s) && !s->per_gap)
			assert_in_range(s->lost + slack, after.oldest - before.oldest,
					after.oldest - before.oldest + slack);
		assert_int_equal(!!(s->flags & PTAH_CAPTURED_LOST), s->lost != 0);
		if (!wraps(s))
			assert_int_equal(s->lost, 0);
	}
}

static void write_some(struct scene *s, uint64_t most)
{
	stream_put(&s->stream, &s->rig, 0, 1 + below(most));
	if (!wraps(s) && below(3)) {
		ptah_capture_flush(s->c, NULL);
		consume_all(s);
	}
	/* Less than a lap between two looks. */
	if (s->kind->shape == PTAH_SHAPE_SINGLE)
		assert_int_equal(ptah_capture_flush(s->c, NULL), PTAH_OK);
}

static void sizes_and_states(uint64_t per_gap, const struct ptah_model_faults *faults)
{
	static const size_t sizes[] = {16384, 32768, 65536, 262144, 1048576};
	struct scene s;
	unsigned i, k;

	for (i = 0; i < KINDS; i++) {
		open_scene(&s, &kinds[i]);
		s.faults = *faults;
		start(&s);
		s.per_gap = per_gap;
		for (k = 0; k < 30; k++) {
			write_some(&s, k % 5 ? 12000 : 16000);
			if (k % 7 == 0 && kinds[i].shape != PTAH_SHAPE_SINGLE)
				write_some(&s, 300000);
			exchange_once(&s, (enum state)below(STATES), sizes[below(5)]);
			write_some(&s, 16000);
			check(&s);
		}
		close_scene(&s);
	}
}

TEST(in_every_state)
{
	const struct ptah_model_faults none = {0};

	sizes_and_states(0, &none);
}

/* The processor traces on between any two instructions of the engine, PMIs included. */
TEST(while_it_traces)
{
	const struct ptah_model_faults none = {0};
	const struct ptah_model_faults late = {
	    .stale_bytes = 500,
	    .pmi_skid_bytes = 3000,
	    .pmi_skid_boundaries = 5,
	    .cache_next = true,
	    .withhold = 64,
	};

	sizes_and_states(40, &none);
	sizes_and_states(40, &late);
}

/* A lot is traced while the first bytes are copied: more than the new buffer holds. */
TEST(overtaken)
{
	static const size_t sizes[] = {16384, 65536, 1048576};
	struct scene s;
	unsigned i, k;

	for (i = 0; i < KINDS; i++) {
		for (k = 0; k < 3; k++) {
			/* Several laps of a single range between two looks count as one. */
			if (kinds[i].shape == PTAH_SHAPE_SINGLE)
				continue;
			open_scene(&s, &kinds[i]);
			start(&s);
			write_some(&s, 200000);
			s.per_gap = 20000;
			if (resize(&s, sizes[k], 0) != PTAH_OK)
				assert_false(wraps(&s));
			check(&s);
			write_some(&s, 3000);
			close_scene(&s);
		}
	}
}

/* With DRAIN a larger buffer ends the wait for room; with STOP it makes room for resume(). */
TEST(full)
{
	struct ptah_trace_problem problem;
	struct scene s;
	unsigned i;

	for (i = 0; i < KINDS; i++) {
		uint64_t output;

		if (kinds[i].policy == PTAH_POLICY_WRAP)
			continue;
		open_scene(&s, &kinds[i]);
		start(&s);
		stream_put(&s.stream, &s.rig, 0, 200000);
		assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
		output = rig_output(&s.rig, 0);
		assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_FULL);
		assert_int_equal(ptah_capture_resize(s.c, 16384, 0, &problem), PTAH_E_NOSPACE);
		assert_string_equal(problem.field, "buffer");
		assert_int_equal(problem.valid, output);
		assert_int_equal(resize(&s, 262144, 0), PTAH_OK);
		if (kinds[i].policy == PTAH_POLICY_STOP) {
			assert_false(rig_enabled(&s.rig, 0));
			assert_int_equal(ptah_capture_resume(s.c), PTAH_OK);
		}
		assert_true(rig_enabled(&s.rig, 0));
		stream_put(&s.stream, &s.rig, 0, 50000);
		assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
		assert_int_equal(rig_status(s.c).oldest, 0);
		assert_int_equal(rig_status(s.c).position, output + 50000);
		close_scene(&s);
	}
}

/* A consumer of a snapshot is told at its next call what it did not read in time. */
TEST(consumed_snapshot)
{
	struct scene s;
	uint64_t lost;

	open_scene(&s, &kinds[0]);
	start(&s);
	stream_put(&s.stream, &s.rig, 0, 60000);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_consume(s.c, 10000, &lost), PTAH_OK);
	assert_int_equal(lost, 0);
	take_records(&s);
	assert_int_equal(resize(&s, 16384, 0), PTAH_OK);
	take_records(&s);
	assert_int_equal(s.lost, 60000 - 16384 - 10000);
	assert_true(s.flags & PTAH_CAPTURED_LOST);
	/* Reported once: the next look adds only what is overwritten from now on. */
	stream_put(&s.stream, &s.rig, 0, 100);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	take_records(&s);
	assert_int_equal(s.lost, 60000 - 16384 - 10000 + 100);
	assert_int_equal(ptah_capture_consume(s.c, 60100, &lost), PTAH_OK);
	assert_int_equal(lost, 60000 - 16384 - 10000 + 100);
	/* All is consumed: a smaller buffer loses nothing that anybody waits for. */
	s.lost = 0;
	assert_int_equal(resize(&s, 8192, 0), PTAH_OK);
	take_records(&s);
	assert_int_equal(s.lost, 0);
	close_scene(&s);
}

/* Each allocation fails in turn: the capture continues with the buffer that it has. */
TEST(no_memory)
{
	struct ptah_trace_problem problem;
	struct scene s;
	unsigned i, n;

	for (i = 0; i < KINDS; i++) {
		struct ptah_capture_status before, after;
		size_t allocated;
		int status;

		open_scene(&s, &kinds[i]);
		start(&s);
		write_some(&s, 50000);
		allocated = ptah_machine_allocated(s.rig.machine);
		before = rig_status(s.c);
		for (n = 1;; n++) {
			ptah_machine_fail_alloc(s.rig.machine, n);
			status = ptah_capture_resize(
			    s.c, 32768, kinds[i].shape == PTAH_SHAPE_RING ? 16384 : 0, &problem);
			if (status == PTAH_OK)
				break;
			/* One block for all is tried first, and then one for each region. */
			assert_int_equal(status, PTAH_E_NOMEM);
			assert_int_equal(ptah_machine_allocated(s.rig.machine), allocated);
			after = rig_status(s.c);
			assert_int_equal(after.buffer, before.buffer);
			assert_int_equal(after.region, before.region);
			write_some(&s, 300);
			check(&s);
			assert_true(n < 20);
		}
		ptah_machine_fail_alloc(s.rig.machine, 0);
		assert_true(n > 1 || wraps(&s));
		write_some(&s, 3000);
		close_scene(&s);
	}
}

TEST(refused)
{
	struct ptah_trace_problem problem;
	struct scene s;
	uint64_t address;
	size_t allocated;

	open_scene(&s, &kinds[0]);
	start(&s);
	stream_put(&s.stream, &s.rig, 0, 1000);
	allocated = ptah_machine_allocated(s.rig.machine);
	assert_int_equal(ptah_capture_resize(NULL, 65536, 0, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_resize(s.c, 5000, 0, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "buffer");
	assert_int_equal(ptah_capture_resize(s.c, 65536, 12288, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "region");
	assert_int_equal(ptah_capture_map(s.c, 5, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_resize(s.c, 131072, 0, &problem), PTAH_E_BUSY);
	assert_string_equal(problem.field, "buffer");
	assert_string_equal(problem.reason, "it is mapped: unmap it first");
	assert_int_equal(ptah_capture_resize(s.c, 131072, 0, NULL), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_unmap(s.c, 5, address), PTAH_OK);
	assert_int_equal(ptah_machine_allocated(s.rig.machine), allocated);
	assert_int_equal(rig_status(s.c).buffer, 65536);
	assert_int_equal(ptah_capture_resize(s.c, 131072, 4096, &problem), PTAH_OK);
	assert_int_equal(rig_status(s.c).buffer, 131072);
	assert_int_equal(rig_status(s.c).region, 4096);
	/* The new one can be mapped, and contains what the old one did. */
	assert_int_equal(ptah_capture_map(s.c, 5, false, &address), PTAH_OK);
	{
		size_t bytes = 0;
		const uint8_t *user = ptah_machine_user(s.rig.machine, 5, address, &bytes);

		assert_true(bytes >= 131072);
		assert_memory_equal(user, s.stream.bytes, 1000);
	}
	assert_int_equal(ptah_capture_unmap(s.c, 5, address), PTAH_OK);
	close_scene(&s);
}

/* A guest may be tracing with the old tables between the two calls. */
TEST(guest)
{
	struct ptah_trace_problem problem;
	struct scene s;
	uint64_t irqs, ctl;

	open_scene(&s, &kinds[1]);
	rig_silence(&s.rig, 0, &s.faults);
	s.c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
	irqs = s.rig.hal.irq_save(s.rig.machine);
	assert_int_equal(ptah_capture_vmentry(s.c, &ctl), PTAH_OK);
	assert_true(ctl & PTAH_RTIT_CTL_TRACE_EN);
	ptah_machine_set_cpu(s.rig.machine, 1);
	assert_int_equal(ptah_capture_resize(s.c, 131072, 0, &problem), PTAH_E_BUSY);
	assert_int_equal(rig_status(s.c).buffer, 65536);
	ptah_machine_set_cpu(s.rig.machine, 0);
	ptah_capture_vmexit(s.c);
	s.rig.hal.irq_restore(s.rig.machine, irqs);
	assert_int_equal(ptah_capture_resize(s.c, 131072, 0, &problem), PTAH_OK);
	assert_int_equal(rig_status(s.c).buffer, 131072);
	rig_switch(&s.rig, s.c, 0, true);
	stream_put(&s.stream, &s.rig, 0, 5000);
	close_scene(&s);
}

/* A thread moves between two processors while its capture is resized on a third. */

#define TURNS	300u
#define RESIZES 5u

static struct {
	struct ptah_capture *c;
	atomic_flag baton; /* the thread: one processor runs it at a time */
	uint64_t mark;	   /* its next one; with the baton */
	atomic_uint turns, resized;
} roam;

static void roaming(unsigned cpu)
{
	unsigned turn;

	(void)cpu;
	/* On a busy system the owner may need more turns until it has come to its resizes. */
	for (turn = 0; turn < TURNS || atomic_load(&roam.resized) < RESIZES; turn++) {
		uint64_t irqs;

		while (atomic_flag_test_and_set(&roam.baton)) {
			live_poll();
			sched_yield();
		}
		irqs = live_irqs_off();
		/* While the owner changes the capture it waits, so it does get the processor. */
		assert_int_equal(ptah_capture_switch_in(roam.c), PTAH_OK);
		live_irqs_back(irqs);
		live_marks(&roam.mark, 40);
		live_poll();
		live_marks(&roam.mark, 40);
		irqs = live_irqs_off();
		ptah_capture_switch_out(roam.c);
		live_irqs_back(irqs);
		atomic_flag_clear(&roam.baton);
		atomic_fetch_add(&roam.turns, 1);
		live_poll();
	}
}

/* The consumer's part, on the same thread: all bytes so far, or half of them. */
static void read_some(struct live_reader *reader, bool all)
{
	uint64_t position = ptah_capture_position(roam.c);
	uint64_t upto = all ? position : reader->tail + (position - reader->tail) / 2;
	uint8_t *bytes = rig_bytes(roam.c, reader->tail, upto);

	live_read(reader, bytes, (size_t)(upto - reader->tail));
	free(bytes);
	reader->tail = upto;
	assert_int_equal(ptah_capture_consume(roam.c, upto, NULL), PTAH_OK);
}

TEST(while_a_thread_moves)
{
	static const size_t sizes[] = {65536, 32768, 131072, 16384};
	struct ptah_model_faults none = {0};
	struct live_reader reader = {0};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status status;
	unsigned n = 0;

	live_open("skylake", 2, roaming);
	atomic_flag_clear(&roam.baton);
	rig_silence(&live.rig, 0, &none);
	rig_silence(&live.rig, 1, &none);
	config = rig_config(&live.rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	/* Otherwise bytes are overwritten while they are copied, and ThreadSanitizer objects. */
	config.policy = PTAH_POLICY_DRAIN;
	roam.c = rig_capture(&live.rig, &config);
	roam.mark = 0;
	assert_int_equal(ptah_capture_start(roam.c), PTAH_OK);
	atomic_store(&live.go, true);
	while (atomic_load(&live.working)) {
		int result = ptah_capture_resize(roam.c, sizes[n++ % 4], 0, NULL);

		assert_true(result == PTAH_OK || result == PTAH_E_NOSPACE);
		atomic_fetch_add(&roam.resized, result == PTAH_OK);
		live_poll();
		read_some(&reader, n % 3 == 0);
	}
	assert_int_equal(ptah_capture_stop(roam.c), PTAH_OK);
	read_some(&reader, true);
	status = rig_status(roam.c);
	assert_int_equal(status.position, rig_output(&live.rig, 0) + rig_output(&live.rig, 1));
	assert_int_equal(status.position, roam.mark * MARK);
	assert_int_equal(reader.next, roam.mark);
	assert_int_equal(reader.skipped, 0);
	assert_true(roam.mark && atomic_load(&roam.turns) >= 2 * TURNS);
	assert_int_equal(ptah_capture_free(roam.c), PTAH_OK);
	live_close();
}
