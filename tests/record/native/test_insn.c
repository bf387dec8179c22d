/* SPDX-License-Identifier: MIT */
/*
 * The decoder of the runtime against Zydis: all opcodes with prefixes, REX, ModRM and SIB, the
 * fields of VEX and EVEX, random bytes, and all code of the libraries that the test itself uses.
 */
#include "test.h"

#include "record/native/runtime/insn.h"
#include "x86/code_bytes.h"
#include "x86/x86.h"

#include <stdio.h>
#include <stdlib.h>

static ZydisDecoder decoder;

/* What differs is printed, up to a few. */
static unsigned differences;

static void differs(const uint8_t *bytes, const char *what, unsigned long got, unsigned long wanted)
{
	if (differences++ > 20)
		return;
	printf("%s: %lx, Zydis %lx:", what, got, wanted);
	for (unsigned i = 0; i < 15; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}

static unsigned registers_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o)
{
	unsigned all = 0;

	for (unsigned i = 0; i < z->operand_count; i++) {
		ZydisRegister r[2] = {ZYDIS_REGISTER_NONE, ZYDIS_REGISTER_NONE};

		if (o[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r[0] = o[i].reg.value;
		} else if (o[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
			r[0] = o[i].mem.base;
			r[1] = o[i].mem.index;
		}
		for (unsigned k = 0; k < 2; k++) {
			r[k] = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r[k]);
			if (r[k] >= ZYDIS_REGISTER_RAX && r[k] <= ZYDIS_REGISTER_R15)
				all |= 1u << (r[k] - ZYDIS_REGISTER_RAX);
		}
	}
	return all;
}

/* The flow as the mnemonic says it; INSN_UNKNOWN: any of NEXT, TRAP, REFUSED will do. */
static unsigned flow_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o)
{
	const bool near = z->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR;
	const bool relative = o[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o[0].imm.is_relative;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_JMP:
		return !near ? INSN_REFUSED : relative ? INSN_JMP : INSN_JMP_INDIRECT;
	case ZYDIS_MNEMONIC_CALL:
		return !near ? INSN_REFUSED : relative ? INSN_CALL : INSN_CALL_INDIRECT;
	case ZYDIS_MNEMONIC_RET:
		return near ? INSN_RET : INSN_REFUSED;
	case ZYDIS_MNEMONIC_SYSCALL:
		return INSN_SYSCALL;
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_JRCXZ:
	case ZYDIS_MNEMONIC_JECXZ:
		return INSN_LOOP;
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_SYSENTER:
	case ZYDIS_MNEMONIC_SYSEXIT:
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_UIRET:
	case ZYDIS_MNEMONIC_INCSSPD:
	case ZYDIS_MNEMONIC_INCSSPQ:
	case ZYDIS_MNEMONIC_WRSSD:
	case ZYDIS_MNEMONIC_WRSSQ:
	case ZYDIS_MNEMONIC_RSTORSSP:
	case ZYDIS_MNEMONIC_SAVEPREVSSP:
	case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS:
	case ZYDIS_MNEMONIC_RSM:
		return INSN_REFUSED;
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_XEND: /* nothing is a transaction, because XBEGIN is refused */
	case ZYDIS_MNEMONIC_IN:
	case ZYDIS_MNEMONIC_OUT:
	case ZYDIS_MNEMONIC_CLI:
	case ZYDIS_MNEMONIC_STI:
		return INSN_TRAP;
	default:
		return z->meta.category == ZYDIS_CATEGORY_COND_BR ? INSN_JCC : INSN_NEXT;
	}
}

/* Near branches whose operand size processors disagree about, and what may not be carried out. */
static bool flow_agrees(const struct insn *i, unsigned wanted, const ZydisDecodedInstruction *z)
{
	if (i->flow == wanted)
		return true;
	if (i->code.operand_66 && i->flow == INSN_REFUSED && wanted >= INSN_JCC &&
	    wanted <= INSN_RET)
		return true;
	if (wanted == INSN_NEXT && i->flow == INSN_REFUSED)
		return i->code.segment_gs || z->meta.category == ZYDIS_CATEGORY_CET ||
		       z->meta.category == ZYDIS_CATEGORY_UINTR ||
		       z->mnemonic == ZYDIS_MNEMONIC_MOV || z->mnemonic == ZYDIS_MNEMONIC_POP ||
		       z->mnemonic == ZYDIS_MNEMONIC_INT;
	/* Privileged, so that it traps whichever way it is copied. */
	return (wanted == INSN_NEXT && i->flow == INSN_TRAP) || i->code.segment_gs;
}

