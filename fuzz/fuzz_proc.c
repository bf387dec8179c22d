/* SPDX-License-Identifier: MIT */
/*
 * Proves of the records about running processes that they are whole, whatever
 * the process and its files are called (anybody can choose these names): each
 * record has the process's number, each name ends with a zero, and each mmap
 * record is that of an executable mapping that is not empty.
 *
 * Input: a byte with the length of the process's name; the name, then
 * /proc/PID/maps.
 */
#include "fuzz.h"

#include "record/perf_event/proc.h"

#include <linux/perf_event.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int take(void *context, const uint8_t *r, size_t size)
{
	uint32_t type = load32(r);
	size_t name = type == PERF_RECORD_COMM ? 16 : type == PERF_RECORD_MMAP2 ? 72 : 0;

	++*(unsigned *)context;
	CHECK(size >= 48 && size % 8 == 0 && size == load32(r + 4) >> 16);
	CHECK(load32(r + 8) == 5 && load32(r + size - 32) == 5 && load32(r + size - 8) == 9);
	CHECK(type == PERF_RECORD_FORK || name);
	if (name)
		CHECK(memchr(r + name, '\0', size - 32 - name));
	if (type == PERF_RECORD_MMAP2) {
		uint64_t length;

		memcpy(&length, r + 24, sizeof(length));
		CHECK(length && load32(r + 64) & 4 && load32(r + 64) < 8);
	}
	return 0;
}

static void put(const char *root, const char *path, const void *bytes, size_t size)
{
	char name[128];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	f = fopen(name, "w");
	CHECK(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

static void make_folders(char *root)
{
	static const char *const folders[] = {"/proc", "/proc/5", "/proc/5/task", "/proc/5/task/5"};
	static const char status[] = "Tgid:\t5\nPPid:\t1\n";
	char name[128];

	CHECK(mkdtemp(root));
	for (size_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%s", root, folders[i]);
		CHECK(!mkdir(name, 0700));
	}
	put(root, "/proc/5/status", status, sizeof(status) - 1);
}

static void remove_folders(const char *root)
{
	static const char *const names[] = {
	    "/proc/5/task/5/comm", "/proc/5/task/5", "/proc/5/task", "/proc/5/status",
	    "/proc/5/maps",	   "/proc/5",	     "/proc",	     ""};
	char name[128];

	for (size_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%s%s", root, names[i]);
		CHECK(!remove(name));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char root[] = "/tmp/ptah-fuzz-proc-XXXXXX";
	unsigned records = 0;
	const struct proc_reporter reporter = {
	    .root = root, .id = 9, .build_ids = true, .take = take, .context = &records};
	size_t comm;

	if (!size)
		return 0;
	comm = data[0] < size - 1 ? data[0] : size - 1;
	make_folders(root);
	put(root, "/proc/5/task/5/comm", data + 1, comm);
	put(root, "/proc/5/maps", data + 1 + comm, size - 1 - comm);
	CHECK(!proc_report(&reporter, 5, 0));
	CHECK(records >= 2);
	remove_folders(root);
	return 0;
}
