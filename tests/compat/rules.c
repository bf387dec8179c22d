/* SPDX-License-Identifier: MIT */
/*
 * The deliberate differences between this library and Debian's libipt. Each use of a rule is
 * counted and printed, so that nothing is hidden. A difference that no rule explains is a failure.
 */
#include "twin.h"

#include <string.h>

static bool is_packet_call(const struct twin_call *call)
{
	return call->decoder == TWIN_PACKET && call->op == TWIN_NEXT;
}

static bool both_packets(const struct twin_call *call, enum pt_packet_type type)
{
	return is_packet_call(call) && call->side[0].status >= 0 && call->side[1].status >= 0 &&
	       call->side[0].out.packet.type == type && call->side[1].out.packet.type == type;
}

static const uint8_t *bytes_at(const struct twin_input *input, const struct twin_seen *seen,
			       size_t size)
{
	if (seen->offset_status || seen->offset > input->size || input->size - seen->offset < size)
		return NULL;
	return input->bytes + seen->offset;
}

/* Since 2.1 the packet decoder's sync offset moves to each PSB that it reads. */
static bool packet_sync(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	if (!call->since_2_1 || call->decoder != TWIN_PACKET || call->side[0].sync_status ||
	    call->side[1].sync_status || call->side[1].sync < call->side[0].sync ||
	    twin_find_psb(input, call->side[1].sync) != call->side[1].sync)
		return false;
	same.side[1].sync = same.side[0].sync;
	return twin_equal(&same);
}

static bool pwre_hw(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	if (!both_packets(call, ppt_pwre))
		return false;
	same.side[1].out.packet.payload.pwre.hw = same.side[0].out.packet.payload.pwre.hw;
	return twin_equal(&same) || packet_sync(input, &same);
}

/* The PEBS packets BBP, BIP, BEP. */
static bool is_pebs(const uint8_t *p)
{
	if ((p[0] & 7) == 4 && (p[0] >> 3 & 1)) /* BIP */
		return true;
	return p[0] == 0x02 && memchr("\x63\x33\xb3", p[1], 3);
}

/* CFE, EVD, TRIG. */
static bool is_newer(const uint8_t *p)
{
	return p[0] == 0xd9 || (p[0] == 0x02 && (p[1] == 0x13 || p[1] == 0x53));
}

static bool newer_packet(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 2);
	const uint8_t *last = bytes_at(input, &call->side[1], 1);

	return !call->since_2_1 && call->side[1].status == -pte_bad_opc && last &&
	       (p ? is_newer(p) : *last == 0xd9);
}

static bool pebs_packet(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 2);

	return call->side[1].status == -pte_bad_opc && p && is_pebs(p);
}

static bool tma_reserved(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 7);

	return call->side[1].status == -pte_bad_packet && p && p[0] == 0x02 && p[1] == 0x73;
}

static bool sync_at_end(const struct twin_input *input, const struct twin_call *call)
{
	return call->decoder == TWIN_PACKET && call->op == TWIN_SYNC_FORWARD &&
	       call->side[0].status == -pte_eos && call->side[1].status == -pte_internal &&
	       call->side[0].sync == input->size;
}

static bool is_row(const struct twin_input *input, uint64_t at)
{
	return at < input->size && input->size - at >= 2 &&
	       !memcmp(input->bytes + at, "\x02\x82", 2);
}

/* Whether there is a PSB longer than 16 bytes before either side's position. */
static bool has_row(const struct twin_input *input, const struct twin_call *call)
{
	const uint64_t a = call->side[0].sync, b = call->side[1].sync, last = a > b ? a : b;

	for (size_t at = 0; (at = twin_find_psb(input, at)) <= last && at != SIZE_MAX; at++)
		if (is_row(input, at + 16))
			return true;
	return false;
}

/* One side has found such a PSB, or a packet after its first 16 bytes. */
static bool psb_row(const struct twin_input *input, const struct twin_call *call)
{
	if (call->decoder == TWIN_EVENTS)
		return has_row(input, call);
	if (call->decoder != TWIN_PACKET || call->op > TWIN_SYNC_BACKWARD)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct twin_seen *seen = &call->side[i];

		if (!seen->sync_status && (is_row(input, seen->sync + 16) ||
					   (seen->sync >= 2 && is_row(input, seen->sync - 2))))
			return true;
	}
	return false;
}

