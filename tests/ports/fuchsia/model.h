/* SPDX-License-Identifier: MIT */
/*
 * A model of Zircon, as far as port/fuchsia uses it, on the simulated machine: handles, VMOs with
 * children, pins and mappings, and threads.
 */
#ifndef PTAH_TESTS_PORTS_FUCHSIA_MODEL_H
#define PTAH_TESTS_PORTS_FUCHSIA_MODEL_H

#include <zircon/syscalls.h>

#include <ptah/model/machine.h>

#define MODEL_BTI  1u
#define MODEL_VMAR 2u

void model_start(unsigned cpus, const struct ptah_model_processor *processor);
/* No handle, VMO, pin or mapping may be left, and no rule was broken. */
void model_stop(void);
struct ptah_machine *model_machine(void);
/* What the kernel offers of processors. */
const struct ptah_hal *model_hal(void);
/*
 * The client's end of the protocol. A call is made by CALL(): the driver's function runs once for
 * each message that is sent, and its result is the reply. A client that dies loses its handles, of
 * chunks and threads, before the driver learns of its end, or after it.
 */
zx_status_t model_connect(void);
void model_disconnect(void);
void model_client_dies(bool handles_first);
void model_expect_connection(void);
#define CALL(function, ...) (model_expect_connection(), function(__VA_ARGS__))

/* Of memory for buffers there are blocks of at most so many bytes. */
void model_fragment(size_t most);
/* A handle of a thread with this koid. */
zx_handle_t model_thread(zx_koid_t koid);
/* The bytes of a VMO, and how many. */
const uint8_t *model_vmo(zx_handle_t vmo, uint64_t *size);
unsigned model_handles(void);

#endif
