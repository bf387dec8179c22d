/* SPDX-License-Identifier: MIT */
/*
 * Code that comes from an image's reader callback and changes later: the flow reads it again after
 * setting the reader again, and not before.
 */
#include "../event/story.h"

#include "flow/flow_machine.h"

/* The bytes at 0x402000; `calls` counts how often they were read. */
struct memory {
	const char *bytes;
	size_t n;
	unsigned calls;
};

static size_t read_memory(void *context, const struct ptah_space *space, uint64_t address,
			  void *bytes, size_t n)
{
	struct memory *m = context;
	size_t at = (size_t)(address - 0x402000);

	(void)space;
	m->calls++;
	if (address < 0x402000 || at >= m->n)
		return 0;
	n = n < m->n - at ? n : m->n - at;
	memcpy(bytes, m->bytes + at, n);
	return n;
}

static void feed(struct ptah_flow *flow, struct story *story, const char *trace)
{
	struct ptah_item items[64];
	int n;

	story_assemble(story, trace);
	story->length = 0;
	story->text[0] = '\0';
	assert_int_equal(ptah_flow_feed(flow, story->bytes, story->size, false), 0);
	while ((n = ptah_flow_read(flow, items, 64)) > 0)
		for (int i = 0; i < n; i++)
			story_item(story, &items[i]);
}

/* A section with JMP 0x402000 at 0x401000, and with NOPs at 0x401ffe that lead across its end. */
static struct ptah_image *image_of(struct memory *m)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, "\xe9\xfb\x0f\x00\x00", 5, 0x401000, NULL), 0);
	assert_int_equal(ptah_image_add_bytes(image, "\x90\x90", 2, 0x401ffe, NULL), 0);
	assert_int_equal(ptah_image_add_bytes(image, "\xff\xe0", 2, 0x403000, NULL), 0);
	ptah_image_set_reader(image, read_memory, m);
	return image;
}

#define BEGIN "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; "

TEST(changes_when_told)
{
	static struct story story;
	struct memory memory = {"\xff\xe0", 2, 0}; /* JMP RAX */
	struct ptah_image *image = image_of(&memory);
	struct ptah_flow *flow;
	size_t nodes;

	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	feed(flow, &story, BEGIN "tip.48 0x401ffe; tip.48 0x403000; tip.48 0x401000; ");
	assert_string_equal(story.text, "psb status ip=401000; block ip=401000 to=401005 count=1; "
					"block ip=402000 to=402002 count=1; "
					"block ip=401ffe to=402002 count=3; "
					"block ip=403000 to=403002 count=1; ");
	nodes = flow->code.node_count;
	memory = (struct memory){"\x90\xff\xe0", 3, 0}; /* NOP; JMP RAX */

	/* Without notice of the change, what is known stays known. */
	feed(flow, &story, "tip.48 0x401ffe; tip.48 0x401000; ");
	assert_string_equal(story.text, "block ip=401000 to=401005 count=1; "
					"block ip=402000 to=402002 count=1; "
					"block ip=401ffe to=402002 count=3; ");
	assert_int_equal(memory.calls, 0);

	/*
	 * After the notice, code that lies in the reader's memory, even in part, is read again, and
	 * no other.
	 */
	ptah_image_set_reader(image, read_memory, &memory);
	flow_follow_image(flow);
	assert_int_equal(flow->code.node_count, nodes - 2);
	feed(flow, &story, "tip.48 0x401ffe; tip.48 0x401000; ");
	assert_string_equal(story.text, "block ip=401000 to=401005 count=1; "
					"block ip=402000 to=402003 count=2; "
					"block ip=401ffe to=402003 count=4; ");
	assert_true(memory.calls > 0);

	/* The callback returns no bytes any more. */
	memory = (struct memory){NULL, 0, 0};
	ptah_image_set_reader(image, read_memory, &memory);
	feed(flow, &story, "tip.48 0x401ffe; ");
	assert_string_equal(story.text,
			    "block ip=401000 to=401005 count=1; error NO_CODE ip=402000; ");
	ptah_flow_free(flow);
	ptah_image_free(image);
}

/*
 * Where no code came from the reader, the notice costs nothing: not even links of return sites are
 * lost.
 */
TEST(untouched)
{
	static struct story story;
	struct memory memory = {"\xff\xe0", 2, 0};
	struct ptah_image *image = image_of(&memory);
	struct ptah_flow *flow;
	const struct code_node *node;

	assert_int_equal(ptah_image_add_bytes(image, "\xff\xe0", 2, 0x402000, NULL), 0);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	feed(flow, &story, BEGIN "tip.48 0x403000; tip.48 0x401000; tip.48 0x403000; ");
	node = flow->node;
	assert_non_null(node);
	for (unsigned i = 0; i < 2 * IMAGE_CHANGES; i++) {
		ptah_image_set_reader(image, read_memory, &memory);
		assert_false(flow_follow_image(flow));
		assert_ptr_equal(flow->node, node);
	}
	ptah_image_set_reader(NULL, read_memory, NULL);
	ptah_flow_free(flow);
	ptah_image_free(image);
}
