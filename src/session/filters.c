/* SPDX-License-Identifier: MIT */
/*
 * Turns the address filter of a recording, in perf's text form ("filter 0x1149/0x2a@/bin/x",
 * several with blanks or commas between), into the ranges of IA32_RTIT_ADDRn_A and _B. SDM
 * "Filtering by IP".
 */
#include "session/session.h"

#include <ptah/session.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEPARATORS " ,"

struct filter {
	uint8_t mode;
	uint64_t start, size;
	const char *path; /* the file that `start` is an offset in; NULL: `start` is an address */
};

static bool is_number(const struct ptah_filter_place *place)
{
	return !*place->name;
}

/* The kernel accepts only ranges: IA32_RTIT_CTL.ADDRn_CFG is 1 for filter, 2 for stop. */
static bool take_filter(const struct ptah_filter *text, struct filter *f)
{
	if (!is_number(&text->start) || !text->has_end || !is_number(&text->end))
		return false;
	f->mode = text->mode;
	f->start = text->start.number;
	f->size = text->end.number;
	f->path = *text->file ? text->file : NULL;
	return f->size && f->start <= UINT64_MAX - (f->size - 1);
}

/* Files that a trace set names are on this machine, by whatever name. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether the change maps the file that the filter names, wherever its copy is. */
static bool maps_file(const struct ptah_session *session, const struct change *c,
		      const struct filter *f)
{
	const size_t n = session->root ? strlen(session->root) : 0;

	return !strcmp(c->path, f->path) ||
	       (n && !strncmp(c->path, session->root, n) && !strcmp(c->path + n, f->path)) ||
	       (c->given && is_same_file(c->path, f->path));
}

static bool maps(const struct ptah_session *session, const struct change *c, const struct filter *f)
{
	return c->type == CHANGE_MAP && f->start >= c->file_offset &&
	       f->start - c->file_offset < c->size && maps_file(session, c, f);
}

/*
 * Finds where the process had the file mapped: the last place, because earlier mappings may be of
 * another program.
 */
static bool locate(const struct ptah_session *session, const struct change *const *changes,
		   size_t count, const struct filter *f, struct ptah_range *range)
{
	const struct change *found = NULL;
	uint64_t first = f->start;

	for (size_t i = count; f->path && !found && i-- > 0;)
		found = maps(session, changes[i], f) ? changes[i] : NULL;
	for (size_t i = session->code_count; f->path && !found && i-- > 0;)
		found = maps(session, &session->code[i], f) ? &session->code[i] : NULL;
	if (found)
		first = found->address + (f->start - found->file_offset);
	if ((f->path && !found) || first > UINT64_MAX - (f->size - 1))
		return false;
	*range = (struct ptah_range){first, first + (f->size - 1), f->mode};
	return true;
}

static bool resolve(const struct ptah_session *session, const char *at,
		    const struct change *const *changes, size_t count,
		    struct ptah_range ranges[PTAH_RANGES])
{
	struct ptah_filter text;
	struct filter f;

	for (size_t n = 0; *(at += strspn(at, SEPARATORS)); n++)
		if (n == PTAH_RANGES || ptah_filter_parse(&at, &text, NULL) < 0 ||
		    !take_filter(&text, &f) || !locate(session, changes, count, &f, &ranges[n]))
			return false;
	return true;
}

int session_filters(const struct ptah_session *session, size_t process,
		    struct ptah_range ranges[PTAH_RANGES])
{
	const struct change **changes = NULL;
	bool *waits = NULL;
	const char *recorded = NULL;
	char *text;
	size_t n = 0, count = 0;
	int status = 0;

	memset(ranges, 0, PTAH_RANGES * sizeof(*ranges));
	if (session->is_set)
		memcpy(ranges, session->ranges, sizeof(session->ranges));
	recorded = session->is_set ? session->filter : perfdata_filter(session->file, &n);
	n = session->is_set && recorded ? strlen(recorded) : n;
	if (!n)
		return 0;
	text = strndup(recorded, n);
	if (!text)
		return PTAH_E_NOMEM;
	if (process != SESSION_NONE)
		status = session_memory(session, process, &changes, &waits, &count);
	if (status >= 0 && !resolve(session, text, changes, count, ranges))
		memset(ranges, 0, PTAH_RANGES * sizeof(*ranges));
	free(changes);
	free(waits);
	free(text);
	return status;
}
