/* SPDX-License-Identifier: MIT */
/* How packets combine into events, after the SDM's chapter on packet streams. Streams made by hand.
 */
#include "story.h"

#include "model/generator.h"

#include <ptah/event.h>

static struct ptah_generator g;
static uint8_t trace[4096];
static struct ptah_item items[64];

static void begin(bool psb)
{
	generator_init(&g, trace, false, false);
	if (psb)
		generator_psb(&g, 100, 20, false, 0);
}

static void put(const void *bytes, size_t n)
{
	memcpy(g.out, bytes, n);
	g.out += n;
}

#define PUT(...)                                                                                   \
	do {                                                                                       \
		const uint8_t bytes_[] = {__VA_ARGS__};                                            \
		put(bytes_, sizeof(bytes_));                                                       \
	} while (0)

/* All items of the trace so far, without CBR. */
static int decode(void)
{
	struct ptah_event_decoder *d;
	int n, kept = 0;

	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, trace, (size_t)(g.out - trace), true), 0);
	n = ptah_event_read(d, items, 64);
	assert_in_range(n, 0, 63);
	for (int i = 0; i < n; i++)
		if (items[i].type != PTAH_ITEM_CBR)
			items[kept++] = items[i];
	assert_int_equal(ptah_event_read(d, items + kept, 1), 0);
	ptah_event_decoder_free(d);
	return kept;
}

static void expect(int i, unsigned type, uint64_t ip, uint64_t to)
{
	assert_string_equal(ptah_item_name(items[i].type), ptah_item_name(type));
	assert_true(items[i].ip == ip);
	assert_true(items[i].to == to);
}

TEST(enable_and_disable)
{
	begin(true);
	generator_enable(&g, 0x401000);
	generator_tnt(&g, true);
	generator_disable(&g);
	assert_int_equal(decode(), 4);
	expect(0, PTAH_ITEM_PSB, 0, 0);
	assert_true(items[0].flags & PTAH_ITEM_IP_SUPPRESSED);
	assert_int_equal(items[0].mode, PTAH_EXEC_64);
	assert_true(items[0].tsc == 100);
	expect(1, PTAH_ITEM_ENABLED, 0x401000, 0);
	expect(2, PTAH_ITEM_TNT, 0, 0);
	assert_int_equal(items[2].count, 1);
	assert_int_equal(items[2].bits, 1);
	expect(3, PTAH_ITEM_DISABLED, 0, 0);
	assert_true(items[3].flags & PTAH_ITEM_IP_SUPPRESSED);
}

/* FUP and TIP: an interrupt. FUP and TIP.PGD: an interrupt whose handler is not traced. */
TEST(asynchronous)
{
	begin(true);
	generator_enable(&g, 0x401000);
	generator_ip_packet(&g, OPCODE_FUP, 0x401010);
	generator_ip_packet(&g, OPCODE_TIP, 0x402000);
	generator_tip(&g, 0x403000);
	generator_async_disable(&g, 0x403004);
	assert_int_equal(decode(), 5);
	expect(2, PTAH_ITEM_ASYNC_BRANCH, 0x401010, 0x402000);
	expect(3, PTAH_ITEM_TIP, 0, 0x403000);
	expect(4, PTAH_ITEM_ASYNC_DISABLED, 0x403004, 0);
}

/* Tracing is enabled and stops at once: TIP.PGE, FUP of the same address, TIP.PGD. */
TEST(enabled_for_nothing)
{
	begin(true);
	generator_enable(&g, 0x401000);
	generator_async_disable(&g, 0x401000);
	assert_int_equal(decode(), 3);
	expect(1, PTAH_ITEM_ENABLED, 0x401000, 0);
	expect(2, PTAH_ITEM_ASYNC_DISABLED, 0x401000, 0);
}

TEST(psb_while_tracing)
{
	begin(true);
	generator_enable(&g, 0x401000);
	generator_psb(&g, 200, 20, true, 0x401004);
	generator_tnt(&g, false);
	generator_flush_tnt(&g);
	assert_int_equal(decode(), 4);
	expect(2, PTAH_ITEM_PSB, 0x401004, 0);
	assert_true(items[2].tsc == 200);
	expect(3, PTAH_ITEM_TNT, 0, 0);
}

