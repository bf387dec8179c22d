/* SPDX-License-Identifier: MIT */
#include "packet/ip.h"
#include "packet/opcode.h"

/* A fixed-size packet: its type and size, or PTAH_E_MORE. */
static int fixed(struct ptah_packet *packet, unsigned type, unsigned size, size_t n)
{
	if (n < size)
		return PTAH_E_MORE;
	packet->type = (uint8_t)type;
	packet->size = (uint8_t)size;
	return (int)size;
}

static int decode_psb(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	for (size_t i = 2; i < 16 && i < n; i++)
		if (p[i] != (i & 1 ? EXT_PSB : OPCODE_EXT))
			return PTAH_E_BAD_PACKET;
	return fixed(packet, PTAH_PACKET_PSB, 16, n);
}

static int decode_tnt_8(struct ptah_packet *packet, uint8_t byte)
{
	unsigned count = highest_bit(byte) - 1;

	packet->type = PTAH_PACKET_TNT_8;
	packet->size = 1;
	packet->u.tnt.count = (uint8_t)count;
	packet->u.tnt.bits = (byte >> 1) & ((1u << count) - 1);
	return 1;
}

static int decode_tnt_64(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	int size = fixed(packet, PTAH_PACKET_TNT_64, 8, n);
	uint64_t payload;
	unsigned count;

	if (size < 0)
		return size;
	payload = load_le(p + 2, 6);
	if (payload <= 1) /* no stop bit, or nothing below it */
		return PTAH_E_BAD_PACKET;
	count = highest_bit(payload);
	packet->u.tnt.count = (uint8_t)count;
	packet->u.tnt.bits = payload & ((UINT64_C(1) << count) - 1);
	return size;
}

static int decode_ip(struct ptah_packet *packet, unsigned type, const uint8_t *p, size_t n)
{
	unsigned ipc = p[0] >> 5;
	unsigned bytes = packet_ip_bytes[ipc];

	if (bytes > 8)
		return PTAH_E_BAD_PACKET;
	if (n < 1 + bytes)
		return PTAH_E_MORE;
	packet->type = (uint8_t)type;
	packet->size = (uint8_t)(1 + bytes);
	packet->u.ip.ipc = (uint8_t)ipc;
	packet->u.ip.ip = load_le(p + 1, bytes);
	return packet->size;
}

static int decode_mode(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	static const uint8_t modes[4] = {
	    PTAH_EXEC_16,
	    [MODE_EXEC_L] = PTAH_EXEC_64,
	    [MODE_EXEC_D] = PTAH_EXEC_32,
	    [MODE_EXEC_L | MODE_EXEC_D] = PTAH_EXEC_UNKNOWN,
	};

	if (n < 2)
		return PTAH_E_MORE;
	switch (p[1] & MODE_LEAF_MASK) {
	case MODE_LEAF_EXEC:
		packet->u.exec.mode = modes[p[1] & (MODE_EXEC_L | MODE_EXEC_D)];
		packet->u.exec.interrupts = p[1] & MODE_EXEC_IF;
		if (packet->u.exec.mode == PTAH_EXEC_UNKNOWN)
			return PTAH_E_BAD_PACKET;
		return fixed(packet, PTAH_PACKET_MODE_EXEC, 2, n);
	case MODE_LEAF_TSX:
		packet->u.tsx.in_tx = p[1] & MODE_TSX_IN_TX;
		packet->u.tsx.aborted = p[1] & MODE_TSX_ABORT;
		if (packet->u.tsx.in_tx && packet->u.tsx.aborted)
			return PTAH_E_BAD_PACKET;
		return fixed(packet, PTAH_PACKET_MODE_TSX, 2, n);
	default:
		return PTAH_E_BAD_PACKET;
	}
}

/* SDM "Cycle Count (CYC) Packet": 5 bits, then 7 more in each further byte. */
static int decode_cyc(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	uint64_t cycles = p[0] >> 3;
	bool more = p[0] & 4;
	unsigned shift = 5, size = 1;

	while (more) {
		uint64_t bits;

		if (size >= n)
			return shift < 64 ? PTAH_E_MORE : PTAH_E_BAD_PACKET;
		bits = p[size] >> 1;
		if (shift >= 64 || bits << shift >> shift != bits)
			return PTAH_E_BAD_PACKET;
		cycles |= bits << shift;
		more = p[size] & 1;
		shift += 7;
		size++;
	}
	packet->type = PTAH_PACKET_CYC;
	packet->size = (uint8_t)size;
	packet->u.cyc.cycles = cycles;
	return (int)size;
}

static int decode_pip(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	int size = fixed(packet, PTAH_PACKET_PIP, 8, n);

	if (size > 0) {
		uint64_t payload = load_le(p + 2, 6);

		packet->u.pip.non_root = payload & 1;
		packet->u.pip.cr3 = payload >> 1 << 5;
	}
	return size;
}

