/* SPDX-License-Identifier: MIT */
/*
 * A recorder that refuses its program after it has begun: the command is started again with the
 * recorder qemu, and nothing is left of the first attempt.
 */
#include "record/problem_of.h"
#include "record/recorder.h"

#include "record/simulated/simulated.h"

#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-start-again-XXXXXX";
static char *command[] = {"sh", "-c", "exit 7", NULL};

/* The recorder that refuses: its "program" waits to be killed. */

struct attempt {
	pid_t pid;
	bool closed, paused;
};

static struct attempt attempt;

static enum ptah_record_problem check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	(void)config;
	(void)why;
	return PTAH_RECORD_FINE;
}

static int open_attempt(struct ptah_recorder *r)
{
	attempt = (struct attempt){.pid = 0};
	r->self = &attempt;
	return simulated_open_writer(r, false, NULL, false);
}

static int start_attempt(struct ptah_recorder *r)
{
	attempt.pid = fork();
	assert_true(attempt.pid >= 0);
	if (!attempt.pid)
		for (;;)
			pause();
	r->status.pid = attempt.pid;
	r->status.threads = 1;
	return 0;
}

static int refuse(struct ptah_recorder *r, int timeout_ms)
{
	(void)timeout_ms;
	snprintf(r->refusal.text, sizeof(r->refusal.text), "the program calls ptrace");
	return RECORDER_REFUSED;
}

static int stop_attempt(struct ptah_recorder *r)
{
	(void)r;
	fail_msg("a recorder that has refused was stopped");
	return 0;
}

static void close_attempt(struct ptah_recorder *r)
{
	if (!r->self)
		return;
	attempt.closed = true;
	if (attempt.pid) {
		kill(attempt.pid, SIGKILL);
		waitpid(attempt.pid, NULL, 0);
	}
}

static const struct recorder_backend refuses = {
    .kind = PTAH_RECORDER_PTRACE,
    .check = check,
    .open = open_attempt,
    .start = start_attempt,
    .poll = refuse,
    .stop = stop_attempt,
    .close = close_attempt,
};

static struct ptah_recorder *begin(const struct ptah_record_config *config)
{
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;

	if (recorder_new(&refuses, config, &r, NULL, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(ptah_recorder_start(r), 0);
	assert_int_equal(ptah_recorder_kind(r, NULL), PTAH_RECORDER_PTRACE);
	return r;
}

static void write_old(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs("old", f);
	assert_int_equal(fclose(f), 0);
}

static void assert_old(const char *path)
{
	char text[8] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "old");
}

TEST(test_qemu_records_the_command)
{
	struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "x.data", .target.argv = command};
	struct ptah_record_status result = {.size = sizeof(result)};
	struct ptah_message why = {""};
	struct ptah_recorder *r;
	pid_t first;
	const char *choice;
	int status;

	ptah_record_trace_default(&config.trace);
	if (recorder_qemu.check(&config, &why)) {
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	write_old("x.data");
	r = begin(&config);
	first = attempt.pid;
	while ((status = ptah_recorder_poll(r, 100)) == 1)
		;
	assert_int_equal(status, 0);
	assert_true(attempt.closed);
	assert_int_equal(kill(first, 0), -1);
	assert_int_equal(ptah_recorder_kind(r, &choice), PTAH_RECORDER_QEMU);
	assert_string_equal(choice, "qemu: the program calls ptrace");
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(ptah_recorder_status(r, &result), 0);
	assert_true(WIFEXITED(result.wait_status));
	assert_int_equal(WEXITSTATUS(result.wait_status), 7);
	assert_int_equal(result.threads, 1);
	assert_int_equal(result.notes, 1);
	ptah_recorder_free(r);
	/* What was there before the first attempt is kept, and not the attempt. */
	assert_old("x.data.old");
	assert_int_equal(unlink("x.data.old"), 0);
	assert_int_equal(unlink("x.data"), 0);
}

/* Neither finish nor free asks anything of the recorder that has gone. */
static void fails_with(const struct ptah_record_config *config, int status, const char *sentence)
{
	struct ptah_recorder *r = begin(config);

	assert_int_equal(ptah_recorder_poll(r, 100), status);
	assert_true(attempt.closed);
	assert_int_equal(ptah_recorder_poll(r, 100), status);
	assert_int_not_equal(problem_of(r), PTAH_RECORD_FINE);
	assert_non_null(strstr(ptah_recorder_why(r, NULL), "the program calls ptrace: "));
	assert_non_null(strstr(ptah_recorder_why(r, NULL), sentence));
	assert_int_equal(ptah_recorder_finish(r), status);
	ptah_recorder_free(r);
}

static int take(void *context, const struct ptah_record_piece *piece)
{
	(void)context;
	(void)piece;
	return 0;
}

/* A sink that can begin again. */
static struct counted {
	unsigned pieces, restarts, pieces_at_restart;
	int answer;
} counted;

static int count_piece(void *context, const struct ptah_record_piece *piece)
{
	struct counted *c = context;

	c->pieces += piece->size > 0;
	return 0;
}

static int count_restart(void *context)
{
	struct counted *c = context;

	c->restarts++;
	c->pieces_at_restart = c->pieces;
	return c->answer;
}

TEST(test_a_sink_begins_again)
{
	const struct ptah_record_sink sink = {
	    .take = count_piece, .context = &counted, .restart = count_restart};
	struct ptah_record_config config = {
	    .size = sizeof(config), .output.sink = &sink, .target.argv = command};
	struct ptah_message why = {""};
	struct ptah_recorder *r;
	int status;

	ptah_record_trace_default(&config.trace);
	if (recorder_qemu.check(&config, &why)) {
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	counted = (struct counted){.answer = 0};
	r = begin(&config);
	while ((status = ptah_recorder_poll(r, 100)) == 1)
		;
	assert_int_equal(status, 0);
	assert_int_equal(ptah_recorder_kind(r, NULL), PTAH_RECORDER_QEMU);
	assert_int_equal(counted.restarts, 1);
	assert_true(counted.pieces > counted.pieces_at_restart);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	counted = (struct counted){.answer = PTAH_E_LIMIT};
	fails_with(&config, PTAH_E_SYSTEM, "the sink does not begin again");
}

TEST(test_it_fails_where_nothing_else_can_do_it)
{
	const struct ptah_record_sink sink = {.take = take};
	struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "x.data", .target.argv = command};

	write_old("x.data");
	config.backend.qemu = "/nothing/of/this/name";
	fails_with(&config, PTAH_E_MISSING, "/nothing/of/this/name not found");
	assert_old("x.data");
	assert_int_equal(access("x.data.old", F_OK), -1);
	assert_int_equal(unlink("x.data"), 0);
	config.backend.qemu = NULL;
	config.output.sink = &sink;
	fails_with(&config, PTAH_E_UNSUPPORTED, "sink");
}

static int set_up(void **unused)
{
	(void)unused;
	return !mkdtemp(folder) || chdir(folder);
}

static int tear_down(void **unused)
{
	(void)unused;
	return chdir("/") || rmdir(folder);
}

TEST_GROUP(set_up, tear_down)
