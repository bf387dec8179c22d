/* SPDX-License-Identifier: MIT */
/* --control as perf record has it: another program's commands, line by line, and "ack". */
#ifndef PTAH_CLI_RECORD_CONTROL_H
#define PTAH_CLI_RECORD_CONTROL_H

#include "command.h"

enum control_command {
	CONTROL_NONE, /* nothing has come */
	CONTROL_ENABLE,
	CONTROL_DISABLE,
	CONTROL_SNAPSHOT,
	CONTROL_STOP,
	CONTROL_PING,
	CONTROL_EVLIST,
	CONTROL_UNKNOWN, /* the line is in `line` */
};

#define CONTROL_LINE 256

struct control {
	int commands, acks; /* descriptors; -1: none */
	bool opened;	    /* they are ours to close */
	bool too_long;	    /* the line that is being read: it is not kept */
	char line[CONTROL_LINE];
	char bytes[CONTROL_LINE]; /* read, and not used yet */
	size_t used, count, length;
};

/*
 * "fd:N[,ACK]" or "fifo:PATH[,ACK]". NULL: no control. Returns an exit code, the
 * message printed. control_close() in any case.
 */
int control_open(const struct command *command, const char *text, struct control *control);

/* The next command, without waiting. */
enum control_command control_next(struct control *control);

/* The command has been carried out. */
void control_acknowledge(const struct control *control);
void control_close(struct control *control);

#endif
