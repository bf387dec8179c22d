/* SPDX-License-Identifier: MIT */
/* Code that differs between address spaces, and code that changes under the decoder. */
#include "../event/story.h"

#include <ptah/flow.h>

static const struct ptah_space one = {0x1000, PTAH_SPACE_ANY}, two = {0x2000, PTAH_SPACE_ANY};

static void put(struct ptah_image *image, uint64_t address, const char *bytes, size_t n,
		const struct ptah_space *space)
{
	assert_int_equal(ptah_image_add_bytes(image, bytes, n, address, space), 0);
}

/* 0x401000 differs: NOP, JMP RAX in one space; NOP, NOP, NOP, JMP RAX in the other. */
static struct ptah_image *two_programs(void)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	put(image, 0x401000, "\x90\xff\xe0", 3, &one);
	put(image, 0x401000, "\x90\x90\x90\xff\xe0", 5, &two);
	/* SYSCALL in one space, JMP RAX in the other. */
	put(image, 0x402000, "\x0f\x05", 2, &one);
	put(image, 0x402000, "\xff\xe0", 2, &two);
	/* Kernel code, the same in both: NOP; MOV CR3, RAX; JMP RAX. And with REX and R8. */
	put(image, 0x500000, "\x90\x0f\x22\xd8\xff\xe0", 6, NULL);
	put(image, 0x501000, "\x41\x0f\x22\xd8\xff\xe0", 6, NULL);
	/* MOV CR0, RAX does not change the space. */
	put(image, 0x502000, "\x0f\x22\xc0\x90\xff\xe0", 6, NULL);
	return image;
}

static void check(struct ptah_image *image, const char *trace, const char *expected)
{
	static struct story story;

	story_assemble(&story, trace);
	for (unsigned way = 0; way < 4; way++) {
		size_t chunk = way & 1 ? 1 : story.size;
		struct ptah_item items[16];
		struct ptah_flow *flow;
		int n;

		story.length = 0;
		assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
		for (size_t at = 0; at < story.size; at += chunk) {
			assert_int_equal(
			    ptah_flow_feed(flow, story.bytes + at, chunk, at + chunk == story.size),
			    0);
			while ((n = ptah_flow_read(flow, items, way & 2 ? 16 : 1)) > 0)
				for (int i = 0; i < n; i++)
					story_item(&story, &items[i]);
		}
		ptah_flow_free(flow);
		assert_string_equal(story.text, expected);
	}
	ptah_image_free(image);
}

#define IN_ONE "PSB; PIP cr3 0x1000; MODE.Exec 64-bit; FUP 0x401000; PSBEND; "
#define IS_ONE "psb status ip=401000; paging status ip=401000 value=1000; "

/* SDM "PIP Packet": MOV CR3 is no branch; what follows it is in the new space. */
TEST(mov_cr3)
{
	check(two_programs(),
	      IN_ONE "TIP 0x500000; PIP cr3 0x2000; TIP 0x401000; TIP 0x502000; TIP.PGD",
	      IS_ONE "block ip=401000 to=401003 count=2; block cut ip=500000 to=500004 count=2; "
		     "paging noip value=2000; block ip=500004 to=500006 count=1; "
		     "block ip=401000 to=401005 count=4; block ip=502000 to=502006 count=3; "
		     "disabled noip; ");
	check(two_programs(), IN_ONE "TIP 0x501000; PIP cr3 0x2000; TIP 0x401000; TIP.PGD",
	      IS_ONE "block ip=401000 to=401003 count=2; block cut ip=501000 to=501004 count=1; "
		     "paging noip value=2000; block ip=501004 to=501006 count=1; "
		     "block ip=401000 to=401005 count=4; disabled noip; ");
}

