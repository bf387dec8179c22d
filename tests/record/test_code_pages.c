/* SPDX-License-Identifier: MIT */
/*
 * Which code of a virtual machine is recorded: a decoder that applies what is reported, in order,
 * has the bytes of each block that runs.
 */
#include "test.h"

#include "record/system/code_pages.h"

#include <stdlib.h>
#include <string.h>

#define PLACES 4096

/* What a decoder has: the pages, and which one is where. */
static uint8_t pages[512][CODE_PAGE];
static struct code_news maps[PLACES];
static unsigned page_count, map_count, changes;

static void add_page(uint32_t number, const uint8_t *bytes)
{
	assert_int_equal(number, page_count);
	assert_in_range(number, 0, 511);
	memcpy(pages[page_count++], bytes, CODE_PAGE);
}

static void add_map(void *context, const struct code_news *news)
{
	unsigned i = 0;

	assert_ptr_equal(context, &map_count);
	while (i < map_count && (maps[i].cr3 != news->cr3 || maps[i].address != news->address))
		i++;
	assert_int_equal(news->changed, i < map_count);
	assert_in_range(news->page, 0, page_count - 1);
	changes += news->changed;
	map_count += i == map_count;
	maps[i] = *news;
}

static uint8_t decoded(uint64_t cr3, uint64_t address)
{
	for (unsigned i = 0; i < map_count; i++)
		if (maps[i].cr3 == cr3 && address - maps[i].address < CODE_PAGE)
			return pages[maps[i].page][address - maps[i].address];
	fail_msg("nothing is at %lx", (unsigned long)address);
	return 0;
}

static struct code_view view = {.add_page = add_page, .add_map = add_map, .context = &map_count};

/* The block runs; then the decoder must have it. */
static void run(uint64_t cr3, const struct code_block *b, uint64_t address)
{
	struct code_space *space = code_space(&view, cr3);

	assert_non_null(space);
	if (!code_is_known(space, b, address))
		assert_true(code_learn(&view, space, b, address));
	assert_true(code_is_known(space, b, address));
	for (unsigned i = 0; i < b->size; i++)
		assert_int_equal(decoded(cr3, address + i), b->bytes[i]);
}

TEST(a_page_is_recorded_once)
{
	static uint8_t memory[CODE_PAGE];
	struct code_block *b, *c;

	memset(memory, 0x90, sizeof(memory));
	b = code_block_new(0x401010, memory + 0x10, 5, memory, NULL);
	c = code_block_new(0x401800, memory + 0x800, 9, memory, NULL);
	run(0x1000, b, 0x401010);
	run(0x1000, c, 0x401800);
	run(0x2000, b, 0x7f001010); /* the same page elsewhere */
	assert_int_equal(page_count, 1);
	assert_int_equal(map_count, 2);
	assert_int_equal(changes, 0);
	free(b);
	free(c);
}

TEST(what_changed_replaces)
{
	static uint8_t memory[CODE_PAGE];
	const unsigned before = changes;
	struct code_block *b, *c, *d;

	memset(memory, 1, sizeof(memory));
	b = code_block_new(0x5000, memory, 16, memory, NULL);
	c = code_block_new(0x5100, memory + 0x100, 16, memory, NULL);
	run(7, b, 0x5000);
	run(7, c, 0x5100);
	memory[0x102] = 2; /* QEMU translates the code again */
	d = code_block_new(0x5100, memory + 0x100, 16, memory, NULL);
	run(7, b, 0x5000);
	assert_int_equal(changes, before);
	run(7, d, 0x5100);
	assert_int_equal(changes, before + 1);
	run(7, b, 0x5000); /* is compared again, and is the same */
	assert_int_equal(changes, before + 1);
	memory[0x102] = 1;
	run(7, c, 0x5100);
	assert_int_equal(changes, before + 2);
	free(b);
	free(c);
	free(d);
}

/* Another processor writes while the page is taken: the block's own bytes count. */
TEST(a_race_is_won_by_what_runs)
{
	static uint8_t memory[CODE_PAGE];
	static const uint8_t was[] = {1, 2, 3, 4};
	struct code_block *b = code_block_new(0x9ffe, was, 4, memory, NULL);

	memset(memory, 0xcc, sizeof(memory));
	run(9, b, 0x9ffe); /* and it spans two pages, of which the second is not known */
	assert_int_equal(decoded(9, 0x9ffd), 0xcc);
	free(b);
}

static uint64_t random_number(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

/* Random memory, blocks, places and changes, against the decoder of above. */
TEST(random_code)
{
	static uint8_t memory[8][CODE_PAGE];
	struct code_block *blocks[512];
	unsigned count = 0;

	for (unsigned n = 0; n < 20000; n++) {
		const uint64_t r = random_number();
		uint8_t *page = memory[r & 7];
		const uint64_t at = r >> 8 & 0xfff;
		const uint64_t address = (UINT64_C(0x10000) + (r >> 32 & 15)) << 12 | at;
		struct code_block *b;

		if (!(r >> 40 & 127) && page_count < 480) /* what was translated there is gone */
			page[at] = (uint8_t)(r >> 48 & 1);
		b = code_block_new(address, page + at, 1 + (r >> 20 & 31) % (CODE_PAGE - at), page,
				   NULL);
		assert_non_null(b);
		run((r >> 56 & 3) << 12, b, address);
		if (count < 512)
			blocks[count++] = b;
		else
			free(b);
	}
	while (count)
		free(blocks[--count]);
}

TEST(many_addresses)
{
	static const uint8_t bytes[] = {0x90, 0xc3};
	struct code_block *b = code_block_new(0, bytes, 2, NULL, NULL);
	const unsigned before = map_count;

	for (uint64_t i = 0; i < 2000; i++)
		run(0x77000, b, i << 12);
	for (uint64_t i = 0; i < 2000; i++)
		assert_true(code_is_known(code_space(&view, 0x77000), b, i << 12));
	assert_int_equal(map_count, before + 2000);
	free(b);
}