/* Whether the decoder is one that follows code. */
static bool is_walker(const struct twin_call *call)
{
	return call->decoder >= TWIN_INSN;
}

static bool is_timed(const struct twin_input *input)
{
	return input->config.mtc_freq || input->config.nom_freq;
}

/* How far the side that is further ahead has read. */
static uint64_t read_to(const struct twin_call *call)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < 2; i++)
		if (!call->side[i].offset_status && call->side[i].offset > at)
			at = call->side[i].offset;
	return at;
}

/* Whether the packets allow this time. `tsc` 0: they allow none. */
static bool is_possible(const struct twin_times *times, uint64_t tsc)
{
	return !tsc || (tsc >= times->low && tsc <= times->high);
}

struct twin_call twin_comparable(const struct twin_input *input, const struct twin_call *call)
{
	const bool event = call->op == TWIN_EVENT || call->decoder == TWIN_EVENTS;
	struct twin_call same = *call;
	const struct twin_seen *from = &same.side[0];
	struct twin_seen *to = &same.side[1];
	struct twin_times times;

	to->lost_mtc = from->lost_mtc;
	to->lost_cyc = from->lost_cyc;
	if (event) {
		to->out.event.lost_mtc = from->out.event.lost_mtc;
		to->out.event.lost_cyc = from->out.event.lost_cyc;
	}
	if (is_timed(input) && input->damaged) {
		/* The packets do not show where the last synchronisation began. */
		to->tsc = from->tsc;
		if (event)
			to->out.event.tsc = from->out.event.tsc;
		return same;
	}
	if (!is_timed(input) || !twin_time_limits(input, call->side[0].sync, read_to(call), &times))
		return same;
	if (is_possible(&times, from->tsc))
		to->tsc = from->tsc;
	if (event && is_possible(&times, from->out.event.tsc))
		to->out.event.tsc = from->out.event.tsc;
	return same;
}

/* The times differ, within what the TSC packets that both have read allow. */
static bool estimated_time(const struct twin_input *input, const struct twin_call *call)
{
	const struct twin_call same = twin_comparable(input, call);

	return is_timed(input) && twin_equal(&same);
}

static bool class_from_cache(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	if (call->decoder != TWIN_BLOCK || call->op != TWIN_NEXT ||
	    call->side[1].out.block.iclass != ptic_error)
		return false;
	same.side[1].out.block.iclass = same.side[0].out.block.iclass;
	return twin_equal(&same);
}

static bool isid_of_error(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	if (call->op != TWIN_NEXT || call->side[0].status >= 0)
		return false;
	if (call->decoder == TWIN_INSN)
		same.side[1].out.insn.isid = same.side[0].out.insn.isid;
	else if (call->decoder == TWIN_BLOCK)
		same.side[1].out.block.isid = same.side[0].out.block.isid;
	return twin_equal(&same);
}

static bool backward_status(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return !call->since_2_1 && is_walker(call) && call->op == TWIN_SYNC_BACKWARD &&
	       call->side[0].status >= 0 && call->side[1].status == 0;
}

/* There is no other PSB: both report that and keep their positions. */
static bool backward_time(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	if (!is_walker(call) || call->op > TWIN_SYNC_BACKWARD || call->side[0].status >= 0)
		return false;
	same.side[1].time_status = same.side[0].time_status;
	same.side[1].tsc = same.side[0].tsc;
	same.side[1].cbr_status = same.side[0].cbr_status;
	same.side[1].cbr = same.side[0].cbr;
	return twin_equal(&same);
}

static bool event_early(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_walker(call) && call->op == TWIN_EVENT &&
	       call->side[0].status == -pte_bad_query && call->side[1].status >= 0;
}

static bool event_ignored(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	if (!is_walker(call) || call->op != TWIN_NEXT)
		return false;
	if (call->decoder == TWIN_BLOCK && call->side[0].status > 0 &&
	    call->side[0].status & pts_event_pending &&
	    (call->argument < sizeof(struct pt_block) || !call->side[0].out.block.ninsn))
		return true;
	return call->side[0].status == -pte_event_ignored;
}

static bool error_early(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_walker(call) && call->op == TWIN_NEXT && call->side[0].status >= 0 &&
	       (call->side[1].status == -pte_bad_opc || call->side[1].status == -pte_bad_packet);
}

static bool gives_events(const struct twin_call *call)
{
	return call->decoder != TWIN_PACKET;
}

