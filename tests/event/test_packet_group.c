/* SPDX-License-Identifier: MIT */
/* Groups of packets that are read from the bytes: as the event decoder reports them. */
#include "compare_group.h"
#include "story.h"

/* Tracing is on, and the packet after the PSB+ shows that the PSB+ is right about it (BDM70). */
#define BEGUN ON "TNT-8 N; "

static struct story story;

/* Compares at every group of the trace, of which there must be so many. */
static void check(const char *trace, unsigned psb, unsigned group)
{
	struct group_counts counts = {0};

	story_assemble(&story, trace);
	memset(story.bytes + story.size, 0, 64); /* PADs, so that the last packets can be read */
	assert_true(groups_equal_events(NULL, story.bytes, story.size + 64, &counts));
	assert_int_equal(counts.psb, psb);
	assert_int_equal(counts.group, group);
}

TEST(switching)
{
	check(BEGUN "TIP.PGD 0x402000", 0, 1);
	check(BEGUN "TIP.PGD", 0, 1);
	check(BEGUN "FUP 0x401003; TIP.PGD", 0, 1);
	check(BEGUN "FUP 0x401003; PAD; PAD; TIP.PGD 0x500000", 0, 1);
	check(BEGUN "FUP 0x401003; TIP 0x500000; TIP.PGD 0x7f0000001000", 0, 2);
	/* Something between the two: for the event decoder. */
	check(BEGUN "FUP 0x401003; PIP cr3 0x5000; TIP 0x500000", 0, 0);
	check(BEGUN "FUP 0x401003; MODE.Exec 32-bit; TIP.PGD", 0, 0);
}

TEST(headers)
{
	check(BEGUN "PSB; FUP 0x401000; PSBEND", 1, 0);
	check(BEGUN "PSB; CBR ratio 20; PAD; FUP 0x401002; MODE.Exec 64-bit; PSBEND", 1, 0);
	check(BEGUN
	      "PSB; TSC 0x1000; TMA ctc 5 fc 7; CBR ratio 30; MODE.TSX commit; MODE.Exec 32-bit; "
	      "FUP 0x401000; PIP cr3 0x3000; VMCS base 0x4000; PSBEND; "
	      "PSB; TSC 0x2000; CBR ratio 20; CBR ratio 21; FUP 0x401004; PSBEND",
	      2, 0);
	/* Two of the same: the last counts. */
	check(BEGUN "PSB; FUP 0x401000; FUP 0x401008; PIP cr3 0x3000; PIP cr3 0x5000; PSBEND", 1,
	      0);
	/* The decoder takes these and what they begin. */
	check(BEGUN "PSB; PSBEND", 0, 0);
	check(BEGUN "PSB; MNT 0x1234; FUP 0x401000; PSBEND", 0, 0);
	check(BEGUN "PSB; FUP 0x401000; OVF", 0, 0);
}

/* A PSB+ in which a transaction begins, or that is cut at the end, is not taken. */
TEST(left_to_the_decoder)
{
	struct ptah_event_decoder *d;
	struct ptah_item item;
	struct packet_psb psb;

	story_assemble(&story, BEGUN "PSB; MODE.TSX begin; FUP 0x401000; PSBEND");
	memset(story.bytes + story.size, 0, 64);
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, story.bytes, story.size, true), 0);
	while (!d->plain)
		assert_int_equal(event_next(d, &item), 1);
	assert_true(packet_psb_read(d->pos, d->end, &psb));
	assert_true(psb.has_tsx && psb.in_tx);
	assert_false(event_take_psb(d, &psb, UINT64_MAX));
	for (const uint8_t *end = d->pos; end < d->end - 2; end++)
		assert_false(packet_psb_read(d->pos, end, &psb));
	ptah_event_decoder_free(d);
}

/* The time that a PSB+ leads to is not below the limit: then nothing of it has been taken. */
TEST(time_limit)
{
	struct ptah_event_decoder *d, before;
	struct ptah_item item;
	struct packet_psb psb;

	story_assemble(&story, BEGUN "PSB; TSC 0x1000; CBR ratio 9; FUP 0x401000; PSBEND");
	memset(story.bytes + story.size, 0, 64);
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, story.bytes, story.size + 64, true), 0);
	while (!d->plain)
		assert_int_equal(event_next(d, &item), 1);
	assert_true(packet_psb_read(d->pos, d->end - GROUP_LOOK, &psb));
	before = *d;
	assert_false(event_take_psb(d, &psb, 0x1000));
	assert_memory_equal(d, &before, sizeof(before));
	assert_true(event_take_psb(d, &psb, 0x1001));
	assert_int_equal(d->tsc, 0x1000);
	ptah_event_decoder_free(d);
}
