/* SPDX-License-Identifier: MIT */
/*
 * Two processors that run two traced threads, and a third that controls and
 * consumes, each played by a thread of its own: run it under ThreadSanitizer.
 * Inter-processor interrupts are mailboxes that a processor looks into between
 * two instructions, as a processor does.
 */
#include "engine/rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define CPUS	3u
#define CONTROL 2u
#define TURNS	4000u

static _Thread_local unsigned this_cpu;

struct mail {
	void (*_Atomic work)(void *argument);
	void *argument;
	atomic_bool taken; /* by a sender */
	atomic_bool done;
};

struct world {
	struct rig rig;
	struct ptah_hal inner;
	struct mail mail[CPUS];
	struct ptah_capture *capture[2];
	atomic_bool running[2]; /* the thread has a processor */
	uint64_t written[2];	/* marks, by whoever runs it */
	atomic_uint working;	/* processors that have turns left */
	atomic_bool go, over;
};

static struct world world;

static unsigned which(void *argument)
{
	(void)argument;
	return this_cpu;
}

/* Between two instructions: is there an interrupt? It runs with interrupts off. */
static void poll(void)
{
	struct mail *mail = &world.mail[this_cpu];
	void (*work)(void *) = atomic_load(&mail->work);
	uint64_t irqs;

	if (!work)
		return;
	irqs = world.rig.hal.irq_save(world.rig.machine);
	work(mail->argument);
	world.rig.hal.irq_restore(world.rig.machine, irqs);
	atomic_store(&mail->work, NULL);
	atomic_store(&mail->done, true);
}

static int run_on(void *port, unsigned cpu, void (*work)(void *argument), void *argument)
{
	struct mail *mail = &world.mail[cpu];

	if (cpu == this_cpu)
		return world.inner.run_on(port, cpu, work, argument);
	while (atomic_exchange(&mail->taken, true)) {
		poll();
		sched_yield();
	}
	mail->argument = argument;
	atomic_store(&mail->done, false);
	atomic_store(&mail->work, work);
	while (!atomic_load(&mail->done)) {
		poll();
		sched_yield();
	}
	atomic_store(&mail->taken, false);
	return PTAH_OK;
}

static void put(unsigned who, unsigned n)
{
	uint8_t mark[MARK];

	for (; n && rig_enabled(&world.rig, this_cpu); n--) {
		rig_write_mark(mark, world.written[who]++);
		ptah_machine_put(world.rig.machine, this_cpu, mark, MARK);
	}
}

/* A processor: runs one of the two threads for a while, then the other. */
static void *worker(void *argument)
{
	struct ptah_machine *machine = world.rig.machine;
	unsigned turn;
	uint64_t irqs;

	this_cpu = (unsigned)(uintptr_t)argument;
	while (!atomic_load(&world.go))
		poll();
	for (turn = 0; turn < TURNS; turn++) {
		unsigned who = (turn + this_cpu) & 1;

		poll();
		if (atomic_exchange(&world.running[who], true)) {
			sched_yield();
			continue;
		}
		irqs = world.rig.hal.irq_save(machine);
		if (ptah_capture_switch_in(world.capture[who]) != PTAH_OK)
			abort();
		world.rig.hal.irq_restore(machine, irqs);
		put(who, turn % 97);
		poll();
		put(who, turn % 13);
		irqs = world.rig.hal.irq_save(machine);
		ptah_capture_switch_out(world.capture[who]);
		world.rig.hal.irq_restore(machine, irqs);
		atomic_store(&world.running[who], false);
	}
	atomic_fetch_sub(&world.working, 1);
	while (!atomic_load(&world.over)) {
		poll();
		sched_yield();
	}
	return NULL;
}

struct reader {
	uint64_t next; /* mark */
	uint64_t tail;
	uint32_t flags;
	uint8_t rest[MARK];
	size_t n;
};

/* Marks that come in order; what lies between them is no mark. */
static void read_bytes(struct reader *r, const uint8_t *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (r->n == MARK) {
			memmove(r->rest, r->rest + 1, MARK - 1);
			r->n--;
		}
		r->rest[r->n++] = bytes[i];
		if (r->n < MARK || !rig_is_mark(r->rest))
			continue;
		/* Where a region with STOP ended it, some may be missing. */
		if (r->flags & PTAH_RECORD_TRUNCATED)
			assert_true(rig_number(r->rest) >= r->next);
		else
			assert_int_equal(rig_number(r->rest), r->next);
		r->next = rig_number(r->rest) + 1;
		r->n = 0;
	}
}

