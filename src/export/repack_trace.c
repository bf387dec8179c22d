/* SPDX-License-Identifier: MIT */
/* The two readers of a stream, side by side, and the packets that come of them. */
#include "export/repack_trace.h"

#include "model/generator.h"
#include "packet/ip.h"

#include <ptah/packet.h>

#include <stdlib.h>
#include <string.h>

#define BLOCKS 512
/* How many entries are looked at for the place at which a branch arrived. */
#define AHEAD  64
#define BUFFER (64u << 10)
#define STEP   (1u << 20)

/* What the decoded side knows, in order. */
enum entry_kind {
	ENTRY_BLOCK = 0,
	ENTRY_PSB,	/* offset: its packet */
	ENTRY_DISABLED, /* tracing was switched off */
	ENTRY_BROKEN,	/* an error, a gap, an overflow */
	ENTRY_END,
};

struct entry {
	uint8_t kind, insn_class;
	bool taken;
	uint64_t ip, end;
	uint64_t offset;
};

/* The decoded side: a queue of entries before the stream's decoder. */
struct path {
	struct ptah_reader *stream;
	struct ptah_block blocks[BLOCKS];
	size_t block, block_count;
	struct entry queue[AHEAD];
	size_t first, count;
	bool ended;
};

/* Packets that a PSB+ repeats, since they say what holds until the next of their kind. */
enum state_packet {
	STATE_CBR,
	STATE_VMCS,
	STATE_PIP,
	STATE_MODE_TSX,
	STATE_MODE_EXEC,
	STATES
};

struct kept_packet {
	uint8_t bytes[8], size; /* size 0: there was none */
};

struct repack {
	const struct repack_config *config;
	struct path path;
	struct ptah_generator g;
	uint8_t buffer[BUFFER + GENERATOR_BURST];
	uint64_t written; /* bytes that the sink has */
	struct repack_piece *pieces;
	size_t count;
	/* The packet that is being read. */
	size_t piece;
	const uint8_t *at;
	uint64_t offset; /* of `at` in the stream */
	uint64_t last_ip;
	bool in_psb, met_psb;
	struct kept_packet kept[STATES];
	bool disabled;	 /* by a TIP.PGD, or a PSB+ without an address */
	bool at_branch;	 /* the path stands where the last packet with a branch led to */
	uint64_t psb_at; /* of the new bytes: where the last PSB is */
	/* Where the last PSB was: what came after it can be done again. */
	struct {
		size_t piece;
		uint64_t in_piece, offset, written;
	} safe;
	uint64_t stepped, copied;
};

/* The decoded side */

static struct entry entry_of_block(const struct ptah_block *b)
{
	return (struct entry){.kind = ENTRY_BLOCK,
			      .insn_class =
				  b->flags & PTAH_ITEM_TRUNCATED ? PTAH_INSN_OTHER : b->insn_class,
			      .taken = b->flags & PTAH_ITEM_TAKEN,
			      .ip = b->ip,
			      .end = b->ip + b->size};
}

/* False: the item does not matter here. */
static bool entry_of_item(const struct ptah_item *item, struct entry *e)
{
	*e = (struct entry){.offset = item->offset};
	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		e->insn_class =
		    item->flags & PTAH_ITEM_TRUNCATED ? PTAH_INSN_OTHER : item->insn_class;
		e->taken = item->flags & PTAH_ITEM_TAKEN;
		e->ip = item->ip;
		e->end = item->end;
		return true;
	case PTAH_ITEM_PSB:
		e->kind = ENTRY_PSB;
		e->ip = item->flags & PTAH_ITEM_IP_SUPPRESSED ? 0 : item->ip;
		return true;
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
		e->kind = ENTRY_DISABLED;
		return true;
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_UNKNOWN:
	case PTAH_ITEM_OVERFLOW:
		e->kind = ENTRY_BROKEN;
		return true;
	default:
		return false;
	}
}

