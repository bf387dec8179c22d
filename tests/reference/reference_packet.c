/* SPDX-License-Identifier: MIT */
/* Bytes to packets. SDM "Packet Definitions", in the order of its tables. */
#include "decoder_parts.h"

static uint64_t number(const uint8_t *p, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << 8 * i;
	return value;
}

static int sized(struct packet *k, unsigned type, size_t size, size_t n)
{
	k->type = type;
	k->size = size;
	return n < size ? PTAH_E_MORE : 0;
}

/* The outcomes are the bits below the highest one that is set. */
static int outcomes(struct packet *k, uint64_t payload)
{
	if (payload < 2)
		return PTAH_E_BAD_PACKET;
	k->count = 0;
	while (payload >> (k->count + 1))
		k->count++;
	k->value = payload - (UINT64_C(1) << k->count);
	return 0;
}

/* "Taken/Not-taken (TNT) Packet", long form. */
static int tnt_64(struct packet *k, const uint8_t *p, size_t n)
{
	if (sized(k, PTAH_PACKET_TNT_64, 8, n))
		return PTAH_E_MORE;
	return outcomes(k, number(p + 2, 6));
}

/* "Target IP (TIP) Packet" and those of its form; IPBytes is the opcode's bits 7:5. */
static int ip_packet(struct packet *k, unsigned type, const uint8_t *p, size_t n)
{
	unsigned bytes;

	k->count = p[0] / 32;
	switch (k->count) {
	case 0:
		bytes = 0;
		break;
	case 1:
		bytes = 2;
		break;
	case 2:
		bytes = 4;
		break;
	case 3:
	case 4:
		bytes = 6;
		break;
	case 6:
		bytes = 8;
		break;
	default: /* reserved */
		return PTAH_E_BAD_PACKET;
	}
	if (sized(k, type, 1 + bytes, n))
		return PTAH_E_MORE;
	k->value = number(p + 1, bytes);
	return 0;
}

/* "MODE Packets": MODE.Exec (CS.L and LMA, CS.D, IF) and MODE.TSX (InTX, TXAbort). */
static int mode(struct packet *k, const uint8_t *p, size_t n)
{
	if (sized(k, PTAH_PACKET_MODE_EXEC, 2, n))
		return PTAH_E_MORE;
	if (p[1] / 32 > 1)
		return PTAH_E_BAD_PACKET;
	k->first = p[1] & 1;
	k->second = p[1] & 2;
	k->third = p[1] & 4;
	if (k->first && k->second) /* both are set: there is no such state */
		return PTAH_E_BAD_PACKET;
	if (p[1] / 32 == 1)
		k->type = PTAH_PACKET_MODE_TSX;
	else
		k->value = k->first ? PTAH_EXEC_64 : k->second ? PTAH_EXEC_32 : PTAH_EXEC_16;
	return 0;
}

/* "Cycle Count (CYC) Packet": five bits, then seven in each byte; the count has 64 bits. */
static int cyc(struct packet *k, const uint8_t *p, size_t n)
{
	bool more = p[0] & 4;

	k->type = PTAH_PACKET_CYC;
	k->value = p[0] >> 3;
	for (k->size = 1; more; k->size++) {
		unsigned place = 5 + 7 * (unsigned)(k->size - 1);
		uint64_t bits;

		if (place > 63)
			return PTAH_E_BAD_PACKET;
		if (k->size == n)
			return PTAH_E_MORE;
		bits = p[k->size] / 2;
		if (place > 57 && bits >> (64 - place))
			return PTAH_E_BAD_PACKET;
		k->value |= bits << place;
		more = p[k->size] & 1;
	}
	return 0;
}

/* "Packet Stream Boundary (PSB) Packet" */
static int psb(struct packet *k, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < 16 && i < n; i++)
		if (p[i] != (i % 2 ? 0x82 : 0x02))
			return PTAH_E_BAD_PACKET;
	return sized(k, PTAH_PACKET_PSB, 16, n);
}