/* Of decoders that report events: how far the side that is further ahead has read. */
static uint64_t read_so_far(const struct twin_input *input, const struct twin_call *call)
{
	const uint64_t at = read_to(call);

	/* A decoder at a PSB may have read all of its PSB+. */
	return twin_find_psb(input, at) == at ? twin_header_end(input, at) : at;
}

/* Where the reported item began; event decoders report a PSB as soon as they are at it. */
static uint64_t began(const struct twin_input *input, const struct twin_call *call)
{
	const uint64_t sync = call->side[0].sync;
	uint64_t before = sync;

	if (call->decoder != TWIN_EVENTS || call->op != TWIN_NEXT)
		return sync;
	for (size_t at = 0; (at = twin_find_psb(input, at)) < sync; at++)
		before = at;
	return before;
}

/* The packets read so far contradict the SDM. */
static bool is_out_of_place(const struct twin_input *input, const struct twin_call *call)
{
	return gives_events(call) && !call->side[0].sync_status &&
	       twin_contradiction(input, began(input, call)) <= read_so_far(input, call);
}

static bool has_fact(const struct twin_input *input, const struct twin_call *call, unsigned fact)
{
	uint64_t end = read_so_far(input, call);

	/* libipt 2.3 looks ahead there. */
	if (call->decoder == TWIN_EVENTS && call->side[1].status >= 0 && call->op == TWIN_NEXT &&
	    call->side[1].out.event.type == ptev_overflow)
		end += 16;
	return gives_events(call) && !call->side[0].sync_status &&
	       twin_facts(input, began(input, call), end) & fact;
}

static bool mode_fup(const struct twin_input *input, const struct twin_call *call)
{
	return !call->since_2_1 && has_fact(input, call, TWIN_MODE_FUP);
}

static bool overflow_ip(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_OVERFLOW_IP);
}

static bool overflow_mnt(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	same.blind = true;
	return twin_equal(&same) && has_fact(input, call, TWIN_OVERFLOW_MNT);
}

static bool overflow_mode(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_OVERFLOW_MODE);
}

static bool overflow_psb(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_OVERFLOW_PSB);
}

static bool mode_pgd(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_MODE_PGD);
}

/* In a PSB+, when both sides are at its PSB. */
static bool tma_in_header(const struct twin_input *input, const struct twin_call *call)
{
	return call->side[1].status == -pte_bad_packet && has_fact(input, call, TWIN_TMA_RESERVED);
}

static bool shared_fup(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_SHARED_FUP);
}

static bool lost_mode(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	same.blind = true;
	return twin_equal(&same) && has_fact(input, call, TWIN_LOST_MODE);
}

static bool in_doubt(const struct twin_input *input, const struct twin_call *call)
{
	return input->config.errata.apl12 && has_fact(input, call, TWIN_DOUBT);
}

static bool skz84_at_end(const struct twin_input *input, const struct twin_call *call)
{
	return input->config.errata.skz84 && is_packet_call(call) && call->side[1].status == 8 &&
	       call->side[1].offset == input->size + 1;
}

/* The time of a trace without MTC and CYC: the last TSC, or none if that is 0. */
static bool plain_time(const struct twin_input *input, const struct twin_call *call)
{
	const bool event = call->op == TWIN_EVENT || call->decoder == TWIN_EVENTS;
	struct twin_call same = twin_comparable(input, call);
	struct twin_seen *ours = &same.side[0], *theirs = &same.side[1];
	struct twin_times times;

	if (is_timed(input) || !twin_time_limits(input, ours->sync, read_to(call), &times))
		return false;
	if ((ours->tsc && ours->tsc != times.most) || (times.last && times.last == times.most))
		return false;
	theirs->time_status = ours->time_status;
	theirs->tsc = ours->tsc;
	if (event) {
		theirs->out.event.has_tsc = ours->out.event.has_tsc;
		theirs->out.event.tsc = ours->out.event.tsc;
	}
	return twin_equal(&same);
}

static bool queue_full(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return gives_events(call) && call->side[1].status == -pte_nomem;
}

static bool cbr_zero(const struct twin_input *input, const struct twin_call *call)
{
	return call->side[1].status == -pte_bad_packet && has_fact(input, call, TWIN_CBR_ZERO);
}

