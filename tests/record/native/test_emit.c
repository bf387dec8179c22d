/* SPDX-License-Identifier: MIT */
/* Each sequence of emit.h, as Zydis reads it. */
#include "test.h"

#include "record/native/runtime/emit.h"

#include <Zydis/Zydis.h>
#include <stdio.h>

#define ROOM 256

static uint8_t code[ROOM];

static struct emitter begin(void)
{
	memset(code, 0xcc, sizeof(code));
	return (struct emitter){code, code + sizeof(code), false};
}

/*
 * What was emitted has to read as `expected`: instructions in Intel's syntax, separated by "; ".
 * Targets of branches and addresses behind RIP are counted from the first byte of `code`.
 */
static void expect(const struct emitter *e, const char *expected)
{
	ZydisDecoder decoder;
	ZydisFormatter formatter;
	char all[1024] = "";
	size_t used = 0;

	assert_false(e->failed);
	assert_true(ZYAN_SUCCESS(
	    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)));
	ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, 0);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_DISP_PADDING, 0);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_IMM_PADDING, 0);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_FORCE_SIZE, 1);
	for (const uint8_t *p = code; p < e->at;) {
		ZydisDecodedInstruction insn;
		ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
		char text[128];

		assert_true(ZYAN_SUCCESS(
		    ZydisDecoderDecodeFull(&decoder, p, (size_t)(e->at - p), &insn, operands)));
		/* Nothing here changes a flag (only LOOP reads them). */
		assert_true(!insn.cpu_flags ||
			    !(insn.cpu_flags->modified | insn.cpu_flags->set_0 |
			      insn.cpu_flags->set_1 | insn.cpu_flags->undefined));
		assert_true(ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
		    &formatter, &insn, operands, insn.operand_count_visible, text, sizeof(text),
		    (ZyanU64)(p - code), NULL)));
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", used ? "; " : "",
					 text);
		assert_true(used < sizeof(all));
		p += insn.length;
	}
	assert_string_equal(all, expected);
}

/* The address that `expect` prints as `n`. */
static uint64_t place(size_t n)
{
	return (uint64_t)(uintptr_t)(code + n);
}

static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
				    "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const names_32[] = {"eax",  "ecx",  "edx",  "ebx", "esp",  "ebp",
				       "esi",  "edi",  "r8d",  "r9d", "r10d", "r11d",
				       "r12d", "r13d", "r14d", "r15d"};
static const char *const names_16[] = {"ax",   "cx",   "dx",   "bx",  "sp",   "bp",
				       "si",   "di",   "r8w",  "r9w", "r10w", "r11w",
				       "r12w", "r13w", "r14w", "r15w"};

/* The displacement as Zydis prints it: nothing for 0, else +0x... or -0x... */
static const char *displacement_text(int64_t d, char text[32])
{
	if (d)
		snprintf(text, 32, "%c0x%llx", d < 0 ? '-' : '+',
			 (unsigned long long)(d < 0 ? -d : d));
	else
		text[0] = 0;
	return text;
}

TEST(context)
{
	char text[256];
	for (unsigned reg = 0; reg < 16; reg++) {
		struct emitter e = begin();
		emit_save(&e, reg, CONTEXT_RCX);
		emit_load(&e, reg, CONTEXT_INDIRECT);
		snprintf(text, sizeof(text),
			 "mov qword ptr gs:[0x8], %s; mov %s, qword ptr gs:[0x1000]", names[reg],
			 names[reg]);
		expect(&e, text);
	}
	struct emitter e = begin();
	emit_save_32(&e, 0x40, 0x12345678);
	expect(&e, "mov dword ptr gs:[0x40], 0x12345678");
}

TEST(constants)
{
	char text[256];
	for (unsigned reg = 0; reg < 16; reg++) {
		struct emitter e = begin();
		emit_constant(&e, reg, 0xffffffff);
		emit_constant(&e, reg, UINT64_C(0x123456789abcdef0));
		emit_constant(&e, reg, UINT64_C(0x100000000));
		uint8_t *long_form = e.at;
		emit_constant_64(&e, reg, 7);
		snprintf(text, sizeof(text),
			 "mov %s, 0xffffffff; mov %s, 0x123456789abcdef0; mov %s, 0x100000000; "
			 "mov %s, 0x7",
			 names_32[reg], names[reg], names[reg], names[reg]);
		expect(&e, text);
		assert_int_equal(e.at - long_form, EMIT_CONSTANT_64);
	}
}

