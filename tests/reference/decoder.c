/* SPDX-License-Identifier: MIT */
/* Packets to events, in the order of the SDM's "Packet Definitions". */
#include "decoder.h"

#include "decoder_parts.h"

/* The most events that may wait for one FUP; no processor writes more. */
#define WAITING 4

/* BDM70: the most packets of state between a PSB+ and the TIP.PGE after it. */
#define STATE_PACKETS 8

enum phase {
	SEARCH, /* for a PSB */
	HEADER, /* in a PSB+ */
	LOST,	/* after an OVF, until a packet says where execution is */
	RUN,
};

struct waiting {
	struct ptah_item items[WAITING];
	unsigned count;
};

struct decoder {
	const uint8_t *trace;
	size_t size, at; /* `at`: after the current packet */
	const struct reference_config *config;
	struct walk walk;

	enum phase phase;
	bool on, on_known; /* SDM "Packet Enable (PacketEn)", as the packets have it */
	unsigned mode, item_size;
	int iflag;	 /* RFLAGS.IF, -1: not known */
	bool mode_known; /* by a MODE.Exec, since when nothing was lost */
	bool in_tx;
	uint64_t last_ip, ratio;

	/* A FUP that waits for its TIP, and what waits for a FUP or a branch. */
	bool has_fup, has_mwait, has_mode, has_pip, has_vmcs;
	uint64_t fup, fup_offset;
	struct waiting bound;  /* the next FUP has their address */
	struct waiting beside; /* so has the next FUP, if their branch has one */
	struct ptah_item mwait, mode_change, pip, vmcs, data;

	/* The PSB+ and the OVF that are not complete yet. */
	uint64_t psb_offset, header_ip, lost_offset;
	bool header_has_ip, header_in_loss, header_has_tsx, header_in_tx;
};

/* Reporting events */

static struct ptah_item event_of(const struct decoder *d, unsigned type, uint64_t offset)
{
	return (struct ptah_item){.type = (uint8_t)type,
				  .flags = d->in_tx ? PTAH_ITEM_SPECULATIVE : 0,
				  .mode = (uint8_t)d->mode,
				  .offset = offset};
}

/* Reports an item that was made when its packet was read, now that its address is known. */
static void tell_at(struct decoder *d, const struct ptah_item *made, const uint64_t *ip)
{
	struct ptah_item item = *made;

	if (item.type == PTAH_ITEM_TYPE_MAX)
		return;
	item.mode = (uint8_t)d->mode;
	if (d->in_tx &&
	    item.type != PTAH_ITEM_TSX) /* except a TSX item, whose own flag says what it begins */
		item.flags |= PTAH_ITEM_SPECULATIVE;
	if (ip)
		item.ip = *ip;
	else
		item.flags |= PTAH_ITEM_IP_SUPPRESSED;
	walk_event(&d->walk, &item);
}

static void tell_error(struct decoder *d, int status, uint64_t offset)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_ERROR, offset);

	item.status = (int16_t)status;
	walk_event(&d->walk, &item);
}

static void tell_waiting(struct decoder *d, struct waiting *waiting, const uint64_t *ip)
{
	for (unsigned i = 0; i < waiting->count; i++) {
		unsigned type = waiting->items[i].type;
		/* The FUP has the address of a branch in code that is not traced. */
		bool elsewhere = type == PTAH_ITEM_RSM || type == PTAH_ITEM_SIPI;

		tell_at(d, &waiting->items[i], elsewhere ? NULL : ip);
	}
	waiting->count = 0;
}

static void tell_all_waiting(struct decoder *d)
{
	if (d->has_mwait)
		tell_at(d, &d->mwait, NULL);
	d->has_mwait = false;
	tell_waiting(d, &d->bound, NULL);
	tell_waiting(d, &d->beside, NULL);
}

static void forget(struct decoder *d)
{
	d->has_fup = d->has_mwait = d->has_mode = d->has_pip = d->has_vmcs = false;
	d->bound.count = d->beside.count = 0;
	d->data.type = 0;
	d->item_size = 0;
}

/* SDM "Buffer Overflow": the loss has ended. */
static void tell_loss(struct decoder *d, const uint64_t *ip)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_OVERFLOW, d->lost_offset);

	d->on = ip != NULL;
	d->on_known = true;
	if (ip)
		item.ip = *ip;
	else
		item.flags |= PTAH_ITEM_IP_SUPPRESSED;
	walk_event(&d->walk, &item);
}

