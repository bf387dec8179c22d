/* SPDX-License-Identifier: MIT */
/*
 * Recording the guest from outside, without its help: `ptah record --vm`. The guest sees no Intel
 * PT; the plugin itself programs each virtual CPU's processor from the first instruction on, and
 * sends what it writes to the recorder (channel.h), with the code that runs.
 */
#ifndef PTAH_RECORD_SYSTEM_OUTSIDE_H
#define PTAH_RECORD_SYSTEM_OUTSIDE_H

#include "record/system/code_pages.h"

#include <stdbool.h>
#include <stdint.h>

struct ptah_model_processor;
struct qemu_plugin_tb;
struct system_block;
struct system_vcpu;
struct outside; /* the recording of one virtual CPU */

/* Takes the recorder's setup from its socket. False: a line about what is wrong was printed. */
bool outside_open(int socket);
bool outside_is_open(void);

/* What the processors are. */
const struct ptah_model_processor *outside_processor(void);

/* A virtual CPU begins, at `ip`. Its model is new. */
void outside_begin(struct system_vcpu *v, uint64_t ip);

/* The code of a block that QEMU translates; the caller frees it. */
struct code_block *outside_code(const struct qemu_plugin_tb *tb);

/* The block begins; what ran before has been reported to the model. */
void outside_block(struct system_vcpu *v, const struct system_block *b);

/* The system was reset; the virtual CPU continues at the reset vector. */
void outside_reset(struct system_vcpu *v);

/* The guest's time. */
uint64_t outside_now(const struct system_vcpu *v);

/* QEMU ends: ends all traces. */
void outside_end(void);

#endif
