/* SPDX-License-Identifier: MIT */
/*
 * pt_pkt_*: the packets of ptah_packet_decode() as libipt's.
 *
 * libipt has no types for BBP, BIP and BEP (SDM, "PEBS Output to Intel PT"). They are unknown
 * packets here and go to the callback, if there is one. Recognising them keeps the items of a block
 * from being read as TNT packets.
 */
#include <ptah/packet.h>

#include "pt_config.h"
#include "pt_error.h"

#include <stdbool.h>
#include <stdlib.h>

struct pt_packet_decoder {
	struct config config;
	const uint8_t *pos, *sync; /* NULL: not synchronized */
	unsigned block;		   /* enum ptah_packet_block at pos */
};

struct pt_packet_decoder *pt_pkt_alloc_decoder(const struct pt_config *config)
{
	struct pt_packet_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder || config_copy(&decoder->config, config) < 0) {
		free(decoder);
		return NULL;
	}
	return decoder;
}

void pt_pkt_free_decoder(struct pt_packet_decoder *decoder)
{
	free(decoder);
}

const struct pt_config *pt_pkt_get_config(const struct pt_packet_decoder *decoder)
{
	return decoder ? &decoder->config.user : NULL;
}

/* Synchronising */

static int sync_at(struct pt_packet_decoder *decoder, const uint8_t *pos)
{
	if (!pos)
		return -pte_eos;
	decoder->pos = decoder->sync = pos;
	decoder->block = PTAH_BLOCK_NONE;
	return 0;
}

int pt_pkt_sync_forward(struct pt_packet_decoder *decoder)
{
	const struct pt_config *user;
	const uint8_t *from;

	if (!decoder)
		return -pte_invalid;
	user = &decoder->config.user;
	from = decoder->pos;
	if (!from)
		return sync_at(decoder, ptah_packet_find_psb(user->begin, user->end));
	/* A damaged packet may have covered the first bytes of a PSB. */
	if (from == decoder->sync)
		from = from < user->end ? from + 1 : from;
	else
		from -= from - user->begin < PTAH_PACKET_MAX_SIZE - 1 ? from - user->begin
								      : PTAH_PACKET_MAX_SIZE - 1;
	return sync_at(decoder, ptah_packet_find_psb(from, user->end));
}

/*
 * A PSB that contains `pos` is found, too, if enough of it lies before `pos`. libipt looks at eight
 * bytes at an address that is a multiple of eight.
 */
static const uint8_t *psb_before(const struct pt_config *user, const uint8_t *pos)
{
	const size_t rest = (size_t)(user->end - pos), most = PTAH_PACKET_MAX_SIZE - 1;
	const uint8_t *psb =
	    ptah_packet_find_last_psb(user->begin, pos + (rest < most ? rest : most));

	if (!psb || (size_t)(pos - psb) >= ((uintptr_t)pos & 7) + 8)
		return psb;
	return ptah_packet_find_last_psb(user->begin, pos);
}

int pt_pkt_sync_backward(struct pt_packet_decoder *decoder)
{
	const struct pt_config *user;

	if (!decoder)
		return -pte_invalid;
	user = &decoder->config.user;
	return sync_at(decoder, psb_before(user, decoder->pos ? decoder->pos : user->end));
}

int pt_pkt_sync_set(struct pt_packet_decoder *decoder, uint64_t offset)
{
	if (!decoder)
		return -pte_invalid;
	if (offset > config_size(&decoder->config))
		return -pte_eos;
	return sync_at(decoder, decoder->config.user.begin + offset);
}

static int tell_offset(const struct pt_packet_decoder *decoder, const uint8_t *pos,
		       uint64_t *offset)
{
	if (!pos)
		return -pte_nosync;
	*offset = (uint64_t)(pos - decoder->config.user.begin);
	return 0;
}

int pt_pkt_get_offset(const struct pt_packet_decoder *decoder, uint64_t *offset)
{
	if (!decoder || !offset)
		return -pte_invalid;
	return tell_offset(decoder, decoder->pos, offset);
}

int pt_pkt_get_sync_offset(const struct pt_packet_decoder *decoder, uint64_t *offset)
{
	if (!decoder || !offset)
		return -pte_invalid;
	return tell_offset(decoder, decoder->sync, offset);
}

/* Packets */