TEST(arithmetic)
{
	static const int32_t displacements[] = {0,    1,    -1,	       127,	 128,
						-128, -129, INT32_MAX, INT32_MIN};
	char text[256], d[32];
	for (unsigned reg = 0; reg < 16; reg++) {
		for (unsigned base = 0; base < 16; base++) {
			for (size_t i = 0; i < sizeof(displacements) / sizeof(*displacements);
			     i++) {
				struct emitter e = begin();
				emit_add(&e, reg, base, displacements[i]);
				emit_add_32(&e, reg, base, displacements[i]);
				emit_read(&e, reg, base, displacements[i]);
				emit_write(&e, reg, base, displacements[i]);
				displacement_text(displacements[i], d);
				snprintf(
				    text, sizeof(text),
				    "lea %s, [%s%s]; lea %s, [%s%s]; mov %s, qword ptr [%s%s]; "
				    "mov qword ptr [%s%s], %s",
				    names[reg], names[base], d, names_32[reg], names[base], d,
				    names[reg], names[base], d, names[base], d, names[reg]);
				expect(&e, text);
			}
			struct emitter e = begin();
			emit_low_16(&e, reg, base);
			snprintf(text, sizeof(text), "movzx %s, %s", names_32[reg], names_16[base]);
			expect(&e, text);
			for (unsigned index = 0; index < 16; index++) {
				if (index == EMIT_RSP || (base & 7) == EMIT_RBP)
					continue;
				e = begin();
				emit_sum(&e, reg, base, index);
				snprintf(text, sizeof(text), "lea %s, [%s+%s*1]", names[reg],
					 names[base], names[index]);
				expect(&e, text);
			}
		}
		struct emitter e = begin();
		emit_pop(&e, reg);
		snprintf(text, sizeof(text), "pop %s", names[reg]);
		expect(&e, text);
	}
}

TEST(log_stores)
{
	struct emitter e = begin();
	emit_log_take(&e);
	emit_log_give(&e);
	expect(&e, "mov qword ptr gs:[0x20], r11; mov r11, qword ptr gs:[0x18]; "
		   "mov qword ptr gs:[0x18], r11; mov r11, qword ptr gs:[0x20]");
	e = begin();
	emit_log_value(&e, 0, 0x12, 1);
	emit_log_value(&e, 3, 0x1234, 2);
	emit_log_value(&e, 200, 0x12345678, 4);
	emit_log_value_64(&e, 8, -2);
	emit_log_register(&e, 1, EMIT_RAX);
	emit_log_register(&e, 0, EMIT_R15);
	emit_log_advance(&e, 7);
	emit_log_touch(&e);
	expect(&e, "mov byte ptr [r11], 0x12; mov word ptr [r11+0x3], 0x1234; "
		   "mov dword ptr [r11+0xc8], 0x12345678; "
		   "mov qword ptr [r11+0x8], 0xfffffffffffffffe; mov qword ptr [r11+0x1], rax; "
		   "mov qword ptr [r11], r15; lea r11, [r11+0x7]; mov byte ptr [r11], 0x0");
	e = begin();
	emit_exit_number(&e, EMIT_RCX, 0x89abcdef);
	expect(&e, "mov rcx, qword ptr gs:[0x58]; mov dword ptr [rcx], 0x89abcdef; "
		   "lea rcx, [rcx+0x4]; mov qword ptr gs:[0x58], rcx");
}

/* Carries out the decoded stores on an array, and returns how far they reach. */
static size_t run_stores(const struct emitter *e, uint8_t *memory, size_t n)
{
	ZydisDecoder decoder;
	size_t reach = 0;

	assert_false(e->failed);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (const uint8_t *p = code; p < e->at;) {
		ZydisDecodedInstruction insn;
		ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
		assert_true(ZYAN_SUCCESS(
		    ZydisDecoderDecodeFull(&decoder, p, (size_t)(e->at - p), &insn, operands)));
		assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_MOV);
		assert_int_equal(operands[0].mem.base, ZYDIS_REGISTER_R11);
		size_t at = (size_t)operands[0].mem.disp.value, size = operands[0].size / 8u;
		assert_true(at + size <= n);
		for (size_t i = 0; i < size; i++)
			memory[at + i] = (uint8_t)((uint64_t)operands[1].imm.value.s >> 8 * i);
		reach = at + size > reach ? at + size : reach;
		p += insn.length;
	}
	return reach;
}

