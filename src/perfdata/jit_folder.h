/* SPDX-License-Identifier: MIT */
/*
 * The folder RECORDING.jit, where recorders put copies of the lists that runtimes write of the code
 * that they generate: perf-PID.map and jit-PID.dump, PID being the process's number in the
 * recording.
 */
#ifndef PTAH_PERFDATA_JIT_FOLDER_H
#define PTAH_PERFDATA_JIT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

enum perfdata_jit_kind {
	PERFDATA_JIT_NONE = 0,
	PERFDATA_JIT_MAP,
	PERFDATA_JIT_DUMP,
};

/*
 * What a file is by the last part of its path, which has n bytes. *pid is the number in its name,
 * -1 if no process has one so high.
 */
enum perfdata_jit_kind perfdata_jit_kind(const char *path, size_t n, int32_t *pid);

/* The folder of a recording, which may be a folder itself (perf record --kcore). The caller frees
 * it; NULL: out of memory. */
char *perfdata_jit_folder(const char *recording);

/* Removes the lists in a folder, and the folder if it is empty then. Other files stay. */
void perfdata_jit_remove(const char *folder);

#endif
