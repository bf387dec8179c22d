/* SPDX-License-Identifier: MIT */
/* Finds the offset that a libipt decoder would report, by going over packets. */
#include "position.h"

/* A walk over packets. */
struct walker {
	struct config *config;
	const uint8_t *pos, *end;
	unsigned block;
	struct ptah_packet packet; /* the packet at pos */
	int size;		   /* its size, or what is wrong with it, if negative */
};

/* Bytes that a processor with an erratum writes wrongly: see ptah/errata.def. */
static void look_for_errata(struct walker *w)
{
	const struct pt_errata *errata = &w->config->user.errata;
	const size_t left = (size_t)(w->end - w->pos);

	if (errata->skd007 && w->size == 2 && w->packet.type == PTAH_PACKET_CYC &&
	    w->pos[1] == 0x02 && left > 2 && w->pos[2] == 0xf3) {
		w->packet.type = PTAH_PACKET_PAD;
		w->size = 1;
	}
	/* These bits are reserved in a TMA. */
	if (errata->skz84 && w->size == 7 && w->packet.type == PTAH_PACKET_TMA && left >= 8 &&
	    (w->pos[4] || w->pos[6] & 0xfe)) {
		w->packet.type = PTAH_PACKET_PAD;
		w->size = 8;
	}
}

/* Decodes the packet at the position. False when there is none. */
static bool look(struct walker *w)
{
	struct pt_packet_unknown unknown;

	w->size = ptah_packet_decode(&w->packet, w->pos, (size_t)(w->end - w->pos), w->block);
	if (w->size == PTAH_E_BAD_OPCODE && w->config->user.decode.callback) {
		int size = config_unknown(w->config, w->pos, &unknown);

		w->packet.type = PTAH_PACKET_PAD; /* skipped like a PAD */
		w->size = size > 0 ? size : PTAH_E_BAD_OPCODE;
	}
	look_for_errata(w);
	return w->size > 0;
}

static void step(struct walker *w)
{
	w->block = ptah_packet_block_state(&w->packet, w->block);
	w->pos += w->size;
}

static bool ends(const struct walker *w, unsigned end)
{
	const unsigned type = w->packet.type;

	switch (end) {
	case POSITION_FUP:
		return type == PTAH_PACKET_FUP;
	case POSITION_IP:
	case POSITION_TIP:
		return (end == POSITION_IP && type == PTAH_PACKET_FUP) || type == PTAH_PACKET_TIP ||
		       type == PTAH_PACKET_TIP_PGE || type == PTAH_PACKET_TIP_PGD;
	case POSITION_EXSTOP:
		return type == PTAH_PACKET_EXSTOP;
	case POSITION_PWRX:
		return type == PTAH_PACKET_PWRX;
	case POSITION_PSBEND:
		return type == PTAH_PACKET_PSBEND || type == PTAH_PACKET_OVF;
	default:
		return true;
	}
}

/*
 * Whether the packet can be between an OVF and the packet that resolves it. SDM "Internal Buffer
 * Overflow".
 */
static bool is_of_overflow(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_MNT:
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
		return true;
	default:
		return false;
	}
}

/* Moves past an OVF, and past the address right after it. */
static bool pass_overflow(struct walker *w, bool at_last)
{
	struct walker behind;

	if (!look(w))
		return false;
	step(w);
	behind = *w;
	while (look(&behind) && is_of_overflow(&behind.packet))
		step(&behind);
	if (behind.size <= 0 ||
	    (behind.packet.type != PTAH_PACKET_FUP && behind.packet.type != PTAH_PACKET_TIP &&
	     behind.packet.type != PTAH_PACKET_TIP_PGD))
		return false;
	*w = behind;
	if (!at_last)
		step(w);
	return at_last;
}

/* Moves past what has been reported. True when the decoder stays at the last packet of it. */
static bool begin(struct walker *w, struct config *config, struct position position)
{
	*w = (struct walker){.config = config, .end = config->user.end};
	w->pos = config->user.begin;
	if (position.offset > config_size(config))
		position.offset = config_size(config);
	w->pos += position.offset;
	if (position.end == POSITION_BEFORE)
		return false;
	if (position.end == POSITION_OVERFLOW)
		return pass_overflow(w, position.at_last);
	while (look(w)) {
		if (ends(w, position.end)) {
			/* An OVF that cuts a PSB+ is reported by itself. */
			if (position.at_last ||
			    (position.end == POSITION_PSBEND && w->packet.type == PTAH_PACKET_OVF))
				return true;
			step(w);
			break;
		}
		step(w);
	}
	return false;
}