/* "PTW Packet": 02, IP:1 PayloadBytes:2 10010, operand */
static int ptw(struct packet *k, const uint8_t *p, size_t n)
{
	unsigned bytes = p[1] / 32 % 4;

	if (bytes > 1)
		return PTAH_E_BAD_PACKET;
	k->ip = p[1] & 0x80;
	k->count = bytes ? 8 : 4;
	if (sized(k, PTAH_PACKET_PTW, 2 + k->count, n))
		return PTAH_E_MORE;
	k->value = number(p + 2, k->count);
	return 0;
}

/* "Maintenance (MNT) Packet": 02 C3 88 */
static int mnt(struct packet *k, const uint8_t *p, size_t n)
{
	if (n < 3)
		return PTAH_E_MORE;
	if (p[2] != 0x88)
		return PTAH_E_BAD_OPCODE;
	if (sized(k, PTAH_PACKET_MNT, 11, n))
		return PTAH_E_MORE;
	k->value = number(p + 3, 8);
	return 0;
}

/* "Trigger (TRIG) Packet" */
static int trig(struct packet *k, const uint8_t *p, size_t n)
{
	if (n < 2)
		return PTAH_E_MORE;
	k->ip = p[1] & 0x80;
	k->first = p[1] & 0x40; /* ICNTV */
	k->second = p[1] & 0x20;
	if (sized(k, PTAH_PACKET_TRIG, k->first ? 5 : 3, n))
		return PTAH_E_MORE;
	k->value = p[2];
	k->other = k->first ? number(p + 3, 2) : 0;
	return 0;
}

/* The size of a packet of two opcode bytes, by the second; 0: it is none of these. */
static size_t size_of_extended(uint8_t opcode, unsigned *type)
{
	static const struct {
		uint8_t opcode, type, size;
	} table[] = {
	    {0x43, PTAH_PACKET_PIP, 8},	   {0x03, PTAH_PACKET_CBR, 4},
	    {0x73, PTAH_PACKET_TMA, 7},	   {0xf3, PTAH_PACKET_OVF, 2},
	    {0x23, PTAH_PACKET_PSBEND, 2}, {0x83, PTAH_PACKET_STOP, 2},
	    {0xc8, PTAH_PACKET_VMCS, 7},   {0x62, PTAH_PACKET_EXSTOP, 2},
	    {0xe2, PTAH_PACKET_EXSTOP, 2}, {0xc2, PTAH_PACKET_MWAIT, 10},
	    {0x22, PTAH_PACKET_PWRE, 4},   {0xa2, PTAH_PACKET_PWRX, 7},
	    {0x63, PTAH_PACKET_BBP, 3},	   {0x33, PTAH_PACKET_BEP, 2},
	    {0xb3, PTAH_PACKET_BEP, 2},	   {0x13, PTAH_PACKET_CFE, 4},
	    {0x53, PTAH_PACKET_EVD, 11},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (table[i].opcode != opcode)
			continue;
		*type = table[i].type;
		return table[i].size;
	}
	return 0;
}

static void fields(struct packet *k, const uint8_t *p)
{
	switch (k->type) {
	case PTAH_PACKET_PIP: /* NR, then CR3[51:5] */
		k->first = p[2] & 1;
		k->value = number(p + 2, 6) >> 1 << 5;
		break;
	case PTAH_PACKET_VMCS: /* bits 51:12 */
		k->value = number(p + 2, 5) << 12;
		break;
	case PTAH_PACKET_CBR:
		k->value = p[2];
		break;
	case PTAH_PACKET_EXSTOP:
	case PTAH_PACKET_BEP:
		k->ip = p[1] & 0x80;
		break;
	case PTAH_PACKET_MWAIT: /* hints in 31:0, extensions in 63:32 */
		k->value = number(p + 2, 8);
		break;
	case PTAH_PACKET_PWRE: /* HW; resolved thread C-state and sub C-state */
		k->first = p[2] & 0x80;
		k->value = p[3] >> 4;
		k->other = p[3] & 15;
		break;
	case PTAH_PACKET_PWRX: /* last and deepest core C-state; wake reason */
		k->value = p[2] >> 4;
		k->other = p[2] & 15;
		k->first = p[3] & 1;
		k->second = p[3] & 4;
		k->third = p[3] & 8;
		break;
	case PTAH_PACKET_BBP:
		k->count = p[2] & 0x80 ? 4 : 8;
		k->value = p[2] & 31;
		break;
	case PTAH_PACKET_CFE:
		k->ip = p[2] & 0x80;
		k->value = p[2] & 31;
		k->other = p[3];
		break;
	case PTAH_PACKET_EVD:
		k->other = p[2] & 63;
		k->value = number(p + 3, 8);
		break;
	default:
		break;
	}
}

