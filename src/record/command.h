/* SPDX-License-Identifier: MIT */
/* Finding the program behind a command, and telling what kind it is. */
#ifndef PTAH_RECORD_COMMAND_H
#define PTAH_RECORD_COMMAND_H

#include <ptah/session.h>

/* What to run under QEMU. Free with command_free(). */
struct command {
	char *program; /* path of the ELF file */
	char **argv;   /* its arguments, argv[0] first, NULL-terminated */
};

/*
 * Looks argv[0] up as a shell does, follows "#!" lines as the kernel does, and
 * makes sure that what runs in the end is a 64-bit x86-64 program.
 */
int command_resolve(char *const *argv, struct command *command, struct ptah_message *why);
/* The same for execve(path, argv): nothing is looked up. An empty argv is {""}. */
int command_resolve_exec(const char *path, char *const *argv, struct command *command,
			 struct ptah_message *why);
void command_free(struct command *command);

/* The path of `name` found in PATH, or a copy of `name` if it holds a slash. NULL: nowhere. */
char *command_find(const char *name);

#endif