/* Appends the next entry to the queue. A negative result is an error of the session. */
static int path_read(struct path *p)
{
	struct entry *e = &p->queue[(p->first + p->count) % AHEAD];
	struct ptah_item item;
	int status;

	*e = (struct entry){.kind = ENTRY_END};
	while (!p->ended) {
		if (p->block < p->block_count) {
			*e = entry_of_block(&p->blocks[p->block++]);
			break;
		}
		status = ptah_reader_read_blocks(p->stream, p->blocks, BLOCKS);
		if (status < 0)
			return status;
		p->block = 0;
		p->block_count = (size_t)status;
		if (status)
			continue;
		status = ptah_reader_read(p->stream, &item, 1);
		if (status < 0)
			return status;
		p->ended = !status;
		if (status && entry_of_item(&item, e))
			break;
	}
	p->count++;
	return 0;
}

/* The entry n after the first; NULL: it is too far, or an error. */
static const struct entry *path_look(struct path *p, size_t n)
{
	while (p->count <= n)
		if (n >= AHEAD || path_read(p) < 0)
			return NULL;
	return &p->queue[(p->first + n) % AHEAD];
}

static void path_drop(struct path *p)
{
	p->first = (p->first + 1) % AHEAD;
	p->count--;
}

/* Where the first entry, a block, led to. False: not known. */
static bool path_target(struct path *p, uint64_t *to)
{
	const struct entry *e = NULL;

	for (size_t n = 1; n < AHEAD; n++) {
		e = path_look(p, n);
		if (!e || e->kind != ENTRY_PSB)
			break;
	}
	if (!e || e->kind != ENTRY_BLOCK)
		return false;
	*to = e->ip;
	return true;
}

/* Goes on to the next entry of this kind, and over it. False: something else came first. */
static bool path_reach(struct path *p, enum entry_kind kind)
{
	const struct entry *e;

	while ((e = path_look(p, 0)) != NULL && e->kind != ENTRY_END) {
		const enum entry_kind found = e->kind;

		if (found != kind && found != ENTRY_BLOCK)
			return false;
		path_drop(p);
		if (found == kind)
			return true;
	}
	return false;
}

/* Output */

static int put_out(struct repack *r)
{
	const size_t n = (size_t)(r->g.out - r->buffer);
	int status = n ? r->config->sink.put(r->config->sink.context, r->buffer, n) : 0;

	r->g.out = r->buffer;
	r->written += n;
	return status;
}

static inline int make_repack_room(struct repack *r)
{
	return r->g.out - r->buffer >= (ptrdiff_t)BUFFER ? put_out(r) : 0;
}

static int put_raw(struct repack *r, const uint8_t *bytes, uint64_t n)
{
	int status = put_out(r);

	if (status >= 0 && n)
		status = r->config->sink.put(r->config->sink.context, bytes, n);
	r->written += n;
	return status;
}

/* Branches */

enum {
	AGREE = 0,
	DISAGREE = 1
};

/*
 * Goes on to the next branch that takes a packet. Calls before it are noted. NULL: the path does
 * not say.
 */
static const struct entry *next_branch(struct repack *r)
{
	const struct entry *e;
	uint64_t to = 0;

	while ((e = path_look(&r->path, 0)) != NULL) {
		if (e->kind != ENTRY_BLOCK)
			return NULL;
		switch (e->insn_class) {
		case PTAH_INSN_CALL:
			if (!r->g.retcomp)
				break;
			if (!path_target(&r->path, &to))
				return NULL;
			e = path_look(&r->path, 0);
			if (to != e->end)
				generator_call(&r->g, e->end);
			break;
		case PTAH_INSN_OTHER:
		case PTAH_INSN_JUMP:
		case PTAH_INSN_PTWRITE:
			break;
		default:
			return e;
		}
		path_drop(&r->path);
	}
	return NULL;
}

