/* SPDX-License-Identifier: MIT */
/*
 * Time: TSC, TMA, MTC, CYC and CBR packets combined into an estimated TSC.
 *
 * Anchors are moments whose TSC the trace gives: a TSC packet, or an MTC,
 * which is sent when the crystal clock (CTC) reaches a multiple of its period
 * and is placed on the TSC's scale by TMA and the ratio of CPUID leaf 15H. CYC
 * counts core cycles from there; how many TSC ticks a cycle takes is measured
 * between two MTCs, or told by CBR. The estimate never runs backwards, and
 * with it goes a bound of its error. SDM "TSC", "TMA", "MTC", "CYC" and "CBR
 * Packet", and "Tracking Time in Intel PT".
 */
#ifndef PTAH_EVENT_TIME_H
#define PTAH_EVENT_TIME_H

#include <ptah/event.h>

#include <stdbool.h>
#include <stdint.h>

/* No bound can be given. */
#define EVENT_TIME_UNKNOWN UINT64_MAX

struct event_time {
	/* What the recording says of the processor; 0: not known. */
	uint8_t mtc_freq;      /* IA32_RTIT_CTL.MTCFreq; an MTC every 2^mtc_freq crystal ticks */
	uint8_t nominal_ratio; /* maximum non-turbo ratio (MSR_PLATFORM_INFO[15:8]) */
	uint32_t ctc_numerator,
	    ctc_denominator; /* TSC ticks per crystal tick (CPUID.15H EBX/EAX) */

	uint8_t cyc_thresh; /* IA32_RTIT_CTL.CycThresh */
	bool skl168;	    /* erratum SKL168: cycles and MTCs before a PSB are missing */

	bool known;	    /* there is an anchor */
	bool lost;	    /* packets, since the last TSC */
	bool cyc_seen;	    /* CYC packets are in use */
	bool aligned;	    /* TMA has said where the crystal stands */
	bool mtc_seen;	    /* since TMA */
	bool awaits_tma;    /* the last TSC may still get its TMA */
	bool anchor_is_mtc; /* and the core's frequency has not changed since */
	uint8_t last_mtc;   /* payload */
	uint16_t base_ctc;  /* of TMA */
	uint64_t now;	    /* the estimate */
	uint64_t error;	    /* bound on |now - truth| at the last of these packets */
	uint64_t anchor;    /* TSC of the last anchor */
	uint64_t tsc;	    /* of the last TSC packet, all 64 bits */
	uint64_t base;	    /* TSC when the crystal stood at base_ctc */
	uint64_t ticks_ctc; /* crystal ticks from base to the last MTC */
	uint64_t cycles;    /* core cycles since the anchor */
	uint64_t elapsed;   /* the same in TSC ticks, and a fraction in 2^-32 */
	uint64_t fraction;
	uint64_t mixed;	 /* TSC ticks by which cycles around changes of the frequency may be off */
	uint64_t change; /* of the rate since the last CYC */
	uint64_t total_cycles;
	uint64_t rate; /* TSC ticks per cycle, 32 fraction bits; 0: not known */

	/* Of the configuration, from the first TSC on: they take divisions. */
	uint64_t tick;	  /* one crystal tick, rounded up: what an MTC's place is sure to; or 0 */
	uint64_t longest; /* the longest time between two anchors while MTCs come */
};

/* Begins anew: the configuration is set, the rest is 0. */
void event_time_configure(struct event_time *t, const struct ptah_event_config *config);

void event_time_tsc(struct event_time *t, uint64_t payload);
void event_time_tma(struct event_time *t, uint16_t ctc, uint16_t fast_counter);
void event_time_mtc(struct event_time *t, uint8_t payload);
void event_time_cyc(struct event_time *t, uint64_t cycles);
void event_time_cbr(struct event_time *t, uint8_t ratio);

/*
 * Bound on |now - truth| for what comes before the next of these packets. With
 * CYC in use one precedes everything that has taken cycles (above the
 * threshold); without, anything may have passed up to the next MTC (SDM "MTC
 * Packet": one is sent whenever its range of the crystal's count has changed).
 */
uint64_t event_time_bound(const struct event_time *t);

/*
 * How many cycles may be told by CYC packets so that the last of them alone,
 * with all the cycles, would leave the same behind, and the estimate stays
 * below `limit`. What is not sure is 0.
 */
uint64_t event_time_room(const struct event_time *t, uint64_t limit);

void event_time_psb(struct event_time *t);

/* Packets were lost, MTCs among them; their bound is unknown up to the next TSC. */
void event_time_overflow(struct event_time *t);

#endif
