/* SPDX-License-Identifier: MIT */
/*
 * The public writer: what a caller does wrong is refused with a sentence and changes nothing; what
 * was added is found by the reader; nothing is left of what was not finished. recording.sh has the
 * decodes.
 */
#include "test.h"

#include "perfdata/reader.h"
#include "record/recording.h"

#include <ptah/engine/rtit.h>
#include <ptah/recording.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UPPER UINT64_C(0xffffffff81000000)

/* A PSB+ and a TNT: enough for a stream. */
static const uint8_t trace[] = {2, 0x82, 2, 0x82, 2, 0x82, 2,	 0x82, 2,    0x82,
				2, 0x82, 2, 0x82, 2, 0x82, 0x02, 0x23, 0x1a, 0x1a};

static char path[64];

static struct ptah_trace_config all_options(void)
{
	return (struct ptah_trace_config){.size = sizeof(struct ptah_trace_config),
					  .os = true,
					  .user = true,
					  .branch = true,
					  .tsc = true};
}

static struct ptah_recording_config config_of(const struct ptah_trace_config *options)
{
	snprintf(path, sizeof(path), "/tmp/ptah-test-recording-%d", getpid());
	return (struct ptah_recording_config){
	    .size = sizeof(struct ptah_recording_config), .path = path, .trace = options};
}

static struct ptah_recording *open_with(const struct ptah_recording_config *config)
{
	struct ptah_recording *r = NULL;
	struct ptah_message why = {""};

	if (ptah_recording_new(config, &r, &why) < 0)
		fail_msg("%s", why.text);
	return r;
}

static struct ptah_recording *open_recording(uint8_t kind)
{
	const struct ptah_trace_config options = all_options();
	struct ptah_recording_config config = config_of(&options);

	config.kind = kind;
	return open_with(&config);
}

static uint32_t add_stream(struct ptah_recording *r)
{
	const struct ptah_recording_stream config = {
	    .size = sizeof(config), .cpu = 3, .pid = 7, .tid = 8};
	uint32_t stream = 99;

	assert_int_equal(ptah_recording_add_stream(r, &config, &stream), 0);
	return stream;
}

static struct ptah_session *open_session(const char *name)
{
	const struct ptah_session_config config = {
	    .size = sizeof(config), .symfs = "/var/empty/ptah-test", .ignore_build_ids = true};
	struct ptah_session *s = NULL;
	struct ptah_message why = {""};

	if (ptah_session_open(name, &config, &s, &why) < 0)
		fail_msg("%s", why.text);
	return s;
}

static bool exists(const char *name)
{
	return access(name, F_OK) == 0;
}

/* Refusals */

/* The call was refused, with these words in its sentence. */
static void refused(const struct ptah_recording *r, int status, const char *words)
{
	assert_int_equal(status, PTAH_E_INVAL);
	if (!strstr(ptah_recording_why(r), words))
		fail_msg("\"%s\" does not have \"%s\"", ptah_recording_why(r), words);
}

static void no_recording(const struct ptah_recording_config *config, const char *words)
{
	struct ptah_recording *r;
	struct ptah_message why = {""};

	assert_int_equal(ptah_recording_new(config, &r, &why), PTAH_E_INVAL);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" does not have \"%s\"", why.text, words);
	assert_false(exists(path));
}

TEST(bad_configurations)
{
	struct ptah_trace_config options = all_options();
	struct ptah_recording_config config = config_of(&options);
	struct ptah_caps caps = {0};

	config.size = 8;
	no_recording(&config, "config.size");
	config = config_of(&options);
	config.kind = 2;
	no_recording(&config, "config.kind");
	config = config_of(&options);
	config.path = "";
	no_recording(&config, "config.path");
	config.path = NULL;
	config.fd = -1;
	no_recording(&config, "config.fd");
	config = config_of(&options);
	config.caps = &caps;
	no_recording(&config, "caps.size");
	config = config_of(&options);
	config.clock.shift = 64;
	no_recording(&config, "clock.shift");
	config = config_of(NULL);
	no_recording(&config, "rtit_ctl");
	config = config_of(&options);
	options.mtc_period = 16;
	no_recording(&config, "4 bits");
	options = all_options();
	options.ranges[2] = (struct ptah_range){2, 1, PTAH_RANGE_FILTER};
	no_recording(&config, "ranges[2]");
	options = all_options();
	options.os = options.user = false;
	no_recording(&config, "neither os nor user");
	options = all_options();
	config.path = "/no/such/folder/file";
	assert_int_equal(ptah_recording_new(&config, &(struct ptah_recording *){NULL}, NULL),
			 PTAH_E_SYSTEM);
}

