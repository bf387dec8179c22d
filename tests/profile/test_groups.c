/* SPDX-License-Identifier: MIT */
/*
 * Packets that belong together (TIP.PGD and TIP.PGE, interrupts, PSB+), again and again: counted
 * without the flow, and as the reference decoder and a flow of its own count them. Each trace says
 * how many instructions it executes, which follows from the code and the SDM alone.
 */
#include "../event/story.h"

#include "../reference/compare_flow.h"
#include "compare_coverage.h"
#include "compare_profile.h"
#include "profile/profile_internal.h"

/*
 * 401000: nop; je 401010		2 instructions, and a branch
 * 401003: nop; jmp rax			2
 * 401010: call 401020			1
 * 401015: jmp rax			1, what the call returns to
 * 401020: nop; nop; ret		3
 * 401030: jmp 401038			1, on the direct way to:
 * 401038: nop; nop; je 401000		3
 * 401040: call 401060			1
 * 401045: jmp rax			1, what the call returns to
 * 401060: nop; je 401068		2
 * 401063: call 401060			1, calls itself
 * 401068: ret				1
 */
static const struct {
	uint64_t at;
	const char *bytes;
	size_t n;
} code[] = {
    {0x401000, "\x90\x74\x0d", 3},
    {0x401003, "\x90\xff\xe0", 3},
    {0x401010, "\xe8\x0b\x00\x00\x00", 5},
    {0x401015, "\xff\xe0", 2},
    {0x401020, "\x90\x90\xc3", 3},
    {0x401030, "\xeb\x06", 2},
    {0x401038, "\x90\x90\x74\xc4", 4},
    {0x401040, "\xe8\x1b\x00\x00\x00", 5},
    {0x401045, "\xff\xe0", 2},
    {0x401060, "\x90\x74\x05", 3},
    {0x401063, "\xe8\xf8\xff\xff\xff\xc3", 6},
};

#define ROUNDS 40

static struct story story;

static struct ptah_image *make_image(void)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	for (size_t i = 0; i < ARRAY_SIZE(code); i++)
		assert_true(
		    ptah_image_add_bytes(image, code[i].bytes, code[i].n, code[i].at, NULL) >= 0);
	return image;
}

/* The trace: `begin`, and then `round` so often. */
static void make_trace(const char *begin, const char *round)
{
	static char text[ROUNDS * 400];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s", begin);

	for (unsigned i = 0; i < ROUNDS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", round);
	assert_true(n < sizeof(text));
	story_assemble(&story, text);
}

static uint64_t reference_count(const struct ptah_image *image,
				const struct ptah_flow_config *config, uint64_t *errors)
{
	struct reference_config how = {.read = read_image, .context = (void *)image};
	struct reference reference;
	uint64_t n = 0;

	memcpy(how.ranges, config->events.trace.ranges, sizeof(how.ranges));
	reference_decode(story.bytes, story.size, &how, &reference);
	*errors = 0;
	for (size_t i = 0; i < reference.count; i++) {
		n += reference.items[i].type == PTAH_ITEM_BLOCK;
		*errors += reference.items[i].type == PTAH_ITEM_ERROR;
	}
	reference_free(&reference);
	return n;
}

/* Feeds the trace to a profile, which compares itself with a second one after each chunk. */
static void feed(struct ptah_profile *profile, size_t chunk)
{
	for (size_t at = 0; at < story.size; at += chunk) {
		const size_t n = story.size - at < chunk ? story.size - at : chunk;

		assert_int_equal(
		    ptah_profile_feed(profile, story.bytes + at, n, at + n == story.size), 0);
	}
}

/*
 * Counts the trace in chunks of many sizes. `instructions`: how many it executes. `transitions`: at
 * how many places a group of packets is remembered, when the trace is one chunk.
 */
static void check_with_errors(const struct ptah_flow_config *flow, uint64_t instructions,
			      size_t transitions, uint64_t wrong)
{
	static const size_t chunks[] = {8192, 1, 7, 24, 61};
	const struct ptah_flow_config none = {.size = sizeof(none)};
	struct ptah_image *image = make_image();
	const struct execution e = {story.bytes, story.size};
	uint64_t errors;

	flow = flow ? flow : &none;
	assert_int_equal(reference_count(image, flow, &errors), instructions);
	assert_int_equal(errors, wrong);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		const struct ptah_profile_config config = {
		    .size = sizeof(config), .flow = *flow, .compare = true};
		struct ptah_profile_totals totals;
		struct ptah_profile *profile;

		assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
		feed(profile, chunks[i]);
		if (!i)
			assert_int_equal(profile->transition_count - !!profile->transition_count,
					 transitions);
		assert_int_equal(ptah_profile_totals(profile, &totals), 0);
		assert_int_equal(totals.instructions, instructions);
		assert_int_equal(totals.errors, wrong);
		ptah_profile_free(profile);
		assert_true(profile_equals_flow(image, flow, story.bytes, story.size, chunks[i]));
		for (unsigned variant = 0; variant < COVERAGE_VARIANTS; variant++)
			assert_true(
			    coverage_equals_flow(image, image, flow, &e, 1, chunks[i], variant));
	}
	ptah_image_free(image);
}

