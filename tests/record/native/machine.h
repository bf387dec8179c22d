/* SPDX-License-Identifier: MIT */
/*
 * Runs code with all registers of the processor loaded from `machine`, and stores there what they
 * are afterwards, also where the code faulted. The code has to end with a jump to machine_back.
 */
#ifndef PTAH_TESTS_RECORD_NATIVE_MACHINE_H
#define PTAH_TESTS_RECORD_NATIVE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_XSAVE 4096

struct machine {
	uint64_t general[16]; /* 0 */
	uint64_t flags;	      /* 128 */
	uint64_t fs;	      /* 136: base */
	uint64_t start;	      /* 144: where to begin */
	uint64_t host_rsp;    /* 152 */
	uint64_t host_fs;     /* 160 */
	uint64_t xsave_mask;  /* 168 */
	int unused;	      /* 176 */
	int running;	      /* 180: faults are those of the code that is run */
	/* The fault, if there was one: */
	int signal, code;  /* 184 */
	uint64_t fault_fs; /* 192 */
	uint64_t fault_address, fault_rip;
	/* The rest is at offsets that machine.c's assembly knows. */
	uint8_t xsave[MACHINE_XSAVE] __attribute__((aligned(64)));	/* 256 */
	uint8_t host_xsave[MACHINE_XSAVE] __attribute__((aligned(64))); /* 4352 */
};

extern struct machine machine;
extern const uint8_t machine_back[];

/* The length of the part of xsave that is used. 0: this processor or kernel cannot do it. */
size_t machine_init(void);
/* Installs the handlers for faults. cmocka has its own in each test: so to be called there. */
bool machine_catch(void);
void machine_run(void);

#endif
