/* SPDX-License-Identifier: MIT */
/* Finds the program that a command line runs, and checks what kind of program it is. */
#ifndef PTAH_RECORD_COMMAND_H
#define PTAH_RECORD_COMMAND_H

#include <ptah/session.h>

/* The program to run under QEMU. Free with command_free(). */
struct command {
	char *program; /* path of the ELF file */
	char **argv;   /* its arguments, argv[0] first, NULL-terminated */
};

/*
 * Looks argv[0] up as a shell does, follows "#!" lines as the kernel does, and
 * makes sure that what runs in the end is a 64-bit x86-64 program.
 */
int command_resolve(char *const *argv, struct command *command, struct ptah_message *why);
/* The same for execve(path, argv), which looks nothing up in PATH. An empty argv becomes {""}. */
int command_resolve_exec(const char *path, char *const *argv, struct command *command,
			 struct ptah_message *why);
void command_free(struct command *command);

/* Behind the name of a program that may be executed and not read. */
#define COMMAND_UNREADABLE                                                                         \
	" may be executed, but not read, and so not traced: make it readable (chmod a+r), or "     \
	"record as root"

/*
 * The path of `name` in PATH, or a copy of `name` if it holds a slash. NULL: not found. The caller
 * frees it.
 */
char *command_find(const char *name);

#endif
