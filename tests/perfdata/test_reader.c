/* SPDX-License-Identifier: MIT */
/*
 * Reads records built by hand, as perf lays them out (its perf.data-file-format.txt and
 * perf_event.h).
 */
#include "perfdata/build.h"

#include "perfdata/reader.h"

static struct perfdata_file *open_bytes(const struct perfdata_buffer *b)
{
	struct perfdata_file *f = NULL;
	struct ptah_message why = {""};
	char path[32];

	build_file(path, b->bytes, b->size);
	if (perfdata_open(path, &f, &why) < 0)
		fail_msg("%s", why.text);
	unlink(path);
	return f;
}

static int open_status(const void *bytes, size_t n, struct ptah_message *why)
{
	struct perfdata_file *f = NULL;
	char path[32];
	int status;

	why->text[0] = '\0';
	build_file(path, bytes, n);
	status = perfdata_open(path, &f, why);
	unlink(path);
	if (status < 0)
		assert_true(strstr(why->text, path) == why->text);
	perfdata_close(f);
	return status;
}

static void next(struct perfdata_file *f, struct perfdata_record *r, uint32_t type)
{
	struct ptah_message why = {""};

	if (perfdata_next(f, r, &why) != 1)
		fail_msg("%s", why.text);
	assert_int_equal(r->type, type);
}

/* As perf writes it for -e intel_pt/mtc,mtc_period=9,cyc,cyc_thresh=2/ on a processor
 * with CPUID.15H EAX = 2, EBX = 216. */
TEST(timing)
{
	struct perfdata_buffer b = {0}, body = {0};
	uint64_t info[PERFDATA_INFO_MAX] = {
	    [PERFDATA_INFO_PMU_TYPE] = 8,
	    [PERFDATA_INFO_MTC_BIT] = 1 << 9,
	    [PERFDATA_INFO_MTC_FREQ_BITS] = 15 << 14,
	    [PERFDATA_INFO_TSC_CTC_N] = 216,
	    [PERFDATA_INFO_TSC_CTC_D] = 2,
	    [PERFDATA_INFO_CYC_BIT] = 1 << 1,
	    [PERFDATA_INFO_MAX_NONTURBO] = 36,
	};
	struct perfdata_timing t;
	struct perfdata_record r;
	struct perfdata_file *f;

	build_begin(&b);
	store_le64(b.bytes + 112 + 8, 1 << 9 | 9 << 14 | 1 << 1 | 2 << 19);
	perfdata_put32(&body, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&body, 0);
	perfdata_put(&body, info, sizeof(info));
	build_record(&b, PERFDATA_AUXTRACE_INFO, 0, &body, 0, 0, 0);
	build_comm(&b, 7, 8, true, "a name", 400);
	build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
	f = open_bytes(&b);
	assert_false(perfdata_timing(f, &t));
	next(f, &r, PERFDATA_COMM);
	assert_true(perfdata_timing(f, &t));
	assert_int_equal(t.mtc_freq, 9);
	assert_true(t.mtc && t.cyc && !t.tsc);
	assert_int_equal(t.cyc_thresh, 2);
	assert_int_equal(t.nominal_ratio, 36);
	assert_int_equal(t.tsc_n, 216);
	assert_int_equal(t.tsc_d, 2);
	perfdata_close(f);
	perfdata_buffer_free(&body);
	perfdata_buffer_free(&b);
}

/* Records of each type that the kernel writes, with a sample id of 24 bytes that ends with `id`. */
static void build_kernel_records(struct perfdata_buffer *b, uint32_t id)
{
	/* Enough for the fields of each: the types without them are perf_event.h's. */
	static const uint8_t fields[64];
	const struct perfdata_buffer body = {.bytes = (uint8_t *)(uintptr_t)fields,
					     .size = sizeof(fields)};

	for (uint32_t type = PERFDATA_MMAP; type <= PERFDATA_AUX_OUTPUT_HW_ID; type++)
		if (type != PERFDATA_SAMPLE)
			build_record_on(b, id, type, 0, &body, 7, 8, 1200);
}