static bool lost_address(const struct twin_input *input, const struct twin_call *call)
{
	return has_fact(input, call, TWIN_LOST_ADDRESS);
}

/* Ptah reports an error; libipt continues, or fails elsewhere. */
static bool out_of_place(const struct twin_input *input, const struct twin_call *call)
{
	return call->side[0].status < 0 && call->side[0].status != -pte_bad_query &&
	       is_out_of_place(input, call);
}

/* Ptah continues only where it is certain, or reports the event without an address. */
static bool refused(const struct twin_input *input, const struct twin_call *call)
{
	return call->side[1].status < 0 && is_out_of_place(input, call);
}

/* Neither reports an error, but they interpret the packets differently. */
static bool guessed(const struct twin_input *input, const struct twin_call *call)
{
	return is_out_of_place(input, call);
}

static bool counts_none(const struct twin_call *call)
{
	const bool event = call->op == TWIN_EVENT || call->decoder == TWIN_EVENTS;
	const struct twin_seen *ours = &call->side[0];

	if (ours->lost_mtc || ours->lost_cyc)
		return false;
	return !event || ours->status < 0 ||
	       (!ours->out.event.lost_mtc && !ours->out.event.lost_cyc);
}

/* libipt counts packets that it could not use; this library does not. */
static bool lost_time(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	same.side[1].lost_mtc = same.side[0].lost_mtc;
	same.side[1].lost_cyc = same.side[0].lost_cyc;
	if (call->op == TWIN_EVENT || call->decoder == TWIN_EVENTS) {
		same.side[1].out.event.lost_mtc = same.side[0].out.event.lost_mtc;
		same.side[1].out.event.lost_cyc = same.side[0].out.event.lost_cyc;
	}
	return counts_none(call) && twin_equal(&same);
}

/* After a sync that failed, libipt 2.3's event decoder continues with what follows there. */
static bool failed_sync(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	if (call->decoder != TWIN_EVENTS || call->side[0].status >= 0)
		return false;
	if (call->op == TWIN_NEXT)
		return call->side[0].status == -pte_nosync;
	return call->side[1].status == call->side[0].status;
}

/*
 * "A bug in the library", as intel-pt.h says: 2.3 returns it where an event waits across a branch.
 */
static bool judge_internal(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return call->decoder == TWIN_EVENTS && call->side[1].status == -pte_internal;
}

/* A PSB+ gives the current state: this library never returns this code. */
static bool bad_status_update(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return call->decoder == TWIN_EVENTS && call->side[1].status == -pte_bad_status_update;
}

/* libipt 2.3 needs a new TSC before each TMA. */
static bool tma_alone(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 2);

	return call->decoder == TWIN_EVENTS && call->side[1].status == -pte_bad_context && p &&
	       !memcmp(p, "\x02\x73", 2);
}

/* The entry of a C-state without its exit: at the end, at a PSB, or in an overflow. */
static bool entry_alone(const struct twin_input *input, const struct twin_call *call)
{
	return call->decoder == TWIN_EVENTS && call->op == TWIN_NEXT && call->side[0].status >= 0 &&
	       call->side[0].out.event.type == ptev_pwre &&
	       (call->side[1].status < 0 || call->side[1].out.event.type != ptev_pwre) &&
	       has_fact(input, call, TWIN_ENTRY_ALONE);
}

/* libipt 2.3's clock cannot use it. */
static bool ratio_of_zero(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 4);

	return call->decoder == TWIN_EVENTS && call->side[1].status == -pte_bad_packet && p &&
	       !memcmp(p, "\x02\x03\x00", 3);
}

/*
 * For several packets that wait for one FUP, 2.3 has an order of its own; an MWAIT keeps waiting.
 */
static bool wait_together(const struct twin_input *input, const struct twin_call *call)
{
	return call->since_2_1 && has_fact(input, call, TWIN_WAIT_TOGETHER);
}

static bool mode_twice(const struct twin_input *input, const struct twin_call *call)
{
	return call->since_2_1 && has_fact(input, call, TWIN_MODE_TWICE);
}

/*
 * Errata of overflows make libipt 2.3 look far ahead. It fails with what it finds, or relies on a
 * packet that proves less.
 */
