/* SPDX-License-Identifier: MIT */
/*
 * Packet by packet against libipt's packet decoder: offset, type, size and
 * payload, and where and why decoding ends, on random valid streams, on
 * damaged ones, on random bytes, and on the traces of real processors in
 * PTAH_SHARED/traces.
 *
 * libipt 2.0 does not know CFE, EVD, BBP, BIP, BEP, TRIG: where Ptah decodes one
 * of them the comparison ends. It differs from the SDM in these, which are
 * compared as the SDM has them, or not at all:
 *
 * - "PWRE Packet Definition": HW is bit 7 of the first payload byte; libipt
 *   reads bit 3.
 * - "TMA Packet Definition": reserved bits must be ignored, as those of every
 *   packet; libipt refuses a TMA in which one is set.
 * - "MODE Packets", MODE.Exec and MODE.TSX: the combinations CS.L with CS.D and InTX
 *   with TXAbort do not exist; libipt returns them, Ptah refuses them.
 * - "CYC Packet Definition" sets no largest size; libipt takes up to 61 bits of count,
 *   in 9 bytes, Ptah 64 bits, in 10.
 * - "PSB Packet Definition": of PSBs that follow each other directly (which no
 *   processor sends) libipt's search finds the last, Ptah's the first. A PSB
 *   that is both damaged and cut by the end is the end to libipt, damage to Ptah.
 *
 * tests/compat/programs.sh runs this program with Ptah's own libipt.so.2 in libipt's place:
 * that follows the SDM in all of these except MODE, where it does as libipt.
 */
#include "test.h"

#include "stream.h"

#include <intel-pt.h>

#include <stdio.h>
#include <stdlib.h>

/* Ptah's types by libipt's; MODE has two. */
static const uint8_t types[] = {
    [ppt_pad] = PTAH_PACKET_PAD,	 [ppt_psb] = PTAH_PACKET_PSB,
    [ppt_psbend] = PTAH_PACKET_PSBEND,	 [ppt_fup] = PTAH_PACKET_FUP,
    [ppt_tip] = PTAH_PACKET_TIP,	 [ppt_tip_pge] = PTAH_PACKET_TIP_PGE,
    [ppt_tip_pgd] = PTAH_PACKET_TIP_PGD, [ppt_tnt_8] = PTAH_PACKET_TNT_8,
    [ppt_tnt_64] = PTAH_PACKET_TNT_64,	 [ppt_mode] = PTAH_PACKET_MODE_EXEC,
    [ppt_pip] = PTAH_PACKET_PIP,	 [ppt_vmcs] = PTAH_PACKET_VMCS,
    [ppt_cbr] = PTAH_PACKET_CBR,	 [ppt_tsc] = PTAH_PACKET_TSC,
    [ppt_tma] = PTAH_PACKET_TMA,	 [ppt_mtc] = PTAH_PACKET_MTC,
    [ppt_cyc] = PTAH_PACKET_CYC,	 [ppt_stop] = PTAH_PACKET_STOP,
    [ppt_ovf] = PTAH_PACKET_OVF,	 [ppt_mnt] = PTAH_PACKET_MNT,
    [ppt_exstop] = PTAH_PACKET_EXSTOP,	 [ppt_mwait] = PTAH_PACKET_MWAIT,
    [ppt_pwre] = PTAH_PACKET_PWRE,	 [ppt_pwrx] = PTAH_PACKET_PWRX,
    [ppt_ptw] = PTAH_PACKET_PTW,
};

#define UNKNOWN_TO_LIBIPT STREAM_AFTER_LIBIPT_2_0

#define MAX_LIBIPT_CYC 9

/* Whether it is Ptah's own library that has been loaded. */
static bool is_ptah(void)
{
	const char *ext = pt_library_version().ext;

	return ext && !strcmp(ext, "ptah");
}

