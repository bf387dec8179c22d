/* SPDX-License-Identifier: MIT */
/* The clock: see time.h for what it does. */
#include "event/time.h"

#include <ptah/base.h>

/*
 * The assumed error of a cycle's length is one part in RATE_DOUBT. CBR is a whole number of
 * bus clocks and comes some time after the frequency has changed; a measured rate is an
 * average over one MTC period. An eighth covers both on the known processors.
 */
#define RATE_DOUBT 8

#define TSC_BITS 56

/* Converts crystal ticks to TSC ticks. */
static uint64_t to_tsc(const struct event_time *t, uint64_t ticks)
{
	uint64_t whole = ticks / t->ctc_denominator, rest = ticks % t->ctc_denominator;

	return whole * t->ctc_numerator + rest * t->ctc_numerator / t->ctc_denominator;
}

static bool has_crystal(const struct event_time *t)
{
	return t->ctc_numerator && t->ctc_denominator;
}

void event_time_configure(struct event_time *t, const struct ptah_event_config *config)
{
	*t = (struct event_time){
	    .mtc_freq = config->trace.mtc_period,
	    .mtc_enabled = config->trace.mtc,
	    .nominal_ratio = config->nominal_ratio,
	    .ctc_numerator = config->tsc_n,
	    .ctc_denominator = config->tsc_d,
	    .cyc_thresh = config->trace.cyc_threshold,
	    .skl168 = config->errata & 1u << PTAH_ERRATUM_SKL168,
	    .error = EVENT_TIME_UNKNOWN,
	};
}

/* Computes the constants. They are not needed before the first anchor. */
static void set_constants(struct event_time *t)
{
	t->tick = has_crystal(t) ? t->ctc_numerator / t->ctc_denominator + 1 : 0;
	t->longest = EVENT_TIME_UNKNOWN;
	if (has_crystal(t) && t->mtc_freq <= 15)
		t->longest = to_tsc(t, UINT64_C(1) << t->mtc_freq) + 2 * t->tick;
}

/* The longest time between two anchors while MTCs come. */
static uint64_t period(const struct event_time *t)
{
	/* A TMA may come without MTCs, unless they are known to be enabled. */
	return t->aligned && (t->mtc_seen || t->mtc_enabled) ? t->longest : EVENT_TIME_UNKNOWN;
}

/* SDM "CYC Packet": no CYC is sent while fewer cycles than this have passed since the last. */
static uint64_t untold_cycles(const struct event_time *t)
{
	unsigned thresh = t->cyc_thresh & 15;

	return thresh ? UINT64_C(1) << (thresh - 1) : 1;
}

/* That many cycles as TSC ticks, rounded up. */
static uint64_t untold_ticks(const struct event_time *t, uint64_t rate)
{
	return (untold_cycles(t) * (rate >> 16) >> 16) + 1;
}

/* Cycles as TSC ticks. */
static uint64_t at_rate(uint64_t cycles, uint64_t rate)
{
	return (cycles >> 32) * rate + (cycles & UINT32_MAX) * (rate >> 32) +
	       ((cycles & UINT32_MAX) * (rate & UINT32_MAX) >> 32);
}

/* After an overflow no bound is known: so many MTCs or cycles may be missing that a counter
 * wrapped. */
static void set_error(struct event_time *t, uint64_t error)
{
	t->error = t->lost ? EVENT_TIME_UNKNOWN : error;
}

static void advance(struct event_time *t, uint64_t to)
{
	if (to > t->now)
		t->now = to;
}

static void set_anchor(struct event_time *t, uint64_t tsc, uint64_t sure_to)
{
	t->anchor = tsc;
	t->cycles = t->elapsed = t->fraction = t->mixed = 0;
	t->known = true;
	advance(t, tsc);
	/* An estimate that is ahead of the anchor stays where it is. */
	set_error(t, t->now - tsc + sure_to);
}

/* The payload, with the upper byte that makes it nearest to the last TSC. */
static uint64_t extend(uint64_t last, uint64_t payload)
{
	const uint64_t wrap = UINT64_C(1) << TSC_BITS;
	uint64_t tsc = (last & ~(wrap - 1)) | payload;

	if (tsc + wrap / 2 < last)
		tsc += wrap;
	else if (tsc > last && tsc - last > wrap / 2 && tsc >= wrap)
		tsc -= wrap;
	return tsc;
}

void event_time_tsc(struct event_time *t, uint64_t payload)
{
	t->tsc = extend(t->tsc, payload);
	t->awaits_tma = true;
	t->anchor_is_mtc = t->lost = false;
	set_constants(t);
	set_anchor(t, t->tsc, 1);
}

/* At TSC - FC the crystal's count became CTC. */
void event_time_tma(struct event_time *t, uint16_t ctc, uint16_t fast_counter)
{
	if (!t->awaits_tma || !has_crystal(t) || fast_counter > t->tsc)
		return;
	t->awaits_tma = false;
	t->aligned = true;
	t->mtc_seen = false;
	t->base = t->tsc - fast_counter;
	t->base_ctc = ctc;
	t->ticks_ctc = 0;
}

/*
 * MTC periods since the last MTC, or since the TMA. An MTC's payload is
 * CTC[MTCFreq+7:MTCFreq]. Of the TMA's CTC only bits 15:0 are known, so the first MTC is
 * compared in the bits that both have. Equal payloads are a whole round of the counter
 * apart, because an MTC is only sent when its count has changed.
 */
static uint64_t mtc_periods(const struct event_time *t, uint8_t payload)
{
	unsigned bits = t->mtc_seen || t->mtc_freq <= 8 ? 8 : 16u - t->mtc_freq;
	unsigned before = t->mtc_seen ? t->last_mtc : (unsigned)t->base_ctc >> t->mtc_freq;
	unsigned round = 1u << bits, periods = (payload - before) & (round - 1);

	return periods ? periods : round;
}