/* Packets that are not in the table (BBP, BIP, BEP) are unknown to libipt. */
static const uint8_t types[PTAH_PACKET_TYPE_MAX] = {
    [PTAH_PACKET_PAD] = ppt_pad,	 [PTAH_PACKET_PSB] = ppt_psb,
    [PTAH_PACKET_PSBEND] = ppt_psbend,	 [PTAH_PACKET_TNT_8] = ppt_tnt_8,
    [PTAH_PACKET_TNT_64] = ppt_tnt_64,	 [PTAH_PACKET_TIP] = ppt_tip,
    [PTAH_PACKET_TIP_PGE] = ppt_tip_pge, [PTAH_PACKET_TIP_PGD] = ppt_tip_pgd,
    [PTAH_PACKET_FUP] = ppt_fup,	 [PTAH_PACKET_MODE_EXEC] = ppt_mode,
    [PTAH_PACKET_MODE_TSX] = ppt_mode,	 [PTAH_PACKET_PIP] = ppt_pip,
    [PTAH_PACKET_VMCS] = ppt_vmcs,	 [PTAH_PACKET_CBR] = ppt_cbr,
    [PTAH_PACKET_TSC] = ppt_tsc,	 [PTAH_PACKET_TMA] = ppt_tma,
    [PTAH_PACKET_MTC] = ppt_mtc,	 [PTAH_PACKET_CYC] = ppt_cyc,
    [PTAH_PACKET_OVF] = ppt_ovf,	 [PTAH_PACKET_STOP] = ppt_stop,
    [PTAH_PACKET_MNT] = ppt_mnt,	 [PTAH_PACKET_PTW] = ppt_ptw,
    [PTAH_PACKET_EXSTOP] = ppt_exstop,	 [PTAH_PACKET_MWAIT] = ppt_mwait,
    [PTAH_PACKET_PWRE] = ppt_pwre,	 [PTAH_PACKET_PWRX] = ppt_pwrx,
    [PTAH_PACKET_CFE] = ppt_cfe,	 [PTAH_PACKET_EVD] = ppt_evd,
    [PTAH_PACKET_TRIG] = ppt_trig,
};

/* Payloads of power events and of Event Trace. */
static void tell_event_payload(struct pt_packet *to, const struct ptah_packet *from)
{
	switch (from->type) {
	case PTAH_PACKET_EXSTOP:
		to->payload.exstop.ip = from->u.exstop.ip;
		break;
	case PTAH_PACKET_MWAIT:
		to->payload.mwait.hints = from->u.mwait.hints;
		to->payload.mwait.ext = from->u.mwait.ext;
		break;
	case PTAH_PACKET_PWRE:
		to->payload.pwre.state = from->u.pwre.state;
		to->payload.pwre.sub_state = from->u.pwre.sub_state;
		to->payload.pwre.hw = from->u.pwre.hw;
		break;
	case PTAH_PACKET_PWRX:
		to->payload.pwrx.last = from->u.pwrx.last;
		to->payload.pwrx.deepest = from->u.pwrx.deepest;
		to->payload.pwrx.interrupt = from->u.pwrx.interrupt;
		to->payload.pwrx.store = from->u.pwrx.store;
		to->payload.pwrx.autonomous = from->u.pwrx.autonomous;
		break;
	case PTAH_PACKET_CFE:
		to->payload.cfe.type = (enum pt_cfe_type)from->u.cfe.type;
		to->payload.cfe.vector = from->u.cfe.vector;
		to->payload.cfe.ip = from->u.cfe.ip;
		break;
	case PTAH_PACKET_EVD:
		to->payload.evd.type = (enum pt_evd_type)from->u.evd.type;
		to->payload.evd.payload = from->u.evd.payload;
		break;
	case PTAH_PACKET_TRIG:
		to->payload.trig.trbv = from->u.trig.trbv;
		to->payload.trig.icnt = from->u.trig.icnt;
		to->payload.trig.ip = from->u.trig.ip;
		to->payload.trig.icntv = from->u.trig.has_icnt;
		to->payload.trig.mult = from->u.trig.mult;
		break;
	default:
		break;
	}
}

static void tell_payload(struct pt_packet *to, const struct ptah_packet *from)
{
	switch (from->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		to->payload.tnt.bit_size = from->u.tnt.count;
		to->payload.tnt.payload = from->u.tnt.bits;
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		to->payload.ip.ipc = (enum pt_ip_compression)from->u.ip.ipc;
		to->payload.ip.ip = from->u.ip.ip;
		break;
	case PTAH_PACKET_PIP:
		to->payload.pip.cr3 = from->u.pip.cr3;
		to->payload.pip.nr = from->u.pip.non_root;
		break;
	case PTAH_PACKET_VMCS:
		to->payload.vmcs.base = from->u.vmcs.base;
		break;
	case PTAH_PACKET_CBR:
		to->payload.cbr.ratio = from->u.cbr.ratio;
		break;
	case PTAH_PACKET_TSC:
		to->payload.tsc.tsc = from->u.tsc.tsc;
		break;
	case PTAH_PACKET_TMA:
		to->payload.tma.ctc = from->u.tma.ctc;
		to->payload.tma.fc = from->u.tma.fc;
		break;
	case PTAH_PACKET_MTC:
		to->payload.mtc.ctc = from->u.mtc.ctc;
		break;
	case PTAH_PACKET_CYC:
		to->payload.cyc.value = from->u.cyc.cycles;
		break;
	case PTAH_PACKET_MNT:
		to->payload.mnt.payload = from->u.mnt.payload;
		break;
	case PTAH_PACKET_PTW:
		to->payload.ptw.payload = from->u.ptw.payload;
		to->payload.ptw.plc = from->u.ptw.size == 8;
		to->payload.ptw.ip = from->u.ptw.ip;
		break;
	default:
		tell_event_payload(to, from);
		break;
	}
}

