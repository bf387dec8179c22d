/* SPDX-License-Identifier: MIT */
#include "base/bits.h"
#include "packet/ip.h"
#include "packet/opcode.h"

/* A packet under construction: the longest one fits, so nothing below checks for room. */
struct draft {
	uint8_t bytes[24];
	unsigned size;
};

static void put(struct draft *d, uint64_t value, unsigned n)
{
	store_le(d->bytes + d->size, value, n);
	d->size += n;
}

static void put_ext(struct draft *d, unsigned opcode)
{
	put(d, OPCODE_EXT | opcode << 8, 2);
}

static bool fits(uint64_t value, unsigned bits)
{
	return bits >= 64 || value >> bits == 0;
}

static int encode_tnt(struct draft *d, const struct ptah_packet *packet)
{
	unsigned count = packet->u.tnt.count;
	unsigned most = packet->type == PTAH_PACKET_TNT_8 ? 6 : 47;
	uint64_t payload;

	if (count < 1 || count > most || !fits(packet->u.tnt.bits, count))
		return PTAH_E_INVAL;
	payload = UINT64_C(1) << count | packet->u.tnt.bits;
	if (packet->type == PTAH_PACKET_TNT_8) {
		put(d, payload << 1, 1);
	} else {
		put_ext(d, EXT_TNT_64);
		put(d, payload, 6);
	}
	return 0;
}

static int encode_ip(struct draft *d, const struct ptah_packet *packet, unsigned opcode)
{
	unsigned bytes;

	if (packet->u.ip.ipc > 7)
		return PTAH_E_INVAL;
	bytes = packet_ip_bytes[packet->u.ip.ipc];
	if (bytes > 8 || !fits(packet->u.ip.ip, 8 * bytes))
		return PTAH_E_INVAL;
	put(d, opcode | (unsigned)packet->u.ip.ipc << 5, 1);
	put(d, packet->u.ip.ip, bytes);
	return 0;
}

static int encode_mode(struct draft *d, const struct ptah_packet *packet)
{
	unsigned payload;

	if (packet->type == PTAH_PACKET_MODE_TSX) {
		if (packet->u.tsx.in_tx && packet->u.tsx.aborted)
			return PTAH_E_INVAL;
		payload = MODE_LEAF_TSX | (packet->u.tsx.in_tx ? MODE_TSX_IN_TX : 0) |
			  (packet->u.tsx.aborted ? MODE_TSX_ABORT : 0);
	} else {
		payload = MODE_LEAF_EXEC | (packet->u.exec.interrupts ? MODE_EXEC_IF : 0);
		if (packet->u.exec.mode == PTAH_EXEC_64)
			payload |= MODE_EXEC_L;
		else if (packet->u.exec.mode == PTAH_EXEC_32)
			payload |= MODE_EXEC_D;
		else if (packet->u.exec.mode != PTAH_EXEC_16)
			return PTAH_E_INVAL;
	}
	put(d, OPCODE_MODE | payload << 8, 2);
	return 0;
}

static int encode_cyc(struct draft *d, const struct ptah_packet *packet)
{
	uint64_t rest = packet->u.cyc.cycles >> 5;
	unsigned wanted = packet->size;

	if (wanted > 10)
		return PTAH_E_INVAL;
	put(d, (packet->u.cyc.cycles & 0x1f) << 3 | (rest || wanted > 1 ? 4 : 0) | 3, 1);
	while (rest || d->size < wanted) {
		uint64_t bits = rest & 0x7f;

		rest >>= 7;
		put(d, bits << 1 | (rest || d->size + 1 < wanted), 1);
	}
	return 0;
}

static int encode_pip(struct draft *d, const struct ptah_packet *packet)
{
	uint64_t cr3 = packet->u.pip.cr3;

	if ((cr3 & 0x1f) || !fits(cr3, 52))
		return PTAH_E_INVAL;
	put_ext(d, EXT_PIP);
	put(d, cr3 >> 5 << 1 | packet->u.pip.non_root, 6);
	return 0;
}

