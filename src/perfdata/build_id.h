/* SPDX-License-Identifier: MIT */
/* Build ids: the note in an ELF file that distinguishes one build from another. */
#ifndef PTAH_PERFDATA_BUILD_ID_H
#define PTAH_PERFDATA_BUILD_ID_H

#include "perfdata/format.h"

#include <stddef.h>

struct perfdata_build_id {
	uint8_t size; /* 0: none */
	uint8_t bytes[PERFDATA_BUILD_ID_MAX];
};

/*
 * Reads the id of the file at `path`. Returns 0 with size 0 when it is no ELF
 * file or has no id; PTAH_E_SYSTEM with errno when it cannot be opened. Ids
 * longer than 20 bytes are cut, as perf does.
 */
int perfdata_build_id_read(const char *path, struct perfdata_build_id *id);

/*
 * Writes the id as hexadecimal; text must hold 2 * PERFDATA_BUILD_ID_MAX + 1 bytes. Returns text.
 */
const char *perfdata_build_id_text(const struct perfdata_build_id *id, char *text);

#endif
