/* SPDX-License-Identifier: MIT */
/* The recorder as a library: bad configurations, results, and the calls of ptah/record.h. */
#include "test.h"

#include <ptah/record.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-record-XXXXXX";

TEST(bad_configurations)
{
	char *none[] = {NULL}, *command[] = {"true", NULL};
	struct ptah_record_config config = {.size = sizeof(config), .output.path = "x.data"};
	struct ptah_message why = {""};

	assert_int_equal(ptah_record(NULL, NULL, &why), PTAH_E_INVAL);
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.target.argv = none;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.target.argv = command;
	config.size = 0;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.size = sizeof(config);
	ptah_record_trace_default(&config.trace);
	config.trace.psb_period = 16;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.trace.psb_period = 15;
	config.trace.mtc_period = 16;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.trace.mtc_period = PTAH_RECORD_CHOOSE;
	config.trace.cr3_filter = true;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_UNSUPPORTED);
	config.trace.cr3_filter = false;
	config.backend.qemu = "/nonexistent";
	assert_int_equal(ptah_record(&config, NULL, NULL), PTAH_E_MISSING);
	assert_int_equal(access("x.data", F_OK), -1);
}

/* The command's status, its threads, and truth that equals the result's instructions. */
TEST(a_recording)
{
	char *command[] = {"sh", "-c", "exit 7", NULL};
	struct ptah_record_config config = {.size = sizeof(config),
					    .output.path = "x.data",
					    .target.argv = command,
					    .backend.truth = true};
	struct ptah_record_status result;
	struct ptah_message why = {""};
	struct ptah_session *session;
	struct ptah_stream_info info;
	struct ptah_verify verify;
	int status = ptah_record(&config, &result, &why);

	if (status == PTAH_E_MISSING) { /* QEMU or the plugin is missing */
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	assert_int_equal(status, 0);
	assert_true(WIFEXITED(result.wait_status));
	assert_int_equal(WEXITSTATUS(result.wait_status), 7);
	assert_int_equal(result.threads, 1);
	assert_int_equal(result.notes, 0);
	assert_int_equal(ptah_session_open("x.data", NULL, &session, &why), 0);
	assert_int_equal(ptah_session_streams(session), 1);
	assert_int_equal(ptah_session_stream_info(session, 0, &info), 0);
	assert_true(info.has_truth);
	assert_int_equal(info.truth.instructions, result.instructions);
	/*
	 * Each piece is padded to 8 bytes, as perf wants it; a slow recorder makes several pieces.
	 */
	assert_in_range(info.bytes, result.trace_bytes, result.trace_bytes + 8 * 7);
	assert_string_equal(info.comm, "sh");
	assert_int_equal(ptah_session_verify(session, 0, NULL, &verify), 0);
	assert_true(verify.equal);
	ptah_session_close(session);
}

/*
 * The description of the simulated processor is there before anything runs; the bits are those of
 * IA32_RTIT_CTL.
 */
TEST(metadata)
{
	static const enum ptah_recorder_kind kinds[] = {PTAH_RECORDER_QEMU, PTAH_RECORDER_PTRACE};
	const struct ptah_record_filter filter = {PTAH_RANGE_STOP, NULL, 0x1000, 16};
	char *command[] = {"true", NULL};
	struct ptah_record_metadata m = {.size = sizeof(m)};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ptah_record_config config = {.size = sizeof(config),
						    .output.path = "m.data",
						    .target.argv = command,
						    .backend.kind = kinds[i],
						    .filters = &filter,
						    .filter_count = 1};
		enum ptah_record_problem problem;
		struct ptah_message why;
		struct ptah_recorder *r;

		ptah_record_trace_default(&config.trace);
		config.trace.no_retcomp = true;
		config.trace.mtc_period = 6;
		config.trace.psb_period = 2;
		if (ptah_recorder_new(&config, &r, &problem, &why) < 0) {
			assert_int_equal(problem, PTAH_RECORD_NO_EMULATOR);
			continue;
		}
		assert_int_equal(ptah_recorder_metadata(r, &m), 0);
		assert_string_equal(m.vendor, "GenuineIntel");
		assert_int_equal(m.cpu.family, 6);
		assert_int_equal(m.cpu.model, 0x8f);
		assert_int_equal(m.cpuid_14[0][0], 1);	   /* the last sub-leaf */
		assert_true(m.cpuid_14[0][1] >> 3 & 1);	   /* MTC */
		assert_int_equal(m.cpuid_14[1][0] & 7, 4); /* address ranges */
		assert_int_equal(m.cpuid_15[0], 1);
		assert_int_equal(m.cpuid_15[1], 100);
		assert_int_equal(m.time_mult, 1);
		assert_int_equal(m.time_shift + m.time_zero, 0);
		assert_int_equal(m.pmu_type, 0);
		/* TraceEn, User, ToPA, MTCEn, TSCEn, DisRETC, BranchEn, MTCFreq 6, PSBFreq 2 (8
		 * KiB), ADDR0_CFG 2 (stop) */
		assert_int_equal(m.rtit_ctl, 1 | 8 | 0x100 | 0x200 | 0x400 | 0x800 | 0x2000 |
						 6 << 14 | 2 << 24 | UINT64_C(2) << 32);
		ptah_recorder_free(r);
	}
	assert_int_equal(access("m.data", F_OK), -1);
}