/* Without such an instruction ahead the PIP belongs to the branch: a task switch, a VM exit. */
TEST(with_the_branch)
{
	check(two_programs(),
	      "PSB; PIP cr3 0x1000; MODE.Exec 64-bit; FUP 0x402000; PSBEND; PIP cr3 0x2000; "
	      "TIP 0x402000; TIP 0x401000; TIP.PGD",
	      "psb status ip=402000; paging status ip=402000 value=1000; paging noip value=2000; "
	      "block ip=402000 to=402002 count=1; block ip=402000 to=402002 count=1; "
	      "block ip=401000 to=401005 count=4; disabled noip; ");
	/* Between FUP and TIP: an interrupt through a task gate. */
	check(two_programs(), IN_ONE "FUP 0x401001; PIP cr3 0x2000; TIP 0x401000; TIP.PGD",
	      IS_ONE "block cut ip=401000 to=401001 count=1; async-branch ip=401001 to=401000; "
		     "async-paging ip=401000 value=2000; block ip=401000 to=401005 count=4; "
		     "disabled noip; ");
	/* While tracing is off. */
	check(two_programs(),
	      IN_ONE "TIP.PGD; PIP cr3 0x2000; TIP.PGE 0x401000; TIP 0x401000; TIP.PGD",
	      IS_ONE "block ip=401000 to=401003 count=2; disabled noip; paging noip value=2000; "
		     "enabled ip=401000; block ip=401000 to=401005 count=4; "
		     "block ip=401000 to=401005 count=4; disabled noip; ");
}

/* Items carry the numbers of space and section. */
TEST(numbers)
{
	static struct story story;
	struct ptah_image *image = two_programs();
	struct ptah_section section;
	struct ptah_space space;
	struct ptah_item items[16];
	struct ptah_flow *flow;
	int n, blocks = 0;

	story_assemble(&story, IN_ONE "TIP 0x500000; PIP cr3 0x2000; TIP 0x401000; TIP.PGD");
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, story.bytes, story.size, true), 0);
	n = ptah_flow_read(flow, items, 16);
	for (int i = 0; i < n; i++) {
		if (items[i].type != PTAH_ITEM_BLOCK)
			continue;
		assert_int_equal(ptah_flow_space(flow, items[i].code.space, &space), 0);
		assert_true(space.cr3 == (blocks++ < 2 ? 0x1000 : 0x2000));
		assert_true(space.vmcs == PTAH_SPACE_ANY);
		assert_int_equal(ptah_image_find(image, items[i].ip, &space, &section), 0);
		assert_int_equal(section.id, items[i].code.section);
	}
	assert_int_equal(blocks, 4);
	assert_int_equal(ptah_flow_space(flow, 3, &space), PTAH_E_INVAL);
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static void feed(struct ptah_flow *flow, struct story *story, const char *trace, bool last)
{
	struct ptah_item items[64];
	int n;

	story_assemble(story, trace);
	story->length = 0;
	assert_int_equal(ptah_flow_feed(flow, story->bytes, story->size, last), 0);
	while ((n = ptah_flow_read(flow, items, 64)) > 0)
		for (int i = 0; i < n; i++)
			story_item(story, &items[i]);
}

/*
 * 0x401000: JZ 0x401010; JMP 0x401020. 0x401010: JMP RAX. 0x401020: JMP RAX. Code overwritten at
 * 0x401020 is seen at once, and the rest stays known.
 */
TEST(patched)
{
	static struct story story;
	struct ptah_image *image;
	struct ptah_flow *flow;

	assert_int_equal(ptah_image_new(&image), 0);
	put(image, 0x401000, "\x74\x0e\xeb\x1c", 4, NULL);
	put(image, 0x401010, "\xff\xe0", 2, NULL);
	put(image, 0x401020, "\xff\xe0", 2, NULL);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	feed(flow, &story,
	     "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; TNT N; tip.48 0x401000; TNT T; "
	     "tip.48 0x401000; TNT N; tip.48 0x401000",
	     false);
	put(image, 0x401020, "\x90\x90\xff\xe0", 4, NULL);
	feed(flow, &story, "TNT N; tip.48 0x401000; TNT T; tip.48 0x401000; TNT N", false);
	assert_string_equal(story.text, "block ip=401000 to=401002 count=1; "
					"block ip=401002 to=401004 count=1; "
					"block ip=401020 to=401024 count=3; "
					"block taken ip=401000 to=401002 count=1; "
					"block ip=401010 to=401012 count=1; "
					"block ip=401000 to=401002 count=1; ");
	/*
	 * Now it jumps back to the JMP before it: a loop, where the chain was found to end before.
	 */
	put(image, 0x401020, "\xeb\xe0", 2, NULL);
	feed(flow, &story, "tip.48 0x401000", true);
	assert_string_equal(story.text, "error NO_PROGRESS ip=401002; ");
	ptah_flow_free(flow);
	ptah_image_free(image);
}