TEST(misuse_of_trace)
{
	struct ptah_recording *r = open_recording(PTAH_RECORDING_CPUS);
	struct ptah_recording_stream config = {.size = sizeof(config), .cpu = 65536};
	const struct ptah_piece nowhere = {NULL, 0, 4};
	uint32_t stream;

	refused(r, ptah_recording_add_stream(r, &config, &stream), "0 to 65535");
	config.cpu = -1;
	refused(r, ptah_recording_add_stream(r, &config, &stream), "processor -1");
	config.size = 0;
	refused(r, ptah_recording_add_stream(r, &config, &stream), "size");
	refused(r, ptah_recording_add_stream(r, NULL, &stream), "configuration");
	refused(r, ptah_recording_add_trace(r, 0, 0, trace, 4), "stream 0: there are 0");
	stream = add_stream(r);
	assert_int_equal(stream, 0);
	assert_int_equal(ptah_recording_add_trace(r, stream, 100, trace, sizeof(trace)), 0);
	refused(r, ptah_recording_add_trace(r, 1, 0, trace, 4), "stream 1: there are 1");
	refused(r, ptah_recording_add_trace(r, stream, 119, trace, 4), "passed already");
	refused(r, ptah_recording_add_trace(r, stream, UINT64_MAX, trace, 4), "do not fit");
	refused(r, ptah_recording_add_pieces(r, stream, 200, &nowhere, 1), "piece 0");
	refused(r, ptah_recording_add_pieces(r, stream, 200, NULL, 1), "pieces without");
	refused(r, ptah_recording_add_records(r, stream, NULL, 1), "records without");
	refused(r, recording_add_truth(r, stream, NULL), "truth");
	assert_int_equal(ptah_recording_bytes(r), sizeof(trace));
	/* Nothing of that has changed it. */
	assert_int_equal(ptah_recording_add_trace(r, stream, 120, trace, 1), 0);
	assert_int_equal(ptah_recording_finish(r), 0);
	refused(r, ptah_recording_add_trace(r, stream, 121, trace, 4), "finished");
	refused(r, ptah_recording_finish(r), "finished");
	refused(r, ptah_recording_flush(r), "finished");
	ptah_recording_free(r);
	ptah_session_close(open_session(path));
	unlink(path);
}

