/* SPDX-License-Identifier: MIT */
/*
 * Item by item against libipt's query decoder: branches and events with their
 * payloads and their order, on random well-formed traces and on those of real
 * processors in PTAH_SHARED/traces.
 *
 * libipt 2.0 has no Event Trace, PEBS and triggers. What differs:
 *
 * - A PSB+ is an item to Ptah; libipt reports it as several status updates: enabled
 *   or disabled, the mode, the transaction state. SDM "PSB Packet": it
 *   is state, not change. Compared are CR3 and VMCS.
 * - SDM "MODE.Exec Packet": sent when the mode may have changed. Ptah reports
 *   the changes, libipt each packet. Compared are the changes.
 * - SDM "CBR Packet": in a PSB+ it repeats the ratio. As with MODE.Exec.
 * - libipt reports the mode of a TIP before it is asked for the TIP.
 * - libipt 2.0 does not handle BDM70 unless configured to, and takes a false FUP for the
 *   address of the PSB+'s state, which is not compared.
 * - MWAIT with an EXSTOP that has no FUP: libipt 2.0 gives it the next FUP, which
 *   is another's (libipt 2.3 does as Ptah does). SDM "MWAIT Packet": left out.
 * - OVF and a PSB+ with a FUP: to libipt an overflow without an address and then
 *   an "enabled" that is a status update; Ptah gives the overflow the address, as
 *   SDM "Buffer Overflow" explains it. Left out.
 * - The order among CR3, VMCS and CBR of one PSB+, which is state of one moment.
 * - libipt reads PWRE's HW from a wrong bit (see tests/packet/test_libipt.c).
 */
#include "random_story.h"

#include <intel-pt.h>

#include <stdlib.h>

/* What a decoder reported, a line per item. */
struct sink {
	char *text;
	size_t length, capacity;
	unsigned mode; /* of the last line with a mode */
	unsigned ratio;
	bool no_cbr;
	/* libipt's: CR3 and VMCS of a PSB+ until both have come, and the mode of a TIP. */
	char held[128], held_vmcs[128];
	uint64_t held_ip;
	bool held_mode;
};

#define SINK_ROOM (32u << 20)

/* All traces share `text`: new memory of that size each time would take longer than the rest. */
static void sink_begin(struct sink *s, char *text, bool no_cbr)
{
	*s = (struct sink){.text = text, .capacity = SINK_ROOM, .no_cbr = no_cbr};
}

__attribute__((format(printf, 2, 3))) static void say(struct sink *s, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	s->length += (size_t)vsnprintf(s->text + s->length, s->capacity - s->length, format, list);
	va_end(list);
	assert_true(s->length < s->capacity);
}

static const char *no_ip(bool suppressed)
{
	return suppressed ? " noip" : "";
}

/* Ptah */

static void say_tnt(struct sink *s, const struct ptah_item *item)
{
	for (unsigned i = item->count; i--;)
		say(s, "%s\n", item->bits >> i & 1 ? "taken" : "not taken");
}

static void say_item(struct sink *s, const struct ptah_item *item)
{
	/* The address of state that a PSB+ repeats is not compared. */
	bool status = item->flags & PTAH_ITEM_STATUS;
	bool none = status || item->flags & PTAH_ITEM_IP_SUPPRESSED;

	switch (item->type) {
	case PTAH_ITEM_TNT:
		say_tnt(s, item);
		return;
	case PTAH_ITEM_PSB:
		return;
	case PTAH_ITEM_CBR:
		if (s->no_cbr)
			return;
		break;
	case PTAH_ITEM_ERROR:
		say(s, "error\n");
		return;
	default:
		break;
	}
	say(s, "%s%s", ptah_item_name(item->type), no_ip(none));
	if (item->type == PTAH_ITEM_TSX)
		say(s, "%s%s", item->flags & PTAH_ITEM_SPECULATIVE ? " spec" : "",
		    item->flags & PTAH_ITEM_ABORTED ? " aborted" : "");
	if (item->type == PTAH_ITEM_EXEC_MODE)
		say(s, " %u", item->mode);
	say(s, "%s%s ip=%" PRIx64 " to=%" PRIx64 " value=%" PRIx64 " count=%u",
	    status ? " status" : "", item->flags & PTAH_ITEM_NON_ROOT ? " nr" : "",
	    status ? 0 : item->ip, item->to, item->value, item->count);
	say(s, " detail=%u\n", item->type == PTAH_ITEM_PWRE ? 0 : item->detail);
}

