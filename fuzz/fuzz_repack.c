/* SPDX-License-Identifier: MIT */
/*
 * Proves of ptah repack: any recording that can be opened is repacked, or refused with a message
 * and without an output; and what was repacked has the same instructions, branches and errors.
 *
 * Input: a perf.data file. The binaries that it names are searched for in an empty folder, so that
 * code is what the recording itself contains.
 */
#include "fuzz.h"

#include "export/repack.h"
#include "session/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_STEPS 64

static const struct ptah_session_config config = {
    .size = sizeof(config), .symfs = "/var/empty/ptah-fuzz", .ignore_build_ids = true};

static bool count_step(void *steps, uint64_t bytes)
{
	(void)bytes;
	return ++*(unsigned *)steps < MAX_STEPS;
}

static void count(const struct ptah_session *s, size_t stream, struct ptah_profile_totals *totals)
{
	struct stream_decoder *decoder;
	int status;

	CHECK(!stream_new(s, stream, &decoder));
	do
		status = stream_count(decoder);
	while (status > 0);
	CHECK(!status && !ptah_profile_totals(stream_profile(decoder), totals));
	stream_free(decoder);
}

/* The same counts in all streams. A stream without a byte left is gone. */
static void compare(const struct ptah_session *before, const char *path)
{
	struct ptah_profile_totals old, now;
	struct ptah_message why;
	struct ptah_session *after;
	size_t n;

	if (ptah_session_open(path, &config, &after, &why) < 0)
		CHECK(!puts(why.text));
	n = ptah_session_streams(after);
	CHECK(n <= ptah_session_streams(before));
	for (size_t i = 0; n == ptah_session_streams(before) && i < n; i++) {
		count(before, i, &old);
		count(after, i, &now);
		CHECK(old.instructions == now.instructions && old.taken == now.taken);
		CHECK(!memcmp(old.classes, now.classes, sizeof(old.classes)));
		CHECK(old.errors == now.errors && old.overflows == now.overflows);
	}
	ptah_session_close(after);
}

static void run(const char *path, const struct ptah_session *session, uint64_t psb_period)
{
	char folder[] = "/tmp/ptah-fuzz-XXXXXX", output[64];
	unsigned steps = 0;
	struct repack_job job = {.input = path,
				 .output = output,
				 .session = session,
				 .psb_period = psb_period,
				 .step = count_step,
				 .context = &steps};
	struct ptah_message why = {""};

	CHECK(mkdtemp(folder));
	snprintf(output, sizeof(output), "%s/out", folder);
	if (repack_run(&job, &why) < 0)
		CHECK(*why.text && access(output, F_OK));
	else if (!job.stopped)
		compare(session, output);
	unlink(output);
	CHECK(!rmdir(folder)); /* nothing else was left there */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_message why;
	struct ptah_session *s;
	char path[64];
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ptah_session_open(path, &config, &s, &why) == 0) {
		run(path, s, size % 2 * 64);
		ptah_session_close(s);
	}
	close(fd);
	return 0;
}