TEST(misuse_of_sideband)
{
	struct ptah_recording *r = open_recording(PTAH_RECORDING_THREADS);
	struct ptah_recording_map map = {
	    .size = sizeof(map), .pid = 1, .address = 0x1000, .bytes = 4096, .path = "/x"};
	struct {
		struct ptah_recording_task task;
		const char *why;
	} tasks[] = {
	    {{.kind = PTAH_RECORDING_NAME, .tid = 1, .name = "a"}, "begin with 1"},
	    {{.kind = PTAH_RECORDING_NAME, .pid = 1, .tid = 1}, "a name"},
	    {{.kind = PTAH_RECORDING_FORK, .pid = 1, .tid = 1, .parent_pid = -1, .parent_tid = 1},
	     "begin with 1"},
	    {{.kind = PTAH_RECORDING_FORK, .pid = 1, .tid = 1, .parent_pid = 2, .parent_tid = 1},
	     "its own parent"},
	    {{.kind = PTAH_RECORDING_EXIT, .pid = 1}, "begin with 1"},
	    {{.kind = PTAH_RECORDING_TASK_MAX, .pid = 1, .tid = 1}, "no such change"},
	};
	char *longest = calloc(1, 5000);

	memset(longest, 'a', 4999);
	refused(r, ptah_recording_add_switch(r, 0, 0, 1, 1), "of threads");
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
		tasks[i].task.size = sizeof(tasks[i].task);
		refused(r, ptah_recording_add_task(r, &tasks[i].task), tasks[i].why);
	}
	tasks[0].task.size--;
	refused(r, ptah_recording_add_task(r, &tasks[0].task), "size");
	refused(r, ptah_recording_add_note(r, NULL), "note");
	refused(r, ptah_recording_add_map(r, NULL), "map");
	map.path = longest;
	refused(r, ptah_recording_add_map(r, &map), "4095");
	map.path = "";
	refused(r, ptah_recording_add_map(r, &map), "no path");
	map.path = "/x";
	map.bytes = 0;
	refused(r, ptah_recording_add_map(r, &map), "no range");
	map.address = UINT64_MAX;
	map.bytes = 2;
	refused(r, ptah_recording_add_map(r, &map), "no range");
	map.build_id_size = 21;
	map.bytes = 1;
	refused(r, ptah_recording_add_map(r, &map), "at most 20");
	map.build_id_size = 0;
	map.pid = PTAH_RECORDING_KERNEL;
	map.address = 0x1000;
	refused(r, ptah_recording_add_map(r, &map), "lower half");
	map.size = 1;
	refused(r, ptah_recording_add_map(r, &map), "size");
	refused(r, ptah_recording_add_code(r, 1, 0, 0x1000, NULL, 1, NULL), "no code");
	refused(r, ptah_recording_add_code(r, 1, 0, 0x1000, "", 0, NULL), "no code");
	refused(r, ptah_recording_add_code(r, -1, 0, 0x1000, "", 1, NULL), "half");
	refused(r, ptah_recording_add_code(r, -1, 0, UPPER, "", 1, ""), "name");
	refused(r, ptah_recording_add_code(r, -2, 0, UPPER, "", 1, NULL), "begin with 1");
	free(longest);
	/* There is no trace: nothing is left of it. */
	assert_int_equal(ptah_recording_finish(r), PTAH_E_EMPTY);
	assert_true(strstr(ptah_recording_why(r), "no trace"));
	ptah_recording_free(r);
	assert_false(exists(path));
	ptah_recording_free(NULL);
}

/* What was written */

static struct perfdata_record next(struct perfdata_file *f, unsigned type)
{
	struct perfdata_record r;
	struct ptah_message why = {""};

	do {
		if (perfdata_next(f, &r, &why) != 1)
			fail_msg("no record of type %u: %s", type, why.text);
	} while (r.type != type);
	return r;
}

