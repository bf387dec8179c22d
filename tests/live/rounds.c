/* SPDX-License-Identifier: MIT */
/*
 * Records a command that fills its buffer again and again, and looks how much one poll delivers:
 * before each, it waits until the command waits for room.
 *
 *	rounds RECORDER BUFFER MOST COMMAND...
 */
#include <ptah/record.h>

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLLS 20
#define BYTES (5u << 20) /* more than any buffer holds */

static uint64_t delivered;

static int32_t command; /* 0: it does not run */

static void fail(const char *what, const char *why)
{
	if (command)
		kill(command, SIGKILL);
	fprintf(stderr, "rounds: %s: %s\n", what, why);
	exit(1);
}

static int take(void *context, const struct ptah_record_piece *piece)
{
	(void)context;
	if (piece->kind == PTAH_RECORD_PIECE_TRACE)
		delivered += piece->size;
	return 0;
}

/* The state in /proc/PID/stat, behind the name. */
static char state_of(int32_t pid)
{
	char path[64], text[256] = "";
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		fail("stat", "the command has ended");
	if (!fgets(text, sizeof(text), f))
		fail("stat", "empty");
	fclose(f);
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : '?';
}

/* It is asleep several times in a row: in a wait for the recorder, not for a page or a lock. */
static void await_full(int32_t pid)
{
	for (unsigned n = 0; n < 3;) {
		n = state_of(pid) == 'S' ? n + 1 : 0;
		sched_yield();
	}
}

int main(int argc, char **argv)
{
	struct ptah_record_config config = {.size = sizeof(config)};
	const struct ptah_record_sink sink = {.take = take};
	struct ptah_record_status status = {.size = sizeof(status)};
	struct ptah_message why = {""};
	struct ptah_recorder *r;
	uint64_t all = 0, worst = 0;

	if (argc < 5)
		fail("usage", "see the beginning of the source");
	for (unsigned i = 0; i < PTAH_RECORDER_MAX; i++)
		if (!strcmp(ptah_recorder_name(i), argv[1]))
			config.backend.kind = i;
	config.buffer.size = strtoull(argv[2], NULL, 0);
	config.target.argv = argv + 4;
	config.output.sink = &sink;
	if (ptah_recorder_new(&config, &r, NULL, &why) < 0)
		fail("new", why.text);
	if (ptah_recorder_start(r) < 0)
		fail("start", ptah_recorder_why(r, NULL));
	for (unsigned i = 0; i < POLLS || all < BYTES; i++) {
		ptah_recorder_status(r, &status);
		command = status.pid;
		if (all)
			await_full(command);
		delivered = 0;
		if (ptah_recorder_poll(r, 0) <= 0)
			fail("poll", ptah_recorder_why(r, NULL));
		all += delivered;
		worst = delivered > worst ? delivered : worst;
	}
	kill(command, SIGKILL);
	ptah_recorder_finish(r);
	ptah_recorder_free(r);
	printf("%llu bytes in a poll at most\n", (unsigned long long)worst);
	return worst > strtoull(argv[3], NULL, 0);
}
