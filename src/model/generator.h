/* SPDX-License-Identifier: MIT */
/*
 * The packet generator of the simulated processor: it is given branches and
 * writes the bytes that a PT processor would. Freestanding, one per logical
 * processor or thread, everything inline because a software recorder calls it
 * once per executed block.
 *
 * Room: before each branch or event the caller makes sure that GENERATOR_BURST
 * bytes can be written at `out`. No function here writes more.
 *
 * Return compression follows SDM "Indirect Transfer Compression for Returns": the
 * stack has 64 entries and drops the oldest; it is emptied at PSB, at OVF and
 * when packet generation stops; direct calls to the next instruction are not
 * pushed. One rule is added: a return that does not match the entry it pops
 * empties the stack. By the SDM a decoder pops at every near return, while libipt
 * and perf pop at compressed returns only; with this rule all of them decode the
 * same path.
 */
#ifndef PTAH_MODEL_GENERATOR_H
#define PTAH_MODEL_GENERATOR_H

#include "base/compiler.h"
#include "packet/ip.h"
#include "packet/opcode.h"

#define GENERATOR_BURST 96
#define GENERATOR_STACK 64

/*
 * A value for last_ip where decoders disagree about it or cannot know it: this
 * address is not canonical, so that the next IP packet is sent in full.
 */
#define GENERATOR_NO_IP UINT64_C(0x5555555500000000)

struct ptah_generator {
	uint8_t *out;	   /* the next byte goes here */
	uint64_t tnt;	   /* pending outcomes below a stop bit; 1: none */
	uint64_t tnt_full; /* tnt value from which the packet is sent: 1 << 6 or 1 << 47 */
	uint64_t last_ip;
	uint64_t psb_ip; /* last_ip after a PSB: 0, or GENERATOR_NO_IP */
	bool retcomp;
	uint32_t top;	/* pushes so far, modulo 2^32 */
	uint32_t depth; /* valid entries, at most GENERATOR_STACK */
	uint64_t stack[GENERATOR_STACK];
};

/* long_tnt: send TNT-64 when 47 outcomes are pending, instead of TNT-8 at 6. */
static inline void generator_init(struct ptah_generator *g, uint8_t *out, bool retcomp,
				  bool long_tnt)
{
	memset(g, 0, sizeof(*g));
	g->out = out;
	g->tnt = 1;
	g->tnt_full = UINT64_C(1) << (long_tnt ? 47 : 6);
	g->retcomp = retcomp;
}

static inline void generator_flush_tnt(struct ptah_generator *g)
{
	if (g->tnt == 1)
		return;
	if (g->tnt < (1u << 7)) {
		*g->out++ = (uint8_t)(g->tnt << 1);
	} else {
		store_le16(g->out, EXT_WORD(TNT_64));
		store_le64(g->out + 2, g->tnt);
		g->out += 8;
	}
	g->tnt = 1;
}

/* A conditional branch, or a compressed return (taken). */
static inline void generator_tnt(struct ptah_generator *g, bool taken)
{
	g->tnt = g->tnt << 1 | taken;
	if (g->tnt >= g->tnt_full)
		generator_flush_tnt(g);
}

/* opcode: OPCODE_TIP, OPCODE_TIP_PGE, OPCODE_TIP_PGD or OPCODE_FUP. */
static inline void generator_ip_packet(struct ptah_generator *g, unsigned opcode, uint64_t ip)
{
	unsigned ipc = packet_compress_ip(g->last_ip, ip);

	*g->out = (uint8_t)(opcode | ipc << 5);
	store_le64(g->out + 1, ip);
	g->out += 1 + packet_ip_bytes[ipc];
	g->last_ip = ip;
}

/* An indirect jump or call, or an uncompressed return. */
static inline void generator_tip(struct ptah_generator *g, uint64_t ip)
{
	generator_flush_tnt(g);
	generator_ip_packet(g, OPCODE_TIP, ip);
}

/* A near call that returns to `next`. Not for direct calls with displacement 0. */
static inline void generator_call(struct ptah_generator *g, uint64_t next)
{
	if (!g->retcomp)
		return;
	g->stack[g->top++ % GENERATOR_STACK] = next;
	g->depth += g->depth < GENERATOR_STACK;
}

/* Pops the stack for a near return to `ip`. Returns whether the return is compressed. */
static inline bool generator_pop(struct ptah_generator *g, uint64_t ip)
{
	if (g->depth && g->stack[(g->top - 1) % GENERATOR_STACK] == ip) {
		g->top--;
		g->depth--;
		return true;
	}
	g->depth = 0;
	return false;
}