static void run_ptah(struct sink *s, const uint8_t *bytes, size_t size)
{
	struct ptah_event_decoder *d;
	struct ptah_item items[64];
	int n;

	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, bytes, size, true), 0);
	while ((n = ptah_event_read(d, items, 64)) > 0)
		for (int i = 0; i < n; i++)
			say_item(s, &items[i]);
	ptah_event_decoder_free(d);
}

/* libipt */

static unsigned mode_of(enum pt_exec_mode mode)
{
	return mode == ptem_64bit   ? PTAH_EXEC_64
	       : mode == ptem_32bit ? PTAH_EXEC_32
	       : mode == ptem_16bit ? PTAH_EXEC_16
				    : PTAH_EXEC_UNKNOWN;
}

#define FIELDS " ip=%" PRIx64 " to=%" PRIx64 " value=%" PRIx64 " count=%u detail=%u\n"

static void release(struct sink *s)
{
	say(s, "%s%s", s->held_vmcs, s->held);
	*s->held = *s->held_vmcs = '\0';
	s->held_ip = 0;
	s->held_mode = false;
}

static void say_state(struct sink *s, const struct pt_event *e)
{
	bool nowhere = e->ip_suppressed || e->status_update;
	const char *none = no_ip(nowhere), *status = e->status_update ? " status" : "";
	/* libipt has one name for what a branch changes and another for what a PSB+ repeats. */
	const char *async = e->status_update ? "" : "async-";

	switch (e->type) {
	case ptev_paging:
		say(s, "paging noip%s" FIELDS, e->variant.paging.non_root ? " nr" : "", (uint64_t)0,
		    (uint64_t)0, e->variant.paging.cr3, 0, 0);
		break;
	case ptev_async_paging:
		if (*s->held)
			release(s);
		snprintf(s->held, sizeof(s->held), "%spaging%s%s%s" FIELDS, async, none, status,
			 e->variant.async_paging.non_root ? " nr" : "",
			 nowhere ? 0 : e->variant.async_paging.ip, (uint64_t)0,
			 e->variant.async_paging.cr3, 0, 0);
		if (!e->status_update)
			release(s);
		break;
	case ptev_vmcs:
		say(s, "vmcs noip" FIELDS, (uint64_t)0, (uint64_t)0, e->variant.vmcs.base, 0, 0);
		break;
	case ptev_async_vmcs:
		if (*s->held_vmcs)
			release(s);
		snprintf(s->held_vmcs, sizeof(s->held_vmcs), "%svmcs%s%s" FIELDS, async, none,
			 status, nowhere ? 0 : e->variant.async_vmcs.ip, (uint64_t)0,
			 e->variant.async_vmcs.base, 0, 0);
		if (!e->status_update)
			release(s);
		break;
	case ptev_exec_mode:
		if (e->status_update || mode_of(e->variant.exec_mode.mode) == s->mode) {
			s->mode = mode_of(e->variant.exec_mode.mode);
			break;
		}
		s->held_mode = true;
		s->held_ip = nowhere ? 0 : e->variant.exec_mode.ip;
		snprintf(s->held, sizeof(s->held), "exec-mode%s %u" FIELDS, none,
			 mode_of(e->variant.exec_mode.mode), s->held_ip, (uint64_t)0, (uint64_t)0,
			 0, 0);
		s->mode = mode_of(e->variant.exec_mode.mode);
		break;
	default:
		if (e->status_update)
			break;
		say(s, "tsx%s%s%s" FIELDS, none, e->variant.tsx.speculative ? " spec" : "",
		    e->variant.tsx.aborted ? " aborted" : "", nowhere ? 0 : e->variant.tsx.ip,
		    (uint64_t)0, (uint64_t)0, 0, 0);
		break;
	}
}