/* Ends what is incomplete. */
static void conclude(struct decoder *d)
{
	if (d->phase == LOST || (d->phase == HEADER && d->header_in_loss))
		tell_loss(d, NULL);
	else if (d->phase == RUN)
		tell_all_waiting(d);
}

/* The trace cannot be understood from here to the next PSB. */
static void fail(struct decoder *d, int status, uint64_t offset)
{
	conclude(d);
	tell_error(d, status, offset);
	forget(d);
	d->phase = SEARCH;
	d->on_known = false;
}

static bool wait_in(struct decoder *d, struct waiting *waiting, const struct ptah_item *item)
{
	if (waiting->count == WAITING) {
		fail(d, PTAH_E_BAD_CONTEXT, item->offset);
		return false;
	}
	waiting->items[waiting->count++] = *item;
	return true;
}

/* Reports an event, or keeps it for the FUP that follows, as the packet says. */
static bool tell_or_wait(struct decoder *d, const struct ptah_item *item, bool fup)
{
	if (fup)
		return wait_in(d, &d->bound, item);
	tell_at(d, item, NULL);
	return true;
}

/* NULL: the address is suppressed. */
static const uint64_t *take_ip(struct decoder *d, const struct packet *k)
{
	if (!k->count)
		return NULL;
	d->last_ip = packet_ip(k, d->last_ip);
	return &d->last_ip;
}

/* "MODE.Exec Packet": the mode is valid from the branch or FUP that it belongs to. */
static void change_mode(struct decoder *d, const uint64_t *ip)
{
	int iflag = d->mode_change.value ? 1 : 0;
	struct ptah_item item = d->mode_change;

	d->mode_known = true;
	if (item.mode != d->mode) {
		d->mode = item.mode;
		item.value = 0;
		tell_at(d, &item, ip);
	}
	if (iflag != d->iflag && d->config->iflags) {
		item.type = PTAH_ITEM_IFLAGS;
		item.value = (uint64_t)iflag;
		tell_at(d, &item, ip);
	}
	d->iflag = iflag;
}

/* At a branch, or what replaces one: changes that belong to it take effect. */
static void change_state(struct decoder *d, const uint64_t *ip)
{
	uint64_t copy = ip ? *ip : 0;

	ip = ip ? &copy : NULL;
	if (d->has_vmcs)
		tell_at(d, &d->vmcs, ip);
	if (d->has_pip)
		tell_at(d, &d->pip, ip);
	if (d->has_mode)
		change_mode(d, ip);
	d->has_vmcs = d->has_pip = d->has_mode = false;
}

/* "Taken/Not-taken (TNT) Packet" */
static void take_tnt(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_TNT, offset);

	if (!d->on || d->has_fup) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	item.value = k->value;
	item.count = (uint16_t)k->count;
	walk_event(&d->walk, &item);
}

