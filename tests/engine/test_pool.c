/* SPDX-License-Identifier: MIT */
/*
 * Captures from a pool: they are taken where nothing may sleep, they are like new ones each time,
 * with nothing of their last owner in them, and they come back whatever ends them.
 */
#include "engine/live.h"
#include "engine/stream.h"

#include <ptah/engine/capture_page.h>

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_pool *pool;
	struct ptah_model_faults faults;
	size_t allocated; /* with the pool */
};

static void open_scene(struct scene *s, const char *processor)
{
	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find(processor), 2);
	rig_silence(&s->rig, 0, &s->faults);
	s->config = rig_config(&s->rig, &s->trace);
	s->config.cpu = PTAH_CAPTURE_THREAD;
}

static void make_pool(struct scene *s, unsigned n)
{
	struct ptah_trace_problem problem;

	if (ptah_pool_new(s->rig.engine, &s->config, n, &s->pool, &problem) != PTAH_OK)
		fail_msg("%s: %s", problem.field, problem.reason);
	s->allocated = ptah_machine_allocated(s->rig.machine);
	assert_int_equal(ptah_pool_left(s->pool), n);
}

static void close_scene(struct scene *s)
{
	assert_int_equal(ptah_machine_allocated(s->rig.machine), s->allocated);
	assert_int_equal(ptah_pool_free(s->pool), PTAH_OK);
	stream_free(&s->stream);
	rig_close(&s->rig);
}

static struct ptah_capture *take(struct scene *s, uint64_t owner)
{
	struct ptah_capture *c = NULL;
	struct ptah_trace_problem problem;

	assert_int_equal(ptah_pool_take(s->pool, owner, s, NULL, &c, &problem), PTAH_OK);
	assert_non_null(c);
	return c;
}

/* A scheduler's hook applies the configuration that came after the capture. */
TEST(what_to_trace_changes_in_the_hook)
{
	struct ptah_trace_config other;
	struct ptah_capture *c;
	struct scene s;
	uint64_t irqs;

	open_scene(&s, "skylake");
	make_pool(&s, 1);
	c = take(&s, 1);
	other = s.trace;
	other.os = false;
	irqs = s.rig.hal.irq_save(s.rig.machine);
	assert_int_equal(ptah_capture_reconfigure(c, &other, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
	assert_true(rig_enabled(&s.rig, 0));
	ptah_capture_switch_out(c);
	other.user = false;
	assert_int_equal(ptah_capture_reconfigure(c, &other, NULL), PTAH_E_INVAL);
	s.rig.hal.irq_restore(s.rig.machine, irqs);
	assert_false(rig_status(c).rtit_ctl & PTAH_RTIT_CTL_OS);
	assert_true(rig_status(c).rtit_ctl & PTAH_RTIT_CTL_USER);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}

/* In an interrupt's context a capture is taken, started and switched in. */
TEST(where_nothing_may_sleep)
{
	struct ptah_capture *c;
	struct scene s;
	uint64_t irqs;

	open_scene(&s, "skylake");
	make_pool(&s, 2);
	ptah_machine_fail_alloc(s.rig.machine, 1);
	irqs = s.rig.hal.irq_save(s.rig.machine);
	c = take(&s, 1);
	assert_int_equal(ptah_pool_left(s.pool), 1);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
	s.rig.hal.irq_restore(s.rig.machine, irqs);
	stream_put(&s.stream, &s.rig, 0, 5000);
	rig_switch(&s.rig, c, 0, false);
	assert_null(ptah_machine_violation(s.rig.machine));
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_position(c), 5000);
	stream_check(&s.stream, c, 0, 5000);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_int_equal(ptah_pool_left(s.pool), 2);
	ptah_machine_fail_alloc(s.rig.machine, 0);
	close_scene(&s);
}

static struct scene *in_nmi;
static struct ptah_capture *from_nmi;

static void take_in_nmi(void *argument, unsigned cpu)
{
	(void)argument;
	(void)cpu;
	if (in_nmi)
		from_nmi = take(in_nmi, 3);
	in_nmi = NULL;
}

TEST(in_an_nmi)
{
	struct scene s;

	open_scene(&s, "skylake");
	make_pool(&s, 1);
	ptah_machine_on_pmi(s.rig.machine, take_in_nmi, NULL);
	in_nmi = &s;
	assert_true(ptah_model_nmi(ptah_machine_model(s.rig.machine, 0)));
	assert_non_null(from_nmi);
	assert_null(ptah_machine_violation(s.rig.machine));
	assert_int_equal(ptah_pool_left(s.pool), 0);
	ptah_machine_on_pmi(s.rig.machine, rig_pmi, &s.rig);
	assert_int_equal(ptah_capture_free(from_nmi), PTAH_OK);
	close_scene(&s);
}

TEST(exhausted)
{
	struct ptah_capture *c[4], *other = NULL;
	struct scene s;
	unsigned i, k;

	open_scene(&s, "skylake");
	make_pool(&s, 4);
	for (i = 0; i < 4; i++) {
		c[i] = take(&s, i);
		for (k = 0; k < i; k++)
			assert_ptr_not_equal(c[i], c[k]);
	}
	assert_int_equal(ptah_pool_take(s.pool, 1, NULL, NULL, &other, NULL), PTAH_E_NOMEM);
	assert_null(other);
	assert_int_equal(ptah_pool_left(s.pool), 0);
	/* Nothing can be freed under them. */
	assert_int_equal(ptah_pool_free(s.pool), PTAH_E_BUSY);
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_free(c[2]), PTAH_OK);
	assert_int_equal(ptah_pool_free(s.pool), PTAH_E_BUSY);
	assert_int_equal(ptah_pool_left(s.pool), 1);
	assert_ptr_equal(take(&s, 9), c[2]);
	for (i = 0; i < 4; i++)
		assert_int_equal(ptah_capture_free(c[i]), PTAH_OK);
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_E_BUSY);
	close_scene(&s);
}

