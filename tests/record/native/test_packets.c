/* SPDX-License-Identifier: MIT */
/* The packets between units, as the library's decoder reads them. */
#include "test.h"

#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"

#include <ptah/packet.h>

#include <stdlib.h>
#include <x86intrin.h>

/* A context without its table, and two chunks. */
struct world {
	struct context context;
	struct runtime runtime;
	uint8_t chunks[2][NATIVE_CHUNK + PACKETS_MAX];
	const uint8_t *published; /* what ring_next() was called with */
	unsigned calls;
};

static struct world *world;

/* The runtime's ring, in this test. */
uint8_t *ring_next(struct context *c, unsigned log, const uint8_t *end)
{
	assert_ptr_equal(c, &world->context);
	assert_int_equal(log, NATIVE_LOG_TRACE);
	world->published = end;
	world->calls++;
	c->logs[log].chunk = world->chunks[1];
	c->logs[log].number++;
	return world->chunks[1];
}

/* Address filters: what they say of every address. */
static bool has, ends;

bool filter_has(const struct runtime *rt, uint64_t ip)
{
	(void)ip;
	assert_ptr_equal(rt, &world->runtime);
	return has && !ends;
}

bool filter_ends(const struct runtime *rt, uint64_t ip)
{
	(void)ip;
	assert_ptr_equal(rt, &world->runtime);
	return ends;
}

uint8_t *ring_stop(struct context *c, uint8_t *end)
{
	assert_ptr_equal(c, &world->context);
	world->published = end;
	return world->chunks[1];
}

/* The code's version; the thread has seen version 0. */
static uint32_t version;

uint32_t changes_version(const struct context *c)
{
	assert_ptr_equal(c, &world->context);
	return version;
}

static struct context *begin(bool tsc)
{
	memset(world, 0xa5, sizeof(*world));
	world->calls = 0;
	world->runtime.tsc = tsc;
	world->runtime.chunk_bytes = NATIVE_CHUNK;
	world->runtime.filters = NULL;
	world->context.runtime = &world->runtime;
	world->context.changes_seen = 0;
	world->context.logs[NATIVE_LOG_TRACE].chunk = world->chunks[0];
	world->context.log = (uint64_t)(uintptr_t)world->chunks[0];
	return &world->context;
}

/* Addresses of programs: low, high, the vsyscall page, and where bits 15, 31 and 47 matter. */
static const uint64_t addresses[] = {
    0,
    0x401000,
    0xffff8000,
    UINT64_C(0x555555554000),
    UINT64_C(0x7fffffffffff),
    UINT64_C(0xffffffffff600000),
    UINT64_C(0xffff800000000000),
};
#define ADDRESSES (sizeof(addresses) / sizeof(*addresses))

/* The packets of [at, end) one by one; an address is whole, whatever stood before. */
struct reader {
	const uint8_t *at, *end;
	uint64_t last_ip;
	struct ptah_packet packet;
};

static void expect(struct reader *r, enum ptah_packet_type type)
{
	int size = ptah_packet_decode(&r->packet, r->at, (size_t)(r->end - r->at), 0);
	assert_true(size > 0);
	assert_int_equal(r->packet.type, type);
	r->at += size;
}

static void expect_ip(struct reader *r, enum ptah_packet_type type, uint64_t wanted)
{
	uint64_t ip = 0;
	expect(r, type);
	/* A last IP that no packet has set must not matter. */
	r->last_ip = UINT64_C(0x1234567812345678);
	assert_true(ptah_packet_ip(&r->last_ip, r->packet.u.ip.ipc, r->packet.u.ip.ip, &ip));
	assert_true(ip == wanted);
}

static void expect_tsc(struct reader *r, uint64_t from, uint64_t to)
{
	expect(r, PTAH_PACKET_TSC);
	const uint64_t mask = (UINT64_C(1) << 56) - 1;
	assert_true(r->packet.u.tsc.tsc - (from & mask) <= to - from);
}

