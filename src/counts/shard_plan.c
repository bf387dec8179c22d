/* SPDX-License-Identifier: MIT */
/* Divides recordings into parts of equal size by the sizes of their files. */
#include "base/bits.h"
#include "counts/shard_internal.h"
#include "perfdata/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

const char *shard_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The bytes of the files in a folder. */
static int folder_size(const char *path, uint64_t *bytes, struct ptah_message *why)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	struct stat st;

	if (!folder)
		return perfdata_system_message(why, errno, path, "open");
	while ((entry = readdir(folder)))
		if (!fstatat(dirfd(folder), entry->d_name, &st, 0) && S_ISREG(st.st_mode))
			*bytes += (uint64_t)st.st_size;
	closedir(folder);
	return 0;
}

static int recording_size(const char *path, uint64_t *bytes, struct ptah_message *why)
{
	struct stat st;

	*bytes = 0;
	if (stat(path, &st))
		return perfdata_system_message(why, errno, path, "open");
	if (S_ISDIR(st.st_mode))
		return folder_size(path, bytes, why);
	if (!S_ISREG(st.st_mode))
		return perfdata_message(why, PTAH_E_SYSTEM,
					"%s: not a file or a folder; parts of it are read by "
					"different processes",
					path);
	*bytes = (uint64_t)st.st_size;
	return 0;
}

static void digest_bytes(uint64_t *digest, const void *bytes, size_t n)
{
	*digest = counts_checksum_on(*digest, bytes, n);
}

static void digest_number(uint64_t *digest, uint64_t number)
{
	uint8_t bytes[8];

	store_le64(bytes, number);
	digest_bytes(digest, bytes, sizeof(bytes));
}

static int add_recordings(struct ptah_shard_plan *plan, const char *const *paths, size_t n,
			  struct ptah_message *why)
{
	for (; plan->count < n; plan->count++) {
		struct planned_recording *r = &plan->recordings[plan->count];
		const char *path = paths[plan->count], *name = shard_name(path);
		int status = recording_size(path, &r->bytes, why);

		if (status < 0)
			return status;
		digest_bytes(&plan->digest, name, strlen(name) + 1);
		digest_number(&plan->digest, r->bytes);
		r->bytes += !r->bytes;
		r->first = plan->bytes;
		if (__builtin_add_overflow(plan->bytes, r->bytes, &plan->bytes))
			return perfdata_message(why, PTAH_E_LIMIT, "the recordings are too large");
		r->path = strdup(path);
		if (!r->path)
			return PTAH_E_NOMEM;
	}
	return 0;
}

static int make_shard_plan(const char *const *paths, size_t n, uint32_t parts, const char *options,
			   struct ptah_shard_plan **plan, struct ptah_message *why)
{
	struct ptah_shard_plan *p;
	int status;

	if (!paths || !n || n > UINT32_MAX || !parts || parts > PTAH_SHARD_PARTS_MAX || !plan)
		return PTAH_E_INVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return PTAH_E_NOMEM;
	p->parts = parts;
	p->digest = COUNTS_CHECKSUM_BEGIN;
	p->recordings = calloc(n, sizeof(*p->recordings));
	status = p->recordings ? add_recordings(p, paths, n, why) : PTAH_E_NOMEM;
	if (status < 0) {
		ptah_shard_plan_free(p);
		return status == PTAH_E_NOMEM ? perfdata_message(why, status, "out of memory")
					      : status;
	}
	digest_number(&p->digest, n);
	if (options)
		digest_bytes(&p->digest, options, strlen(options) + 1);
	*plan = p;
	return 0;
}

int ptah_shard_plan_new(const char *const *paths, size_t n, uint32_t parts, const char *options,
			struct ptah_shard_plan **plan, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, make_shard_plan(paths, n, parts, options, plan, why));
}

void ptah_shard_plan_free(struct ptah_shard_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; plan->recordings && i < plan->count; i++)
		free(plan->recordings[i].path);
	free(plan->recordings);
	free(plan);
}

/* a * b / c, where the result fits. */
static uint64_t share(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

/* The first byte of a part, of all recordings one after the other. */
static uint64_t begin_of(const struct ptah_shard_plan *plan, uint32_t part)
{
	return share(plan->bytes, part - 1, plan->parts);
}

uint64_t ptah_shard_plan_bytes(const struct ptah_shard_plan *plan, uint32_t part)
{
	if (!plan || part > plan->parts)
		return 0;
	return part ? begin_of(plan, part + 1) - begin_of(plan, part) : plan->bytes;
}

bool shard_plan_touches(const struct ptah_shard_plan *plan, uint32_t part, size_t recording)
{
	const struct planned_recording *r = &plan->recordings[recording];
	const uint64_t begin = begin_of(plan, part), end = begin_of(plan, part + 1);

	return begin < end && begin < r->first + r->bytes && end > r->first;
}

void shard_plan_range(const struct ptah_shard_plan *plan, uint32_t part, size_t recording,
		      uint64_t *from, uint64_t *to, uint64_t trace)
{
	const struct planned_recording *r = &plan->recordings[recording];
	const uint64_t begin = begin_of(plan, part), end = begin_of(plan, part + 1);

	*from = 0;
	*to = UINT64_MAX;
	/* 0 is the beginning of the recording and of nothing else. */
	if (begin > r->first) {
		*from = share(trace, begin - r->first, r->bytes);
		*from += !*from;
	}
	if (end < r->first + r->bytes) {
		*to = share(trace, end - r->first, r->bytes);
		*to += !*to;
	}
}
