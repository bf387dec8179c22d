/* SPDX-License-Identifier: MIT */
/* Puts the page's files and the answers to its questions into one HTML file (page.h). */
#include "view/page.h"

#include "export/gzip.h"
#include "support/list.h"
#include "view/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer in the page. */
struct piece {
	char query[VIEW_QUERY_SIZE];
	const char *type;
	size_t size; /* unpacked */
	unsigned char *packed;
	size_t packed_size;
};

struct pieces {
	struct piece *list;
	size_t count, capacity;
	uint64_t bytes; /* that they will take in the page */
	char key[VIEW_QUERY_SIZE];
};

/* So many series of answers that did not fit end the search for others that do. */
#define MOST_FULL 16

struct writer {
	const struct view_page *page;
	struct view_page_result *result;
	struct out *out;
	struct pieces now; /* those that are written together */
	/* The index, without the packed bytes. */
	struct piece *index;
	size_t index_count, index_capacity;
	uint64_t index_bytes;
	uint64_t rest; /* bytes of the file that comes after the answers, without the index */
	char full[MOST_FULL][VIEW_QUERY_SIZE]; /* keys of what did not fit */
	size_t full_count;
};

/* Writes, and counts. */
static void write_page_bytes(struct writer *w, const void *bytes, size_t n)
{
	out_bytes(w->out, bytes, n);
	w->result->bytes += n;
}

static void put_page_text(struct writer *w, const char *text)
{
	write_page_bytes(w, text, strlen(text));
}

static void put_base64(struct writer *w, const unsigned char *bytes, size_t n)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[4096];
	size_t used = 0;

	for (size_t i = 0; i < n; i += 3) {
		const size_t left = n - i;
		const uint32_t group = (uint32_t)bytes[i] << 16 |
				       (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
				       (left > 2 ? bytes[i + 2] : 0);

		if (used == sizeof(text)) {
			write_page_bytes(w, text, used);
			used = 0;
		}
		for (unsigned k = 0; k < 4; k++)
			text[used++] = k <= left ? digits[group >> (18 - 6 * k) & 63] : '=';
	}
	write_page_bytes(w, text, used);
}

/* In JSON inside of <script>: the text has no quotes and no <, see is_plain(). */
static const char before_index[] = "<script type=\"application/json\" id=\"ptah-index\">"
				   "{\"answers\": [";

static void put_index(struct writer *w)
{
	char text[256];

	put_page_text(w, before_index);
	for (size_t i = 0; i < w->index_count; i++) {
		put_page_text(w, i ? ",\n{\"query\": \"" : "\n{\"query\": \"");
		put_page_text(w, w->index[i].query);
		snprintf(text, sizeof(text),
			 "\", \"type\": \"%s\", \"id\": \"ptah-%zu\", \"size\": %zu}",
			 w->index[i].type, i, w->index[i].size);
		put_page_text(w, text);
	}
	snprintf(text, sizeof(text), "\n], \"left_out\": %zu}</script>\n", w->result->left_out);
	put_page_text(w, text);
}

/* At least the bytes that a piece takes in the index, and in the page and its index. */
static uint64_t index_bytes_of(const struct piece *p)
{
	return strlen(p->query) + 160;
}

static uint64_t bytes_of(const struct piece *p)
{
	return (p->packed_size + 2) / 3 * 4 + 80 + index_bytes_of(p);
}

static int put_piece(struct writer *w, const struct piece *p)
{
	char text[64];

	if (!LIST_ROOM(w->index, w->index_count, w->index_capacity))
		return PTAH_E_NOMEM;
	snprintf(text, sizeof(text), "<script type=\"text/plain\" id=\"ptah-%zu\">",
		 w->index_count);
	put_page_text(w, text);
	put_base64(w, p->packed, p->packed_size);
	put_page_text(w, "</script>\n");
	w->index[w->index_count++] = *p;
	w->index_bytes += index_bytes_of(p);
	w->result->answers++;
	return 0;
}

static void drop_pieces(struct pieces *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->list[i].packed);
	p->count = 0;
	p->bytes = 0;
}