static int repack_tnt(struct repack *r, const struct ptah_packet *packet)
{
	for (unsigned i = packet->u.tnt.count; i-- > 0;) {
		const bool taken = packet->u.tnt.bits >> i & 1;
		const struct entry *e = next_branch(r);
		uint64_t to;

		if (!e)
			return DISAGREE;
		if (e->insn_class == PTAH_INSN_COND && e->taken == taken) {
			generator_tnt(&r->g, taken);
		} else if (e->insn_class == PTAH_INSN_RETURN && taken) {
			if (!path_target(&r->path, &to))
				return DISAGREE;
			generator_return(&r->g, to);
		} else {
			return DISAGREE;
		}
		path_drop(&r->path);
		if (make_repack_room(r) < 0)
			return PTAH_E_SYSTEM;
	}
	return AGREE;
}

static int repack_tip(struct repack *r, uint64_t ip)
{
	const struct entry *e = next_branch(r);

	if (!e)
		return DISAGREE;
	switch (e->insn_class) {
	case PTAH_INSN_RETURN:
		if (r->g.retcomp)
			generator_return(&r->g, ip);
		else
			generator_tip(&r->g, ip);
		break;
	case PTAH_INSN_CALL_IND:
		generator_tip(&r->g, ip);
		generator_call(&r->g, e->end);
		break;
	case PTAH_INSN_COND:
		return DISAGREE;
	default:
		generator_tip(&r->g, ip);
	}
	path_drop(&r->path);
	return AGREE;
}

/* Packets */

static void copy_packet(struct repack *r, unsigned size)
{
	generator_flush_tnt(&r->g);
	memcpy(r->g.out, r->at, size);
	r->g.out += size;
}

/* The packet after this one begins with an address that belongs to it. */
static bool leads_to_ip(const struct repack *r, unsigned size)
{
	const uint8_t *end = r->pieces[r->piece].bytes + r->pieces[r->piece].size;
	struct ptah_packet next;

	return ptah_packet_decode(&next, r->at + size, (size_t)(end - r->at) - size, 0) > 0 &&
	       (next.type == PTAH_PACKET_TIP || next.type == PTAH_PACKET_TIP_PGD);
}

/* An IP packet that ends nothing: FUP, TIP.PGE, and TIP, TIP.PGD with them. */
static void put_ip(struct repack *r, const struct ptah_packet *packet, unsigned opcode)
{
	generator_flush_tnt(&r->g);
	if (packet->u.ip.ipc == PTAH_IPC_SUPPRESSED)
		*r->g.out++ = (uint8_t)opcode;
	else
		generator_ip_packet(&r->g, opcode, r->last_ip);
}

/* FUP: with the TIP or TIP.PGD that follows it. *size: of both. */
static int repack_fup(struct repack *r, const struct ptah_packet *fup, unsigned *size)
{
	const uint8_t *end = r->pieces[r->piece].bytes + r->pieces[r->piece].size;
	struct ptah_packet next;

	put_ip(r, fup, OPCODE_FUP);
	if (!leads_to_ip(r, *size))
		return AGREE;
	ptah_packet_decode(&next, r->at + *size, (size_t)(end - r->at) - *size, 0);
	if (next.u.ip.ipc != PTAH_IPC_SUPPRESSED)
		r->last_ip = packet_expand_ip(r->last_ip, next.u.ip.ipc, next.u.ip.ip);
	*size += next.size;
	if (next.type == PTAH_PACKET_TIP) {
		put_ip(r, &next, OPCODE_TIP);
		return AGREE;
	}
	put_ip(r, &next, OPCODE_TIP_PGD);
	r->g.depth = 0;
	r->disabled = true;
	return path_reach(&r->path, ENTRY_DISABLED) ? AGREE : DISAGREE;
}

