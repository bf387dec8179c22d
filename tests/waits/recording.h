/* SPDX-License-Identifier: MIT */
/*
 * Builds recordings with system calls and context switches, byte by byte as docs/perf-data.md and
 * perf_event_open(2) have them, as a file that was written through a pipe.
 */
#ifndef PTAH_TESTS_WAITS_RECORDING_H
#define PTAH_TESTS_WAITS_RECORDING_H

#include "test.h"

#include "base/bits.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"

#include <ptah/waits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAMPLE_TYPE                                                                                \
	(PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID |                   \
	 PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_RAW)

/* Events by attr.config, which is the number of their format; their ids are one more. */
enum {
	EVENT_PT,
	EVENT_ENTER,
	EVENT_EXIT,
	EVENT_DATA,
	EVENT_SWITCH,
	EVENT_WAKEUP
};

/* TSC = time, so that a time of a sample is that of an item. */
#define COMMON                                                                                     \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"             \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static const char format_enter[] =
    "name: sys_enter\nID: 1\nformat:\n" COMMON "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\nprint fmt: \"NR\"\n";
static const char format_exit[] =
    "name: sys_exit\nID: 2\nformat:\n" COMMON "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n\n";
static const char format_data[] =
    "name: sys_data\nID: 3\nformat:\n" COMMON "\tfield:s64 nr;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield:u32 arg;\toffset:16;\tsize:4;\tsigned:0;\n"
    "\tfield:u32 when;\toffset:20;\tsize:4;\tsigned:0;\n"
    "\tfield:__data_loc u8[] data;\toffset:24;\tsize:4;\tsigned:0;\n\n";
/* As Linux 6.1 has it. */
static const char format_switch[] = "name: sched_switch\nID: 4\nformat:\n" COMMON
				    "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
				    "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
				    "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
				    "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
				    "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
				    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
				    "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n";
static const char format_wakeup[] = "name: sched_wakeup\nID: 5\nformat:\n" COMMON
				    "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
				    "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
				    "\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n"
				    "\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n";

static inline void put_text(struct perfdata_buffer *b, const char *text)
{
	perfdata_put64(b, strlen(text));
	perfdata_put(b, text, strlen(text));
}

static inline void put_tracing_data(struct perfdata_buffer *b)
{
	perfdata_put(b, "\x17\x08\x44tracing0.6", 14);
	perfdata_put(b, "\0\x08", 2);
	perfdata_put32(b, 4096);
	perfdata_put(b, "header_page", 12);
	put_text(b, "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n");
	perfdata_put(b, "header_event", 13);
	put_text(b, "");
	perfdata_put32(b, 0);
	perfdata_put32(b, 3);
	perfdata_put(b, "raw_syscalls", 13);
	perfdata_put32(b, 2);
	put_text(b, format_enter);
	put_text(b, format_exit);
	perfdata_put(b, "ptah", 5);
	perfdata_put32(b, 1);
	put_text(b, format_data);
	perfdata_put(b, "sched", 6);
	perfdata_put32(b, 2);
	put_text(b, format_switch);
	put_text(b, format_wakeup);
	perfdata_put32(b, 0);
	perfdata_put32(b, 0);
	perfdata_put64(b, 0);
}

static inline void put_record(struct perfdata_buffer *b, uint32_t type, uint16_t misc,
			      const struct perfdata_buffer *body)
{
	perfdata_put32(b, type);
	perfdata_put16(b, misc);
	perfdata_put16(b, (uint16_t)(8 + body->size));
	perfdata_put(b, body->bytes, body->size);
}

/* A body that is used once. */
static inline void put_body(struct perfdata_buffer *b, uint32_t type, uint16_t misc,
			    struct perfdata_buffer *body)
{
	put_record(b, type, misc, body);
	perfdata_buffer_free(body);
}