struct kind {
	const char *processor;
	uint8_t shape, policy;
	bool thread;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, true},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, true},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_STOP, false},
    {"skylake", PTAH_SHAPE_OVERFLOW, PTAH_POLICY_WRAP, true},
    {"skylake", PTAH_SHAPE_SINGLE, PTAH_POLICY_WRAP, true},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, true},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_DRAIN, false},
};

/* Uses a capture up: laps, records nobody reads, an error, a pause. */
static void wear(struct scene *s, struct ptah_capture *c, const struct kind *kind, uint64_t n)
{
	struct ptah_capture_record record;
	struct ptah_capture_status status;
	uint64_t bytes;
	uint8_t *table;

	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	if (kind->thread)
		rig_switch(&s->rig, c, 0, true);
	stream_put(&s->stream, &s->rig, 0, n);
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	ptah_capture_consume(c, ptah_capture_position(c) / 2, &bytes);
	assert_int_equal(ptah_capture_records(c, &record, 1), 1);
	status = rig_status(c);
	assert_true(status.position > 1000);
	/* Its last table is overwritten while it is paused, and it is resumed in vain. With
	 * single-entry ToPA the next region has another table. */
	table = ptah_machine_memory(s->rig.machine, status.output_base, &bytes);
	if (kind->shape != PTAH_SHAPE_SINGLE) {
		int resumed;

		table[0] |= 2;
		resumed = ptah_capture_resume(c);
		if (strcmp(kind->processor, "minimal") != 0)
			assert_int_equal(resumed, PTAH_E_INVAL);
	}
	if (kind->thread)
		rig_switch(&s->rig, c, 0, false);
	ptah_machine_set_cpu(s->rig.machine, 0);
}

/* Nothing but zeros can be read in its buffer, and the page for its consumer can be mapped. */
static void expect_clear(struct scene *s, struct ptah_capture *c)
{
	uint64_t address = 0, at = 0, lap = rig_status(c).buffer;

	assert_int_equal(ptah_capture_map(c, 77, false, &address), PTAH_OK);
	while (at < lap) {
		size_t bytes = 0, i;
		const uint8_t *user = ptah_machine_user(s->rig.machine, 77, address + at, &bytes);

		for (i = 0; i < bytes; i++)
			assert_int_equal(user[i], 0);
		at += bytes;
	}
	assert_int_equal(ptah_capture_unmap(c, 77, address), PTAH_OK);
	assert_int_equal(ptah_capture_map_page(c, 77, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_unmap(c, 77, address), PTAH_OK);
}

/* The same status, and then the same trace, as those of a capture that is not a pool's. */
TEST(like_new)
{
	struct ptah_capture_record record;
	size_t i;
	unsigned round;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ptah_capture_status expected, found;
		struct ptah_piece piece;
		struct ptah_capture *c;
		struct scene s;

		open_scene(&s, kinds[i].processor);
		s.config.shape = kinds[i].shape;
		s.config.policy = kinds[i].policy;
		s.config.cpu = kinds[i].thread ? PTAH_CAPTURE_THREAD : 0;
		c = rig_capture(&s.rig, &s.config);
		expected = rig_status(c);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		make_pool(&s, 1);
		for (round = 0; round < 4; round++) {
			c = take(&s, round);
			found = rig_status(c);
			assert_memory_equal(&found, &expected, sizeof(found));
			assert_int_equal(ptah_capture_records(c, &record, 1), 0);
			expect_clear(&s, c);
			/* A processor that has traced for another capture begins at its own 0. */
			stream_free(&s.stream);
			/* Several laps of a single range between two looks count as one. */
			wear(&s, c, &kinds[i],
			     30000 +
				 (kinds[i].shape == PTAH_SHAPE_SINGLE ? 0 : 50000 * (3 - round)));
			found = rig_status(c);
			stream_check(&s.stream, c, found.oldest, found.position);
			assert_int_equal(found.position, s.stream.n);
			/* The first byte is the buffer's first. */
			if (found.oldest == 0) {
				assert_int_equal(ptah_capture_pieces(c, 0, 1, &piece, 1), 1);
				assert_int_equal(piece.offset, 0);
			}
			assert_int_equal(ptah_capture_free(c), PTAH_OK);
			assert_false(rig_enabled(&s.rig, 0));
		}
		close_scene(&s);
	}
}

