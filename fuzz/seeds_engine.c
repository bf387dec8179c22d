/* SPDX-License-Identifier: MIT */
/* Seeds of the capture engine and of the page that it writes to: random calls and actions. */
#include "seeds.h"

/* fuzz_engine's input: the processor, the faults, and random calls of three bytes. */
static void make_play(struct buffer *b, uint32_t processor, unsigned calls)
{
	uint32_t state = 0x9e3779b9u * (processor + 1);
	const uint8_t head[] = {(uint8_t)processor, (uint8_t)(processor * 37), 20, 30};
	unsigned i;

	put_bytes(b, head, sizeof(head));
	for (i = 0; i < 3 * calls; i++) {
		uint8_t byte;

		state = state * 1664525u + 1013904223u;
		byte = (uint8_t)(state >> 24);
		/* First, three captures are created. */
		if (i < 9 && i % 3 == 0)
			byte = (uint8_t)(14 * 4 + i / 3);
		put_bytes(b, &byte, 1);
	}
}

static void make_play_of_threads(struct buffer *b)
{
	make_play(b, 0, 250);
}

static void make_play_by_msr(struct buffer *b)
{
	make_play(b, 1, 250);
}

static void make_play_of_everything(struct buffer *b)
{
	make_play(b, 2, 350);
}

static void make_play_without_vmx(struct buffer *b)
{
	make_play(b, 0x40 + 7, 250);
}

static void make_play_of_one_region(struct buffer *b)
{
	make_play(b, 3, 250);
}

static void make_play_of_a_range(struct buffer *b)
{
	make_play(b, 0x80 + 4, 250);
}

/* fuzz_capture_page's input: the processor, the capture, and random actions of four bytes. */
static void make_page_play(struct buffer *b, uint8_t processor, uint8_t capture, uint8_t sizes)
{
	const uint8_t head[] = {processor, capture, sizes, 6, 0, 0, 0, 10, 1, 0, 0};
	uint32_t state = 0x9e3779b9u * (processor + capture + 1u);
	unsigned i;

	put_bytes(b, head, sizeof(head));
	for (i = 0; i < 4 * 200; i++) {
		uint8_t byte;

		state = state * 1664525u + 1013904223u;
		byte = (uint8_t)(state >> 24);
		put_bytes(b, &byte, 1);
	}
}

static void make_page_that_wraps(struct buffer *b)
{
	make_page_play(b, 0, 0, 0x68);
}

static void make_page_of_a_thread(struct buffer *b)
{
	make_page_play(b, 0, 5, 0x6b);
}

static void make_page_of_one_entry(struct buffer *b)
{
	make_page_play(b, 1, 4, 0x18);
}

static void make_page_that_stops(struct buffer *b)
{
	make_page_play(b, 2, 2, 0x7a);
}

static void make_page_without_pmis(struct buffer *b)
{
	make_page_play(b, 3, 0x44, 0x38);
}

static const struct seed seeds[] = {
    {"engine/threads", make_play_of_threads},
    {"engine/by-msr", make_play_by_msr},
    {"engine/everything", make_play_of_everything},
    {"engine/no-vmx", make_play_without_vmx},
    {"engine/one-region", make_play_of_one_region},
    {"engine/range", make_play_of_a_range},
    {"capture_page/wrap", make_page_that_wraps},
    {"capture_page/thread", make_page_of_a_thread},
    {"capture_page/one-entry", make_page_of_one_entry},
    {"capture_page/stop", make_page_that_stops},
    {"capture_page/no-pmi", make_page_without_pmis},
};

const struct seeds seeds_of_engine = {seeds, sizeof(seeds) / sizeof(*seeds)};