static void expect_psb(struct reader *r, bool tsc, uint64_t ip, uint64_t from)
{
	expect(r, PTAH_PACKET_PSB);
	if (tsc)
		expect_tsc(r, from, __rdtsc());
	expect(r, PTAH_PACKET_MODE_EXEC);
	assert_int_equal(r->packet.u.exec.mode, PTAH_EXEC_64);
	assert_false(r->packet.u.exec.interrupts);
	expect_ip(r, PTAH_PACKET_FUP, ip);
	expect(r, PTAH_PACKET_PSBEND);
}

TEST(all)
{
	for (unsigned tsc = 0; tsc < 2; tsc++) {
		for (size_t i = 0; i < ADDRESSES; i++) {
			struct context *c = begin(tsc);
			uint8_t *at = world->chunks[0];
			uint64_t from = __rdtsc(), ip = addresses[i];
			struct reader r = {.at = at};

			r.end = packets_psb(c, at, ip);
			assert_true(r.end - at <= PACKETS_MAX);
			expect_psb(&r, tsc, ip, from);
			assert_ptr_equal(r.at, r.end);

			r.at = at;
			r.end = packets_psb_disabled(c, at);
			assert_true(r.end - at <= PACKETS_MAX);
			expect(&r, PTAH_PACKET_PSB);
			if (tsc)
				expect_tsc(&r, from, __rdtsc());
			expect(&r, PTAH_PACKET_PSBEND);
			/* SDM: the mode is reported before TIP.PGE. */
			expect(&r, PTAH_PACKET_MODE_EXEC);
			assert_int_equal(r.packet.u.exec.mode, PTAH_EXEC_64);
			assert_ptr_equal(r.at, r.end);

			r.at = at;
			r.end = packets_enable(c, at, ip);
			assert_true(r.end - at <= PACKETS_MAX);
			if (tsc)
				expect_tsc(&r, from, __rdtsc());
			expect_ip(&r, PTAH_PACKET_TIP_PGE, ip);
			assert_ptr_equal(r.at, r.end);

			r.at = at;
			r.end = packets_disable(c, at);
			if (tsc)
				expect_tsc(&r, from, __rdtsc());
			expect(&r, PTAH_PACKET_TIP_PGD);
			assert_int_equal(r.packet.u.ip.ipc, PTAH_IPC_SUPPRESSED);
			assert_ptr_equal(r.at, r.end);

			/* FUP and TIP.PGD, and TIP.PGE after it, fit into the room of one call. */
			r.at = at;
			r.end = packets_enable(c, packets_async_disable(c, at, ip), ip);
			assert_true(r.end - at <= PACKETS_MAX);
			if (tsc)
				expect_tsc(&r, from, __rdtsc());
			expect_ip(&r, PTAH_PACKET_FUP, ip);
			expect(&r, PTAH_PACKET_TIP_PGD);
			assert_int_equal(r.packet.u.ip.ipc, PTAH_IPC_SUPPRESSED);
			if (tsc)
				expect_tsc(&r, from, __rdtsc());
			expect_ip(&r, PTAH_PACKET_TIP_PGE, ip);
			assert_ptr_equal(r.at, r.end);
		}
	}
}

TEST(room)
{
	for (int left = -3; left <= PACKETS_MAX + PACKETS_OUTCOMES + 3; left++) {
		struct context *c = begin(true);
		uint8_t *at = world->chunks[0] + NATIVE_CHUNK - left;
		uint64_t from = __rdtsc();
		c->log = (uint64_t)(uintptr_t)at;
		uint8_t *got = packets_room(c, 0x401000);
		assert_true(c->log == (uint64_t)(uintptr_t)got);
		if (left >= PACKETS_MAX + PACKETS_OUTCOMES) {
			assert_int_equal(world->calls, 0);
			assert_ptr_equal(got, at);
			continue;
		}
		/* Another chunk begins with PSB+, behind which there is room. */
		assert_int_equal(world->calls, 1);
		assert_ptr_equal(world->published, at);
		struct reader r = {.at = world->chunks[1], .end = got};
		expect_psb(&r, true, 0x401000, from);
		assert_ptr_equal(r.at, got);
		assert_true(world->chunks[1] + NATIVE_CHUNK - got >= PACKETS_MAX);
	}
}

