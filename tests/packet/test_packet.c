/* SPDX-License-Identifier: MIT */
/*
 * The wire format against the SDM's packet definitions: bytes written down by
 * hand from its tables, decoded, and encoded back to the same bytes.
 */
#include "random.h"
#include "test.h"

#include "base/bits.h"
#include "packet/ip.h"

#include <ptah/packet.h>

#include <stdlib.h>
#include <string.h>

#define DECODE(p, block, ...)                                                                      \
	do {                                                                                       \
		const uint8_t bytes_[] = {__VA_ARGS__};                                            \
		uint8_t again_[32];                                                                \
		assert_int_equal(ptah_packet_decode(p, bytes_, sizeof(bytes_), block),             \
				 sizeof(bytes_));                                                  \
		assert_int_equal((p)->size, sizeof(bytes_));                                       \
		assert_int_equal(ptah_packet_encode(p, again_, sizeof(again_)), sizeof(bytes_));   \
		assert_memory_equal(bytes_, again_, sizeof(bytes_));                               \
		for (size_t n_ = 0; n_ < sizeof(bytes_); n_++) {                                   \
			struct ptah_packet cut_;                                                   \
			assert_int_equal(ptah_packet_decode(&cut_, bytes_, n_, block),             \
					 PTAH_E_MORE);                                             \
		}                                                                                  \
	} while (0)

#define REFUSE(status, block, ...)                                                                 \
	do {                                                                                       \
		const uint8_t bytes_[] = {__VA_ARGS__};                                            \
		struct ptah_packet p_;                                                             \
		assert_int_equal(ptah_packet_decode(&p_, bytes_, sizeof(bytes_), block), status);  \
	} while (0)

TEST(tnt)
{
	struct ptah_packet p;

	DECODE(&p, 0, 0x04); /* stop bit, one outcome: not taken */
	assert_int_equal(p.type, PTAH_PACKET_TNT_8);
	assert_int_equal(p.u.tnt.count, 1);
	assert_int_equal(p.u.tnt.bits, 0);
	DECODE(&p, 0, 0xfe);
	assert_int_equal(p.u.tnt.count, 6);
	assert_int_equal(p.u.tnt.bits, 0x3f);
	DECODE(&p, 0, 0xa8); /* 1 010100 0: the oldest is the highest below the stop bit */
	assert_int_equal(p.u.tnt.count, 6);
	assert_int_equal(p.u.tnt.bits, 0x14);
	DECODE(&p, 0, 0x02, 0xa3, 0x01, 0, 0, 0, 0, 0x80); /* 47 outcomes, the youngest taken */
	assert_int_equal(p.type, PTAH_PACKET_TNT_64);
	assert_int_equal(p.u.tnt.count, 47);
	assert_int_equal(p.u.tnt.bits, 1);
	REFUSE(PTAH_E_BAD_PACKET, 0, 0x02, 0xa3, 0, 0, 0, 0, 0, 0);
}

TEST(ip_packets)
{
	struct ptah_packet p;

	DECODE(&p, 0, 0x0d);
	assert_int_equal(p.type, PTAH_PACKET_TIP);
	assert_int_equal(p.u.ip.ipc, PTAH_IPC_SUPPRESSED);
	DECODE(&p, 0, 0x31, 0x34, 0x12);
	assert_int_equal(p.type, PTAH_PACKET_TIP_PGE);
	assert_int_equal(p.u.ip.ip, 0x1234);
	DECODE(&p, 0, 0x41, 0x78, 0x56, 0x34, 0x12);
	assert_int_equal(p.type, PTAH_PACKET_TIP_PGD);
	assert_int_equal(p.u.ip.ip, 0x12345678);
	DECODE(&p, 0, 0x7d, 1, 2, 3, 4, 5, 0x86);
	assert_int_equal(p.type, PTAH_PACKET_FUP);
	assert_int_equal(p.u.ip.ip, 0x860504030201);
	DECODE(&p, 0, 0x8d, 1, 2, 3, 4, 5, 6);
	assert_int_equal(p.u.ip.ipc, PTAH_IPC_UPDATE_48);
	DECODE(&p, 0, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8);
	assert_int_equal(p.u.ip.ipc, PTAH_IPC_FULL);
	assert_int_equal(p.u.ip.ip, 0x0807060504030201);
	REFUSE(PTAH_E_BAD_PACKET, 0, 0xad, 0, 0, 0, 0, 0, 0, 0, 0); /* IPBytes 101b */
	REFUSE(PTAH_E_BAD_PACKET, 0, 0xed, 0, 0, 0, 0, 0, 0, 0, 0); /* IPBytes 111b */
}