/* A near return to `ip`. */
static inline void generator_return(struct ptah_generator *g, uint64_t ip)
{
	if (generator_pop(g, ip))
		generator_tnt(g, true);
	else
		generator_tip(g, ip);
}

/* Packet generation starts at `ip`. */
static inline void generator_enable(struct ptah_generator *g, uint64_t ip)
{
	generator_ip_packet(g, OPCODE_TIP_PGE, ip);
}

/* Packet generation stops, at an address that the trace must not carry (a system call when only
 * user code is traced). */
static inline void generator_disable(struct ptah_generator *g)
{
	generator_flush_tnt(g);
	*g->out++ = OPCODE_TIP_PGD;
	g->depth = 0;
}

/* An asynchronous exit before the instruction at `ip` (interrupt, exception) that stops generation.
 */
static inline void generator_async_disable(struct ptah_generator *g, uint64_t ip)
{
	generator_flush_tnt(g);
	generator_ip_packet(g, OPCODE_FUP, ip);
	generator_disable(g);
}

/* Packets were lost. Decoders disagree about last IP after an OVF (libipt: 0; perf: unknown).
 */
static inline void generator_overflow(struct ptah_generator *g)
{
	g->tnt = 1;
	g->depth = 0;
	g->last_ip = GENERATOR_NO_IP;
	store_le16(g->out, EXT_WORD(OVF));
	g->out += 2;
}

static inline void generator_tsc(struct ptah_generator *g, uint64_t tsc)
{
	store_le64(g->out, tsc << 8 | OPCODE_TSC);
	g->out += SIZE_TSC;
}

/* PSB: the state that packets depend on is reset. */
static inline void generator_psb_begin(struct ptah_generator *g)
{
	generator_flush_tnt(g);
	g->depth = 0;
	g->last_ip = g->psb_ip;
	store_le64(g->out, PSB_WORD);
	store_le64(g->out + 8, PSB_WORD);
	g->out += SIZE_PSB;
}

static inline void generator_cbr(struct ptah_generator *g, uint8_t ratio)
{
	store_le32(g->out, EXT_WORD(CBR) | (uint32_t)ratio << 16);
	g->out += SIZE_CBR;
}

/* `mode` is the packet's second byte: CS.L & LMA, CS.D << 1, RFLAGS.IF << 2. */
static inline void generator_mode_exec(struct ptah_generator *g, unsigned mode)
{
	store_le16(g->out, (uint16_t)(OPCODE_MODE | mode << 8));
	g->out += 2;
}

static inline void generator_mode_tsx(struct ptah_generator *g, bool in_tx, bool aborted)
{
	store_le16(g->out, (uint16_t)(OPCODE_MODE | (LEAF_MODE_TSX | in_tx | aborted << 1) << 8));
	g->out += 2;
}

static inline void generator_pip(struct ptah_generator *g, uint64_t cr3, bool non_root)
{
	store_le64(g->out, EXT_WORD(PIP) | (cr3 >> 5 << 17 | (uint64_t)non_root << 16));
	g->out += SIZE_PIP;
}

static inline void generator_vmcs(struct ptah_generator *g, uint64_t base)
{
	store_le64(g->out, EXT_WORD(VMCS) | base >> 12 << 16);
	g->out += SIZE_VMCS;
}

static inline void generator_psbend(struct ptah_generator *g)
{
	store_le16(g->out, EXT_WORD(PSBEND));
	g->out += 2;
}

static inline void generator_trace_stop(struct ptah_generator *g)
{
	store_le16(g->out, EXT_WORD(STOP));
	g->out += 2;
}

/* The end of PSB+: MODE.Exec of 64-bit code, FUP with the current IP when packets are enabled,
 * PSBEND. */
static inline void generator_psb_end(struct ptah_generator *g, bool enabled, uint64_t ip)
{
	generator_mode_exec(g, 1);
	if (enabled)
		generator_ip_packet(g, OPCODE_FUP, ip);
	generator_psbend(g);
}

/* PSB+ (SDM "Packet Stream Boundary+") with TSC and CBR. At most 42 bytes. */
static inline void generator_psb(struct ptah_generator *g, uint64_t tsc, uint8_t ratio,
				 bool enabled, uint64_t ip)
{
	generator_psb_begin(g);
	generator_tsc(g, tsc);
	generator_cbr(g, ratio);
	generator_psb_end(g, enabled, ip);
}

#endif