/* BDM70: a PSB+ with a FUP although tracing is off, recognised by the TIP.PGE after it. */
TEST(erratum_bdm70)
{
	begin(false);
	generator_psb(&g, 1, 20, true, 0x401000);
	generator_enable(&g, 0x401000);
	assert_int_equal(decode(), 2);
	expect(0, PTAH_ITEM_PSB, 0, 0);
	expect(1, PTAH_ITEM_ENABLED, 0x401000, 0);
	/* Without the TIP.PGE the FUP is true. */
	begin(false);
	generator_psb(&g, 1, 20, true, 0x401000);
	generator_tip(&g, 0x402000);
	assert_int_equal(decode(), 2);
	expect(0, PTAH_ITEM_PSB, 0x401000, 0);
	expect(1, PTAH_ITEM_TIP, 0, 0x402000);
}

TEST(overflow)
{
	begin(true);
	generator_enable(&g, 0x401000);
	generator_overflow(&g);
	generator_ip_packet(&g, OPCODE_FUP, 0x405000); /* the overflow ends while tracing is on */
	generator_overflow(&g);
	generator_enable(&g, 0x406000); /* ... while it is off */
	generator_overflow(&g);
	generator_psb(&g, 300, 20, true, 0x407000); /* the PSB+ has the address */
	generator_overflow(&g);
	assert_int_equal(decode(), 8);
	expect(2, PTAH_ITEM_OVERFLOW, 0x405000, 0);
	expect(3, PTAH_ITEM_OVERFLOW, 0, 0);
	assert_true(items[3].flags & PTAH_ITEM_IP_SUPPRESSED);
	expect(4, PTAH_ITEM_ENABLED, 0x406000, 0);
	expect(5, PTAH_ITEM_OVERFLOW, 0x407000, 0);
	expect(6, PTAH_ITEM_PSB, 0x407000, 0);
	expect(7, PTAH_ITEM_OVERFLOW, 0, 0); /* the trace ends in it */
}

TEST(mode_changes)
{
	begin(true);
	generator_enable(&g, 0x401000);
	PUT(0x99, 0x02);
	generator_tip(&g, 0x8000);
	assert_int_equal(decode(), 4);
	expect(2, PTAH_ITEM_TIP, 0, 0x8000);
	expect(3, PTAH_ITEM_EXEC_MODE, 0x8000, 0);
	assert_int_equal(items[3].mode, PTAH_EXEC_32);
}

TEST(transactions)
{
	begin(true);
	generator_enable(&g, 0x401000);
	PUT(0x99, 0x21);
	generator_ip_packet(&g, OPCODE_FUP, 0x401010);
	PUT(0x99, 0x22);
	generator_ip_packet(&g, OPCODE_FUP, 0x401020);
	generator_ip_packet(&g, OPCODE_TIP, 0x401100);
	assert_int_equal(decode(), 5);
	expect(2, PTAH_ITEM_TSX, 0x401010, 0);
	assert_true(items[2].flags & PTAH_ITEM_SPECULATIVE);
	expect(3, PTAH_ITEM_TSX, 0x401020, 0);
	assert_true(items[3].flags & PTAH_ITEM_ABORTED);
	expect(4, PTAH_ITEM_ASYNC_BRANCH, 0x401020, 0x401100);
}

/* The FUP after a PTW with its IP bit belongs to the PTWRITE, not to an interrupt. */
TEST(bound_fup)
{
	begin(true);
	generator_enable(&g, 0x401000);
	PUT(0x02, 0x92, 0x78, 0x56, 0x34, 0x12);
	generator_ip_packet(&g, OPCODE_FUP, 0x401008);
	generator_tip(&g, 0x402000);
	assert_int_equal(decode(), 4);
	expect(2, PTAH_ITEM_PTWRITE, 0x401008, 0);
	assert_true(items[2].cr3 == 0x12345678);
	expect(3, PTAH_ITEM_TIP, 0, 0x402000);
}

/* Bad bytes are reported with their offset, and decoding continues at the next PSB. */
TEST(damage)
{
	begin(true);
	generator_enable(&g, 0x401000);
	uint64_t at = (uint64_t)(g.out - trace);
	PUT(0xc9, 0x04, 0x04);
	generator_psb(&g, 400, 20, true, 0x401000);
	generator_tnt(&g, true);
	generator_flush_tnt(&g);
	assert_int_equal(decode(), 5);
	expect(2, PTAH_ITEM_ERROR, 0, 0);
	assert_int_equal(items[2].status, PTAH_E_BAD_OPCODE);
	assert_true(items[2].offset == at);
	expect(3, PTAH_ITEM_PSB, 0x401000, 0);
	expect(4, PTAH_ITEM_TNT, 0, 0);
}

