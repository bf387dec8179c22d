/* SPDX-License-Identifier: MIT */
/*
 * pt_pkt_* and pt_enc_* call by call against Debian's library: on random valid
 * streams, damaged ones, random bytes, every cut of short ones, the traces of
 * real processors in PTAH_SHARED/traces; and random packets to be written.
 *
 * Where they differ, and what this test therefore leaves out:
 *
 * - CFE, EVD, TRIG, which libipt knows since 2.1 and 2.2; BBP, BIP, BEP, which it
 *   does not know: here they are ppt_unknown where there is no callback.
 * - SDM "PWRE Packet Definition": HW is bit 7 of the first payload byte; libipt
 *   reads and writes bit 3.
 * - SDM "TMA Packet Definition": reserved bits are ignored; libipt refuses a TMA in
 *   which one is set.
 * - SDM "CYC Packet Definition" names no longest one; libipt takes 61 bits of count.
 * - SDM "PSB Packet Definition": PSBs that follow each other directly are all
 *   found; libipt's search finds the last of them, backward again and again.
 * - A search forward from the trace's end is -pte_eos, as the header says; to
 *   libipt it is -pte_internal.
 * - The encoder writes what is a packet by the SDM: no TNT without branches, no
 *   bits after the last branch.
 */
#include "test.h"

#include "judged.h"
#include "packet/stream.h"

#include <string.h>

#define NOT_IN_2_0 STREAM_AFTER_LIBIPT_2_0

/* A decoder of each library over the same bytes. */
struct pair {
	struct pt_packet_decoder *a, *b;
	const uint8_t *bytes;
	size_t size;
};

static struct pair pair_new(const struct pt_config *base, uint8_t *bytes, size_t size)
{
	struct pt_config config = *base;
	struct pair p = {.bytes = bytes, .size = size};

	config.begin = bytes;
	config.end = bytes + size;
	p.a = ours.pt_pkt_alloc_decoder(&config);
	p.b = theirs.pt_pkt_alloc_decoder(&config);
	assert_true(p.a && p.b);
	return p;
}

static void pair_free(struct pair *p)
{
	ours.pt_pkt_free_decoder(p->a);
	theirs.pt_pkt_free_decoder(p->b);
}

static int64_t same_place(const struct pair *p)
{
	uint64_t a = 1, b = 1;

	assert_int_equal(ours.pt_pkt_get_sync_offset(p->a, &a),
			 theirs.pt_pkt_get_sync_offset(p->b, &b));
	assert_int_equal(a, b);
	if (ours.pt_pkt_get_offset(p->a, &a) < 0) {
		assert_int_equal(theirs.pt_pkt_get_offset(p->b, &b), -pte_nosync);
		return -1;
	}
	assert_int_equal(theirs.pt_pkt_get_offset(p->b, &b), 0);
	assert_int_equal(a, b);
	return (int64_t)a;
}

static int same_sync_set(struct pair *p, uint64_t offset)
{
	int status = ours.pt_pkt_sync_set(p->a, offset);

	assert_int_equal(status, theirs.pt_pkt_sync_set(p->b, offset));
	return status;
}