static bool erratum_ahead(const struct twin_input *input, const struct twin_call *call)
{
	const struct pt_errata *errata = &input->config.errata;
	const uint8_t *p = bytes_at(input, &call->side[1], 2);

	if (call->decoder != TWIN_EVENTS || call->op != TWIN_NEXT || call->side[0].status < 0)
		return false;
	if (errata->apl12 && call->side[1].status >= 0 &&
	    call->side[1].out.event.type == ptev_overflow)
		return true;
	return call->side[0].out.event.type == ptev_overflow &&
	       (errata->apl11 || errata->apl12 || errata->skd010) && p &&
	       !memcmp(p, "\x02\xf3", 2) &&
	       (call->side[1].status == -pte_bad_packet || call->side[1].status == -pte_bad_opc ||
		call->side[1].status == -pte_bad_context);
}

/* A TSC is less than the one before. */
static bool time_back(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	if (call->decoder != TWIN_EVENTS || call->op != TWIN_NEXT ||
	    same.side[1].out.event.tsc > same.side[0].out.event.tsc)
		return false;
	same.side[1].out.event.tsc = same.side[0].out.event.tsc;
	return twin_equal(&same) && has_fact(input, call, TWIN_TIME_BACK);
}

/* Both sides are at an event or an error of the same kind, but at different positions. */
static bool is_elsewhere(const struct twin_call *call)
{
	struct twin_call same = *call;

	same.blind = true;
	return call->decoder == TWIN_EVENTS && call->op == TWIN_NEXT &&
	       call->side[0].offset != call->side[1].offset && twin_equal(&same);
}

/* An EVD without its CFE: Ptah is at the EVD, libipt 2.3 at the packet that contradicts it. */
static bool lone_data(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *mine = bytes_at(input, &call->side[0], 2);
	const uint8_t *theirs = bytes_at(input, &call->side[1], 2);

	return is_elsewhere(call) && call->side[0].status == -pte_bad_context && mine && theirs &&
	       !memcmp(mine, "\x02\x53", 2) && theirs[0] == 0x02 &&
	       (theirs[1] == 0x53 || theirs[1] == 0x13);
}

/* Ptah reports a C-state's entry at the next entry, libipt 2.3 at the exit. */
static bool entered_twice(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *mine = bytes_at(input, &call->side[0], 2);
	const uint8_t *theirs = bytes_at(input, &call->side[1], 2);
	struct twin_call same = *call;

	same.side[1].out.event.variant.pwre.hw = same.side[0].out.event.variant.pwre.hw;
	return call->side[0].status >= 0 && call->side[0].out.event.type == ptev_pwre &&
	       is_elsewhere(&same) && mine && theirs && !memcmp(mine, "\x02\x22", 2) &&
	       !memcmp(theirs, "\x02\xa2", 2);
}

/* The count is not valid: 2.3 leaves the caller's struct unchanged there. */
static bool trig_count(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	if (!both_packets(call, ppt_trig) || call->side[0].out.packet.payload.trig.icntv)
		return false;
	same.side[1].out.packet.payload.trig.icnt = same.side[0].out.packet.payload.trig.icnt;
	return twin_equal(&same) || packet_sync(input, &same);
}

/* perf reads six bits of an EVD's type, libipt five. */
static bool evd_type(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	if (gives_events(call))
		return call->since_2_1 && has_fact(input, call, TWIN_EVD_WIDE);
	if (!both_packets(call, ppt_evd))
		return false;
	same.side[0].out.packet.payload.evd.type &= 0x1f;
	return twin_equal(&same) || packet_sync(input, &same);
}

/* Erratum SKZ84: since 2.1 a corrupt TMA is not a packet. */
static bool erratum_tma(const struct twin_input *input, const struct twin_call *call)
{
	return call->since_2_1 && input->config.errata.skz84 && is_packet_call(call) &&
	       call->side[1].status == 8 && call->side[1].out.packet.type == ppt_invalid;
}

/* Erratum SKD007: since 2.1 the packet decoder corrects it; before that, the other decoders did. */
static bool erratum_cyc(const struct twin_input *input, const struct twin_call *call)
{
	return call->since_2_1 && input->config.errata.skd007 && is_packet_call(call) &&
	       call->side[0].status >= 0 && call->side[0].out.packet.type == ppt_cyc &&
	       call->side[1].status >= 0 && call->side[1].out.packet.type == ppt_ovf;
}

/* SDM "MODE Packets": MODE.Exec belongs to the TIP of an abort, not to its FUP. */
static bool abort_mode(const struct twin_input *input, const struct twin_call *call)
{
	return call->since_2_1 && has_fact(input, call, TWIN_ABORT_MODE);
}