static int encode_vmcs(struct draft *d, const struct ptah_packet *packet)
{
	if ((packet->u.vmcs.base & 0xfff) || !fits(packet->u.vmcs.base, 52))
		return PTAH_E_INVAL;
	put_ext(d, EXT_VMCS);
	put(d, packet->u.vmcs.base >> 12, 5);
	return 0;
}

static int encode_tsc(struct draft *d, const struct ptah_packet *packet)
{
	if (!fits(packet->u.tsc.tsc, 56))
		return PTAH_E_INVAL;
	put(d, OPCODE_TSC, 1);
	put(d, packet->u.tsc.tsc, 7);
	return 0;
}

static int encode_tma(struct draft *d, const struct ptah_packet *packet)
{
	if (!fits(packet->u.tma.fc, 9))
		return PTAH_E_INVAL;
	put_ext(d, EXT_TMA);
	put(d, packet->u.tma.ctc, 3);
	put(d, packet->u.tma.fc, 2);
	return 0;
}

static int encode_ptw(struct draft *d, const struct ptah_packet *packet)
{
	unsigned size = packet->u.ptw.size;

	if ((size != 4 && size != 8) || !fits(packet->u.ptw.payload, 8 * size))
		return PTAH_E_INVAL;
	put_ext(d, EXT_PTW | (size == 8 ? 0x20 : 0) | (packet->u.ptw.ip ? 0x80 : 0));
	put(d, packet->u.ptw.payload, size);
	return 0;
}

static int encode_power(struct draft *d, const struct ptah_packet *packet)
{
	if (packet->type == PTAH_PACKET_PWRE) {
		if (!fits(packet->u.pwre.state, 4) || !fits(packet->u.pwre.sub_state, 4))
			return PTAH_E_INVAL;
		put_ext(d, EXT_PWRE);
		put(d, packet->u.pwre.hw ? 0x80 : 0, 1);
		put(d, (unsigned)packet->u.pwre.state << 4 | packet->u.pwre.sub_state, 1);
		return 0;
	}
	if (!fits(packet->u.pwrx.last, 4) || !fits(packet->u.pwrx.deepest, 4))
		return PTAH_E_INVAL;
	put_ext(d, EXT_PWRX);
	put(d, (unsigned)packet->u.pwrx.last << 4 | packet->u.pwrx.deepest, 1);
	put(d,
	    (packet->u.pwrx.interrupt ? 1u : 0) | (packet->u.pwrx.store ? 4u : 0) |
		(packet->u.pwrx.autonomous ? 8u : 0),
	    4);
	return 0;
}

static int encode_control_flow_event(struct draft *d, const struct ptah_packet *packet)
{
	if (packet->type == PTAH_PACKET_EVD) {
		if (!fits(packet->u.evd.type, 6))
			return PTAH_E_INVAL;
		put_ext(d, EXT_EVD);
		put(d, packet->u.evd.type, 1);
		put(d, packet->u.evd.payload, 8);
		return 0;
	}
	if (!fits(packet->u.cfe.type, 5))
		return PTAH_E_INVAL;
	put_ext(d, EXT_CFE);
	put(d, packet->u.cfe.type | (packet->u.cfe.ip ? 0x80u : 0), 1);
	put(d, packet->u.cfe.vector, 1);
	return 0;
}

static int encode_block(struct draft *d, const struct ptah_packet *packet)
{
	unsigned size;

	if (packet->type == PTAH_PACKET_BEP) {
		put_ext(d, packet->u.bep.ip ? EXT_BEP_IP : EXT_BEP);
		return 0;
	}
	size = packet->type == PTAH_PACKET_BBP ? packet->u.bbp.item_size : packet->u.bip.item_size;
	if (size != 4 && size != 8)
		return PTAH_E_INVAL;
	if (packet->type == PTAH_PACKET_BBP) {
		if (!fits(packet->u.bbp.type, 5))
			return PTAH_E_INVAL;
		put_ext(d, EXT_BBP);
		put(d, packet->u.bbp.type | (size == 4 ? 0x80u : 0), 1);
		return 0;
	}
	if (!fits(packet->u.bip.id, 5) || !fits(packet->u.bip.payload, 8 * size))
		return PTAH_E_INVAL;
	put(d, (unsigned)packet->u.bip.id << 3 | 4, 1);
	put(d, packet->u.bip.payload, size);
	return 0;
}

