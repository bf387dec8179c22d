/* SPDX-License-Identifier: MIT */
/* JSON files: what is refused, with which words; numbers of 64 bits; members with several names. */
#include "test.h"

#include "traceset/json_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ptah_message why;

static void write_file(const void *bytes, size_t n)
{
	FILE *f = fopen("t.json", "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static int open_text(struct json_file *file, const char *text, struct json_value *document)
{
	write_file(text, strlen(text));
	return json_file_open(file, "t.json", &why, document);
}

static void refused(const char *text, const char *message)
{
	struct json_value document;
	struct json_file file;

	*why.text = '\0';
	assert_int_equal(open_text(&file, text, &document), PTAH_E_BAD_FILE);
	if (strncmp(why.text, message, strlen(message)) != 0)
		fail_msg("%s, expected %s", why.text, message);
}

TEST(no_json)
{
	refused("", "t.json:1:1: no valid JSON: the file ends too early");
	refused("{\"a\": [1,\n 2", "t.json:2:3: no valid JSON: the file ends too early");
	refused("{\"a\":\n [1 2]}", "t.json:2:5: no valid JSON: ");
	refused("{} {}", "t.json:1:4: no valid JSON: ");
	refused("\xff", "t.json:1:1: no valid JSON: ");
}

TEST(nesting)
{
	struct json_value document;
	struct json_file file;
	char *text = malloc(2000001);

	assert_non_null(text);
	memset(text, '[', 1000000);
	memset(text + 1000000, ']', 1000000);
	text[2000000] = '\0';
	refused(text, "t.json:1:33: no valid JSON: nesting too deep");
	memset(text, '[', 31);
	memset(text + 31, ']', 31);
	text[62] = '\0';
	assert_int_equal(open_text(&file, text, &document), 0);
	json_file_close(&file);
	free(text);
}

/* [{},{},{}] */
static void write_objects(size_t n)
{
	char *text = malloc(3 * n + 2);

	assert_non_null(text);
	text[0] = '[';
	for (size_t i = 0; i < n; i++)
		memcpy(text + 1 + 3 * i, i + 1 < n ? "{}," : "{}]", 3);
	write_file(text, 3 * n + 1);
	free(text);
}

TEST(size)
{
	struct json_value document;
	struct json_file file;

	write_file("{}", 2);
	assert_int_equal(truncate("t.json", JSON_FILE_MAX + 1), 0);
	assert_int_equal(json_file_open(&file, "t.json", &why, &document), PTAH_E_LIMIT);
	assert_non_null(strstr(why.text, "t.json: 4194305 bytes"));
	write_objects(JSON_FILE_MAX_OBJECTS + 1);
	assert_int_equal(json_file_open(&file, "t.json", &why, &document), PTAH_E_LIMIT);
	assert_non_null(strstr(why.text, "t.json: 65537 objects"));
	write_objects(JSON_FILE_MAX_OBJECTS);
	assert_int_equal(json_file_open(&file, "t.json", &why, &document), 0);
	json_file_close(&file);
	unlink("t.json");
	assert_int_equal(mkfifo("t.json", 0600), 0);
	assert_int_equal(json_file_open(&file, "t.json", &why, &document), PTAH_E_BAD_FILE);
	unlink("t.json");
	assert_int_equal(json_file_open(&file, "t.json", &why, &document), PTAH_E_SYSTEM);
	assert_int_equal(strncmp(why.text, "t.json: cannot open", 19), 0);
}

static void number(const char *text, uint64_t min, uint64_t max, int status, uint64_t expected)
{
	struct json_value document;
	struct json_file file;
	uint64_t n = 0;

	if (open_text(&file, text, &document) < 0)
		fail_msg("%s: %s", text, why.text);
	assert_int_equal(json_value_number(&document, min, max, &n), status);
	if (!status)
		assert_int_equal(n, expected);
	json_file_close(&file);
}

TEST(numbers)
{
	number("18433473881008870804 ", 0, UINT64_MAX, 0, UINT64_C(18433473881008870804));
	number("\"18446744073709551615\"", 0, UINT64_MAX, 0, UINT64_MAX);
	number("\"0xFFFFffff81000000\"", 0, UINT64_MAX, 0, UINT64_C(0xffffffff81000000));
	number("0 ", 0, 5, 0, 0);
	number("5 ", 0, 5, 0, 5);
	number("6 ", 0, 5, PTAH_E_BAD_FILE, 0);
	number("0 ", 1, 5, PTAH_E_BAD_FILE, 0);
	number("-1 ", 0, UINT64_MAX, PTAH_E_BAD_FILE, 0);
	number("18446744073709551616 ", 0, UINT64_MAX, PTAH_E_BAD_FILE, 0);
	number("-9223372036854775809 ", 0, UINT64_MAX, PTAH_E_BAD_FILE, 0);
	number("1e400 ", 0, UINT64_MAX, PTAH_E_BAD_FILE, 0);
	number("1.0 ", 0, 5, PTAH_E_BAD_FILE, 0);
	number("true ", 0, 5, PTAH_E_BAD_FILE, 0);
	number("\"18446744073709551616\"", 0, UINT64_MAX, PTAH_E_BAD_FILE, 0);
	number("\"\"", 0, 5, PTAH_E_BAD_FILE, 0);
	number("\"0x\"", 0, 5, PTAH_E_BAD_FILE, 0);
	number("\" 1\"", 0, 5, PTAH_E_BAD_FILE, 0);
	number("\"-1\"", 0, 5, PTAH_E_BAD_FILE, 0);
	number("\"1\\u0000\"", 0, 5, PTAH_E_BAD_FILE, 0);
}

TEST(places)
{
	static const char *const a[] = {"new", "a", NULL}, *const t[] = {"t", NULL};
	struct json_value document, list, element, member;
	struct json_file file;
	const char *text;
	uint64_t n;
	size_t count;

	assert_int_equal(
	    open_text(&file, "{\"a\": [{\"t\": {}}, {\"t\": \"\\u001b\\u0000\"}, 7]}", &document),
	    0);
	assert_int_equal(json_value_member(&document, a, &list), 0);
	assert_int_equal(json_value_count(&list, &count), 0);
	assert_int_equal(count, 3);
	json_value_element(&list, 0, &element);
	assert_int_equal(json_value_member(&element, t, &member), 0);
	assert_int_equal(json_value_number(&member, 0, 9, &n), PTAH_E_BAD_FILE);
	assert_string_equal(why.text,
			    "t.json: a[0].t: expected a whole number from 0 to 9, found an object");
	json_value_element(&list, 1, &element);
	assert_int_equal(json_value_member(&element, t, &member), 0);
	assert_int_equal(json_value_number(&member, 0, 9, &n), PTAH_E_BAD_FILE);
	assert_string_equal(why.text,
			    "t.json: a[1].t: expected a whole number from 0 to 9, found ?");
	assert_int_equal(json_value_text(&member, &text), PTAH_E_BAD_FILE);
	assert_string_equal(why.text, "t.json: a[1].t: a string with a NUL character");
	json_value_element(&list, 2, &element);
	assert_int_equal(json_value_member(&element, t, &member), PTAH_E_BAD_FILE);
	assert_string_equal(why.text, "t.json: a[2]: expected an object, found 7");
	/* The name of what is missing is the first one. */
	assert_int_equal(
	    json_value_member(&document, (const char *const[]){"new", "old", NULL}, &member), 0);
	assert_int_equal(json_value_text(&member, &text), PTAH_E_BAD_FILE);
	assert_string_equal(why.text, "t.json: new: a string is missing");
	json_file_close(&file);
}

static int make_folder(void **state)
{
	static char folder[] = "ptah-test-XXXXXX";

	(void)state;
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char folder[4096];

	(void)state;
	unlink("t.json");
	return getcwd(folder, sizeof(folder)) && !rmdir(folder) ? 0 : -1;
}

TEST_GROUP(make_folder, remove_folder)
