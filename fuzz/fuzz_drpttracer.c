/* SPDX-License-Identifier: MIT */
/*
 * Proves of DynamoRIO's traces: any file of a thread's system calls, and any file of perf's records
 * beside packets, is read or refused with a message that names the file. The pieces of a thread lie
 * in its file, one after the other, and are neither empty nor more than the file has room for.
 *
 * Input: the file, which is tried as both.
 */
#include "fuzz.h"

#include "traceset/set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], calls[80], records[80], thread[120], sideband[120], packets[120];
static int thread_fd, sideband_fd;

static void remove_folder(void)
{
	unlink(thread);
	unlink(sideband);
	unlink(packets);
	rmdir(calls);
	rmdir(records);
	rmdir(folder);
}

static int new_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	return fd;
}

static void put_bytes(int fd, const void *bytes, size_t size)
{
	CHECK(!ftruncate(fd, 0) && pwrite(fd, bytes, size, 0) == (ssize_t)size);
}

static void make_folder(void)
{
	if (*folder)
		return;
	strcpy(folder, "/tmp/ptah-fuzz-XXXXXX");
	CHECK(mkdtemp(folder));
	snprintf(calls, sizeof(calls), "%s/calls", folder);
	snprintf(records, sizeof(records), "%s/records", folder);
	snprintf(thread, sizeof(thread), "%s/12.raw.pt", calls);
	snprintf(sideband, sizeof(sideband), "%s/primary.sideband.pevent", records);
	snprintf(packets, sizeof(packets), "%s/pt.bin", records);
	CHECK(!mkdir(calls, 0700) && !mkdir(records, 0700));
	thread_fd = new_file(thread);
	sideband_fd = new_file(sideband);
	put_bytes(new_file(packets), "\x02\x23", 2);
	atexit(remove_folder);
}

static void check_thread(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	uint64_t end = 0;
	int status;

	put_bytes(thread_fd, data, size);
	status = ptah_trace_set_open(calls, &set, &why);
	if (status < 0) {
		CHECK(status == PTAH_E_NOMEM || strstr(why.text, calls));
		return;
	}
	CHECK(size >= 42 && set->stream_count <= size / 48 && !set->sideband_count);
	for (size_t i = 0; i < set->stream_count; i++) {
		const struct ptah_trace_file *file = &set->streams[i].file;

		CHECK(file->from >= end + 48 && file->from < file->to && file->to <= size);
		CHECK(!strcmp(file->path, thread) && set->streams[i].cpu < 0);
		end = file->to;
	}
	ptah_trace_set_free(set);
}

static void check_records(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	put_bytes(sideband_fd, data, size);
	if (ptah_trace_set_open(records, &set, &why) < 0) {
		CHECK(strstr(why.text, sideband));
		return;
	}
	CHECK(set->stream_count == 1 && set->sideband_count == !!size);
	CHECK(!strcmp(set->streams[0].file.path, packets) && set->root);
	CHECK(!set->processor.has_clock ||
	      (set->processor.time_mult && set->processor.time_shift < 64));
	ptah_trace_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	make_folder();
	check_thread(data, size);
	check_records(data, size);
	return 0;
}