/* Goes on to the PSB at the packets' position, and over it. False: it is not next. */
static bool path_reach_psb(struct path *p, uint64_t offset, uint64_t *ip)
{
	const struct entry *e;

	while ((e = path_look(p, 0)) != NULL &&
	       (e->kind == ENTRY_BLOCK || e->kind == ENTRY_DISABLED))
		path_drop(p);
	if (!e || e->kind != ENTRY_PSB || e->offset != offset)
		return false;
	*ip = e->ip;
	path_drop(p);
	return true;
}

static bool takes_no_packet(const struct entry *e)
{
	return e->kind == ENTRY_BLOCK &&
	       (e->insn_class == PTAH_INSN_OTHER || e->insn_class == PTAH_INSN_JUMP ||
		e->insn_class == PTAH_INSN_CALL || e->insn_class == PTAH_INSN_PTWRITE);
}

/*
 * The decoder reports a PSB as soon as it needs a packet. So the blocks from there up to the PSB's
 * address ran before it: their calls are not known after it.
 */
static bool path_skip_to(struct path *p, uint64_t ip)
{
	const struct entry *e;

	for (size_t n = 0; (e = path_look(p, n)) != NULL; n++) {
		if (e->kind != ENTRY_BLOCK || (e->ip <= ip && ip < e->end) || !takes_no_packet(e)) {
			/* Where tracing is off, or will be, there is no such block. */
			while (e->kind == ENTRY_BLOCK && e->ip <= ip && ip < e->end && n--)
				path_drop(p);
			return e->kind != ENTRY_BLOCK || (e->ip <= ip && ip < e->end);
		}
	}
	return false;
}

/* A PSB: both sides must be there, and everything begins anew. */
static int meet_psb(struct repack *r, unsigned size)
{
	uint64_t ip = 0;

	if (!path_reach_psb(&r->path, r->offset, &ip) || (ip && !path_skip_to(&r->path, ip)))
		return DISAGREE;
	generator_flush_tnt(&r->g);
	if (put_out(r) < 0)
		return PTAH_E_SYSTEM;
	r->safe.piece = r->piece;
	r->safe.in_piece = (uint64_t)(r->at - r->pieces[r->piece].bytes);
	r->safe.offset = r->offset;
	r->safe.written = r->written;
	r->psb_at = r->written;
	memset(r->kept, 0, sizeof(r->kept));
	copy_packet(r, size);
	r->g.depth = 0;
	r->last_ip = 0;
	r->in_psb = r->met_psb = r->disabled = true;
	r->at_branch = false;
	return AGREE;
}

static void keep_state(struct repack *r, const struct ptah_packet *packet)
{
	static const uint8_t states[] = {
	    [PTAH_PACKET_CBR] = 1 + STATE_CBR,
	    [PTAH_PACKET_VMCS] = 1 + STATE_VMCS,
	    [PTAH_PACKET_PIP] = 1 + STATE_PIP,
	    [PTAH_PACKET_MODE_TSX] = 1 + STATE_MODE_TSX,
	    [PTAH_PACKET_MODE_EXEC] = 1 + STATE_MODE_EXEC,
	};
	struct kept_packet *kept;

	if (packet->type >= sizeof(states) || !states[packet->type])
		return;
	kept = &r->kept[states[packet->type] - 1];
	kept->size = packet->size;
	memcpy(kept->bytes, r->at, packet->size);
}

/* Within PSB+ all packets stay as they are. */
static int repack_in_psb(struct repack *r, const struct ptah_packet *packet, unsigned size)
{
	copy_packet(r, size);
	r->g.last_ip = r->last_ip;
	r->in_psb = packet->type != PTAH_PACKET_PSBEND;
	keep_state(r, packet);
	if (packet->type == PTAH_PACKET_FUP)
		r->disabled = packet->u.ip.ipc == PTAH_IPC_SUPPRESSED;
	return AGREE;
}

/* Added PSB+ */

/* What is known after this packet of where the path is. */
static void follow_state(struct repack *r, const struct ptah_packet *packet)
{
	keep_state(r, packet);
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
		r->disabled = false;
		r->at_branch = true;
		break;
	case PTAH_PACKET_TIP_PGD:
		r->disabled = r->at_branch = true;
		break;
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_CBR:
		break;
	default: /* FUP, MODE and what belongs to them may need what comes next */
		r->at_branch = false;
	}
}