/* Makes a file as perf does through a pipe, from what a sink receives. */
struct pipe_file {
	FILE *f;
	uint64_t streams[8]; /* bytes of each stream so far */
	uint64_t trace, records;
	uint64_t refuse_at; /* number of the piece that is refused; 0: none */
	uint64_t pieces;
};

static int take_piece(void *context, const struct ptah_record_piece *piece)
{
	struct pipe_file *p = context;
	const uint32_t padding = -(uint32_t)piece->size & 7;

	if (++p->pieces == p->refuse_at)
		return PTAH_E_NOSPACE;
	if (piece->kind == PTAH_RECORD_PIECE_TRACE) {
		/* PERF_RECORD_AUXTRACE: type, misc and size; size, offset, reference; index, tid,
		 * cpu, reserved. */
		uint64_t head[6] = {71 | UINT64_C(48) << 48,
				    piece->size + padding,
				    piece->offset,
				    1,
				    piece->stream | (uint64_t)(uint32_t)piece->tid << 32,
				    (uint32_t)piece->cpu};

		assert_true(piece->stream < 8);
		assert_int_equal(piece->offset, p->streams[piece->stream]);
		p->streams[piece->stream] += piece->size;
		p->trace += piece->size;
		fwrite(head, sizeof(head), 1, p->f);
	} else {
		uint16_t size;
		uint32_t type;

		assert_int_equal(piece->kind, PTAH_RECORD_PIECE_RECORD);
		assert_true(piece->size >= 8);
		memcpy(&type, piece->bytes, 4);
		memcpy(&size, (const char *)piece->bytes + 6, 2);
		/* HEADER_TRACING_DATA is followed by its bytes. */
		assert_true(type == 66 ? piece->size > size : piece->size == size);
		p->records++;
	}
	fwrite(piece->bytes, piece->size, 1, p->f);
	fwrite("\0\0\0\0\0\0\0", padding, 1, p->f);
	return 0;
}

static int record_to(struct pipe_file *p, struct ptah_record_status *result,
		     struct ptah_message *why)
{
	char *command[] = {"true", NULL};
	const struct ptah_record_sink sink = {.take = take_piece, .context = p};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .output.path = "nothing.data",
						  .target.argv = command,
						  .backend.kind = PTAH_RECORDER_QEMU,
						  .output.sink = &sink};
	const uint64_t size = 16;

	p->f = fopen("x.pipe", "w");
	assert_non_null(p->f);
	fwrite("PERFILE2", 8, 1, p->f);
	fwrite(&size, 8, 1, p->f);
	return ptah_record(&config, result, why);
}

static unsigned long long number_from(const char *command)
{
	unsigned long long n = 0;
	FILE *f = popen(command, "r");

	assert_non_null(f);
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	pclose(f);
	return n;
}