TEST(read_back)
{
	static const uint8_t id[] = {1, 2, 3, 4, 5, 6, 7, 8};
	const struct ptah_caps caps = {.size = sizeof(caps),
				       .cpu = {6, 158, 10},
				       .tsc_n = 200,
				       .tsc_d = 2,
				       .crystal_hz = 24000000,
				       .nominal_ratio = 24};
	struct ptah_trace_config options = all_options();
	struct ptah_recording_config config = config_of(&options);
	struct ptah_recording_map map = {.size = sizeof(map),
					 .pid = 7,
					 .tsc = 2400000,
					 .address = 0x1000,
					 .bytes = 0x2000,
					 .file_offset = 0x3000,
					 .path = "/no/such/file",
					 .build_id_size = sizeof(id)};
	struct perfdata_timing timing;
	struct perfdata_build_id found;
	struct perfdata_record record;
	struct perfdata_file *f = NULL;
	struct ptah_recording *r;
	uint8_t code[100000] = {0xc3};
	uint64_t bytes = 0;
	size_t n;

	memcpy(map.build_id, id, sizeof(id));
	options.mtc = options.cyc = options.event_trace = options.no_tnt = true;
	options.mtc_period = 5;
	options.cyc_threshold = 3;
	options.ranges[1] = (struct ptah_range){0x1000, 0x1fff, PTAH_RANGE_FILTER};
	options.ranges[2] = (struct ptah_range){0x5000, 0x5000, PTAH_RANGE_STOP};
	config.caps = &caps;
	config.osrelease = "BeOS 5";
	r = open_with(&config);
	assert_int_equal(ptah_recording_add_switch(r, 3, 77, 7, 8), 0);
	assert_int_equal(ptah_recording_add_switch(r, 3, 2400000, 9, 9), 0);
	refused(r, ptah_recording_add_switch(r, 3, 2399999, 7, 8), "2399999 after one at 2400000");
	refused(r, ptah_recording_add_switch(r, 3, 2400000, 0, 8), "begin with 1");
	refused(r, ptah_recording_add_switch(r, 65536, 0, 1, 1), "0 to 65535");
	assert_int_equal(ptah_recording_add_map(r, &map), 0);
	map.pid = PTAH_RECORDING_KERNEL;
	map.address = UPPER;
	map.file_offset = UPPER;
	map.path = "[kernel.kallsyms]_text";
	assert_int_equal(ptah_recording_add_map(r, &map), 0);
	assert_int_equal(
	    ptah_recording_add_code(r, PTAH_RECORDING_KERNEL, 0, UPPER, code, sizeof(code), "rtos"),
	    0);
	assert_int_equal(ptah_recording_add_trace(r, add_stream(r), 1000, trace, sizeof(trace)), 0);
	assert_int_equal(ptah_recording_finish(r), 0);
	ptah_recording_free(r);

	assert_int_equal(perfdata_open(path, &f, NULL), 0);
	record = next(f, PERFDATA_ITRACE_START);
	assert_int_equal(record.cpu, 3);
	assert_int_equal(record.tid, 8);
	assert_int_equal(record.time, 0);
	assert_true(perfdata_timing(f, &timing));
	assert_int_equal(timing.mtc_freq, 5);
	assert_int_equal(timing.cyc_thresh, 3);
	assert_int_equal(timing.nominal_ratio, 24);
	assert_int_equal(timing.tsc_n, 200);
	assert_int_equal(timing.tsc_d, 2);
	assert_true(timing.event_trace && timing.no_tnt && !timing.no_retcomp);
	assert_string_equal(perfdata_cpuid(f), "GenuineIntel,6,158,10");
	assert_string_equal(perfdata_osrelease(f), "BeOS 5");
	assert_null(perfdata_command(f));
	assert_memory_equal(perfdata_filter(f, &n), "filter 0x1000/0x1000,stop 0x5000/0x1", n);
	assert_int_equal(n, 36);
	assert_true(perfdata_has_kernel(f));
	record = next(f, PERFDATA_SWITCH_CPU_WIDE);
	assert_true(record.out && record.pid == 7 && record.tid == 8 && record.ptid == 9);
	/* 2.4 GHz: 24 MHz * 200 / 2. The factor is rounded to 32 bits. */
	assert_true(record.time == 1000000 || record.time == 999999);
	record = next(f, PERFDATA_SWITCH_CPU_WIDE);
	assert_true(!record.out && record.pid == 9 && record.ptid == 8 && record.cpu == 3);
	record = next(f, PERFDATA_MMAP2);
	assert_int_equal(record.id.size, sizeof(id));
	assert_memory_equal(record.id.bytes, id, sizeof(id));
	assert_int_equal(record.file_offset, 0x3000);
	assert_true(record.executable);
	record = next(f, PERFDATA_MMAP);
	assert_int_equal(record.pid, -1);
	assert_int_equal(record.file_offset, UPPER);
	assert_true(perfdata_find_build_id(f, "[kernel.kallsyms]", &found));
	assert_memory_equal(found.bytes, id, sizeof(id));
	record = next(f, PERFDATA_KSYMBOL);
	assert_int_equal(record.size, sizeof(code));
	while (bytes < sizeof(code)) {
		record = next(f, PERFDATA_TEXT_POKE);
		assert_int_equal(record.address, UPPER + bytes);
		assert_memory_equal(record.bytes, code + bytes, record.size);
		bytes += record.size;
	}
	assert_int_equal(bytes, sizeof(code));
	record = next(f, PERFDATA_AUXTRACE);
	assert_int_equal(record.cpu, 3);
	assert_int_equal(record.trace_offset, 1000);
	assert_int_equal(record.trace_size, 24);
	assert_memory_equal(record.bytes, trace, sizeof(trace));
	perfdata_close(f);
	unlink(path);
}

/* Instead of the options: the register. */
TEST(from_the_register)
{
	struct ptah_recording_config config = config_of(NULL);
	struct ptah_session *s;
	struct ptah_flow_config flow;
	struct ptah_recording *r;

	config.rtit_ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_USER |
			  PTAH_RTIT_CTL_BRANCH_EN | PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_MTC_EN |
			  UINT64_C(9) << PTAH_RTIT_CTL_MTC_FREQ | PTAH_RTIT_CTL_DIS_RETC;
	r = open_with(&config);
	assert_int_equal(ptah_recording_add_trace(r, add_stream(r), 0, trace, sizeof(trace)), 0);
	assert_int_equal(ptah_recording_finish(r), 0);
	ptah_recording_free(r);
	s = open_session(path);
	ptah_session_get_flow(s, &flow);
	assert_int_equal(flow.events.trace.mtc_period, 9);
	assert_true(flow.events.trace.no_retcomp && !flow.events.trace.no_tnt);
	ptah_session_close(s);
	unlink(path);
}

