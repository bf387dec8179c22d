/* SPDX-License-Identifier: MIT */
/*
 * Packets: the wire format, both ways.
 *
 * The lowest layer. It knows single packets, not what they mean together: the
 * states of IP compression and of PEBS blocks are small values that the caller
 * keeps. Freestanding: no allocation, no global state, usable from any context
 * and any number of threads.
 *
 *	const uint8_t *p = ptah_packet_find_psb(trace, end);
 *	struct ptah_packet pkt;
 *	unsigned block = 0;
 *
 *	while (p && p < end) {
 *		int size = ptah_packet_decode(&pkt, p, (size_t)(end - p), block);
 *		if (size < 0)
 *			break;
 *		block = ptah_packet_block_state(&pkt, block);
 *		p += size;
 *	}
 *
 * Source: Intel SDM Vol. 3C, chapter "Intel Processor Trace", section "Trace
 * Packets and Data Types".
 */
#ifndef PTAH_PACKET_H
#define PTAH_PACKET_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

enum ptah_packet_type {
#define PTAH_PACKET(name, ...) PTAH_PACKET_##name,
#include <ptah/packets.def>
	PTAH_PACKET_TYPE_MAX
};

/* The longest packet on the wire (PSB). */
#define PTAH_PACKET_MAX_SIZE 16

/* IPBytes values (SDM Table "FUP/TIP IP Reconstruction"). */
enum ptah_ip_compression {
	PTAH_IPC_SUPPRESSED = 0, /* no payload; last IP unchanged */
	PTAH_IPC_UPDATE_16 = 1,	 /* replaces bits 15:0 */
	PTAH_IPC_UPDATE_32 = 2,	 /* replaces bits 31:0 */
	PTAH_IPC_SEXT_48 = 3,	 /* 48 bits, sign-extended */
	PTAH_IPC_UPDATE_48 = 4,	 /* replaces bits 47:0 */
	PTAH_IPC_FULL = 6,	 /* all 64 bits */
};

/* Code size; also MODE.Exec's payload. */
enum ptah_exec_mode {
	PTAH_EXEC_UNKNOWN = 0,
	PTAH_EXEC_16 = 1,
	PTAH_EXEC_32 = 2,
	PTAH_EXEC_64 = 3,
};

/* State between BBP and BEP: a byte x with (x & 7) == 4 is a BIP, not a TNT. */
enum ptah_packet_block {
	PTAH_BLOCK_NONE = 0,
	PTAH_BLOCK_ITEMS_4 = 1, /* items of 4 bytes */
	PTAH_BLOCK_ITEMS_8 = 2, /* items of 8 bytes */
};

/* CFE's type (SDM Table "CFE Packet Type and Vector Fields Details"). */
enum ptah_cfe_type {
	PTAH_CFE_INTR = 0x01,
	PTAH_CFE_IRET = 0x02,
	PTAH_CFE_SMI = 0x03,
	PTAH_CFE_RSM = 0x04,
	PTAH_CFE_SIPI = 0x05,
	PTAH_CFE_INIT = 0x06,
	PTAH_CFE_VMENTRY = 0x07,
	PTAH_CFE_VMEXIT = 0x08,
	PTAH_CFE_VMEXIT_INTR = 0x09,
	PTAH_CFE_SHUTDOWN = 0x0a,
	PTAH_CFE_UINTR = 0x0c,
	PTAH_CFE_UIRET = 0x0d,
	PTAH_CFE_SWINTR = 0x0e,
	PTAH_CFE_SYSCALL = 0x0f,
};

/* EVD's type: what its payload is. */
enum ptah_evd_type {
	PTAH_EVD_CR2 = 0x00,
	PTAH_EVD_VMXQ = 0x01, /* exit qualification */
	PTAH_EVD_VMXR = 0x02, /* exit reason */
};

/*
 * One packet. `size` is its length on the wire. Reserved wire bits are ignored
 * when decoding (SDM: "not guaranteed to be 0") and written as 0.
 */
