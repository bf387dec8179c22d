/* SPDX-License-Identifier: MIT */
/*
 * The file of `ptah view -o`: zlib unpacks from it what the answers were; it stays below its limit
 * and has a level of detail wholly or not at all; nothing in it loads anything, and no answer can
 * end the element that it is in.
 */
#include "../test.h"

#include "view/page.h"
#include "view/web.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Questions and answers for the writer. */
struct world {
	const char *const *questions;
	size_t size; /* of answers to "bars?..." */
	unsigned asked;
	unsigned stop_after; /* questions; 0: never */
};

static const char hostile[] = "{\"name\": \"</script><script>alert(1)</script><!--\"}";

/* An answer that cannot be packed: bytes of xorshift64. */
static void fill_random(char *bytes, size_t n, uint64_t x)
{
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		bytes[i] = (char)(x >> 32);
	}
}

static int answer(void *context, const struct view_query *query, struct view_answer *a)
{
	struct world *w = context;

	w->asked++;
	if (!strcmp(query->path, "missing"))
		return view_answer_refuse(a, 404, "there is none");
	if (!strcmp(query->path, "ending"))
		return view_answer_refuse(a, 503, "ending");
	*a = (struct view_answer){.status = 200, .type = "application/json"};
	if (!strcmp(query->path, "bars")) {
		uint64_t from = 0;

		view_query_number(query, "from", UINT64_MAX, &from);
		a->type = "application/octet-stream";
		a->size = w->size;
		a->bytes = malloc(w->size + 1);
		fill_random(a->bytes, w->size, from + 1);
	} else {
		a->size = strlen(query->path) > 4 ? sizeof(hostile) - 1 : 0;
		a->bytes = strdup(hostile);
	}
	return 0;
}

static bool question(void *context, size_t i, char text[VIEW_QUERY_SIZE])
{
	const struct world *w = context;

	for (size_t k = 0; k < i; k++)
		if (!w->questions[k])
			return false;
	if (!w->questions[i])
		return false;
	strcpy(text, w->questions[i]);
	return true;
}

static bool stopped(void *context)
{
	const struct world *w = context;

	return w->stop_after && w->asked >= w->stop_after;
}

/* Writes a page of these questions. The caller frees *text, which ends with a NUL. */
static int write_page(struct world *w, uint64_t most, char **text, struct view_page_result *result)
{
	const struct view_page page = {
	    .answer = answer, .question = question, .stopped = stopped, .context = w, .most = most};
	struct out *out;
	size_t n;
	int status;

	assert_int_equal(out_open_memory(&out), 0);
	status = view_page_write(&page, out, result);
	*text = out_take(out, &n);
	assert_non_null(*text);
	if (!status)
		assert_int_equal(result->bytes, n);
	*text = realloc(*text, n + 1);
	(*text)[n] = '\0';
	return status;
}

static int value_of(char c)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(digits, c) : NULL;

	assert_non_null(found);
	return (int)(found - digits);
}

static size_t decode_base64(const char *text, size_t n, unsigned char *bytes)
{
	size_t size = 0;

	assert_int_equal(n % 4, 0);
	for (size_t i = 0; i < n; i += 4) {
		unsigned group = 0, digits = 0;

		for (; digits < 4 && text[i + digits] != '='; digits++)
			group |= (unsigned)value_of(text[i + digits]) << (18 - 6 * digits);
		assert_true(digits == 4 || i + 4 == n);
		for (unsigned k = 0; k + 1 < digits; k++)
			bytes[size++] = (unsigned char)(group >> (16 - 8 * k));
	}
	return size;
}

