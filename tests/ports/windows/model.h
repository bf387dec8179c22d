/* SPDX-License-Identifier: MIT */
/* A model of the Windows kernel, as far as port/windows uses it, on the simulated machine. */
#ifndef PTAH_TESTS_PORTS_WINDOWS_MODEL_H
#define PTAH_TESTS_PORTS_WINDOWS_MODEL_H

#include <ntifs.h>

#include <ptah/model/machine.h>

/* Starts the kernel with so many processors. */
void model_start(unsigned cpus, const struct ptah_model_processor *processor);
/* Nothing may be left that was allocated, mapped, referenced or locked; no rule was broken. */
void model_stop(void);
struct ptah_machine *model_machine(void);
/* This processor is in VMX root, where no function of the kernel may be called. */
void model_set_root(bool root);
void model_set_irql(KIRQL irql);
void model_set_process(PEPROCESS process);
PEPROCESS model_process(unsigned n);
/* The next mapping raises an exception, as if the process had no address space left. */
void model_fail_mapping(void);
/* Called before memory is copied: what other code, and other processors, do meanwhile. */
void model_on_copy(void (*work)(void));
/* The memory of a process at an address of a mapping; NULL: nothing is mapped there. */
const uint8_t *model_user(PEPROCESS process, uint64_t address);
unsigned model_mappings(void);

#endif