struct ptah_packet {
	uint8_t type; /* enum ptah_packet_type */
	uint8_t size;
	union {
		struct {
			uint8_t ipc; /* enum ptah_ip_compression */
			uint64_t ip; /* the payload bytes as sent, zero-extended */
		} ip;		     /* TIP, TIP_PGE, TIP_PGD, FUP */
		struct {
			uint8_t count; /* 1..6 or 1..47 */
			uint64_t bits; /* outcome of the oldest branch is bit count-1 */
		} tnt;
		struct {
			uint8_t mode;	 /* enum ptah_exec_mode */
			bool interrupts; /* RFLAGS.IF (only with Event Trace) */
		} exec;
		struct {
			bool in_tx;
			bool aborted;
		} tsx;
		struct {
			uint64_t cr3; /* bits 51:5 in place */
			bool non_root;
		} pip;
		struct {
			uint64_t base; /* bits 51:12 in place */
		} vmcs;
		struct {
			uint8_t ratio;
		} cbr;
		struct {
			uint64_t tsc; /* 56 bits */
		} tsc;
		struct {
			uint16_t ctc;
			uint16_t fc; /* 9 bits */
		} tma;
		struct {
			uint8_t ctc;
		} mtc;
		struct {
			uint64_t cycles;
		} cyc;
		struct {
			uint64_t payload;
		} mnt;
		struct {
			uint8_t size; /* 4 or 8 bytes of operand */
			bool ip;      /* a FUP with the PTWRITE's IP follows */
			uint64_t payload;
		} ptw;
		struct {
			bool ip; /* a FUP follows */
		} exstop;
		struct {
			uint32_t hints;
			uint32_t ext;
		} mwait;
		struct {
			uint8_t state;	   /* resolved thread C-state */
			uint8_t sub_state; /* and its sub state */
			bool hw;	   /* entered by the hardware */
		} pwre;
		struct {
			uint8_t last;	 /* last core C-state */
			uint8_t deepest; /* deepest core C-state */
			bool interrupt;
			bool store;
			bool autonomous;
		} pwrx;
		struct {
			uint8_t type; /* enum ptah_cfe_type */
			uint8_t vector;
			bool ip; /* a FUP follows */
		} cfe;
		struct {
			uint8_t type; /* enum ptah_evd_type */
			uint64_t payload;
		} evd;
		struct {
			uint8_t type;
			uint8_t item_size; /* 4 or 8 */
		} bbp;
		struct {
			uint8_t id;
			uint8_t item_size; /* 4 or 8 */
			uint64_t payload;
		} bip;
		struct {
			bool ip; /* a FUP follows */
		} bep;
		struct {
			uint8_t trbv; /* trigger bit vector */
			bool ip;      /* a FUP follows */
			bool mult;
			bool has_icnt;
			uint16_t icnt;
		} trig;
	} u;
};

/*
 * Decodes the packet at `bytes`. `block` is the PEBS block state before it
 * (enum ptah_packet_block; 0 where PEBS via PT is not used).
 *
 * Returns its size in bytes; PTAH_E_MORE when n bytes are a prefix of a valid
 * packet; PTAH_E_BAD_OPCODE; PTAH_E_BAD_PACKET. On failure *packet is not
 * defined.
 */
PTAH_API int ptah_packet_decode(struct ptah_packet *packet, const uint8_t *bytes, size_t n,
				unsigned block);

/*
 * A packet in 16 bytes, for callers that decode many. It holds all of the packet;
 * docs/packets.md says, for each field of each packet, whether it is in `detail` or
 * `payload` and from which bit on (the table comes from packets.def). The most frequent:
 *
 *	             detail   payload
 *	TNT          count    bits
 *	TIP*, FUP    ipc      ip
 *	PIP          non_root cr3
 *	TMA          0        ctc | fc << 16
 *	CYC, MTC, TSC, CBR, VMCS, MNT: the one field they have is the payload
 */
struct ptah_packet_record {
	uint32_t offset; /* from the first byte of the batch */
	uint8_t type;	 /* enum ptah_packet_type */
	uint8_t size;
	uint8_t detail;
	uint8_t reserved; /* 0 */
	uint64_t payload;
};

/* Where a batch begins. The caller sets it once; each call moves it to the end of what was decoded.
 */
struct ptah_packet_cursor {
	const uint8_t *next, *end;
	unsigned block; /* enum ptah_packet_block */
};

/*
 * Decodes packets from cursor->next on: the same that ptah_packet_decode() and
 * ptah_packet_block_state() find one by one, several times faster.
 *
 *	struct ptah_packet_cursor c = {p, end, PTAH_BLOCK_NONE};
 *	struct ptah_packet_record r[1024];
 *	int n;
 *
 *	while ((n = ptah_packet_decode_batch(&c, r, 1024)) > 0)
 *		use(r, n);
 *
 * Returns how many, at least one and perhaps fewer than the capacity (a few
 * hundred are needed for speed). When the first packet cannot be decoded, it
 * returns what ptah_packet_decode() returns for it, PTAH_E_MORE at the end of the
 * bytes. 0 when the capacity is 0. The offsets of the records count from where
 * cursor->next was before the call.
 */