/* Compares the bytes of a packet that are not padding of the union. */
static bool same_packet(const struct pt_packet *a, const struct pt_packet *b)
{
	if (a->type != b->type || a->size != b->size)
		return false;
	switch (a->type) {
	case ppt_tnt_8:
	case ppt_tnt_64:
		return a->payload.tnt.bit_size == b->payload.tnt.bit_size &&
		       a->payload.tnt.payload == b->payload.tnt.payload;
	case ppt_fup:
	case ppt_tip:
	case ppt_tip_pge:
	case ppt_tip_pgd:
		return a->payload.ip.ipc == b->payload.ip.ipc &&
		       a->payload.ip.ip == b->payload.ip.ip;
	case ppt_mode:
		return a->payload.mode.leaf == b->payload.mode.leaf &&
		       a->payload.mode.bits.exec.csl == b->payload.mode.bits.exec.csl &&
		       a->payload.mode.bits.exec.csd == b->payload.mode.bits.exec.csd;
	case ppt_pip:
		return a->payload.pip.cr3 == b->payload.pip.cr3 &&
		       a->payload.pip.nr == b->payload.pip.nr;
	case ppt_pwre:
		return a->payload.pwre.state == b->payload.pwre.state &&
		       a->payload.pwre.sub_state == b->payload.pwre.sub_state;
	case ppt_pwrx:
		return a->payload.pwrx.last == b->payload.pwrx.last &&
		       a->payload.pwrx.deepest == b->payload.pwrx.deepest &&
		       a->payload.pwrx.interrupt == b->payload.pwrx.interrupt &&
		       a->payload.pwrx.store == b->payload.pwrx.store &&
		       a->payload.pwrx.autonomous == b->payload.pwrx.autonomous;
	case ppt_ptw:
		return a->payload.ptw.payload == b->payload.ptw.payload &&
		       a->payload.ptw.plc == b->payload.ptw.plc &&
		       a->payload.ptw.ip == b->payload.ptw.ip;
	case ppt_exstop:
		return a->payload.exstop.ip == b->payload.exstop.ip;
	case ppt_tma:
		return a->payload.tma.ctc == b->payload.tma.ctc &&
		       a->payload.tma.fc == b->payload.tma.fc;
	case ppt_cbr:
	case ppt_mtc:
		return a->payload.mtc.ctc == b->payload.mtc.ctc;
	case ppt_mwait:
	case ppt_tsc:
	case ppt_cyc:
	case ppt_vmcs:
	case ppt_mnt:
		return a->payload.tsc.tsc == b->payload.tsc.tsc;
	case ppt_unknown:
		return a->payload.unknown.packet == b->payload.unknown.packet &&
		       a->payload.unknown.priv == b->payload.unknown.priv;
	default:
		return true;
	}
}

/* Whether this is one of the differences listed above. `status` is this library's for the bytes. */
static bool is_known_difference(const uint8_t *p, size_t n, int status)
{
	if (stream_is_after_libipt_2_0(p, n))
		return true;
	if (p[0] == 0x02 && n > 6 && p[1] == 0x73)
		return p[4] || p[6] & 0xfe;
	return (p[0] & 3) == 3 && (status > 9 || (status == -pte_eos && n >= 9));
}

/*
 * Reads on with both to an error or a difference. Returns the offset, which is the size at the end.
 */
static size_t compare_from(struct pair *p, size_t at, uint64_t *packets)
{
	assert_int_equal(same_sync_set(p, at), 0);
	for (;;) {
		struct pt_packet a, b;
		int status, other;

		memset(&a, 0, sizeof(a));
		memset(&b, 0, sizeof(b));
		at = (size_t)same_place(p);
		status = ours.pt_pkt_next(p->a, &a, sizeof(a));
		other = theirs.pt_pkt_next(p->b, &b, sizeof(b));
		if (at < p->size && (status != other || !same_packet(&a, &b)) &&
		    is_known_difference(p->bytes + at, p->size - at, status))
			return at;
		if (status != other || (status >= 0 && !same_packet(&a, &b))) {
			print_error("at %zu of %zu: %d, Debian's %d\n", at, p->size, status, other);
			for (size_t i = at; i < p->size && i < at + 16; i++)
				print_error(" %02x", p->bytes[i]);
			fail();
		}
		if (status <= 0)
			return at;
		++*packets;
	}
}

/* Both continue after errors. */
static uint64_t compare_all(const struct pt_config *config, uint8_t *bytes, size_t size)
{
	struct pair p = pair_new(config, bytes, size);
	uint64_t packets = 0;

	for (size_t at = 0; at < size; at++)
		at = compare_from(&p, at, &packets);
	pair_free(&p);
	return packets;
}

static struct pt_config default_config(void)
{
	struct pt_config config;

	pt_config_init(&config);
	return config;
}

static void valid_streams(void **state)
{
	static uint8_t bytes[65536];
	struct stream s = {
	    .seed = 21, .bytes = bytes, .capacity = sizeof(bytes), .types = ~NOT_IN_2_0};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		stream_make(&s);
		assert_true(compare_all(&config, bytes, s.size) > 5000);
	}
}

