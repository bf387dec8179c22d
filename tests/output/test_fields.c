/* SPDX-License-Identifier: MIT */
/* One description of a table as TSV and JSON: names, order, fields not requested, missing values.
 */
#include "test.h"

#include "output/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct row {
	int32_t pid;
	uint64_t count, ip, extra, time;
	double share;
	bool has_ip;
	const char *name;
};

static const struct field fields[] = {
    FIELD_JSON(struct row, "name", FIELD_STRING, name),
    FIELD(struct row, "pid", FIELD_SIGNED, pid),
    FIELD_TWO(struct row, "executed", "count", FIELD_NUMBER, count),
    {"ip", "ip", FIELD_ADDRESS, offsetof(struct row, ip), 0, offsetof(struct row, has_ip)},
    {"extra", "extra", FIELD_NUMBER, offsetof(struct row, extra), 4, 0},
    FIELD(struct row, "share", FIELD_REAL, share),
    {"time_s", "time_s", FIELD_SECONDS, offsetof(struct row, time), 8, 0},
    FIELD_TSV(struct row, "name", FIELD_STRING, name),
};

static const struct row_type type = ROW_TYPE(fields);

static const struct row rows[] = {
    {-1, 7, 0x401000, 9, 1, 0.5, true, "a\tb"},
    {12, UINT64_MAX, 0, 9, UINT64_MAX, 100, false, NULL},
};

/* Writes both rows, and copies the result into `text`. */
static void write_rows(bool json, unsigned asked, char *text, size_t n)
{
	char path[] = "/tmp/ptah-rows-XXXXXX";
	struct ptah_message why;
	struct json j;
	struct out *out;
	FILE *f;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(out_open(path, &out, &why), 0);
	if (!json)
		fields_tsv_head(out, &type, asked);
	json_init(&j, out);
	for (size_t i = 0; i < 2; i++) {
		if (json)
			fields_json(&j, &type, asked, &rows[i]);
		else
			fields_tsv(out, &type, asked, &rows[i]);
	}
	assert_int_equal(out_close(out, &why), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	text[fread(text, 1, n - 1, f)] = '\0';
	fclose(f);
	unlink(path);
}

TEST(test_tsv)
{
	char text[512];

	write_rows(false, 0, text, sizeof(text));
	assert_string_equal(text, "pid\texecuted\tip\tshare\tname\n"
				  "-1\t7\t0x401000\t0.500\ta?b\n"
				  "12\t18446744073709551615\t\t100.000\t\n");
	write_rows(false, 4, text, sizeof(text));
	assert_non_null(strstr(text, "\tip\textra\tshare"));
	assert_non_null(strstr(text, "\t0x401000\t9\t0.500"));
}

TEST(test_json)
{
	char text[512];

	write_rows(true, 0, text, sizeof(text));
	assert_string_equal(text, "{\"name\": \"a\\u0009b\", \"pid\": -1, \"count\": 7, \"ip\": "
				  "\"0x401000\", \"share\": 0.500},"
				  "{\"name\": null, \"pid\": 12, \"count\": "
				  "18446744073709551615, \"share\": 100.000}");
	write_rows(true, 2 | 4, text, sizeof(text));
	assert_non_null(strstr(text, "\"extra\": 9"));
}

/* Nanoseconds are shown as seconds, without rounding. */
TEST(test_seconds)
{
	char text[512];

	write_rows(false, 8, text, sizeof(text));
	assert_non_null(strstr(text, "\ttime_s\t"));
	assert_non_null(strstr(text, "\t0.000000001\t"));
	assert_non_null(strstr(text, "\t18446744073.709551615\t"));
	write_rows(true, 8, text, sizeof(text));
	assert_non_null(strstr(text, "\"time_s\": 18446744073.709551615"));
}
