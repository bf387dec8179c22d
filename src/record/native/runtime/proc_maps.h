/* SPDX-License-Identifier: MIT */
/* What the process has mapped, as the kernel lists it in /proc/self/maps. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_PROC_MAPS_H
#define PTAH_RECORD_NATIVE_RUNTIME_PROC_MAPS_H

#include "record/native/layout.h"

#include <stdbool.h>
#include <stdint.h>

#define PROC_MAPS_BUFFER NATIVE_LIMIT(4096u, 16u)

struct runtime;

struct proc_maps {
	uint64_t file;
	uint8_t *buffer; /* PROC_MAPS_BUFFER bytes of the caller's */
	char *path;	 /* room for the path of a mapping, which may be cut; NULL: not wanted */
	uint32_t path_room;
	uint32_t at, end;
	int last;
};

/* False: the list cannot be read. */
bool proc_maps_open(const struct runtime *rt, struct proc_maps *in, uint8_t *buffer);
/* The next mapping. False: there are no more. */
bool proc_maps_next(struct proc_maps *in, struct native_mapping *m);
void proc_maps_close(struct proc_maps *in);

#endif