static void compare_mode(const struct ptah_packet *p, const struct pt_packet_mode *q)
{
	if (q->leaf == pt_mol_tsx) {
		assert_int_equal(p->type, PTAH_PACKET_MODE_TSX);
		assert_int_equal(p->u.tsx.in_tx, q->bits.tsx.intx);
		assert_int_equal(p->u.tsx.aborted, q->bits.tsx.abrt);
		return;
	}
	assert_int_equal(p->type, PTAH_PACKET_MODE_EXEC);
	switch (pt_get_exec_mode(&q->bits.exec)) {
	case ptem_64bit:
		assert_int_equal(p->u.exec.mode, PTAH_EXEC_64);
		break;
	case ptem_32bit:
		assert_int_equal(p->u.exec.mode, PTAH_EXEC_32);
		break;
	case ptem_16bit:
		assert_int_equal(p->u.exec.mode, PTAH_EXEC_16);
		break;
	default:
		fail();
	}
}

static void compare_event(const struct ptah_packet *p, const struct pt_packet *q, const uint8_t *at)
{
	switch (q->type) {
	case ppt_exstop:
		assert_int_equal(p->u.exstop.ip, q->payload.exstop.ip);
		break;
	case ppt_mwait:
		assert_int_equal(p->u.mwait.hints, q->payload.mwait.hints);
		assert_int_equal(p->u.mwait.ext, q->payload.mwait.ext);
		break;
	case ppt_pwre:
		assert_int_equal(p->u.pwre.state, q->payload.pwre.state);
		assert_int_equal(p->u.pwre.sub_state, q->payload.pwre.sub_state);
		assert_int_equal(p->u.pwre.hw, at[2] >> 7);
		break;
	case ppt_pwrx:
		assert_int_equal(p->u.pwrx.last, q->payload.pwrx.last);
		assert_int_equal(p->u.pwrx.deepest, q->payload.pwrx.deepest);
		assert_int_equal(p->u.pwrx.interrupt, q->payload.pwrx.interrupt);
		assert_int_equal(p->u.pwrx.store, q->payload.pwrx.store);
		assert_int_equal(p->u.pwrx.autonomous, q->payload.pwrx.autonomous);
		break;
	case ppt_ptw:
		assert_int_equal(p->u.ptw.size, pt_ptw_size(q->payload.ptw.plc));
		assert_int_equal(p->u.ptw.ip, q->payload.ptw.ip);
		assert_true(p->u.ptw.payload == q->payload.ptw.payload);
		break;
	default: /* PAD, PSB, PSBEND, TraceStop, OVF: no payload */
		break;
	}
}

static void compare(const struct ptah_packet *p, const struct pt_packet *q, const uint8_t *at)
{
	assert_int_equal(p->size, q->size);
	if (is_ptah() && UNKNOWN_TO_LIBIPT >> p->type & 1)
		return; /* libipt 2.0's header, which this is compiled with, has no name for it */
	assert_true(q->type < sizeof(types));
	if (q->type == ppt_mode) {
		compare_mode(p, &q->payload.mode);
		return;
	}
	assert_int_equal(p->type, types[q->type]);
	switch (q->type) {
	case ppt_tnt_8:
	case ppt_tnt_64:
		assert_int_equal(p->u.tnt.count, q->payload.tnt.bit_size);
		assert_true(p->u.tnt.bits == q->payload.tnt.payload);
		break;
	case ppt_tip:
	case ppt_tip_pge:
	case ppt_tip_pgd:
	case ppt_fup:
		/* Both number the compressions as IPBytes does. */
		assert_int_equal(p->u.ip.ipc, q->payload.ip.ipc);
		assert_true(p->u.ip.ip == q->payload.ip.ip);
		break;
	case ppt_pip:
		assert_true(p->u.pip.cr3 == q->payload.pip.cr3);
		assert_int_equal(p->u.pip.non_root, q->payload.pip.nr);
		break;
	case ppt_vmcs:
		assert_true(p->u.vmcs.base == q->payload.vmcs.base);
		break;
	case ppt_cbr:
		assert_int_equal(p->u.cbr.ratio, q->payload.cbr.ratio);
		break;
	case ppt_tsc:
		assert_true(p->u.tsc.tsc == q->payload.tsc.tsc);
		break;
	case ppt_tma:
		assert_int_equal(p->u.tma.ctc, q->payload.tma.ctc);
		assert_int_equal(p->u.tma.fc, q->payload.tma.fc);
		break;
	case ppt_mtc:
		assert_int_equal(p->u.mtc.ctc, q->payload.mtc.ctc);
		break;
	case ppt_cyc:
		assert_true(p->u.cyc.cycles == q->payload.cyc.value);
		break;
	case ppt_mnt:
		assert_true(p->u.mnt.payload == q->payload.mnt.payload);
		break;
	default:
		compare_event(p, q, at);
		break;
	}
}

