/* SPDX-License-Identifier: MIT */
/* Samples of other events: their order, their threads, and their fields. */
#include "waits/recording.h"
#include "session/samples.h"

static struct ptah_sample sample_at(const struct ptah_session *s, size_t i)
{
	struct ptah_sample sample = {.size = sizeof(sample)};

	assert_false(ptah_session_sample(s, i, &sample));
	return sample;
}

static uint64_t number_of(const struct ptah_session *s, const struct ptah_sample *sample,
			  const char *name)
{
	struct ptah_sample_field field = {.size = sizeof(field)};

	assert_false(sample_find_field(s, sample, name, &field));
	return field.number;
}

/* Sorted by time, wherever they are in the file; those of a thread one after the other. */
TEST(test_order)
{
	struct perfdata_buffer b = {0};
	struct ptah_session *s;
	struct ptah_sample sample;
	size_t i;

	recording_begin(&b);
	put_exit(&b, 1, 11, 3000, 0, 5);
	put_enter(&b, 1, 12, 1000, 1, NULL);
	put_switch(&b, 1, 11, 2000, true, true);
	s = recording_open(&b);
	assert_int_equal(ptah_session_samples(s), 3);
	assert_int_equal(sample_at(s, 0).tid, 12);
	assert_int_equal(sample_at(s, 1).kind, PTAH_SAMPLE_SWITCH_PREEMPTED);
	sample = sample_at(s, 2);
	assert_int_equal(sample.time, 3000);
	/* The clock of this recording is the TSC. */
	assert_int_equal(sample.tsc, 3000);
	assert_int_equal((int64_t)number_of(s, &sample, "ret"), 5);
	i = ptah_session_next_sample(s, 11, SIZE_MAX);
	assert_int_equal(i, 1);
	i = ptah_session_next_sample(s, 11, i);
	assert_int_equal(i, 2);
	assert_true(ptah_session_next_sample(s, 11, i) == SIZE_MAX);
	assert_true(ptah_session_next_sample(s, 99, SIZE_MAX) == SIZE_MAX);
	ptah_session_close(s);
}

/* The fields of the format, without the common ones; events without names have the format's. */
TEST(test_fields)
{
	struct ptah_sample_event event = {.size = sizeof(event)};
	struct ptah_sample_field field = {.size = sizeof(field)};
	struct perfdata_buffer b = {0};
	struct ptah_sample sample;
	struct ptah_session *s;

	recording_begin(&b);
	put_wakeup(&b, 1, 11, 1000, 4711);
	put_data(&b, 1, 11, 2000, 257, 1, 0, "/x", 3);
	s = recording_open(&b);
	sample = sample_at(s, 0);
	assert_false(ptah_session_event(s, sample.event, &event));
	assert_string_equal(event.name, "sched:sched_wakeup");
	assert_int_equal(event.samples, 1);
	assert_int_equal(event.fields, 4);
	assert_false(ptah_sample_field(s, &sample, 0, &field));
	assert_string_equal(field.name, "comm");
	assert_int_equal(field.kind, PTAH_FIELD_TEXT);
	assert_int_equal(field.count, 5);
	assert_memory_equal(field.bytes, "woken", 5);
	assert_false(ptah_sample_field(s, &sample, 1, &field));
	assert_int_equal(field.number, 4711);
	assert_int_equal(ptah_sample_field(s, &sample, 4, &field), PTAH_E_MISSING);
	assert_int_equal(number_of(s, &sample, "common_pid"), 11);
	sample = sample_at(s, 1);
	assert_false(sample_find_field(s, &sample, "data", &field));
	assert_int_equal(field.kind, PTAH_FIELD_ARRAY);
	assert_int_equal(field.count, 3);
	assert_memory_equal(field.bytes, "/x", 3);
	ptah_session_close(s);
}

/* perf's `-e EVENT/aux-action=pause/`: the attribute says what its samples did to the trace. */
TEST(test_aux_actions)
{
	struct ptah_sample_event event = {.size = sizeof(event)};
	struct perfdata_buffer b = {0};
	struct ptah_sample sample;
	struct ptah_session *s;
	uint8_t *attr;

	recording_begin(&b);
	put_enter(&b, 1, 11, 1000, 1, NULL);
	put_exit(&b, 1, 11, 2000, 1, 0);
	/* A record for each event: its header, the attribute, an id. */
	attr = memmem(b.bytes, b.size, "\x40\0\0\0\0\0\x88\0", 8);
	assert_non_null(attr);
	store_le32(attr + 8 + EVENT_PT * 136 + 116, 1);
	store_le32(attr + 8 + EVENT_ENTER * 136 + 116, 4);
	store_le32(attr + 8 + EVENT_EXIT * 136 + 116, 2);
	s = recording_open(&b);
	assert_false(ptah_session_event(s, EVENT_PT, &event));
	assert_int_equal(event.aux_action, 1);
	sample = sample_at(s, 0);
	assert_false(ptah_session_event(s, sample.event, &event));
	assert_int_equal(event.aux_action, 4);
	sample = sample_at(s, 1);
	assert_false(ptah_session_event(s, sample.event, &event));
	assert_int_equal(event.aux_action, 2);
	assert_false(ptah_session_event(s, EVENT_WAKEUP, &event));
	assert_int_equal(event.aux_action, 0);
	ptah_session_close(s);
}