static void cut_streams(void **state)
{
	static uint8_t bytes[1024];
	struct stream s = {
	    .seed = 22, .bytes = bytes, .capacity = sizeof(bytes), .types = ~NOT_IN_2_0};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		stream_make(&s);
		for (size_t n = 0; n < s.size; n++)
			compare_all(&config, bytes, n);
	}
}

/* Accepts some packets, with sizes that depend on their bytes, and refuses others. */
static int take_some(struct pt_packet_unknown *unknown, const struct pt_config *config,
		     const uint8_t *pos, void *context)
{
	assert_ptr_equal(unknown->packet, pos);
	assert_null(unknown->priv);
	assert_true(config->begin <= pos && pos < config->end);
	unknown->priv = context;
	switch (*pos % 5) {
	case 0:
		return -pte_not_supported;
	case 1:
		return 300;
	default:
		return *pos >> 4;
	}
}

static void damaged_streams(void **state)
{
	static uint8_t bytes[16384];
	struct stream s = {
	    .seed = 23, .bytes = bytes, .capacity = sizeof(bytes), .types = UINT64_MAX};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		stream_make(&s);
		for (unsigned k = 0; k < 200; k++)
			bytes[stream_random(&s) % s.size] = (uint8_t)stream_random(&s);
		config.errata.skz84 = i & 1;
		config.decode.callback = i & 2 ? take_some : NULL;
		config.decode.context = &s;
		compare_all(&config, bytes, s.size);
	}
}

static void random_bytes(void **state)
{
	static uint8_t bytes[16384];
	struct stream s = {.seed = 24};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] =
			    (uint8_t)(i & 1 && !(stream_random(&s) & 3) ? 2 : stream_random(&s));
		config.errata.skz84 = i & 1;
		config.decode.callback = i & 4 ? take_some : NULL;
		compare_all(&config, bytes, sizeof(bytes));
	}
}

/*
 * SKZ84: a corrupt TMA is an invalid packet, one byte longer. The packet decoder does not correct
 * SKD007.
 */
static void errata(void **state)
{
	static const uint8_t corrupt[] = {0x02, 0x73, 1, 2, 1, 3, 0, 0xff, 0};
	static const uint8_t fine[] = {0x02, 0x73, 1, 2, 0, 3, 1, 0, 0};
	static const uint8_t cyc[] = {0x07, 0x02, 0xf3, 0x00, 0x07, 0x02, 0xff, 0x02, 0xf3};
	const uint8_t *const cases[] = {corrupt, fine, cyc};
	struct pt_config config = default_config();

	(void)state;
	config.errata.skd007 = 1;
	config.errata.skz84 = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[sizeof(cyc)];
		uint64_t packets = 0;
		struct pair p;

		memcpy(bytes, cases[i], sizeof(bytes));
		p = pair_new(&config, bytes, sizeof(bytes));
		assert_int_equal(compare_from(&p, 0, &packets), sizeof(bytes));
		assert_true(packets >= 2);
		pair_free(&p);
	}
}

/* Searches from everywhere, forward and backward, with packets read between. */
static void synchronizing(void **state)
{
	static uint8_t bytes[4096];
	struct stream s = {.seed = 25,
			   .bytes = bytes,
			   .capacity = sizeof(bytes),
			   .types = UINT64_C(1) << PTAH_PACKET_PSB |
				    UINT64_C(1) << PTAH_PACKET_TSC |
				    UINT64_C(1) << PTAH_PACKET_FUP};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		struct pair p;

		stream_make(&s);
		/* A PSB right after a PSB is a known difference. */
		for (size_t k = 0; k + 32 <= s.size; k++)
			if (!memcmp(bytes + k, bytes + k + 16, 16) && bytes[k] == 0x02 &&
			    bytes[k + 1] == 0x82)
				memset(bytes + k, 0, 16);
		p = pair_new(&config, bytes, s.size - stream_random(&s) % 20);
		for (unsigned k = 0; k < 200; k++) {
			struct pt_packet a, b;
			int64_t at = same_place(&p);
			int status;

			switch (stream_random(&s) % 4) {
			case 0:
				if (at != (int64_t)p.size)
					assert_int_equal(ours.pt_pkt_sync_forward(p.a),
							 theirs.pt_pkt_sync_forward(p.b));
				break;
			case 1:
				assert_int_equal(ours.pt_pkt_sync_backward(p.a),
						 theirs.pt_pkt_sync_backward(p.b));
				break;
			case 2:
				assert_int_equal(ours.pt_pkt_next(p.a, &a, sizeof(a)),
						 theirs.pt_pkt_next(p.b, &b, sizeof(b)));
				break;
			default:
				if (stream_random(&s) % 8)
					break;
				at = (int64_t)(stream_random(&s) % p.size);
				same_sync_set(&p, (uint64_t)at);
				status = ours.pt_pkt_sync_forward(p.a);
				assert_int_equal(status, theirs.pt_pkt_sync_forward(p.b));
				break;
			}
		}
		pair_free(&p);
	}
}