static int decode_ptw(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	unsigned encoded = p[1] >> 5 & 3;
	unsigned operand = encoded == 0 ? 4 : 8;
	int size;

	if (encoded > 1)
		return PTAH_E_BAD_PACKET;
	size = fixed(packet, PTAH_PACKET_PTW, 2 + operand, n);
	if (size > 0) {
		packet->u.ptw.size = (uint8_t)operand;
		packet->u.ptw.ip = p[1] & 0x80;
		packet->u.ptw.payload = load_le(p + 2, operand);
	}
	return size;
}

static int decode_power_exit(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	int size = fixed(packet, PTAH_PACKET_PWRX, 7, n);

	if (size > 0) {
		packet->u.pwrx.deepest = p[2] & 0xf;
		packet->u.pwrx.last = p[2] >> 4;
		packet->u.pwrx.interrupt = p[3] & 1;
		packet->u.pwrx.store = p[3] & 4;
		packet->u.pwrx.autonomous = p[3] & 8;
	}
	return size;
}

static int decode_bip(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	unsigned item = block == PTAH_BLOCK_ITEMS_4 ? 4 : 8;
	int size = fixed(packet, PTAH_PACKET_BIP, 1 + item, n);

	if (size > 0) {
		packet->u.bip.id = p[0] >> 3;
		packet->u.bip.item_size = (uint8_t)item;
		packet->u.bip.payload = load_le(p + 1, item);
	}
	return size;
}

static int decode_trig(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	int size;

	if (n < 2)
		return PTAH_E_MORE;
	size = fixed(packet, PTAH_PACKET_TRIG, p[1] & 0x40 ? 5 : 3, n);
	if (size > 0) {
		packet->u.trig.ip = p[1] & 0x80;
		packet->u.trig.has_icnt = p[1] & 0x40;
		packet->u.trig.mult = p[1] & 0x20;
		packet->u.trig.trbv = p[2];
		packet->u.trig.icnt = size == 5 ? load_le16(p + 3) : 0;
	}
	return size;
}

/* Packets whose payload is a few plain fields at fixed places. */
static int decode_plain(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned type,
			unsigned length)
{
	int size = fixed(packet, type, length, n);

	if (size < 0)
		return size;
	switch (type) {
	case PTAH_PACKET_CBR:
		packet->u.cbr.ratio = p[2];
		break;
	case PTAH_PACKET_TMA:
		packet->u.tma.ctc = load_le16(p + 2);
		packet->u.tma.fc = load_le16(p + 5) & 0x1ff;
		break;
	case PTAH_PACKET_VMCS:
		packet->u.vmcs.base = load_le(p + 2, 5) << 12;
		break;
	case PTAH_PACKET_MWAIT:
		packet->u.mwait.hints = load_le32(p + 2);
		packet->u.mwait.ext = load_le32(p + 6);
		break;
	case PTAH_PACKET_PWRE:
		packet->u.pwre.hw = p[2] & 0x80;
		packet->u.pwre.state = p[3] >> 4;
		packet->u.pwre.sub_state = p[3] & 0xf;
		break;
	case PTAH_PACKET_CFE:
		packet->u.cfe.type = p[2] & 0x1f;
		packet->u.cfe.ip = p[2] & 0x80;
		packet->u.cfe.vector = p[3];
		break;
	case PTAH_PACKET_EVD:
		packet->u.evd.type = p[2] & 0x3f;
		packet->u.evd.payload = load_le64(p + 3);
		break;
	case PTAH_PACKET_BBP:
		packet->u.bbp.type = p[2] & 0x1f;
		packet->u.bbp.item_size = p[2] & 0x80 ? 4 : 8;
		break;
	case PTAH_PACKET_EXSTOP:
		packet->u.exstop.ip = p[1] == EXT_EXSTOP_IP;
		break;
	case PTAH_PACKET_BEP:
		packet->u.bep.ip = p[1] == EXT_BEP_IP;
		break;
	default: /* PSBEND, OVF, TraceStop: no payload */
		break;
	}
	return size;
}

static int decode_mnt(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	int size;

	if (n < 3)
		return PTAH_E_MORE;
	if (p[2] != EXT2_MNT)
		return PTAH_E_BAD_OPCODE;
	size = fixed(packet, PTAH_PACKET_MNT, 11, n);
	if (size > 0)
		packet->u.mnt.payload = load_le64(p + 3);
	return size;
}

