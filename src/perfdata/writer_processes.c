/* SPDX-License-Identifier: MIT */
/* Keeps which processes a recording has records of, and the jitdumps that they have mapped. */
#include "perfdata/writer_inside.h"

#include "base/bits.h"
#include "perfdata/jit_folder.h"

#include <stdlib.h>
#include <string.h>

#define PIDS_MAX (1 << 22) /* Linux has no higher number of a process (PID_MAX_LIMIT) */

/* Without memory the process is not noted: then its lists of generated code are not copied. */
void perfdata_note_process(struct perfdata_writer *w, int32_t pid)
{
	if (pid <= 0 || pid >= PIDS_MAX)
		return;
	if (!w->processes)
		w->processes = calloc(PIDS_MAX / 8, 1);
	if (w->processes)
		w->processes[pid / 8] |= (uint8_t)(1u << pid % 8);
}

bool perfdata_has_process(const struct perfdata_writer *w, int32_t pid)
{
	return pid > 0 && pid < PIDS_MAX && w->processes && w->processes[pid / 8] >> pid % 8 & 1;
}

void perfdata_note_mapping(struct perfdata_writer *w, int32_t pid, const char *path)
{
	const size_t n = strlen(path) + 1;
	struct written_dump *dump;
	int32_t number;

	perfdata_note_process(w, pid);
	if (perfdata_jit_kind(path, n - 1, &number) != PERFDATA_JIT_DUMP ||
	    w->dump_count == MAX_DUMPS)
		return;
	for (dump = w->dumps; dump; dump = dump->next)
		if (dump->pid == pid && !strcmp(dump->path, path))
			return;
	dump = malloc(sizeof(*dump) + n);
	if (!dump)
		return;
	dump->pid = pid;
	memcpy(dump->path, path, n);
	dump->next = w->dumps;
	w->dumps = dump;
	w->dump_count++;
}

void perfdata_note_raw(struct perfdata_writer *w, const uint8_t *record, size_t size)
{
	const uint32_t type = load_le32(record);
	const size_t path = PERFDATA_RECORD_HEADER + (type == PERFDATA_MMAP2 ? 64 : 32);

	if (size < PERFDATA_RECORD_HEADER + 8)
		return;
	if ((type == PERFDATA_MMAP || type == PERFDATA_MMAP2) && size > path &&
	    memchr(record + path, '\0', size - path))
		perfdata_note_mapping(w, (int32_t)load_le32(record + PERFDATA_RECORD_HEADER),
				      (const char *)record + path);
	else if (type == PERFDATA_COMM || type == PERFDATA_FORK || type == PERFDATA_ITRACE_START)
		perfdata_note_process(w, (int32_t)load_le32(record + PERFDATA_RECORD_HEADER));
}

const char *perfdata_mapped_dump(const struct perfdata_writer *w, size_t i, int32_t *pid)
{
	const struct written_dump *dump = w->dumps;

	while (dump && i--)
		dump = dump->next;
	if (dump)
		*pid = dump->pid;
	return dump ? dump->path : NULL;
}

const char *perfdata_copies_folder(const struct perfdata_writer *w)
{
	return w->regular && !w->lent ? w->copies : NULL;
}

void perfdata_free_processes(struct perfdata_writer *w)
{
	while (w->dumps) {
		struct written_dump *next = w->dumps->next;

		free(w->dumps);
		w->dumps = next;
	}
	free(w->processes);
}