/* Structs smaller and larger than the library's. */
static void sizes(void **state)
{
	struct pt_config config = default_config();
	uint8_t tsc[] = {0x19, 1, 2, 3, 4, 5, 6, 7}, packet[100];
	struct pair p = pair_new(&config, tsc, sizeof(tsc));
	uint64_t offset;

	(void)state;
	assert_int_equal(ours.pt_pkt_next(p.a, (struct pt_packet *)packet, 24), -pte_nosync);
	assert_int_equal(ours.pt_pkt_next(NULL, (struct pt_packet *)packet, 24), -pte_invalid);
	assert_int_equal(ours.pt_pkt_next(p.a, NULL, 24), -pte_invalid);
	assert_int_equal(ours.pt_pkt_sync_forward(NULL), -pte_invalid);
	assert_int_equal(ours.pt_pkt_sync_backward(NULL), -pte_invalid);
	assert_int_equal(ours.pt_pkt_sync_set(NULL, 0), -pte_invalid);
	assert_int_equal(ours.pt_pkt_get_offset(NULL, &offset), -pte_invalid);
	assert_int_equal(ours.pt_pkt_get_offset(p.a, NULL), -pte_invalid);
	assert_int_equal(ours.pt_pkt_get_sync_offset(NULL, &offset), -pte_invalid);
	assert_int_equal(ours.pt_pkt_get_sync_offset(p.a, NULL), -pte_invalid);
	assert_int_equal(same_sync_set(&p, UINT64_MAX), -pte_eos);
	for (size_t size = 0; size <= sizeof(packet); size++) {
		memset(packet, 0xa5, sizeof(packet));
		assert_int_equal(same_sync_set(&p, 0), 0);
		assert_int_equal(ours.pt_pkt_next(p.a, (struct pt_packet *)packet, size), 8);
		for (size_t i = size; i < sizeof(packet); i++)
			assert_int_equal(packet[i], 0xa5);
		for (size_t i = sizeof(struct pt_packet); i < size; i++)
			assert_int_equal(packet[i], 0);
		if (size > 4)
			assert_int_equal(packet[4], 8);
	}
	pair_free(&p);
}

/* PEBS: unknown packets, so that a block's items are not read as TNT packets. */
static int take_bbp(struct pt_packet_unknown *unknown, const struct pt_config *config,
		    const uint8_t *pos, void *context)
{
	(void)unknown;
	(void)config;
	++*(unsigned *)context;
	if (pos[0] == 0x02)
		return pos[1] == 0x63 ? 3 : 2;
	return 9;
}

static void pebs(void **state)
{
	uint8_t bytes[] = {0x02, 0x63, 0x04,		       /* BBP, 8-byte items */
			   0x04, 1,    2,    3, 4, 5, 6, 7, 8, /* BIP */
			   0x0c, 1,    2,    3, 4, 5, 6, 7, 8,
			   0x02, 0x33, 0x06}; /* BIP, BEP, TNT */
	static const int lengths[] = {3, 9, 9, 2, 1};
	struct pt_config config = default_config();
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct pair p;

		config.decode.callback = i ? take_bbp : NULL;
		config.decode.context = &asked;
		p = pair_new(&config, bytes, sizeof(bytes));
		assert_int_equal(same_sync_set(&p, 0), 0);
		for (unsigned k = 0; k < 5; k++) {
			struct pt_packet packet;

			assert_int_equal(ours.pt_pkt_next(p.a, &packet, sizeof(packet)),
					 lengths[k]);
			assert_int_equal(packet.type, k < 4 ? ppt_unknown : ppt_tnt_8);
		}
		assert_int_equal(asked, i ? 4 : 0);
		pair_free(&p);
	}
}