struct position position_of(const struct ptah_item *item)
{
	const bool suppressed = item->flags & PTAH_ITEM_IP_SUPPRESSED;
	struct position p = {item->offset, POSITION_PACKET, false};

	if (item->flags & PTAH_ITEM_STATUS) {
		p.end = POSITION_PSBEND;
		return p;
	}
	switch (item->type) {
	case PTAH_ITEM_DISABLED: /* erratum SKD022: begins with a FUP */
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_IFLAGS:
		p.end = POSITION_TIP;
		break;
	case PTAH_ITEM_OVERFLOW:
		p.end = POSITION_OVERFLOW;
		break;
	case PTAH_ITEM_TSX:
	case PTAH_ITEM_PTWRITE:
	case PTAH_ITEM_EXSTOP:
	case PTAH_ITEM_IRET:
	case PTAH_ITEM_INTERRUPT:
	case PTAH_ITEM_SMI:
	case PTAH_ITEM_INIT:
	case PTAH_ITEM_VMENTRY:
	case PTAH_ITEM_VMEXIT:
	case PTAH_ITEM_SHUTDOWN:
	case PTAH_ITEM_UINTR:
	case PTAH_ITEM_UIRET:
	case PTAH_ITEM_SWINTR:
	case PTAH_ITEM_SYSCALL:
	case PTAH_ITEM_TRIGGER:
	case PTAH_ITEM_PEBS_END:
		p.end = suppressed ? POSITION_PACKET : POSITION_FUP;
		break;
	case PTAH_ITEM_MWAIT:
		p.end = suppressed ? POSITION_PACKET : POSITION_FUP;
		break;
	default:
		break;
	}
	return p;
}

/* Whether a caller asks for this packet, because it is a branch or an event. */
static bool is_asked_for(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_PSB:
	case PTAH_PACKET_PSBEND:
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
	case PTAH_PACKET_BBP:
	case PTAH_PACKET_BIP:
	case PTAH_PACKET_BEP:
		return false;
	default:
		return true;
	}
}

/* Whether the packet can be in a PSB+, and becomes an event there. */
static bool is_of_header(const struct ptah_packet *packet, bool *event)
{
	switch (packet->type) {
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_MNT:
		*event = true;
		return true;
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
		return true;
	default:
		return false;
	}
}

/*
 * Moves over a PSB+. True when the decoder stays there: at its end, or at its beginning if it is
 * malformed.
 */
static bool stop_at_header(struct walker *w)
{
	const uint8_t *psb = w->pos;
	bool event = false;

	step(w);
	while (look(w)) {
		if (ends(w, POSITION_PSBEND))
			return event || w->packet.type == PTAH_PACKET_OVF;
		if (!is_of_header(&w->packet, &event)) {
			w->pos = psb;
			return true;
		}
		step(w);
	}
	w->pos = w->size == PTAH_E_MORE ? w->end : psb;
	return true;
}

/* The position at bytes that are no packet, or an incomplete one. */
static const uint8_t *stand_at_end(const struct walker *w)
{
	const uint64_t offset = (uint64_t)(w->pos - w->config->user.begin);

	/* A packet that only carries time is skipped, even if it is incomplete. */
	if (w->size == PTAH_E_MORE && w->pos < w->end && w->end - w->pos > (*w->pos == 0x02) &&
	    position_kind(w->config, offset) == POSITION_READ_OVER)
		return w->end;
	return w->pos;
}

uint64_t position_ahead(struct config *config, struct position position)
{
	const uint8_t *begins = config->user.begin;
	struct walker w;

	if (begin(&w, config, position))
		return (uint64_t)(w.pos - begins);
	while (look(&w)) {
		if (w.packet.type == PTAH_PACKET_PSB) {
			if (stop_at_header(&w))
				return (uint64_t)(w.pos - begins);
		} else if (is_asked_for(&w.packet)) {
			return (uint64_t)(w.pos - begins);
		}
		step(&w);
	}
	return (uint64_t)(stand_at_end(&w) - begins);
}

