/* SPDX-License-Identifier: MIT */
/*
 * Proves of the folders of insntrace and of dumps: whatever their files contain, they become a
 * trace set or are refused with a reason, and the set has valid entries.
 *
 * Input: files one after the other, each a byte that chooses the name, a byte for its size in units
 * of 16 bytes, and the content.
 */
#include "fuzz.h"

#include "traceset/foreign.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {"a.ptlist",	  "a.xptlist",	"a.ktrace",   "a.cpuid",
				    "x.log",	  "ids.txt",	"zircon.elf", "a.cpu0.pt",
				    "trace.out0", "trace.out1", "b.ptlist",   "libc.so"};

#define NAMES (sizeof(names) / sizeof(*names))

static char folder[] = "/tmp/ptah-fuzz-folders-XXXXXX";

static void path_of(char path[128], size_t name)
{
	snprintf(path, 128, "%s/%s", folder, names[name]);
}

static void clean(void)
{
	char path[128];

	for (size_t i = 0; i < NAMES; i++) {
		path_of(path, i);
		unlink(path);
	}
}

static void clean_up(void)
{
	clean();
	rmdir(folder);
}

static void write_files(const uint8_t *data, size_t size)
{
	while (size >= 2) {
		size_t n = 16u * data[1];
		char path[128];
		int fd;

		path_of(path, data[0] % NAMES);
		data += 2;
		size -= 2;
		n = n < size ? n : size;
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
		close(fd);
		data += n;
		size -= n;
	}
}

static void check_set(const struct ptah_trace_set *set)
{
	for (size_t i = 0; i < set->stream_count; i++) {
		CHECK(*set->streams[i].file.path == '/');
		CHECK(set->streams[i].cpu >= -1 && set->streams[i].tid >= -1);
	}
	for (size_t i = 0; i < set->code_count; i++) {
		CHECK(*set->code[i].file.path == '/');
		CHECK(set->code[i].build_id_size <= PTAH_BUILD_ID_MAX);
	}
}

static void read_with(const struct foreign_reader *reader)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	int status;

	CHECK(!ptah_trace_set_new(&set));
	CHECK(!traceset_set_folder(set, folder));
	status = reader->read(folder, set, &why);
	CHECK(status <= 0 && (!status || why.text[0]));
	check_set(set);
	ptah_trace_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;

	if (!begun) {
		CHECK(mkdtemp(folder));
		atexit(clean_up);
		begun = true;
	}
	clean();
	write_files(data, size);
	if (foreign_insntrace.is(folder))
		read_with(&foreign_insntrace);
	if (foreign_dumps.is(folder))
		read_with(&foreign_dumps);
	return 0;
}
