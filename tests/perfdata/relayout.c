/* SPDX-License-Identifier: MIT */
/*
 * relayout KIND IN OUT: writes a recording in another of perf's layouts, for the tests of the
 * command. Kinds: pipe, packed, packed2, packed-pipe, folder.
 *
 * relayout records FILE: prints the records that Ptah's reader finds in a recording, as perf script
 * --show-task-events --show-mmap-events --show-switch-events does.
 *
 * relayout samples IN OUT SIZE AGAIN: puts the trace of a recording of one thread into samples of
 * SIZE bytes, as `perf record --aux-sample` does. Each begins with the last AGAIN bytes of the one
 * before, or with a negative number that many bytes after its end.
 *
 * relayout also IN FROM OUT: adds the records of namespaces and control groups in FROM to IN.
 *
 * relayout merge IN1 IN2 OUT: joins the threads' streams of two recordings, made one after the
 * other with one clock, into the stream of CPU 0, with a context switch between them.
 */
#include "perfdata/relayout.h"

#include "base/compiler.h"
#include "perfdata/reader.h"

#include <ptah/session.h>

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

/* The sample id of Ptah's recordings: pid, tid, time, CPU, id. */
#define ID_SIZE 32

static const uint8_t *first_of(struct layout in, uint32_t type)
{
	const uint8_t *at = in.bytes + layout_data(in);

	while (load_le32(at) != type)
		at += layout_whole(at);
	return at;
}

/* Appends trace of CPU 0, from *offset on. */
static void put_on_cpu(struct perfdata_buffer *out, size_t begin, uint64_t *offset)
{
	uint8_t *r = out->bytes + begin;

	store_le64(r + 16, *offset);
	store_le32(r + 32, 0);
	store_le32(r + 36, UINT32_MAX); /* tid */
	store_le32(r + 40, 0);		/* CPU */
	*offset += load_le64(r + 8);
}

static void put_records(struct perfdata_buffer *out, struct layout in, bool is_first,
			uint64_t *offset)
{
	const uint8_t *end = in.bytes + layout_end(in);

	for (const uint8_t *at = in.bytes + layout_data(in); at < end; at += layout_whole(at)) {
		const uint32_t type = load_le32(at);
		const size_t begin = out->size, size = load_le16(at + 6);

		/* Each thread exists from the beginning to the end, and the first one runs. */
		if (type == PERFDATA_HEADER_EVENT_TYPE || type == PERFDATA_EXIT ||
		    (!is_first &&
		     (type == PERFDATA_AUXTRACE_INFO || type == PERFDATA_ITRACE_START)))
			continue;
		perfdata_put(out, at, (size_t)layout_whole(at));
		if (type == PERFDATA_AUXTRACE) {
			put_on_cpu(out, begin, offset);
		} else if (type == PERFDATA_AUXTRACE_INFO) {
			store_le64(out->bytes + begin + 16 + 8 * PERFDATA_INFO_PER_CPU, 1);
			store_le64(out->bytes + begin + 16 + 8 * PERFDATA_INFO_SCHED_SWITCH, 3);
		} else if (type < PERFDATA_USER) {
			store_le64(out->bytes + begin + size - 16, 0);
		}
	}
}

/* A time stamp while packets are off: what precedes it ran before that time. */
static void put_stamp(struct perfdata_buffer *out, uint64_t tsc, uint64_t *offset)
{
	const size_t begin = out->size;

	layout_record(out, PERFDATA_AUXTRACE, PERFDATA_AUXTRACE_HEADER - 8);
	perfdata_put(out, NULL, PERFDATA_AUXTRACE_HEADER - 8);
	store_le64(out->bytes + begin + 8, 32);
	store_le64(out->bytes + begin + 24, 1);
	put_on_cpu(out, begin, offset);
	for (unsigned i = 0; i < 8; i++)
		perfdata_put16(out, 0x8202); /* PSB */
	perfdata_put64(out, tsc << 8 | 0x19);
	perfdata_put64(out, 0x2302); /* PSBEND, and PADs */
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

/* perf's time of a TSC, by the formula of time_zero in perf_event.h. */
static uint64_t time_of(struct layout in, uint64_t tsc)
{
	const uint8_t *info = first_of(in, PERFDATA_AUXTRACE_INFO) + 16;
	const uint64_t shift = load_le64(info + 8 * PERFDATA_INFO_TIME_SHIFT);
	const uint64_t mult = load_le64(info + 8 * PERFDATA_INFO_TIME_MULT);
	const uint64_t low = tsc & ((UINT64_C(1) << shift) - 1);

	return load_le64(info + 8 * PERFDATA_INFO_TIME_ZERO) + (tsc >> shift) * mult +
	       (low * mult >> shift);
}

/* Reads the time from the first packets of each recording, PSB and TSC. */
static void merge(struct layout a, struct layout b, const char *path)
{
	const int32_t first = (int32_t)load_le32(first_of(a, PERFDATA_COMM) + 8);
	const int32_t second = (int32_t)load_le32(first_of(b, PERFDATA_COMM) + 8);
	const uint64_t tsc =
	    load_le64(first_of(b, PERFDATA_AUXTRACE) + PERFDATA_AUXTRACE_HEADER + 16) >> 8;
	struct perfdata_buffer records = {0}, out = {0};
	uint64_t offset = 0, flags;
	uint8_t *attr;

	put_records(&records, a, true, &offset);
	put_stamp(&records, tsc - 2000, &offset);
	put_switch(&records, true, first, second, time_of(a, tsc - 1000));
	put_switch(&records, false, second, first, time_of(a, tsc - 1000));
	put_records(&records, b, false, &offset);
	layout_around(&out, a, &records, 0);
	/* The event has context switches now. */
	attr = out.bytes + load_le64(out.bytes + PERFDATA_AT_ATTRS);
	flags = load_le64(attr + PERFDATA_ATTR_AT_FLAGS);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS, flags | UINT64_C(1) << 26);
	write_file(path, &out);
}

