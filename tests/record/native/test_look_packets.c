/* SPDX-License-Identifier: MIT */
/* Where the times of looks go into a thread's trace, and where they do not. */
#include "test.h"

#include "record/native/look_packets.h"

#include <ptah/packet.h>

#include <stdio.h>
#include <string.h>

static uint8_t chunk[1024], out[LOOK_ROOM];
static struct look_state state;
static size_t n, first; /* bytes; and those of the chunk's beginning */

/* Appends a line of packet text. */
static void add(const char *line)
{
	static struct ptah_packet_parser parser;
	const int size = ptah_packet_parse(&parser, line, chunk + n, sizeof(chunk) - n);

	assert_true(size > 0);
	n += (size_t)size;
}

static uint32_t place(unsigned bytes)
{
	return (uint32_t)(first + bytes);
}

static int setup(void **unused)
{
	(void)unused;
	n = 0;
	add("psb");
	add("fup 0x401000");
	add("psbend");
	first = n;
	state = (struct look_state){0};
	return 0;
}

/* Puts looks in; the packets are then those of `wanted`: their names, and times in place of TSC. */
static void expect_so(bool last, const struct look *looks, size_t count, const char *wanted)
{
	size_t walked;
	const size_t size = look_packets_put(&state, chunk, 0, n, last, looks, count, out, &walked);
	const uint8_t *bytes = size ? out : chunk;
	size_t at = 0, end = size ? size : n;
	char text[1024] = "";

	while (at < end) {
		struct ptah_packet p;
		const int step = ptah_packet_decode(&p, bytes + at, end - at, 0);
		const size_t used = strlen(text);

		assert_true(step > 0);
		if (p.type == PTAH_PACKET_TSC)
			snprintf(text + used, sizeof(text) - used, " %u", (unsigned)p.u.tsc.tsc);
		else
			snprintf(text + used, sizeof(text) - used, " %s", ptah_packet_name(p.type));
		at += (size_t)step;
	}
	assert_string_equal(text + 1, wanted);
}

/* With the beginning of a chunk before it, and whether or not more of the chunk follows. */
static void expect(const struct look *looks, size_t count, const char *wanted)
{
	char text[1024];

	snprintf(text, sizeof(text), "PSB FUP PSBEND %s", wanted);
	for (int last = 0; last < 2; last++)
		expect_so(last, looks, count, text);
}

/* A look goes in behind the packet that it has seen a part of. */
static void behind_packets(void **unused)
{
	const struct look looks[] = {
	    {place(1), 100, 110}, {place(3), 200, 210}, {place(5), 300, 310}};

	(void)unused;
	add("tnt TN");
	add("tip 0x401000");
	add("tnt N");
	add("tnt N");
	expect(looks, 3, "TNT-8 100 TIP 200 TNT-8 300 TNT-8");
	assert_true(state.last == 300);
}

/* Not beside the thread's own times, behind the last packet that is known, or where tracing is off.
 */
static void not_there(void **unused)
{
	struct look looks[64];

	(void)unused;
	add("tnt TN");
	add("tsc 0x64");
	add("tip.pgd");
	add("tsc 0xc8");
	add("tip.pge 0x401000");
	add("tnt N");
	for (uint32_t i = 0; i < n; i++)
		looks[i] = (struct look){i + 1, 150, 160};
	expect(looks, n, "TNT-8 100 TIP.PGD 200 TIP.PGE TNT-8");
}

/* The thread has read its clock before the look, and stored it later. */
static void later_than_the_next(void **unused)
{
	const struct look looks[] = {{place(1), 100, 110}, {place(2), 250, 260}};

	(void)unused;
	add("tnt N");
	add("tnt N");
	add("tnt N");
	add("tsc 0xc8");
	add("tip.pgd");
	expect(looks, 2, "TNT-8 100 TNT-8 TNT-8 200 TIP.PGD");
}

/* Code has changed: the looks since the thread's last time may be later than the change. */
static void before_a_mark(void **unused)
{
	uint32_t seen;

	(void)unused;
	add("tnt N");
	add("tnt N");
	add("tsc 0x64");
	add("tip.pgd");
	add("tsc 0x65");
	add("tip.pge 0x401000");
	add("tnt N");
	seen = (uint32_t)n;
	add("tnt N");
	add("fup 0x401000");
	add("tip.pgd");
	add("tsc 0xc8");
	add("tip.pge 0x401000");
	expect((struct look[]){{place(1), 50, 60}, {seen, 150, 160}}, 2,
	       "TNT-8 50 TNT-8 100 TIP.PGD 101 TIP.PGE TNT-8 TNT-8 FUP TIP.PGD 200 TIP.PGE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(behind_packets, setup),
	    cmocka_unit_test_setup(not_there, setup),
	    cmocka_unit_test_setup(later_than_the_next, setup),
	    cmocka_unit_test_setup(before_a_mark, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