static void check(const struct ptah_flow_config *flow, uint64_t instructions, size_t transitions)
{
	check_with_errors(flow, instructions, transitions, 0);
}

#define START "PSB; CBR ratio 20; MODE.Exec 64-bit; PSBEND; "

/* Tracing is switched off by branches and on again: with return compression in each stretch. */
TEST(off_and_on)
{
	/* 401000: taken, call, nop, nop, compressed return; jmp rax leaves. 2 + 1 + 3 + 1. */
	make_trace(START, "TIP.PGE 0x401000; TNT-8 TT; TIP.PGD 0x7f0000001000; ");
	check(NULL, ROUNDS * 7, 1);
	/* By a conditional branch, to its target and to what follows it. */
	make_trace(START, "TIP.PGE 0x401000; TIP.PGD 0x401010; PAD; PAD; PAD; PAD; PAD; "
			  "TIP.PGE 0x401000; TIP.PGD 0x401003; ");
	check(NULL, ROUNDS * 4, 2);
	/* By the return itself, and without an address. */
	make_trace(START, "TIP.PGE 0x401010; TIP.PGD; TIP.PGE 0x401003; TIP.PGD; ");
	check(NULL, ROUNDS * 6, 2);
	/* Off twice from one place, to different addresses. */
	make_trace(START,
		   "TIP.PGE 0x401003; TIP.PGD 0x500000; TIP.PGE 0x401003; TIP.PGD 0x600000; ");
	check(NULL, ROUNDS * 4, 2);
}

/*
 * Tracing off and on between a call and its return: the call is not on the stack any more, so that
 * the return is not compressed. A TIP, which pops nothing.
 */
TEST(calls_across)
{
	make_trace(START, "TIP.PGE 0x401010; FUP 0x401021; TIP.PGD; TIP.PGE 0x401021; "
			  "TIP 0x401015; TIP.PGD; ");
	check(NULL, ROUNDS * (2 + 2 + 1), 2);
}

/* FUP and TIP.PGD, at a place that a direct jump leads to; and before an instruction has run. */
TEST(asynchronous)
{
	make_trace(START, "TIP.PGE 0x401030; FUP 0x401039; TIP.PGD 0x500000; ");
	check(NULL, ROUNDS * 2, 1);
	make_trace(START, "TIP.PGE 0x401030; FUP 0x401030; TIP.PGD; ");
	check(NULL, 0, 1);
	/* Interrupts whose handler is 401003, and which come at the end of a way, and in it. */
	make_trace(START "TIP.PGE 0x401000; ",
		   "FUP 0x401001; TIP 0x401003; TIP 0x401030; FUP 0x401038; TIP 0x401003; "
		   "TIP 0x401000; ");
	check(NULL, ROUNDS * (1 + 2 + 1 + 2), 2);
	/* After a call: it has to be pushed, so the flow takes the interrupt each time. */
	make_trace(START "TIP.PGE 0x401010; ",
		   "FUP 0x401021; TIP 0x401003; TIP 0x401022; TNT-8 T; TIP 0x401010; ");
	check(NULL, ROUNDS * (2 + 2 + 1 + 1), 0);
}

/* PSB+ at the place, and further along the direct way. */
TEST(headers)
{
#define HEADER(ip) "PSB; CBR ratio 20; FUP " ip "; MODE.Exec 64-bit; PSBEND; "
	make_trace(START "TIP.PGE 0x401000; ", HEADER("0x401000") "TNT-8 N; TIP 0x401000; ");
	check(NULL, ROUNDS * 4, 0);
	make_trace(START "TIP.PGE 0x401030; ",
		   HEADER("0x401039") "TNT-8 T; " HEADER("0x401001") "TNT-8 N; TIP 0x401030; ");
	check(NULL, ROUNDS * (4 + 2 + 2), 2);
	/* The return after it cannot be compressed: the call is older than the PSB. */
	make_trace(START "TIP.PGE 0x401010; ", HEADER("0x401022") "TIP 0x401015; TIP 0x401010; ");
	check(NULL, ROUNDS * (1 + 3 + 1), 1);
	/* The call is after it: that return is compressed. */
	make_trace(START "TIP.PGE 0x401010; ", HEADER("0x401010") "TNT-8 T; TIP 0x401010; ");
	check(NULL, ROUNDS * 5, 0);
	/* Tracing is switched off at once: only what is before the FUP has run for certain. */
	make_trace(START, "TIP.PGE 0x401030; " HEADER("0x401039") "FUP 0x401039; TIP.PGD; ");
	check(NULL, ROUNDS * 2, 0);
}

