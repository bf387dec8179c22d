/* SPDX-License-Identifier: MIT */
/* Reads JSON files with json-c, which keeps integers of 64 bits exactly, and bounds their size. */
#include "traceset/json_file.h"

#include "base/text.h"
#include "perfdata/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_json_file_bytes(int fd, const char *path, char *bytes, size_t size, size_t *n,
				struct ptah_message *why)
{
	for (*n = 0; *n < size;) {
		ssize_t k = read(fd, bytes + *n, size - *n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return perfdata_system_message(why, errno, path, "read");
		if (!k)
			break;
		*n += (size_t)k;
	}
	return 0;
}

/* Reads the whole file. A pipe or a device is refused: it could be endless. */
static int read_text(const char *path, char **text, size_t *n, struct ptah_message *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), status;
	struct stat st;

	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		status = perfdata_message(why, PTAH_E_BAD_FILE, "%s: not a regular file", path);
	else if (st.st_size > JSON_FILE_MAX)
		status = perfdata_message(why, PTAH_E_LIMIT,
					  "%s: %" PRIu64 " bytes of JSON; at most %u are read",
					  path, (uint64_t)st.st_size, JSON_FILE_MAX);
	else if (!(*text = malloc((size_t)st.st_size + 1)))
		status = PTAH_E_NOMEM;
	else
		status = read_json_file_bytes(fd, path, *text, (size_t)st.st_size, n, why);
	close(fd);
	if (status < 0)
		free(*text);
	return status;
}

static int fail_syntax(const char *path, const char *text, size_t at, size_t size, const char *what,
		       struct ptah_message *why)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < at && i < size; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	return perfdata_message(why, PTAH_E_BAD_FILE, "%s:%u:%u: no valid JSON: %s", path, line,
				column, what);
}

/* Counts "{", of which there are as many as objects, and those in strings. */
static int check_objects(const struct json_file *file, const char *text, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += text[i] == '{';
	return count <= JSON_FILE_MAX_OBJECTS
		   ? 0
		   : perfdata_message(file->why, PTAH_E_LIMIT,
				      "%s: %zu objects of JSON; at most %u are read", file->path,
				      count, JSON_FILE_MAX_OBJECTS);
}

static int parse(struct json_file *file, struct json_tokener *tokener, const char *text, size_t n)
{
	enum json_tokener_error error;
	size_t end;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	file->root = json_tokener_parse_ex(tokener, text, (int)n);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	if (error == json_tokener_success && end == n)
		return 0;
	json_object_put(file->root);
	if (error == json_tokener_success)
		return fail_syntax(file->path, text, end, n, "more text after the value",
				   file->why);
	if (error == json_tokener_continue)
		return fail_syntax(file->path, text, n, n, "the file ends too early", file->why);
	return fail_syntax(file->path, text, end, n, json_tokener_error_desc(error), file->why);
}

int json_file_open(struct json_file *file, const char *path, struct ptah_message *why,
		   struct json_value *document)
{
	struct json_tokener *tokener;
	char *text = NULL;
	size_t n = 0;
	int status;

	*file = (struct json_file){.path = path, .why = why};
	status = read_text(path, &text, &n, why);
	if (status < 0)
		return status;
	status = check_objects(file, text, n);
	tokener = status < 0 ? NULL : json_tokener_new_ex(JSON_FILE_MAX_DEPTH);
	if (tokener) {
		status = parse(file, tokener, text, n);
		json_tokener_free(tokener);
	} else if (status >= 0) {
		status = PTAH_E_NOMEM;
	}
	free(text);
	*document = (struct json_value){.file = file, .json = file->root};
	return status;
}

void json_file_close(struct json_file *file)
{
	json_object_put(file->root);
}

