/* SPDX-License-Identifier: MIT */
/*
 * What is known of processes beside their recording: the arguments of each program, and how it
 * ended. Arguments are asked for while the process exists, so they may be missing of short ones; so
 * are exit statuses where the recorder does not tell them.
 */
#ifndef PTAH_CLI_LIVE_COMMANDS_H
#define PTAH_CLI_LIVE_COMMANDS_H

#include "export/cover_table.h"

#include <ptah/record.h>

#include <stdbool.h>

struct live_commands;

/*
 * is_here: the processes are those of this machine. If not, that is so as soon as a piece of the
 * recording says its name; the numbers of others mean nothing here. NULL: out of memory.
 */
struct live_commands *live_commands_new(bool is_here);
void live_commands_free(struct live_commands *commands);

/* Looks at a piece of the recording: processes begin and execute programs. */
void live_commands_take(struct live_commands *commands, const struct ptah_record_piece *piece);

/* The recorder says how a process ended: a status as of waitpid(). */
void live_commands_ended(struct live_commands *commands, int32_t pid, int wait_status);

/* Looks which processes have ended. */
void live_commands_look(struct live_commands *commands);

/*
 * Fills in the arguments and the exit statuses of processes. `pid` and `wait_status` are those of
 * the command that was recorded, 0 and -1 if there was none. 0 or PTAH_E_NOMEM.
 */
int live_commands_describe(struct live_commands *commands, int32_t pid, int wait_status,
			   struct cover_process *processes, size_t n);

#endif
