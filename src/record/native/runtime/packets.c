/* SPDX-License-Identifier: MIT */
/*
 * The packets that the runtime puts in between units: PSB+, and where tracing begins and ends.
 * Addresses are written with 48 bits, sign-extended, as in the units' own packets: so none of them
 * depends on what stands before it.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
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

uint8_t *packets_put(uint8_t *at, const uint8_t *bytes, unsigned n)
{
	volatile uint8_t *to = at; /* the compiler keeps the order */

	for (unsigned i = 0; i < n; i++)
		to[i] = bytes[i];
	return at + n;
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned n)
{
	volatile uint8_t *to = at;

	for (unsigned i = 0; i < n; i++)
		to[i] = (uint8_t)(value >> 8 * i);
	return at + n;
}

static uint8_t *put_ip(uint8_t *at, unsigned opcode, uint64_t ip)
{
	return put(put(at, IP_WITH(opcode), 1), ip, IP_BYTES);
}

static uint8_t *put_tsc(struct context *c, uint8_t *at)
{
	if (!c->runtime->tsc)
		return at;
	c->stamp = __builtin_ia32_rdtsc();
	return put(put(at, OPCODE_TSC, 1), c->stamp, TSC_BYTES);
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
	at = put_psb(c, at);
	if (filter_is_on(c))
		at = put_ip(put_mode(at), OPCODE_FUP, ip);
	return put_psbend(at);
}

/* With address filters each TIP.PGE has its MODE. */
uint8_t *packets_psb_disabled(struct context *c, uint8_t *at)
{
	at = put_psbend(put_psb(c, at));
	return c->runtime->filters ? at : put_mode(at);
}

uint8_t *packets_begin(struct context *c, uint8_t *at, uint64_t ip)
{
	c->traced = filter_traces(c->runtime, ip);
	at = packets_psb(c, at, ip);
	return filter_stops(c->runtime, ip) ? packets_stop(c, at) : at;
}

/* Where tracing was off, a PSB+ may have come that had no MODE. */
static uint8_t *put_enable(const struct context *c, uint8_t *at, uint64_t ip)
{
	return put_ip(c->runtime->filters ? put_mode(at) : at, OPCODE_TIP_PGE, ip);
}

/* The time is told in any case: the kernel may have mapped code. */
uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip)
{
	at = put_tsc(c, at);
	c->traced = filter_traces(c->runtime, ip);
	if (c->traced)
		return put_enable(c, at, ip);
	return filter_stops(c->runtime, ip) ? packets_stop(c, at) : at;
}

/* Without an IP: where the program went is not in the trace. */
static uint8_t *put_disable(struct context *c, uint8_t *at)
{
	returns_forget(c);
	if (!filter_is_on(c))
		return at;
	c->traced = false;
	return put(at, OPCODE_TIP_PGD, 1);
}

/*
 * The time at which the program stops. It stands before the packets that lead the decoder to the
 * place, so there is none if code has changed since the last changes_mark(): the decoder would have
 * the new bytes too early.
 */
static uint8_t *put_stamp(struct context *c, uint8_t *at)
{
	return filter_is_on(c) && c->changes_seen == changes_version(c) ? put_tsc(c, at) : at;
}

uint8_t *packets_disable(struct context *c, uint8_t *at)
{
	return put_disable(c, put_stamp(c, at));
}

static uint8_t *put_async_disable(struct context *c, uint8_t *at, uint64_t ip)
{
	return put_disable(c, filter_is_on(c) ? put_ip(at, OPCODE_FUP, ip) : at);
}

uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip)
{
	return put_async_disable(c, put_stamp(c, at), ip);
}

/* Without a time before FUP: see changes_mark(). */
uint8_t *packets_mark(struct context *c, uint8_t *at, uint64_t ip)
{
	const bool on = filter_is_on(c);

	at = put_tsc(c, put_async_disable(c, at, ip));
	c->traced = on;
	return on ? put_enable(c, at, ip) : at;
}

uint8_t *packets_stop(struct context *c, uint8_t *at)
{
	return ring_stop(c, put(at, OPCODE_EXT | EXT_STOP << 8, 2));
}

unsigned packets_branch(uint8_t bytes[PACKETS_BRANCH], bool before, bool after, bool indirect,
			uint64_t target)
{
	uint8_t *at = bytes;

	if (before && !after)
		at = put_ip(at, OPCODE_TIP_PGD, target);
	else if (!before && after)
		at = put_ip(put_mode(at), OPCODE_TIP_PGE, target);
	else if (before && indirect)
		at = put_ip(at, OPCODE_TIP, target);
	return (unsigned)(at - bytes);
}

uint8_t *packets_room(struct context *c, uint64_t ip)
{
	uint8_t *at = (uint8_t *)c->log;
	const uint8_t *end = c->logs[NATIVE_LOG_TRACE].chunk + c->runtime->chunk_bytes;

	if (end - at < PACKETS_MAX + PACKETS_OUTCOMES) {
		at = packets_psb(c, ring_next(c, NATIVE_LOG_TRACE, at), ip);
		c->log = (uint64_t)at;
	}
	return at;
}