static void set_cpu_modes(struct perfdata_buffer *b, uint16_t mode)
{
	for (size_t at = BUILD_DATA; at < b->size; at += load_le16(b->bytes + at + 6))
		if (load_le32(b->bytes + at) < PERFDATA_USER)
			store_le16(b->bytes + at + 4, mode);
}

static unsigned count_records(const struct perfdata_buffer *b)
{
	struct perfdata_file *f = open_bytes(b);
	struct ptah_message why = {""};
	struct perfdata_record r;
	unsigned n = 0;
	int status;

	while ((status = perfdata_next(f, &r, &why)) > 0)
		n++;
	if (status < 0)
		fail_msg("%s", why.text);
	perfdata_close(f);
	return n;
}

/*
 * perf_event.h, "PERF_RECORD_MISC_CPUMODE": 4 and 5 are a guest's kernel and programs. The modes of
 * the host, 3 (a hypervisor) among them, change nothing.
 */
TEST(records_of_a_guest_by_their_mode)
{
	struct perfdata_buffer b = {0};
	unsigned of_host;

	build_begin(&b);
	build_kernel_records(&b, 0);
	build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
	of_host = count_records(&b);
	assert_true(of_host > 10);
	b.size -= 16 + 68;
	for (uint16_t mode = 0; mode < 8; mode++) {
		set_cpu_modes(&b, mode);
		build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
		assert_int_equal(count_records(&b), mode == 4 || mode == 5 ? 0 : of_host);
		b.size -= 16 + 68;
	}
	perfdata_buffer_free(&b);
}

/* One of two events, each with a buffer: see struct perf_record_id_index of perf's event.h. */
static void build_id_index(struct perfdata_buffer *b, uint64_t machine)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, 2);
	for (uint64_t id = 50; id < 52; id++) {
		perfdata_put64(&body, id);
		perfdata_put64(&body, 0);
		perfdata_put64(&body, 3);
		perfdata_put64(&body, UINT64_MAX);
	}
	for (unsigned i = 0; i < 2; i++) {
		perfdata_put64(&body, i ? machine : 0);
		perfdata_put64(&body, 0);
	}
	build_record(b, PERFDATA_ID_INDEX, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
}

/* The event's id in the sample id leads to a machine_pid in ID_INDEX, which is not the host's 0. */
TEST(records_of_a_guest_by_their_event)
{
	const uint64_t identified =
	    PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_IDENTIFIER;
	const uint64_t with_id = PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID;
	unsigned of_host = 0;

	for (unsigned i = 0; i < 8; i++) {
		struct perfdata_buffer b = {0};
		unsigned n;

		build_begin(&b);
		build_with_cpus(&b);
		build_id_index(&b, i & 1 ? 1234 : 0);
		build_kernel_records(&b, i & 2 ? 51 : 50);
		store_le64(b.bytes + 112 + 24, i & 4 ? identified : with_id);
		build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
		n = count_records(&b);
		of_host = i ? of_host : n;
		assert_int_equal(n, (i & 3) == 3 ? 0 : of_host);
		perfdata_buffer_free(&b);
	}
	assert_true(of_host > 10);
}

/* HEADER_BUILD_ID: a guest has a file of the same path. */
TEST(build_ids_of_a_guest)
{
	static const struct {
		int32_t pid;
		uint16_t mode;
		uint8_t byte;
	} entries[] = {{1234, PERFDATA_MISC_GUEST_USER, 1},
		       {0, PERFDATA_MISC_GUEST_USER, 2},
		       {-1, PERFDATA_MISC_USER, 3}};
	struct perfdata_buffer b = {0};
	struct perfdata_build_id id;
	struct perfdata_file *f;
	size_t list;

	build_begin(&b);
	build_comm(&b, 7, 7, false, "prog", 0);
	build_end(&b, PERFDATA_FEATURE_BUILD_ID, "");
	list = b.size -= 68; /* instead of the string */
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		uint8_t bytes[20];

		memset(bytes, entries[i].byte, sizeof(bytes));
		perfdata_put32(&b, PERFDATA_HEADER_BUILD_ID);
		perfdata_put16(&b, entries[i].mode);
		perfdata_put16(&b, 36 + 16);
		perfdata_put32(&b, (uint32_t)entries[i].pid);
		perfdata_put(&b, bytes, sizeof(bytes));
		perfdata_put32(&b, 0);
		perfdata_put_string(&b, "/lib/libc.so.6", 16);
	}
	store_le64(b.bytes + list - 8, b.size - list);
	f = open_bytes(&b);
	assert_true(perfdata_find_build_id(f, "/lib/libc.so.6", &id));
	assert_int_equal(id.bytes[0], 3);
	perfdata_close(f);
	perfdata_buffer_free(&b);
}

