/* SPDX-License-Identifier: MIT */
/*
 * Proves of the folders of hwt: whatever their records, buffers and files contain, they become a
 * trace set or are refused with a reason; each piece of a buffer lies in it, no byte is in two, and
 * code lies in files of the folder.
 *
 * Input: the pages of two buffers (a byte each), a byte with the number of records, and for each its
 * type, a byte that chooses the path or the buffer, and 8 bytes for the address or the position; the
 * rest is a file that the paths lead to.
 */
#include "base/bits.h"
#include "traceset/foreign.h"

#define RECORD 1056

static const char *const names[] = {"hwt.records", "hwt_1_0", "hwt_1_1", "lib.so", "trace.out0"};

#include "folder.h"

static void write_copy(size_t name, uint8_t pages)
{
	uint8_t page[4096] = {[7] = 1};

	for (pages %= 8; pages; pages--)
		write_file(name, O_APPEND, page, sizeof(page));
}

static void write_record(const uint8_t data[10])
{
	static const char *const paths[] = {"/lib/lib.so", "lib.so", "/nowhere", ""};
	uint8_t record[RECORD] = {0};

	record[0] = data[0];
	if (data[0] % 8 == 6) { /* a buffer */
		store_le32(record + 8, data[1]);
		store_le32(record + 12, load_le32(data + 2));
		store_le64(record + 16, load_le32(data + 6));
	} else if (data[0] % 8 >= 4) {
		store_le32(record + 8, load_le32(data + 2));
	} else {
		strcpy((char *)record + 8, paths[data[1] % 4]);
		store_le64(record + 1032, load_le64(data + 2));
		store_le64(record + 1040, load_le64(data + 2) / 3);
	}
	write_file(0, O_APPEND, record, sizeof(record));
}

static void write_folder(const uint8_t *data, size_t size)
{
	size_t records;

	if (size < 3)
		return;
	write_copy(1, data[0]);
	write_copy(2, data[1]);
	records = data[2];
	data += 3;
	size -= 3;
	write_file(0, O_APPEND, data, 0);
	for (; records && size >= 10; records--, data += 10, size -= 10)
		write_record(data);
	write_file(3, O_APPEND, data, size);
	write_file(4, O_APPEND, data, size);
}

static uint64_t size_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	CHECK(size >= 0);
	close(fd);
	return (uint64_t)size;
}

static void check_set(const struct ptah_trace_set *set)
{
	for (size_t i = 0; i < set->stream_count; i++) {
		const struct ptah_trace_file *file = &set->streams[i].file;

		CHECK(file->to ? file->from < file->to && file->to <= size_of(file->path)
			       : !file->from);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(set->streams[k].file.path, file->path) != 0 ||
			      (file->to && file->to <= set->streams[k].file.from));
	}
	for (size_t i = 0; i < set->code_count; i++)
		CHECK(!strncmp(set->code[i].file.path, folder, strlen(folder)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	int status;

	begin_folder();
	write_folder(data, size);
	if (!foreign_hwt.is(folder))
		return 0;
	CHECK(!ptah_trace_set_new(&set) && !traceset_set_folder(set, folder));
	status = foreign_hwt.read(folder, set, &why);
	CHECK(status <= 0 && (!status || why.text[0]));
	check_set(set);
	ptah_trace_set_free(set);
	return 0;
}
