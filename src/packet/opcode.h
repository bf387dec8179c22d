/* SPDX-License-Identifier: MIT */
/*
 * Opcode bytes (SDM, "Packet Definitions"). Shared by decoder, encoder and
 * event layer's fast paths. Freestanding.
 */
#ifndef PTAH_PACKET_OPCODE_H
#define PTAH_PACKET_OPCODE_H

enum packet_opcode {
	OPCODE_PAD = 0x00,
	OPCODE_EXT = 0x02,
	OPCODE_TSC = 0x19,
	OPCODE_MTC = 0x59,
	OPCODE_MODE = 0x99,
	OPCODE_TRIG = 0xd9,
};

/* CYC: these low two bits; then whether there is a second byte; of that, whether there is a third.
 */
enum packet_opcode_cyc {
	CYC_MASK = 0x03,
	OPCODE_CYC = 0x03,
	CYC_MORE = 0x04,
	CYC_MORE_STILL = 0x01,
};

/* IP packets: these low five bits, IPBytes above. */
enum packet_opcode_ip {
	OPCODE_IP_MASK = 0x1f,
	OPCODE_TIP_PGD = 0x01,
	OPCODE_TIP = 0x0d,
	OPCODE_TIP_PGE = 0x11,
	OPCODE_FUP = 0x1d,
};

/* The byte behind OPCODE_EXT. */
enum packet_opcode_ext {
	EXT_CBR = 0x03,
	EXT_PTW_MASK = 0x1f, /* bit 7: IP, bits 6:5: operand size */
	EXT_PTW = 0x12,
	EXT_CFE = 0x13,
	EXT_PWRE = 0x22,
	EXT_PSBEND = 0x23,
	EXT_BEP = 0x33,
	EXT_PIP = 0x43,
	EXT_EVD = 0x53,
	EXT_EXSTOP = 0x62,
	EXT_BBP = 0x63,
	EXT_TMA = 0x73,
	EXT_PSB = 0x82,
	EXT_STOP = 0x83,
	EXT_PWRX = 0xa2,
	EXT_TNT_64 = 0xa3,
	EXT_BEP_IP = 0xb3,
	EXT_MWAIT = 0xc2,
	EXT_EXT2 = 0xc3,
	EXT_VMCS = 0xc8,
	EXT_EXSTOP_IP = 0xe2,
	EXT_OVF = 0xf3,
};

/* The byte behind EXT_EXT2. */
enum packet_opcode_ext2 {
	EXT2_MNT = 0x88,
};

/* The first payload byte of MODE: its leaf, bits 7:5. */
enum packet_mode {
	MODE_LEAF_MASK = 0xe0,
	MODE_LEAF_EXEC = 0x00,
	MODE_LEAF_TSX = 0x20,
	MODE_EXEC_L = 0x01,
	MODE_EXEC_D = 0x02,
	MODE_EXEC_IF = 0x04,
	MODE_TSX_IN_TX = 0x01,
	MODE_TSX_ABORT = 0x02,
};

#define PSB_WORD UINT64_C(0x8202820282028202)

#endif