/* The first bytes of a record, which ends with the sample id of Ptah's recordings. */
static void put_kernel_record(struct perfdata_buffer *out, const struct perfdata_record *r,
			      const struct perfdata_buffer *body)
{
	perfdata_put32(out, r->type);
	perfdata_put16(out, 0);
	perfdata_put16(out, (uint16_t)(8 + body->size + ID_SIZE));
	perfdata_put(out, body->bytes, body->size);
	perfdata_put32(out, (uint32_t)r->pid);
	perfdata_put32(out, (uint32_t)r->tid);
	perfdata_put64(out, 0); /* time */
	perfdata_put64(out, 0); /* CPU */
	perfdata_put64(out, 1); /* id */
}

static void put_also(struct perfdata_buffer *out, const char *from)
{
	struct ptah_message why = {""};
	struct perfdata_record r;
	struct perfdata_file *f;

	if (perfdata_open(from, &f, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		exit(1);
	}
	while (perfdata_next(f, &r, &why) > 0) {
		struct perfdata_buffer body = {0};

		if (r.type != PERFDATA_NAMESPACES && r.type != PERFDATA_CGROUP)
			continue;
		if (r.type == PERFDATA_NAMESPACES) {
			perfdata_put32(&body, (uint32_t)r.pid);
			perfdata_put32(&body, (uint32_t)r.tid);
		}
		perfdata_put64(&body, r.number);
		if (r.type == PERFDATA_NAMESPACES)
			perfdata_put(&body, r.bytes, 16 * (size_t)r.number);
		else
			perfdata_put_string(&body, r.text, 8);
		put_kernel_record(out, &r, &body);
		perfdata_buffer_free(&body);
	}
	perfdata_close(f);
}

static void write_also(struct layout in, const char *from, const char *path)
{
	const uint8_t *begin = in.bytes + layout_data(in), *end = in.bytes + layout_end(in);
	struct perfdata_buffer records = {0}, out = {0};

	/* AUXTRACE_INFO stays the first. */
	perfdata_put(&records, begin, (size_t)layout_whole(begin));
	put_also(&records, from);
	begin += layout_whole(begin);
	perfdata_put(&records, begin, (size_t)(end - begin));
	layout_around(&out, in, &records, 0);
	write_file(path, &out);
	perfdata_buffer_free(&records);
	perfdata_buffer_free(&out);
}

/* Samples: the second event takes them. */

#define SAMPLE_TYPE                                                                                \
	(PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID |                   \
	 PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_READ |                       \
	 PERFDATA_SAMPLE_CALLCHAIN | PERFDATA_SAMPLE_REGS_USER | PERFDATA_SAMPLE_WEIGHT |          \
	 PERFDATA_SAMPLE_PHYS_ADDR | PERFDATA_SAMPLE_AUX)
#define SAMPLE_EVENT 2 /* its id; Ptah's own event has the id 1 */
#define ATTR_ENTRY   136

/* A header with two events. */
static void put_sampling_header(struct perfdata_buffer *out, struct layout in)
{
	const uint8_t *attr = in.bytes + load_le64(in.bytes + PERFDATA_AT_ATTRS);
	uint8_t head[PERFDATA_HEADER_SIZE + 16 + 2 * ATTR_ENTRY] = {0};
	uint8_t *second = head + PERFDATA_HEADER_SIZE + 16 + ATTR_ENTRY;

	memcpy(head, in.bytes, PERFDATA_HEADER_SIZE);
	store_le64(head + PERFDATA_AT_ATTRS, PERFDATA_HEADER_SIZE + 16);
	store_le64(head + PERFDATA_AT_ATTRS + 8, 2 * ATTR_ENTRY);
	store_le64(head + PERFDATA_AT_DATA, sizeof(head));
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *at = head + PERFDATA_HEADER_SIZE + 16 + i * ATTR_ENTRY;

		store_le64(head + PERFDATA_HEADER_SIZE + 8 * i, 1 + i);
		memcpy(at, attr, ATTR_ENTRY);
		store_le64(at + ATTR_ENTRY - 16, PERFDATA_HEADER_SIZE + 8 * i);
		store_le64(at + ATTR_ENTRY - 8, 8);
	}
	store_le32(second, 1); /* PERF_TYPE_SOFTWARE: cpu-clock */
	store_le64(second + PERFDATA_ATTR_AT_CONFIG, 0);
	store_le64(second + PERFDATA_ATTR_AT_SAMPLE_TYPE, SAMPLE_TYPE);
	store_le64(second + PERFDATA_ATTR_AT_READ_FORMAT,
		   PERFDATA_READ_ENABLED | PERFDATA_READ_FORMAT_ID);
	store_le64(second + PERFDATA_ATTR_AT_REGS_USER, 1 << 7 | 1 << 8); /* SP, IP */
	store_le32(second + 112, 65528);				  /* aux_sample_size */
	perfdata_put(out, head, sizeof(head));
}