TEST(truncated_and_unsynchronised)
{
	begin(true);
	PUT(0x71, 0x01);
	assert_int_equal(decode(), 2);
	assert_int_equal(items[1].status, PTAH_E_TRUNCATED);
	begin(false);
	PUT(0x04, 0x04, 0x04);
	assert_int_equal(decode(), 1);
	assert_int_equal(items[0].status, PTAH_E_NO_SYNC);
	begin(false);
	assert_int_equal(decode(), 0);
	begin(true);
	PUT(0x04); /* branches while tracing is off */
	assert_int_equal(decode(), 2);
	assert_int_equal(items[1].status, PTAH_E_BAD_CONTEXT);
}

/*
 * TSC 1000 with the crystal at 0x20 for 8 ticks; two TSC ticks a crystal tick,
 * an MTC every 16. The first MTC is the crystal at 0x30: 992 + 32. Then ten
 * cycles at the nominal frequency.
 */
TEST(timing_packets)
{
	const struct ptah_event_config config = {.size = sizeof(config),
						 .trace.mtc_period = 4,
						 .nominal_ratio = 20,
						 .tsc_n = 2,
						 .tsc_d = 1};
	struct ptah_event_decoder *d;
	int n;

	begin(false);
	generator_psb(&g, 1000, 20, false, 0);
	PUT(0x02, 0x73, 0x20, 0x00, 0x00, 0x08, 0x00);
	generator_enable(&g, 0x401000);
	PUT(0x59, 0x03);
	generator_tip(&g, 0x402000);
	PUT(0x53); /* CYC 10 */
	generator_tip(&g, 0x403000);
	assert_int_equal(ptah_event_decoder_new(&config, &d), 0);
	assert_int_equal(ptah_event_feed(d, trace, (size_t)(g.out - trace), true), 0);
	n = ptah_event_read(d, items, 64);
	assert_int_equal(n, 5);
	assert_true(items[2].type == PTAH_ITEM_ENABLED && items[2].tsc == 1000);
	assert_true(items[3].type == PTAH_ITEM_TIP && items[3].tsc == 1024);
	assert_true(items[4].type == PTAH_ITEM_TIP && items[4].tsc == 1034);
	ptah_event_decoder_free(d);
}

/*
 * CBR alone: cycles below the threshold take longer at a lower frequency. 31 of them at a
 * ratio of 8, with a TSC that runs at 34, are 131 ticks.
 */
TEST(lower_frequency_is_less_sure)
{
	const struct ptah_event_config config = {
	    .size = sizeof(config), .nominal_ratio = 34, .trace.cyc_threshold = 6};
	struct ptah_event_decoder *d;
	int n;

	begin(false);
	generator_psb(&g, 1000, 34, true, 0x401000);
	PUT(0x47, 0x02); /* CYC 40 */
	generator_tip(&g, 0x401000);
	generator_tsc(&g, 1040);
	generator_cbr(&g, 8);
	generator_tip(&g, 0x401000);
	assert_int_equal(ptah_event_decoder_new(&config, &d), 0);
	assert_int_equal(ptah_event_feed(d, trace, (size_t)(g.out - trace), true), 0);
	n = ptah_event_read(d, items, 64);
	assert_in_range(n, 2, 63);
	assert_int_equal(items[n - 1].type, PTAH_ITEM_TIP);
	assert_int_equal(items[n - 1].tsc, 1040);
	assert_in_range(items[n - 1].tsc_error, 8, 63);
	ptah_event_decoder_free(d);
}

TEST(feeding)
{
	struct ptah_event_decoder *d;

	begin(true);
	generator_enable(&g, 0x401000);
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_read(d, items, 64), 0);
	assert_int_equal(ptah_event_feed(d, trace, (size_t)(g.out - trace), false), 0);
	assert_int_equal(ptah_event_feed(d, trace, 1, true), PTAH_E_BUSY);
	assert_true(ptah_event_read(d, items, 64) > 0);
	assert_int_equal(ptah_event_read(d, items, 64), 0);
	assert_int_equal(ptah_event_feed(d, NULL, 0, true), 0);
	assert_int_equal(ptah_event_read(d, items, 64), 0);
	assert_int_equal(ptah_event_feed(d, trace, 1, true), PTAH_E_INVAL);
	ptah_event_decoder_free(d);
	ptah_event_decoder_free(NULL);
	assert_int_equal(ptah_event_decoder_new(NULL, NULL), PTAH_E_INVAL);
}

/* What the callback was called with, and how much it skips. */
struct unknown {
	int64_t skip;
	unsigned calls;
	uint64_t offset;
	int status;
	size_t n;
};

