/* SPDX-License-Identifier: MIT */
/*
 * A model of Zircon, as far as port/fuchsia uses it, on the simulated machine: handles, VMOs with
 * children, pins and mappings, and threads.
 */
#ifndef PTAH_TESTS_PORTS_FUCHSIA_MODEL_H
#define PTAH_TESTS_PORTS_FUCHSIA_MODEL_H

#include <zircon/syscalls.h>

#include <ptah/machine.h>

#define MODEL_BTI  1u
#define MODEL_VMAR 2u

void model_start(unsigned cpus, const struct ptah_model_processor *processor);
/* No handle, VMO, pin or mapping may be left, and no rule was broken. */
void model_stop(void);
struct ptah_machine *model_machine(void);
/* What the kernel offers of processors. */
const struct ptah_hal *model_hal(void);
/* Of memory for buffers there are blocks of at most so many bytes. */
void model_fragment(size_t most);
/* A handle of a thread with this koid. */
zx_handle_t model_thread(zx_koid_t koid);
/* The bytes of a VMO, and how many. */
const uint8_t *model_vmo(zx_handle_t vmo, uint64_t *size);
unsigned model_handles(void);

#endif
