/* SPDX-License-Identifier: MIT */
/*
 * The file under whose name a command writes until its output is complete. Each has a name of its
 * own, PATH.N.tmp, so that two commands with one output do not write into one another's file, and
 * no file of the user's that happens to be called PATH.tmp is lost.
 */
#ifndef PTAH_OUTPUT_TEMPORARY_H
#define PTAH_OUTPUT_TEMPORARY_H

/*
 * Where an output of that name belongs: the file that a symbolic link leads to, so that renaming
 * does not replace the link; otherwise the name itself. The caller frees it. NULL: no memory.
 */
char *temporary_target(const char *path);

/* Creates the file. Returns its descriptor and *name, which the caller frees; or -1, with errno. */
int temporary_open(const char *path, char **name);

#endif