TEST(log_bytes)
{
	/* Values that 32 bits with a sign express, and others. */
	static const uint8_t samples[][24] = {
	    {0x02, 0xa3, 1,  2,	 3,  4,	 5,  6,	 7,  8,	 9,  10,
	     11,   12,	 13, 14, 15, 16, 17, 18, 19, 20, 21, 22},
	    {0x02, 0xa3, 0x55, 0x01, 0, 0, 0, 0, 0x02, 0xa3, 0x55, 0x81, 0xff, 0xff, 0xff, 0xff},
	    {0x02, 0xa3, 0x55, 0x81, 0, 0, 0, 0, 0x6d, 0, 0, 0, 0, 0, 0, 0x80},
	};
	for (size_t sample = 0; sample < sizeof(samples) / sizeof(*samples); sample++) {
		for (size_t n = 0; n <= sizeof(samples[0]); n++) {
			uint8_t memory[64];
			memset(memory, 0xee, sizeof(memory));
			struct emitter e = begin();
			emit_log_bytes(&e, 5, samples[sample], n);
			size_t reach = run_stores(&e, memory, sizeof(memory));
			assert_memory_equal(memory + 5, samples[sample], n);
			for (size_t i = 0; i < 5; i++)
				assert_int_equal(memory[i], 0xee);
			/* At most one byte more than asked for, and that is a PAD packet. */
			assert_true(reach <= (n ? 5 + n + 1 : 0));
			if (n && reach > 5 + n)
				assert_int_equal(memory[5 + n], 0);
		}
	}
}

TEST(branches)
{
	struct emitter e = begin();
	emit_jmp(&e, place(0x20));
	assert_true(emit_link(emit_jcc_hole(&e, 0x5), place(0x40)));
	emit_jmp_context(&e, CONTEXT_GATE_EXIT);
	emit_jmp_table(&e, EMIT_RCX, CONTEXT_INDIRECT);
	emit_jmp_table(&e, EMIT_R9, CONTEXT_INDIRECT);
	expect(&e, "jmp 0x20; jnz 0x40; jmp qword ptr gs:[0x28]; jmp qword ptr gs:[rcx*8+0x1000]; "
		   "jmp qword ptr gs:[r9*8+0x1000]");

	for (unsigned condition = 0; condition < 16; condition++) {
		e = begin();
		emit_jcc_hole(&e, condition);
		assert_int_equal(code[0], 0x0f);
		assert_int_equal(code[1], 0x80 | condition);
	}

	e = begin();
	uint8_t *far = emit_jmp_hole(&e), *not_equal = emit_jcc_hole(&e, 0x4);
	uint8_t *near = emit_jrcxz(&e), *zero = emit_jrcxz(&e);
	emit_low_8(&e, EMIT_RAX, EMIT_RCX);
	emit_land_8(&e, near);
	emit_land(&e, not_equal);
	emit_low_8(&e, EMIT_RCX, EMIT_RAX);
	emit_land(&e, far);
	emit_land_8(&e, zero);
	expect(&e, "jmp 0x15; jz 0x12; jrcxz 0x12; jrcxz 0x15; movzx eax, cl; movzx ecx, al");
	assert_true(emit_link(far, place(0x12)));
	emit_back_8(&e, zero, code);
	expect(&e, "jmp 0x12; jz 0x12; jrcxz 0x12; jrcxz 0x0; movzx eax, cl; movzx ecx, al");

	for (unsigned opcode = 0xe0; opcode <= 0xe3; opcode++) {
		static const char *const mnemonics[] = {"loopne", "loope", "loop"};
		char text[128];
		for (int address_32 = 0; address_32 < 2; address_32++) {
			e = begin();
			uint8_t *taken = emit_loop_hole(&e, opcode, address_32);
			uint64_t over = (uint64_t)(e.at - code);
			assert_true(emit_link(taken, place(0x80)));
			const char *mnemonic = opcode < 0xe3 ? mnemonics[opcode - 0xe0]
					       : address_32  ? "jecxz"
							     : "jrcxz";
			snprintf(text, sizeof(text), "%s 0x%x; jmp 0x%x; jmp 0x80", mnemonic,
				 4u + (unsigned)address_32, (unsigned)over);
			expect(&e, text);
			assert_int_equal(code[0] == 0x67, address_32);
		}
	}

	e = begin();
	emit_jmp_far(&e, UINT64_C(0x123456789abcdef0));
	assert_int_equal(e.at - code, EMIT_JMP_FAR);
	uint64_t target;
	memcpy(&target, e.at - 8, 8);
	assert_true(target == UINT64_C(0x123456789abcdef0));
	e.at -= 8;
	expect(&e, "jmp qword ptr [0x6]");

	for (size_t before = 0; before < 8; before++) {
		e = begin();
		emit_nothing(&e, before);
		uint8_t *field = emit_jmp_linkable(&e);
		assert_int_equal((uintptr_t)field % 4, 0);
		assert_int_equal(field[-1], 0xe9);
		assert_true(e.at == field + 4);
	}
}