void event_time_mtc(struct event_time *t, uint8_t payload)
{
	uint64_t periods, tsc, last = t->anchor, cycles = t->cycles;
	bool next;

	if (!t->aligned || t->mtc_freq > 15)
		return;
	periods = mtc_periods(t, payload);
	next = periods == 1;
	periods <<= t->mtc_freq;
	if (!t->mtc_seen) /* the TMA was somewhere inside a period */
		periods -= t->base_ctc & ((1u << t->mtc_freq) - 1);
	t->ticks_ctc += periods;
	t->last_mtc = payload;
	t->mtc_seen = true;
	tsc = t->base + to_tsc(t, t->ticks_ctc);
	/* Up to a threshold of cycles may be counted in the wrong period, so the period must have
	 * many more. Where MTCs are missing or damaged, the core may not have run all the time. */
	if (t->anchor_is_mtc && next && cycles &&
	    (!t->cyc_thresh || cycles >= 16 * untold_cycles(t)) && tsc > last &&
	    tsc - last < UINT64_C(1) << 31)
		t->rate = ((tsc - last) << 32) / cycles;
	t->anchor_is_mtc = true;
	set_anchor(t, tsc, 2 * t->tick);
}

/* Adds cycles at the current rate. The fraction is kept, so that rounding errors do not add up. */
static void add_elapsed(struct event_time *t, uint64_t cycles)
{
	uint64_t low = (cycles & UINT32_MAX) * (t->rate & UINT32_MAX);

	t->fraction += low & UINT32_MAX;
	t->elapsed += (low >> 32) + (cycles & UINT32_MAX) * (t->rate >> 32) +
		      (cycles >> 32) * t->rate + (t->fraction >> 32);
	t->fraction &= UINT32_MAX;
}

void event_time_cyc(struct event_time *t, uint64_t cycles)
{
	uint64_t longest = period(t), ticks, doubt;

	t->cycles += cycles;
	t->total_cycles += cycles;
	t->cyc_seen = true;
	if (!t->known)
		return;
	if (!t->rate) {
		set_error(t, longest);
		return;
	}
	add_elapsed(t, cycles);
	t->mixed += at_rate(cycles, t->change);
	t->change = 0;
	ticks = t->elapsed;
	doubt = ticks / RATE_DOUBT + t->mixed + (t->cyc_thresh ? untold_ticks(t, t->rate) : 0);
	doubt += 2 * t->tick + 2;
	/* The estimate stops where the next MTC should have come, unless there are so many cycles
	 * that the MTC must have been lost. */
	if (ticks > longest && ticks - longest <= doubt)
		ticks = longest;
	advance(t, t->anchor + ticks);
	doubt += t->elapsed - ticks;
	/* An earlier estimate may be ahead; the difference is added to the bound. */
	doubt += t->now - (t->anchor + ticks);
	set_error(t, doubt);
}

/*
 * Between two anchors, at one rate, the clock's state is a function of the cycles since the
 * anchor, and the estimate grows with them. So CYC packets may be added up first. Near the
 * range of 64 bits that does not hold, and the answer is 0.
 */
uint64_t event_time_room(const struct event_time *t, uint64_t limit)
{
	const uint64_t most = UINT64_C(1) << 20, sane = UINT64_C(1) << 62;
	const uint64_t at = t->anchor + t->elapsed;
	uint64_t room = most;

	if (t->change) /* the next CYC must come alone: the change of rate applies to it */
		return 0;
	if (!t->known || !t->rate) /* the estimate does not move */
		return most;
	if (t->anchor >= sane || t->elapsed >= sane || t->mixed >= sane || t->rate >> 40)
		return 0;
	if (limit != UINT64_MAX)
		room = limit > at + 1 ? (limit - at - 1) / ((t->rate >> 32) + 1) : 0;
	return room < most ? room : most;
}

void event_time_cbr(struct event_time *t, uint8_t ratio)
{
	uint64_t before = t->rate, faster, change;

	if (!ratio || !t->nominal_ratio)
		return;
	/* The TSC runs at the nominal ratio, the core at this one. */
	t->rate = ((uint64_t)t->nominal_ratio << 32) / ratio;
	faster = before > t->rate ? before : t->rate;
	/* Some of the cycles that the next CYC will report ran at the ratio before. */
	if (t->cyc_seen && before) {
		change = faster - (before < t->rate ? before : t->rate);
		t->change = change > t->change ? change : t->change;
		t->mixed += untold_ticks(t, faster);
	}
	t->anchor_is_mtc = false; /* the current MTC period has two frequencies */
}

uint64_t event_time_bound(const struct event_time *t)
{
	uint64_t longest = period(t), untold;

	if (!t->known || t->error == EVENT_TIME_UNKNOWN)
		return EVENT_TIME_UNKNOWN;
	if (t->cyc_seen && t->rate) {
		untold = untold_ticks(t, t->rate);
		longest = untold + untold / RATE_DOUBT + t->mixed;
	}
	return longest == EVENT_TIME_UNKNOWN ? longest : t->error + longest;
}

void event_time_psb(struct event_time *t)
{
	if (t->skl168)
		t->anchor_is_mtc = false;
}

/*
 * The estimate continues during an overflow: the crystal runs, and the CYC before the OVF
 * gives its duration (SDM "Internal Buffer Overflow"). But its error is unknown up to the
 * next TSC.
 */
void event_time_overflow(struct event_time *t)
{
	t->lost = true;
	t->awaits_tma = t->anchor_is_mtc = false;
	t->error = EVENT_TIME_UNKNOWN;
}
