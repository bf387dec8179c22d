/* SPDX-License-Identifier: MIT */
/*
 * What a decoder of a thread's trace must know of the processor: the struct of DynamoRIO's
 * drpttracer_shared.h, with the same members and layout, for programs that were written for it.
 */
#ifndef _DRPTTRACER_SHARED_H_
#define _DRPTTRACER_SHARED_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 18 bytes without padding, since DynamoRIO writes them to files as they are. */
#pragma pack(push, 1)
typedef struct _pt_metadata_t {
	uint16_t cpu_family; /* as CPUID displays it: family and extended family added up */
	uint8_t cpu_model;   /* extended model << 4 | model */
	uint8_t cpu_stepping;
	/* Nanoseconds of perf's clock = time_zero + (TSC * time_mult >> time_shift). */
	uint16_t time_shift;
	uint32_t time_mult; /* 0: the kernel does not report its clock */
	uint64_t time_zero;
} pt_metadata_t;
#pragma pack(pop)

#ifdef __cplusplus
}
#endif

#endif