TEST(every_record)
{
	uint8_t id[20];
	struct perfdata_buffer b = {0}, body = {0};
	struct perfdata_clock clock;
	struct perfdata_record r;
	struct perfdata_file *f;
	struct ptah_message why;
	uint64_t first;

	memset(id, 0x5a, sizeof(id));
	build_begin(&b);
	build_info(&b, PERFDATA_AUXTRACE_INTEL_PT, true);
	build_comm(&b, 7, 8, true, "a name", 400);
	build_mmap2(&b, 7, 0x1000, 0x2000, 0x3000, "/bin/x", 404, NULL);
	build_mmap2(&b, 7, 0x1000, 0x2000, 0x3000, "/bin/y", 408, id);
	build_fork(&b, 9, 10, 7, 8, 412);
	build_itrace_start(&b, 7, 8, 416);
	perfdata_put64(&body, 0x111); /* AUX: offset, size, flags */
	perfdata_put64(&body, 0x222);
	perfdata_put64(&body, PERFDATA_AUX_TRUNCATED);
	build_record(&b, PERFDATA_AUX, 0, &body, 7, 8, 1200);
	body.size = 0;
	perfdata_put64(&body, 1); /* LOST: id, lost */
	perfdata_put64(&body, 42);
	build_record(&b, PERFDATA_LOST, 0, &body, 7, 8, 1201);
	build_record(&b, 60, 0, &body, 7, 8, 1202); /* of a future kernel: skipped */
	body.size = 0;
	perfdata_put32(&body, 3); /* MMAP: pid, tid, address, size, offset, path */
	perfdata_put32(&body, 4);
	perfdata_put64(&body, 0x7000);
	perfdata_put64(&body, 0x8000);
	perfdata_put64(&body, 0x9000);
	perfdata_put_string(&body, "/bin/old", 8);
	build_record(&b, PERFDATA_MMAP, PERFDATA_MISC_USER, &body, 3, 4, 1203);
	build_auxtrace(&b, 5, 8, -1, 0x100, "0123456789", 10, 16);
	build_code(&b, 7, 99, 0x4000, "abc", 3);
	build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");

	f = open_bytes(&b);
	assert_false(perfdata_unfinished(f));
	assert_false(perfdata_truncated(f));
	assert_int_equal(perfdata_auxtrace(f), 0);
	next(f, &r, PERFDATA_COMM);
	assert_int_equal(perfdata_auxtrace(f), PERFDATA_AUXTRACE_INTEL_PT);
	assert_true(perfdata_snapshot(f));
	assert_true(perfdata_clock(f, &clock));
	assert_int_equal(clock.shift, 3);
	assert_int_equal(clock.mult, 2);
	assert_int_equal(clock.zero, 1000);
	first = r.offset;
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.tid, 8);
	assert_int_equal(r.time, 1100);
	assert_true(r.exec);
	assert_int_equal(r.text_size, 6);
	assert_memory_equal(r.text, "a name", 6);
	next(f, &r, PERFDATA_MMAP2);
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.address, 0x1000);
	assert_int_equal(r.size, 0x2000);
	assert_int_equal(r.file_offset, 0x3000);
	assert_true(r.executable);
	assert_int_equal(r.id.size, 0);
	assert_memory_equal(r.text, "/bin/x", 7);
	next(f, &r, PERFDATA_MMAP2);
	assert_int_equal(r.id.size, 20);
	assert_memory_equal(r.id.bytes, id, 20);
	assert_memory_equal(r.text, "/bin/y", 7);
	next(f, &r, PERFDATA_FORK);
	assert_int_equal(r.pid, 9);
	assert_int_equal(r.tid, 10);
	assert_int_equal(r.ppid, 7);
	assert_int_equal(r.ptid, 8);
	assert_int_equal(r.time, 1103);
	next(f, &r, PERFDATA_ITRACE_START);
	next(f, &r, PERFDATA_AUX);
	assert_int_equal(r.size, 0x222);
	assert_true(r.lost != 0);
	next(f, &r, PERFDATA_LOST);
	assert_int_equal(r.lost, 42);
	next(f, &r, PERFDATA_MMAP);
	assert_int_equal(r.pid, 3);
	assert_int_equal(r.file_offset, 0x9000);
	assert_true(r.executable);
	assert_memory_equal(r.text, "/bin/old", 9);
	next(f, &r, PERFDATA_AUXTRACE);
	assert_int_equal(r.index, 5);
	assert_int_equal(r.tid, 8);
	assert_int_equal(r.cpu, -1);
	assert_int_equal(r.trace_offset, 0x100);
	assert_int_equal(r.trace_size, 16);
	assert_memory_equal(r.bytes, "0123456789\0\0\0\0\0", 16);
	next(f, &r, PERFDATA_HEADER_EVENT_TYPE);
	assert_int_equal(r.tag, PERFDATA_PTAH_CODE);
	assert_int_equal(r.tsc, 99);
	assert_int_equal(r.address, 0x4000);
	assert_int_equal(r.size, 3);
	assert_memory_equal(r.bytes, "abc", 3);
	assert_int_equal(perfdata_read_at(f, first, &r), 0);
	assert_int_equal(r.type, PERFDATA_COMM);
	assert_int_equal(perfdata_next(f, &r, &why), 0);
	assert_int_equal(perfdata_read_at(f, 0, &r), PTAH_E_INVAL);
	perfdata_close(f);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&body);
}