uint64_t position_next(struct config *config, struct position position)
{
	struct walker w;

	if (!begin(&w, config, position))
		while (look(&w) && w.packet.type == PTAH_PACKET_PAD)
			step(&w);
	return (uint64_t)(w.pos - config->user.begin);
}

uint64_t position_of_error(struct config *config, uint64_t offset)
{
	const uint8_t *error = config->user.begin + offset;
	const uint8_t *psb = ptah_packet_find_last_psb(config->user.begin, error);
	const uint8_t *run = psb;
	struct walker w = {.config = config, .end = config->user.end};

	if (!psb)
		return offset;
	/*
	 * After a PSB that is longer than it should be, its last 16 bytes look like one. Go back to
	 * the first.
	 */
	while (run - config->user.begin >= 2 && run[-2] == 0x02 && run[-1] == 0x82)
		run -= 2;
	w.pos = psb = run + (psb - run) / 16 * 16;
	do {
		if (!look(&w) || ends(&w, POSITION_PSBEND))
			break;
		step(&w);
	} while (w.pos < error);
	return w.pos == error ? (uint64_t)(psb - config->user.begin) : offset;
}

bool position_cut_header_ip(struct config *config, uint64_t offset, uint64_t *ip)
{
	struct walker w = {.config = config, .end = config->user.end};
	uint64_t last_ip = 0;
	bool has_ip = false;

	w.pos = config->user.begin + offset;
	while (look(&w) && !ends(&w, POSITION_PSBEND)) {
		if (w.packet.type == PTAH_PACKET_FUP)
			has_ip = ptah_packet_ip(&last_ip, w.packet.u.ip.ipc, w.packet.u.ip.ip, ip);
		step(&w);
	}
	return has_ip && w.size > 0 && w.packet.type == PTAH_PACKET_OVF;
}

bool position_is_overflow(struct config *config, uint64_t offset, uint64_t error)
{
	const uint8_t *begins = config->user.begin;
	struct walker w = {.config = config, .pos = begins + offset, .end = config->user.end};

	while (w.pos < begins + error && look(&w)) {
		if (!is_of_overflow(&w.packet) &&
		    (w.packet.type != PTAH_PACKET_OVF || w.pos != begins + offset))
			return false;
		step(&w);
	}
	return w.pos == begins + error;
}

enum position_kind position_kind(const struct config *config, uint64_t offset)
{
	const uint8_t *p = config->user.begin + offset;
	const size_t n = config_size(config) - (size_t)offset;

	if (!n || (*p == 0x02 && n < 2))
		return POSITION_READ_OVER;
	if (*p == 0x02) {
		switch (p[1]) {
		case 0xa3: /* TNT */
			return POSITION_OUTCOMES;
		case 0x03: /* CBR */
		case 0x13: /* CFE */
		case 0x53: /* EVD */
		case 0x22: /* PWRE */
		case 0x43: /* PIP */
		case 0x62: /* EXSTOP */
		case 0xe2:
		case 0x83: /* TraceStop */
		case 0xa2: /* PWRX */
		case 0xc2: /* MWAIT */
		case 0xc3: /* MNT */
		case 0xc8: /* VMCS */
		case 0xf3: /* OVF */
			return POSITION_EVENT;
		default: /* PTW, with or without IP, of any size */
			return (p[1] & 0x1f) == 0x12 ? POSITION_EVENT : POSITION_READ_OVER;
		}
	}
	if (!(*p & 1)) /* TNT; PAD */
		return *p ? POSITION_OUTCOMES : POSITION_READ_OVER;
	switch (*p & 0x1f) {
	case 0x0d: /* TIP */
		return POSITION_ADDRESS;
	case 0x11: /* TIP.PGE */
	case 0x01: /* TIP.PGD */
		return POSITION_EVENT;
	default: /* MODE, TRIG */
		return *p == 0x99 || *p == 0xd9 ? POSITION_EVENT : POSITION_READ_OVER;
	}
}
