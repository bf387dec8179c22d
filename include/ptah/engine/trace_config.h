/* SPDX-License-Identifier: MIT */
/*
 * What is traced: the options of IA32_RTIT_CTL and the address ranges, as the
 * capture engine, the recorders and the decoders know them. Types only.
 * Freestanding.
 *
 * Source: SDM volume 3, "IA32_RTIT_CTL MSR".
 */
#ifndef PTAH_TRACE_CONFIG_H
#define PTAH_TRACE_CONFIG_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

/* What an address range does: the values of IA32_RTIT_CTL.ADDRn_CFG. */
enum ptah_range_mode {
	PTAH_RANGE_OFF = 0,
	PTAH_RANGE_FILTER = 1, /* only code in ranges with this mode is traced */
	PTAH_RANGE_STOP = 2,   /* tracing stops when execution enters the range */
};

/* Address ranges that the architecture has room for (IA32_RTIT_ADDRn_A and _B). */
#define PTAH_RANGES 4u

struct ptah_range {
	uint64_t first, last; /* both inclusive, linear addresses; not read when the mode is OFF */
	uint8_t mode;	      /* enum ptah_range_mode */
};

/*
 * One option of IA32_RTIT_CTL each, by the name that perf or the SDM has for it.
 *
 * The encodings mtc_period, cyc_threshold and psb_period are checked by the
 * processor even when the packets are off. Nearly every processor accepts 0, and
 * ptah_trace_config_default() (caps.h) chooses values that are valid.
 *
 * CR3 filtering and page-table isolation: where a process has one CR3 for user
 * code and another for the kernel (Linux PTI: bit 12; Windows KVA shadow), one
 * value matches one of them, and nothing is traced under the other although os
 * and user are both set. That is legal, and so it is not refused.
 */
struct ptah_trace_config {
	size_t size; /* sizeof(struct ptah_trace_config) */
	bool os, user;
	bool branch; /* BranchEn */
	bool tsc, mtc, cyc;
	uint8_t mtc_period;	/* MTCFreq: an MTC every 2^n crystal ticks */
	uint8_t cyc_threshold;	/* CycThresh: 0, or 2^(n - 1) cycles */
	uint8_t psb_period;	/* PSBFreq: a PSB every 2^(n + 11) bytes */
	bool no_retcomp;	/* DisRETC: no return compression */
	bool ptwrite;		/* PTWEn */
	bool fup_on_ptwrite;	/* FUPonPTW */
	bool power_events;	/* PwrEvtEn */
	bool event_trace;	/* EventEn */
	bool no_tnt;		/* DisTNT */
	bool psb_pmi_on_enable; /* InjectPsbPmiOnEnable */
	bool cr3_filter;
	/*
	 * Read when cr3_filter is set. Without its PCID: bits 4:0 must be 0, and 11:5
	 * are compared in PAE paging only.
	 */
	uint64_t cr3;
	struct ptah_range ranges[PTAH_RANGES];
	/* A PSB at the beginning of every slice: PacketByteCnt is cleared at each start. */
	bool force_psb;
};

PTAH_END_DECLS

#endif
