/* SPDX-License-Identifier: MIT */
/*
 * Builds perf.data files byte by byte, as perf lays them out, for the tests of reader and session.
 * Nothing here uses the writer.
 */
#ifndef PTAH_TESTS_PERFDATA_BUILD_H
#define PTAH_TESTS_PERFDATA_BUILD_H

#include "test.h"

#include "base/bits.h"
#include "model/generator.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUILD_DATA 248		     /* offset of the first record */
#define BUILD_INFO (BUILD_DATA + 16) /* of the fields of AUXTRACE_INFO, if it is that record */

/*
 * Begins a file: the header and one attribute. Records end with a sample id of tid and time (16
 * bytes).
 */
static inline void build_begin(struct perfdata_buffer *b)
{
	uint8_t head[BUILD_DATA] = {0};
	uint8_t *attr = head + 112;

	memcpy(head, "PERFILE2", 8);
	store_le64(head + 8, 104);
	store_le64(head + 16, 136);
	store_le64(head + 24, 112);
	store_le64(head + 32, 136);
	store_le64(head + 40, BUILD_DATA);
	store_le32(attr, 8);
	store_le32(attr + 4, 120);
	store_le64(attr + 24, PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME);
	store_le64(attr + 40, PERFDATA_ATTR_SAMPLE_ID_ALL);
	perfdata_put(b, head, sizeof(head));
}

/* Adds the CPU to the sample ids (24 bytes). Called before any record. */
static inline void build_with_cpus(struct perfdata_buffer *b)
{
	store_le64(b->bytes + 112 + 24,
		   PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CPU);
}

static inline bool build_has_cpus(const struct perfdata_buffer *b)
{
	return load_le64(b->bytes + 112 + 24) & PERFDATA_SAMPLE_CPU;
}

/* Appends a record: its body, and the sample id that ends it. */
static inline void build_record_on(struct perfdata_buffer *b, uint32_t cpu, uint32_t type,
				   uint16_t misc, const struct perfdata_buffer *body, int32_t pid,
				   int32_t tid, uint64_t time)
{
	perfdata_put32(b, type);
	perfdata_put16(b, misc);
	perfdata_put16(b, (uint16_t)(8 + body->size +
				     (type >= PERFDATA_USER ? 0
				      : build_has_cpus(b)   ? 24
							    : 16)));
	perfdata_put(b, body->bytes, body->size);
	if (type >= PERFDATA_USER)
		return;
	perfdata_put32(b, (uint32_t)pid);
	perfdata_put32(b, (uint32_t)tid);
	perfdata_put64(b, time);
	if (build_has_cpus(b))
		perfdata_put64(b, cpu);
}

/* The same, on CPU 0. */
static inline void build_record(struct perfdata_buffer *b, uint32_t type, uint16_t misc,
				const struct perfdata_buffer *body, int32_t pid, int32_t tid,
				uint64_t time)
{
	build_record_on(b, 0, type, misc, body, pid, tid, time);
}

#define BUILD_RATIO 20 /* TSC ticks per tick of the bus */

/*
 * After build_info(): user code is traced, with TSC packets and these bits of IA32_RTIT_CTL. The TSC
 * makes two ticks in one of the crystal.
 */
static inline void build_timing(struct perfdata_buffer *b, uint64_t bits)
{
	static const uint64_t values[PERFDATA_INFO_MAX] = {
	    [PERFDATA_INFO_PMU_TYPE] = 8,
	    [PERFDATA_INFO_TSC_BIT] = PERFDATA_PT_TSC,
	    [PERFDATA_INFO_MTC_BIT] = PERFDATA_PT_MTC,
	    [PERFDATA_INFO_MTC_FREQ_BITS] = PERFDATA_PT_MTC_PERIOD,
	    [PERFDATA_INFO_CYC_BIT] = PERFDATA_PT_CYC,
	    [PERFDATA_INFO_MAX_NONTURBO] = BUILD_RATIO,
	    [PERFDATA_INFO_TSC_CTC_N] = 2,
	    [PERFDATA_INFO_TSC_CTC_D] = 1,
	};

	store_le64(b->bytes + 112 + 40, PERFDATA_ATTR_SAMPLE_ID_ALL | PERFDATA_ATTR_EXCLUDE_KERNEL);
	store_le64(b->bytes + 112 + 8,
		   PERFDATA_PT_PT | PERFDATA_PT_TSC | PERFDATA_PT_BRANCH | bits);
	for (unsigned i = 0; i < PERFDATA_INFO_MAX; i++)
		if (values[i])
			store_le64(b->bytes + BUILD_INFO + 8 * i, values[i]);
}

/* Appends AUXTRACE_INFO with a clock: perf's time = 1000 + TSC / 4. */
static inline void build_info(struct perfdata_buffer *b, uint32_t kind, bool snapshot)
{
	struct perfdata_buffer body = {0};
	uint64_t info[PERFDATA_INFO_MAX] = {0};

	info[PERFDATA_INFO_TIME_SHIFT] = 3;
	info[PERFDATA_INFO_TIME_MULT] = 2;
	info[PERFDATA_INFO_TIME_ZERO] = 1000;
	info[PERFDATA_INFO_CAP_TIME_ZERO] = 1;
	info[PERFDATA_INFO_SNAPSHOT] = snapshot;
	perfdata_put32(&body, kind);
	perfdata_put32(&body, 0);
	perfdata_put(&body, info, sizeof(info));
	build_record(b, PERFDATA_AUXTRACE_INFO, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
}

static inline uint64_t build_time(uint64_t tsc)
{
	return tsc ? 1000 + tsc / 4 : 0;
}

static inline void build_comm(struct perfdata_buffer *b, int32_t pid, int32_t tid, bool exec,
			      const char *name, uint64_t tsc)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put_string(&body, name, 8);
	build_record(b, PERFDATA_COMM, exec ? PERFDATA_MISC_COMM_EXEC : 0, &body, pid, tid,
		     build_time(tsc));
	perfdata_buffer_free(&body);
}

