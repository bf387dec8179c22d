/* SPDX-License-Identifier: MIT */
/* Events are reported at their places among the instructions. */
#include "../event/story.h"
#include "flow/state.h"

#include <ptah/flow.h>

/*
 * 0x401000: NOP x 8; PTWRITE EAX; NOP; JMP *RAX. 0x40100f: a loop that needs no
 * trace: NOP x 2; PTWRITE EAX; JMP 0x40100f. 0x401017: NOP; and a loop: NOP; JMP 0x401018.
 * 0x40101b: the same with JNE 0x40101c.
 */
static const uint8_t code[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf3, 0x0f, 0xae,
			       0xe0, 0x90, 0xff, 0xe0, 0x90, 0x90, 0xf3, 0x0f, 0xae, 0xe0, 0xeb,
			       0xf8, 0x90, 0x90, 0xeb, 0xfd, 0x90, 0x90, 0x75, 0xfd};

/* The same items, fed whole and in chunks of a byte, read one by one and many at once. */
static void check(const struct ptah_event_config *events, const char *trace, const char *expected)
{
	struct ptah_flow_config config = {.size = sizeof(config), .events = *events};
	static struct story story;

	story_assemble(&story, trace);
	for (unsigned way = 0; way < 4; way++) {
		size_t chunk = way & 1 ? 1 : story.size;
		struct ptah_item items[16];
		struct ptah_image *image;
		struct ptah_flow *flow;
		int n;

		story.length = 0;
		assert_int_equal(ptah_image_new(&image), 0);
		assert_int_equal(ptah_image_add_bytes(image, code, sizeof(code), 0x401000, NULL),
				 0);
		assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
		for (size_t at = 0; at < story.size; at += chunk) {
			assert_int_equal(
			    ptah_flow_feed(flow, story.bytes + at, chunk, at + chunk == story.size),
			    0);
			while ((n = ptah_flow_read(flow, items, way & 2 ? 16 : 1)) > 0)
				for (int i = 0; i < n; i++)
					story_item(&story, &items[i]);
		}
		ptah_flow_free(flow);
		ptah_image_free(image);
		assert_string_equal(story.text, expected);
	}
}

static const struct ptah_event_config plain = {.size = sizeof(plain)};

#define AT_64(ip) "PSB; MODE.Exec 64-bit; FUP " #ip "; PSBEND; "
#define ON_64	  AT_64(0x401000)

TEST(at_their_address)
{
	check(&plain, ON_64 "CFE type 1 vector 32; FUP 0x401002; TIP 0x401000; TIP.PGD",
	      IS_ON "block cut ip=401000 to=401002 count=2; interrupt ip=401002 count=20; "
		    "async-branch ip=401002 to=401000; block ip=401000 to=40100f count=b; "
		    "disabled noip; ");
	check(&plain, ON_64 "EXSTOP ip; FUP 0x401001; TRIG trbv 1 icnt 0 ip; FUP 0x401003; TIP.PGD",
	      IS_ON "block cut ip=401000 to=401001 count=1; exstop ip=401001; "
		    "block cut ip=401001 to=401003 count=2; trigger ip=401003 value=1 detail=1; "
		    "block ip=401003 to=40100f count=8; disabled noip; ");
}

/* A PTWRITE has retired when its packet is written; without a FUP it is the next one ahead. */
TEST(ptwrite_without_address)
{
	check(&plain, ON_64 "PTW 0x55; TIP.PGD",
	      IS_ON "block cut ip=401000 to=40100c count=9; ptwrite ip=401008 value=55 count=4; "
		    "block ip=40100c to=40100f count=2; disabled noip; ");
}

/*
 * From after it, once round the loop: cut at the same places when the reader has room for one item.
 */
TEST(ptwrite_behind_us_in_a_loop)
{
	check(&plain, ON_64 "TIP 0x401015; PTW 0x00000007; OVF",
	      IS_ON "block ip=401000 to=40100f count=b; block ip=401015 to=401017 count=1; "
		    "block cut ip=40100f to=401011 count=2; block cut ip=401011 to=401015 count=1; "
		    "ptwrite ip=401011 value=7 count=4; overflow noip; ");
}