/* Appends the place of a value, "processes[1].threads[0].tid". */
static size_t put_json_file_place(const struct json_value *value, char *text, size_t size)
{
	size_t n;
	int k;

	if (!value->outer)
		return 0;
	n = put_json_file_place(value->outer, text, size);
	k = value->name ? snprintf(text + n, size - n, "%s%s", n ? "." : "", value->name)
			: snprintf(text + n, size - n, "[%zu]", value->index);
	return k > 0 && (size_t)k < size - n ? n + (size_t)k : size - 1;
}

int json_value_fail(const struct json_value *value, int status, const char *format, ...)
{
	char place[256] = "", what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	text_clean(what);
	put_json_file_place(value, place, sizeof(place));
	return perfdata_message(value->file->why, status, "%s: %s%s%s", value->file->path, place,
				*place ? ": " : "", what);
}

/* Reports that a value is not of the kind that was expected. */
static int fail_kind(const struct json_value *value, const char *expected)
{
	const char *found;

	switch (json_object_get_type(value->json)) {
	case json_type_null:
		return json_value_fail(value, PTAH_E_BAD_FILE, "%s is missing", expected);
	case json_type_object:
		found = "an object";
		break;
	case json_type_array:
		found = "an array";
		break;
	default:
		found = json_object_get_string(value->json);
		break;
	}
	return json_value_fail(value, PTAH_E_BAD_FILE, "expected %s, found %.40s", expected, found);
}

int json_value_member(const struct json_value *object, const char *const *names,
		      struct json_value *member)
{
	*member = (struct json_value){.file = object->file, .outer = object, .name = names[0]};
	if (!json_object_is_type(object->json, json_type_object))
		return fail_kind(object, "an object");
	for (; *names && !member->json; names++)
		if (json_object_object_get_ex(object->json, *names, &member->json))
			member->name = *names;
	return 0;
}

int json_value_count(const struct json_value *array, size_t *count)
{
	*count = 0;
	if (json_value_is_null(array))
		return 0;
	if (!json_object_is_type(array->json, json_type_array))
		return fail_kind(array, "an array");
	*count = json_object_array_length(array->json);
	return 0;
}

void json_value_element(const struct json_value *array, size_t i, struct json_value *element)
{
	*element = (struct json_value){.file = array->file,
				       .outer = array,
				       .index = i,
				       .json = json_object_array_get_idx(array->json, i)};
}

static bool has_nul(const struct json_value *text)
{
	return strlen(json_object_get_string(text->json)) !=
	       (size_t)json_object_get_string_len(text->json);
}

int json_value_text(const struct json_value *value, const char **text)
{
	if (!json_object_is_type(value->json, json_type_string))
		return fail_kind(value, "a string");
	*text = json_object_get_string(value->json);
	if (has_nul(value))
		return json_value_fail(value, PTAH_E_BAD_FILE, "a string with a NUL character");
	return 0;
}

/* "4194304" or "0x400000": digits alone, without a sign or spaces. */
static bool parse_number(const char *text, uint64_t *number)
{
	const bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hexadecimal ? text + 2 : text;

	errno = 0;
	*number = strtoull(digits, NULL, hexadecimal ? 16 : 10);
	return *digits && !errno &&
	       !digits[strspn(digits, hexadecimal ? "0123456789abcdefABCDEF" : "0123456789")];
}

static bool get_number(const struct json_value *value, uint64_t *number)
{
	if (json_object_is_type(value->json, json_type_string))
		return !has_nul(value) && parse_number(json_object_get_string(value->json), number);
	if (!json_object_is_type(value->json, json_type_int))
		return false;
	/* json-c makes 0 of negative numbers, and UINT64_MAX of all that are larger. */
	*number = json_object_get_uint64(value->json);
	return *number != UINT64_MAX && (*number || !json_object_get_int64(value->json));
}

int json_value_number(const struct json_value *value, uint64_t min, uint64_t max, uint64_t *number)
{
	char expected[80];

	if (get_number(value, number) && *number >= min && *number <= max)
		return 0;
	snprintf(expected, sizeof(expected), "a whole number from %" PRIu64 " to %" PRIu64, min,
		 max);
	return fail_kind(value, expected);
}
