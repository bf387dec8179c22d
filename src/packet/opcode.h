/* SPDX-License-Identifier: MIT */
/*
 * The opcodes and sizes of <ptah/packets.def> as constants, for the decoder, the
 * encoder, the packet generator and the loops that look at bytes themselves.
 * Freestanding.
 */
#ifndef PTAH_PACKET_OPCODE_H
#define PTAH_PACKET_OPCODE_H

#include <stdint.h>

/* First bytes that several packets share. */
enum packet_prefix {
	OPCODE_EXT = 0x02,
	OPCODE_MODE = 0x99,
	EXT_EXT2 = 0xc3, /* the second byte, after OPCODE_EXT */
};

/* Where a packet's opcode is: see packets.def. */
enum packet_page {
	PAGE_first,
	PAGE_item,
	PAGE_ext,
	PAGE_ext2,
	PAGE_mode,
};

/* By page: OPCODE_TIP (first byte), ITEM_BIP, EXT_PSB (second), EXT2_MNT (third), LEAF_MODE_TSX. */
enum packet_opcode {
#define PTAH_PACKET(name, sdm, what, section, page, opcode, ...) OPCODE_##page(name, opcode)
#define OPCODE_first(name, opcode)				 OPCODE_##name = (opcode),
#define OPCODE_item(name, opcode)				 ITEM_##name = (opcode),
#define OPCODE_ext(name, opcode)				 EXT_##name = (opcode),
#define OPCODE_ext2(name, opcode)				 EXT2_##name = (opcode),
#define OPCODE_mode(name, opcode)				 LEAF_##name = (opcode),
#include <ptah/packets.def>
#undef OPCODE_first
#undef OPCODE_item
#undef OPCODE_ext
#undef OPCODE_ext2
#undef OPCODE_mode
};

/* The bits of that byte which are the opcode: MASK_TIP. */
enum packet_mask {
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...) MASK_##name = (mask),
#include <ptah/packets.def>
	OPCODE_IP_MASK = MASK_TIP, /* also that of TIP.PGE, TIP.PGD and FUP */
	CYC_MASK = MASK_CYC,
};

/* Bytes on the wire, the fewest where that varies: SIZE_TSC. */
enum packet_size {
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, ...)               \
	SIZE_##name = (least),
#include <ptah/packets.def>
};

/* A CYC continues in another byte if this bit is set, in its first byte or in one that follows. */
enum packet_cyc {
	CYC_MORE = 0x04,
	CYC_MORE_STILL = 0x01,
};

/* The bit of TRIG's second byte that says that ICNT follows. */
enum packet_trig {
	TRIG_HAS_ICNT = 0x40,
};

/* The payload of MODE.Exec: the bits of CS.L and CS.D. */
enum packet_mode_exec {
	MODE_EXEC_L = 0x01,
	MODE_EXEC_D = 0x02,
};

/* A PTW's operand: how many bytes, encoded in its second byte (0: 4, 1: 8). */
enum packet_ptw {
	PTW_SIZE_SHIFT = 5,
	PTW_SIZE_MASK = 3,
};

/* The first two bytes of a packet of page ext, as a little-endian number. */
#define EXT_WORD(name) ((uint32_t)(OPCODE_EXT | EXT_##name << 8))

#define PSB_WORD UINT64_C(0x8202820282028202)

#endif