TEST(memory)
{
	struct emitter e = begin();
	uint8_t *literal = emit_push_literal(&e);
	assert_true(emit_link(literal, place(0x60)));
	emit_push_32(&e, -5);
	emit_read_32(&e, EMIT_R10, place(0x70));
	emit_write_32(&e, EMIT_RDX, place(0x74));
	expect(&e, "push qword ptr [0x60]; push 0xfffffffffffffffb; mov r10d, dword ptr [0x70]; "
		   "mov dword ptr [0x74], edx");
	e = begin();
	uint8_t *done = emit_count_down(&e, place(0x80));
	emit_land_8(&e, done);
	expect(&e, "mov ecx, dword ptr [0x80]; lea ecx, [rcx-0x1]; "
		   "mov dword ptr [0x80], ecx; jrcxz 0x11");
}

TEST(nothing)
{
	for (size_t n = 0; n < 40; n++) {
		struct emitter e = begin();
		emit_nothing(&e, n);
		assert_int_equal(e.at - code, n);
		for (const uint8_t *p = code; p < e.at;) {
			ZydisDecoder decoder;
			ZydisDecodedInstruction insn;
			ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64);
			assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			    &decoder, NULL, p, (size_t)(e.at - p), &insn)));
			assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_NOP);
			/* As few as possible. */
			assert_int_equal(insn.length,
					 (size_t)(e.at - p) < 9 ? (size_t)(e.at - p) : 9);
			p += insn.length;
		}
		emit_align(&e, 16);
		assert_int_equal((uintptr_t)e.at % 16, 0);
	}
}

/* What does not fit or is out of reach is not written, and said. */
TEST(returns)
{
	struct emitter e = begin();

	emit_returns_push(&e, EMIT_RCX, EMIT_RAX, 0x7f0011223344, 0x555566667777);
	expect(&e, "mov ecx, dword ptr gs:[0x78]; lea ecx, [rcx+0x8]; "
		   "movzx ecx, cl; mov dword ptr gs:[0x78], ecx; "
		   "mov rax, 0xffff80ffeeddccbc; mov qword ptr gs:[rcx+0x80], rax; "
		   "mov rax, 0x555566667777; mov qword ptr gs:[rcx+0x180], rax");
	e = begin();
	emit_returns_compare(&e);
	emit_returns_pop(&e);
	emit_returns_forget(&e, EMIT_RAX);
	expect(&e, "mov eax, dword ptr gs:[0x78]; mov rax, qword ptr gs:[rax+0x80]; "
		   "lea rcx, [rcx+rax*1]; "
		   "mov ecx, dword ptr gs:[0x78]; mov qword ptr gs:[rcx+0x80], 0x1; "
		   "mov rax, qword ptr gs:[rcx+0x180]; mov qword ptr gs:[0x70], rax; "
		   "mov ecx, dword ptr gs:[0x78]; lea ecx, [rcx-0x8]; "
		   "movzx ecx, cl; mov dword ptr gs:[0x78], ecx; "
		   "mov eax, dword ptr gs:[0x78]; lea eax, [rax+0x8]; "
		   "movzx eax, al; mov dword ptr gs:[0x78], eax; "
		   "mov qword ptr gs:[rax+0x80], 0x1");
	e = begin();
	emit_rotate_32(&e, EMIT_RCX);
	emit_rotate_32(&e, EMIT_R12);
	expect(&e, "rorx rcx, rcx, 0x20; rorx r12, r12, 0x20");
}

TEST(refused)
{
	for (size_t room = 0; room < 9; room++) {
		memset(code, 0xcc, sizeof(code));
		struct emitter e = {code, code + room, false};
		emit_save(&e, EMIT_R8, CONTEXT_LOG); /* 9 bytes */
		assert_true(e.failed);
		for (size_t i = room; i < 16; i++)
			assert_int_equal(code[i], 0xcc);
		emit_8(&e, 0x90);
		assert_true(e.failed);
	}
	struct emitter e = begin();
	emit_jmp(&e, place(5) + INT32_MAX);
	assert_false(e.failed);
	e = begin();
	emit_jmp(&e, place(5) + INT32_MAX + 1u);
	assert_true(e.failed);
	e = begin();
	emit_jmp(&e, place(5) - 0x80000000u);
	assert_false(e.failed);
	e = begin();
	emit_jmp(&e, place(5) - 0x80000001u);
	assert_true(e.failed);

	e = begin();
	uint8_t *hole = emit_jmp_hole(&e);
	assert_false(emit_link(hole, place(5) + INT32_MAX + 1u));
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(hole[i], 0);

	e = begin();
	uint8_t *near = emit_jrcxz(&e);
	emit_nothing(&e, 127);
	emit_land_8(&e, near);
	assert_false(e.failed);
	assert_int_equal(*near, 127);
	emit_nothing(&e, 1);
	emit_land_8(&e, near);
	assert_true(e.failed);
	assert_int_equal(*near, 127);
}
