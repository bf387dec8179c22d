/* SPDX-License-Identifier: MIT */
/*
 * What a dump of a machine's memory says about its captures, so that the trace of
 * the last moments before a crash can be read out of it: each engine's memory
 * begins with a struct ptah_crash_note, and each capture has a struct
 * ptah_crash_capture. Types only.
 *
 * A reader finds the first by its magic, at the beginning of a page (4096 bytes), or
 * by its physical address, which a driver puts where its system keeps such things
 * (Linux: a line "PTAH_CRASH=ADDRESS" of vmcoreinfo). `physical` is its own address:
 * a copy elsewhere is none. `ptah script DUMP` is such a reader.
 *
 * Nothing here is written when something is traced. What changes all the time is
 * found by where it lies: a number NAME_at is the distance in bytes from the
 * beginning of the struct to the engine's own variable. So the note is as current as
 * the engine, in an NMI as well, and costs nothing.
 *
 * The structs are an ABI: a field keeps its place and its meaning, and new ones come
 * at the end and raise `size`. All addresses are physical; 0 is none.
 */
#ifndef PTAH_CRASH_NOTE_H
#define PTAH_CRASH_NOTE_H

#include <ptah/base.h>

#include <stdint.h>

PTAH_BEGIN_DECLS

#define PTAH_CRASH_MAGIC   "PTAH-CRASH-NOTE" /* with its 0: 16 bytes */
#define PTAH_CRASH_VERSION 1u

struct ptah_crash_note {
	char magic[16];
	uint32_t version;
	uint32_t size; /* sizeof(struct ptah_crash_note) */
	uint64_t physical;
	uint64_t first; /* the newest capture's struct ptah_crash_capture */
};

/* How the bytes of the trace lie in the buffer. */
enum ptah_crash_layout {
	PTAH_CRASH_RING = 0, /* the byte at position p is byte p % buffer of the blocks */
	PTAH_CRASH_REGIONS   /* single-entry ToPA: region n % regions begins with the position at
				`starts` + 8 * (n % regions); the newest n is at fills_at */
};

struct ptah_crash_capture {
	uint64_t next;	   /* the next capture; 0: this is the last */
	uint64_t physical; /* of this struct */
	uint32_t size;	   /* sizeof(struct ptah_crash_capture) */
	uint32_t sequence; /* odd: the buffer was being exchanged, and what follows is not valid */
	uint8_t layout;	   /* enum ptah_crash_layout */
	uint8_t shape;	   /* as in capture_page.h */
	uint8_t nominal_ratio; /* MSR_PLATFORM_INFO[15:8] */
	uint8_t reserved;
	uint16_t family;
	uint8_t model, stepping;
	uint32_t tsc_n, tsc_d, crystal_hz; /* CPUID.15H */

	/* The variables of the engine have 64 bits (u64) unless another size stands here. */
	uint32_t position_at; /* how many bytes have been written, at the last look */
	uint32_t floor_at;    /* bytes before this position were not kept */
	uint32_t fills_at;
	uint32_t ctl_at;     /* IA32_RTIT_CTL without TraceEn */
	uint32_t cr3_at;     /* IA32_RTIT_CR3_MATCH, if CTL.CR3Filter is 1 */
	uint32_t owner_at;   /* the number that the driver gave the capture's owner */
	uint32_t cpu_at;     /* i32: the processor; -1: a thread or guest */
	uint32_t holder_at;  /* i32: the processor that has it now; negative: none */
	uint32_t running_at; /* u8: TraceEn was 1, and more was written than the position says */
	uint32_t policy_at;  /* u8: as in capture_page.h */
	uint32_t blocks_at;  /* u32: how many blocks the buffer consists of; 0: none */
	uint32_t ranges_at;  /* of the first address range's first and last address */
	uint32_t range_step; /* bytes from one range to the next */

	/* The buffer: a list of blocks, which together are `buffer` bytes. */
	uint64_t buffer, region;
	uint32_t regions;
	uint32_t block_step;		    /* bytes from one entry of the list to the next */
	uint32_t block_address, block_size; /* where an entry has the address and the size, u64 */
	uint64_t blocks;		    /* the list */
	uint64_t starts;
};

PTAH_END_DECLS

#endif