/* Two events whose records end differently: the id in the last word says which event it is. */
TEST(records_of_different_events)
{
	static const uint64_t types[] = {
	    PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_IDENTIFIER,
	    PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER};
	uint8_t head[104 + 16 + 2 * 136] = {0};
	struct perfdata_buffer b = {0};
	struct perfdata_record r;
	struct perfdata_file *f;

	memcpy(head, "PERFILE2", 8);
	store_le64(head + 8, 104);
	store_le64(head + 16, 136);
	store_le64(head + 24, 120);
	store_le64(head + 32, 2 * 136);
	store_le64(head + 40, sizeof(head));
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *attr = head + 120 + 136 * i;

		store_le64(head + 104 + 8 * i, 50 + i); /* its id */
		store_le32(attr + 4, 120);
		store_le64(attr + 24, types[i]);
		store_le64(attr + 40, PERFDATA_ATTR_SAMPLE_ID_ALL);
		store_le64(attr + 120, 104 + 8 * i);
		store_le64(attr + 128, 8);
	}
	perfdata_put(&b, head, sizeof(head));
	for (unsigned i = 0; i < 2; i++) {
		perfdata_put32(&b, PERFDATA_ITRACE_START);
		perfdata_put32(&b, (8 + 8 + 24) << 16);
		perfdata_put32(&b, 1);
		perfdata_put32(&b, 2);
		if (!i)
			perfdata_put64(&b, 3); /* pid, tid */
		perfdata_put64(&b, 1000 + i);  /* time */
		if (i)
			perfdata_put64(&b, 6); /* cpu */
		perfdata_put64(&b, 50 + i);
	}
	f = open_bytes(&b); /* data.size 0: as perf leaves it if it is killed */
	assert_true(perfdata_unfinished(f));
	assert_false(perfdata_truncated(f));
	next(f, &r, PERFDATA_ITRACE_START);
	assert_int_equal(r.time, 1000);
	assert_int_equal(r.cpu, -1);
	next(f, &r, PERFDATA_ITRACE_START);
	assert_int_equal(r.time, 1001);
	assert_int_equal(r.cpu, 6);
	perfdata_close(f);
	perfdata_buffer_free(&b);
}