/* Of the packets that libipt 2.0 does not know, those that 2.3 and the drop-in do. */
static bool is_in_libipt_2_3(unsigned type)
{
	return type == PTAH_PACKET_CFE || type == PTAH_PACKET_EVD || type == PTAH_PACKET_TRIG;
}

/*
 * Whether this is one of the differences in the list above. Ptah returned `status` for the bytes at
 * `p`.
 */
static bool is_known_difference(const uint8_t *p, size_t n, int status,
				const struct ptah_packet *packet)
{
	if (status > 0 && (UNKNOWN_TO_LIBIPT >> packet->type & 1))
		return !is_ptah() || !is_in_libipt_2_3(packet->type);
	if (is_ptah())
		return status == PTAH_E_MORE ? stream_is_after_libipt_2_0(p, n) &&
						   !is_in_libipt_2_3((unsigned)stream_type_at(p, n))
					     : status == PTAH_E_BAD_PACKET && n > 1 &&
						   (p[0] == 0x99 || (p[0] == 0x02 && p[1] == 0x82));
	if (status > 0 && packet->type == PTAH_PACKET_TMA)
		return p[4] || p[6] & 0xfe;
	if (status == PTAH_E_MORE && (p[0] & 3) == 3)
		return n >= MAX_LIBIPT_CYC;
	/* A cut packet that libipt does not know is an unknown opcode to it. */
	if (status == PTAH_E_MORE)
		return stream_is_after_libipt_2_0(p, n);
	if (status != PTAH_E_BAD_PACKET || n < 2)
		return false;
	if (p[0] == 0x02 && p[1] == 0x82)
		return n < PTAH_PACKET_MAX_SIZE;
	return p[0] == 0x99 && ((p[1] & 0xe3) == 0x03 || (p[1] & 0xe3) == 0x23);
}

/* libipt's status for the same end of decoding. */
static int libipt_status(int status)
{
	switch (status) {
	case PTAH_E_MORE:
		return -pte_eos;
	case PTAH_E_BAD_OPCODE:
		return -pte_bad_opc;
	default:
		return -pte_bad_packet;
	}
}

struct tally {
	uint64_t packets, errors, differences;
};

static void print_bytes(const uint8_t *p, size_t n)
{
	print_error("libipt differs at");
	for (size_t i = 0; i < n && i < PTAH_PACKET_MAX_SIZE; i++)
		print_error(" %02x", p[i]);
	print_error("\n");
}

/*
 * Both decode from `at` on until Ptah finds an error. Returns the error's offset, or `size` at
 * the end.
 */
static size_t compare_from(struct pt_packet_decoder *decoder, const uint8_t *bytes, size_t size,
			   size_t at, struct tally *tally)
{
	unsigned block = PTAH_BLOCK_NONE; /* libipt knows none */

	assert_int_equal(pt_pkt_sync_set(decoder, at), 0);
	for (;;) {
		struct ptah_packet p;
		struct pt_packet q;
		int n = ptah_packet_decode(&p, bytes + at, size - at, block), status;
		uint64_t offset;

		memset(&q, 0, sizeof(q));
		assert_int_equal(pt_pkt_get_offset(decoder, &offset), 0);
		assert_int_equal(offset, at);
		status = pt_pkt_next(decoder, &q, sizeof(q));
		if (!is_ptah() && n > MAX_LIBIPT_CYC && p.type == PTAH_PACKET_CYC) {
			assert_int_equal(status, -pte_bad_packet);
			at += (size_t)n;
			assert_int_equal(pt_pkt_sync_set(decoder, at), 0);
			continue;
		}
		if (at < size && (status < 0) != (n < 0) &&
		    is_known_difference(bytes + at, size - at, n, &p)) {
			tally->differences++;
			return n > 0 ? at + (size_t)n - 1 : at;
		}
		if (n < 0 && at < size && status != libipt_status(n) &&
		    is_known_difference(bytes + at, size - at, n, &p)) {
			tally->differences++;
			return at;
		}
		if (n < 0) {
			if (status != libipt_status(n))
				print_bytes(bytes + at, size - at);
			assert_int_equal(status, libipt_status(n));
			tally->errors += n != PTAH_E_MORE;
			return n == PTAH_E_MORE ? size : at;
		}
		if (status != n)
			print_bytes(bytes + at, size - at);
		assert_int_equal(status, n);
		compare(&p, &q, bytes + at);
		if (is_ptah())
			block = ptah_packet_block_state(&p, block);
		tally->packets++;
		at += (size_t)n;
	}
}