/* While tracing is off: PSB+, and erratum BDM70, a PSB+ with the address of the next TIP.PGE. */
TEST(off)
{
	make_trace(START, START START "MODE.Exec 64-bit; TIP.PGE 0x401003; TIP.PGD 0x500000; "
				      "PSB; FUP 0x401030; PSBEND; TIP.PGE 0x401030; FUP 0x401038; "
				      "TIP.PGD; ");
	check(NULL, ROUNDS * 3, 2);
}

/* The mode and the address space change while tracing is off, and back. */
TEST(contexts)
{
	make_trace(START,
		   "PIP cr3 0x3000; MODE.Exec 32-bit; TIP.PGE 0x401000; TNT-8 T; FUP 0x401010; "
		   "TIP.PGD; PIP cr3 0x5000; PSB; MODE.Exec 64-bit; PSBEND; "
		   "TIP.PGE 0x401000; TNT-8 T; FUP 0x401010; TIP.PGD; ");
	check(NULL, ROUNDS * 4, 2);
	/* A PSB+ while tracing is on that changes the mode is the flow's, which reports it. */
	make_trace(START "TIP.PGE 0x401000; ",
		   "PSB; MODE.Exec 32-bit; FUP 0x401000; PSBEND; TNT-8 N; TIP 0x401000; "
		   "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; TNT-8 N; TIP 0x401000; ");
	check_with_errors(NULL, ROUNDS * 8, 0, ROUNDS * 2);
	/* And one that names another space. */
	make_trace(START "TIP.PGE 0x401000; ",
		   "PSB; MODE.Exec 64-bit; FUP 0x401000; PIP cr3 0x3000; PSBEND; TNT-8 N; "
		   "TIP 0x401000; PSB; MODE.Exec 64-bit; FUP 0x401000; PIP cr3 0x5000; PSBEND; "
		   "TNT-8 N; TIP 0x401000; ");
	check(NULL, ROUNDS * 8, 0);
}

/* SDM: a conditional branch that leaves the filter's range has no address in its TIP.PGD. */
TEST(filtered)
{
	const struct ptah_flow_config flow = {
	    .size = sizeof(flow),
	    .events.trace.ranges = {
		{.first = 0x401000, .last = 0x40100f, .mode = PTAH_RANGE_FILTER}}};

	make_trace(START, "TIP.PGE 0x401000; TIP.PGD; TIP.PGE 0x401003; TIP.PGD; ");
	check(&flow, ROUNDS * 4, 2);
}

/* The code changes between two visits: what was learned holds for the old code only. */
TEST(changed_code)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .compare = true};
	struct ptah_image *image = make_image();
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;

	make_trace(START, "TIP.PGE 0x401003; TIP.PGD 0x500000; ");
	assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
	feed(profile, story.size);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.instructions, ROUNDS * 2);
	/* nop; nop; nop; jmp rax */
	assert_true(ptah_image_add_bytes(image, "\x90\x90\x90\xff\xe0", 5, 0x401003, NULL) >= 0);
	ptah_profile_seek(profile, 0);
	feed(profile, story.size);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.instructions, ROUNDS * 6);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

/* A caller that wants to see events sees them all. */
static void count_events(void *context, const struct ptah_item *item)
{
	*(unsigned *)context += item->type == PTAH_ITEM_ENABLED || item->type == PTAH_ITEM_DISABLED;
}

