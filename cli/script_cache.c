/* SPDX-License-Identifier: MIT */
/* Keeps the rows of blocks and branches that ran before (script_cache.h). */
#include "base/hash.h"
#include "script_cache.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES	  (1u << 16)
#define POOL_SIZE (32u << 20)

/* Rows are copied in steps of so many bytes, beyond the end of each. */
#define STEP 32

struct entry {
	struct script_key key;
	int32_t space;
	uint32_t epoch; /* of the cache when the rows were made */
	uint32_t rows;	/* how many */
	uint32_t text;	/* where in the pool: of each row its length, in 16 bits, and its bytes */
	uint32_t size;
};

/* The beginning of each row, as fields.h describes it. All rows of the modes begin so. */
struct head {
	int32_t tid;
	struct script_time time;
};

struct script_cache {
	struct entry *entries;
	char *pool;
	size_t used;
	uint32_t epoch; /* entries of another one are free */

	char head[128 + STEP]; /* of each row */
	size_t head_length;
	bool head_known;

	/* While rows are made: the entry, and where they go instead of the output. */
	struct entry *open;
	struct out *scratch, *output;
	bool filled; /* as struct json has it */
	bool keep;
};

int script_cache_new(struct script_cache **cache)
{
	struct script_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return PTAH_E_NOMEM;
	c->epoch = 1;
	c->entries = calloc(ENTRIES, sizeof(*c->entries));
	c->pool = malloc(POOL_SIZE + STEP);
	if (!c->entries || !c->pool || out_open_memory(&c->scratch) < 0) {
		script_cache_free(c);
		return PTAH_E_NOMEM;
	}
	*cache = c;
	return 0;
}

void script_cache_free(struct script_cache *c)
{
	if (!c)
		return;
	out_abort(c->scratch);
	free(c->entries);
	free(c->pool);
	free(c);
}

void script_cache_forget(struct script_cache *c)
{
	if (!c)
		return;
	c->used = 0;
	if (!++c->epoch) {
		memset(c->entries, 0, ENTRIES * sizeof(*c->entries));
		c->epoch = 1;
	}
}

void script_cache_new_head(struct script_cache *c)
{
	if (c)
		c->head_known = false;
}

void script_cache_keep_none(struct script_cache *c)
{
	if (c)
		c->keep = false;
}

/* Rows go to the scratch output, and in JSON each begins with a comma. */
static void redirect(struct script *s)
{
	struct script_cache *c = s->cache;

	c->output = s->out;
	c->filled = s->json.filled[s->json.depth];
	s->out = s->json.out = c->scratch;
	s->json.filled[s->json.depth] = true;
}

static void redirect_back(struct script *s)
{
	struct script_cache *c = s->cache;

	s->out = s->json.out = c->output;
	s->json.filled[s->json.depth] = c->filled;
}

/* In TSV and JSON: the first two fields, without what ends a row. */
static const char *put_cached_head(struct script *s, size_t *n)
{
	const struct head head = {s->info.tid, s->now};
	const struct row_type type = {s->mode->type->fields, 2};
	const char *text;

	redirect(s);
	if (s->input->format == FORMAT_JSON)
		fields_json(&s->json, &type, s->asked, &head);
	else
		fields_tsv(s->out, &type, s->asked, &head);
	redirect_back(s);
	text = out_written(s->cache->scratch, n);
	--*n;
	return text;
}

static void make_head(struct script *s)
{
	struct script_cache *c = s->cache;
	const char *text = s->prefix;
	size_t n = s->prefix_length;

	if (s->input->format != FORMAT_TEXT)
		text = put_cached_head(s, &n);
	if (n > sizeof(c->head) - STEP)
		n = 0; /* no row begins so, and none is kept */
	memcpy(c->head, text, n);
	c->head_length = n;
	c->head_known = true;
	out_clear(c->scratch);
}

static ALWAYS_INLINE char *copy(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i += STEP)
		memcpy(to + i, from + i, STEP);
	return to + n;
}

static size_t row_length(const char *text)
{
	uint16_t n;

	memcpy(&n, text, sizeof(n));
	return n;
}

