/* SPDX-License-Identifier: MIT */
/* Formats of tracepoints, as Linux describes them, and what strangers may put in their place. */
#include "waits/recording.h"

#include "perfdata/tracing_data.h"

static const struct tracing_field *field_of(const struct tracing_format *format, const char *name)
{
	for (size_t i = 0; i < format->count; i++)
		if (!strcmp(format->fields[i].name, name))
			return &format->fields[i];
	fail_msg("no field %s", name);
	return NULL;
}

static void check_field(const struct tracing_format *format, const char *name, unsigned kind,
			unsigned place, uint32_t offset, uint32_t size, bool is_signed)
{
	const struct tracing_field *field = field_of(format, name);

	assert_int_equal(field->kind, kind);
	assert_int_equal(field->place, place);
	assert_int_equal(field->offset, offset);
	assert_int_equal(field->size, size);
	assert_int_equal(field->is_signed, is_signed);
}

/* The layouts are those of the format files that are in recording.h. */
TEST(test_kernel_formats)
{
	struct perfdata_buffer b = {0};
	struct tracing_formats formats;
	const struct tracing_format *f;

	put_tracing_data(&b);
	assert_false(tracing_formats_read(b.bytes, b.size, &formats));
	assert_int_equal(formats.count, 5);
	f = tracing_format_find(&formats, EVENT_SWITCH);
	assert_non_null(f);
	assert_string_equal(f->system, "sched");
	assert_string_equal(f->name, "sched_switch");
	assert_int_equal(f->common, 4);
	assert_int_equal(f->count, 4 + 7);
	check_field(f, "prev_comm", TRACING_TEXT, TRACING_FIXED, 8, 16, false);
	check_field(f, "prev_state", TRACING_NUMBER, TRACING_FIXED, 32, 8, true);
	check_field(f, "next_pid", TRACING_NUMBER, TRACING_FIXED, 56, 4, true);
	f = tracing_format_find(&formats, EVENT_ENTER);
	check_field(f, "args", TRACING_ARRAY, TRACING_FIXED, 16, 48, false);
	assert_int_equal(field_of(f, "args")->element, 8);
	f = tracing_format_find(&formats, EVENT_DATA);
	check_field(f, "data", TRACING_ARRAY, TRACING_DATA_LOC, 24, 4, false);
	assert_int_equal(field_of(f, "data")->element, 1);
	assert_null(tracing_format_find(&formats, 77));
	tracing_formats_free(&formats);
	perfdata_buffer_free(&b);
}

/* Wherever the data end, the formats before that are known. */
TEST(test_cut)
{
	struct perfdata_buffer b = {0};
	struct tracing_formats formats;
	size_t most = 0;

	put_tracing_data(&b);
	for (size_t n = 0; n <= b.size; n++) {
		assert_false(tracing_formats_read(b.bytes, n, &formats));
		assert_true(formats.count >= most);
		most = formats.count;
		tracing_formats_free(&formats);
	}
	assert_int_equal(most, 5);
	perfdata_buffer_free(&b);
}

/* A number that no event can have is not cut to one that it can have: the format is left out. */
TEST(test_large_number)
{
	struct perfdata_buffer b = {0};
	struct tracing_formats formats;
	uint8_t *at;

	put_tracing_data(&b);
	at = memmem(b.bytes, b.size, "ID: 4\nformat:\n", 14);
	assert_non_null(at);
	memcpy(at, "ID: 1000000004", 14);
	assert_false(tracing_formats_read(b.bytes, b.size, &formats));
	assert_int_equal(formats.count, 4);
	assert_null(tracing_format_find(&formats, 100000000));
	tracing_formats_free(&formats);
	perfdata_buffer_free(&b);
}

/* "__data_loc": a u32 whose high half is the length, whose low half is where; "__rel_loc" counts
 * from its own end. */
TEST(test_places)
{
	static const uint8_t raw[16] = {[8] = 3, [9] = 0, [10] = 4, [12] = 'a', [13] = 'b'};
	const struct tracing_field fixed = {.offset = 12, .size = 4};
	const struct tracing_field late = {.offset = 14, .size = 4};
	const struct tracing_field data = {.offset = 8, .size = 4, .place = TRACING_DATA_LOC};
	const struct tracing_field rel = {.offset = 8, .size = 4, .place = TRACING_REL_LOC};
	size_t n;

	assert_ptr_equal(tracing_field_bytes(&fixed, raw, sizeof(raw), &n), raw + 12);
	assert_int_equal(n, 4);
	assert_null(tracing_field_bytes(&late, raw, sizeof(raw), &n));
	assert_ptr_equal(tracing_field_bytes(&data, raw, sizeof(raw), &n), raw + 3);
	assert_int_equal(n, 4);
	/* 12 + 3 + 4 is behind the end. */
	assert_null(tracing_field_bytes(&rel, raw, sizeof(raw), &n));
	assert_int_equal(n, 0);
}