PTAH_API int ptah_packet_decode_batch(struct ptah_packet_cursor *cursor,
				      struct ptah_packet_record *records, size_t capacity);

/* The packet of a record of ptah_packet_decode_batch(). */
PTAH_API void ptah_packet_unpack(struct ptah_packet *packet,
				 const struct ptah_packet_record *record);

/*
 * Writes a packet. Returns its size; PTAH_E_NOSPACE when n is too small;
 * PTAH_E_INVAL when a field does not fit the packet. `packet->size` is only read
 * for a CYC, which gets that many bytes if that is more than it needs.
 */
PTAH_API int ptah_packet_encode(const struct ptah_packet *packet, uint8_t *bytes, size_t n);

/* The PEBS block state after `packet`. */
PTAH_API unsigned ptah_packet_block_state(const struct ptah_packet *packet, unsigned block);

/* The first PSB that is whole in [begin, end), or NULL. */
PTAH_API const uint8_t *ptah_packet_find_psb(const uint8_t *begin, const uint8_t *end);

/* The last one, or NULL. */
PTAH_API const uint8_t *ptah_packet_find_last_psb(const uint8_t *begin, const uint8_t *end);

/*
 * Reconstructs the address of an IP packet (ipc, payload) from *last_ip, and
 * updates *last_ip. For a suppressed IP it leaves *last_ip alone and returns
 * false. The caller sets *last_ip to 0 at a PSB; an OVF does not change it (SDM
 * "Overflow (OVF) Packet").
 */
PTAH_API bool ptah_packet_ip(uint64_t *last_ip, unsigned ipc, uint64_t payload, uint64_t *ip);

/* The shortest compression of `ip` given *last_ip, which is updated. */
PTAH_API unsigned ptah_packet_compress_ip(uint64_t *last_ip, uint64_t ip, uint64_t *payload);

/* The SDM's name of a packet ("TIP.PGE"), NULL when `type` is out of range. */
PTAH_API const char *ptah_packet_name(unsigned type);

/*
 * The payload as text, without the packet's name: "TNNT", "cr3 0x1000 nr", "2:
 * ????????00401000", ... Writes at most n bytes with a NUL. IP packets print the
 * payload as sent with its compression; use ptah_packet_ip() for the address.
 * Returns the length the text has, as snprintf does.
 */
PTAH_API int ptah_packet_format(const struct ptah_packet *packet, char *text, size_t n);

/*
 * The packet as a line of the text that ptah_packet_parse() accepts: its name and
 * payload, followed by ".bytes 02 03 1e ff" where the bytes on the wire are not
 * those that ptah_packet_encode() writes (reserved bits, a CYC that is longer
 * than needed). `packet` NULL: the bytes are no packet, and the line is only
 * ".bytes ...". Otherwise `size` is packet->size. Returns what
 * ptah_packet_format() returns.
 */
PTAH_API int ptah_packet_format_line(const struct ptah_packet *packet, const uint8_t *bytes,
				     size_t size, char *text, size_t n);

/* The state that ptah_packet_parse() keeps from line to line. All 0 at the beginning. */
struct ptah_packet_parser {
	uint64_t last_ip;
	unsigned block; /* enum ptah_packet_block */
	bool whole_ip; /* the next IP is sent whole: after an OVF, where decoders disagree about the
			  last IP */
	size_t at;     /* after PTAH_E_INVAL: the index of the mistake in the line, */
	const char *expected; /* and what was expected there */
};

/*
 * Assembles one line of packet text (NUL-terminated, without a newline) to bytes:
 * what ptah_packet_format_line() and `ptah dump` print, or what ptah-asm(1)
 * describes. Returns how many bytes there are, 0 for a blank line or a comment;
 * PTAH_E_INVAL, and parser->expected says what is wrong; PTAH_E_NOSPACE when n
 * bytes are not enough (PTAH_PACKET_MAX_SIZE, or half the length of a .bytes
 * line). After a failure the parser can be used for the next line.
 */
PTAH_API int ptah_packet_parse(struct ptah_packet_parser *parser, const char *line, uint8_t *bytes,
			       size_t n);

PTAH_END_DECLS

#endif