/*
 * A file with two events, of which the second is the tracepoint sched:sched_switch, as EVENT_DESC
 * names it. Its samples are context switches; those of the other event are skipped.
 */
#define TRACEPOINT_TYPE                                                                            \
	(PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |                 \
	 PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_PERIOD | PERFDATA_SAMPLE_RAW)

static void put_sample(struct perfdata_buffer *b, uint64_t id, uint32_t raw_size, bool whole)
{
	const size_t at = b->size;
	uint8_t raw[68] = {0};

	store_le32(raw + 24, 11); /* prev_pid */
	store_le32(raw + 56, 12); /* next_pid */
	perfdata_put32(b, PERFDATA_SAMPLE);
	perfdata_put32(b, 0);
	perfdata_put64(b, id);
	if (whole) {
		perfdata_put32(b, 10);
		perfdata_put32(b, 11);
	}
	perfdata_put64(b, 1234); /* time */
	if (whole) {
		perfdata_put64(b, 3); /* CPU */
		perfdata_put64(b, 1); /* period */
		perfdata_put32(b, raw_size);
		perfdata_put(b, raw, raw_size);
		perfdata_put(b, NULL, -(raw_size + 4) & 7);
	}
	store_le32(b->bytes + at + 4, (uint32_t)(b->size - at) << 16);
}

static void build_two_events(struct perfdata_buffer *b, uint64_t first_type)
{
	uint8_t head[104 + 16 + 2 * 136] = {0};

	memcpy(head, "PERFILE2", 8);
	store_le64(head + 8, 104);
	store_le64(head + 16, 136);
	store_le64(head + 24, 120);
	store_le64(head + 32, 2 * 136);
	store_le64(head + 40, sizeof(head));
	head[72 + PERFDATA_FEATURE_EVENT_DESC / 8] = 1 << PERFDATA_FEATURE_EVENT_DESC % 8;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *attr = head + 120 + 136 * i;

		store_le64(head + 104 + 8 * i, 50 + i);
		store_le32(attr, i ? PERFDATA_TYPE_TRACEPOINT : 8);
		store_le32(attr + 4, 120);
		store_le64(attr + 24, i ? TRACEPOINT_TYPE : first_type);
		store_le64(attr + 40, PERFDATA_ATTR_SAMPLE_ID_ALL);
		store_le64(attr + 120, 104 + 8 * i);
		store_le64(attr + 128, 8);
	}
	perfdata_put(b, head, sizeof(head));
}

static void end_two_events(struct perfdata_buffer *b)
{
	const uint64_t data = 104 + 16 + 2 * 136, end = b->size;

	store_le64(b->bytes + 48, end - data);
	perfdata_put64(b, end + 16);
	perfdata_put64(b, 0);
	perfdata_put32(b, 2);
	perfdata_put32(b, 120);
	for (unsigned i = 0; i < 2; i++) {
		uint8_t attr[120];

		memcpy(attr, b->bytes + 120 + 136 * i, sizeof(attr));
		perfdata_put(b, attr, sizeof(attr));
		perfdata_put32(b, 1);
		perfdata_put_header_string(b, i ? "sched:sched_switch" : "intel_pt//u");
		perfdata_put64(b, 50 + i);
	}
	store_le64(b->bytes + end + 8, b->size - end - 16);
}

TEST(samples_of_sched_switch)
{
	struct perfdata_buffer b = {0};
	struct ptah_message why = {""};
	struct perfdata_record r;
	struct perfdata_file *f;
	size_t guest;

	build_two_events(&b, PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_TIME);
	put_sample(&b, 50, 0, false);
	guest = b.size;
	put_sample(&b, 51, 68, true); /* of a guest's scheduler */
	store_le16(b.bytes + guest + 4, PERFDATA_MISC_GUEST_KERNEL);
	put_sample(&b, 51, 68, true);
	put_sample(&b, 51, 20, true); /* shorter than the tracepoint's fields */
	put_sample(&b, 99, 0, false); /* of no event */
	end_two_events(&b);
	f = open_bytes(&b);
	next(f, &r, PERFDATA_SWITCH_CPU_WIDE);
	assert_true(r.out);
	assert_int_equal(r.time, 1234);
	assert_int_equal(r.cpu, 3);
	assert_int_equal(r.tid, 11);
	assert_int_equal(r.ptid, 12);
	assert_int_equal(r.pid, -1);
	assert_int_equal(r.ppid, -1);
	assert_int_equal(perfdata_next(f, &r, &why), 0);
	assert_false(perfdata_snapshot(f));
	perfdata_close(f);
	perfdata_buffer_free(&b);
}