/* id NULL: device and inode instead, as perf writes them without build ids. */
static inline void build_mmap2(struct perfdata_buffer *b, int32_t pid, uint64_t address,
			       uint64_t size, uint64_t offset, const char *path, uint64_t tsc,
			       const uint8_t id[20])
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put64(&body, address);
	perfdata_put64(&body, size);
	perfdata_put64(&body, offset);
	if (id)
		perfdata_put32(&body, 20);
	else
		perfdata_put32(&body, 0xfd); /* major */
	perfdata_put(&body, id, 20);
	perfdata_put32(&body, 5); /* PROT_READ | PROT_EXEC */
	perfdata_put32(&body, 2);
	perfdata_put_string(&body, path, 8);
	build_record(b, PERFDATA_MMAP2,
		     (uint16_t)(PERFDATA_MISC_USER | (id ? PERFDATA_MISC_MMAP_BUILD_ID : 0)), &body,
		     pid, pid, build_time(tsc));
	perfdata_buffer_free(&body);
}

/* PERFDATA_FORK or PERFDATA_EXIT. */
static inline void build_task(struct perfdata_buffer *b, uint32_t type, int32_t pid, int32_t tid,
			      int32_t ppid, int32_t ptid, uint64_t tsc)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)ppid);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put32(&body, (uint32_t)ptid);
	perfdata_put64(&body, build_time(tsc));
	build_record(b, type, 0, &body, pid, tid, build_time(tsc));
	perfdata_buffer_free(&body);
}

static inline void build_fork(struct perfdata_buffer *b, int32_t pid, int32_t tid, int32_t ppid,
			      int32_t ptid, uint64_t tsc)
{
	build_task(b, PERFDATA_FORK, pid, tid, ppid, ptid, tsc);
}

/*
 * A context switch: (pid, tid) arrives or leaves. other_tid -1: without the other thread, as in
 * records that are not of a whole CPU.
 */
static inline void build_switch_on(struct perfdata_buffer *b, uint32_t cpu, bool out, int32_t pid,
				   int32_t tid, int32_t other_pid, int32_t other_tid, uint64_t tsc)
{
	struct perfdata_buffer body = {0};

	if (other_tid >= 0) {
		perfdata_put32(&body, (uint32_t)other_pid);
		perfdata_put32(&body, (uint32_t)other_tid);
	}
	build_record_on(b, cpu, other_tid >= 0 ? PERFDATA_SWITCH_CPU_WIDE : PERFDATA_SWITCH,
			out ? PERFDATA_MISC_SWITCH_OUT : 0, &body, pid, tid, build_time(tsc));
	perfdata_buffer_free(&body);
}

/* The same, on CPU 0. */
static inline void build_switch(struct perfdata_buffer *b, bool out, int32_t pid, int32_t tid,
				int32_t other_pid, int32_t other_tid, uint64_t tsc)
{
	build_switch_on(b, 0, out, pid, tid, other_pid, other_tid, tsc);
}

static inline void build_itrace_start(struct perfdata_buffer *b, int32_t pid, int32_t tid,
				      uint64_t tsc)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)tid);
	build_record(b, PERFDATA_ITRACE_START, 0, &body, pid, tid, build_time(tsc));
	perfdata_buffer_free(&body);
}

/* size: the size in the record; the bytes are padded to it with PAD. */
static inline void build_auxtrace(struct perfdata_buffer *b, uint32_t index, int32_t tid,
				  int32_t cpu, uint64_t offset, const void *bytes, size_t n,
				  size_t size)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, size);
	perfdata_put64(&body, offset);
	perfdata_put64(&body, 1);
	perfdata_put32(&body, index);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put32(&body, (uint32_t)cpu);
	perfdata_put32(&body, 0);
	build_record(b, PERFDATA_AUXTRACE, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
	perfdata_put(b, bytes, n);
	perfdata_put(b, NULL, size - n);
}

static inline void build_code(struct perfdata_buffer *b, int32_t pid, uint64_t tsc,
			      uint64_t address, const void *bytes, size_t n)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, PERFDATA_PTAH_MAGIC);
	perfdata_put32(&body, PERFDATA_PTAH_VERSION);
	perfdata_put32(&body, PERFDATA_PTAH_CODE);
	perfdata_put32(&body, (uint32_t)(24 + n));
	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)n);
	perfdata_put64(&body, tsc);
	perfdata_put64(&body, address);
	perfdata_put(&body, bytes, n);
	perfdata_put(&body, NULL, -n & 7);
	build_record(b, PERFDATA_HEADER_EVENT_TYPE, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
}

/*
 * Ends the records with one header feature, a string: PERFDATA_FEATURE_ARCH and
 * "x86_64" make an ordinary file.
 */
static inline void build_end(struct perfdata_buffer *b, unsigned feature, const char *text)
{
	uint64_t end = b->size;

	store_le64(b->bytes + 48, end - BUILD_DATA);
	b->bytes[72 + feature / 8] |= (uint8_t)(1 << feature % 8);
	perfdata_put64(b, end + 16);
	perfdata_put64(b, 4 + 64);
	perfdata_put_header_string(b, text);
}

/* Writes bytes to a temporary file; fills in `path`. */
static inline void build_file(char *path, const void *bytes, size_t n)
{
	int fd;

	strcpy(path, "ptah-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	assert_int_equal(close(fd), 0);
}

#endif