TEST(events)
{
	unsigned seen = 0;
	const struct ptah_profile_config config = {
	    .size = sizeof(config), .on_event = count_events, .context = &seen};
	struct ptah_image *image = make_image();
	struct ptah_profile *profile;

	make_trace(START, "TIP.PGE 0x401003; TIP.PGD 0x500000; ");
	assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
	feed(profile, story.size);
	assert_int_equal(seen, 2 * ROUNDS);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

/* Two instructions behind each of 20 PSB+, whose times are 0x100 apart. */
static void make_visits(void)
{
	char text[4000];
	size_t n = 0;

	for (unsigned i = 0; i < 20; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "PSB; TSC 0x%x; MODE.Exec 64-bit; PSBEND; TIP.PGE 0x401003; "
				      "TIP.PGD 0x500000; ",
				      0x1000 + 0x100 * i);
	story_assemble(&story, text);
}

/* Pauses at times that PSB+ bring: all that is before a pause is counted, and nothing after it. */
TEST(time_limit)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .compare = true};
	struct ptah_image *image = make_image();
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;

	make_visits();
	assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
	profile_set_time_limit(profile, 0x1000 + 0x100 * 7 + 1);
	assert_int_equal(ptah_profile_feed(profile, story.bytes, story.size, true), PROFILE_PAUSED);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.instructions, 8 * 2);
	profile_set_time_limit(profile, UINT64_MAX);
	assert_int_equal(profile_resume(profile), 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.instructions, 20 * 2);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

/* Four calls, the inner three recursive. Their returns are TIPs, or the rest is compressed. */
#define FOUR_CALLS "TNT-8 NNNT; "
#define TWO_TIPS   "TIP 0x401068; TIP 0x401068; "
#define ALL_TIPS   TWO_TIPS "TIP 0x401068; TIP 0x401045; "
#define FOUR_RAN   (1 + 4 * 2 + 3 + 4 + 1)

/*
 * Rows leave the return address stack alone up to the first compressed return, which then finds the
 * calls that were made before.
 */
TEST(first_compressed)
{
	static const size_t chunks[] = {8192, 1, 7, 24, 61};
	const struct ptah_profile_config config = {.size = sizeof(config), .compare = true};
	struct ptah_image *image = make_image();

	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		struct ptah_profile_totals totals;
		struct ptah_profile *profile;

		assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
		make_trace(START "TIP.PGE 0x401040; ", FOUR_CALLS ALL_TIPS "TIP 0x401040; ");
		feed(profile, chunks[i]);
		assert_true(profile->late_stack && !profile->stack_matters);
		ptah_profile_seek(profile, 0);
		make_trace(START "TIP.PGE 0x401040; " FOUR_CALLS ALL_TIPS "TIP 0x401040; ",
			   FOUR_CALLS TWO_TIPS "TNT-8 TT; TIP 0x401040; ");
		feed(profile, chunks[i]);
		/* In the smallest chunks there are no rows. */
		assert_int_equal(profile->stack_matters, chunks[i] >= 24);
		assert_int_equal(ptah_profile_totals(profile, &totals), 0);
		assert_int_equal(totals.errors, 0);
		assert_int_equal(totals.instructions, (2 * ROUNDS + 1) * FOUR_RAN);
		ptah_profile_free(profile);
	}
	/* The last returns have no packet before them: TNT of the calls and of the returns. */
	make_trace(START "TIP.PGE 0x401040; ",
		   FOUR_CALLS ALL_TIPS "TIP 0x401040; TNT-8 NNNTTT; TNT-8 TT; TIP 0x401040; ");
	check(NULL, ROUNDS * 2 * FOUR_RAN, 0);
	ptah_image_free(image);
}

/* Where the flow takes over all the time, the rows have the stack without a compressed return. */
TEST(follows_much)
{
	const struct ptah_profile_config config = {.size = sizeof(config)};
	struct ptah_image *image = make_image();
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;
	uint64_t rounds = 0;

	make_trace(START "TIP.PGE 0x401040; ", FOUR_CALLS ALL_TIPS "TIP 0x401040; ");
	assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
	while (profile->late_stack && rounds < 8192 * ROUNDS) {
		feed(profile, 61);
		ptah_profile_seek(profile, 0);
		rounds += ROUNDS;
	}
	assert_true(profile->stack_matters && profile->followed > 1u << 20);
	feed(profile, 61);
	rounds += ROUNDS;
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.errors, 0);
	assert_int_equal(totals.instructions, rounds * FOUR_RAN);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

/* Only what is inside a window of time is counted. */
TEST(window)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .compare = true};
	struct time_window w = time_window_whole();
	struct ptah_image *image = make_image();
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;

	make_visits();
	w.since = 0x1300;
	time_window_begin(&w);
	assert_int_equal(ptah_profile_new(image, &config, &profile), 0);
	profile_set_window(profile, &w);
	assert_int_equal(ptah_profile_feed(profile, story.bytes, story.size, true), 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_int_equal(totals.instructions, 17 * 2);
	ptah_profile_free(profile);
	ptah_image_free(image);
}