static void hardware_traces(void **state)
{
	static const char *const names[] = {"foo", "mruby", "unzip"};
	const char *shared = getenv("PTAH_SHARED");
	struct pt_config config = default_config();

	(void)state;
	if (!shared || !*shared)
		skip();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[4096];
		uint8_t *bytes;
		size_t size;
		FILE *f;

		snprintf(path, sizeof(path), "%s/traces/%s.pt", shared, names[i]);
		f = fopen(path, "rb");
		if (!f)
			skip();
		bytes = malloc(64 << 20);
		assert_non_null(bytes);
		size = fread(bytes, 1, 64 << 20, f);
		fclose(f);
		assert_true(compare_all(&config, bytes, size) > 10);
		free(bytes);
	}
}

/* The encoder */

static uint64_t random_field(struct stream *s, unsigned bits)
{
	/* Sometimes more bits than there is room for. */
	return stream_random(s) % 8 ? stream_bits(s, bits) : stream_random(s);
}

static void random_packet(struct stream *s, struct pt_packet *p)
{
	memset(p, 0, sizeof(*p));
	p->type = (enum pt_packet_type)(stream_random(s) % (ppt_ptw + 1));
	p->size = (uint8_t)stream_random(s);
	switch (p->type) {
	case ppt_tnt_8:
		p->payload.tnt.bit_size = (uint8_t)(1 + stream_random(s) % 10);
		p->payload.tnt.payload =
		    stream_random(s) & ((UINT64_C(1) << p->payload.tnt.bit_size) - 1);
		break;
	case ppt_tnt_64:
		p->payload.tnt.bit_size = (uint8_t)(1 + stream_random(s) % 50);
		p->payload.tnt.payload = stream_random(s) >> 1 >> (63 - p->payload.tnt.bit_size);
		break;
	case ppt_mode:
		p->payload.mode.leaf = (enum pt_mode_leaf)(stream_random(s) % 3 * 0x20);
		p->payload.mode.bits.exec.csl = stream_random(s) & 1;
		p->payload.mode.bits.exec.csd = stream_random(s) & 1;
		break;
	case ppt_exstop:
		p->payload.exstop.ip = stream_random(s) & 1;
		break;
	case ppt_pwre:
		p->payload.pwre.state = (uint8_t)random_field(s, 4);
		p->payload.pwre.sub_state = (uint8_t)random_field(s, 4);
		break;
	case ppt_pwrx:
		p->payload.pwrx.last = (uint8_t)random_field(s, 4);
		p->payload.pwrx.deepest = (uint8_t)random_field(s, 4);
		p->payload.pwrx.interrupt = stream_random(s) & 1;
		p->payload.pwrx.store = stream_random(s) & 1;
		p->payload.pwrx.autonomous = stream_random(s) & 1;
		break;
	case ppt_ptw:
		p->payload.ptw.plc = (uint8_t)(stream_random(s) % 5);
		p->payload.ptw.ip = stream_random(s) & 1;
		p->payload.ptw.payload = stream_random(s);
		break;
	case ppt_fup:
	case ppt_tip:
	case ppt_tip_pge:
	case ppt_tip_pgd:
		p->payload.ip.ipc = (enum pt_ip_compression)(stream_random(s) % 9);
		p->payload.ip.ip = random_field(s, 48);
		break;
	case ppt_tma:
		p->payload.tma.ctc = (uint16_t)stream_random(s);
		p->payload.tma.fc = (uint16_t)random_field(s, 9);
		break;
	case ppt_pip:
		p->payload.pip.cr3 = random_field(s, 48);
		p->payload.pip.nr = stream_random(s) & 1;
		break;
	default:
		p->payload.tsc.tsc = random_field(s, 60);
		break;
	}
}

