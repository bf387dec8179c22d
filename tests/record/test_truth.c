/* SPDX-License-Identifier: MIT */
/*
 * The ground truth of a virtual machine's processor: what is counted while PacketEn is 1, by
 * address space and privilege, the registers by which a guest reads it, and its lines of text. The
 * path hash is computed here once more, from docs/path-hash.md.
 */
#include "record/system/truth.h"

#include "model/processor.h"
#include "record/simulated/insn.h"
#include "test.h"

#include <stdlib.h>

#define KERNEL_CR3 UINT64_C(0x1000)
#define USER_CR3   UINT64_C(0x2fff) /* its low bits are a PCID */

static struct system_truth truth;
static struct ptah_model *m;

static int set_up(void **state)
{
	const struct ptah_model_config config = {.size = sizeof(config),
						 .processor = ptah_model_find("skylake")};

	(void)state;
	m = malloc(ptah_model_size());
	assert_int_equal(ptah_model_init(m, &config), PTAH_OK);
	assert_true(system_truth_init(&truth));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(truth.paths);
	free(m);
	return 0;
}

static void be(uint64_t cr3, uint8_t cpl, bool packet_en)
{
	const struct ptah_model_context context = {
	    .cr3 = cr3, .cpl = cpl, .mode = PTAH_EXEC_64, .interrupts = true};

	ptah_model_begin(m, 0, &context);
	m->packet_en = packet_en;
}

static uint64_t read_register(uint32_t msr)
{
	uint64_t value;

	assert_int_equal(system_truth_rdmsr(&truth, m, msr, &value), SYSTEM_DONE);
	return value;
}

static uint64_t count(enum system_count which)
{
	return read_register(SYSTEM_MSR_COUNT + 8 * which);
}

static void choose(uint64_t space, uint64_t level)
{
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_SPACE, space), SYSTEM_DONE);
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_LEVEL, level), SYSTEM_DONE);
}

static uint64_t mix(uint64_t hash, uint64_t start, uint64_t end)
{
	uint64_t x = hash ^ (start * UINT64_C(0x9e3779b97f4a7c15) + end);

	x *= UINT64_C(0xd6e8feb86659fd93);
	return x << 31 | x >> 33;
}

TEST_WITH(counts_what_runs_while_packet_en_is_1, set_up, tear_down)
{
	be(KERNEL_CR3, 0, false);
	system_truth_run(&truth, m, 0x100, 0x110, 4, PTAH_INSN_COND, true);
	system_truth_event(&truth, m, PTAH_MODEL_INTERRUPT);
	assert_int_equal(count(SYSTEM_INSNS), 0);
	assert_int_equal(count(SYSTEM_TAKEN), 0);
	assert_int_equal(count(SYSTEM_INTERRUPTS), 0);
	assert_int_equal(count(SYSTEM_HASH), 0);
	be(KERNEL_CR3, 0, true);
	system_truth_run(&truth, m, 0x100, 0x110, 4, PTAH_INSN_COND, true);
	system_truth_run(&truth, m, 0x300, 0x310, 3, PTAH_INSN_COND, false);
	system_truth_run(&truth, m, 0x310, 0x310, 0, KIND_ZERO_CALL, false); /* nothing ran */
	system_truth_run(&truth, m, 0x310, 0x320, 2, PTAH_INSN_FAR_RETURN, true);
	system_truth_event(&truth, m, PTAH_MODEL_INTERRUPT);
	system_truth_event(&truth, m, PTAH_MODEL_EXCEPTION);
	assert_int_equal(count(SYSTEM_INSNS), 9);
	assert_int_equal(count(SYSTEM_TAKEN), 1);
	assert_int_equal(count(SYSTEM_NOT_TAKEN), 1);
	assert_int_equal(count(SYSTEM_FAR), 1);
	assert_int_equal(count(SYSTEM_CALLS), 0);
	assert_int_equal(count(SYSTEM_INTERRUPTS), 1);
	assert_int_equal(count(SYSTEM_EXCEPTIONS), 1);
	assert_int_equal(count(SYSTEM_HASH), mix(mix(0, 0x100, 0x110), 0x300, 0x320));
}