static struct pt_packet_decoder *new_decoder(uint8_t *bytes, size_t size)
{
	struct pt_packet_decoder *decoder;
	struct pt_config config;

	pt_config_init(&config);
	config.begin = bytes;
	config.end = bytes + size;
	decoder = pt_pkt_alloc_decoder(&config);
	assert_non_null(decoder);
	return decoder;
}

/*
 * Compares both decoders over the whole buffer. After an error, where errors are allowed, both
 * continue at the next byte.
 */
static struct tally compare_all(uint8_t *bytes, size_t size, bool damaged)
{
	struct pt_packet_decoder *decoder = new_decoder(bytes, size);
	struct tally tally = {0, 0, 0};
	size_t at = 0;

	while ((at = compare_from(decoder, bytes, size, at, &tally)) < size) {
		assert_true(damaged);
		if (++at == size)
			break;
	}
	pt_pkt_free_decoder(decoder);
	return tally;
}

TEST(valid_streams)
{
	uint8_t bytes[65536];
	struct stream s = {
	    .seed = 5, .bytes = bytes, .capacity = sizeof(bytes), .types = ~UNKNOWN_TO_LIBIPT};

	for (unsigned i = 0; i < 50; i++) {
		struct tally tally;

		stream_make(&s);
		tally = compare_all(bytes, s.size, false);
		assert_true(tally.packets > 5000);
		assert_int_equal(tally.errors + tally.differences, 0);
	}
}

TEST(cut_streams)
{
	uint8_t bytes[1024];
	struct stream s = {
	    .seed = 6, .bytes = bytes, .capacity = sizeof(bytes), .types = ~UNKNOWN_TO_LIBIPT};

	for (unsigned i = 0; i < 10; i++) {
		stream_make(&s);
		for (size_t n = 1; n < s.size; n++)
			compare_all(bytes, n, false);
	}
}

TEST(damaged_streams)
{
	uint8_t bytes[16384];
	struct stream s = {
	    .seed = 7, .bytes = bytes, .capacity = sizeof(bytes), .types = UINT64_MAX};
	uint64_t errors = 0;

	for (unsigned i = 0; i < 100; i++) {
		stream_make(&s);
		for (unsigned k = 0; k < 200; k++)
			bytes[stream_random(&s) % s.size] = (uint8_t)stream_random(&s);
		errors += compare_all(bytes, s.size, true).errors;
	}
	assert_true(errors > 100);
}

TEST(random_bytes)
{
	uint8_t bytes[16384];
	struct stream s = {.seed = 8};

	for (unsigned i = 0; i < 100; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] =
			    (uint8_t)(i & 1 && !(stream_random(&s) & 3) ? 2 : stream_random(&s));
		compare_all(bytes, sizeof(bytes), true);
	}
}

