/* SPDX-License-Identifier: MIT */
/*
 * Sizes and classes of instructions that decoders of their time did not know (encodings.txt), and
 * the same sizes as Zydis for all that it knows: every opcode of every map with prefixes, ModRM and
 * SIB, in all modes.
 */
#include "test.h"

#include "x86/code_bytes.h"
#include "x86/x86.h"

#include <stdio.h>
#include <stdlib.h>

#define IP 0x1000

static ZydisDecoder decoders[PTAH_EXEC_64 + 1];
static unsigned long compared;
static unsigned differences;

static void differs(const uint8_t *bytes, unsigned mode, const char *what, unsigned got,
		    unsigned wanted)
{
	if (differences++ > 20)
		return;
	print_message("mode %u, %s: %u, not %u:", mode, what, got, wanted);
	for (unsigned i = 0; i < X86_MAX_SIZE; i++)
		print_message(" %02x", bytes[i]);
	print_message("\n");
}

static unsigned mode_of(unsigned bits)
{
	return bits == 64 ? PTAH_EXEC_64 : bits == 32 ? PTAH_EXEC_32 : PTAH_EXEC_16;
}

static unsigned class_named(const char *name)
{
	static const char *const names[] = {
	    [PTAH_INSN_OTHER] = "other",
	    [PTAH_INSN_COND] = "cond",
	    [PTAH_INSN_JUMP] = "jump",
	    [PTAH_INSN_JUMP_IND] = "jump_ind",
	    [PTAH_INSN_CALL] = "call",
	    [PTAH_INSN_CALL_IND] = "call_ind",
	    [PTAH_INSN_RETURN] = "return",
	    [PTAH_INSN_FAR_CALL] = "far_call",
	    [PTAH_INSN_FAR_RETURN] = "far_return",
	    [PTAH_INSN_FAR_JUMP] = "far_jump",
	    [PTAH_INSN_PTWRITE] = "ptwrite",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	fail_msg("no class %s", name);
	return 0;
}

static size_t read_bytes(const char *text, uint8_t bytes[X86_MAX_SIZE])
{
	unsigned value;
	size_t n = 0;
	int used;

	memset(bytes, 0, X86_MAX_SIZE);
	for (; n < X86_MAX_SIZE && sscanf(text, "%2x %n", &value, &used) == 1; text += used)
		bytes[n++] = (uint8_t)value;
	return n;
}

static void check_line(const char *line)
{
	uint8_t bytes[X86_MAX_SIZE];
	struct x86_insn insn;
	unsigned bits, size;
	char name[16];
	int at = 0, status;
	size_t n;

	assert_int_equal(sscanf(line, "%u %u %15s %n", &bits, &size, name, &at), 3);
	n = read_bytes(line + at, bytes);
	status = x86_decode(bytes, X86_MAX_SIZE, IP, mode_of(bits), &insn);
	if (status != (size ? 0 : PTAH_E_BAD_INSN))
		fail_msg("status %d: %s", status, line);
	if (!size)
		return;
	if (insn.size != size || insn.insn_class != class_named(name) || n != size)
		fail_msg("size %u, class %u: %s", insn.size, insn.insn_class, line);
	/* A part of it is not all of it, and all of it is enough. */
	for (n = 0; n < size; n++)
		assert_int_equal(x86_decode(bytes, n, IP, mode_of(bits), &insn), PTAH_E_MORE);
	assert_int_equal(x86_decode(bytes, n, IP, mode_of(bits), &insn), 0);
}

static void known_encodings(void **state)
{
	const char *source = getenv("PTAH_SOURCE");
	char path[4096], line[256];
	unsigned lines = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/x86/encodings.txt", source ? source : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); lines++)
		if (*line != '#' && *line != '\n')
			check_line(line);
	fclose(f);
	assert_true(lines > 200);
}

/* The class by what Zydis says the instruction is for. */
static unsigned class_of(const ZydisDecodedInstruction *z)
{
	const bool is_far = z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
	const bool relative = z->raw.imm[0].is_relative;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return z->mnemonic != ZYDIS_MNEMONIC_XBEGIN ? PTAH_INSN_COND : PTAH_INSN_OTHER;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return is_far ? PTAH_INSN_FAR_JUMP : relative ? PTAH_INSN_JUMP : PTAH_INSN_JUMP_IND;
	case ZYDIS_CATEGORY_CALL:
		return is_far ? PTAH_INSN_FAR_CALL : relative ? PTAH_INSN_CALL : PTAH_INSN_CALL_IND;
	case ZYDIS_CATEGORY_RET:
		return z->mnemonic == ZYDIS_MNEMONIC_RET && !is_far ? PTAH_INSN_RETURN
								    : PTAH_INSN_FAR_RETURN;
	case ZYDIS_CATEGORY_SYSRET:
		return PTAH_INSN_FAR_RETURN;
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
		return PTAH_INSN_FAR_CALL;
	default:
		return PTAH_INSN_OTHER;
	}
}