static inline void put_attr(struct perfdata_buffer *b, unsigned event)
{
	struct perfdata_buffer body = {0};
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};

	store_le32(attr + PERFDATA_ATTR_AT_TYPE, event ? PERFDATA_TYPE_TRACEPOINT : 8);
	store_le32(attr + PERFDATA_ATTR_AT_SIZE, sizeof(attr));
	store_le64(attr + PERFDATA_ATTR_AT_CONFIG, event ? event : PERFDATA_PT_TSC);
	store_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE, SAMPLE_TYPE);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS, PERFDATA_ATTR_SAMPLE_ID_ALL);
	perfdata_put(&body, attr, sizeof(attr));
	perfdata_put64(&body, event + 1);
	put_body(b, PERFDATA_HEADER_ATTR, 0, &body);
}

/* Begins a recording: its events, and a trace of two bytes. */
static inline void recording_begin(struct perfdata_buffer *b)
{
	struct perfdata_buffer body = {0}, tracing = {0};
	uint64_t info[PERFDATA_INFO_MAX] = {0};

	perfdata_put(b, PERFDATA_MAGIC, 8);
	perfdata_put64(b, PERFDATA_PIPE_SIZE);
	for (unsigned i = EVENT_PT; i <= EVENT_WAKEUP; i++)
		put_attr(b, i);
	put_tracing_data(&tracing);
	perfdata_put(&tracing, NULL, -tracing.size % 8);
	perfdata_put32(&body, (uint32_t)tracing.size);
	perfdata_put32(&body, 0);
	put_body(b, PERFDATA_HEADER_TRACING_DATA, 0, &body);
	perfdata_put(b, tracing.bytes, tracing.size);
	perfdata_buffer_free(&tracing);
	info[PERFDATA_INFO_PMU_TYPE] = 8;
	info[PERFDATA_INFO_TIME_MULT] = 1;
	info[PERFDATA_INFO_TSC_BIT] = PERFDATA_PT_TSC;
	info[PERFDATA_INFO_CAP_TIME_ZERO] = 1;
	perfdata_put32(&body, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&body, 0);
	perfdata_put(&body, info, sizeof(info));
	put_body(b, PERFDATA_AUXTRACE_INFO, 0, &body);
	perfdata_put64(&body, 16);
	perfdata_put(&body, NULL, 16);
	perfdata_put32(&body, 0);
	perfdata_put32(&body, 7);
	perfdata_put32(&body, UINT32_MAX);
	perfdata_put32(&body, 0);
	put_body(b, PERFDATA_AUXTRACE, 0, &body);
	for (unsigned i = 0; i < 8; i++)
		perfdata_put(b, "\x02\x82", 2); /* PSB */
}

/* A sample whose raw data are the common fields and `fields`. */
static inline void put_sample(struct perfdata_buffer *b, unsigned event, int32_t pid, int32_t tid,
			      uint64_t time, const struct perfdata_buffer *fields)
{
	struct perfdata_buffer body = {0};
	const size_t size = 8 + fields->size, padded = (size + 4 + 7) / 8 * 8 - 4;

	perfdata_put64(&body, event + 1);
	perfdata_put64(&body, 0x401000);
	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put64(&body, time);
	perfdata_put64(&body, 0);
	perfdata_put32(&body, (uint32_t)padded);
	perfdata_put16(&body, (uint16_t)event);
	perfdata_put16(&body, 0);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put(&body, fields->bytes, fields->size);
	perfdata_put(&body, NULL, padded - size);
	put_body(b, PERFDATA_SAMPLE, PERFDATA_MISC_USER, &body);
}

static inline void put_enter(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t time,
			     int64_t number, const uint64_t args[6])
{
	static const uint64_t none[6];
	struct perfdata_buffer fields = {0};

	perfdata_put64(&fields, (uint64_t)number);
	for (unsigned i = 0; i < 6; i++)
		perfdata_put64(&fields, args ? args[i] : none[i]);
	put_sample(b, EVENT_ENTER, pid, tid, time, &fields);
	perfdata_buffer_free(&fields);
}