static void expect_enable(struct reader *r, uint64_t ip)
{
	expect(r, PTAH_PACKET_MODE_EXEC);
	assert_int_equal(r->packet.u.exec.mode, PTAH_EXEC_64);
	expect_ip(r, PTAH_PACKET_TIP_PGE, ip);
}

/* SDM, Table "Packet Generation under Different Enable Conditions": nothing while FilterEn is 0. */
TEST(filters)
{
	struct context *c = begin(true);
	uint8_t *at = world->chunks[0];
	struct reader r = {.at = at};
	const uint64_t ip = 0x401000;

	world->runtime.filters =
	    (struct filters *)&has; /* only whether there are any counts here */
	has = ends = false;
	r.end = packets_begin(c, at, ip);
	expect(&r, PTAH_PACKET_PSB);
	expect(&r, PTAH_PACKET_TSC);
	expect(&r, PTAH_PACKET_PSBEND);
	assert_ptr_equal(r.at, r.end);
	assert_ptr_equal(packets_async_disable(c, at, ip), at);
	assert_ptr_equal(packets_disable(c, at), at);
	r.at = at;
	r.end = packets_mark(c, packets_enable(c, at, ip), ip);
	expect(&r, PTAH_PACKET_TSC);
	expect(&r, PTAH_PACKET_TSC);
	assert_ptr_equal(r.at, r.end);
	assert_false(filter_is_on(c));

	has = true;
	r.at = at;
	r.end = packets_enable(c, at, ip);
	expect(&r, PTAH_PACKET_TSC);
	expect_enable(&r, ip);
	/* A mark leaves it on, also outside of the ranges. */
	has = false;
	r.end = packets_mark(c, (uint8_t *)r.end, ip);
	expect_ip(&r, PTAH_PACKET_FUP, ip);
	expect(&r, PTAH_PACKET_TIP_PGD);
	expect(&r, PTAH_PACKET_TSC);
	expect_enable(&r, ip);
	/* Where code has changed that the trace does not know of, no time comes before the place. */
	version = 1;
	r.end = packets_disable(c, (uint8_t *)r.end);
	version = 0;
	expect(&r, PTAH_PACKET_TIP_PGD);
	assert_ptr_equal(r.at, r.end);
	assert_true(r.end - at <= PACKETS_MAX);
	assert_false(filter_is_on(c));
}

/* TraceStop is the last packet. */
TEST(stop)
{
	struct context *c = begin(true);
	struct reader r = {.at = world->chunks[0]};

	world->runtime.filters = (struct filters *)&has;
	has = ends = true;
	c->traced = false;
	assert_ptr_equal(packets_enable(c, world->chunks[0], 0x401000), world->chunks[1]);
	r.end = world->published;
	expect(&r, PTAH_PACKET_TSC);
	expect(&r, PTAH_PACKET_STOP);
	assert_ptr_equal(r.at, r.end);
}

/* SDM, Table "TIP.PGD Packet Definition": the target of a branch that leaves a range is told. */
TEST(branches)
{
	for (unsigned i = 0; i < 8; i++) {
		const bool before = i & 1, after = i & 2, indirect = i & 4;
		uint8_t bytes[PACKETS_BRANCH];
		struct reader r = {.at = bytes};

		begin(true);
		r.end = bytes + packets_branch(bytes, before, after, indirect, 0x401000);
		if (before && !after)
			expect_ip(&r, PTAH_PACKET_TIP_PGD, 0x401000);
		else if (!before && after)
			expect_enable(&r, 0x401000);
		else if (before && indirect)
			expect_ip(&r, PTAH_PACKET_TIP, 0x401000);
		assert_ptr_equal(r.at, r.end);
	}
}

static int prepare(void **state)
{
	(void)state;
	world = malloc(sizeof(*world));
	return world ? 0 : -1;
}

static int finish(void **state)
{
	(void)state;
	free(world);
	return 0;
}

TEST_GROUP(prepare, finish)