/* What to trace is the taker's, and checked; a refusal takes nothing out of the pool. */
TEST(another_trace)
{
	struct ptah_trace_problem problem;
	struct ptah_trace_config trace;
	struct ptah_capture *c = NULL;
	struct scene s;
	uint64_t ctl;

	open_scene(&s, "skylake");
	make_pool(&s, 1);
	trace = s.trace;
	trace.ranges[0] =
	    (struct ptah_range){UINT64_C(1) << 60, UINT64_C(1) << 61, PTAH_RANGE_FILTER};
	assert_int_equal(ptah_pool_take(s.pool, 1, NULL, &trace, &c, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "ranges[0].first");
	assert_int_equal(ptah_pool_left(s.pool), 1);
	trace.ranges[0] = (struct ptah_range){0x1000, 0x1fff, PTAH_RANGE_FILTER};
	trace.no_retcomp = true;
	assert_int_equal(ptah_pool_take(s.pool, 1, NULL, &trace, &c, &problem), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_switch(&s.rig, c, 0, true);
	ptah_model_rdmsr(ptah_machine_model(s.rig.machine, 0), PTAH_IA32_RTIT_CTL, &ctl);
	assert_true(ctl & PTAH_RTIT_CTL_DIS_RETC);
	rig_switch(&s.rig, c, 0, false);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	/* The next one without a wish gets the pool's. */
	c = take(&s, 2);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_switch(&s.rig, c, 0, true);
	ptah_model_rdmsr(ptah_machine_model(s.rig.machine, 0), PTAH_IA32_RTIT_CTL, &ctl);
	assert_false(ctl & PTAH_RTIT_CTL_DIS_RETC);
	rig_switch(&s.rig, c, 0, false);
	assert_int_equal(ptah_capture_resize(c, 131072, 0, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "buffer");
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_int_equal(ptah_pool_take(NULL, 1, NULL, NULL, &c, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_pool_take(s.pool, 1, NULL, NULL, NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_pool_left(NULL), 0);
	assert_int_equal(ptah_pool_free(NULL), PTAH_OK);
	close_scene(&s);
}

/* The owner dies: what it had comes back to the pool, and nobody else's. */
TEST(owner_dies)
{
	struct ptah_capture *c[3], *own;
	struct scene s;
	uint64_t address;

	open_scene(&s, "skylake");
	own = rig_capture(&s.rig, &s.config); /* its owner is 0, as that of idle ones */
	make_pool(&s, 5);
	c[0] = take(&s, 0);
	c[1] = take(&s, 6);
	c[2] = take(&s, 6);
	assert_int_equal(ptah_capture_map(c[1], 6, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_free(c[1]), PTAH_E_BUSY);
	assert_int_equal(ptah_pool_left(s.pool), 2);
	assert_int_equal(ptah_capture_start(c[2]), PTAH_OK);
	rig_switch(&s.rig, c[2], 0, true);
	stream_put(&s.stream, &s.rig, 0, 500);
	assert_int_equal(ptah_engine_release_owner(s.rig.engine, 6), 2);
	assert_false(rig_enabled(&s.rig, 0));
	assert_int_equal(ptah_machine_mapped(s.rig.machine), 0);
	assert_int_equal(ptah_pool_left(s.pool), 4);
	/* Owner 0 has two, although all idle ones have that number too. */
	assert_int_equal(ptah_engine_release_owner(s.rig.engine, 0), 2);
	(void)own;
	assert_int_equal(ptah_pool_left(s.pool), 5);
	assert_int_equal(ptah_engine_release_owner(s.rig.engine, 0), 0);
	s.allocated = ptah_machine_allocated(s.rig.machine);
	expect_clear(&s, take(&s, 1));
	assert_int_equal(ptah_engine_release_owner(s.rig.engine, 1), 1);
	close_scene(&s);
}

TEST(refused)
{
	struct ptah_trace_problem problem;
	struct ptah_pool *pool = NULL;
	struct scene s;
	size_t before;
	unsigned n;

	open_scene(&s, "skylake");
	before = ptah_machine_allocated(s.rig.machine);
	assert_int_equal(ptah_pool_new(s.rig.engine, &s.config, 0, &pool, NULL), PTAH_E_LIMIT);
	assert_int_equal(ptah_pool_new(s.rig.engine, &s.config, 65537, &pool, NULL), PTAH_E_LIMIT);
	assert_int_equal(ptah_pool_new(NULL, &s.config, 1, &pool, NULL), PTAH_E_INVAL);
	s.config.buffer = 5000;
	assert_int_equal(ptah_pool_new(s.rig.engine, &s.config, 2, &pool, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "buffer");
	s.config.buffer = 65536;
	s.config.region = 65536;
	for (n = 1;; n++) {
		int status;

		ptah_machine_fail_alloc(s.rig.machine, n);
		status = ptah_pool_new(s.rig.engine, &s.config, 3, &pool, &problem);
		if (status == PTAH_OK)
			break;
		assert_int_equal(status, PTAH_E_NOMEM);
		assert_null(pool);
		assert_int_equal(ptah_machine_allocated(s.rig.machine), before);
		assert_true(n < 50);
	}
	/* The pool's own, and four of each capture: itself, its lists, its region, its table. */
	assert_int_equal(n, 1 + 3 * 4 + 1);
	ptah_machine_fail_alloc(s.rig.machine, 0);
	s.pool = pool;
	s.allocated = ptah_machine_allocated(s.rig.machine);
	close_scene(&s);
}

/* Threads begin and end on several processors at a time. */

#define TURNS 400u

static struct {
	struct ptah_pool *pool;
	atomic_uint taken, refused;
	atomic_uint holder[3]; /* of each capture: 1 + the processor */
	struct ptah_capture *_Atomic seen[3];
} crowd;

/* Which of the pool's captures this is. */
static unsigned number_of(struct ptah_capture *c)
{
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct ptah_capture *none = NULL;

		if (atomic_compare_exchange_strong(&crowd.seen[i], &none, c) || none == c)
			return i;
	}
	fail_msg("a capture that is not the pool's");
	return 0;
}

static void begin_and_end(unsigned cpu)
{
	uint64_t mark = (uint64_t)(cpu + 1) << 32;
	unsigned turn;

	for (turn = 0; turn < TURNS; turn++) {
		struct ptah_capture *c = NULL;
		uint64_t irqs = live_irqs_off(), first = mark;
		int status = ptah_pool_take(crowd.pool, cpu, NULL, NULL, &c, NULL);
		unsigned n;

		if (status == PTAH_OK) {
			n = number_of(c);
			assert_int_equal(atomic_exchange(&crowd.holder[n], cpu + 1), 0);
			assert_int_equal(ptah_capture_position(c), 0);
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
			assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
		} else {
			assert_int_equal(status, PTAH_E_NOMEM);
			atomic_fetch_add(&crowd.refused, 1);
		}
		live_irqs_back(irqs);
		live_poll();
		if (status != PTAH_OK)
			continue;
		live_marks(&mark, 20);
		irqs = live_irqs_off();
		ptah_capture_switch_out(c);
		live_irqs_back(irqs);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_int_equal(rig_check(c, 0, ptah_capture_position(c), first, SIZE_MAX), mark);
		atomic_store(&crowd.holder[n], 0);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		atomic_fetch_add(&crowd.taken, 1);
	}
}

TEST(several_processors)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;

	memset(&crowd, 0, sizeof(crowd));
	live_open("skylake", 2, begin_and_end);
	config = rig_config(&live.rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	config.buffer = 8192;
	assert_int_equal(ptah_pool_new(live.rig.engine, &config, 3, &crowd.pool, NULL), PTAH_OK);
	atomic_store(&live.go, true);
	while (atomic_load(&live.working)) {
		struct ptah_capture *c = NULL;

		/* The third processor takes and returns without use, and looks for dead owners. */
		if (ptah_pool_take(crowd.pool, 99, NULL, NULL, &c, NULL) == PTAH_OK) {
			unsigned n = number_of(c);

			assert_int_equal(atomic_exchange(&crowd.holder[n], 100), 0);
			atomic_store(&crowd.holder[n], 0);
			assert_int_equal(ptah_engine_release_owner(live.rig.engine, 99), 1);
		}
		assert_int_equal(ptah_engine_release_owner(live.rig.engine, 98), 0);
		live_poll();
		sched_yield();
	}
	assert_true(atomic_load(&crowd.taken) > TURNS / 2);
	assert_int_equal(ptah_pool_left(crowd.pool), 3);
	assert_int_equal(ptah_pool_free(crowd.pool), PTAH_OK);
	live_close();
}