/* CLI and STI: the FUP of the flag's packet is reached like any address. */
TEST(interrupt_flag)
{
	const struct ptah_event_config config = {.size = sizeof(config), .trace.event_trace = true};

	check(&config, ON_64 "MODE.Exec 64-bit if; FUP 0x401002; TIP.PGD",
	      IS_ON "iflags status ip=401000; block cut ip=401000 to=401002 count=2; "
		    "iflags ip=401002 value=1; block ip=401002 to=40100f count=9; disabled noip; ");
}

/* A change of the code's size with a FUP of its own is valid from that address on, not before. */
TEST(code_size_with_address)
{
	check(&plain, ON_64 "MODE.Exec 32-bit; FUP 0x401002; TIP.PGD",
	      IS_ON "block cut ip=401000 to=401002 count=2; exec-mode 32-bit ip=401002; "
		    "block ip=401002 to=40100f count=9; disabled noip; ");
}

/* A tick has the address that the trace has proven. */
TEST(ticks)
{
	const struct ptah_event_config config = {
	    .size = sizeof(config), .ticks = true, .nominal_ratio = 20};

	check(&config, ON_64 "TIP 0x401000; CYC 7; TIP.PGD",
	      IS_ON "block ip=401000 to=40100f count=b; tick ip=401000 value=7; "
		    "block ip=401000 to=40100f count=b; disabled noip; ");
}

/* An overflow's address may be in a PSB+ that is reported after it. */
TEST(overflow_with_psb)
{
	check(&plain, ON_64 "OVF; PSB; MODE.Exec 64-bit; FUP 0x401004; PSBEND; TIP.PGD",
	      IS_ON "overflow ip=401004; psb status ip=401004; "
		    "block ip=401004 to=40100f count=7; disabled noip; ");
}

/* What is reported before a pause at a PSB does not depend on the reader's room. */
TEST(pause_at_a_psb)
{
	static const char trace[] = "PSB; TSC 1; MODE.Exec 64-bit; FUP 0x401000; PSBEND; "
				    "PSB; TSC 9; MODE.Exec 64-bit; FUP 0x401004; PSBEND; TIP.PGD";
	static struct story story;

	story_assemble(&story, trace);
	for (size_t room = 1; room <= 16; room++) {
		struct ptah_item items[16];
		struct ptah_image *image;
		struct ptah_flow *flow;
		int n;

		story.length = 0;
		assert_int_equal(ptah_image_new(&image), 0);
		assert_int_equal(ptah_image_add_bytes(image, code, sizeof(code), 0x401000, NULL),
				 0);
		assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
		flow_set_time_limit(flow, 5);
		assert_int_equal(ptah_flow_feed(flow, story.bytes, story.size, true), 0);
		while ((n = ptah_flow_read(flow, items, room)) > 0)
			for (int i = 0; i < n; i++)
				story_item(&story, &items[i]);
		assert_true(flow_is_paused(flow));
		assert_string_equal(story.text, IS_ON "block cut ip=401000 to=401004 count=4; "
						      "psb status ip=401004; ");
		ptah_flow_free(flow);
		ptah_image_free(image);
	}
}

/*
 * SDM "FilterEn": tracing goes off where a taken branch leads, here to the second instruction,
 * which was executed before: it was entered straight on. Only where no branch leads there it was
 * not.
 */
TEST(off_by_a_branch_backwards)
{
	check(&plain, AT_64(0x401017) "TIP.PGD 0x401018",
	      "psb status ip=401017; block ip=401017 to=40101b count=3; disabled to=401018; ");
	check(&plain, AT_64(0x401018) "TIP.PGD 0x401018",
	      "psb status ip=401018; block ip=401018 to=40101b count=2; disabled to=401018; ");
	check(
	    &plain, AT_64(0x40101b) "TIP.PGD 0x40101c",
	    "psb status ip=40101b; block taken ip=40101b to=40101f count=3; disabled to=40101c; ");
	check(&plain, AT_64(0x401000) "TIP.PGD 0x401004",
	      "psb status ip=401000; block cut ip=401000 to=401004 count=4; disabled to=401004; ");
}
