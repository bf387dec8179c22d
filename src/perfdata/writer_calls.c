/* SPDX-License-Identifier: MIT */
/*
 * System calls as samples of tracepoints: two of the kernel's and one of Ptah's, with the
 * description of their fields that perf needs. docs/perf-data.md has the fields.
 */
#include "perfdata/writer_inside.h"

#include "base/bits.h"
#include "perfdata/tracing_data.h"

#include <string.h>

/* Numbers of the formats: attr.config, and common_type of a sample. Any do, if they agree. */
enum {
	FORMAT_ENTER = 1,
	FORMAT_EXIT,
	FORMAT_DATA,
};

#define NUMBER_BYTES 16 /* of the fields that all have: up to the call's number and with it */
#define DATA_BYTES   28 /* before the data in sys_data */

#define SAMPLE_TYPE                                                                                \
	(PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID |                   \
	 PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_RAW)
#define SAMPLE_HEADER (8 + 40 + 4) /* up to the size of the raw data and with it */

#define FIELD(type_and_name, offset, size, is_signed)                                              \
	"\tfield:" type_and_name ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #is_signed ";" \
	"\n"
#define COMMON                                                                                     \
	"format:\n" FIELD("unsigned short common_type", 0, 2, 0)                                   \
	    FIELD("unsigned char common_flags", 2, 1, 0)                                           \
		FIELD("unsigned char common_preempt_count", 3, 1, 0)                               \
		    FIELD("int common_pid", 4, 4, 1) "\n"

static const char enter_format[] = "name: sys_enter\nID: 1\n" COMMON FIELD("long id", 8, 8, 1)
    FIELD("unsigned long args[6]", 16, 48, 0) "\nprint fmt: \"NR %ld (%lx, %lx, %lx, %lx, %lx, "
					      "%lx)\", REC->id, REC->args[0], REC->args[1], "
					      "REC->args[2], REC->args[3], REC->args[4], "
					      "REC->args[5]\n";

static const char exit_format[] = "name: sys_exit\nID: 2\n" COMMON FIELD("long id", 8, 8, 1)
    FIELD("long ret", 16, 8, 1) "\nprint fmt: \"NR %ld = %ld\", REC->id, REC->ret\n";

/*
 * Text of a path; of calls that have something else there (record/call_data.h) the bytes: poll, pipe,
 * select, connect, accept, bind, socketpair, semop, fcntl, futex, semtimedop, epoll_wait, epoll_ctl,
 * waitid, pselect6, ppoll, epoll_pwait, accept4, pipe2, epoll_pwait2, futex_waitv.
 */
#define IS(number) "REC->nr == " #number
#define OR	   " || "
#define IS_BYTES                                                                                   \
	IS(7)                                                                                      \
	OR IS(22) OR IS(23) OR IS(42) OR IS(43) OR IS(49) OR IS(53) OR IS(65) OR IS(72) OR IS(202) \
	    OR IS(220) OR IS(232) OR IS(233) OR IS(247) OR IS(270) OR IS(271) OR IS(281)           \
		OR IS(288) OR IS(293) OR IS(441) OR IS(449)
static const char data_format[] = "name: sys_data\nID: 3\n" COMMON FIELD("s64 nr", 8, 8, 1)
    FIELD("u32 arg", 16, 4, 0) FIELD("u32 when", 20, 4, 0)
	FIELD("__data_loc u8[] data", 24, 4,
	      0) "\nprint fmt: \"NR %ld "
		 "arg %u %s %s\", REC->nr, REC->arg, REC->when ? \"after\" : \"before\", (" IS_BYTES
		 ") ? __print_hex(__get_dynamic_array(data), __get_dynamic_array_len(data)) : "
		 "__get_str(data)\n";

const char *perfdata_build_call_attr(uint8_t *attr, unsigned i)
{
	static const char *const names[CALL_EVENTS] = {"raw_syscalls:sys_enter",
						       "raw_syscalls:sys_exit", "ptah:sys_data"};

	store_le32(attr + PERFDATA_ATTR_AT_TYPE, PERFDATA_TYPE_TRACEPOINT);
	store_le32(attr + PERFDATA_ATTR_AT_SIZE, PERFDATA_ATTR_SIZE);
	store_le64(attr + PERFDATA_ATTR_AT_CONFIG, FORMAT_ENTER + i);
	store_le64(attr + PERFDATA_ATTR_AT_PERIOD, 1);
	store_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE, SAMPLE_TYPE);
	/* perf wants this to be the same in all events. */
	store_le64(attr + PERFDATA_ATTR_AT_READ_FORMAT, PERFDATA_READ_FORMAT_ID);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS,
		   PERFDATA_ATTR_INHERIT | PERFDATA_ATTR_SAMPLE_ID_ALL);
	return names[i];
}

