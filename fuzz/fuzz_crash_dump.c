/* SPDX-License-Identifier: MIT */
/*
 * Proves of dumps of a machine's memory: whatever the file contains, it becomes a trace set or is
 * refused with a reason, in a bounded time, and all pieces of trace and code lie in the file.
 *
 * Input: the file.
 */
#include "fuzz.h"

#include "traceset/foreign.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/ptah-fuzz-dump-XXXXXX";

static void clean_up(void)
{
	unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check_set(const struct ptah_trace_set *set, size_t size)
{
	for (size_t i = 0; i < set->stream_count; i++) {
		const struct ptah_trace_file *f = &set->streams[i].file;

		CHECK(f->from < f->to && f->to <= size);
		CHECK(set->streams[i].cpu >= -1 && set->streams[i].tid >= -1);
	}
	for (size_t i = 0; i < set->code_count; i++) {
		const struct ptah_trace_file *f = &set->code[i].file;

		CHECK(f->from < f->to && f->to <= size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	static bool begun;
	int status;

	if (!begun) {
		int fd = mkstemp(path);

		CHECK(fd >= 0);
		close(fd);
		atexit(clean_up);
		begun = true;
	}
	write_file(data, size);
	if (!foreign_crash_dump.is(path))
		return 0;
	CHECK(!ptah_trace_set_new(&set));
	CHECK(!traceset_set_folder(set, "/tmp"));
	status = foreign_crash_dump.read(path, set, &why);
	CHECK(status <= 0 && (!status || why.text[0]));
	if (!status)
		check_set(set, size);
	ptah_trace_set_free(set);
	return 0;
}
