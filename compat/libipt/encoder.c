/* SPDX-License-Identifier: MIT */
/* pt_enc_* over ptah_packet_encode(). Bits of a packet that libipt would not write are left out. */
#include <ptah/packet.h>

#include "pt_config.h"

#include <stdlib.h>

struct pt_encoder {
	struct config config;
	uint8_t *pos;
};

struct pt_encoder *pt_alloc_encoder(const struct pt_config *config)
{
	struct pt_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder || config_copy(&encoder->config, config) < 0) {
		free(encoder);
		return NULL;
	}
	encoder->pos = encoder->config.user.begin;
	return encoder;
}

void pt_free_encoder(struct pt_encoder *encoder)
{
	free(encoder);
}

const struct pt_config *pt_enc_get_config(const struct pt_encoder *encoder)
{
	return encoder ? &encoder->config.user : NULL;
}

int pt_enc_sync_set(struct pt_encoder *encoder, uint64_t offset)
{
	if (!encoder)
		return -pte_invalid;
	if (offset > config_size(&encoder->config))
		return -pte_eos;
	encoder->pos = encoder->config.user.begin + offset;
	return 0;
}

int pt_enc_get_offset(const struct pt_encoder *encoder, uint64_t *offset)
{
	if (!encoder || !offset)
		return -pte_invalid;
	*offset = (uint64_t)(encoder->pos - encoder->config.user.begin);
	return 0;
}

#define LOW_BITS(n) ((UINT64_C(1) << (n)) - 1)

static int take_ip(struct ptah_packet *to, unsigned type, const struct pt_packet_ip *from)
{
	static const uint8_t bits[] = {
	    [pt_ipc_suppressed] = 0, [pt_ipc_update_16] = 16, [pt_ipc_update_32] = 32,
	    [pt_ipc_sext_48] = 48,   [pt_ipc_update_48] = 48, [pt_ipc_full] = 64,
	};
	unsigned ipc = (unsigned)from->ipc;

	if (ipc >= sizeof(bits) || (ipc && !bits[ipc]))
		return -pte_invalid;
	to->type = (uint8_t)type;
	to->u.ip.ipc = (uint8_t)ipc;
	to->u.ip.ip = bits[ipc] < 64 ? from->ip & LOW_BITS(bits[ipc]) : from->ip;
	return 0;
}

static int take_tnt(struct ptah_packet *to, unsigned type, const struct pt_packet_tnt *from)
{
	to->type = (uint8_t)type;
	to->u.tnt.count = from->bit_size;
	to->u.tnt.bits = from->payload;
	return 0;
}

static int take_ptw(struct ptah_packet *to, const struct pt_packet_ptw *from)
{
	int size = pt_ptw_size(from->plc);

	if (size < 0)
		return size;
	to->type = PTAH_PACKET_PTW;
	to->u.ptw.size = (uint8_t)size;
	to->u.ptw.ip = from->ip;
	to->u.ptw.payload = size == 4 ? from->payload & LOW_BITS(32) : from->payload;
	return 0;
}

/* Packets of power events and of Event Trace. */
static int take_event(struct ptah_packet *to, const struct pt_packet *from)
{
	switch (from->type) {
	case ppt_exstop:
		to->type = PTAH_PACKET_EXSTOP;
		to->u.exstop.ip = from->payload.exstop.ip;
		return 0;
	case ppt_mwait:
		to->type = PTAH_PACKET_MWAIT;
		to->u.mwait.hints = from->payload.mwait.hints;
		to->u.mwait.ext = from->payload.mwait.ext;
		return 0;
	case ppt_pwre:
		to->type = PTAH_PACKET_PWRE;
		to->u.pwre.state = from->payload.pwre.state & LOW_BITS(4);
		to->u.pwre.sub_state = from->payload.pwre.sub_state & LOW_BITS(4);
		to->u.pwre.hw = from->payload.pwre.hw;
		return 0;
	case ppt_pwrx:
		to->type = PTAH_PACKET_PWRX;
		to->u.pwrx.last = from->payload.pwrx.last & LOW_BITS(4);
		to->u.pwrx.deepest = from->payload.pwrx.deepest & LOW_BITS(4);
		to->u.pwrx.interrupt = from->payload.pwrx.interrupt;
		to->u.pwrx.store = from->payload.pwrx.store;
		to->u.pwrx.autonomous = from->payload.pwrx.autonomous;
		return 0;
	case ppt_cfe:
		to->type = PTAH_PACKET_CFE;
		to->u.cfe.type = (unsigned)from->payload.cfe.type & LOW_BITS(5);
		to->u.cfe.vector = from->payload.cfe.vector;
		to->u.cfe.ip = from->payload.cfe.ip;
		return 0;
	case ppt_evd:
		to->type = PTAH_PACKET_EVD;
		to->u.evd.type = (unsigned)from->payload.evd.type & LOW_BITS(6);
		to->u.evd.payload = from->payload.evd.payload;
		return 0;
	case ppt_trig:
		to->type = PTAH_PACKET_TRIG;
		to->u.trig.trbv = from->payload.trig.trbv;
		to->u.trig.ip = from->payload.trig.ip;
		to->u.trig.mult = from->payload.trig.mult;
		to->u.trig.has_icnt = from->payload.trig.icntv;
		to->u.trig.icnt = from->payload.trig.icntv ? from->payload.trig.icnt : 0;
		return 0;
	default:
		return -pte_bad_opc;
	}
}