static void say_branch(struct sink *s, const struct pt_event *e)
{
	const char *none = no_ip(e->ip_suppressed);

	if (e->status_update)
		return;
	switch (e->type) {
	case ptev_enabled:
		say(s, "enabled" FIELDS, e->variant.enabled.ip, (uint64_t)0, (uint64_t)0, 0, 0);
		break;
	case ptev_disabled:
		say(s, "disabled%s" FIELDS, none, (uint64_t)0,
		    e->ip_suppressed ? 0 : e->variant.disabled.ip, (uint64_t)0, 0, 0);
		break;
	case ptev_async_disabled:
		say(s, "async-disabled%s" FIELDS, none, e->variant.async_disabled.at,
		    e->ip_suppressed ? 0 : e->variant.async_disabled.ip, (uint64_t)0, 0, 0);
		break;
	case ptev_async_branch:
		say(s, "async-branch%s" FIELDS, none, e->variant.async_branch.from,
		    e->variant.async_branch.to, (uint64_t)0, 0, 0);
		break;
	default:
		say(s, "overflow%s" FIELDS, none, e->ip_suppressed ? 0 : e->variant.overflow.ip,
		    (uint64_t)0, (uint64_t)0, 0, 0);
		break;
	}
}

static void say_other(struct sink *s, const struct pt_event *e)
{
	const char *none = no_ip(e->ip_suppressed);
	uint64_t zero = 0;

	switch (e->type) {
	case ptev_stop:
		say(s, "stop" FIELDS, zero, zero, zero, 0, 0);
		break;
	case ptev_exstop:
		say(s, "exstop%s" FIELDS, none, e->ip_suppressed ? 0 : e->variant.exstop.ip, zero,
		    zero, 0, 0);
		break;
	case ptev_mwait:
		say(s, "mwait%s" FIELDS, none, e->ip_suppressed ? 0 : e->variant.mwait.ip, zero,
		    e->variant.mwait.hints | (uint64_t)e->variant.mwait.ext << 32, 0, 0);
		break;
	case ptev_pwre:
		say(s, "pwre noip" FIELDS, zero, zero, (uint64_t)e->variant.pwre.state,
		    e->variant.pwre.sub_state, 0);
		break;
	case ptev_pwrx:
		say(s, "pwrx noip" FIELDS, zero, zero, (uint64_t)e->variant.pwrx.last,
		    e->variant.pwrx.deepest,
		    e->variant.pwrx.interrupt | e->variant.pwrx.store << 1 |
			e->variant.pwrx.autonomous << 2);
		break;
	case ptev_ptwrite:
		say(s, "ptwrite%s" FIELDS, none, e->ip_suppressed ? 0 : e->variant.ptwrite.ip, zero,
		    e->variant.ptwrite.payload, e->variant.ptwrite.size, 0);
		break;
	case ptev_cbr:
		if (e->variant.cbr.ratio != s->ratio && !s->no_cbr)
			say(s, "cbr" FIELDS, zero, zero, (uint64_t)e->variant.cbr.ratio, 0, 0);
		s->ratio = e->variant.cbr.ratio;
		break;
	case ptev_mnt:
		say(s, "mnt" FIELDS, zero, zero, e->variant.mnt.payload, 0, 0);
		break;
	default:
		fail_msg("libipt's event %d", (int)e->type);
	}
}

static void say_event(struct sink *s, const struct pt_event *e)
{
	if (!e->status_update || s->held_mode)
		release(s);
	switch (e->type) {
	case ptev_enabled:
	case ptev_disabled:
	case ptev_async_disabled:
	case ptev_async_branch:
	case ptev_overflow:
		say_branch(s, e);
		break;
	case ptev_paging:
	case ptev_async_paging:
	case ptev_vmcs:
	case ptev_async_vmcs:
	case ptev_exec_mode:
	case ptev_tsx:
		say_state(s, e);
		break;
	default:
		say_other(s, e);
		break;
	}
}

