/* SPDX-License-Identifier: MIT */
/*
 * Random traces as packet text, well-formed by the SDM: groups of packets that the
 * current state allows. As text, so that a person can read a trace that fails.
 */
#ifndef PTAH_TESTS_EVENT_RANDOM_STORY_H
#define PTAH_TESTS_EVENT_RANDOM_STORY_H

#include "random.h"
#include "story.h"

#include <inttypes.h>

struct random_story {
	uint64_t seed;
	bool on, in_tx;
	unsigned mode; /* 16, 32, 64 */
	unsigned ratio;
	char text[16384];
	size_t length;
};

static inline unsigned story_random(struct random_story *r, unsigned n)
{
	return (unsigned)(random_next(&r->seed) >> 11) % n;
}

/* An address of user or kernel code. */
static inline uint64_t story_ip(struct random_story *r)
{
	uint64_t ip = 0x401000 + story_random(r, 1 << 20);

	return story_random(r, 3) ? ip : ip | UINT64_C(0xffffffff80000000);
}

__attribute__((format(printf, 2, 3))) static inline void story_say(struct random_story *r,
								   const char *format, ...)
{
	va_list list;

	va_start(list, format);
	r->length +=
	    (size_t)vsnprintf(r->text + r->length, sizeof(r->text) - r->length, format, list);
	va_end(list);
	assert_true(r->length < sizeof(r->text));
}

static inline void story_say_ip(struct random_story *r, const char *packet)
{
	story_say(r, "%s 0x%" PRIx64 "; ", packet, story_ip(r));
}

static inline void story_say_paging(struct random_story *r)
{
	story_say(r, "PIP cr3 0x%x%s; ", (1 + story_random(r, 1000)) << 12,
		  story_random(r, 2) ? " nr" : "");
}

static inline void story_say_vmcs(struct random_story *r)
{
	story_say(r, "VMCS base 0x%x; ", (1 + story_random(r, 1000)) << 12);
}

/* MODE.Exec only where something changes: libipt reports every packet, Ptah the changes. */
static inline void story_say_mode(struct random_story *r)
{
	r->mode = r->mode == 64 ? 32 : 64;
	story_say(r, "MODE.Exec %u-bit; ", r->mode);
}

/* State that changes with a branch. */
static inline void story_say_changes(struct random_story *r)
{
	if (!story_random(r, 4))
		story_say_paging(r);
	if (!story_random(r, 4))
		story_say_vmcs(r);
	if (!story_random(r, 4))
		story_say_mode(r);
}

static inline void story_say_psb(struct random_story *r)
{
	story_say(r, "PSB; MODE.Exec %u-bit; MODE.TSX %s; ", r->mode,
		  r->in_tx ? "begin" : "commit");
	if (story_random(r, 2)) {
		story_say_vmcs(r);
		story_say_paging(r);
	}
	if (r->on)
		story_say_ip(r, "FUP");
	story_say(r, "PSBEND; ");
}

/* Packets that come whether tracing is on or off. */
static inline void story_say_anywhere(struct random_story *r)
{
	switch (story_random(r, 10)) {
	case 0:
		story_say_psb(r);
		break;
	case 1:
		story_say(r, "PTW 0x%x; ", story_random(r, 1 << 30));
		break;
	case 2:
		story_say(r, "MNT 0x%x; ", story_random(r, 1 << 30));
		break;
	case 3:
		story_say(r, "CBR ratio %u; ", r->ratio = 1 + r->ratio % 200);
		break;
	case 4:
		story_say(r, "PAD; TSC 0x%x; CYC %u; ", story_random(r, 1 << 30),
			  story_random(r, 5000));
		break;
	case 5:
		story_say(r, "EXSTOP; ");
		break;
	case 6:
		story_say(r, "PWRX last %u deepest %u%s%s; ", story_random(r, 16),
			  story_random(r, 16), story_random(r, 2) ? " store" : "",
			  story_random(r, 2) ? " interrupt" : "");
		break;
	case 7:
		story_say_paging(r);
		break;
	case 8:
		story_say_vmcs(r);
		break;
	default:
		story_say(r, "PWRE state %u sub %u; ", story_random(r, 16), story_random(r, 16));
		break;
	}
}

static inline void story_say_on(struct random_story *r)
{
	static const char *const bits[] = {"T", "N", "TTNTN", "NNNNNN", "TNTNTNTNTNTNTNTNTNTN"};

	switch (story_random(r, 13)) {
	case 0:
		story_say_ip(r, "TIP");
		break;
	case 1:
		story_say_mode(r);
		story_say_ip(r, "TIP");
		break;
	case 2:
		story_say_ip(r, "FUP");
		story_say_changes(r);
		story_say_ip(r, "TIP");
		break;
	case 3:
		story_say_ip(r, "FUP");
		story_say_changes(r);
		if (story_random(r, 2))
			story_say_ip(r, "TIP.PGD");
		else
			story_say(r, "TIP.PGD; ");
		r->on = false;
		break;
	case 4:
		story_say_ip(r, "TIP.PGD");
		r->on = false;
		break;
	case 5:
		story_say(r, "MODE.TSX %s; ", r->in_tx ? "commit" : "begin");
		r->in_tx = !r->in_tx;
		story_say_ip(r, "FUP");
		break;
	case 6:
		story_say(r, "MODE.TSX abort; ");
		r->in_tx = false;
		story_say_ip(r, "FUP");
		story_say_ip(r, "TIP");
		break;
	case 7:
		if (story_random(r, 3)) {
			story_say(r, "OVF; FUP 6: %016" PRIx64 "; ", story_ip(r));
			break;
		}
		story_say(r, "OVF; ");
		r->on = false;
		story_say_psb(r);
		break;
	case 8:
		story_say(r, "PTW 0x%x ip; ", story_random(r, 1 << 30));
		story_say_ip(r, "FUP");
		break;
	case 9:
		story_say(r, "MWAIT hints %u ext %u; EXSTOP ip; ", story_random(r, 256),
			  story_random(r, 4));
		story_say_ip(r, "FUP");
		break;
	case 10:
		story_say(r, "TIP.PGD; TraceStop; ");
		r->on = false;
		break;
	default:
		story_say(r, "TNT %s; ", bits[story_random(r, 5)]);
		break;
	}
}

static inline void story_say_off(struct random_story *r)
{
	switch (story_random(r, 4)) {
	case 0:
		story_say(r, "OVF; TIP.PGE 6: %016" PRIx64 "; ", story_ip(r));
		break;
	case 1:
		story_say_mode(r);
		story_say_ip(r, "TIP.PGE");
		break;
	default:
		story_say_ip(r, "TIP.PGE");
		break;
	}
	r->on = true;
}

static inline void story_begin(struct random_story *r, uint64_t seed)
{
	*r = (struct random_story){.seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1, .mode = 64};
	r->on = story_random(r, 2);
	story_say_psb(r);
}

#endif