static int64_t skip_unknown(void *context, const uint8_t *bytes, size_t n, uint64_t offset,
			    int status)
{
	struct unknown *u = context;

	assert_true(n >= 1 && bytes[0] == 0xc9);
	u->calls++;
	u->offset = offset;
	u->status = status;
	u->n = n;
	return u->skip;
}

/* An unknown opcode, and 39 bytes after it. */
#define C9_40                                                                                      \
	".bytes c9 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 "                      \
	"04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04 04; "

TEST(unknown_opcodes)
{
	struct unknown u = {.skip = 1};
	struct ptah_event_config config = {
	    .size = sizeof(config), .unknown = skip_unknown, .unknown_context = &u};

	story_check(&config, ON ".bytes c9; TNT T", IS_ON "tnt value=1 count=1; ");
	assert_int_equal(u.calls, 3); /* once each time the trace was decoded */
	assert_int_equal(u.status, PTAH_E_BAD_OPCODE);
	assert_true(u.offset == 16 + 5 + 2); /* ON: PSB, FUP with four bytes, PSBEND */
	u.skip = 5;
	story_check(&config, ON ".bytes c9 c9 c9 c9 c9; TNT T", IS_ON "tnt value=1 count=1; ");
	u.skip = 40; /* more than the callback can see, so that it is skipped in pieces */
	story_check(&config, ON C9_40 "TNT T", IS_ON "tnt value=1 count=1; ");
	assert_true(u.n == PTAH_PACKET_MAX_SIZE);
	/* Between packets that belong together. */
	u.skip = 1;
	story_check(&config, ON "PTW 5 ip; .bytes c9; FUP 0x401010",
		    IS_ON "ptwrite ip=401010 value=5 count=4; ");
	story_check(&config, "PSB; .bytes c9; FUP 0x401000; PSBEND; TNT T",
		    IS_ON "tnt value=1 count=1; ");
	/* Past the end of the trace. */
	u.skip = INT64_MAX;
	story_check(&config, ON ".bytes c9; TNT T", IS_ON);
	assert_int_equal(u.n, 2);
}

TEST(unknown_opcodes_refused)
{
	struct unknown u = {.skip = 0};
	struct ptah_event_config config = {
	    .size = sizeof(config), .unknown = skip_unknown, .unknown_context = &u};

	story_check(&config, ON ".bytes c9; TNT T; " ON, IS_ON "error BAD_OPCODE; " IS_ON);
	u.skip = -5;
	story_check(&config, ON ".bytes c9; TNT T; " ON, IS_ON "error BAD_OPCODE; " IS_ON);
	story_check(NULL, ON ".bytes c9; TNT T; " ON, IS_ON "error BAD_OPCODE; " IS_ON);
}

/* Checks the first item after a jump to `offset`, and the decoder's position. */
static void jump(struct ptah_event_decoder *d, const struct story *story, uint64_t offset,
		 uint64_t psb, uint64_t ip)
{
	struct ptah_item item;

	ptah_event_seek(d, offset);
	assert_int_equal(ptah_event_feed(d, story->bytes + offset, story->size - offset, true), 0);
	assert_int_equal(ptah_event_read(d, &item, 1), 1);
	assert_true(item.type == PTAH_ITEM_PSB && item.offset == psb && item.ip == ip);
}

/* Three PSB+ with a TNT each, 24 bytes apart. */
TEST(seeking)
{
	static struct story story;
	struct ptah_event_decoder *d;
	const uint8_t *psb;

	story_assemble(&story,
		       "PSB; FUP 0x401000; PSBEND; TNT T; PSB; FUP 0x402000; PSBEND; TNT T; "
		       "PSB; FUP 0x403000; PSBEND; TNT T");
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, story.bytes, 30, false), 0);
	jump(d, &story, 48, 48, 0x403000); /* while a chunk is half used */
	jump(d, &story, 0, 0, 0x401000);
	jump(d, &story, 1, 24, 0x402000); /* to the next PSB from anywhere */
	/* Backward: to the last PSB before a position. */
	psb = ptah_packet_find_last_psb(story.bytes, story.bytes + 47);
	assert_true(psb == story.bytes + 24);
	jump(d, &story, (uint64_t)(psb - story.bytes), 24, 0x402000);
	/* After the last PSB there is nothing; the error has the offset of the jump. */
	ptah_event_seek(d, 49);
	assert_int_equal(ptah_event_feed(d, story.bytes + 49, story.size - 49, true), 0);
	assert_int_equal(ptah_event_read(d, items, 64), 1);
	assert_int_equal(items[0].status, PTAH_E_NO_SYNC);
	assert_true(items[0].offset == 49);
	ptah_event_decoder_free(d);
}