/* Both events write to the buffer of the thread. */
static void put_id_index(struct perfdata_buffer *out, uint32_t tid)
{
	layout_record(out, PERFDATA_ID_INDEX, 8 + 2 * 32);
	perfdata_put64(out, 2);
	for (unsigned i = 0; i < 2; i++) {
		perfdata_put64(out, 1 + i);
		perfdata_put64(out, 0);		 /* the buffer */
		perfdata_put64(out, UINT64_MAX); /* the CPU */
		perfdata_put64(out, tid);
	}
}

/* In the order of perf_output_sample(). */
static void put_aux_sample(struct perfdata_buffer *out, uint32_t tid, uint64_t time,
			   const uint8_t *trace, size_t n)
{
	const size_t whole = n + (-n & 7);

	perfdata_put32(out, PERFDATA_SAMPLE);
	perfdata_put16(out, PERFDATA_MISC_USER);
	perfdata_put16(out, (uint16_t)(8 + 5 * 8 + 24 + 24 + 24 + 8 + 8 + 8 + whole));
	perfdata_put64(out, SAMPLE_EVENT);
	perfdata_put64(out, 0x1000); /* IP */
	perfdata_put32(out, tid);
	perfdata_put32(out, tid);
	perfdata_put64(out, time);
	perfdata_put64(out, 0); /* CPU */
	perfdata_put64(out, 5); /* the counter's value, the time it ran, and its id */
	perfdata_put64(out, 6);
	perfdata_put64(out, SAMPLE_EVENT);
	perfdata_put64(out, 2); /* callers */
	perfdata_put64(out, UINT64_MAX - 511);
	perfdata_put64(out, 0x1000);
	perfdata_put64(out, 2); /* registers of 64 bits */
	perfdata_put64(out, 0x2000);
	perfdata_put64(out, 0x1000);
	perfdata_put64(out, 7); /* weight */
	perfdata_put64(out, 8); /* physical address */
	perfdata_put64(out, whole);
	perfdata_put(out, trace, n);
	perfdata_put(out, NULL, whole - n);
}

static void write_samples(struct layout in, const char *path, size_t size, long again)
{
	const uint8_t *end = in.bytes + layout_end(in);
	const uint32_t tid = load_le32(first_of(in, PERFDATA_AUXTRACE) + 36);
	struct perfdata_buffer trace = {0}, records = {0}, out = {0};
	uint64_t time = 1;
	size_t from = 0;

	for (const uint8_t *at = in.bytes + layout_data(in); at < end; at += layout_whole(at)) {
		const uint32_t type = load_le32(at);

		if (type == PERFDATA_AUXTRACE) {
			perfdata_put(&trace, at + PERFDATA_AUXTRACE_HEADER,
				     (size_t)load_le64(at + 8));
			continue;
		}
		if (type == PERFDATA_EXIT)
			time = load_le64(at + 24);
		/* perf looks for samples as soon as it reads AUXTRACE_INFO. */
		if (type == PERFDATA_AUXTRACE_INFO)
			put_id_index(&records, tid);
		perfdata_put(&records, at, (size_t)layout_whole(at));
	}
	while (from < trace.size) {
		const size_t n = trace.size - from < size ? trace.size - from : size;

		put_aux_sample(&records, tid, time, trace.bytes + from, n);
		from += n == trace.size - from ? n : (size_t)((long)n - again);
	}
	put_sampling_header(&out, in);
	layout_finish(&out, in, &records, 0);
	write_file(path, &out);
	perfdata_buffer_free(&trace);
	perfdata_buffer_free(&records);
	perfdata_buffer_free(&out);
}

