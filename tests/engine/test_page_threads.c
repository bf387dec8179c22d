/* SPDX-License-Identifier: MIT */
/*
 * A companion that reads a capture's page and buffer on a processor of its own, while
 * another one traces: it gets the marks in order, and misses some only where it has
 * found a loss. ThreadSanitizer runs this test, and so checks the order of the accesses
 * to the page.
 */
#include "engine/companion.h"
#include "engine/live.h"

#define OWNER 7u

static struct {
	struct ptah_capture *c;
	struct companion m;
	struct live_reader marks;
	struct ptah_trace_config trace;
	uint64_t written;
} race;

static void produce(unsigned cpu)
{
	unsigned round;

	if (cpu)
		return;
	for (round = 0; round < 2000; round++) {
		live_poll();
		live_marks(&race.written, 1 + round * 7 % 90);
		if (round % 8 == 0)
			sched_yield();
	}
}

static void got_marks(void *argument, uint64_t from, const uint8_t *bytes, uint64_t n)
{
	(void)argument;
	if (from != race.marks.tail)
		live_lose(&race.marks, from - race.marks.tail);
	live_read(&race.marks, bytes, (size_t)n);
	race.marks.tail = from + n;
}

static void race_step(void)
{
	struct ptah_capture_record record;

	while (ptah_capture_reader_record(&race.m.r, &record)) {
		race.marks.flags |= record.flags;
		race.marks.cuts +=
		    (record.flags & (PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_FULL)) != 0;
	}
	companion_step(&race.m, UINT64_MAX / 2);
	if (race.m.sync)
		assert_int_equal(ptah_capture_page_sync(race.c), PTAH_OK);
	race.m.sync = false;
}

static void races(const char *processor, uint8_t policy, size_t buffer)
{
	struct ptah_capture_config config;
	struct ptah_capture_status s;
	unsigned round;

	memset(&race, 0, sizeof(race));
	live_open(processor, 2, produce);
	config = rig_config(&live.rig, &race.trace);
	config.policy = policy;
	config.buffer = buffer;
	config.region = 4096;
	config.records = 1024;
	race.c = rig_capture(&live.rig, &config);
	companion_open(&race.m, live.rig.machine, race.c, OWNER);
	race.m.read = got_marks;
	assert_int_equal(ptah_capture_start(race.c), PTAH_OK);
	atomic_store(&live.go, true);
	for (round = 0; atomic_load(&live.working); round++) {
		live_poll();
		race_step();
		if (policy == PTAH_POLICY_STOP && rig_status(race.c).state == PTAH_CAPTURE_FULL)
			ptah_capture_start(race.c);
		if (round % 3)
			sched_yield();
	}
	assert_int_equal(ptah_capture_stop(race.c), PTAH_OK);
	s = rig_status(race.c);
	for (round = 0; round < 100 && (race.m.next < s.position || race.m.step); round++)
		race_step();
	assert_int_equal(race.m.next, s.position);
	assert_int_equal(s.position, rig_output(&live.rig, 0));
	assert_int_equal(race.marks.lost, race.m.lost);
	assert_false(race.marks.flags &
		     (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_PARTIAL | PTAH_CAPTURED_UNSURE));
	if (policy == PTAH_POLICY_WRAP) {
		assert_true(race.marks.skipped <= race.marks.losses);
		assert_int_equal(race.marks.next, race.written);
	} else {
		assert_int_equal(race.m.lost, 0);
		assert_true(race.marks.skipped <= race.marks.cuts);
	}
	companion_close(&race.m, race.c);
	assert_int_equal(ptah_capture_free(race.c), PTAH_OK);
	live_close();
}

TEST(racing)
{
	races("skylake", PTAH_POLICY_DRAIN, 65536);
	races("minimal", PTAH_POLICY_DRAIN, 65536);
	races("skylake", PTAH_POLICY_DRAIN, 8192);
	races("skylake", PTAH_POLICY_WRAP, 1 << 18);
	races("skylake", PTAH_POLICY_WRAP, 16384);
	races("minimal", PTAH_POLICY_WRAP, 32768);
	races("skylake", PTAH_POLICY_STOP, 65536);
}