static void writing(void **state)
{
	static uint8_t a[4096], b[4096];
	struct stream s = {.seed = 26};
	struct pt_config config = default_config();

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		const size_t size = stream_random(&s) % sizeof(a);
		struct pt_encoder *x, *y;
		uint64_t at = 0, bt = 0;

		memset(a, 0xcc, sizeof(a));
		memset(b, 0xcc, sizeof(b));
		config.begin = a;
		config.end = a + size;
		x = ours.pt_alloc_encoder(&config);
		config.begin = b;
		config.end = b + size;
		y = theirs.pt_alloc_encoder(&config);
		assert_true(x && y);
		for (unsigned k = 0; k < 500; k++) {
			struct pt_packet p;

			random_packet(&s, &p);
			assert_int_equal(ours.pt_enc_next(x, &p), theirs.pt_enc_next(y, &p));
			assert_int_equal(ours.pt_enc_get_offset(x, &at), 0);
			assert_int_equal(theirs.pt_enc_get_offset(y, &bt), 0);
			assert_int_equal(at, bt);
			if (at > size / 2 && !(stream_random(&s) % 100)) {
				at = stream_random(&s) % (size + 2);
				assert_int_equal(ours.pt_enc_sync_set(x, at),
						 theirs.pt_enc_sync_set(y, at));
			}
		}
		assert_memory_equal(a, b, sizeof(a));
		ours.pt_free_encoder(x);
		theirs.pt_free_encoder(y);
	}
}

/* Packets that 2.0.5 does not have are read as they were written. */
static void later_packets(void **state)
{
	struct pt_packet packets[] = {{.type = ppt_cfe},  {.type = ppt_evd},  {.type = ppt_trig},
				      {.type = ppt_trig}, {.type = ppt_mode}, {.type = ppt_pwre}};
	const size_t n = sizeof(packets) / sizeof(packets[0]);
	struct pt_config config = default_config();
	struct pt_packet_decoder *decoder;
	struct pt_encoder *encoder;
	uint8_t bytes[64];

	(void)state;
	packets[0].payload.cfe.type = pt_cfe_intr;
	packets[0].payload.cfe.vector = 14;
	packets[0].payload.cfe.ip = 1;
	packets[1].payload.evd.type = pt_evd_cr2;
	packets[1].payload.evd.payload = UINT64_MAX;
	/* A struct that is assigned as a whole may bring other padding than zeros. */
	packets[2].payload.trig.trbv = 3;
	packets[2].payload.trig.ip = packets[2].payload.trig.mult = 1;
	packets[3].payload.trig.trbv = packets[3].payload.trig.icntv = 1;
	packets[3].payload.trig.icnt = 0x1234;
	packets[4].payload.mode.bits.exec.iflag = 1;
	packets[5].payload.pwre.state = packets[5].payload.pwre.hw = 1;
	packets[5].payload.pwre.sub_state = 2;
	config.begin = bytes;
	config.end = bytes + sizeof(bytes);
	encoder = ours.pt_alloc_encoder(&config);
	decoder = ours.pt_pkt_alloc_decoder(&config);
	assert_true(encoder && decoder);
	assert_int_equal(ours.pt_pkt_sync_set(decoder, 0), 0);
	for (size_t i = 0; i < n; i++) {
		struct pt_packet read = {.type = ppt_invalid};
		int size = ours.pt_enc_next(encoder, &packets[i]);

		assert_true(size > 0);
		packets[i].size = (uint8_t)size;
		assert_int_equal(ours.pt_pkt_next(decoder, &read, sizeof(read)), size);
		assert_memory_equal(&read, &packets[i], 2);
		assert_memory_equal(&read.payload, &packets[i].payload, 4);
	}
	/* SDM "PWRE Packet Definition". */
	assert_memory_equal(bytes + 4 + 11 + 3 + 5 + 2, "\x02\x22\x80\x12", 4);
	ours.pt_free_encoder(encoder);
	ours.pt_pkt_free_decoder(decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(valid_streams),   cmocka_unit_test(cut_streams),
	    cmocka_unit_test(damaged_streams), cmocka_unit_test(random_bytes),
	    cmocka_unit_test(errata),	       cmocka_unit_test(synchronizing),
	    cmocka_unit_test(sizes),	       cmocka_unit_test(pebs),
	    cmocka_unit_test(hardware_traces), cmocka_unit_test(writing),
	    cmocka_unit_test(later_packets),
	};

	load_both();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
