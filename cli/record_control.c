/* SPDX-License-Identifier: MIT */
/* Reads the commands of --control from a descriptor or a fifo, and acknowledges them. */
#include "record_control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain_control(const struct command *command, const char *text, const char *what)
{
	fail(command,
	     "--control=%s: %s\nIt is 'fd:N' or 'fifo:PATH', and ',N' or ',PATH' for answers.",
	     text, what);
	return EXIT_USAGE;
}

/* Marks the descriptor so that the recorded command does not inherit it. */
static int take_control_descriptor(const char *text)
{
	char *end;
	long fd;

	errno = 0;
	fd = strtol(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || fd > INT_MAX ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	return (int)fd;
}

/* Opened for reading and writing, the fifo never reaches its end, however many writers come and
 * leave (fifo(7)). */
static int open_control_fifo(const struct command *command, const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0) {
		fail(command, "--control: %s: %s", path, strerror(errno));
		return -1;
	}
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode))
		return fd;
	close(fd);
	fail(command, "--control: %s is no fifo: make one with mkfifo", path);
	return -1;
}

static int open_fifos(const struct command *command, const char *commands, const char *acks,
		      struct control *control)
{
	control->opened = true;
	control->commands = open_control_fifo(command, commands);
	if (control->commands >= 0 && acks)
		control->acks = open_control_fifo(command, acks);
	return control->commands < 0 || (acks && control->acks < 0) ? EXIT_FAILED : EXIT_OK;
}

int control_open(const struct command *command, const char *text, struct control *control)
{
	char words[2 * PATH_MAX], *first, *second;

	*control = (struct control){.commands = -1, .acks = -1};
	if (!text)
		return EXIT_OK;
	if (strlen(text) >= sizeof(words))
		return complain_control(command, text, "it is too long");
	strcpy(words, text);
	first = strchr(words, ':');
	if (!first)
		return complain_control(command, text, "'fd:' or 'fifo:' is missing");
	*first++ = '\0';
	second = strchr(first, ',');
	if (second)
		*second++ = '\0';
	if (!*first || (second && !*second))
		return complain_control(command, text, "a name is missing");
	if (!strcmp(words, "fifo"))
		return open_fifos(command, first, second, control);
	if (strcmp(words, "fd") != 0)
		return complain_control(command, text, "it begins with neither 'fd:' nor 'fifo:'");
	control->commands = take_control_descriptor(first);
	if (control->commands < 0)
		return complain_control(command, text, "no such descriptor is open");
	control->acks = second ? take_control_descriptor(second) : -1;
	if (second && control->acks < 0)
		return complain_control(command, text, "no such descriptor is open for answers");
	return EXIT_OK;
}

void control_close(struct control *control)
{
	if (control->opened && control->commands >= 0)
		close(control->commands);
	if (control->opened && control->acks >= 0)
		close(control->acks);
	control->commands = control->acks = -1;
}

/* Returns false when nothing has arrived. poll() first: a descriptor from outside may block. */
static bool read_more(struct control *control)
{
	struct pollfd ready = {.fd = control->commands, .events = POLLIN};
	ssize_t n;

	if (control->commands < 0 || poll(&ready, 1, 0) <= 0)
		return false;
	n = read(control->commands, control->bytes, sizeof(control->bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) { /* the writer has closed its end */
		if (control->opened)
			close(control->commands);
		control->commands = -1;
		return false;
	}
	control->used = 0;
	control->count = (size_t)n;
	return true;
}

/* "enable NAME" means one perf event; there is only intel_pt here. */
static enum control_command recognise(const char *line)
{
	static const struct {
		const char *word;
		enum control_command command;
		bool more; /* other words may follow */
	} words[] = {
	    {"enable", CONTROL_ENABLE, false},
	    {"disable", CONTROL_DISABLE, false},
	    {"snapshot", CONTROL_SNAPSHOT, false},
	    {"stop", CONTROL_STOP, false},
	    {"ping", CONTROL_PING, false},
	    {"evlist", CONTROL_EVLIST, true},
	    {"hit", CONTROL_HIT, true},
	};
	const size_t n = strcspn(line, " ");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i].word) != n || strncmp(line, words[i].word, n) != 0)
			continue;
		if (!line[n] || words[i].more || !strcmp(line + n, " intel_pt") ||
		    !strncmp(line + n, " intel_pt/", 10))
			return words[i].command;
	}
	return CONTROL_UNKNOWN;
}

enum control_command control_next(struct control *control)
{
	while (control->used < control->count || read_more(control)) {
		char c = control->bytes[control->used++];
		bool cut = control->too_long, empty = !control->length;

		if (c && c != '\n') {
			if (control->length + 1 < sizeof(control->line))
				control->line[control->length++] = c;
			else
				control->too_long = true;
			continue;
		}
		control->line[control->length] = '\0';
		control->length = 0;
		control->too_long = false;
		if (!empty) { /* perf's own tools may end a line with a newline and a NUL */
			const enum control_command command = recognise(control->line);

			/* The beginning of a long text of a hit is enough. */
			return cut && command != CONTROL_HIT ? CONTROL_UNKNOWN : command;
		}
	}
	return CONTROL_NONE;
}

/* If the other program does not read its answers, they are dropped: the recording does not wait. */
void control_acknowledge(const struct control *control)
{
	static const char ack[] = "ack\n";
	struct pollfd ready = {.fd = control->acks, .events = POLLOUT};

	if (control->acks >= 0 && poll(&ready, 1, 0) > 0 &&
	    write(control->acks, ack, sizeof(ack) - 1) < 0)
		return;
}