static inline void put_exit(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t time,
			    int64_t number, int64_t result)
{
	struct perfdata_buffer fields = {0};

	perfdata_put64(&fields, (uint64_t)number);
	perfdata_put64(&fields, (uint64_t)result);
	put_sample(b, EVENT_EXIT, pid, tid, time, &fields);
	perfdata_buffer_free(&fields);
}

static inline void put_data(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t time,
			    int64_t number, uint32_t arg, uint32_t when, const void *bytes,
			    size_t n)
{
	struct perfdata_buffer fields = {0};

	perfdata_put64(&fields, (uint64_t)number);
	perfdata_put32(&fields, arg);
	perfdata_put32(&fields, when);
	perfdata_put32(&fields, (uint32_t)n << 16 | 28);
	perfdata_put(&fields, bytes, n);
	perfdata_put(&fields, NULL, 1);
	put_sample(b, EVENT_DATA, pid, tid, time, &fields);
	perfdata_buffer_free(&fields);
}

/* PERF_RECORD_SWITCH */
static inline void put_switch(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t time,
			      bool out, bool preempted)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)pid);
	perfdata_put32(&body, (uint32_t)tid);
	perfdata_put64(&body, time);
	perfdata_put64(&body, 0);
	perfdata_put64(&body, EVENT_PT + 1);
	put_body(b, PERFDATA_SWITCH,
		 (uint16_t)((out ? PERFDATA_MISC_SWITCH_OUT : 0) |
			    (preempted ? PERFDATA_MISC_PREEMPTED : 0)),
		 &body);
}

static inline void put_wakeup(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t time,
			      int32_t woken)
{
	struct perfdata_buffer fields = {0};

	perfdata_put(&fields, "woken\0\0\0\0\0\0\0\0\0\0", 16);
	perfdata_put32(&fields, (uint32_t)woken);
	perfdata_put32(&fields, 120);
	perfdata_put32(&fields, 0);
	put_sample(b, EVENT_WAKEUP, pid, tid, time, &fields);
	perfdata_buffer_free(&fields);
}

/* A whole call. */
static inline void put_call(struct perfdata_buffer *b, int32_t pid, int32_t tid, uint64_t begin,
			    uint64_t end, int64_t number, const uint64_t args[6], int64_t result)
{
	put_enter(b, pid, tid, begin, number, args);
	put_exit(b, pid, tid, end, number, result);
}

/* Opens what was built, and forgets it. */
static inline struct ptah_session *recording_open(struct perfdata_buffer *b)
{
	struct ptah_session_config config = {
	    .size = sizeof(config), .no_images = true, .samples = true};
	struct ptah_session *session = NULL;
	struct ptah_message why;
	char path[64];
	int fd = memfd_create("recording", 0);

	assert_true(fd >= 0 && write(fd, b->bytes, b->size) == (ssize_t)b->size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ptah_session_open(path, &config, &session, &why) < 0)
		fail_msg("%s", why.text);
	close(fd);
	perfdata_buffer_free(b);
	return session;
}

/* What a test builds, and what it finds then. */
struct recorded {
	struct perfdata_buffer b;
	struct ptah_session *session;
	struct ptah_waits *waits;
};

static inline int recorded_begin(void **state)
{
	struct recorded *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	recording_begin(&r->b);
	*state = r;
	return 0;
}

static inline int recorded_end(void **state)
{
	struct recorded *r = *state;

	perfdata_buffer_free(&r->b);
	ptah_waits_free(r->waits);
	ptah_session_close(r->session);
	free(r);
	return 0;
}

#define recorded_test(test) cmocka_unit_test_setup_teardown(test, recorded_begin, recorded_end)

static inline void recorded_find_waits(struct recorded *r)
{
	r->session = recording_open(&r->b);
	assert_false(ptah_waits_new(r->session, NULL, &r->waits));
}

static inline struct ptah_wait wait_at(const struct ptah_waits *waits, size_t i)
{
	struct ptah_wait wait = {.size = sizeof(wait)};

	assert_false(ptah_waits_get(waits, i, &wait));
	return wait;
}

#define ARGS(...) ((const uint64_t[6]){__VA_ARGS__})

#endif