static void compare_parts(const uint8_t *bytes, const struct insn *i,
			  const ZydisDecodedInstruction *z)
{
	const bool has_modrm = z->attributes & ZYDIS_ATTRIB_HAS_MODRM;

	/* MOV to control registers ignores mod: it traps. */
	if (i->code.modrm_at != (has_modrm ? z->raw.modrm.offset : 0))
		differs(bytes, "ModRM at", i->code.modrm_at, z->raw.modrm.offset);
	if (i->code.displacement_size != z->raw.disp.size / 8)
		differs(bytes, "displacement", i->code.displacement_size, z->raw.disp.size / 8);
	if (i->code.displacement_size && i->code.displacement_at != z->raw.disp.offset)
		differs(bytes, "displacement at", i->code.displacement_at, z->raw.disp.offset);
	if (i->code.immediate_size != (z->raw.imm[0].size + z->raw.imm[1].size) / 8)
		differs(bytes, "immediate", i->code.immediate_size, z->raw.imm[0].size / 8);
	if (i->code.immediate_size && i->code.immediate_at != z->raw.imm[0].offset)
		differs(bytes, "immediate at", i->code.immediate_at, z->raw.imm[0].offset);
	if (i->code.rip_relative !=
	    (has_modrm && z->raw.disp.size && z->raw.modrm.mod == 0 && z->raw.modrm.rm == 5))
		differs(bytes, "RIP-relative", i->code.rip_relative, !i->code.rip_relative);
	if (i->code.rip_relative && i->offset != z->raw.disp.value)
		differs(bytes, "offset", (unsigned long)i->offset,
			(unsigned long)z->raw.disp.value);
	if (bytes[i->code.opcode_at] != i->code.opcode || i->code.opcode != z->opcode)
		differs(bytes, "opcode", i->code.opcode, z->opcode);
}

static void compare_flow(const uint8_t *bytes, const struct insn *i,
			 const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o)
{
	const unsigned wanted = flow_of(z, o);
	struct x86_insn other;

	if (!flow_agrees(i, wanted, z))
		differs(bytes, "flow", i->flow, wanted);
	if (i->flow == INSN_JCC || i->flow == INSN_LOOP || i->flow == INSN_JMP ||
	    i->flow == INSN_CALL) {
		if (i->offset != z->raw.imm[0].value.s)
			differs(bytes, "branch offset", (unsigned long)i->offset,
				(unsigned long)z->raw.imm[0].value.s);
		if (!x86_decode(bytes, 15, 0x1000, PTAH_EXEC_64, &other) &&
		    (other.size != i->code.size ||
		     (i->flow != INSN_LOOP &&
		      other.target != 0x1000 + i->code.size + (uint64_t)i->offset)))
			differs(bytes, "x86_decode()", i->code.size, other.size);
	}
	if (i->flow == INSN_RET && z->raw.imm[0].size && i->pops != z->raw.imm[0].value.u)
		differs(bytes, "pops", i->pops, z->raw.imm[0].value.u);
}

/* Returns the length. 0: Zydis does not decode it; what the decoder says then does not matter. */
static unsigned compare(const uint8_t *bytes)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
	struct insn i, shorter;

	assert_true(insn_decode(bytes, 15, &i));
	assert_true(i.flow == INSN_UNKNOWN || (i.code.size && i.code.size <= 15));
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 15, &z, o)))
		return 0;
	if (is_knc(&z))
		return z.length;
	if (i.flow == INSN_UNKNOWN) {
		differs(bytes, "unknown", 0, z.length);
		return z.length;
	}
	/* Prefix 66 and a near branch: its length depends on the maker of the processor. */
	if (i.flow == INSN_REFUSED && i.code.operand_66 && z.raw.imm[0].is_relative)
		return z.length;
	if (i.code.size != z.length) {
		differs(bytes, "length", i.code.size, z.length);
		return z.length;
	}
	if (z.encoding != ZYDIS_INSTRUCTION_ENCODING_3DNOW) /* its opcode comes last */
		compare_parts(bytes, &i, &z);
	compare_flow(bytes, &i, &z, o);
	if (registers_of(&z, o) & ~(unsigned)i.registers)
		differs(bytes, "registers", i.registers, registers_of(&z, o));
	/* A part of it is not all of it. */
	assert_false(insn_decode(bytes, i.code.size - 1u, &shorter) &&
		     shorter.flow != INSN_UNKNOWN);
	assert_true(insn_decode(bytes, i.code.size, &shorter) && shorter.code.size == i.code.size);
	return z.length;
}