static int encode_trig(struct draft *d, const struct ptah_packet *packet)
{
	if (!packet->u.trig.has_icnt && packet->u.trig.icnt)
		return PTAH_E_INVAL;
	put(d, OPCODE_TRIG, 1);
	put(d,
	    (packet->u.trig.ip ? 0x80u : 0) | (packet->u.trig.has_icnt ? 0x40u : 0) |
		(packet->u.trig.mult ? 0x20u : 0),
	    1);
	put(d, packet->u.trig.trbv, 1);
	if (packet->u.trig.has_icnt)
		put(d, packet->u.trig.icnt, 2);
	return 0;
}

static int encode(struct draft *d, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
		put(d, OPCODE_PAD, 1);
		return 0;
	case PTAH_PACKET_PSB:
		put(d, PSB_WORD, 8);
		put(d, PSB_WORD, 8);
		return 0;
	case PTAH_PACKET_PSBEND:
		put_ext(d, EXT_PSBEND);
		return 0;
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return encode_tnt(d, packet);
	case PTAH_PACKET_TIP:
		return encode_ip(d, packet, OPCODE_TIP);
	case PTAH_PACKET_TIP_PGE:
		return encode_ip(d, packet, OPCODE_TIP_PGE);
	case PTAH_PACKET_TIP_PGD:
		return encode_ip(d, packet, OPCODE_TIP_PGD);
	case PTAH_PACKET_FUP:
		return encode_ip(d, packet, OPCODE_FUP);
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MODE_TSX:
		return encode_mode(d, packet);
	case PTAH_PACKET_PIP:
		return encode_pip(d, packet);
	case PTAH_PACKET_VMCS:
		return encode_vmcs(d, packet);
	case PTAH_PACKET_CBR:
		put_ext(d, EXT_CBR);
		put(d, packet->u.cbr.ratio, 2);
		return 0;
	case PTAH_PACKET_TSC:
		return encode_tsc(d, packet);
	case PTAH_PACKET_TMA:
		return encode_tma(d, packet);
	case PTAH_PACKET_MTC:
		put(d, OPCODE_MTC, 1);
		put(d, packet->u.mtc.ctc, 1);
		return 0;
	case PTAH_PACKET_CYC:
		return encode_cyc(d, packet);
	case PTAH_PACKET_OVF:
		put_ext(d, EXT_OVF);
		return 0;
	case PTAH_PACKET_STOP:
		put_ext(d, EXT_STOP);
		return 0;
	case PTAH_PACKET_MNT:
		put_ext(d, EXT_EXT2);
		put(d, EXT2_MNT, 1);
		put(d, packet->u.mnt.payload, 8);
		return 0;
	case PTAH_PACKET_PTW:
		return encode_ptw(d, packet);
	case PTAH_PACKET_EXSTOP:
		put_ext(d, packet->u.exstop.ip ? EXT_EXSTOP_IP : EXT_EXSTOP);
		return 0;
	case PTAH_PACKET_MWAIT:
		put_ext(d, EXT_MWAIT);
		put(d, packet->u.mwait.hints, 4);
		put(d, packet->u.mwait.ext, 4);
		return 0;
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
		return encode_power(d, packet);
	case PTAH_PACKET_CFE:
	case PTAH_PACKET_EVD:
		return encode_control_flow_event(d, packet);
	case PTAH_PACKET_BBP:
	case PTAH_PACKET_BIP:
	case PTAH_PACKET_BEP:
		return encode_block(d, packet);
	case PTAH_PACKET_TRIG:
		return encode_trig(d, packet);
	default:
		return PTAH_E_INVAL;
	}
}

int ptah_packet_encode(const struct ptah_packet *packet, uint8_t *bytes, size_t n)
{
	struct draft d = {.size = 0};
	int status = encode(&d, packet);

	if (status < 0)
		return status;
	if (n < d.size)
		return PTAH_E_NOSPACE;
	memcpy(bytes, d.bytes, d.size);
	return (int)d.size;
}
