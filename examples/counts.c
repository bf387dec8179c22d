/* SPDX-License-Identifier: MIT */
/* counts SAVED FILE...: adds up the counts of several files, recordings or counts that were saved
 * before, and saves the sum. */
#include <ptah/counts.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

static void check(int status)
{
	if (status < 0)
		fail(ptah_strerror(status));
}

/* For ptah_counts_locate(): the file that was mapped at an address at that time. */
static bool find(void *session, int32_t pid, uint64_t address, uint64_t tsc,
		 struct ptah_counts_file *file)
{
	struct ptah_map map;

	if (!ptah_session_find_map(session, pid, address, tsc, &map))
		return false;
	*file = (struct ptah_counts_file){.address = map.address,
					  .size = map.size,
					  .file_offset = map.file_offset,
					  .path = map.path};
	return true;
}

struct sum {
	const struct ptah_session *session;
	struct ptah_counts *counts;
};

/* For ptah_session_count(): the counts of one stream. */
static int add(void *context, size_t stream, struct ptah_profile *profile)
{
	const struct sum *sum = context;

	return ptah_counts_add_stream(sum->counts, sum->session, stream, profile);
}

/* Counts every stream of a recording for the process it belongs to. */
static struct ptah_counts *count(const char *path)
{
	struct ptah_session *session;
	struct ptah_counts *counts;
	struct ptah_message why;

	if (ptah_session_open(path, NULL, &session, &why) < 0)
		fail(why.text);
	check(ptah_counts_new(&counts));
	check(ptah_session_count(session, NULL, NULL, add, &(struct sum){session, counts}));
	check(ptah_counts_locate(counts, find, session));
	ptah_session_close(session);
	return counts;
}

static void save(const struct ptah_counts *counts, const char *path)
{
	FILE *f = fopen(path, "wb");
	void *bytes;
	size_t n;

	check(ptah_counts_save(counts, &bytes, &n));
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		fail("cannot write the counts");
	free(bytes);
}

int main(int argc, char **argv)
{
	struct ptah_counts *counts, *more;
	struct ptah_profile_totals totals;
	struct ptah_message why;

	if (argc < 3 || ptah_counts_new(&counts) < 0)
		fail("usage: counts SAVED FILE...");
	for (int i = 2; i < argc; i++) {
		if (ptah_counts_recognise(argv[i]) != PTAH_COUNTS_SUM)
			more = count(argv[i]);
		else if (ptah_counts_open(argv[i], &more, &why) < 0)
			fail(why.text);
		check(ptah_counts_merge(counts, more));
		ptah_counts_free(more);
	}
	ptah_counts_totals(counts, &totals, NULL);
	printf("%" PRIu64 " instructions\n", totals.instructions);
	save(counts, argv[1]);
	ptah_counts_free(counts);
	return 0;
}