void perfdata_put_tracing_data(struct perfdata_buffer *b)
{
	static const struct tracing_text texts[] = {
	    {"raw_syscalls", enter_format, sizeof(enter_format) - 1},
	    {"raw_syscalls", exit_format, sizeof(exit_format) - 1},
	    {"ptah", data_format, sizeof(data_format) - 1},
	};

	tracing_put_formats(b, texts, sizeof(texts) / sizeof(*texts));
}

/* Of all fields before the words. */
#define SAMPLE_FIXED (SAMPLE_HEADER + NUMBER_BYTES)

/*
 * Builds a sample with raw data of `size` bytes up to the words, which all samples have alike.
 * Returns the size of the whole sample: the raw data and their size are a multiple of 8 together,
 * as the kernel has it.
 */
static size_t build_sample(const struct perfdata_writer *w, const struct perfdata_call *call,
			   unsigned format, size_t size, uint8_t fixed[SAMPLE_FIXED])
{
	const size_t padded = ((size + 4 + 7) & ~(size_t)7) - 4;

	memset(fixed, 0, SAMPLE_FIXED);
	store_le32(fixed, PERFDATA_SAMPLE);
	store_le16(fixed + 4, PERFDATA_MISC_USER);
	store_le16(fixed + 6, (uint16_t)(SAMPLE_HEADER + padded));
	store_le64(fixed + 8, w->call_ids + format - FORMAT_ENTER);
	store_le64(fixed + 16, call->ip);
	store_le32(fixed + 24, (uint32_t)call->pid);
	store_le32(fixed + 28, (uint32_t)call->tid);
	store_le64(fixed + 32, perfdata_time_of(w, call->tsc));
	/* 40: the processor, which is not known */
	store_le32(fixed + 48, (uint32_t)padded);
	store_le16(fixed + 52, (uint16_t)format);
	store_le32(fixed + 56, (uint32_t)call->tid);
	store_le64(fixed + 60, (uint64_t)call->number);
	return SAMPLE_HEADER + padded;
}

/* With a zero after the data, so that a path which was cut ends there. */
static int write_data(struct perfdata_writer *w, const struct perfdata_call *call)
{
	uint8_t fixed[SAMPLE_FIXED + DATA_BYTES - NUMBER_BYTES];
	const uint32_t n = (uint32_t)call->data_size;
	const size_t size = build_sample(w, call, FORMAT_DATA, DATA_BYTES + n + 1, fixed);

	store_le32(fixed + SAMPLE_FIXED, call->argument);
	store_le32(fixed + SAMPLE_FIXED + 4, call->returned);
	store_le32(fixed + SAMPLE_FIXED + 8, DATA_BYTES | n << 16);
	perfdata_put(&w->pending, fixed, sizeof(fixed));
	perfdata_put(&w->pending, call->data, n);
	perfdata_put(&w->pending, NULL, size - sizeof(fixed) - n);
	w->size += size;
	return perfdata_end(w);
}

/* In one piece, because programs make millions. */
int perfdata_write_call(struct perfdata_writer *w, const struct perfdata_call *call)
{
	const unsigned format = call->returned ? FORMAT_EXIT : FORMAT_ENTER;
	const unsigned words = call->returned ? 1 : 6;
	uint8_t sample[SAMPLE_FIXED + 6 * 8 + 8] = {0};
	size_t size;

	if (w->status < 0)
		return w->status;
	size = build_sample(w, call, format, NUMBER_BYTES + 8 * words, sample);
	for (unsigned i = 0; i < words; i++)
		store_le64(sample + SAMPLE_FIXED + 8 * i, call->words[i]);
	perfdata_put(&w->pending, sample, size);
	w->size += size;
	if (perfdata_end(w) < 0 || !call->data_size)
		return w->status;
	return write_data(w, call);
}
