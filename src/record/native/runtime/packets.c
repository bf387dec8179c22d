/* SPDX-License-Identifier: MIT */
/*
 * The packets that the runtime puts in between units: PSB+, and where tracing begins and ends.
 * Addresses are written with 48 bits, sign-extended, as in the units' own packets: so none of them
 * depends on what stands before it.
 */
#include "record/native/runtime/runtime.h"

#include "packet/opcode.h"

#include <ptah/packet.h>

#define IP_BYTES	6
#define TSC_BYTES	7
#define PSB_PAIRS	8
#define MODE_EXEC_CS_L	1 /* 64-bit code: SDM Vol. 3C, "MODE.Exec Packet" */
#define IP_WITH(opcode) ((opcode) | PTAH_IPC_SEXT_48 << 5)

_Static_assert(2 * PSB_PAIRS == SIZE_PSB, "");
_Static_assert(1 + TSC_BYTES == SIZE_TSC, "");

static uint8_t *put(uint8_t *at, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		*at++ = (uint8_t)(value >> 8 * i);
	return at;
}

static uint8_t *put_ip(uint8_t *at, unsigned opcode, uint64_t ip)
{
	*at++ = (uint8_t)IP_WITH(opcode);
	return put(at, ip, IP_BYTES);
}

static uint8_t *put_tsc(const struct context *c, uint8_t *at)
{
	if (!c->runtime->tsc)
		return at;
	*at++ = OPCODE_TSC;
	return put(at, __builtin_ia32_rdtsc(), TSC_BYTES);
}

static uint8_t *put_psb(struct context *c, uint8_t *at)
{
	returns_forget(c);
	for (unsigned i = 0; i < PSB_PAIRS; i++)
		at = put(at, OPCODE_EXT | EXT_PSB << 8, 2);
	return put_tsc(c, at);
}

static uint8_t *put_mode(uint8_t *at)
{
	return put(at, OPCODE_MODE | (LEAF_MODE_EXEC | MODE_EXEC_CS_L) << 8, 2);
}

static uint8_t *put_psbend(uint8_t *at)
{
	return put(at, OPCODE_EXT | EXT_PSBEND << 8, 2);
}

uint8_t *packets_psb(struct context *c, uint8_t *at, uint64_t ip)
{
	return put_psbend(put_ip(put_mode(put_psb(c, at)), OPCODE_FUP, ip));
}

uint8_t *packets_psb_disabled(struct context *c, uint8_t *at)
{
	return put_mode(put_psbend(put_psb(c, at)));
}

uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip)
{
	return put_ip(put_tsc(c, at), OPCODE_TIP_PGE, ip);
}

/* Without an IP: where the program went is not in the trace. */
uint8_t *packets_disable(struct context *c, uint8_t *at)
{
	returns_forget(c);
	return put(at, OPCODE_TIP_PGD, 1);
}

uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip)
{
	return packets_disable(c, put_ip(at, OPCODE_FUP, ip));
}

uint8_t *packets_room(struct context *c, uint64_t ip)
{
	uint8_t *at = (uint8_t *)c->log;
	const uint8_t *end = c->logs[NATIVE_LOG_TRACE].chunk + NATIVE_CHUNK;

	if (end - at < PACKETS_MAX + PACKETS_OUTCOMES) {
		at = packets_psb(c, ring_next(c, NATIVE_LOG_TRACE, at), ip);
		c->log = (uint64_t)at;
	}
	return at;
}