/* The same for few rows: one by one, without the first comma of JSON's array. */
static void put_slowly(struct script *s, const char *text, unsigned rows)
{
	const struct script_cache *c = s->cache;
	const bool json = s->input->format == FORMAT_JSON;

	while (rows--) {
		const size_t n = row_length(text);
		const bool skip = json && !s->json.filled[s->json.depth];

		out_bytes(s->out, c->head + skip, c->head_length - skip);
		out_bytes(s->out, text + 2, n);
		s->json.filled[s->json.depth] = true;
		text += 2 + n;
	}
}

static void put_cached_rows(struct script *s, const char *text, size_t size, unsigned rows)
{
	const struct script_cache *c = s->cache;
	const size_t head = c->head_length, room = size + rows * head + STEP;
	char *at;

	if (room > OUT_ROOM ||
	    (s->input->format == FORMAT_JSON && !s->json.filled[s->json.depth])) {
		put_slowly(s, text, rows);
		return;
	}
	at = out_room(s->out, room);
	for (; rows; rows--) {
		const size_t n = row_length(text);

		at = copy(at, c->head, head);
		at = copy(at, text + 2, n);
		text += 2 + n;
	}
	out_advance(s->out, at);
}

static struct entry *entry_of(const struct script *s, const struct script_key *key)
{
	uint64_t hash = hash_number(key->from ^ (uint32_t)s->info.space);

	hash = hash_number(hash ^ key->to ^ key->what);
	return &s->cache->entries[hash >> 48 & (ENTRIES - 1)];
}

bool script_cache_repeat(struct script *s, const struct script_key *key)
{
	struct script_cache *c = s->cache;
	const struct entry *e;

	if (!c)
		return false;
	e = entry_of(s, key);
	if (e->epoch != c->epoch || e->key.from != key->from || e->key.to != key->to ||
	    e->key.what != key->what || e->space != s->info.space)
		return false;
	if (!c->head_known)
		make_head(s);
	put_cached_rows(s, c->pool + e->text, e->size, e->rows);
	return true;
}

void script_cache_begin(struct script *s, const struct script_key *key)
{
	struct script_cache *c = s->cache;

	if (!c)
		return;
	if (!c->head_known)
		make_head(s);
	if (POOL_SIZE - c->used < OUT_ROOM)
		script_cache_forget(c);
	c->open = entry_of(s, key);
	*c->open = (struct entry){
	    .key = *key, .space = s->info.space, .epoch = c->epoch, .text = (uint32_t)c->used};
	c->keep = true;
}

/* Adds the row that the scratch output has to the entry. False: it cannot be kept. */
static bool take_cached_row(struct script_cache *c, const char *row, size_t n)
{
	const size_t head = c->head_length;
	uint16_t length;

	if (!head || n < head || memcmp(row, c->head, head) != 0 || n - head > UINT16_MAX ||
	    POOL_SIZE - c->used < 2 + n)
		return false;
	length = (uint16_t)(n - head);
	memcpy(c->pool + c->used, &length, sizeof(length));
	memcpy(c->pool + c->used + sizeof(length), row + head, length);
	c->used += sizeof(length) + length;
	c->open->rows++;
	return true;
}

/* Writes the rows of the open entry, and closes it. */
static void close_entry(struct script *s)
{
	struct script_cache *c = s->cache;
	struct entry *e = c->open;

	c->open = NULL;
	e->size = (uint32_t)(c->used - e->text);
	put_cached_rows(s, c->pool + e->text, e->size, e->rows);
	if (c->keep)
		return;
	c->used = e->text;
	e->epoch = 0;
}

void script_put_row(struct script *s, const void *row)
{
	struct script_cache *c = s->cache;
	const char *text;
	size_t n;

	if (c && c->open) {
		bool taken;

		redirect(s);
		s->renderer->row(s, row);
		redirect_back(s);
		text = out_written(c->scratch, &n);
		taken = take_cached_row(c, text, n);
		out_clear(c->scratch);
		if (taken)
			return;
		c->keep = false;
		close_entry(s);
	}
	s->renderer->row(s, row);
}

void script_cache_end(struct script *s)
{
	if (s->cache && s->cache->open)
		close_entry(s);
}