static bool psb_is_due(const struct repack *r)
{
	const uint64_t at = r->written + (uint64_t)(r->g.out - r->buffer);

	return r->config->psb_period && r->at_branch && r->kept[STATE_MODE_EXEC].size &&
	       at - r->psb_at >= r->config->psb_period;
}

/*
 * A TSC packet with a PSB+ around it: the one place at which the time of a PSB+ is known (SDM "Packet
 * Generation Scenarios", PSB+). The address is that of the block that runs next.
 */
static int put_psb_at_tsc(struct repack *r, unsigned size)
{
	const struct entry *e = path_look(&r->path, 0);

	generator_flush_tnt(&r->g);
	if (!e || (!r->disabled && e->kind != ENTRY_BLOCK)) {
		copy_packet(r, size);
		return AGREE;
	}
	r->psb_at = r->written + (uint64_t)(r->g.out - r->buffer);
	generator_psb_begin(&r->g);
	copy_packet(r, size);
	for (unsigned i = 0; i < STATES; i++) {
		memcpy(r->g.out, r->kept[i].bytes, r->kept[i].size);
		r->g.out += r->kept[i].size;
	}
	if (!r->disabled)
		generator_ip_packet(&r->g, OPCODE_FUP, e->ip);
	generator_psbend(&r->g);
	return AGREE;
}

static int repack_outside_psb(struct repack *r, const struct ptah_packet *packet, unsigned *size)
{
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return repack_tnt(r, packet);
	case PTAH_PACKET_TIP:
		return packet->u.ip.ipc == PTAH_IPC_SUPPRESSED ? DISAGREE
							       : repack_tip(r, r->last_ip);
	case PTAH_PACKET_TIP_PGE:
		put_ip(r, packet, OPCODE_TIP_PGE);
		return AGREE;
	case PTAH_PACKET_TIP_PGD:
		put_ip(r, packet, OPCODE_TIP_PGD);
		r->g.depth = 0;
		return path_reach(&r->path, ENTRY_DISABLED) ? AGREE : DISAGREE;
	case PTAH_PACKET_FUP:
		return repack_fup(r, packet, size);
	case PTAH_PACKET_PAD:
		return AGREE;
	case PTAH_PACKET_TSC:
		if (psb_is_due(r))
			return put_psb_at_tsc(r, *size);
		break;
	default:
		break;
	}
	copy_packet(r, *size);
	return AGREE;
}

static int repack_packet(struct repack *r, const struct ptah_packet *packet, unsigned *size)
{
	int status;

	switch (packet->type) {
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		if (packet->u.ip.ipc != PTAH_IPC_SUPPRESSED)
			r->last_ip =
			    packet_expand_ip(r->last_ip, packet->u.ip.ipc, packet->u.ip.ip);
		break;
	default:
		break;
	}
	if (packet->type == PTAH_PACKET_PSB)
		return meet_psb(r, *size);
	if (packet->type == PTAH_PACKET_OVF || !r->met_psb)
		return DISAGREE;
	if (r->in_psb)
		return repack_in_psb(r, packet, *size);
	status = repack_outside_psb(r, packet, size);
	if (status == AGREE)
		follow_state(r, packet);
	return status;
}

/* Where the sides do not agree */

/* The offset of the next PSB that the path reaches, at `from` or after it. UINT64_MAX: none. */
static uint64_t path_next_psb(struct path *p, uint64_t from)
{
	const struct entry *e;

	while ((e = path_look(p, 0)) != NULL && e->kind != ENTRY_END) {
		if (e->kind == ENTRY_PSB && e->offset >= from)
			return e->offset;
		path_drop(p);
	}
	return UINT64_MAX;
}