/* Every opcode with every ModRM, after these bytes. */
static void every_opcode(const uint8_t *before, size_t n)
{
	uint8_t bytes[CODE_BYTES];

	for (unsigned i = 0; i < 0x10000; i++) {
		fill_opcode(bytes, before, n, i);
		compare(bytes);
	}
}

static void test_opcodes(void **state)
{
	static const char *const prefixes[] = {"",     "\x66",	   "\xf2",     "\xf3", "\xf0",
					       "\x64", "\x67",	   "\x65",     "\x48", "\x41",
					       "\x45", "\x66\x48", "\xf3\x4f", "\x2e", "\xf2\x66"};
	static const char *const maps[] = {"", "\x0f", "\x0f\x38", "\x0f\x3a"};
	uint8_t before[8];

	(void)state;
	for (unsigned p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++)
		for (unsigned m = 0; m < 4; m++) {
			const size_t n = strlen(prefixes[p]), k = strlen(maps[m]);

			memcpy(before, prefixes[p], n);
			memcpy(before + n, maps[m], k);
			every_opcode(before, n + k);
		}
	assert_int_equal(differences, 0);
}

static void test_vectors(void **state)
{
	uint8_t bytes[15];

	(void)state;
	for (unsigned long n = 0; n < 3000000; n++) {
		static const uint8_t first[] = {0xc4, 0xc5, 0x62, 0x8f};

		bytes[0] = first[n % 4];
		fill(bytes, 1);
		/* Mostly maps that there are. */
		if (bytes[0] == 0xc4 && n & 4)
			bytes[1] = (bytes[1] & 0xe0) | (1 + n / 8 % 3);
		if (bytes[0] == 0x62 && n & 4) {
			bytes[1] = (bytes[1] & 0xf0) | (1 + n / 8 % 6);
			bytes[2] |= 4;
		}
		if (bytes[0] == 0x8f && n & 4)
			bytes[1] = (bytes[1] & 0xe0) | (8 + n / 8 % 3);
		compare(bytes);
	}
	assert_int_equal(differences, 0);
}

static void test_random(void **state)
{
	uint8_t bytes[15];

	(void)state;
	for (unsigned long n = 0; n < 3000000; n++) {
		fill(bytes, 0);
		compare(bytes);
	}
	assert_int_equal(differences, 0);
}

/* All code of the libraries in this process, from each place where an instruction ends. */
static void test_libraries(void **state)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to, count = 0;
	char line[512], rights[5];

	(void)state;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[2] != 'x' ||
		    rights[0] != 'r' || !strchr(line, '/'))
			continue;
		for (unsigned long at = from; at < to - 15; count++) {
			const unsigned n = compare((const uint8_t *)at);

			at += n ? n : 1;
		}
	}
	fclose(maps);
	printf("%lu instructions of libraries\n", count);
	assert_int_equal(differences, 0);
	assert_true(count > 100000);
}

/* The end of what can be read: only what needs no more is decoded. */
static void test_short(void **state)
{
	static const uint8_t jmp[] = {0xeb, 0xfe};
	struct insn i;

	(void)state;
	assert_false(insn_decode(jmp, 0, &i));
	assert_false(insn_decode(jmp, 1, &i));
	assert_true(insn_decode(jmp, 2, &i));
	assert_int_equal(i.flow, INSN_JMP);
	assert_int_equal(i.offset, -2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_opcodes), cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_random),  cmocka_unit_test(test_libraries),
	    cmocka_unit_test(test_short),
	};

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