/*
 * Copies the bits of MODE, in any combination. MODE.Exec with both CS.L and CS.D and MODE.TSX with
 * both InTX and TXAbort have no meaning; the caller decides.
 */
static int tell_mode(struct pt_packet *to, const uint8_t *pos)
{
	uint8_t bits = pos[1];

	to->type = ppt_mode;
	to->payload.mode.leaf = (enum pt_mode_leaf)(bits & 0xe0);
	if (to->payload.mode.leaf == pt_mol_exec) {
		to->payload.mode.bits.exec.csl = bits & 1;
		to->payload.mode.bits.exec.csd = bits >> 1 & 1;
		to->payload.mode.bits.exec.iflag = bits >> 2 & 1;
	} else if (to->payload.mode.leaf == pt_mol_tsx) {
		to->payload.mode.bits.tsx.intx = bits & 1;
		to->payload.mode.bits.tsx.abrt = bits >> 1 & 1;
	} else {
		return -pte_bad_packet;
	}
	return 2;
}

/*
 * A packet that libipt has no type for: the callback decides. Without a callback, a PEBS packet is
 * skipped.
 */
static int tell_unknown(struct pt_packet_decoder *decoder, struct pt_packet *to,
			const struct ptah_packet *pebs)
{
	int size;

	to->type = ppt_unknown;
	size = config_unknown(&decoder->config, decoder->pos, &to->payload.unknown);
	if (size == -pte_bad_opc && pebs && !decoder->config.user.decode.callback)
		size = pebs->size;
	/* A callback may instead take the whole block as one packet. */
	if (pebs && size == pebs->size)
		decoder->block = ptah_packet_block_state(pebs, decoder->block);
	else if (size > 0)
		decoder->block = PTAH_BLOCK_NONE;
	return size;
}

/* SKZ84: a TMA with reserved bits set is corrupt, and is followed by a meaningless byte. */
static bool is_corrupt_tma(const struct pt_config *user, const uint8_t *pos)
{
	return user->errata.skz84 && (pos[4] || pos[6] & 0xfe);
}

/* The decoder refused the packet at pos: looks at it once more. Returns its size or an error. */
static int tell_refused(struct pt_packet_decoder *decoder, struct pt_packet *to, int status)
{
	const uint8_t *pos = decoder->pos;
	size_t n = (size_t)(decoder->config.user.end - pos);

	if (status == PTAH_E_BAD_OPCODE)
		return tell_unknown(decoder, to, NULL);
	if (status == PTAH_E_BAD_PACKET && n >= 2) {
		if (pos[0] == 0x99)
			return tell_mode(to, pos);
		/* An incomplete PSB is not looked at. */
		if (pos[0] == 0x02 && pos[1] == 0x82 && n < PTAH_PACKET_MAX_SIZE)
			return -pte_eos;
	}
	return error_from_ptah(status);
}

static int tell_packet(struct pt_packet_decoder *decoder, struct pt_packet *to)
{
	const struct pt_config *user = &decoder->config.user;
	const uint8_t *pos = decoder->pos;
	struct ptah_packet packet;
	int size = ptah_packet_decode(&packet, pos, (size_t)(user->end - pos), decoder->block);

	if (size < 0)
		return tell_refused(decoder, to, size);
	if (types[packet.type] == ppt_invalid)
		return tell_unknown(decoder, to, &packet);
	if (decoder->block != PTAH_BLOCK_NONE)
		decoder->block = ptah_packet_block_state(&packet, decoder->block);
	if (types[packet.type] == ppt_mode)
		return tell_mode(to, pos);
	if (packet.type == PTAH_PACKET_TMA && is_corrupt_tma(user, pos)) {
		to->type = ppt_invalid;
		return user->end - pos > size ? size + 1 : -pte_eos;
	}
	to->type = (enum pt_packet_type)types[packet.type];
	tell_payload(to, &packet);
	return size;
}

/* Copies as much as fits into the caller's struct. */
static void copy_packet(struct pt_packet *to, size_t size, const struct pt_packet *from)
{
	memcpy(to, from, size < sizeof(*from) ? size : sizeof(*from));
	if (size > sizeof(*from))
		memset((uint8_t *)to + sizeof(*from), 0, size - sizeof(*from));
}

int pt_pkt_next(struct pt_packet_decoder *decoder, struct pt_packet *packet, size_t size)
{
	/* Filling a struct of one's own and copying it takes half of the whole time. */
	const bool direct = size == sizeof(*packet);
	struct pt_packet told, *to = direct ? packet : &told;
	int bytes;

	if (!packet || !decoder)
		return -pte_invalid;
	if (!decoder->pos)
		return -pte_nosync;
	to->payload.ptw = (struct pt_packet_ptw){0, 0, 0};
	bytes = tell_packet(decoder, to);
	if (bytes < 0)
		return bytes;
	to->size = (uint8_t)bytes;
	decoder->pos += bytes;
	if (!direct)
		copy_packet(packet, size, to);
	return bytes;
}