/* Bytes that are missing between two pieces, and what the engine reports. */
TEST(losses)
{
	const struct ptah_capture_record records[] = {
	    {.position = 20, .flags = PTAH_CAPTURED_DATA | PTAH_CAPTURED_PARTIAL},
	    {.position = 500, .flags = PTAH_CAPTURED_LOST | PTAH_CAPTURED_UNSURE, .lost = 480},
	    {.position = 520, .flags = PTAH_CAPTURED_STOPPED | PTAH_CAPTURED_RECONFIGURED},
	};
	struct ptah_recording *r = open_recording(PTAH_RECORDING_THREADS);
	struct ptah_stream_info info;
	uint32_t stream = add_stream(r);
	struct perfdata_file *f = NULL;
	struct ptah_session *s;
	unsigned notes = 0;

	assert_int_equal(ptah_recording_add_trace(r, stream, 0, trace, sizeof(trace)), 0);
	assert_int_equal(ptah_recording_add_records(r, stream, records, 3), 0);
	assert_int_equal(ptah_recording_add_trace(r, stream, 500, trace, sizeof(trace)), 0);
	assert_int_equal(ptah_recording_finish(r), 0);
	ptah_recording_free(r);

	s = open_session(path);
	assert_int_equal(ptah_session_streams(s), 1);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.tid, 8);
	assert_int_equal(info.pid, 7);
	/* 480, less the padding of the first piece. */
	assert_int_equal(info.lost, 480 - 4);
	for (size_t i = 0; ptah_session_note(s, i); i++)
		notes += strstr(ptah_session_note(s, i), "thread 8: ") != NULL;
	assert_int_equal(notes, 3);
	ptah_session_close(s);

	assert_int_equal(perfdata_open(path, &f, NULL), 0);
	assert_int_equal(next(f, PERFDATA_AUX).lost, PERFDATA_AUX_PARTIAL);
	assert_int_equal(next(f, PERFDATA_AUX).lost, PERFDATA_AUX_TRUNCATED);
	perfdata_close(f);
	unlink(path);
}

/* A piece that ends inside a packet: no record of the file does. */
TEST(cut_packets)
{
	struct ptah_recording *r = open_recording(PTAH_RECORDING_CPUS);
	uint32_t stream = add_stream(r);
	struct perfdata_file *f = NULL;
	struct perfdata_record record;
	uint64_t end = 0;

	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < sizeof(trace); k++)
			assert_int_equal(ptah_recording_add_trace(r, stream, i * sizeof(trace) + k,
								  trace + k, 1),
					 0);
	assert_int_equal(ptah_recording_finish(r), 0);
	ptah_recording_free(r);
	assert_int_equal(perfdata_open(path, &f, NULL), 0);
	while (end < 3 * sizeof(trace)) {
		const uint64_t at = end % sizeof(trace);

		record = next(f, PERFDATA_AUXTRACE);
		assert_int_equal(record.trace_offset, end);
		/* PSB, PSBEND, TNT, TNT */
		end += at == 0 ? 16 : at == 16 ? 2 : 1;
		assert_int_equal(record.trace_size, (end - record.trace_offset + 7) & ~UINT64_C(7));
	}
	perfdata_close(f);
	unlink(path);
}

/* Files */

static void put_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

TEST(nothing_is_left_unfinished)
{
	char old[80];
	struct stat st;
	struct ptah_recording *r;

	config_of(NULL); /* for the path */
	snprintf(old, sizeof(old), "%s.old", path);
	put_text(path, "what was there");
	r = open_recording(PTAH_RECORDING_CPUS);
	assert_true(exists(old));
	assert_int_equal(ptah_recording_add_trace(r, add_stream(r), 0, trace, sizeof(trace)), 0);
	assert_int_equal(ptah_recording_flush(r), 0);
	ptah_recording_free(r);
	assert_false(exists(old));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 14);
	unlink(path);
}