static void consume(struct ptah_capture *c, struct reader *r)
{
	uint64_t position = ptah_capture_position(c), lost;
	struct ptah_capture_status s;
	uint8_t *bytes;

	s = rig_status(c);
	assert_int_equal(s.tail, r->tail);
	bytes = rig_bytes(c, r->tail, position);
	r->flags |= rig_flags(c);
	read_bytes(r, bytes, (size_t)(position - r->tail));
	free(bytes);
	r->tail = position;
	assert_int_equal(ptah_capture_consume(c, position, &lost), PTAH_OK);
	assert_int_equal(lost, 0);
}

static void open_world(const char *processor)
{
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = CPUS,
	    .processor = ptah_model_find(processor),
	    .arena_size = RIG_ARENA,
	    .physical = 0x10000000,
	    .which = which,
	};

	memset(&world, 0, sizeof(world));
	this_cpu = CONTROL;
	world.rig.machine = calloc(1, ptah_machine_size(CPUS));
	world.rig.arena = aligned_alloc(4096, RIG_ARENA);
	assert_non_null(world.rig.machine);
	assert_non_null(world.rig.arena);
	config.arena = world.rig.arena;
	assert_int_equal(ptah_machine_init(world.rig.machine, &config), PTAH_OK);
	ptah_machine_hal(world.rig.machine, &world.rig.hal);
	world.inner = world.rig.hal;
	world.rig.hal.run_on = run_on;
}

/* With the processors there: the engine asks each what it can do. */
static void open_captures(uint8_t policy, bool no_xsaves)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	unsigned who;

	assert_int_equal(ptah_engine_new(&world.rig.hal, world.rig.machine, &world.rig.engine),
			 PTAH_OK);
	ptah_machine_on_pmi(world.rig.machine, rig_pmi, &world.rig);
	config = rig_config(&world.rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	config.policy = policy;
	config.no_xsaves = no_xsaves;
	config.records = 1024;
	for (who = 0; who < 2; who++) {
		world.capture[who] = rig_capture(&world.rig, &config);
		assert_int_equal(ptah_capture_start(world.capture[who]), PTAH_OK);
	}
}

/* What the third processor does meanwhile: it consumes, pauses, looks. */
static void control(struct reader reader[2])
{
	unsigned round;

	for (round = 0; atomic_load(&world.working); round++) {
		struct ptah_capture *c = world.capture[round & 1];

		poll();
		if (round % 7 == 0)
			assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		if (round % 31 == 0) {
			assert_int_equal(ptah_capture_pause(c), PTAH_OK);
			assert_int_equal(ptah_capture_resume(c), PTAH_OK);
		}
		consume(c, &reader[round & 1]);
		sched_yield();
	}
}

static void play(const char *processor, bool no_xsaves)
{
	struct reader reader[2] = {0};
	pthread_t thread[2];
	uint64_t sum = 0;
	unsigned who;

	open_world(processor);
	atomic_store(&world.working, 2);
	for (who = 0; who < 2; who++)
		assert_int_equal(pthread_create(&thread[who], NULL, worker, (void *)(uintptr_t)who),
				 0);
	open_captures(PTAH_POLICY_DRAIN, no_xsaves);
	atomic_store(&world.go, true);
	control(reader);
	for (who = 0; who < 2; who++) {
		assert_int_equal(ptah_capture_stop(world.capture[who]), PTAH_OK);
		consume(world.capture[who], &reader[who]);
		sum += ptah_capture_position(world.capture[who]);
		assert_true(reader[who].next > 1000);
		if (!(reader[who].flags & PTAH_RECORD_TRUNCATED))
			assert_int_equal(reader[who].next, world.written[who]);
		assert_false(reader[who].flags &
			     (PTAH_RECORD_PARTIAL | PTAH_RECORD_ERROR | PTAH_RECORD_UNSURE));
	}
	assert_int_equal(atomic_load(&world.rig.foreign), 0);
	assert_int_equal(sum, rig_output(&world.rig, 0) + rig_output(&world.rig, 1));
	for (who = 0; who < 2; who++)
		assert_int_equal(ptah_capture_free(world.capture[who]), PTAH_OK);
	atomic_store(&world.over, true);
	for (who = 0; who < 2; who++)
		pthread_join(thread[who], NULL);
	rig_close(&world.rig);
}

static void by_xsaves(void **state)
{
	(void)state;
	play("skylake", false);
}

static void by_msrs(void **state)
{
	(void)state;
	play("skylake", true);
}

static void one_region_at_a_time(void **state)
{
	(void)state;
	play("minimal", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_xsaves),
	    cmocka_unit_test(by_msrs),
	    cmocka_unit_test(one_region_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
