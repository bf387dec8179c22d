/* SPDX-License-Identifier: MIT */
/*
 * The address filter of a recording: perf's text ("filter 0x1149/0x2a@/bin/x",
 * several with blanks or commas between) as the ranges of IA32_RTIT_ADDRn_A and
 * _B. SDM "Filtering by IP".
 */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

struct filter {
	uint8_t mode;
	uint64_t start, size;
	const char *path; /* `start` is an offset in this file; NULL: an address */
	size_t path_size;
};

struct text {
	const char *p, *end;
};

static void skip_separators(struct text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == ','))
		t->p++;
}

static bool skip_word(struct text *t, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n))
		return false;
	t->p += n;
	skip_separators(t);
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* perf writes hexadecimal numbers. */
static bool parse_number(struct text *t, uint64_t *value)
{
	const char *first;

	if (!skip_word(t, "0x"))
		return false;
	first = t->p;
	for (*value = 0; t->p < t->end && digit(*t->p) < 16 && t->p - first < 16; t->p++)
		*value = *value << 4 | (uint64_t)digit(*t->p);
	return t->p > first;
}

/* The kernel takes ranges only: IA32_RTIT_CTL.ADDRn_CFG is 1 for filter, 2 for stop. */
static bool parse_filter(struct text *t, struct filter *f)
{
	*f = (struct filter){0};
	if (skip_word(t, "filter"))
		f->mode = PTAH_RANGE_FILTER;
	else if (skip_word(t, "stop") || skip_word(t, "tracestop"))
		f->mode = PTAH_RANGE_STOP;
	else
		return false;
	if (!parse_number(t, &f->start) || !skip_word(t, "/") || !parse_number(t, &f->size))
		return false;
	if (t->p < t->end && *t->p == '@') {
		f->path = ++t->p;
		while (t->p < t->end && *t->p != ' ' && *t->p != ',')
			t->p++;
		f->path_size = (size_t)(t->p - f->path);
	}
	skip_separators(t);
	return f->size && f->start <= UINT64_MAX - (f->size - 1);
}

static bool maps(const struct change *c, const struct filter *f)
{
	return c->type == CHANGE_MAP && strlen(c->path) == f->path_size &&
	       !memcmp(c->path, f->path, f->path_size) && f->start >= c->file_offset &&
	       f->start - c->file_offset < c->size;
}

/* Where the process had the file: the last place, as what came before may be another program. */
static bool locate(const struct change *const *changes, size_t count, const struct filter *f,
		   struct ptah_range *range)
{
	uint64_t first = f->start;
	bool found = !f->path;

	for (size_t i = count; !found && i-- > 0;) {
		found = maps(changes[i], f);
		if (found)
			first = changes[i]->address + (f->start - changes[i]->file_offset);
	}
	if (!found || first > UINT64_MAX - (f->size - 1))
		return false;
	*range = (struct ptah_range){first, first + (f->size - 1), f->mode};
	return true;
}

static bool resolve(struct text t, const struct change *const *changes, size_t count,
		    struct ptah_range ranges[PTAH_RANGES])
{
	struct filter f;
	size_t n = 0;

	for (skip_separators(&t); t.p < t.end; n++)
		if (n == PTAH_RANGES || !parse_filter(&t, &f) ||
		    !locate(changes, count, &f, &ranges[n]))
			return false;
	return true;
}

int session_filters(const struct ptah_session *session, size_t process,
		    struct ptah_range ranges[PTAH_RANGES])
{
	const struct change **changes = NULL;
	bool *waits = NULL;
	struct text t = {0};
	size_t n = 0, count = 0;
	int status;

	memset(ranges, 0, PTAH_RANGES * sizeof(*ranges));
	if (session->file)
		t.p = perfdata_filter(session->file, &n);
	if (!n)
		return 0;
	t.end = t.p + n;
	if (process != SESSION_NONE) {
		status = session_memory(session, process, &changes, &waits, &count);
		if (status < 0)
			return status;
	}
	if (!resolve(t, changes, count, ranges))
		memset(ranges, 0, PTAH_RANGES * sizeof(*ranges));
	free(changes);
	free(waits);
	return 0;
}