/* What was flushed can be read although the writer was killed. */
TEST(killed)
{
	struct ptah_stream_info info;
	struct ptah_session *s;
	int status;
	pid_t pid;

	config_of(NULL);
	pid = fork();
	if (!pid) {
		struct ptah_recording *r = open_recording(PTAH_RECORDING_CPUS);

		ptah_recording_add_trace(r, add_stream(r), 0, trace, sizeof(trace));
		ptah_recording_flush(r);
		_exit(0);
	}
	snprintf(path, sizeof(path), "/tmp/ptah-test-recording-%d", pid);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	s = open_session(path);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.bytes, 24);
	ptah_session_close(s);
	unlink(path);
}

/* A descriptor: a file, one that can only be appended to, and one that has something already. */
TEST(descriptors)
{
	static const int flags[] = {O_RDWR, O_RDWR | O_APPEND};
	struct ptah_trace_config options = all_options();
	struct ptah_recording_config config = config_of(&options);
	struct ptah_recording *r;
	struct ptah_message why = {""};
	struct stat st;

	config.path = NULL;
	for (size_t i = 0; i < 2; i++) {
		config.fd = open(path, flags[i] | O_CREAT | O_TRUNC, 0600);
		assert_true(config.fd >= 0);
		r = open_with(&config);
		assert_int_equal(
		    ptah_recording_add_trace(r, add_stream(r), 0, trace, sizeof(trace)), 0);
		assert_int_equal(ptah_recording_finish(r), 0);
		ptah_recording_free(r);
		ptah_session_close(open_session(path));
		assert_int_equal(ptah_recording_new(&config, &r, &why), PTAH_E_INVAL);
		assert_true(strstr(why.text, "not empty"));
		assert_int_equal(ftruncate(config.fd, 0), 0);
		r = open_with(&config);
		assert_int_equal(
		    ptah_recording_add_trace(r, add_stream(r), 0, trace, sizeof(trace)), 0);
		ptah_recording_free(r);
		assert_int_equal(fstat(config.fd, &st), 0); /* it is still the caller's */
		assert_int_equal(st.st_size, 0);
		assert_int_equal(close(config.fd), 0);
	}
	config.fd = 1000;
	assert_int_equal(ptah_recording_new(&config, &r, &why), PTAH_E_SYSTEM);
	assert_true(strstr(why.text, "descriptor 1000"));
	unlink(path);
}

/* The output fails: all calls return that, and so does finish. */
TEST(full_device)
{
	struct ptah_trace_config options = all_options();
	struct ptah_recording_config config = config_of(&options);
	struct ptah_message why = {""};
	struct ptah_recording *r;

	config.path = "/dev/full";
	if (!exists(config.path))
		skip();
	assert_int_equal(ptah_recording_new(&config, &r, &why), PTAH_E_SYSTEM);
	assert_true(strstr(why.text, "/dev/full"));
}

/* The file may not grow any more: what was written before is kept, with a note. */
TEST(no_more_room)
{
	static const struct rlimit small = {64 << 10, RLIM_INFINITY};
	struct ptah_stream_info info;
	uint8_t *bytes = calloc(1, 4096);
	struct ptah_recording *r;
	struct ptah_session *s;
	struct rlimit before;
	uint64_t position = sizeof(trace);
	uint32_t stream;
	int status;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	r = open_recording(PTAH_RECORDING_CPUS);
	stream = add_stream(r);
	assert_int_equal(ptah_recording_add_trace(r, stream, 0, trace, sizeof(trace)), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	do {
		status = ptah_recording_add_trace(r, stream, position, bytes, 4096);
		position += 4096;
	} while (!status && position < 1 << 20);
	assert_int_equal(status, PTAH_E_SYSTEM);
	assert_true(strstr(ptah_recording_why(r), path));
	assert_int_equal(ptah_recording_add_note(r, "more"), PTAH_E_SYSTEM);
	assert_int_equal(ptah_recording_flush(r), PTAH_E_SYSTEM);
	assert_int_equal(ptah_recording_finish(r), PTAH_E_SYSTEM);
	assert_true(strstr(ptah_recording_why(r), path));
	ptah_recording_free(r);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	free(bytes);

	s = open_session(path);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_true(info.bytes > 32 << 10);
	assert_true(strstr(ptah_session_note(s, 0), "not complete"));
	ptah_session_close(s);
	unlink(path);
}