/*
 * Copies the bytes from the last PSB to the next one that the decoder takes, as they are, and goes
 * on there.
 */
static int copy_to_next_psb(struct repack *r)
{
	const uint64_t to = path_next_psb(&r->path, r->offset + (r->offset == r->safe.offset));
	uint64_t offset = r->safe.offset, in_piece = r->safe.in_piece;
	int status = r->config->sink.rewind(r->config->sink.context, r->safe.written);

	r->written = r->safe.written;
	r->g.out = r->buffer;
	r->g.tnt = 1;
	for (r->piece = r->safe.piece; status >= 0 && r->piece < r->count; r->piece++) {
		struct repack_piece *p = &r->pieces[r->piece];
		uint64_t n = p->size - in_piece;
		const bool here = to - offset < n;

		if (here)
			n = to - offset;
		status = put_raw(r, p->bytes + in_piece, n);
		r->copied += n;
		offset += n;
		in_piece += n;
		if (here)
			break;
		p->end = r->written;
		p->raw_end = true;
		in_piece = 0;
	}
	r->offset = offset;
	r->at = r->piece < r->count ? r->pieces[r->piece].bytes + in_piece : NULL;
	r->in_psb = false;
	r->safe.piece = r->piece;
	r->safe.in_piece = in_piece;
	r->safe.offset = offset;
	r->safe.written = r->written;
	r->at_branch = false;
	return status;
}

/* All */

static bool step_repack(struct repack *r)
{
	const uint64_t done = r->offset - r->stepped;

	if (!r->config->step || r->offset < r->stepped || done < STEP)
		return true;
	r->stepped = r->offset;
	return r->config->step(r->config->step_context, done);
}

static int repack_one(struct repack *r)
{
	const uint8_t *end = r->pieces[r->piece].bytes + r->pieces[r->piece].size;
	struct ptah_packet packet;
	const int n = ptah_packet_decode(&packet, r->at, (size_t)(end - r->at), 0);
	unsigned size = n > 0 ? (unsigned)n : 0;
	int status = n > 0 ? repack_packet(r, &packet, &size) : DISAGREE;

	/* Padding would come in between. */
	if (n == PTAH_E_MORE && r->piece + 1 < r->count)
		return PTAH_E_BAD_FILE;
	if (status == DISAGREE)
		return copy_to_next_psb(r);
	if (status < 0)
		return status;
	r->at += size;
	r->offset += size;
	return make_repack_room(r);
}

/* The outcomes that wait are sent where a piece ends, so that each ends with a whole packet. */
static int end_piece(struct repack *r)
{
	int status;

	generator_flush_tnt(&r->g);
	status = put_out(r);
	r->pieces[r->piece].end = r->written;
	r->pieces[r->piece].raw_end = false;
	r->piece++;
	r->at = r->piece < r->count ? r->pieces[r->piece].bytes : NULL;
	return status;
}

static int repack_all(struct repack *r)
{
	int status = 0;

	r->at = r->count ? r->pieces[0].bytes : NULL;
	while (status >= 0 && r->piece < r->count) {
		const struct repack_piece *p = &r->pieces[r->piece];

		if (!step_repack(r))
			return 1;
		status = r->at == p->bytes + p->size ? end_piece(r) : repack_one(r);
	}
	return status < 0 ? status : 0;
}

int repack_trace(const struct repack_config *config, struct repack_piece *pieces, size_t count,
		 uint64_t *copied)
{
	struct repack *r = calloc(1, sizeof(*r));
	int status = PTAH_E_NOMEM;

	if (r) {
		r->config = config;
		r->pieces = pieces;
		r->count = count;
		generator_init(&r->g, r->buffer, config->retcomp, false);
		status = ptah_reader_new(config->session, config->stream, NULL, &r->path.stream);
	}
	if (status >= 0)
		status = repack_all(r);
	if (r) {
		*copied = r->copied;
		ptah_reader_free(r->path.stream);
	}
	free(r);
	return status;
}