/* "Target IP (TIP) Packet": a branch's target; after a FUP, that of an asynchronous event. */
static void take_tip(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const uint64_t *ip = take_ip(d, k);
	struct ptah_item item = event_of(d, PTAH_ITEM_TIP, offset);

	if (!d->on || !ip) {
		fail(d, d->on ? PTAH_E_NO_IP : PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	item.to = *ip;
	if (d->has_fup) {
		item.type = PTAH_ITEM_ASYNC_BRANCH;
		item.ip = d->fup;
		item.offset = d->fup_offset;
		d->has_fup = false;
	}
	walk_event(&d->walk, &item);
	change_state(d, ip);
}

/* "Packet Generation Enable (TIP.PGE) Packet" */
static void take_pge(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const uint64_t *ip = take_ip(d, k);
	struct ptah_item item;

	if (!ip) {
		fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	/* Tracing was on, so something is missing; but this address is sure. */
	if ((d->on && d->on_known) || d->has_fup)
		tell_error(d, PTAH_E_BAD_CONTEXT, offset);
	d->has_fup = false;
	d->on = d->on_known = true;
	item = event_of(d, PTAH_ITEM_ENABLED, offset);
	item.ip = *ip;
	walk_event(&d->walk, &item);
	change_state(d, ip);
}

/* "Packet Generation Disable (TIP.PGD) Packet" */
static void take_pgd(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const uint64_t *ip = take_ip(d, k);
	struct ptah_item item = event_of(d, PTAH_ITEM_DISABLED, offset);

	if (!d->on) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	if (d->has_fup) {
		item.type = PTAH_ITEM_ASYNC_DISABLED;
		item.ip = d->fup;
		item.offset = d->fup_offset;
		d->has_fup = false;
	}
	if (ip)
		item.to = *ip;
	else
		item.flags |= PTAH_ITEM_IP_SUPPRESSED;
	walk_event(&d->walk, &item);
	d->on = false;
	change_state(d, NULL);
}

/*
 * Whether a transaction's abort waits. "MODE.TSX Packet": its FUP is followed by a TIP, like an
 * interrupt's.
 */
static bool abort_waits(const struct decoder *d)
{
	for (unsigned i = 0; i < d->bound.count; i++)
		if (d->bound.items[i].type == PTAH_ITEM_TSX &&
		    d->bound.items[i].flags & PTAH_ITEM_ABORTED)
			return true;
	return false;
}

/* "Flow Update (FUP) Packet": the address of what precedes it, or the source of a branch. */
static void take_fup(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const uint64_t *ip = take_ip(d, k);
	bool abort = abort_waits(d);
	/* "MODE.Exec Packet": the mode belongs to a branch's target, and an abort is a branch. */
	bool for_mode = d->has_mode && !d->has_fup && !abort;
	bool for_others = d->bound.count || for_mode;
	bool for_branch = !for_others || abort;

	if (!ip) {
		fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if (d->has_fup || (!for_others && !d->on)) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	tell_waiting(d, &d->bound, ip);
	if (for_mode)
		change_state(d, ip);
	if (!for_branch)
		return;
	tell_waiting(d, &d->beside, ip);
	d->has_fup = true;
	d->fup = *ip;
	d->fup_offset = offset;
}

/* "Paging Information (PIP) Packet": of the branch that follows, or of a MOV to CR3. */
static void take_pip(struct decoder *d, const struct packet *k, uint64_t offset, bool wait)
{
	d->pip = (struct ptah_item){.type = d->has_fup ? PTAH_ITEM_ASYNC_PAGING : PTAH_ITEM_PAGING,
				    .flags = k->first ? PTAH_ITEM_NON_ROOT : 0,
				    .value = k->value,
				    .offset = offset};
	d->has_pip = wait;
	if (!wait)
		tell_at(d, &d->pip, NULL);
}

/* "VMCS Packet" */
static void take_vmcs(struct decoder *d, const struct packet *k, uint64_t offset, bool wait)
{
	d->vmcs = (struct ptah_item){.type = d->has_fup ? PTAH_ITEM_ASYNC_VMCS : PTAH_ITEM_VMCS,
				     .value = k->value,
				     .offset = offset};
	d->has_vmcs = wait;
	if (!wait)
		tell_at(d, &d->vmcs, NULL);
}

/* "MODE.TSX Packet": begin, commit and abort have a FUP while packets are enabled. */
static void take_tsx(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_TSX,
				       .flags = (uint8_t)((k->first ? PTAH_ITEM_SPECULATIVE : 0) |
							  (k->second ? PTAH_ITEM_ABORTED : 0)),
				       .offset = offset};

	tell_or_wait(d, &item, d->on);
	d->in_tx = k->first;
}

/* "Core:Bus Ratio (CBR) Packet" */
static void take_cbr(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_CBR, offset);

	item.value = k->value;
	if (k->value != d->ratio)
		walk_event(&d->walk, &item);
	d->ratio = k->value;
}

/* Only a complete PSB+, or one that an OVF cuts, says whether a transaction is open. */
static void take_header_tsx(struct decoder *d)
{
	if (d->header_has_tsx)
		d->in_tx = d->header_in_tx;
	d->header_has_tsx = false;
}

/* "Overflow (OVF) Packet": events that waited did happen, but their address is lost. */
static void take_ovf(struct decoder *d, uint64_t offset)
{
	if (d->phase == RUN)
		tell_all_waiting(d);
	if (d->phase == HEADER) {
		d->vmcs.flags |= PTAH_ITEM_STATUS;
		d->pip.flags |= PTAH_ITEM_STATUS;
		d->mode_change.flags |= PTAH_ITEM_STATUS;
		take_header_tsx(d);
	} else {
		d->has_mode = false; /* its branch is lost */
	}
	change_state(d, NULL);
	forget(d);
	d->mode_known = false;
	d->lost_offset = offset;
	d->phase = LOST;
}

/* "Packet Stream Boundary (PSB) Packet": nothing that consists of several packets spans it. */
static void take_psb(struct decoder *d, uint64_t offset)
{
	bool in_loss = d->phase == LOST || (d->phase == HEADER && d->header_in_loss);

	if (d->phase == HEADER ||
	    (d->phase == RUN && (d->has_fup || d->bound.count || d->data.type)))
		tell_error(d, PTAH_E_BAD_CONTEXT, offset);
	tell_all_waiting(d);
	forget(d);
	d->psb_offset = offset;
	d->header_has_ip = d->header_has_tsx = false;
	d->header_in_loss = in_loss;
	d->last_ip = 0;
	d->phase = HEADER;
}

/* "PSB+": reports the state that it carries. */
static void tell_header(struct decoder *d, const uint64_t *ip)
{
	int before = d->iflag;
	bool flag, other_mode = d->has_mode && d->mode_known && d->mode_change.mode != d->mode;
	struct ptah_item item;

	if (d->has_mode) {
		d->mode_known = true;
		d->mode = d->mode_change.mode;
		d->iflag = d->mode_change.value ? 1 : 0;
	}
	flag = d->has_mode && d->iflag != before && d->config->iflags;
	d->has_mode = false;
	if (ip && d->on_known && !d->on)
		tell_error(d, PTAH_E_BAD_CONTEXT, d->psb_offset);
	else if (ip && d->on_known && other_mode)
		tell_error(d, PTAH_E_BAD_CONTEXT, d->mode_change.offset);
	take_header_tsx(d);
	item = event_of(d, PTAH_ITEM_PSB, d->psb_offset);
	item.flags |= PTAH_ITEM_STATUS | (ip ? 0 : PTAH_ITEM_IP_SUPPRESSED);
	item.ip = ip ? *ip : 0;
	walk_event(&d->walk, &item);
	d->vmcs.flags |= PTAH_ITEM_STATUS;
	d->pip.flags |= PTAH_ITEM_STATUS;
	d->mode_change.flags |= PTAH_ITEM_STATUS;
	if (d->has_vmcs)
		tell_at(d, &d->vmcs, ip);
	if (d->has_pip)
		tell_at(d, &d->pip, ip);
	if (flag) {
		d->mode_change.type = PTAH_ITEM_IFLAGS;
		tell_at(d, &d->mode_change, ip);
	}
	d->has_vmcs = d->has_pip = false;
	d->on = ip != NULL;
	d->on_known = true;
	d->phase = RUN;
}

/*
 * Erratum BDM70: a PSB+ has a FUP although packets are disabled; then a TIP.PGE follows, with
 * nothing but state and time between.
 */
static bool is_bdm70(const struct decoder *d)
{
	struct packet k;
	unsigned state = 0;

	for (size_t at = d->at; !packet_read(&k, d->trace + at, d->size - at, 0); at += k.size) {
		switch (k.type) {
		case PTAH_PACKET_PAD:
		case PTAH_PACKET_TSC:
		case PTAH_PACKET_TMA:
		case PTAH_PACKET_MTC:
		case PTAH_PACKET_CYC:
			break;
		case PTAH_PACKET_CBR:
		case PTAH_PACKET_MNT:
		case PTAH_PACKET_MODE_EXEC:
		case PTAH_PACKET_PIP:
		case PTAH_PACKET_VMCS:
			if (state++ == STATE_PACKETS)
				return false;
			break;
		default:
			return k.type == PTAH_PACKET_TIP_PGE;
		}
	}
	return false;
}

static void take_psbend(struct decoder *d)
{
	const uint64_t *ip = d->header_has_ip ? &d->header_ip : NULL;

	if (d->header_in_loss) /* "Buffer Overflow": this FUP says where the loss ended */
		tell_loss(d, ip);
	else if (ip && !d->config->no_bdm70 && !(d->on_known && d->on) && is_bdm70(d))
		ip = NULL;
	tell_header(d, ip);
}

/* Table "PSB+": the packets that may be in one. */
static void take_in_header(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const uint64_t *ip;

	switch (k->type) {
	case PTAH_PACKET_PSBEND:
		take_psbend(d);
		break;
	case PTAH_PACKET_OVF:
		take_ovf(d, offset);
		break;
	case PTAH_PACKET_FUP:
		ip = take_ip(d, k);
		d->header_has_ip = ip != NULL;
		d->header_ip = ip ? *ip : 0;
		break;
	case PTAH_PACKET_MODE_TSX:
		d->header_has_tsx = true;
		d->header_in_tx = k->first;
		break;
	case PTAH_PACKET_PIP:
		take_pip(d, k, offset, true);
		break;
	case PTAH_PACKET_VMCS:
		take_vmcs(d, k, offset, true);
		break;
	default:
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
}

/* "MWAIT Packet": reported with the EXSTOP that it leads to. "EXSTOP Packet" */
static void take_exstop(struct decoder *d, const struct packet *k, uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_EXSTOP, .offset = offset};
	bool mwait = d->has_mwait;

	d->has_mwait = false;
	if (!mwait || tell_or_wait(d, &d->mwait, k->ip))
		tell_or_wait(d, &item, k->ip);
}

/* "PWRX Packet": wake reason */
static uint8_t wake_reason(const struct packet *k)
{
	return (uint8_t)((k->first ? PTAH_DETAIL_INTERRUPT : 0) |
			 (k->second ? PTAH_DETAIL_STORE : 0) |
			 (k->third ? PTAH_DETAIL_AUTONOMOUS : 0));
}

/* PTWRITE, power, PEBS, triggers: one packet is one event. False: it is none of these. */
static bool take_simple(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = {.value = k->value, .offset = offset};

	switch (k->type) {
	case PTAH_PACKET_PTW:
		item.type = PTAH_ITEM_PTWRITE;
		item.count = (uint16_t)k->count;
		break;
	case PTAH_PACKET_PWRE:
		item.type = PTAH_ITEM_PWRE;
		item.detail = k->first ? PTAH_DETAIL_HW : 0;
		item.count = (uint16_t)k->other;
		break;
	case PTAH_PACKET_PWRX:
		item.type = PTAH_ITEM_PWRX;
		item.detail = wake_reason(k);
		item.count = (uint16_t)k->other;
		break;
	case PTAH_PACKET_BBP:
		item.type = PTAH_ITEM_PEBS_BEGIN;
		item.count = (uint16_t)k->count;
		break;
	case PTAH_PACKET_BIP:
		item.type = PTAH_ITEM_PEBS_ITEM;
		item.count = (uint16_t)k->count;
		item.to = k->other;
		break;
	case PTAH_PACKET_BEP:
		item.type = PTAH_ITEM_PEBS_END;
		break;
	case PTAH_PACKET_TRIG:
		item.type = PTAH_ITEM_TRIGGER;
		item.detail = (uint8_t)((k->first ? PTAH_DETAIL_ICNT : 0) |
					(k->second ? PTAH_DETAIL_MULT : 0));
		item.count = (uint16_t)k->other;
		break;
	default:
		return false;
	}
	tell_or_wait(d, &item, k->ip);
	return true;
}

/* SDM "Event Trace" */

static void drop_data(struct decoder *d)
{
	tell_error(d, PTAH_E_BAD_CONTEXT, d->data.offset);
	d->data.type = 0;
}

/* "Event Data (EVD) Packet": for the CFE that follows. */
static void take_evd(struct decoder *d, const struct packet *k, uint64_t offset)
{
	uint8_t type = k->other ? PTAH_ITEM_VMEXIT : PTAH_ITEM_INTERRUPT;
	uint8_t detail = k->other == 2 ? PTAH_DETAIL_REASON : PTAH_DETAIL_CR2;

	if (k->other > 2) /* a type that the SDM does not define */
		return;
	if (d->data.type && (d->data.type != type || d->data.detail & detail))
		drop_data(d);
	if (!d->data.type)
		d->data = (struct ptah_item){.type = type, .offset = offset};
	d->data.detail |= detail;
	if (detail == PTAH_DETAIL_REASON)
		d->data.to = k->value;
	else
		d->data.value = k->value;
}

/* "Control Flow Event (CFE) Packet", Table "CFE Packet Type and Vector Fields" */
static const struct {
	uint8_t event;
	char branch; /* 'b': while packets are enabled, its branch has a FUP */
	char vector; /* 'v': has a vector */
} cfe_table[32] = {
    [1] = {PTAH_ITEM_INTERRUPT, 'b', 'v'}, [2] = {PTAH_ITEM_IRET, 0, 0},
    [3] = {PTAH_ITEM_SMI, 'b', 0},	   [4] = {PTAH_ITEM_RSM, 'b', 0},
    [5] = {PTAH_ITEM_SIPI, 'b', 'v'},	   [6] = {PTAH_ITEM_INIT, 'b', 0},
    [7] = {PTAH_ITEM_VMENTRY, 0, 0},	   [8] = {PTAH_ITEM_VMEXIT, 'b', 0},
    [9] = {PTAH_ITEM_VMEXIT, 'b', 'v'},	   [10] = {PTAH_ITEM_SHUTDOWN, 0, 0},
    [12] = {PTAH_ITEM_UINTR, 'b', 'v'},	   [13] = {PTAH_ITEM_UIRET, 0, 0},
    [14] = {PTAH_ITEM_SWINTR, 'b', 'v'},   [15] = {PTAH_ITEM_SYSCALL, 0, 0},
};

static void take_cfe(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = {.type = cfe_table[k->value].event, .offset = offset};
	bool with_branch = cfe_table[k->value].branch && !k->ip && d->on;

	if (!item.type) /* not defined: its FUP is skipped with it */
		item.type = PTAH_ITEM_TYPE_MAX;
	if (cfe_table[k->value].vector)
		item.count = (uint16_t)k->other;
	if (k->value == 9)
		item.detail = PTAH_DETAIL_VECTOR;
	if (d->data.type && d->data.type != item.type)
		drop_data(d);
	if (d->data.type) {
		item.offset = d->data.offset;
		item.detail |= d->data.detail;
		item.value = d->data.value;
		item.to = d->data.to;
		d->data.type = 0;
	}
	if (with_branch)
		wait_in(d, &d->beside, &item);
	else
		tell_or_wait(d, &item, k->ip);
}

/*
 * A packet of branches ends the wait for a FUP. False: something should have had its FUP by now.
 * What could have had one only with its branch has none.
 */
static bool ends_waiting(struct decoder *d, const struct packet *k, uint64_t offset)
{
	switch (k->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_STOP:
	case PTAH_PACKET_PSBEND:
		break;
	case PTAH_PACKET_MWAIT: /* not while another one waits */
		break;
	default:
		return true;
	}
	if (d->bound.count || d->data.type) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return false;
	}
	if (!d->has_fup)
		tell_all_waiting(d);
	return true;
}

static void take_in_run(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_STOP, offset);

	if (!ends_waiting(d, k, offset))
		return;
	switch (k->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		take_tnt(d, k, offset);
		break;
	case PTAH_PACKET_TIP:
		take_tip(d, k, offset);
		break;
	case PTAH_PACKET_TIP_PGE:
		take_pge(d, k, offset);
		break;
	case PTAH_PACKET_TIP_PGD:
		take_pgd(d, k, offset);
		break;
	case PTAH_PACKET_FUP:
		take_fup(d, k, offset);
		break;
	case PTAH_PACKET_PIP:
		take_pip(d, k, offset, d->has_fup);
		break;
	case PTAH_PACKET_VMCS:
		take_vmcs(d, k, offset, d->has_fup);
		break;
	case PTAH_PACKET_MODE_TSX:
		take_tsx(d, k, offset);
		break;
	case PTAH_PACKET_STOP: /* "TraceStop Packet" */
		walk_event(&d->walk, &item);
		break;
	case PTAH_PACKET_OVF:
		take_ovf(d, offset);
		break;
	case PTAH_PACKET_MWAIT:
		d->mwait = (struct ptah_item){
		    .type = PTAH_ITEM_MWAIT, .value = k->value, .offset = offset};
		d->has_mwait = true;
		break;
	case PTAH_PACKET_EXSTOP:
		take_exstop(d, k, offset);
		break;
	case PTAH_PACKET_EVD:
		take_evd(d, k, offset);
		break;
	case PTAH_PACKET_CFE:
		take_cfe(d, k, offset);
		break;
	default:
		if (!take_simple(d, k, offset)) /* a PSBEND without a PSB */
			fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
}

/*
 * "Buffer Overflow": a FUP says where execution is; any other packet says that packets are
 * disabled.
 */
static void take_in_loss(struct decoder *d, const struct packet *k, uint64_t offset)
{
	if (k->type == PTAH_PACKET_FUP) {
		const uint64_t *ip = take_ip(d, k);

		if (!ip) {
			fail(d, PTAH_E_NO_IP, offset);
			return;
		}
		tell_loss(d, ip);
		d->phase = RUN;
		change_state(d, ip);
	} else if (k->type == PTAH_PACKET_OVF) {
		take_ovf(d, offset);
	} else {
		tell_loss(d, NULL);
		d->phase = RUN;
		take_in_run(d, k, offset);
	}
}

/* SDM "Block Begin Packet (BBP)": the packets that do not end a block. */
static void follow_block(struct decoder *d, const struct packet *k)
{
	static const uint8_t inside[] = {
	    PTAH_PACKET_PAD,  PTAH_PACKET_TSC,	PTAH_PACKET_TMA, PTAH_PACKET_MTC,
	    PTAH_PACKET_CYC,  PTAH_PACKET_CBR,	PTAH_PACKET_MNT, PTAH_PACKET_FUP,
	    PTAH_PACKET_PWRE, PTAH_PACKET_PWRX, PTAH_PACKET_BIP, PTAH_PACKET_EXSTOP,
	};

	if (k->type == PTAH_PACKET_BBP)
		d->item_size = k->count;
	else if (!memchr(inside, (int)k->type, sizeof(inside)))
		d->item_size = 0;
}

static void take(struct decoder *d, const struct packet *k, uint64_t offset)
{
	struct ptah_item item = event_of(d, PTAH_ITEM_MNT, offset);

	follow_block(d, k);
	switch (k->type) {
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
		return;
	case PTAH_PACKET_CBR:
		take_cbr(d, k, offset);
		return;
	case PTAH_PACKET_MNT:
		item.value = k->value;
		walk_event(&d->walk, &item);
		return;
	case PTAH_PACKET_PSB:
		take_psb(d, offset);
		return;
	case PTAH_PACKET_MODE_EXEC:
		d->mode_change = (struct ptah_item){.type = PTAH_ITEM_EXEC_MODE,
						    .mode = (uint8_t)k->value,
						    .value = k->third,
						    .offset = offset};
		d->has_mode = true;
		return;
	default:
		break;
	}
	if (d->phase == HEADER)
		take_in_header(d, k, offset);
	else if (d->phase == LOST)
		take_in_loss(d, k, offset);
	else
		take_in_run(d, k, offset);
}

/* The trace ends at `at`, perhaps inside a packet. */
static void finish(struct decoder *d, bool synced)
{
	conclude(d);
	if (d->at != d->size)
		tell_error(d, PTAH_E_TRUNCATED, d->at);
	else if (!synced && d->size)
		tell_error(d, PTAH_E_NO_SYNC, 0);
	walk_end(&d->walk);
}

void reference_decode(const uint8_t *trace, size_t size, const struct reference_config *config,
		      struct reference *result)
{
	struct decoder d = {.trace = trace, .size = size, .config = config, .iflag = -1};
	bool synced = false;

	*result = (struct reference){.limit = config->limit};
	d.walk = (struct walk){.config = config,
			       .out = result,
			       .space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY},
			       .next_space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY}};
	while (!result->cut) {
		struct packet k;
		size_t offset;
		int status;

		if (d.phase == SEARCH) {
			d.at = packet_find_psb(trace, d.at, size);
			if (d.at == size)
				break;
			synced = true;
		}
		offset = d.at;
		status = packet_read(&k, trace + offset, size - offset, d.item_size);
		if (status == PTAH_E_MORE)
			break;
		if (status < 0) {
			fail(&d, status, offset);
			d.at++;
			continue;
		}
		d.at += k.size;
		d.walk.end = d.at;
		take(&d, &k, offset);
	}
	finish(&d, synced);
}

void reference_free(struct reference *result)
{
	free(result->items);
	memset(result, 0, sizeof(*result));
}