/* Both report the error; only the time differs. */
static bool time_at_error(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	(void)input;
	if (call->decoder != TWIN_QUERY || call->side[0].status >= 0)
		return false;
	same.side[1].time_status = same.side[0].time_status;
	same.side[1].tsc = same.side[0].tsc;
	same.side[1].lost_mtc = same.side[0].lost_mtc;
	same.side[1].lost_cyc = same.side[0].lost_cyc;
	same.side[1].cbr_status = same.side[0].cbr_status;
	same.side[1].cbr = same.side[0].cbr;
	return call->side[1].time_status < 0 && twin_equal(&same);
}

/* For events that belong to a branch, libipt reports the time of the event's own packet. */
static bool event_time(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;
	struct pt_event *mine = &same.side[0].out.event, *theirs = &same.side[1].out.event;

	(void)input;
	if (call->op != TWIN_EVENT || call->side[0].status < 0 || call->side[1].status < 0 ||
	    theirs->tsc > mine->tsc)
		return false;
	switch (mine->type) {
	case ptev_exec_mode:
	case ptev_paging:
	case ptev_async_paging:
	case ptev_vmcs:
	case ptev_async_vmcs:
		break;
	default:
		return false;
	}
	theirs->has_tsc = mine->has_tsc;
	theirs->tsc = mine->tsc;
	theirs->lost_mtc = mine->lost_mtc;
	theirs->lost_cyc = mine->lost_cyc;
	same.side[1].lost_mtc = same.side[0].lost_mtc;
	same.side[1].lost_cyc = same.side[0].lost_cyc;
	return twin_equal(&same);
}

/* PWRE's HW bit in an event. */
static bool pwre_hw_event(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);
	struct pt_event *event = &same.side[1].out.event;

	if (!gives_events(call) || call->op < TWIN_NEXT || call->side[0].status < 0 ||
	    event->type != ptev_pwre)
		return false;
	event->variant.pwre.hw = same.side[0].out.event.variant.pwre.hw;
	same.side[1].lost_mtc = same.side[0].lost_mtc;
	same.side[1].lost_cyc = same.side[0].lost_cyc;
	return twin_equal(&same);
}