static void show(const struct perfdata_record *r)
{
	static const char *const names[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};

	switch (r->type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		printf("PERF_RECORD_%s %d/%d: [0x%" PRIx64 "(0x%" PRIx64 ") @ ",
		       r->type == PERFDATA_MMAP ? "MMAP" : "MMAP2", r->pid, r->tid, r->address,
		       r->size);
		printf(r->file_offset ? "0x%" PRIx64 " %.*s\n" : "%" PRIx64 " %.*s\n",
		       r->file_offset, (int)r->text_size, r->text);
		break;
	case PERFDATA_COMM:
		printf("PERF_RECORD_COMM%s: %.*s:%d/%d\n", r->exec ? " exec" : "",
		       (int)r->text_size, r->text, r->pid, r->tid);
		break;
	case PERFDATA_FORK:
	case PERFDATA_EXIT:
		printf("PERF_RECORD_%s(%d:%d):(%d:%d)\n",
		       r->type == PERFDATA_FORK ? "FORK" : "EXIT", r->pid, r->tid, r->ppid,
		       r->ptid);
		break;
	case PERFDATA_NAMESPACES:
		printf("PERF_RECORD_NAMESPACES %d/%d - nr_namespaces: %" PRIu64 "\n", r->pid,
		       r->tid, r->number);
		for (uint64_t i = 0; i < r->number; i++)
			printf("%" PRIu64 "/%s: %" PRIu64 "/0x%" PRIx64 "\n", i,
			       i < ARRAY_SIZE(names) ? names[i] : "unknown",
			       load_le64(r->bytes + 16 * i), load_le64(r->bytes + 16 * i + 8));
		break;
	case PERFDATA_CGROUP:
		printf("PERF_RECORD_CGROUP cgroup: %" PRIu64 " %.*s\n", r->number,
		       (int)r->text_size, r->text);
		break;
	case PERFDATA_SWITCH:
		printf("PERF_RECORD_SWITCH %s\n", r->out ? "OUT" : "IN");
		break;
	case PERFDATA_SWITCH_CPU_WIDE:
		printf("PERF_RECORD_SWITCH_CPU_WIDE %s %d/%d\n", r->out ? "OUT" : "IN", r->ppid,
		       r->ptid);
		break;
	default:
		break;
	}
}

static int show_records(const char *path)
{
	struct ptah_message why = {""};
	struct perfdata_file *f;
	struct perfdata_record r;
	int status = perfdata_open(path, &f, &why);

	while (status >= 0 && (status = perfdata_next(f, &r, &why)) > 0)
		show(&r);
	if (status < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	perfdata_close(f);
	return 0;
}

int main(int argc, char **argv)
{
	struct perfdata_buffer out = {0};
	struct layout in;

	if (argc == 5 && !strcmp(argv[1], "merge")) {
		merge(read_file(argv[2]), read_file(argv[3]), argv[4]);
		return 0;
	}
	if (argc == 5 && !strcmp(argv[1], "also")) {
		in = read_file(argv[2]);
		write_also(in, argv[3], argv[4]);
		free((void *)in.bytes);
		return 0;
	}
	if (argc == 6 && !strcmp(argv[1], "samples")) {
		in = read_file(argv[2]);
		write_samples(in, argv[3], (size_t)atol(argv[4]), atol(argv[5]));
		free((void *)in.bytes);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "records"))
		return show_records(argv[2]);
	if (argc != 4)
		return 2;
	if (!strcmp(argv[1], "folder")) {
		write_folder(argv[3], read_file(argv[2]));
		return 0;
	}
	in = read_file(argv[2]);
	if (!strcmp(argv[1], "pipe"))
		layout_to_pipe(&out, in);
	else if (!strcmp(argv[1], "packed"))
		layout_to_packed(&out, in, 1000, PERFDATA_COMPRESSED);
	else if (!strcmp(argv[1], "packed2"))
		layout_to_packed(&out, in, 1000, PERFDATA_COMPRESSED2);
	else if (!strcmp(argv[1], "packed-pipe"))
		layout_to_packed_pipe(&out, in, 1000);
	else
		return 2;
	write_file(argv[3], &out);
	free((void *)in.bytes);
	perfdata_buffer_free(&out);
	return 0;
}
