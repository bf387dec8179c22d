/* SPDX-License-Identifier: MIT */
/*
 * relayout KIND IN OUT: a recording in another layout, for the tests of the
 * command. Kinds: pipe, packed, packed2, packed-pipe, folder.
 *
 * relayout merge IN1 IN2 OUT: the threads' streams of two recordings, one made
 * after the other by one clock, as the stream of CPU 0 with a context switch
 * between them.
 */
#include "perfdata/relayout.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static struct layout read_file(const char *path)
{
	struct perfdata_buffer b = {0};
	FILE *f = fopen(path, "rb");
	uint8_t bytes[65536];
	size_t n;

	if (!f) {
		perror(path);
		exit(1);
	}
	while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
		perfdata_put(&b, bytes, n);
	fclose(f);
	return (struct layout){b.bytes, b.size};
}

static void write_file(const char *path, const struct perfdata_buffer *b)
{
	FILE *f = fopen(path, "wb");

	if (!f || (b->size && fwrite(b->bytes, b->size, 1, f) != 1) || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void write_folder(const char *path, struct layout in)
{
	static const char *const names[] = {"data", "data.0", "data.1"};
	struct perfdata_buffer out[3] = {{0}};

	layout_to_folder(out, in);
	mkdir(path, 0755);
	for (unsigned i = 0; i < 3; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, names[i]);
		write_file(file, &out[i]);
	}
}

/*
 * The sample id of Ptah's recordings: pid, tid, time, CPU, id. Returns the time
 * of the last record that has one, and puts the CPU in.
 */
#define ID_SIZE 32

static uint64_t put_records(struct perfdata_buffer *out, struct layout in, bool with_info,
			    uint64_t *offset)
{
	const uint8_t *end = in.bytes + layout_end(in);
	uint64_t last = 0;

	for (const uint8_t *at = in.bytes + layout_data(in); at < end; at += layout_whole(at)) {
		const uint32_t type = load_le32(at);
		const size_t begin = out->size, size = load_le16(at + 6);

		if (type == PERFDATA_HEADER_EVENT_TYPE ||
		    (type == PERFDATA_AUXTRACE_INFO && !with_info))
			continue;
		perfdata_put(out, at, (size_t)layout_whole(at));
		if (type == PERFDATA_AUXTRACE) {
			uint8_t *r = out->bytes + begin;

			store_le64(r + 16, *offset);
			store_le32(r + 32, 0);
			store_le32(r + 36, UINT32_MAX); /* tid */
			store_le32(r + 40, 0);		/* CPU */
			*offset += load_le64(r + 8);
		} else if (type == PERFDATA_AUXTRACE_INFO) {
			store_le64(out->bytes + begin + 16 + 8 * PERFDATA_INFO_PER_CPU, 1);
			store_le64(out->bytes + begin + 16 + 8 * PERFDATA_INFO_SCHED_SWITCH, 3);
		} else if (type < PERFDATA_USER) {
			store_le64(out->bytes + begin + size - 16, 0);
			last = load_le64(at + size - 24);
		}
	}
	return last;
}

/* Who leaves and who comes, of recordings with one process. */
static int32_t process_of(struct layout in)
{
	const uint8_t *at = in.bytes + layout_data(in);

	while (load_le32(at) != PERFDATA_COMM)
		at += layout_whole(at);
	return (int32_t)load_le32(at + 8);
}

static void put_switch(struct perfdata_buffer *out, bool leaves, int32_t pid, int32_t other,
		       uint64_t time)
{
	perfdata_put32(out, PERFDATA_SWITCH_CPU_WIDE);
	perfdata_put16(out, leaves ? PERFDATA_MISC_SWITCH_OUT : 0);
	perfdata_put16(out, 8 + 8 + ID_SIZE);
	perfdata_put32(out, (uint32_t)other);
	perfdata_put32(out, (uint32_t)other);
	perfdata_put32(out, (uint32_t)pid);
	perfdata_put32(out, (uint32_t)pid);
	perfdata_put64(out, time);
	perfdata_put64(out, 0); /* CPU */
	perfdata_put64(out, 1); /* id */
}

static void merge(struct layout a, struct layout b, const char *path)
{
	struct perfdata_buffer records = {0}, out = {0};
	const int32_t first = process_of(a), second = process_of(b);
	uint64_t offset = 0, time = put_records(&records, a, true, &offset);

	put_switch(&records, true, first, second, time + 1);
	put_switch(&records, false, second, first, time + 1);
	put_records(&records, b, false, &offset);
	layout_around(&out, a, &records, 0);
	/* The event's attribute is of all processes, with context switches. */
	write_file(path, &out);
}

int main(int argc, char **argv)
{
	struct perfdata_buffer out = {0};

	if (argc == 5 && !strcmp(argv[1], "merge")) {
		merge(read_file(argv[2]), read_file(argv[3]), argv[4]);
		return 0;
	}
	if (argc != 4)
		return 2;
	if (!strcmp(argv[1], "folder")) {
		write_folder(argv[3], read_file(argv[2]));
		return 0;
	}
	if (!strcmp(argv[1], "pipe"))
		layout_to_pipe(&out, read_file(argv[2]));
	else if (!strcmp(argv[1], "packed"))
		layout_to_packed(&out, read_file(argv[2]), 1000, PERFDATA_COMPRESSED);
	else if (!strcmp(argv[1], "packed2"))
		layout_to_packed(&out, read_file(argv[2]), 1000, PERFDATA_COMPRESSED2);
	else if (!strcmp(argv[1], "packed-pipe"))
		layout_to_packed_pipe(&out, read_file(argv[2]), 1000);
	else
		return 2;
	write_file(argv[3], &out);
	return 0;
}
