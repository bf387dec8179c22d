/* SPDX-License-Identifier: MIT */
/*
 * The clock: combines TSC, TMA, MTC, CYC and CBR packets into an estimate of the TSC.
 *
 * An anchor is a moment whose TSC the trace gives: that of a TSC packet, or that of an MTC.
 * An MTC is sent when the crystal clock (CTC) reaches a multiple of its period; TMA and the
 * ratio of CPUID leaf 15H convert that to a TSC. CYC counts core cycles from the anchor on.
 * How many TSC ticks a cycle takes is measured between two MTCs, or given by CBR. The
 * estimate never runs backwards, and comes with a bound of its error. SDM "TSC", "TMA",
 * "MTC", "CYC" and "CBR Packet", and "Tracking Time in Intel PT".
 */
#ifndef PTAH_EVENT_TIME_H
#define PTAH_EVENT_TIME_H

#include <ptah/event.h>

#include <stdbool.h>
#include <stdint.h>

/* No bound can be given. */
#define EVENT_TIME_UNKNOWN UINT64_MAX

struct event_time {
	/* The processor, as the recording describes it; 0: not known. */
	uint8_t mtc_freq;      /* IA32_RTIT_CTL.MTCFreq; an MTC every 2^mtc_freq crystal ticks */
	uint8_t nominal_ratio; /* maximum non-turbo ratio (MSR_PLATFORM_INFO[15:8]) */
	uint32_t ctc_numerator,
	    ctc_denominator; /* TSC ticks per crystal tick (CPUID.15H EBX/EAX) */

	uint8_t cyc_thresh; /* IA32_RTIT_CTL.CycThresh */
	bool mtc_enabled;   /* IA32_RTIT_CTL.MTCEn; false: unknown */
	bool skl168;	    /* erratum SKL168: cycles and MTCs before a PSB are missing */

	bool known;	    /* there is an anchor */
	bool lost;	    /* packets have been lost since the last TSC */
	bool cyc_seen;	    /* CYC packets are in use */
	bool aligned;	    /* a TMA has given the crystal's count at a TSC */
	bool mtc_seen;	    /* since that TMA */
	bool awaits_tma;    /* the last TSC has had no TMA yet */
	bool anchor_is_mtc; /* an MTC after which the core's frequency has not changed */
	uint8_t last_mtc;   /* payload of the last MTC */
	uint16_t base_ctc;  /* CTC of the last TMA */
	uint64_t now;	    /* the estimate */
	uint64_t error;	    /* bound on |now - truth| at the last of these packets */
	uint64_t anchor;    /* TSC of the last anchor */
	uint64_t tsc;	    /* of the last TSC packet, all 64 bits */
	uint64_t base;	    /* TSC when the crystal's count was base_ctc */
	uint64_t ticks_ctc; /* crystal ticks from base to the last MTC */
	uint64_t cycles;    /* core cycles since the anchor */
	uint64_t elapsed;   /* the same in TSC ticks; `fraction` is in units of 2^-32 */
	uint64_t fraction;
	uint64_t mixed;	 /* error, in TSC ticks, of cycles around changes of the frequency */
	uint64_t change; /* how much the rate has changed since the last CYC */
	uint64_t total_cycles;
	uint64_t rate; /* TSC ticks per cycle, 32 fraction bits; 0: not known */

	/* Computed once, at the first TSC, because they need divisions. */
	uint64_t tick;	  /* TSC ticks of a crystal tick, rounded up: an MTC's precision; or 0 */
	uint64_t longest; /* the longest time between two anchors while MTCs come */
};

/* Resets the clock: the configuration is set, the rest is 0. */
void event_time_configure(struct event_time *t, const struct ptah_event_config *config);

void event_time_tsc(struct event_time *t, uint64_t payload);
void event_time_tma(struct event_time *t, uint16_t ctc, uint16_t fast_counter);
void event_time_mtc(struct event_time *t, uint8_t payload);
void event_time_cyc(struct event_time *t, uint64_t cycles);
void event_time_cbr(struct event_time *t, uint8_t ratio);

/*
 * The bound on |now - truth| for packets before the next timing packet. While CYCs are
 * sent, one precedes every packet before which cycles have passed (above the threshold).
 * Without CYCs any time up to the next MTC may have passed (SDM "MTC Packet": one is sent
 * whenever its range of the crystal's count has changed).
 */
uint64_t event_time_bound(const struct event_time *t);

/*
 * How many cycles of several CYC packets may be added up and given to event_time_cyc() at
 * once: with less than that the clock's state is the same as after the single packets, and
 * the estimate stays below `limit`. 0 when that is not certain for any number.
 */
uint64_t event_time_room(const struct event_time *t, uint64_t limit);

void event_time_psb(struct event_time *t);

/* Packets were lost, perhaps MTCs: no bound is known up to the next TSC. */
void event_time_overflow(struct event_time *t);

#endif
