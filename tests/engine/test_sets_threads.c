/* SPDX-License-Identifier: MIT */
/*
 * Sets of captures on a machine with one thread for each processor: starts that meet on all of
 * them, and processors that go offline and come back meanwhile.
 */
#include "engine/live.h"

#include <ptah/engine/captures.h>

#include "base/compiler.h"

#include <stdio.h>
#include <time.h>

static struct {
	struct ptah_captures *set;
	uint64_t written[LIVE_CPUS]; /* marks */
	uint64_t mask;
	void (*work)(void *argument);
	atomic_bool begun; /* on another processor */
	bool churn;	   /* processors go offline and come back */
	atomic_uint returns;
} joint;

/* Goes offline and comes back: still reachable in between, as a processor is at either end. */
static void leave_and_return(unsigned turn)
{
	uint64_t irqs = live_irqs_off();

	if (turn & 1)
		ptah_engine_cpu_online(live.rig.engine);
	else
		ptah_engine_cpu_offline(live.rig.engine);
	live_irqs_back(irqs);
	atomic_fetch_add(&joint.returns, turn & 1);
}

static void write_marks(unsigned cpu)
{
	unsigned turn;

	for (turn = 0; !atomic_load(&live.over); turn++) {
		live_poll();
		if (joint.churn && turn % 8 == 0)
			leave_and_return(turn / 8);
		live_marks(&joint.written[cpu], 20);
		/* Those of the set need the host's processors. */
		if (joint.mask >> cpu & 1)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
}

static void begin_work(void *argument)
{
	atomic_store(&joint.begun, true);
	joint.work(argument);
}

/* Sends the interrupt to all, runs the work here once another one has begun, and waits for all. */
static int live_run_on_all(void *port, const uint64_t *mask, void (*work)(void *argument),
			   void *argument)
{
	unsigned n;

	joint.work = work;
	atomic_store(&joint.begun, false);
	for (n = 0; n < LIVE_CPUS; n++) {
		struct live_mail *mail = &live.mail[n];

		if (n == live_cpu || !(mask[0] >> n & 1))
			continue;
		while (atomic_exchange(&mail->taken, true))
			sched_yield();
		mail->argument = argument;
		atomic_store(&mail->done, false);
		atomic_store(&mail->work, begin_work);
	}
	while (!atomic_load(&joint.begun))
		sched_yield();
	/* By now the other one would have gone on, if it did not wait; it waits eight times as
	 * long. */
	for (n = 0; n < 1024; n++)
		SPIN_PAUSE();
	if (mask[0] >> live_cpu & 1)
		live.inner.run_on(port, live_cpu, work, argument);
	for (n = 0; n < LIVE_CPUS; n++) {
		if (n == live_cpu || !(mask[0] >> n & 1))
			continue;
		while (!atomic_load(&live.mail[n].done))
			sched_yield();
		atomic_store(&live.mail[n].taken, false);
	}
	return PTAH_OK;
}

static void consume_all(void)
{
	int cpu;

	for (cpu = ptah_captures_next(joint.set, -1); cpu >= 0;
	     cpu = ptah_captures_next(joint.set, cpu)) {
		struct ptah_capture *c = ptah_captures_get(joint.set, (unsigned)cpu);

		assert_int_equal(ptah_capture_consume(c, ptah_capture_position(c), NULL), PTAH_OK);
	}
}

/*
 * Starts and stops processors that run at the same time; `meet`: until they have met in several of
 * 40 rounds, however busy the host is. If they did not wait for each other that would be an
 * accident.
 */
static void play_together(uint64_t mask, bool all, bool meet, bool churn)
{
	struct ptah_captures_config config = {
	    .size = sizeof(config), .mask = &mask, .words = 1, .offline = churn};
	struct ptah_captures_status s = {.size = sizeof(s)};
	time_t end = time(NULL) + 30;
	struct ptah_capture_config capture;
	struct ptah_trace_config trace;
	unsigned round, met = 0, most = 0, n;

	memset(&joint, 0, sizeof(joint));
	joint.mask = mask;
	joint.churn = churn;
	live_open("skylake", 2, write_marks);
	if (all)
		live.rig.hal.run_on_all = live_run_on_all;
	live.rig.hal.log = NULL; /* the machine keeps one line, for one thread */
	capture = rig_config(&live.rig, &trace);
	capture.policy = PTAH_POLICY_DRAIN;
	config.capture = &capture;
	assert_int_equal(ptah_captures_new(live.rig.engine, &config, &joint.set, NULL), PTAH_OK);
	atomic_store(&live.go, true);
	for (round = 0; round < 40 || (churn && atomic_load(&joint.returns) < 40) ||
			(meet && most <= 5 && time(NULL) < end);
	     round++) {
		if (round % 40 == 0)
			met = 0;
		assert_int_equal(ptah_captures_start(joint.set, NULL), PTAH_OK);
		assert_int_equal(ptah_captures_status(joint.set, &s), PTAH_OK);
		met += s.began.together;
		most = met > most ? met : most;
		if (round % 3 == 0)
			assert_int_equal(ptah_captures_flush(joint.set), PTAH_OK);
		if (round % 5 == 0) {
			assert_int_equal(ptah_captures_pause(joint.set), PTAH_OK);
			assert_int_equal(ptah_captures_resume(joint.set, NULL), PTAH_OK);
		}
		if (round % 7 == 0) {
			trace.no_retcomp = !trace.no_retcomp;
			assert_int_equal(ptah_captures_reconfigure(joint.set, &trace, NULL),
					 PTAH_OK);
		}
		consume_all();
		assert_int_equal(ptah_captures_stop(joint.set), PTAH_OK);
	}
	print_message("%u rounds, met in %u of 40\n", round, most);
	assert_true((!meet || most > 5) && (all || !most));
	for (n = 0; n < LIVE_CPUS; n++) {
		struct ptah_capture *c = ptah_captures_get(joint.set, n);

		assert_int_equal(!!c, mask >> n & 1);
		if (c)
			assert_int_equal(ptah_capture_position(c), rig_output(&live.rig, n));
	}
	assert_int_equal(ptah_captures_free(joint.set), PTAH_OK);
	live_close();
}

TEST(played_together)
{
	play_together(0x3, true, false, false);
	play_together(0x6, true, true, false); /* this thread, and one other */
	play_together(0x7, false, false, false);
	play_together(0x3, true, false, true);
	play_together(0x7, false, false, true);
}