/* The body of a sample with every field before the trace, in the order of perf_output_sample(). */
static void put_full_sample(struct perfdata_buffer *body, uint64_t id)
{
	perfdata_put64(body, id);
	perfdata_put64(body, 0x1000); /* IP */
	perfdata_put32(body, 10);
	perfdata_put32(body, 11);
	perfdata_put64(body, 1234); /* time */
	perfdata_put64(body, 0x2000);
	perfdata_put64(body, id);
	perfdata_put64(body, 77); /* stream */
	perfdata_put64(body, 3);  /* CPU */
	perfdata_put64(body, 1);  /* period */
	perfdata_put64(body, 2);  /* a group of two: time enabled, running, values and ids */
	perfdata_put(body, NULL, 16 + 2 * 24);
	perfdata_put64(body, 1); /* callers */
	perfdata_put64(body, 0x1000);
	perfdata_put32(body, 4); /* raw */
	perfdata_put32(body, 0);
	perfdata_put64(body, 2); /* branches */
	perfdata_put(body, NULL, 8 + 2 * 24);
	perfdata_put64(body, 2); /* registers */
	perfdata_put(body, NULL, 3 * 8);
	perfdata_put64(body, 16); /* stack */
	perfdata_put(body, NULL, 16 + 8);
	perfdata_put64(body, 5); /* weight */
	perfdata_put64(body, 6); /* source */
	perfdata_put64(body, 7); /* transaction */
	perfdata_put64(body, 0); /* no registers */
	perfdata_put(body, NULL, 4 * 8);
	perfdata_put64(body, 8); /* trace */
	perfdata_put(body, "\1\2\3\4\5\6\7", 8);
}