TEST(modes_and_state)
{
	struct ptah_packet p;

	DECODE(&p, 0, 0x99, 0x01);
	assert_int_equal(p.u.exec.mode, PTAH_EXEC_64);
	DECODE(&p, 0, 0x99, 0x06);
	assert_int_equal(p.u.exec.mode, PTAH_EXEC_32);
	assert_true(p.u.exec.interrupts);
	DECODE(&p, 0, 0x99, 0x00);
	assert_int_equal(p.u.exec.mode, PTAH_EXEC_16);
	REFUSE(PTAH_E_BAD_PACKET, 0, 0x99, 0x03);
	DECODE(&p, 0, 0x99, 0x21);
	assert_int_equal(p.type, PTAH_PACKET_MODE_TSX);
	assert_true(p.u.tsx.in_tx);
	DECODE(&p, 0, 0x99, 0x22);
	assert_true(p.u.tsx.aborted);
	REFUSE(PTAH_E_BAD_PACKET, 0, 0x99, 0x40);
	DECODE(&p, 0, 0x02, 0x43, 0x81, 0, 0, 0, 0, 0); /* NR, CR3[51:5] = 0x40 */
	assert_int_equal(p.u.pip.cr3, 0x800);
	assert_true(p.u.pip.non_root);
	DECODE(&p, 0, 0x02, 0xc8, 0x01, 0, 0, 0, 0);
	assert_int_equal(p.u.vmcs.base, 0x1000);
	DECODE(&p, 0, 0x02, 0x23);
	assert_int_equal(p.type, PTAH_PACKET_PSBEND);
	DECODE(&p, 0, 0x02, 0xf3);
	assert_int_equal(p.type, PTAH_PACKET_OVF);
	DECODE(&p, 0, 0x02, 0x83);
	assert_int_equal(p.type, PTAH_PACKET_STOP);
	DECODE(&p, 0, 0x02, 0xc3, 0x88, 1, 0, 0, 0, 0, 0, 0, 0x80);
	assert_true(p.u.mnt.payload == UINT64_C(0x8000000000000001));
	REFUSE(PTAH_E_BAD_OPCODE, 0, 0x02, 0xc3, 0x89, 0, 0, 0, 0, 0, 0, 0, 0);
	REFUSE(PTAH_E_BAD_OPCODE, 0, 0xc9);
	REFUSE(PTAH_E_BAD_OPCODE, 0, 0x02, 0x04);
}