const struct twin_rule twin_rules[] = {
    {.name = "pwre-hw",
     .why = "SDM \"Power Entry (PWRE) Packet\": HW is bit 7 of the first payload byte, not bit 3",
     .applies = pwre_hw,
     .go_on = true},
    {.name = "newer-packet",
     .why = "SDM \"Control Flow Event (CFE) Packet\", \"Event Data (EVD) Packet\", \"Block Begin "
	    "Packet (BBP)\" and what goes with them are newer than libipt 2.0",
     .applies = newer_packet},
    {.name = "pebs-packet",
     .why = "SDM \"PEBS output to Intel Processor Trace\": libipt does not know its packets",
     .applies = pebs_packet},
    {.name = "tma-reserved",
     .why = "SDM \"Packet Definitions\": RSVD bits are not guaranteed to be 0",
     .applies = tma_reserved},
    {.name = "sync-at-end",
     .why = "the interface: -pte_eos where no PSB follows; libipt's own bounds check fails when "
	    "it was set to the trace's end",
     .applies = sync_at_end,
     .go_on = true},
    {.name = "psb-row",
     .why = "SDM \"Decoder Synchronization (PSB+)\": PSBEND or OVF ends each, so that no processor "
	    "sends PSBs one right behind the other; libipt finds the "
	    "last of them",
     .applies = psb_row},
    {.name = "estimated-time",
     .why = "SDM \"Estimating TSC within Intel PT\": between TSC packets the time is an estimate; "
	    "those packets put limits to it",
     .applies = estimated_time,
     .go_on = true},
    {.name = "plain-time",
     .why = "a TSC that is behind an earlier one does not turn the clock back, and 0 is none",
     .applies = plain_time,
     .go_on = true},
    {.name = "skz84-at-end",
     .why = "libipt passes over 8 bytes for a corrupt TMA though 7 are left",
     .applies = skz84_at_end},
    {.name = "lost-time",
     .why = "libipt counts MTC and CYC packets that it could not use; the drop-in's counts are 0",
     .applies = lost_time,
     .go_on = true},
    {.name = "failed-sync",
     .why =
	 "libipt 2.3's event decoder goes on behind a sync that has failed, though it knows of no "
	 "PSB",
     .applies = failed_sync,
     .go_on = true},
    {.name = "internal",
     .why = "the interface: -pte_internal is a bug of libipt's",
     .applies = judge_internal},
    {.name = "bad-status-update",
     .why = "SDM \"Decoder Synchronization (PSB+)\": a PSB+ has the current state, and is believed",
     .applies = bad_status_update},
    {.name = "tma-alone",
     .why = "SDM \"TSC/MTC Alignment (TMA) Packet\": always behind a TSC; nothing follows from one "
	    "that is not",
     .applies = tma_alone},
    {.name = "entry-alone",
     .why = "SDM \"Power Entry (PWRE) Packet\": a C-state was entered, whether its exit is seen or "
	    "not",
     .applies = entry_alone},
    {.name = "ratio-of-zero",
     .why =
	 "SDM \"Core:Bus Ratio (CBR) Packet\": its payload is a number; libipt 2.3's clock divides "
	 "by it",
     .applies = ratio_of_zero},
    {.name = "wait-together",
     .why = "SDM \"Compound Packet Event Summary\": no two events begin before one FUP; Ptah tells "
	    "them in the packets' order, MWAIT with its EXSTOP alone",
     .applies = wait_together},
    {.name = "mode-twice",
     .why = "SDM \"MODE Packets\": two MODE.Exec before one TIP: the last is what is the case",
     .applies = mode_twice},
    {.name = "erratum-ahead",
     .why =
	 "APL11, APL12, SKD010: libipt 2.3 looks ahead for how an overflow went on, and gives up "
	 "where it cannot read",
     .applies = erratum_ahead},
    {.name = "time-back",
     .why = "time does not go back: an earlier TSC leaves it where it is",
     .applies = time_back,
     .go_on = true},
    {.name = "lone-data",
     .why = "an EVD belongs to the CFE behind it; the position is that "
	    "of the EVD that has none",
     .applies = lone_data,
     .go_on = true},
    {.name = "entered-twice",
     .why = "SDM \"Power Entry (PWRE) Packet\": another PWRE ends a C-state as PWRX does",
     .applies = entered_twice},
    {.name = "packet-sync",
     .why = "libipt 2.0 names the PSB that it was synchronised at",
     .applies = packet_sync,
     .go_on = true},
    {.name = "trig-count",
     .why = "libipt 2.3 does not write the count of a TRIG that says that it has none",
     .applies = trig_count,
     .go_on = true},
    {.name = "evd-type",
     .why = "an EVD's type has six bits, as in perf; libipt 2.3 drops the highest",
     .applies = evd_type},
    {.name = "erratum-tma", .why = "as erratum-cyc, for SKZ84", .applies = erratum_tma},
    {.name = "erratum-cyc",
     .why = "SKD007: libipt 2.0's packet decoder tells the packets as they are, errata are others' "
	    "matter",
     .applies = erratum_cyc},
    {.name = "abort-mode",
     .why = "SDM \"MODE Packets\": MODE.Exec goes with the next TIP, libipt binds it to the FUP of "
	    "the transaction's end",
     .applies = abort_mode},
    {.name = "time-at-error",
     .why = "libipt 2.0 forgets the time where a PSB+ cannot be read; Ptah has the last",
     .applies = time_at_error,
     .go_on = true},
    {.name = "event-time",
     .why = "SDM \"MODE.Exec Packet\", \"Paging Information (PIP) Packet\", \"VMCS Packet\": the "
	    "change applies at the "
	    "TIP, "
	    "and is told at its time",
     .applies = event_time,
     .go_on = true},
    {.name = "pwre-hw-event", .why = "as pwre-hw", .applies = pwre_hw_event, .go_on = true},
    {.name = "class-from-cache",
     .why = "libipt 2.0 does not tell the class of a block that comes out of its cache",
     .applies = class_from_cache,
     .go_on = true},
    {.name = "isid-of-error",
     .why = "libipt 2.0 leaves an error code in isid where there is no code",
     .applies = isid_of_error,
     .go_on = true},
    {.name = "backward-status",
     .why = "libipt 2.0's walkers lose the status, and with it the PSB+ events, of sync_backward",
     .applies = backward_status},
    {.name = "backward-time",
     .why = "libipt 2.0's walkers forget the time where nothing is further on or back",
     .applies = backward_time,
     .go_on = true},
    {.name = "event-early",
     .why = "an event that is not indicated yet can be had from libipt 2.0; the interface says "
	    "-pte_bad_query",
     .applies = event_early},
    {.name = "event-ignored",
     .why = "libipt 2.0 loses an event that is pending at next; 2.3 and Ptah say so",
     .applies = event_ignored},
    {.name = "error-early",
     .why = "libipt 2.0 reads ahead and throws away the branch before a malformed packet",
     .applies = error_early},
    /* The rules from here on look at all packets read so far, so the frequent ones are before. */
    {.name = "mode-fup",
     .why = "with event tracing a MODE.Exec for RFLAGS.IF has a FUP and no branch; without it SDM "
	    "\"MODE.Exec Packet\" lets none but TIP and TIP.PGE follow",
     .applies = mode_fup},
    {.name = "overflow-ip",
     .why = "SDM \"Overflow (OVF) Packet\": an IP behind it is compressed against one before it; "
	    "libipt takes 0",
     .applies = overflow_ip},
    {.name = "overflow-mnt",
     .why = "an MNT between a packet and its address is told once that is read: the position alone",
     .applies = overflow_mnt,
     .go_on = true},
    {.name = "overflow-mode",
     .why = "SDM \"Overflow (OVF) Packet\": the FUP behind it is where execution goes on; libipt "
	    "takes it for a branch's when a MODE.Exec stands between",
     .applies = overflow_mode},
    {.name = "shared-fup",
     .why = "SDM \"Flow Update (FUP) Packet\": MODE.TSX stands right before its FUP, and only an "
	    "abort's has a TIP behind it; libipt gives one FUP to all that wait",
     .applies = shared_fup},
    {.name = "lost-mode",
     .why = "the branch of a MODE.Exec is lost in an overflow: the position alone",
     .applies = lost_mode,
     .go_on = true},
    {.name = "erratum-apl12",
     .why = "libipt drops what stands between an OVF's false FUP and what shows that it is",
     .applies = in_doubt},
    {.name = "mode-pgd",
     .why = "SDM \"Packet Generation Disable (TIP.PGD)\": tracing is off behind it; libipt tells "
	    "the mode alone",
     .applies = mode_pgd},
    {.name = "tma-in-header", .why = "as tma-reserved", .applies = tma_in_header},
    {.name = "queue-full",
     .why = "a PSB+ that says things twice is too much for libipt's queue of events",
     .applies = queue_full},
    {.name = "cbr-zero",
     .why = "SDM \"Core:Bus Ratio (CBR) Packet\": no ratio is reserved; libipt refuses 0",
     .applies = cbr_zero},
    {.name = "overflow-psb",
     .why = "SDM \"Compound Packet Event Summary\" lets a PSB+ stand between OVF and FUP; "
	    "\"Decoder Synchronization (PSB+)\": with a FUP tracing is on",
     .applies = overflow_psb},
    {.name = "lost-address",
     .why = "SDM \"MWAIT Packet\", \"PTWRITE Packet\", \"Internal Buffer Overflow\": what was sent "
	    "before "
	    "did happen, though its FUP is lost",
     .applies = lost_address},
};
const unsigned twin_rule_count = sizeof(twin_rules) / sizeof(*twin_rules);

/* After all others: what follows packets that contradict the SDM. */
const struct twin_rule twin_last_rules[] = {
    {.name = "out-of-place",
     .why = "SDM \"Compound Packet Event Summary\", \"Packet Definitions\": the packet may not be "
	    "there; libipt does not look",
     .applies = out_of_place},
    {.name = "refused",
     .why = "the same, where libipt stops and Ptah tells what is certain all the same",
     .applies = refused},
    {.name = "guessed", .why = "the same, where both go on", .applies = guessed},
};
const unsigned twin_last_rule_count = sizeof(twin_last_rules) / sizeof(*twin_last_rules);

unsigned twin_rule_total(void)
{
	return twin_rule_count + twin_walk_rule_count + twin_last_rule_count;
}

const struct twin_rule *twin_rule_at(unsigned i)
{
	if (i < twin_rule_count)
		return &twin_rules[i];
	i -= twin_rule_count;
	return i < twin_walk_rule_count ? &twin_walk_rules[i]
					: &twin_last_rules[i - twin_walk_rule_count];
}