/* perf record --aux-sample: trace after all other fields. ID_INDEX names the buffer. */
TEST(trace_in_a_sample)
{
	struct perfdata_buffer b = {0}, body = {0};
	struct ptah_message why = {""};
	struct perfdata_record r;
	struct perfdata_file *f;
	uint8_t *attr;

	build_two_events(&b, PERFDATA_SAMPLE_IDENTIFIER | 0x1fffff | 0xe00000);
	attr = b.bytes + 120;
	store_le64(attr + 32, 1 | 2 | 4 | 8 | 16); /* read_format */
	store_le64(attr + 72, PERFDATA_BRANCH_HW_INDEX);
	store_le64(attr + 80, 7); /* sample_regs_user */
	store_le64(attr + 96, 3);
	perfdata_put64(&body, 1);
	perfdata_put64(&body, 50); /* id, buffer, CPU, thread */
	perfdata_put64(&body, 6);
	perfdata_put64(&body, 4);
	perfdata_put64(&body, UINT64_MAX);
	build_record(&b, PERFDATA_ID_INDEX, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
	body = (struct perfdata_buffer){0};
	put_full_sample(&body, 50);
	perfdata_put32(&b, PERFDATA_SAMPLE);
	/* The CPU ran a guest when it was sampled: that does not make its trace the guest's. */
	perfdata_put16(&b, PERFDATA_MISC_GUEST_KERNEL);
	perfdata_put16(&b, (uint16_t)(8 + body.size));
	perfdata_put(&b, body.bytes, body.size);
	end_two_events(&b);
	f = open_bytes(&b);
	assert_false(perfdata_snapshot(f));
	next(f, &r, PERFDATA_SAMPLE);
	assert_int_equal(r.trace_size, 8);
	assert_memory_equal(r.bytes, "\1\2\3\4\5\6\7", 8);
	assert_int_equal(r.index, 6);
	assert_int_equal(r.cpu, 4);
	assert_int_equal(r.tid, -1);
	assert_int_equal(r.time, 1234);
	assert_int_equal(perfdata_next(f, &r, &why), 0);
	assert_true(perfdata_snapshot(f));
	perfdata_close(f);
	perfdata_buffer_free(&body);
	perfdata_buffer_free(&b);
}

/* The kernel's mappings have pid -1, whatever process the sample id names. */
TEST(mapping_of_the_kernel)
{
	struct perfdata_buffer b = {0}, body = {0};
	struct perfdata_record r;
	struct perfdata_file *f;

	build_begin(&b);
	perfdata_put32(&body, UINT32_MAX);
	perfdata_put32(&body, 0);
	perfdata_put64(&body, 0xffffffff81000000);
	perfdata_put64(&body, 0x1000000);
	perfdata_put64(&body, 0xffffffff81000000);
	perfdata_put_string(&body, "[kernel.kallsyms]_text", 8);
	build_record(&b, PERFDATA_MMAP, PERFDATA_MISC_KERNEL, &body, 0, 0, 0);
	build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
	f = open_bytes(&b);
	next(f, &r, PERFDATA_MMAP);
	assert_int_equal(r.pid, -1);
	assert_int_equal(r.address, 0xffffffff81000000);
	perfdata_close(f);
	perfdata_buffer_free(&body);
	perfdata_buffer_free(&b);
}

TEST(other_files)
{
	struct perfdata_buffer b = {0};
	struct ptah_message why;

	assert_int_equal(open_status("", 0, &why), PTAH_E_EMPTY);
	assert_int_equal(open_status("PERFILE2", 8, &why), PTAH_E_BAD_MAGIC);
	assert_int_equal(open_status("#!/bin/sh\nexit 0 and so on", 26, &why), PTAH_E_BAD_MAGIC);
	assert_int_equal(open_status("2ELIFREP\0\0\0\0\0\0\0\x68", 16, &why), PTAH_E_FOREIGN);
	assert_non_null(strstr(why.text, "big-endian"));
	assert_int_equal(open_status("PERFFILE\x68\0\0\0\0\0\0\0", 16, &why), PTAH_E_UNSUPPORTED);
	assert_int_equal(perfdata_open("/no/such/file", NULL, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "/no/such/file"));
	assert_int_equal(perfdata_open("/", NULL, &why), PTAH_E_BAD_FILE);
	build_begin(&b);
	build_comm(&b, 7, 7, false, "prog", 0);
	build_end(&b, PERFDATA_FEATURE_ARCH, "i686");
	assert_int_equal(open_status(b.bytes, b.size, &why), PTAH_E_FOREIGN);
	assert_non_null(strstr(why.text, "i686"));
	perfdata_buffer_free(&b);
}

TEST(compressed_and_broken_records)
{
	static const struct {
		uint32_t type;
		uint16_t size; /* what the record says, not what follows */
		int status;
	} cases[] = {
	    {PERFDATA_COMPRESSED, 16, PTAH_E_BAD_FILE}, {PERFDATA_COMM, 0, PTAH_E_BAD_FILE},
	    {PERFDATA_COMM, 7, PTAH_E_BAD_FILE},	{PERFDATA_COMM, 8, PTAH_E_BAD_FILE},
	    {PERFDATA_COMM, 17, PTAH_E_BAD_FILE},	{PERFDATA_AUXTRACE, 16, PTAH_E_BAD_FILE},
	    {PERFDATA_MMAP2, 16, PTAH_E_BAD_FILE},	{60, 16, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_buffer b = {0};
		struct ptah_message why = {""};
		struct perfdata_record r;
		struct perfdata_file *f;

		build_begin(&b);
		perfdata_put32(&b, cases[i].type);
		perfdata_put16(&b, 0);
		perfdata_put16(&b, cases[i].size);
		perfdata_put64(&b, 0);
		build_end(&b, PERFDATA_FEATURE_ARCH, "x86_64");
		f = open_bytes(&b);
		assert_int_equal(perfdata_next(f, &r, &why), cases[i].status);
		assert_int_equal(why.text[0] != '\0', cases[i].status < 0);
		perfdata_close(f);
		perfdata_buffer_free(&b);
	}
}
