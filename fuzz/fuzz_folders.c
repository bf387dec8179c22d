/* SPDX-License-Identifier: MIT */
/*
 * Proves of the folders of insntrace and of dumps: whatever their files contain, they become a
 * trace set or are refused with a reason, and the set has valid entries.
 *
 * Input: files one after the other, each a byte that chooses the name, a byte for its size in units
 * of 16 bytes, and the content.
 */
#include "traceset/foreign.h"

static const char *const names[] = {"a.ptlist",	  "a.xptlist",	"a.ktrace",   "a.cpuid",
				    "x.log",	  "ids.txt",	"zircon.elf", "a.cpu0.pt",
				    "trace.out0", "trace.out1", "b.ptlist",   "libc.so"};

#include "folder.h"

static void write_files(const uint8_t *data, size_t size)
{
	while (size >= 2) {
		const size_t name = data[0] % NAMES;
		size_t n = 16u * data[1];

		data += 2;
		size -= 2;
		n = n < size ? n : size;
		write_file(name, O_TRUNC, data, n);
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
	begin_folder();
	write_files(data, size);
	if (foreign_insntrace.is(folder))
		read_with(&foreign_insntrace);
	if (foreign_dumps.is(folder))
		read_with(&foreign_dumps);
	return 0;
}
