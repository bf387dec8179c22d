/* SPDX-License-Identifier: MIT */
/* --control, as in perf record: another program sends commands, one a line, and gets "ack". */
#ifndef PTAH_CLI_RECORD_CONTROL_H
#define PTAH_CLI_RECORD_CONTROL_H

#include "command.h"

enum control_command {
	CONTROL_NONE, /* no command is waiting */
	CONTROL_ENABLE,
	CONTROL_DISABLE,
	CONTROL_SNAPSHOT,
	CONTROL_HIT, /* the same, of `ptah live`; a text may follow */
	CONTROL_STOP,
	CONTROL_PING,
	CONTROL_EVLIST,
	CONTROL_UNKNOWN, /* not one of these words */
};

#define CONTROL_LINE 256

struct control {
	int commands, acks; /* descriptors; -1: none */
	bool opened;	    /* this process has opened them and must close them */
	bool too_long;	    /* the line that is being read is longer than `line`, and is skipped */
	char line[CONTROL_LINE];  /* after control_next(): the whole command */
	char bytes[CONTROL_LINE]; /* were read, and are not parsed yet */
	size_t used, count, length;
};

/*
 * Opens "fd:N[,ACK]" or "fifo:PATH[,ACK]"; NULL: there is no control. Returns an
 * exit code, and has printed a message if it is not 0. The caller calls
 * control_close() in any case.
 */
int control_open(const struct command *command, const char *text, struct control *control);

/* The next command that has arrived; does not wait for one. */
enum control_command control_next(struct control *control);

/* Reports to the other program that its command has been carried out. */
void control_acknowledge(const struct control *control);
void control_close(struct control *control);

#endif