/* Copies a question without the parameters whose names `without` lists between commas. */
static void make_key(const char *query, const char *without, char key[VIEW_QUERY_SIZE])
{
	size_t n = strcspn(query, "?");

	memcpy(key, query, n);
	query += n;
	while (*query) {
		const size_t whole = 1 + strcspn(query + 1, "&"), name = strcspn(query + 1, "=&");
		char word[16] = ",";

		if (name < sizeof(word) - 2)
			memcpy(word + 1, query + 1, name);
		strcat(word, ",");
		if (name >= sizeof(word) - 2 || !strstr(without, word)) {
			memcpy(key + n, query, whole);
			n += whole;
		}
		query += whole;
	}
	key[n] = '\0';
}

/* Of a series that did not fit? */
static bool is_full(const struct writer *w, const char *query)
{
	char key[VIEW_QUERY_SIZE];

	make_key(query, ",from,to,unit,", key);
	for (size_t i = 0; i < w->full_count; i++)
		if (!strcmp(w->full[i], key))
			return true;
	return w->full_count == MOST_FULL;
}

static bool fits(const struct writer *w)
{
	return !w->page->most ||
	       w->result->bytes + w->now.bytes + w->index_bytes + w->rest <= w->page->most;
}

/* Gives up the pieces that wait: they do not fit. */
static void leave_out(struct writer *w, const char *query)
{
	w->result->left_out += w->now.count;
	drop_pieces(&w->now);
	if (w->full_count < MOST_FULL)
		make_key(query, ",from,to,unit,", w->full[w->full_count++]);
}

/* Writes the pieces that wait. They fit. */
static int put_pieces(struct writer *w)
{
	int status = 0;

	for (size_t i = 0; i < w->now.count && status >= 0; i++)
		status = put_piece(w, &w->now.list[i]);
	drop_pieces(&w->now);
	return status;
}

/*
 * Whether these bytes are safe in JSON and in HTML as they are. Questions have no others,
 * percent-encoded.
 */
static bool is_plain(const char *text)
{
	return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789-_.~?&=/%+,:;*!()")];
}

static int pack(const struct view_answer *answer, struct piece *p)
{
	struct gzip *gzip;
	struct out *out;

	if (out_open_memory(&out) < 0)
		return PTAH_E_NOMEM;
	if (gzip_begin(out, &gzip) < 0) {
		out_abort(out);
		return PTAH_E_NOMEM;
	}
	gzip_write(gzip, answer->bytes, answer->size);
	gzip_end(gzip, true);
	p->packed = out_take(out, &p->packed_size);
	p->size = answer->size;
	p->type = answer->type;
	return p->packed ? 0 : PTAH_E_NOMEM;
}

static int add_page_piece(struct pieces *pieces, const char *query,
			  const struct view_answer *answer)
{
	struct piece *p;

	if (!LIST_ROOM(pieces->list, pieces->count, pieces->capacity))
		return PTAH_E_NOMEM;
	p = &pieces->list[pieces->count++];
	memset(p, 0, sizeof(*p));
	memcpy(p->query, query, strlen(query) + 1);
	if (pack(answer, p) < 0)
		return PTAH_E_NOMEM;
	pieces->bytes += bytes_of(p);
	return 0;
}

/* Adds the answer to a question to the pieces that wait. */
static int ask(struct writer *w, const char *text)
{
	struct view_answer answer = {0};
	struct view_query *query = malloc(sizeof(*query));
	int status = PTAH_E_NOMEM;

	if (query && !view_query_parse(query, text))
		status = w->page->answer(w->page->context, query, &answer);
	if (status >= 0 && answer.status == 503)
		status = PTAH_E_INVAL;
	else if (status >= 0 && answer.status == 200)
		status = add_page_piece(&w->now, text, &answer);
	free(query);
	free(answer.bytes);
	return status;
}