/* Pieces instead of a file: perf decodes what was executed from them. */
TEST(a_sink)
{
	struct pipe_file p = {.f = NULL};
	struct ptah_record_status result;
	struct ptah_message why = {""};
	int status = record_to(&p, &result, &why);

	if (status == PTAH_E_MISSING) {
		fclose(p.f);
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	assert_int_equal(status, 0);
	assert_int_equal(fclose(p.f), 0);
	assert_int_equal(p.trace, result.trace_bytes);
	assert_true(p.records > 4); /* attribute, AUXTRACE_INFO, name, start, a map, end */
	assert_int_equal(access("nothing.data", F_OK), -1);
	if (system("command -v perf >/dev/null") == 0)
		assert_int_equal(
		    number_from(
			"cat x.pipe | perf script -i - --itrace=i0ns -F event,ip 2>/dev/null | "
			"grep -c instructions"),
		    result.instructions);

	p = (struct pipe_file){.refuse_at = 3};
	assert_int_equal(record_to(&p, &result, &why), PTAH_E_NOSPACE);
	assert_non_null(strstr(why.text, "refused"));
	assert_int_equal(p.pieces, 3);
	fclose(p.f);
}

/* A command with branches that runs until it is killed. */
/* Endless until it is killed, or, when a test fails before that, has computed for two minutes. */
static char *endless[] = {"sh", "-c", "ulimit -t 120; while :; do i=$((i + 1)); done", NULL};

static struct ptah_record_config small_buffers(char *const *argv)
{
	return (struct ptah_record_config){.size = sizeof(struct ptah_record_config),
					   .output.path = "x.data",
					   .target.argv = argv,
					   .backend.kind = PTAH_RECORDER_QEMU,
					   .buffer.size = 64 << 10};
}

static struct ptah_recorder *start(const struct ptah_record_config *config)
{
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;
	int status = ptah_recorder_new(config, &r, NULL, &why);

	if (status == PTAH_E_MISSING) {
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	if (status < 0)
		fail_msg("%s", why.text);
	assert_int_equal(ptah_recorder_start(r), 0);
	return r;
}

static struct ptah_record_status status_of(const struct ptah_recorder *r)
{
	struct ptah_record_status status = {.size = sizeof(status)};

	assert_int_equal(ptah_recorder_status(r, &status), 0);
	return status;
}

static void poll_for(struct ptah_recorder *r, int ms)
{
	for (; ms > 0; ms -= 20)
		assert_int_equal(ptah_recorder_poll(r, 20), 1);
}

/* Polls until the command has computed for so long: other work on the machine does not matter. */
static void poll_while_it_computes(struct ptah_recorder *r, int ms)
{
	struct timespec now;
	clockid_t clock;
	int64_t end = 0;

	assert_int_equal(clock_getcpuclockid(status_of(r).pid, &clock), 0);
	for (int i = 0; i < 60000; i++) {
		int64_t ns;

		assert_int_equal(clock_gettime(clock, &now), 0);
		ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
		end = end ? end : ns + ms * INT64_C(1000000);
		if (ns >= end)
			return;
		assert_int_equal(ptah_recorder_poll(r, 20), 1);
	}
	fail_msg("the command does not run");
}

/* Polls until there is no new trace for a fifth of a second. Returns how much there is. */
static uint64_t poll_until_quiet(struct ptah_recorder *r)
{
	for (int i = 0; i < 20; i++) {
		const uint64_t bytes = status_of(r).trace_bytes;

		poll_for(r, 200);
		if (status_of(r).trace_bytes == bytes)
			return bytes;
	}
	fail_msg("the trace does not pause");
	return 0;
}

/* Polls until there are this many bytes of trace, but not for ever. */
static void poll_until(struct ptah_recorder *r, uint64_t bytes)
{
	for (int i = 0; i < 60000 && status_of(r).trace_bytes < bytes; i++)
		assert_int_equal(ptah_recorder_poll(r, 20), 1);
	assert_true(status_of(r).trace_bytes >= bytes);
}

/* Stops while the command runs. The command continues, and is killed here. */
static void stop_and_kill(struct ptah_recorder *r)
{
	int32_t pid;
	int status;

	assert_int_equal(ptah_recorder_stop(r), 0);
	pid = status_of(r).pid;
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_true(pid > 0);
	usleep(50000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * Verifies that everything decodes, and with `truth` to what was executed. Returns the number of
 * instructions.
 */
static uint64_t decodes(bool truth)
{
	struct ptah_message why = {""};
	struct ptah_session *session;
	struct ptah_item items[64];
	struct ptah_verify verify;
	uint64_t n = 0;

	assert_int_equal(ptah_session_open("x.data", NULL, &session, &why), 0);
	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		struct ptah_reader *stream;
		int count;

		assert_int_equal(ptah_session_verify(session, i, NULL, &verify),
				 truth ? 0 : PTAH_E_MISSING);
		if (truth)
			assert_true(verify.equal);
		assert_int_equal(ptah_reader_new(session, i, NULL, &stream), 0);
		while ((count = ptah_reader_read(stream, items, 64)) > 0) {
			for (int k = 0; k < count; k++) {
				assert_int_not_equal(items[k].type, PTAH_ITEM_ERROR);
				if (items[k].type == PTAH_ITEM_BLOCK)
					n += items[k].ninsn;
			}
		}
		assert_int_equal(count, 0);
		ptah_reader_free(stream);
	}
	ptah_session_close(session);
	return n;
}

TEST(stopped_while_it_runs)
{
	struct ptah_record_config config = small_buffers(endless);
	struct ptah_recorder *r = start(&config);

	poll_until(r, 100000);
	stop_and_kill(r);
	assert_true(decodes(true) > 100000);
}

/* During a pause neither a thread that computes nor one that sleeps in a system call is traced. */
TEST(paused)
{
	char *sleeper[] = {"sh", "-c", "ulimit -t 120; sleep 5 & while :; do i=$((i + 1)); done",
			   NULL};
	struct ptah_record_config config = small_buffers(sleeper);
	struct ptah_recorder *r = start(&config);
	uint64_t bytes;

	poll_until(r, 100000);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_true(status_of(r).paused);
	bytes = poll_until_quiet(r);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	poll_until(r, bytes + 100000);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	stop_and_kill(r);
	assert_true(decodes(true) > 100000);
}

TEST(paused_from_the_start)
{
	struct ptah_record_config config = small_buffers(endless);
	struct ptah_recorder *r;

	config.target.start_paused = true;
	r = start(&config);
	poll_for(r, 300);
	assert_in_range(status_of(r).trace_bytes, 0, 64); /* a PSB+ */
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	poll_until(r, 100000);
	stop_and_kill(r);
	assert_true(decodes(true) > 100000);
}

/* Each snapshot has at most a buffer of trace; the trace between them is left out. */
TEST(snapshots)
{
	struct ptah_record_config config = small_buffers(endless);
	struct ptah_recorder *r;
	uint64_t before = 0;

	config.buffer.policy = PTAH_RECORD_SNAPSHOT;
	r = start(&config);
	for (int i = 0; i < 3; i++) {
		uint64_t bytes;

		poll_while_it_computes(r, 250);
		assert_int_equal(ptah_recorder_snapshot(r), 0);
		bytes = status_of(r).trace_bytes - before;
		before += bytes;
		assert_in_range(bytes, 4096, config.buffer.size + (64 << 10));
	}
	assert_int_equal(status_of(r).snapshots, 3);
	stop_and_kill(r);
	assert_true(decodes(false) > 10000);
}

/* The command is stopped (SIGSTOP) or killed: no call waits for ever. */
TEST(no_answer)
{
	struct ptah_record_config config = small_buffers(endless);
	struct ptah_recorder *r;

	config.buffer.policy = PTAH_RECORD_SNAPSHOT;
	for (int i = 0; i < 2; i++) {
		int32_t pid;
		int status;

		r = start(&config);
		poll_for(r, 300);
		pid = status_of(r).pid;
		kill(pid, i ? SIGKILL : SIGSTOP);
		assert_int_equal(ptah_recorder_pause(r, true), 0);
		assert_int_equal(ptah_recorder_pause(r, false), 0);
		assert_int_equal(ptah_recorder_snapshot(r), 0);
		assert_int_equal(ptah_recorder_finish(r), 0);
		ptah_recorder_free(r);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
}

static int enter_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	unlink("x.data");
	unlink("x.pipe");
	unlink("x.data.old");
	return chdir("/") || rmdir(folder);
}

TEST_GROUP(enter_folder, leave_folder)