/* Checks what the comment at the top says about libipt, so that it stays true. */
TEST(differences)
{
	static const struct {
		uint8_t bytes[16];
		size_t size;
		int libipt, own, ptah; /* `own`: Ptah's library of that name */
	} cases[] = {
	    {{0x99, 0x03}, 2, 2, 2, PTAH_E_BAD_PACKET},
	    {{0x99, 0x23}, 2, 2, 2, PTAH_E_BAD_PACKET},
	    {{0x02, 0xa3, 1}, 8, -pte_bad_packet, -pte_bad_packet, PTAH_E_BAD_PACKET},
	    {{0x02, 0x73, 0, 0, 1, 0, 0}, 7, -pte_bad_packet, 7, 7},
	    {{0x02, 0x73, 0, 0, 0, 0, 2}, 7, -pte_bad_packet, 7, 7},
	    {{7, 1, 1, 1, 1, 1, 1, 1, 1, 2}, 10, -pte_bad_packet, 10, 10},
	    {{7, 1, 1, 1, 1, 1, 1, 1, 2}, 9, 9, 9, 9},
	    {{0x02, 0x13, 0, 0}, 4, -pte_bad_opc, 4, 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t bytes[16];
		struct pt_packet_decoder *decoder;
		struct ptah_packet p;
		struct pt_packet q;

		memcpy(bytes, cases[i].bytes, sizeof(bytes));
		decoder = new_decoder(bytes, cases[i].size);
		assert_int_equal(pt_pkt_sync_set(decoder, 0), 0);
		assert_int_equal(pt_pkt_next(decoder, &q, sizeof(q)),
				 is_ptah() ? cases[i].own : cases[i].libipt);
		assert_int_equal(ptah_packet_decode(&p, bytes, cases[i].size, PTAH_BLOCK_NONE),
				 cases[i].ptah);
		pt_pkt_free_decoder(decoder);
	}
}

/* Both find the same first PSB. */
TEST(sync_forward)
{
	uint8_t bytes[4096];
	struct stream s = {
	    .seed = 9, .bytes = bytes, .capacity = sizeof(bytes), .types = ~UNKNOWN_TO_LIBIPT};

	for (unsigned i = 0; i < 300; i++) {
		struct pt_packet_decoder *decoder;
		const uint8_t *psb;
		uint64_t offset;
		int status;

		stream_make(&s);
		psb = ptah_packet_find_psb(bytes, bytes + s.size);
		decoder = new_decoder(bytes, s.size);
		status = pt_pkt_sync_forward(decoder);
		if (!psb) {
			assert_int_equal(status, -pte_eos);
		} else {
			while (!is_ptah() && (size_t)(bytes + s.size - psb) >= 32 &&
			       !memcmp(psb, psb + 16, 16))
				psb += 16;
			assert_int_equal(status, 0);
			assert_int_equal(pt_pkt_get_offset(decoder, &offset), 0);
			assert_int_equal(offset, psb - bytes);
		}
		pt_pkt_free_decoder(decoder);
	}
}

/* The file's bytes from its first PSB on, or NULL where there is no file. */
static uint8_t *read_trace(const char *name, size_t *size)
{
	const char *shared = getenv("PTAH_SHARED");
	char path[4096];
	uint8_t *bytes;
	FILE *f;

	if (!shared || !*shared)
		return NULL;
	snprintf(path, sizeof(path), "%s/traces/%s.pt", shared, name);
	f = fopen(path, "r");
	if (!f)
		return NULL;
	bytes = malloc(1 << 20);
	assert_non_null(bytes);
	*size = fread(bytes, 1, 1 << 20, f);
	assert_true(*size > 0 && *size < 1 << 20);
	fclose(f);
	return bytes;
}

TEST(hardware_traces)
{
	static const char *const names[] = {"foo", "mruby", "unzip"};

	for (size_t i = 0; i < 3; i++) {
		size_t size;
		uint8_t *bytes = read_trace(names[i], &size);
		const uint8_t *psb;
		struct tally tally;

		if (!bytes) {
			print_message("SKIP: no trace %s in PTAH_SHARED\n", names[i]);
			continue;
		}
		psb = ptah_packet_find_psb(bytes, bytes + size);
		assert_non_null(psb);
		tally = compare_all(bytes + (psb - bytes), size - (size_t)(psb - bytes), false);
		print_message("%s: %lu packets\n", names[i], (unsigned long)tally.packets);
		assert_int_equal(tally.errors + tally.differences, 0);
		free(bytes);
	}
}