/* Unpacks the n-th answer of a page, which must be `expected`. */
static void expect_answer(const char *page, unsigned number, const char *expected, size_t size)
{
	char head[64], *unpacked = malloc(size + 100);
	const char *begin, *end;
	unsigned char *packed;
	z_stream z = {0};

	snprintf(head, sizeof(head), "<script type=\"text/plain\" id=\"ptah-%u\">", number);
	begin = strstr(page, head);
	assert_non_null(begin);
	begin += strlen(head);
	end = strstr(begin, "</script>");
	assert_non_null(end);
	packed = malloc((size_t)(end - begin) + 4);
	z.next_in = packed;
	z.avail_in = (uInt)decode_base64(begin, (size_t)(end - begin), packed);
	z.next_out = (unsigned char *)unpacked;
	z.avail_out = (uInt)size + 100;
	assert_int_equal(inflateInit2(&z, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.total_out, size);
	assert_int_equal(z.avail_in, 0);
	assert_memory_equal(unpacked, expected, size);
	inflateEnd(&z);
	free(packed);
	free(unpacked);
}

TEST(answers_come_back_as_they_were)
{
	static const char *const questions[] = {"empty", "info", "missing",
						"bars?thread=0&from=7&to=8&unit=1", NULL};
	struct world w = {.questions = questions, .size = 100001};
	struct view_page_result result;
	char *page, *expected = malloc(w.size);

	assert_int_equal(write_page(&w, 0, &page, &result), 0);
	assert_int_equal(result.answers, 3);
	assert_int_equal(result.left_out, 0);
	expect_answer(page, 0, hostile, sizeof(hostile) - 1);
	expect_answer(page, 1, "", 0);
	fill_random(expected, w.size, 8);
	expect_answer(page, 2, expected, w.size);
	assert_non_null(strstr(page,
			       "{\"answers\": [\n"
			       "{\"query\": \"empty\", \"type\": \"application/json\", \"id\": "
			       "\"ptah-0\", \"size\": 50},\n"));
	assert_non_null(strstr(page, "\n], \"left_out\": 0}</script>\n"));
	assert_null(strstr(page, "alert(1)"));
	free(expected);
	free(page);
}

TEST(nothing_is_loaded)
{
	static const char *const questions[] = {"info", NULL};
	struct world w = {.questions = questions};
	struct view_page_result result;
	char *page;
	unsigned scripts = 0;

	assert_int_equal(write_page(&w, 0, &page, &result), 0);
	assert_null(strstr(page, "<script src"));
	assert_null(strstr(page, "rel=\"stylesheet\""));
	for (const struct view_file *file = view_files; file->name; file++) {
		const char *text = (const char *)file->bytes;
		const bool is_script = strstr(file->name, ".js") != NULL;

		if (!strcmp(file->name, "index.html"))
			continue;
		assert_non_null(strstr(page, text));
		assert_non_null(strstr(page, file->hash));
		/* What would end the element, or begin another one, as HTML's parser sees it. */
		assert_null(strcasestr(text, is_script ? "</script" : "</style"));
		assert_null(strstr(text, "<!--"));
		assert_null(strchr(text, '\r'));
		assert_int_equal(strlen(text), file->size);
		scripts += is_script;
	}
	assert_true(scripts > 0);
	/* The policy comes before anything that it is about. */
	assert_true(strstr(page, "Content-Security-Policy") < strstr(page, "<style>"));
	assert_true(strstr(page, "id=\"ptah-index\"") < strstr(page, "<script>"));
	free(page);
}

TEST(levels_are_there_wholly_or_not_at_all)
{
	static const char *const questions[] = {
	    "info",
	    "bars?thread=0&from=0&to=9&unit=16",
	    "bars?thread=0&from=0&to=5&unit=4",
	    "bars?thread=0&from=5&to=9&unit=4",
	    "bars?thread=0&from=0&to=9&unit=1",
	    "bars?thread=1&from=0&to=9&unit=16",
	    NULL,
	};
	struct world w = {.questions = questions, .size = 30000};
	struct view_page_result result;
	char *page;
	uint64_t whole, without_bars;

	assert_int_equal(write_page(&w, 0, &page, &result), 0);
	whole = result.bytes;
	free(page);
	without_bars = whole - 5 * 40000;

	/* One byte too few for all: the last one does not fit. */
	w.asked = 0;
	assert_int_equal(write_page(&w, whole - 1, &page, &result), 0);
	assert_true(result.bytes < whole);
	assert_int_equal(result.left_out, 1);
	assert_null(strstr(page, "thread=1&"));
	assert_non_null(strstr(page, "\n], \"left_out\": 1}</script>\n"));
	free(page);

	/* Room for three: the two pieces of thread 0's second level make four with "thread 1". */
	w.asked = 0;
	assert_int_equal(write_page(&w, without_bars + 2 * 40000 + 10000, &page, &result), 0);
	assert_true(result.bytes <= without_bars + 2 * 40000 + 10000);
	assert_int_equal(result.left_out, 3);
	assert_non_null(strstr(page, "thread=0&from=0&to=9&unit=16"));
	assert_null(strstr(page, "unit=4"));
	assert_null(strstr(page, "unit=1\""));
	assert_non_null(strstr(page, "thread=1&from=0&to=9&unit=16"));
	free(page);

	assert_int_equal(write_page(&w, 1000, &page, &result), PTAH_E_NOSPACE);
	free(page);
}

TEST(writing_can_be_ended)
{
	static const char *const questions[] = {"info", "functions", "empty", NULL};
	static const char *const ending[] = {"info", "ending", NULL};
	struct world w = {.questions = questions, .stop_after = 2};
	struct view_page_result result;
	char *page;

	assert_int_equal(write_page(&w, 0, &page, &result), PTAH_E_END);
	assert_int_equal(w.asked, 2);
	free(page);
	w = (struct world){.questions = ending};
	assert_int_equal(write_page(&w, 0, &page, &result), PTAH_E_INVAL);
	free(page);
}

/* A question that would end the index's element is refused. */
TEST(questions_are_plain)
{
	static const char *const questions[] = {"info", "code?function=</script>", NULL};
	struct world w = {.questions = questions};
	struct view_page_result result;
	char *page;

	assert_int_equal(write_page(&w, 0, &page, &result), PTAH_E_INVAL);
	free(page);
}
