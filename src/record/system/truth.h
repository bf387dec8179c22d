/* SPDX-License-Identifier: MIT */
/*
 * Counts what a trace of this processor should contain, from what was executed and not from the
 * packets: tests compare a decode with it. What runs while PacketEn is 1 is counted, for the
 * processor as a whole and for each pair of an address space (CR3) and a privilege level. The
 * guest reads the counts, and has them written to the file of the plugin's argument truth=FILE, by
 * registers that no processor has (docs/virtual-pt.md). Without QEMU, so that it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_TRUTH_H
#define PTAH_RECORD_SYSTEM_TRUTH_H

#include "base/path_hash.h"
#include "record/system/registers.h"

#include <stdio.h>

/* The registers. All numbers are multiples of 8, so that dd can reach them in /dev/cpu/N/msr. */
enum {
	SYSTEM_MSR_TRUTH = 0x50740000,
	/*
	 * Written: a number of the caller's choice. The counts of all processors are written to
	 * the file, marked with it, and are 0 from then on. Read: SYSTEM_TRUTH_IDENTITY.
	 */
	SYSTEM_MSR_REPORT = SYSTEM_MSR_TRUTH,
	/* Written: anything. The counts of this processor are 0 from then on. Read: 0. */
	SYSTEM_MSR_RESET = SYSTEM_MSR_TRUTH + 8,
	/* Which counts the registers below contain: a CR3, whose low 12 bits do not matter, or all
	 * ones for all of them. Initially all ones. */
	SYSTEM_MSR_SPACE = SYSTEM_MSR_TRUTH + 16,
	/* And the privilege: bit 0 for the kernel, bit 1 for user code. Initially 3. */
	SYSTEM_MSR_LEVEL = SYSTEM_MSR_TRUTH + 24,
	/* Read: counts of this processor, in the order of enum system_count. */
	SYSTEM_MSR_COUNT = SYSTEM_MSR_TRUTH + 64,
};

#define SYSTEM_TRUTH_IDENTITY UINT64_C(0x0000000168617450) /* version 1, "Ptah" */

/* X(enumerator, word in the file) */
#define SYSTEM_COUNTS(X)                                                                           \
	X(INSNS, "insns")                                                                          \
	X(TAKEN, "taken") /* conditional branches */                                               \
	X(NOT_TAKEN, "not_taken")                                                                  \
	X(JUMPS, "jumps") /* direct near jumps */                                                  \
	X(CALLS, "calls") /* direct near calls */                                                  \
	X(JUMPS_IND, "jumps_ind")                                                                  \
	X(CALLS_IND, "calls_ind")                                                                  \
	X(RETURNS, "returns")                                                                      \
	X(FAR, "far") /* far transfers, SYSCALL and IRET among them */                             \
	X(INTERRUPTS, "interrupts")                                                                \
	X(EXCEPTIONS, "exceptions") /* and INT n */

/*
 * What follows them in the registers: the path hash (docs/path-hash.md); of a processor as a whole,
 * whatever was selected: bytes of trace that were written to memory and that were dropped, PMIs,
 * and places where the plugin could not follow the guest, after which the counts are not exact.
 */
enum system_count {
#define X(name, word) SYSTEM_##name,
	SYSTEM_COUNTS(X)
#undef X
	SYSTEM_COUNT_MAX,
	SYSTEM_HASH = SYSTEM_COUNT_MAX,
	SYSTEM_BYTES,
	SYSTEM_DROPPED,
	SYSTEM_PMIS,
	SYSTEM_LOST,
	SYSTEM_VALUE_MAX
};

struct system_path {
	uint64_t cr3;
	bool used, user;
	uint64_t counts[SYSTEM_COUNT_MAX];
	struct path_hash hash;
};

/* How many pairs are told apart. What comes after them is counted as one more, "other". */
#define SYSTEM_PATHS 4096

struct system_truth {
	struct system_path all;
	struct system_path *paths; /* SYSTEM_PATHS, by a hash of their keys, and "other" */
	struct system_path *last;  /* the one that was needed last */
	unsigned used;
	uint64_t pmis, lost;
	uint64_t bytes, dropped; /* of the model, at the last reset */
	uint64_t space, level;	 /* what the guest has selected */
};

/* False: no memory. */
bool system_truth_init(struct system_truth *t);
void system_truth_reset(struct system_truth *t, struct ptah_model *m);

/*
 * The n instructions in [start, end) have run. What the model knows of enables, CR3 and privilege
 * is what applied to them; `kind` (enum insn_kind) is that of the last one, and `taken` says
 * whether it branched.
 */
void system_truth_run(struct system_truth *t, const struct ptah_model *m, uint64_t start,
		      uint64_t end, unsigned n, unsigned kind, bool taken);
/* An interrupt or exception: enum ptah_model_transfer_kind. */
void system_truth_event(struct system_truth *t, const struct ptah_model *m, unsigned kind);

enum system_access system_truth_rdmsr(const struct system_truth *t, struct ptah_model *m,
				      uint32_t msr, uint64_t *value);
/* All but SYSTEM_MSR_REPORT. */
enum system_access system_truth_wrmsr(struct system_truth *t, struct ptah_model *m, uint32_t msr,
				      uint64_t value);

/* Appends the lines of one processor. */
void system_truth_print(FILE *file, uint64_t tag, unsigned cpu, const struct system_truth *t,
			struct ptah_model *m);

#endif
