/* SPDX-License-Identifier: MIT */
/*
 * Proves of ptah inject: any recording that can be opened gets its samples, or is refused with a
 * message; what was written can be read back to its end, and has a record for each sample.
 *
 * Input: a perf.data file. The binaries that it names are searched for in an empty folder.
 */
#include "fuzz.h"

#include "export/inject.h"
#include "perfdata/format.h"
#include "perfdata/reader.h"

#include <sys/mman.h>
#include <unistd.h>

#define MAX_READS 1000

static bool wants(void *reads, size_t stream)
{
	(void)reads;
	return stream < 16;
}

static bool count_read(void *reads, uint64_t bytes)
{
	(void)bytes;
	return ++*(unsigned *)reads < MAX_READS;
}

static void read_back(const char *path, const struct inject *job)
{
	struct perfdata_record record;
	struct perfdata_file *file;
	struct ptah_message why;
	uint64_t samples = 0;
	int status;

	CHECK(!perfdata_open(path, &file, &why));
	perfdata_keep_all(file);
	while ((status = perfdata_next(file, &record, &why)) > 0)
		samples += record.type == PERFDATA_SAMPLE;
	CHECK(!status && samples == job->samples);
	CHECK(!perfdata_auxtrace(file));
	perfdata_close(file);
}

static void run(const char *path, const struct ptah_session *session, const char *letters)
{
	unsigned reads = 0;
	struct inject job = {.input = path,
			     .session = session,
			     .strip = true,
			     .jobs = 1,
			     .wants = wants,
			     .step = count_read,
			     .context = &reads};
	struct ptah_message why = {""};
	const int fd = memfd_create("out", 0);
	char output[64];

	CHECK(fd >= 0);
	snprintf(output, sizeof(output), "/proc/self/fd/%d", fd);
	job.output = output;
	CHECK(!itrace_parse(letters, &job.itrace, &why));
	if (inject_run(&job, &why) < 0)
		CHECK(*why.text);
	else if (!job.stopped)
		read_back(output, &job);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ptah_session_config config = {
	    .size = sizeof(config), .symfs = "/var/empty/ptah-fuzz", .ignore_build_ids = true};
	struct ptah_message why;
	struct ptah_session *s;
	char path[64];
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ptah_session_open(path, &config, &s, &why) == 0) {
		run(path, s, "i3ig4l3bce");
		run(path, s, "i2nsbe-os2");
		ptah_session_close(s);
	}
	close(fd);
	return 0;
}