static int extended(struct packet *k, const uint8_t *p, size_t n)
{
	size_t size;

	if (n < 2)
		return PTAH_E_MORE;
	if (p[1] == 0x82)
		return psb(k, p, n);
	if (p[1] == 0xa3)
		return tnt_64(k, p, n);
	if (p[1] == 0xc3)
		return mnt(k, p, n);
	if ((p[1] & 0x1f) == 0x12)
		return ptw(k, p, n);
	size = size_of_extended(p[1], &k->type);
	if (!size)
		return PTAH_E_BAD_OPCODE;
	if (sized(k, k->type, size, n))
		return PTAH_E_MORE;
	fields(k, p);
	return 0;
}

/* Opcodes of one byte that are odd. */
static int odd(struct packet *k, const uint8_t *p, size_t n)
{
	switch (p[0]) {
	case 0x19:
		return sized(k, PTAH_PACKET_TSC, 8, n);
	case 0x59:
		return sized(k, PTAH_PACKET_MTC, 2, n);
	case 0x99:
		return mode(k, p, n);
	case 0xd9:
		return trig(k, p, n);
	default:
		break;
	}
	switch (p[0] % 32) {
	case 0x0d:
		return ip_packet(k, PTAH_PACKET_TIP, p, n);
	case 0x11:
		return ip_packet(k, PTAH_PACKET_TIP_PGE, p, n);
	case 0x01:
		return ip_packet(k, PTAH_PACKET_TIP_PGD, p, n);
	case 0x1d:
		return ip_packet(k, PTAH_PACKET_FUP, p, n);
	default:
		return p[0] % 4 == 3 ? cyc(k, p, n) : PTAH_E_BAD_OPCODE;
	}
}

int packet_read(struct packet *k, const uint8_t *p, size_t n, unsigned item_size)
{
	memset(k, 0, sizeof(*k));
	if (!n)
		return PTAH_E_MORE;
	if (p[0] % 2)
		return odd(k, p, n);
	if (p[0] == 0x02)
		return extended(k, p, n);
	/* "Block Item Packet (BIP)": outside of a block its opcode is that of a TNT. */
	if (item_size && p[0] % 8 == 4) {
		if (sized(k, PTAH_PACKET_BIP, 1 + item_size, n))
			return PTAH_E_MORE;
		k->count = item_size;
		k->other = p[0] >> 3;
		k->value = number(p + 1, item_size);
		return 0;
	}
	if (!p[0])
		return sized(k, PTAH_PACKET_PAD, 1, n);
	sized(k, PTAH_PACKET_TNT_8, 1, n);
	return outcomes(k, p[0] / 2);
}

/*
 * A PSB's pattern cannot continue after the PSB, but it can begin before it (when an IP ends with
 * 02 82). So in a longer run of the pattern the last 16 bytes are the PSB, unless there is room for
 * two.
 */
size_t packet_find_psb(const uint8_t *trace, size_t at, size_t size)
{
	for (; size - at >= 16; at++) {
		struct packet k;
		size_t run = 16;

		if (packet_read(&k, trace + at, size - at, 0) || k.type != PTAH_PACKET_PSB)
			continue;
		while (size - at - run >= 2 && trace[at + run] == 0x02 &&
		       trace[at + run + 1] == 0x82)
			run += 2;
		return run < 32 ? at + run - 16 : at;
	}
	return size;
}

/* SDM "FUP/TIP IP Reconstruction" */
uint64_t packet_ip(const struct packet *k, uint64_t last_ip)
{
	const uint64_t high_bit = UINT64_C(1) << 47;

	switch (k->count) {
	case 1:
		return last_ip >> 16 << 16 | k->value;
	case 2:
		return last_ip >> 32 << 32 | k->value;
	case 3: /* bit 47 is extended */
		return (k->value ^ high_bit) - high_bit;
	case 4:
		return last_ip >> 48 << 48 | k->value;
	default:
		return k->value;
	}
}