static int decode_ext(struct ptah_packet *packet, const uint8_t *p, size_t n)
{
	if (n < 2)
		return PTAH_E_MORE;
	switch (p[1]) {
	case EXT_PSB:
		return decode_psb(packet, p, n);
	case EXT_TNT_64:
		return decode_tnt_64(packet, p, n);
	case EXT_PIP:
		return decode_pip(packet, p, n);
	case EXT_PWRX:
		return decode_power_exit(packet, p, n);
	case EXT_EXT2:
		return decode_mnt(packet, p, n);
	case EXT_PSBEND:
		return decode_plain(packet, p, n, PTAH_PACKET_PSBEND, 2);
	case EXT_OVF:
		return decode_plain(packet, p, n, PTAH_PACKET_OVF, 2);
	case EXT_STOP:
		return decode_plain(packet, p, n, PTAH_PACKET_STOP, 2);
	case EXT_CBR:
		return decode_plain(packet, p, n, PTAH_PACKET_CBR, 4);
	case EXT_TMA:
		return decode_plain(packet, p, n, PTAH_PACKET_TMA, 7);
	case EXT_VMCS:
		return decode_plain(packet, p, n, PTAH_PACKET_VMCS, 7);
	case EXT_EXSTOP:
	case EXT_EXSTOP_IP:
		return decode_plain(packet, p, n, PTAH_PACKET_EXSTOP, 2);
	case EXT_MWAIT:
		return decode_plain(packet, p, n, PTAH_PACKET_MWAIT, 10);
	case EXT_PWRE:
		return decode_plain(packet, p, n, PTAH_PACKET_PWRE, 4);
	case EXT_CFE:
		return decode_plain(packet, p, n, PTAH_PACKET_CFE, 4);
	case EXT_EVD:
		return decode_plain(packet, p, n, PTAH_PACKET_EVD, 11);
	case EXT_BBP:
		return decode_plain(packet, p, n, PTAH_PACKET_BBP, 3);
	case EXT_BEP:
	case EXT_BEP_IP:
		return decode_plain(packet, p, n, PTAH_PACKET_BEP, 2);
	default:
		if ((p[1] & EXT_PTW_MASK) == EXT_PTW)
			return decode_ptw(packet, p, n);
		return PTAH_E_BAD_OPCODE;
	}
}

int ptah_packet_decode(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	int size;

	if (!n)
		return PTAH_E_MORE;
	if (!(p[0] & 1)) {
		if (p[0] == OPCODE_EXT)
			return decode_ext(packet, p, n);
		if (block != PTAH_BLOCK_NONE && (p[0] & 7) == 4)
			return decode_bip(packet, p, n, block);
		if (p[0] == OPCODE_PAD)
			return fixed(packet, PTAH_PACKET_PAD, 1, n);
		return decode_tnt_8(packet, p[0]);
	}
	if ((p[0] & 3) == 3)
		return decode_cyc(packet, p, n);
	switch (p[0]) {
	case OPCODE_TSC:
		size = fixed(packet, PTAH_PACKET_TSC, 8, n);
		if (size > 0)
			packet->u.tsc.tsc = load_le(p + 1, 7);
		return size;
	case OPCODE_MTC:
		size = fixed(packet, PTAH_PACKET_MTC, 2, n);
		if (size > 0)
			packet->u.mtc.ctc = p[1];
		return size;
	case OPCODE_MODE:
		return decode_mode(packet, p, n);
	case OPCODE_TRIG:
		return decode_trig(packet, p, n);
	default:
		break;
	}
	switch (p[0] & OPCODE_IP_MASK) {
	case OPCODE_TIP:
		return decode_ip(packet, PTAH_PACKET_TIP, p, n);
	case OPCODE_TIP_PGE:
		return decode_ip(packet, PTAH_PACKET_TIP_PGE, p, n);
	case OPCODE_TIP_PGD:
		return decode_ip(packet, PTAH_PACKET_TIP_PGD, p, n);
	case OPCODE_FUP:
		return decode_ip(packet, PTAH_PACKET_FUP, p, n);
	default:
		return PTAH_E_BAD_OPCODE;
	}
}

unsigned ptah_packet_block_state(const struct ptah_packet *packet, unsigned block)
{
	switch (packet->type) {
	case PTAH_PACKET_BBP:
		return packet->u.bbp.item_size == 4 ? PTAH_BLOCK_ITEMS_4 : PTAH_BLOCK_ITEMS_8;
	/* These may stand between BBP and BEP. */
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_MNT:
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_EXSTOP:
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
	case PTAH_PACKET_BIP:
		return block;
	default:
		return PTAH_BLOCK_NONE;
	}
}

bool ptah_packet_ip(uint64_t *last_ip, unsigned ipc, uint64_t payload, uint64_t *ip)
{
	if (ipc == PTAH_IPC_SUPPRESSED)
		return false;
	*last_ip = packet_expand_ip(*last_ip, ipc, payload);
	*ip = *last_ip;
	return true;
}

unsigned ptah_packet_compress_ip(uint64_t *last_ip, uint64_t ip, uint64_t *payload)
{
	unsigned ipc = packet_compress_ip(*last_ip, ip);
	unsigned bytes = packet_ip_bytes[ipc];

	*payload = bytes < 8 ? ip & ((UINT64_C(1) << 8 * bytes) - 1) : ip;
	*last_ip = ip;
	return ipc;
}