static int take_packet(struct ptah_packet *to, const struct pt_packet *from)
{
	switch (from->type) {
	case ppt_pad:
		to->type = PTAH_PACKET_PAD;
		return 0;
	case ppt_psb:
		to->type = PTAH_PACKET_PSB;
		return 0;
	case ppt_psbend:
		to->type = PTAH_PACKET_PSBEND;
		return 0;
	case ppt_ovf:
		to->type = PTAH_PACKET_OVF;
		return 0;
	case ppt_stop:
		to->type = PTAH_PACKET_STOP;
		return 0;
	case ppt_fup:
		return take_ip(to, PTAH_PACKET_FUP, &from->payload.ip);
	case ppt_tip:
		return take_ip(to, PTAH_PACKET_TIP, &from->payload.ip);
	case ppt_tip_pge:
		return take_ip(to, PTAH_PACKET_TIP_PGE, &from->payload.ip);
	case ppt_tip_pgd:
		return take_ip(to, PTAH_PACKET_TIP_PGD, &from->payload.ip);
	case ppt_tnt_8:
		return take_tnt(to, PTAH_PACKET_TNT_8, &from->payload.tnt);
	case ppt_tnt_64:
		return take_tnt(to, PTAH_PACKET_TNT_64, &from->payload.tnt);
	case ppt_pip:
		to->type = PTAH_PACKET_PIP;
		to->u.pip.cr3 = from->payload.pip.cr3 & LOW_BITS(52) & ~LOW_BITS(5);
		to->u.pip.non_root = from->payload.pip.nr;
		return 0;
	case ppt_vmcs:
		to->type = PTAH_PACKET_VMCS;
		to->u.vmcs.base = from->payload.vmcs.base & LOW_BITS(52) & ~LOW_BITS(12);
		return 0;
	case ppt_cbr:
		to->type = PTAH_PACKET_CBR;
		to->u.cbr.ratio = from->payload.cbr.ratio;
		return 0;
	case ppt_tsc:
		to->type = PTAH_PACKET_TSC;
		to->u.tsc.tsc = from->payload.tsc.tsc & LOW_BITS(56);
		return 0;
	case ppt_tma:
		to->type = PTAH_PACKET_TMA;
		to->u.tma.ctc = from->payload.tma.ctc;
		to->u.tma.fc = from->payload.tma.fc;
		return 0;
	case ppt_mtc:
		to->type = PTAH_PACKET_MTC;
		to->u.mtc.ctc = from->payload.mtc.ctc;
		return 0;
	case ppt_cyc:
		to->type = PTAH_PACKET_CYC;
		to->u.cyc.cycles = from->payload.cyc.value;
		return 0;
	case ppt_mnt:
		to->type = PTAH_PACKET_MNT;
		to->u.mnt.payload = from->payload.mnt.payload;
		return 0;
	case ppt_ptw:
		return take_ptw(to, &from->payload.ptw);
	default:
		return take_event(to, from);
	}
}

/* Writes MODE from its bits, in any combination. */
static int write_mode(uint8_t *bytes, size_t room, const struct pt_packet_mode *mode)
{
	unsigned bits;

	if (room < 2)
		return -pte_eos;
	if (mode->leaf == pt_mol_exec)
		bits = mode->bits.exec.csl | (unsigned)mode->bits.exec.csd << 1 |
		       (unsigned)mode->bits.exec.iflag << 2;
	else if (mode->leaf == pt_mol_tsx)
		bits = mode->bits.tsx.intx | (unsigned)mode->bits.tsx.abrt << 1;
	else
		return -pte_bad_packet;
	bytes[0] = 0x99;
	bytes[1] = (uint8_t)((unsigned)mode->leaf | bits);
	return 2;
}

/* Which error is reported when a packet has two: for these packets libipt checks the room first. */
static int refusal(const struct ptah_packet *packet, size_t room)
{
	if (packet->type == PTAH_PACKET_TNT_64)
		return room < 8 ? -pte_eos : -pte_invalid;
	if (packet->type == PTAH_PACKET_TMA && room < 7)
		return -pte_eos;
	return -pte_bad_packet;
}

int pt_enc_next(struct pt_encoder *encoder, const struct pt_packet *packet)
{
	struct ptah_packet taken = {.size = 0};
	size_t room;
	int size;

	if (!encoder || !packet)
		return -pte_invalid;
	room = (size_t)(encoder->config.user.end - encoder->pos);
	if (packet->type == ppt_mode) {
		size = write_mode(encoder->pos, room, &packet->payload.mode);
	} else {
		size = take_packet(&taken, packet);
		if (size < 0)
			return size;
		size = ptah_packet_encode(&taken, encoder->pos, room);
		if (size == PTAH_E_NOSPACE)
			return -pte_eos;
		if (size < 0)
			return refusal(&taken, room);
	}
	if (size > 0)
		encoder->pos += size;
	return size;
}