TEST(timing)
{
	struct ptah_packet p;

	DECODE(&p, 0, 0x19, 1, 2, 3, 4, 5, 6, 7);
	assert_true(p.u.tsc.tsc == UINT64_C(0x07060504030201));
	DECODE(&p, 0, 0x59, 0xab);
	assert_int_equal(p.u.mtc.ctc, 0xab);
	DECODE(&p, 0, 0x02, 0x73, 0x34, 0x12, 0, 0xff, 0x01);
	assert_int_equal(p.u.tma.ctc, 0x1234);
	assert_int_equal(p.u.tma.fc, 0x1ff);
	DECODE(&p, 0, 0x02, 0x03, 0x2a, 0x00);
	assert_int_equal(p.u.cbr.ratio, 0x2a);
	DECODE(&p, 0, 0xfb); /* 11111 0 11 */
	assert_int_equal(p.u.cyc.cycles, 31);
	DECODE(&p, 0, 0x07, 0x03, 0x02); /* 0, then 1 << 5, then 1 << 12 */
	assert_int_equal(p.u.cyc.cycles, 0x20 + 0x1000);
	/* More than 64 bits of count. */
	REFUSE(PTAH_E_BAD_PACKET, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
}

TEST(events)
{
	struct ptah_packet p;

	DECODE(&p, 0, 0x02, 0x12, 1, 2, 3, 4);
	assert_int_equal(p.u.ptw.size, 4);
	assert_false(p.u.ptw.ip);
	DECODE(&p, 0, 0x02, 0xb2, 1, 2, 3, 4, 5, 6, 7, 8);
	assert_int_equal(p.u.ptw.size, 8);
	assert_true(p.u.ptw.ip);
	REFUSE(PTAH_E_BAD_PACKET, 0, 0x02, 0x52, 1, 2, 3, 4, 5, 6, 7, 8);
	DECODE(&p, 0, 0x02, 0x62);
	assert_false(p.u.exstop.ip);
	DECODE(&p, 0, 0x02, 0xe2);
	assert_true(p.u.exstop.ip);
	DECODE(&p, 0, 0x02, 0xc2, 0x20, 0, 0, 0, 1, 0, 0, 0);
	assert_int_equal(p.u.mwait.hints, 0x20);
	assert_int_equal(p.u.mwait.ext, 1);
	DECODE(&p, 0, 0x02, 0x22, 0x80, 0x21); /* SDM: HW is bit 7 */
	assert_true(p.u.pwre.hw);
	assert_int_equal(p.u.pwre.state, 2);
	assert_int_equal(p.u.pwre.sub_state, 1);
	DECODE(&p, 0, 0x02, 0xa2, 0x62, 0x05, 0, 0, 0);
	assert_int_equal(p.u.pwrx.deepest, 2);
	assert_int_equal(p.u.pwrx.last, 6);
	assert_true(p.u.pwrx.interrupt && p.u.pwrx.store && !p.u.pwrx.autonomous);
	DECODE(&p, 0, 0x02, 0x13, 0x81, 0x0e);
	assert_int_equal(p.u.cfe.type, 1);
	assert_int_equal(p.u.cfe.vector, 14);
	assert_true(p.u.cfe.ip);
	DECODE(&p, 0, 0x02, 0x53, 0x00, 1, 2, 3, 4, 5, 6, 7, 8);
	assert_true(p.u.evd.payload == UINT64_C(0x0807060504030201));
	DECODE(&p, 0, 0xd9, 0x00, 0x01);
	assert_false(p.u.trig.has_icnt);
	DECODE(&p, 0, 0xd9, 0x40, 0x02, 0x34, 0x12);
	assert_int_equal(p.u.trig.icnt, 0x1234);
}

TEST(pebs_blocks)
{
	struct ptah_packet p;
	unsigned block = PTAH_BLOCK_NONE;

	DECODE(&p, 0, 0x02, 0x63, 0x84);
	assert_int_equal(p.u.bbp.type, 4);
	block = ptah_packet_block_state(&p, block);
	assert_int_equal(block, PTAH_BLOCK_ITEMS_4);
	DECODE(&p, block, 0x0c, 1, 2, 3, 4); /* inside a block xxxxx100 is a BIP */
	assert_int_equal(p.type, PTAH_PACKET_BIP);
	assert_int_equal(p.u.bip.id, 1);
	assert_int_equal(ptah_packet_block_state(&p, block), block);
	DECODE(&p, PTAH_BLOCK_ITEMS_8, 0x0c, 1, 2, 3, 4, 5, 6, 7, 8);
	DECODE(&p, block, 0x02, 0xb3);
	assert_true(p.u.bep.ip);
	assert_int_equal(ptah_packet_block_state(&p, block), PTAH_BLOCK_NONE);
	DECODE(&p, 0, 0x0c); /* outside it is a TNT */
	assert_int_equal(p.type, PTAH_PACKET_TNT_8);
}

/* SDM Table "FUP/TIP IP Reconstruction". */
TEST(ip_reconstruction)
{
	uint64_t last = UINT64_C(0x1122334455667788), ip = 0;

	assert_false(ptah_packet_ip(&last, PTAH_IPC_SUPPRESSED, 0, &ip));
	assert_true(last == UINT64_C(0x1122334455667788));
	assert_true(ptah_packet_ip(&last, PTAH_IPC_UPDATE_16, 0xabcd, &ip));
	assert_true(ip == UINT64_C(0x112233445566abcd));
	ptah_packet_ip(&last, PTAH_IPC_UPDATE_32, 0x01020304, &ip);
	assert_true(ip == UINT64_C(0x1122334401020304));
	ptah_packet_ip(&last, PTAH_IPC_UPDATE_48, UINT64_C(0x8000deadbeef), &ip);
	assert_true(ip == UINT64_C(0x11228000deadbeef));
	ptah_packet_ip(&last, PTAH_IPC_SEXT_48, UINT64_C(0x8000deadbeef), &ip);
	assert_true(ip == UINT64_C(0xffff8000deadbeef));
	ptah_packet_ip(&last, PTAH_IPC_FULL, UINT64_C(0x0123456789abcdef), &ip);
	assert_true(ip == UINT64_C(0x0123456789abcdef) && last == ip);
}

static uint64_t seed = 1;

static uint64_t random64(void)
{
	return random_next(&seed);
}

/* Any address that is compressed is reconstructed, and takes at most 8 bytes. */
TEST(ip_compression)
{
	uint64_t sent = 0, received = 0;

	for (int i = 0; i < 100000; i++) {
		static const uint64_t masks[] = {0xff, 0xffff, 0xffffffff, 0xffffffffffff,
						 UINT64_MAX};
		uint64_t ip = sent ^ (random64() & masks[random64() % 5]), payload, out = 0;
		unsigned ipc = ptah_packet_compress_ip(&sent, ip, &payload);

		assert_true(packet_ip_bytes[ipc] <= 8);
		assert_true(ptah_packet_ip(&received, ipc, payload, &out));
		assert_true(out == ip && sent == ip && received == ip);
	}
}

/* Random bytes: a packet that decodes has a valid size, and its encoding decodes to the same
 * packet.
 */
TEST(random_bytes)
{
	for (int i = 0; i < 300000; i++) {
		uint8_t bytes[24], again[32], third[32];
		struct ptah_packet p = {0}, q = {0};
		unsigned block = (unsigned)(random64() % 3);
		int n, k;

		for (size_t b = 0; b < sizeof(bytes); b += 8) {
			uint64_t r = random64();

			memcpy(bytes + b, &r, 8);
		}
		if (i & 1)
			bytes[0] = 0x02;
		n = ptah_packet_decode(&p, bytes, sizeof(bytes), block);
		if (n < 0)
			continue;
		assert_in_range(n, 1, PTAH_PACKET_MAX_SIZE);
		k = ptah_packet_encode(&p, again, sizeof(again));
		assert_int_equal(k, n);
		assert_int_equal(ptah_packet_decode(&q, again, (size_t)k, block), k);
		assert_int_equal(q.type, p.type);
		assert_int_equal(ptah_packet_encode(&q, third, sizeof(third)), k);
		assert_memory_equal(again, third, (size_t)k);
	}
}

TEST(find_psb)
{
	static const uint8_t psb[16] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};
	uint8_t bytes[256];

	for (size_t at = 0; at + sizeof(psb) <= 128; at++) {
		memset(bytes, 0x04, sizeof(bytes));
		memcpy(bytes + at, psb, sizeof(psb));
		assert_ptr_equal(ptah_packet_find_psb(bytes, bytes + 128), bytes + at);
		assert_ptr_equal(ptah_packet_find_last_psb(bytes, bytes + 128), bytes + at);
		/* A PSB that the end cuts does not count. */
		assert_null(ptah_packet_find_psb(bytes, bytes + at + 15));
		assert_null(ptah_packet_find_psb(bytes + at + 1, bytes + 128));
		/* A payload that ends with a PSB's pattern is not the PSB's beginning. */
		if (at >= 2) {
			memcpy(bytes + at - 2, psb, 2);
			assert_ptr_equal(ptah_packet_find_psb(bytes, bytes + 128), bytes + at);
		}
	}
	memset(bytes, 0, sizeof(bytes));
	assert_null(ptah_packet_find_psb(bytes, bytes + sizeof(bytes)));
	assert_null(ptah_packet_find_psb(bytes, bytes));
}
