/* SPDX-License-Identifier: MIT */
/*
 * The registers of Intel PT: numbers and fields, as the SDM writes them.
 *
 * Constants alone, for drivers and for the simulated processor. The fields of
 * a register begin with its name. Source: SDM volume 3, "Intel Processor
 * Trace", its sections "IA32_RTIT_CTL MSR" to "IA32_RTIT_ADDRn MSRs", "Table of
 * Physical Addresses (ToPA)", "Enumeration of Intel PT", and volume 4 for the
 * others.
 */
#ifndef PTAH_RTIT_H
#define PTAH_RTIT_H

#include <stdint.h>

/* MSRs */
#define PTAH_IA32_TIME_STAMP_COUNTER	   0x10u
#define PTAH_IA32_RTIT_OUTPUT_BASE	   0x560u
#define PTAH_IA32_RTIT_OUTPUT_MASK_PTRS	   0x561u
#define PTAH_IA32_RTIT_CTL		   0x570u
#define PTAH_IA32_RTIT_STATUS		   0x571u
#define PTAH_IA32_RTIT_CR3_MATCH	   0x572u
#define PTAH_IA32_RTIT_ADDR0_A		   0x580u /* ADDRn_A: 0x580 + 2n, ADDRn_B: 0x581 + 2n */
#define PTAH_IA32_RTIT_ADDR(n)		   (PTAH_IA32_RTIT_ADDR0_A + 2u * (n))
#define PTAH_IA32_PERF_GLOBAL_STATUS	   0x38eu
#define PTAH_IA32_PERF_GLOBAL_STATUS_RESET 0x390u
#define PTAH_IA32_PERF_GLOBAL_STATUS_SET   0x391u
#define PTAH_IA32_VMX_MISC		   0x485u
#define PTAH_IA32_XSS			   0xda0u
#define PTAH_IA32_DEBUGCTL		   0x1d9u
#define PTAH_MSR_PLATFORM_INFO		   0xceu

/* IA32_RTIT_CTL */
#define PTAH_RTIT_CTL_TRACE_EN	    (UINT64_C(1) << 0)
#define PTAH_RTIT_CTL_CYC_EN	    (UINT64_C(1) << 1)
#define PTAH_RTIT_CTL_OS	    (UINT64_C(1) << 2)
#define PTAH_RTIT_CTL_USER	    (UINT64_C(1) << 3)
#define PTAH_RTIT_CTL_PWR_EVT_EN    (UINT64_C(1) << 4)
#define PTAH_RTIT_CTL_FUP_ON_PTW    (UINT64_C(1) << 5)
#define PTAH_RTIT_CTL_FABRIC_EN	    (UINT64_C(1) << 6)
#define PTAH_RTIT_CTL_CR3_FILTER    (UINT64_C(1) << 7)
#define PTAH_RTIT_CTL_TOPA	    (UINT64_C(1) << 8)
#define PTAH_RTIT_CTL_MTC_EN	    (UINT64_C(1) << 9)
#define PTAH_RTIT_CTL_TSC_EN	    (UINT64_C(1) << 10)
#define PTAH_RTIT_CTL_DIS_RETC	    (UINT64_C(1) << 11)
#define PTAH_RTIT_CTL_PTW_EN	    (UINT64_C(1) << 12)
#define PTAH_RTIT_CTL_BRANCH_EN	    (UINT64_C(1) << 13)
#define PTAH_RTIT_CTL_MTC_FREQ	    14 /* the lowest bit of a field of 4 */
#define PTAH_RTIT_CTL_CYC_THRESH    19 /* of 4 */
#define PTAH_RTIT_CTL_PSB_FREQ	    24 /* of 4 */
#define PTAH_RTIT_CTL_EVENT_EN	    (UINT64_C(1) << 31)
#define PTAH_RTIT_CTL_ADDR_CFG(n)   (32 + 4 * (n)) /* of 4: enum ptah_range_mode */
#define PTAH_RTIT_CTL_DIS_TNT	    (UINT64_C(1) << 55)
#define PTAH_RTIT_CTL_INJECT_PSBPMI (UINT64_C(1) << 56) /* InjectPsbPmiOnEnable */

/* IA32_RTIT_STATUS */
#define PTAH_RTIT_STATUS_FILTER_EN	(UINT64_C(1) << 0)
#define PTAH_RTIT_STATUS_CONTEXT_EN	(UINT64_C(1) << 1)
#define PTAH_RTIT_STATUS_TRIGGER_EN	(UINT64_C(1) << 2)
#define PTAH_RTIT_STATUS_ERROR		(UINT64_C(1) << 4)
#define PTAH_RTIT_STATUS_STOPPED	(UINT64_C(1) << 5)
#define PTAH_RTIT_STATUS_PEND_PSB	(UINT64_C(1) << 6)
#define PTAH_RTIT_STATUS_PEND_TOPA_PMI	(UINT64_C(1) << 7)
#define PTAH_RTIT_STATUS_PACKET_BYTECNT 32 /* of 17 */
#define PTAH_RTIT_STATUS_BYTECNT_MASK	(UINT64_C(0x1ffff) << 32)

/* IA32_RTIT_OUTPUT_MASK_PTRS, when ToPA is in use: its low 7 bits read as ones. */
#define PTAH_RTIT_MASK_PTRS_INDEX  7  /* MaskOrTableOffset: the entry, 25 bits */
#define PTAH_RTIT_MASK_PTRS_OFFSET 32 /* OutputOffset, 32 bits */

/* ToPA entries: 8 bytes each */
#define PTAH_TOPA_END		(UINT64_C(1) << 0)
#define PTAH_TOPA_INT		(UINT64_C(1) << 2)
#define PTAH_TOPA_STOP		(UINT64_C(1) << 4)
#define PTAH_TOPA_SIZE		6 /* of 4: 4 KB << n */
#define PTAH_TOPA_SIZE_MAX	15
#define PTAH_TOPA_BASE		12  /* physical address bits 12 to MAXPHYADDR - 1, in place */
#define PTAH_TOPA_TABLE_ENTRIES 512 /* of a table of one page */

/* IA32_PERF_GLOBAL_STATUS, _RESET, _SET */
#define PTAH_PERF_GLOBAL_TRACE_TOPA_PMI (UINT64_C(1) << 55)

/* IA32_VMX_MISC: PT may be used in VMX operation. */
#define PTAH_VMX_MISC_PT (UINT64_C(1) << 14)

/* XSAVES: the state component of Intel PT, nine MSRs */
#define PTAH_XSTATE_PT	     (UINT64_C(1) << 8)
#define PTAH_XSTATE_PT_BYTES 72u

#endif
