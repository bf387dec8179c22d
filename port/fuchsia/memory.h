/* SPDX-License-Identifier: MIT */
/* The engine's memory from VMOs, and chunks of it for clients. */
#ifndef PTAH_PORT_FUCHSIA_MEMORY_H
#define PTAH_PORT_FUCHSIA_MEMORY_H

#include <zircon/syscalls.h>

#include <ptah/engine/engine.h>

/* Captures have this owner, so that their memory can be listed. */
#define MEMORY_OWNER 1

/* Sets the callbacks of memory. `pins` is the BTI that pins it, `region` the VMAR where it is mapped. */
void memory_init(struct ptah_hal *hal, zx_handle_t pins, zx_handle_t region);

/* A read-only VMO of the bytes from chunk * size on of the capture's buffer. PASSIVE. */
bool memory_take_chunk(struct ptah_capture *capture, uint32_t chunk, uint64_t size,
		       zx_handle_t *vmo);

#endif
