/* SPDX-License-Identifier: MIT */
/*
 * A function of a file has one row, wherever processes mapped the file. The counts are made here,
 * over a file whose functions an assembler puts at known offsets.
 */
#include "folder.h"

#include "output/hotspots.h"

#include <ptah/trace_set.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At the offsets 0x1000 and 0x1020 of a.so. */
static const char source[] = ".text\n.globl red, green\n.type red,@function\nred: .skip 32,0x90\n"
			     ".size red,.-red\n.type green,@function\ngreen: .skip 96,0x90\n"
			     ".size green,.-green\n.section .note.GNU-stack,\"\",@progbits\n";

static int make_files(void **state)
{
	if (make_folder(state))
		return -1;
	write_text("a.s", source);
	write_text("empty.pt", "x");
	return system("cc -shared -nostdlib -Wl,--build-id=none,-Ttext-segment=0,"
		      "-z,noseparate-code,--section-start=.text=0x1000 -o a.so a.s") == 0
		   ? 0
		   : -1;
}

static void add_code(struct ptah_trace_set *set, int32_t pid, uint64_t address)
{
	char path[128];
	const struct ptah_trace_code code = {.size = sizeof(code),
					     .kind = PTAH_TRACE_CODE_RAW,
					     .file = {.path = path, .from = 0x1000, .to = 0x1080},
					     .address = address,
					     .pid = pid};

	snprintf(path, sizeof(path), "%s/a.so", folder);
	assert_int_equal(ptah_trace_set_add_code(set, &code), 0);
}

/* Processes 1 and 2 have the file at different addresses, and process 2 has it twice. */
static struct ptah_session *open_processes(void)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = "empty.pt"}, .cpu = -1, .pid = 1, .tid = 1};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	add_code(set, 1, 0x10000);
	add_code(set, 2, 0x10020); /* green of process 1 is where red of process 2 is */
	add_code(set, 2, 0x70000);
	config.set = set;
	if (ptah_session_open(NULL, &config, &s, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(set);
	return s;
}

static struct ptah_profile_block block(uint64_t ip, uint64_t count)
{
	return (struct ptah_profile_block){.ip = ip,
					   .end = ip + 4,
					   .ninsn = 4,
					   .count = count,
					   .insn_class = PTAH_INSN_JUMP,
					   .target = 0};
}

static void count(struct hotspots *counter)
{
	/* Process 1: red; green, which ends with a jump to red, a tail call. */
	struct ptah_profile_block one[] = {block(0x10000, 1), block(0x10020, 10)};
	/* Process 2: red and green, twice; and code that is in no file. */
	struct ptah_profile_block two[] = {block(0x10020, 100), block(0x10040, 1000),
					   block(0x5000, 7), block(0x70000, 10000),
					   block(0x70020, 100000)};
	const struct ptah_profile_block generated = block(0x5000, 9);

	one[1].target = 0x10000;
	assert_int_equal(hotspots_add_lists(counter, 1, one, 2, NULL, 0), 0);
	assert_int_equal(hotspots_add_lists(counter, 1, &generated, 1, NULL, 0), 0);
	assert_int_equal(hotspots_add_lists(counter, 2, two, 5, NULL, 0), 0);
}

static const struct hotspot *row_of(const struct hotspot *rows, size_t n, const char *name)
{
	const struct hotspot *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!rows[i].name.symbol || strcmp(rows[i].name.symbol, name) != 0)
			continue;
		assert_null(found);
		found = &rows[i];
	}
	assert_non_null(found);
	return found;
}

TEST(a_function_has_one_row_wherever_it_was_mapped)
{
	struct ptah_session *s = open_processes();
	const struct hotspot *red, *green;
	struct hotspots *counter;
	struct names *names;
	struct hotspot *rows;
	size_t n;

	assert_int_equal(names_new(s, NULL, &names), 0);
	assert_int_equal(hotspots_new(&counter), 0);
	count(counter);
	assert_int_equal(hotspots_functions(counter, names, &rows, &n), 0);
	assert_int_equal(n, 3); /* red, green, and what is in no file */
	red = row_of(rows, n, "red");
	green = row_of(rows, n, "green");
	assert_int_equal(red->instructions, 4 * (1 + 100 + 10000));
	assert_int_equal(green->instructions, 4 * (10 + 1000 + 100000));
	assert_int_equal(red->ip, 0x10000);
	assert_int_equal(green->ip, 0x10020);
	/* However it was entered, also by the tail call of process 1; in process 2 0x10020 is red. */
	assert_int_equal(red->calls, 1 + 100 + 10000);
	assert_int_equal(green->calls, 10 + 1000 + 100000);
	free(rows);
	hotspots_free(counter);
	names_free(names);
	ptah_session_close(s);
}

/* Of red alone, which a jump entered. Its branches go to `target` from its middle. */
static uint64_t calls_of_red(uint8_t insn_class, uint64_t target, uint64_t entered)
{
	struct ptah_profile_block blocks[] = {block(0x10000, 7), block(0x10008, 20)};
	struct ptah_session *s = open_processes();
	struct hotspots *counter;
	struct names *names;
	struct hotspot *rows;
	uint64_t calls;
	size_t n;

	blocks[1].insn_class = insn_class;
	blocks[1].target = target;
	blocks[1].taken = insn_class == PTAH_INSN_COND ? 4 : 0;
	blocks[0].count = entered;
	assert_int_equal(names_new(s, NULL, &names), 0);
	assert_int_equal(hotspots_new(&counter), 0);
	assert_int_equal(hotspots_add_lists(counter, 1, blocks, 2, NULL, 0), 0);
	assert_int_equal(hotspots_functions(counter, names, &rows, &n), 0);
	calls = row_of(rows, n, "red")->calls;
	free(rows);
	hotspots_free(counter);
	names_free(names);
	ptah_session_close(s);
	return calls;
}

TEST(a_function_is_not_called_by_its_own_jumps)
{
	assert_int_equal(calls_of_red(PTAH_INSN_COND, 0x10000, 7), 7 - 4);
	assert_int_equal(calls_of_red(PTAH_INSN_JUMP, 0x10000, 27), 27 - 20);
	/* In a part of a trace that begins in it, a jump that ends the part may be all there is. */
	assert_int_equal(calls_of_red(PTAH_INSN_JUMP, 0x10000, 0), 0);
	assert_int_equal(calls_of_red(PTAH_INSN_CALL, 0x10000, 27), 27);
	assert_int_equal(calls_of_red(PTAH_INSN_CALL, 0x10008, 7), 7);
}

TEST(a_block_has_one_row_if_it_is_in_a_file)
{
	struct ptah_session *s = open_processes();
	uint64_t instructions = 0, generated = 0;
	struct hotspots *counter;
	struct names *names;
	struct hotspot *rows;
	size_t n;

	assert_int_equal(names_new(s, NULL, &names), 0);
	assert_int_equal(hotspots_new(&counter), 0);
	count(counter);
	assert_int_equal(hotspots_blocks(counter, names, &rows, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(row_of(rows, n, "red")->executions, 1 + 100 + 10000);
	assert_int_equal(row_of(rows, n, "green")->executions, 10 + 1000 + 100000);
	for (size_t i = 0; i < n; i++) {
		instructions += rows[i].instructions;
		generated += rows[i].ip == 0x5000;
	}
	assert_int_equal(generated, 2);
	assert_int_equal(instructions, hotspots_totals(counter)->instructions);
	free(rows);
	hotspots_free(counter);
	names_free(names);
	ptah_session_close(s);
}

TEST_GROUP(make_files, remove_folder)