/* Reads one answer. Negative at an error; pts_eos at the end. */
static int ask(struct sink *s, struct pt_query_decoder *q, int status)
{
	struct pt_event event;
	uint64_t ip;
	int taken, next;

	if (status & pts_event_pending) {
		status = pt_qry_event(q, &event, sizeof(event));
		if (status >= 0)
			say_event(s, &event);
		return status;
	}
	if (status & pts_eos)
		return -pte_eos;
	next = pt_qry_cond_branch(q, &taken);
	if (next >= 0) {
		release(s);
		say(s, "%s\n", taken ? "taken" : "not taken");
		return next;
	}
	if (next != -pte_bad_query)
		return next;
	next = pt_qry_indirect_branch(q, &ip);
	if (next >= 0) {
		if (s->held_ip != ip)
			release(s);
		say(s, "tip ip=0 to=%" PRIx64 " value=0 count=0 detail=0\n", ip);
		release(s);
	}
	return next;
}

static void run_libipt(struct sink *s, uint8_t *bytes, size_t size)
{
	struct pt_query_decoder *q;
	struct pt_config config;
	uint64_t ip;
	int status;

	pt_config_init(&config);
	config.begin = bytes;
	config.end = bytes + size;
	q = pt_qry_alloc_decoder(&config);
	assert_non_null(q);
	status = pt_qry_sync_forward(q, &ip);
	while (status >= 0)
		status = ask(s, q, status);
	release(s);
	if (status != -pte_eos)
		say(s, "error %s\n", pt_errstr(pt_errcode(status)));
	pt_qry_free_decoder(q);
}

static void compare(uint8_t *bytes, size_t size, const char *what, bool no_cbr)
{
	static char our_text[SINK_ROOM], their_text[SINK_ROOM];
	struct sink ours, theirs;
	size_t at = 0;

	sink_begin(&ours, our_text, no_cbr);
	sink_begin(&theirs, their_text, no_cbr);
	run_ptah(&ours, bytes, size);
	run_libipt(&theirs, bytes, size);
	if (ours.length != theirs.length || memcmp(ours.text, theirs.text, ours.length)) {
		while (at < ours.length && at < theirs.length && ours.text[at] == theirs.text[at])
			at++;
		while (at && ours.text[at - 1] != '\n')
			at--;
		fprintf(stderr, "%s\n", what); /* too long for fail_msg */
		fail_msg("Ptah:\n%.200s\nlibipt:\n%.200s", ours.text + at, theirs.text + at);
	}
}

TEST(random_traces)
{
	static struct random_story random;
	static struct story story;

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		story_begin(&random, seed);
		for (unsigned i = 0; i < 60; i++) {
			if (!story_random(&random, 3))
				story_say_anywhere(&random);
			else if (random.on)
				story_say_on(&random);
			else
				story_say_off(&random);
		}
		story_assemble(&story, random.text);
		compare(story.bytes, story.size, random.text, false);
	}
}

TEST(traces_of_hardware)
{
	static const char *const names[] = {"foo", "unzip", "mruby"};
	const char *shared = getenv("PTAH_SHARED");

	if (!shared || !*shared)
		skip(); /* no traces of hardware here */
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint8_t *bytes = malloc(1 << 20);
		char path[4096];
		size_t size;
		FILE *f;

		assert_non_null(bytes);
		snprintf(path, sizeof(path), "%s/traces/%s.pt", shared, names[i]);
		f = fopen(path, "r");
		if (f) {
			size = fread(bytes, 1, 1 << 20, f);
			fclose(f);
			compare(bytes, size, names[i], true); /* CBRs in PSB+ only */
		}
		free(bytes);
	}
}