/* Instructions that Zydis has among those of other categories, or whose trace is another. */
static bool is_special(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_BOUND: /* traps, or not */
	case ZYDIS_MNEMONIC_INTO:
	case ZYDIS_MNEMONIC_PTWRITE:
	case ZYDIS_MNEMONIC_RSM:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_UIRET:
	case ZYDIS_MNEMONIC_VMCALL:
	case ZYDIS_MNEMONIC_VMLAUNCH:
	case ZYDIS_MNEMONIC_VMRESUME:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_XEND:
		return true;
	default:
		return false;
	}
}

static void compare(const uint8_t *bytes, unsigned mode)
{
	ZydisDecodedInstruction z;
	struct x86_insn insn;

	if (!ZYAN_SUCCESS(
		ZydisDecoderDecodeInstruction(&decoders[mode], NULL, bytes, X86_MAX_SIZE, &z)))
		return;
	if (is_knc(&z))
		return;
	compared++;
	if (x86_decode(bytes, X86_MAX_SIZE, IP, mode, &insn)) {
		differs(bytes, mode, "size", 0, z.length);
		return;
	}
	if (insn.size != z.length)
		differs(bytes, mode, "size", insn.size, z.length);
	if (insn.insn_class != class_of(&z) && !is_special(&z))
		differs(bytes, mode, "class", insn.insn_class, class_of(&z));
	if (z.raw.imm[0].is_relative && z.mnemonic != ZYDIS_MNEMONIC_XBEGIN &&
	    (uint32_t)insn.target != (uint32_t)(IP + z.length + (uint64_t)z.raw.imm[0].value.s))
		differs(bytes, mode, "target", (unsigned)insn.target, 0);
}

/* Every opcode with every ModRM, after these bytes. */
static void every_opcode(const uint8_t *before, size_t n, unsigned mode)
{
	uint8_t bytes[CODE_BYTES];

	for (unsigned i = 0; i < 0x10000; i++) {
		fill_opcode(bytes, before, n, i);
		compare(bytes, mode);
	}
}

static void same_legacy_maps(void **state)
{
	static const char *const prefixes[] = {"",     "\x66",	   "\xf2",     "\xf3",
					       "\xf0", "\x67",	   "\x66\x67", "\x4f",
					       "\x65", "\x66\x48", "\xf2\x66", "\x48\xf3"};
	static const char *const maps[] = {"", "\x0f", "\x0f\x38", "\x0f\x3a"};
	uint8_t before[8];

	(void)state;
	compared = differences = 0;
	for (unsigned mode = PTAH_EXEC_16; mode <= PTAH_EXEC_64; mode++)
		for (unsigned p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++)
			for (unsigned m = 0; m < 4; m++) {
				const size_t n = strlen(prefixes[p]), k = strlen(maps[m]);

				memcpy(before, prefixes[p], n);
				memcpy(before + n, maps[m], k);
				every_opcode(before, n + k, mode);
			}
	assert_int_equal(differences, 0);
	assert_true(compared > 4000000);
}

/* VEX, EVEX, XOP: every map and opcode with random fields, mostly those that there are. */
static void same_vector_maps(void **state)
{
	static const uint8_t first[] = {0xc4, 0xc5, 0x62, 0x62, 0x8f};
	uint8_t bytes[X86_MAX_SIZE];

	(void)state;
	compared = differences = 0;
	for (unsigned long n = 0; n < 3000000; n++) {
		const unsigned at = n % 16 ? 0 : 1; /* sometimes after a prefix */

		fill(bytes, 0);
		if (at)
			bytes[0] = n & 16 ? 0x67 : 0x64;
		bytes[at] = first[n % 5];
		if (bytes[at] == 0xc4)
			bytes[at + 1] = (bytes[at + 1] & 0xe0) | (1 + n / 8 % 3);
		if (bytes[at] == 0x62) {
			bytes[at + 1] = (bytes[at + 1] & 0xf0) | (1 + n / 8 % 6);
			bytes[at + 2] |= 4;
		}
		if (bytes[at] == 0x8f)
			bytes[at + 1] = (bytes[at + 1] & 0xe0) | (8 + n / 8 % 3);
		if (n & 1)
			bytes[at + 1] |= 0xc0;
		compare(bytes, PTAH_EXEC_16 + (unsigned)(n / 64 % 3));
	}
	assert_int_equal(differences, 0);
	assert_true(compared > 100000);
}

static void init_decoders(void)
{
	ZydisDecoderInit(&decoders[PTAH_EXEC_16], ZYDIS_MACHINE_MODE_LEGACY_16,
			 ZYDIS_STACK_WIDTH_16);
	ZydisDecoderInit(&decoders[PTAH_EXEC_32], ZYDIS_MACHINE_MODE_LEGACY_32,
			 ZYDIS_STACK_WIDTH_32);
	ZydisDecoderInit(&decoders[PTAH_EXEC_64], ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(known_encodings),
					   cmocka_unit_test(same_legacy_maps),
					   cmocka_unit_test(same_vector_maps)};

	init_decoders();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