static int put_answers(struct writer *w)
{
	char text[VIEW_QUERY_SIZE], key[VIEW_QUERY_SIZE];
	int status = 0;

	for (size_t i = 0; status >= 0 && w->page->question(w->page->context, i, text); i++) {
		if (w->page->stopped && w->page->stopped(w->page->context))
			return PTAH_E_END;
		if (!is_plain(text))
			return PTAH_E_INVAL;
		make_key(text, ",from,to,", key);
		if (strcmp(key, w->now.key) != 0) {
			status = put_pieces(w);
			memcpy(w->now.key, key, sizeof(key));
		}
		if (status < 0)
			break;
		if (is_full(w, text)) {
			w->result->left_out++;
			continue;
		}
		status = ask(w, text);
		if (status >= 0 && !fits(w))
			leave_out(w, text);
		if (i == 0 && w->full_count)
			return PTAH_E_NOSPACE;
	}
	return status < 0 ? status : put_pieces(w);
}

/* The file that a line names between `before` and `after`; NULL: it is another line. */
static const struct view_file *file_of_line(const char *line, size_t n, const char *before,
					    const char *after)
{
	const size_t head = strlen(before), tail = strlen(after);
	char name[64];

	if (n < head + tail || n - head - tail >= sizeof(name) || memcmp(line, before, head) != 0 ||
	    memcmp(line + n - tail, after, tail) != 0)
		return NULL;
	memcpy(name, line + head, n - head - tail);
	name[n - head - tail] = '\0';
	return view_file_find(name);
}

static const struct view_file *script_of_line(const char *line, size_t n)
{
	return file_of_line(line, n, "<script src=\"", "\"></script>\n");
}

static const struct view_file *style_of_line(const char *line, size_t n)
{
	return file_of_line(line, n, "<link rel=\"stylesheet\" href=\"", "\">\n");
}

static size_t line_length(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? (size_t)(end + 1 - line) : strlen(line);
}

static void put_hashes(struct writer *w, const char *html,
		       const struct view_file *(*file_of)(const char *line, size_t n))
{
	for (size_t n; *html; html += n) {
		const struct view_file *file;

		n = line_length(html);
		file = file_of(html, n);
		if (!file)
			continue;
		put_page_text(w, " 'sha256-");
		put_page_text(w, file->hash);
		put_page_text(w, "'");
	}
}

static void put_policy(struct writer *w, const char *html)
{
	put_page_text(w,
		      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		      "img-src data:; base-uri 'none'; form-action 'none'; "
		      "require-trusted-types-for 'script'; trusted-types 'none'; style-src");
	put_hashes(w, html, style_of_line);
	put_page_text(w, "; script-src");
	put_hashes(w, html, script_of_line);
	put_page_text(w, "\">\n");
}

/* Writes lines of the page up to the first script, or from there to the end. */
static const char *put_page_lines(struct writer *w, const char *html, const char *page,
				  bool to_script)
{
	for (size_t n; *html; html += n) {
		const struct view_file *script, *style;

		n = line_length(html);
		script = script_of_line(html, n);
		style = style_of_line(html, n);
		if (script && to_script)
			break;
		if (!script && !style) {
			write_page_bytes(w, html, n);
			if (to_script && !strncmp(html, "<meta charset=", 14))
				put_policy(w, page);
			continue;
		}
		put_page_text(w, script ? "<script>" : "<style>");
		write_page_bytes(w, script ? script->bytes : style->bytes,
				 script ? script->size : style->size);
		put_page_text(w, script ? "</script>\n" : "</style>\n");
	}
	return html;
}

/* An upper bound of what comes after the answers. */
static uint64_t size_of_rest(const char *html)
{
	uint64_t size = 256 + sizeof(before_index);

	for (size_t n; *html; html += n) {
		const struct view_file *script;

		n = line_length(html);
		script = script_of_line(html, n);
		size += n + 32 + (script ? script->size : 0);
	}
	return size;
}

int view_page_write(const struct view_page *page, struct out *out, struct view_page_result *result)
{
	const char *html = (const char *)view_file_find("index.html")->bytes, *rest;
	struct writer *w = calloc(1, sizeof(*w));
	int status;

	memset(result, 0, sizeof(*result));
	if (!w)
		return PTAH_E_NOMEM;
	w->page = page;
	w->result = result;
	w->out = out;
	rest = put_page_lines(w, html, html, true);
	w->rest = size_of_rest(rest);
	status = put_answers(w);
	if (status >= 0) {
		put_index(w);
		put_page_lines(w, rest, html, false);
	}
	drop_pieces(&w->now);
	free(w->now.list);
	free(w->index);
	free(w);
	return status;
}