TEST_WITH(address_spaces_and_levels_are_told_apart, set_up, tear_down)
{
	be(KERNEL_CR3, 0, true);
	system_truth_run(&truth, m, 0x100, 0x110, 4, PTAH_INSN_OTHER, false);
	be(USER_CR3, 3, true);
	system_truth_run(&truth, m, 0x200, 0x210, 5, PTAH_INSN_JUMP, true);
	be(USER_CR3 & ~UINT64_C(0xfff), 0, true); /* without page-table isolation */
	system_truth_run(&truth, m, 0x120, 0x130, 6, PTAH_INSN_RETURN, true);
	choose(UINT64_MAX, 3);
	assert_int_equal(count(SYSTEM_INSNS), 15);
	choose(UINT64_MAX, 1);
	assert_int_equal(count(SYSTEM_INSNS), 10);
	assert_int_equal(count(SYSTEM_HASH), mix(0, 0x100, 0x110) ^ mix(0, 0x120, 0x130));
	choose(USER_CR3 ^ 1, 3); /* another PCID */
	assert_int_equal(count(SYSTEM_INSNS), 11);
	choose(USER_CR3, 2);
	assert_int_equal(count(SYSTEM_INSNS), 5);
	assert_int_equal(count(SYSTEM_JUMPS), 1);
	assert_int_equal(count(SYSTEM_RETURNS), 0);
	assert_int_equal(count(SYSTEM_HASH), mix(0, 0x200, 0x210));
	choose(0x5000, 3);
	assert_int_equal(count(SYSTEM_INSNS), 0);
}

TEST_WITH(more_address_spaces_than_fit_are_counted_together, set_up, tear_down)
{
	char *text = NULL, *others;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);
	unsigned kept = 0;

	for (uint64_t i = 0; i < 2 * SYSTEM_PATHS; i++) {
		be(i << 12, 3, true);
		system_truth_run(&truth, m, 0x100, 0x110, 1, PTAH_INSN_OTHER, false);
	}
	assert_int_equal(count(SYSTEM_INSNS), 2 * SYSTEM_PATHS);
	system_truth_print(file, 7, 1, &truth, m);
	fclose(file);
	for (char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
		kept += strstr(line, "level user") == strstr(line, "level");
	others = strstr(text, "cr3 other level all insns ");
	assert_non_null(others);
	assert_int_equal(strtoul(others + 26, NULL, 10) + kept, 2 * SYSTEM_PATHS);
	free(text);
}

TEST_WITH(a_reset_clears_everything_but_the_selection, set_up, tear_down)
{
	be(KERNEL_CR3, 0, true);
	system_truth_run(&truth, m, 0x100, 0x110, 4, PTAH_INSN_CALL, true);
	truth.pmis = 3;
	choose(KERNEL_CR3, 1);
	assert_int_equal(count(SYSTEM_PMIS), 3);
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_RESET, 0), SYSTEM_DONE);
	for (unsigned i = 0; i < SYSTEM_VALUE_MAX; i++)
		assert_int_equal(count((enum system_count)i), 0);
	assert_int_equal(read_register(SYSTEM_MSR_SPACE), KERNEL_CR3);
	assert_int_equal(read_register(SYSTEM_MSR_LEVEL), 1);
	system_truth_run(&truth, m, 0x100, 0x110, 4, PTAH_INSN_CALL, true);
	assert_int_equal(count(SYSTEM_CALLS), 1);
}

TEST_WITH(registers_that_do_not_exist_are_left_to_qemu, set_up, tear_down)
{
	static const uint32_t others[] = {SYSTEM_MSR_TRUTH - 8, SYSTEM_MSR_TRUTH + 1,
					  SYSTEM_MSR_TRUTH + 32, SYSTEM_MSR_COUNT + 4,
					  SYSTEM_MSR_COUNT + 8 * SYSTEM_VALUE_MAX};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_int_equal(system_truth_rdmsr(&truth, m, others[i], &value), SYSTEM_NOT_OURS);
		assert_int_equal(system_truth_wrmsr(&truth, m, others[i], 0), SYSTEM_NOT_OURS);
	}
	/* Counts are written by what is executed alone, and a level of neither kind is none. */
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_COUNT, 0), SYSTEM_NOT_OURS);
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_LEVEL, 0), SYSTEM_FAULTS);
	assert_int_equal(system_truth_wrmsr(&truth, m, SYSTEM_MSR_LEVEL, 4), SYSTEM_FAULTS);
	assert_int_equal(read_register(SYSTEM_MSR_REPORT), SYSTEM_TRUTH_IDENTITY);
}

TEST_WITH(a_report_has_a_line_for_the_whole_and_one_for_each_path, set_up, tear_down)
{
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	be(USER_CR3, 3, true);
	system_truth_run(&truth, m, 0x200, 0x210, 5, PTAH_INSN_JUMP_IND, true);
	system_truth_print(file, 42, 1, &truth, m);
	fclose(file);
	assert_string_equal(
	    text, "truth 42 cpu 1 cr3 all level all insns 5 taken 0 not_taken 0 jumps 0 calls 0 "
		  "jumps_ind 1 calls_ind 0 returns 0 far 0 interrupts 0 exceptions 0 "
		  "hash 3fce8e982a726c5f bytes 0 dropped 0 pmis 0 lost 0\n"
		  "truth 42 cpu 1 cr3 2000 level user insns 5 taken 0 not_taken 0 jumps 0 calls 0 "
		  "jumps_ind 1 calls_ind 0 returns 0 far 0 interrupts 0 exceptions 0 "
		  "hash 3fce8e982a726c5f\n");
	free(text);
}
