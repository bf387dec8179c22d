/* SPDX-License-Identifier: MIT */
/*
 * Instructions do the same from the cache as at their own address. Every form that Zydis knows is
 * made of random bytes, runs with random registers, flags and memory at its own address, and then
 * as copy.c copies it: general registers, flags, FS base, all state of XSAVE, memory and the fault
 * have to be the same. So the processor itself is the judge.
 *
 *	test_copy [SEED [ROUNDS]]
 */
#include "test.h"

#include "record/native/machine.h"
#include "record/native/runtime/copy.h"

#include <Zydis/Zydis.h>
#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Low addresses, so that operands with 32-bit addresses can be used. */
#define PROGRAM	      UINT64_C(0x20000000)
#define NEAR	      UINT64_C(0x28000000)
#define SCRATCH	      UINT64_C(0x30000000)
#define SCRATCH_BYTES 8192u
#define GUARD	      (1u << 20)
#define CODE_BYTES    (64u << 10)
#define SLOT	      64u /* of code */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

static ZydisDecoder decoder;
static uint64_t far_cache, high_program;
static size_t xsave_bytes;
static uint64_t context[CONTEXT_BYTES / 8];
static uint64_t seed = 1;
static unsigned rounds = 1;

static uint64_t random_64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * UINT64_C(0x2545f4914f6cdd1d);
}

static unsigned below(unsigned n)
{
	return (unsigned)(random_64() >> 33) % n;
}

/* One instruction, as Zydis reads it. */
struct form {
	uint8_t bytes[15];
	unsigned size;
	ZydisDecodedInstruction z;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	struct insn insn;
};

/* False: not an instruction, or not one of those that insn.c knows. */
static bool decode(struct form *f, const uint8_t *bytes, size_t n)
{
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &f->z, f->operands)))
		return false;
	f->size = f->z.length;
	memset(f->bytes, 0, sizeof(f->bytes));
	memcpy(f->bytes, bytes, f->size);
	return insn_decode(f->bytes, sizeof(f->bytes), &f->insn) && f->insn.code.size == f->size;
}

static void print_form(const struct form *f)
{
	ZydisFormatter formatter;
	char text[128] = "?";
	ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterFormatInstruction(&formatter, &f->z, f->operands, f->z.operand_count_visible,
					text, sizeof(text), ZYDIS_RUNTIME_ADDRESS_NONE, NULL);
	for (unsigned i = 0; i < f->size; i++)
		fprintf(stderr, "%02x ", f->bytes[i]);
	fprintf(stderr, " %s (seed %llu)\n", text, (unsigned long long)seed);
}

/* Forms that do not stay in user mode, go elsewhere, or have a result that time or chance decides.
 */
static bool can_compare(const struct form *f)
{
	static const ZydisMnemonic no[] = {
	    ZYDIS_MNEMONIC_RDTSC,    ZYDIS_MNEMONIC_RDTSCP,   ZYDIS_MNEMONIC_RDRAND,
	    ZYDIS_MNEMONIC_RDSEED,   ZYDIS_MNEMONIC_RDPMC,    ZYDIS_MNEMONIC_RDPRU,
	    ZYDIS_MNEMONIC_UMWAIT,   ZYDIS_MNEMONIC_TPAUSE,   ZYDIS_MNEMONIC_WRPKRU,
	    ZYDIS_MNEMONIC_VMCALL,   ZYDIS_MNEMONIC_VMMCALL,  ZYDIS_MNEMONIC_ENCLU,
	    ZYDIS_MNEMONIC_XBEGIN,   ZYDIS_MNEMONIC_XABORT,   ZYDIS_MNEMONIC_XEND,
	    ZYDIS_MNEMONIC_WRGSBASE, ZYDIS_MNEMONIC_RDGSBASE, ZYDIS_MNEMONIC_LFS,
	    ZYDIS_MNEMONIC_LGS,	     ZYDIS_MNEMONIC_RSM,      ZYDIS_MNEMONIC_SENDUIPI,
	    ZYDIS_MNEMONIC_UIRET,    ZYDIS_MNEMONIC_SETSSBSY, ZYDIS_MNEMONIC_SYSENTER,
	    ZYDIS_MNEMONIC_SYSEXIT,  ZYDIS_MNEMONIC_SYSRET,   ZYDIS_MNEMONIC_SYSCALL,
	    ZYDIS_MNEMONIC_MONITORX, ZYDIS_MNEMONIC_MWAITX,   ZYDIS_MNEMONIC_SKINIT,
	    ZYDIS_MNEMONIC_HRESET,
	};
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		if (f->z.mnemonic == no[i])
			return false;
	}
	if (f->z.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE ||
	    f->z.meta.category == ZYDIS_CATEGORY_RET || f->z.meta.category == ZYDIS_CATEGORY_CALL ||
	    f->z.mnemonic == ZYDIS_MNEMONIC_IRET || f->z.mnemonic == ZYDIS_MNEMONIC_IRETD ||
	    f->z.mnemonic == ZYDIS_MNEMONIC_IRETQ || f->insn.code.segment_gs)
		return false;
	if (f->z.mnemonic == ZYDIS_MNEMONIC_INT && f->z.raw.imm[0].value.u == 0x80)
		return false;
	for (unsigned i = 0; i < f->z.operand_count; i++) {
		const ZydisDecodedOperand *o = &f->operands[i];
		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    (o->reg.value == ZYDIS_REGISTER_FS || o->reg.value == ZYDIS_REGISTER_GS))
			return false;
	}
	return true;
}

/* The state that both runs begin with. */
struct state {
	uint64_t general[16], flags, fs;
	uint8_t xsave[MACHINE_XSAVE], memory[SCRATCH_BYTES];
};
static struct state before;

static void random_vectors(const struct form *f)
{
	uint8_t *x = before.xsave;
	for (size_t i = 0; i < xsave_bytes; i += 8) {
		uint64_t word = random_64();
		memcpy(x + i, &word, i + 8 <= xsave_bytes ? 8 : xsave_bytes - i);
	}
	/* The control and status words of x87 and SSE, and the header: SDM Vol. 1, "XSAVE Area" */
	static const uint16_t controls[] = {0x37f, 0x27f, 0xf7f, 0x77f};
	uint16_t control = controls[below(4)];
	if (below(16) == 0)
		control &= (uint16_t) ~(1u << below(6));
	uint16_t status = (uint16_t)(random_64() & 0x7f00); /* no exception is pending */
	uint32_t mxcsr = 0x1f80 | (below(4) << 13) | (below(8) == 0 ? 0x8040 : 0);
	if (below(16) == 0)
		mxcsr &= ~(0x80u << below(6));
	memcpy(x, &control, 2);
	memcpy(x + 2, &status, 2);
	memcpy(x + 24, &mxcsr, 4);
	memset(x + 8, 0, 16); /* FIP and FDP */
	memset(x + 28, 0, 4); /* MXCSR_MASK */
	memset(x + 512, 0, 64);
	memcpy(x + 512, &machine.xsave_mask, 8);
	/* x87 registers: ordinary numbers, in bits 0 to 79 of 128. */
	for (unsigned i = 0; i < 8; i++) {
		uint16_t exponent = (uint16_t)((0x3fff - 20 + below(60)) | below(2) << 15);
		if (below(4)) {
			x[32 + 16 * i + 7] |= 0x80;
			memcpy(x + 32 + 16 * i + 8, &exponent, 2);
		}
		memset(x + 32 + 16 * i + 10, 0, 6);
	}
	for (unsigned i = 0; i < f->z.operand_count; i++) {
		/* A gather's index is in a vector register: small numbers in all of them. */
		if (f->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    f->operands[i].mem.type == ZYDIS_MEMOP_TYPE_VSIB && below(4)) {
			for (size_t at = 160; at + 8 <= xsave_bytes; at += 8) {
				uint64_t word = random_64() & UINT64_C(0x0000003f0000003f);
				if (at < 416 || at >= 576)
					memcpy(x + at, &word, 8);
			}
		}
	}
}

static uint64_t random_general(void)
{
	switch (below(8)) {
	case 0:
	case 1:
	case 2:
		return SCRATCH + 2048 + below(64) * 64;
	case 3:
	case 4:
		return below(32);
	case 5:
		return (uint64_t)(int64_t)(int32_t)random_64();
	default:
		return random_64();
	}
}

static uint64_t *general_of(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return NULL;
	return &before.general[whole - ZYDIS_REGISTER_RAX];
}

/* Chooses registers so that memory operands are in the scratch area (mostly). */
static void point_operands(const struct form *f)
{
	for (unsigned i = 0; i < f->z.operand_count; i++) {
		const ZydisDecodedOperand *o = &f->operands[i];
		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || below(16) == 0)
			continue;
		uint64_t to = SCRATCH + SCRATCH_BYTES / 2 + (below(4) ? 0 : below(64));
		uint64_t *base = general_of(o->mem.base);
		uint64_t *index =
		    o->mem.type == ZYDIS_MEMOP_TYPE_VSIB ? NULL : general_of(o->mem.index);
		uint64_t rest = to - (uint64_t)o->mem.disp.value;
		if (o->mem.segment == ZYDIS_REGISTER_FS)
			rest -= before.fs;
		if (index && index != base) {
			*index = below(16);
			if (!base && o->mem.scale) /* as near as its scale allows */
				*index = rest / o->mem.scale;
			else
				rest -= *index * o->mem.scale;
		}
		if (base)
			*base = index == base ? rest / (1u + o->mem.scale) : rest;
	}
}

static void random_state(const struct form *f)
{
	before.fs = below(2) ? 0 : (uint64_t)below(1u << 20) * 64;
	for (unsigned i = 0; i < 16; i++)
		before.general[i] = random_general();
	before.general[EMIT_RSP] = SCRATCH + SCRATCH_BYTES / 2 + below(64) * 8;
	before.flags = 0x202 | (random_64() & 0xcd5); /* CF, PF, AF, ZF, SF, DF, OF */
	random_vectors(f);
	for (size_t i = 0; i < SCRATCH_BYTES; i += 8) {
		uint64_t word = random_64();
		memcpy(before.memory + i, &word, 8);
	}
	point_operands(f);
	/* XRSTOR must not lock us out of our own memory by PKRU. */
	if (f->z.mnemonic >= ZYDIS_MNEMONIC_XRSTOR && f->z.mnemonic <= ZYDIS_MNEMONIC_XRSTORS64) {
		before.general[EMIT_RAX] &= 0xe7;
		before.general[EMIT_RDX] = 0;
	}
	/* POPF must not set TF, NT or AC, which would change what the test's own code does. */
	uint64_t at = before.general[EMIT_RSP] - SCRATCH;
	if (at + 8 <= SCRATCH_BYTES) {
		uint64_t word;
		memcpy(&word, before.memory + at, 8);
		word &= ~UINT64_C(0x44100);
		memcpy(before.memory + at, &word, 8);
	}
}

static void begin_run(uint64_t start)
{
	memcpy(machine.general, before.general, sizeof(before.general));
	machine.flags = before.flags;
	machine.fs = before.fs;
	machine.start = start;
	machine.signal = 0;
	memcpy(machine.xsave, before.xsave, xsave_bytes);
	memcpy((void *)(uintptr_t)SCRATCH, before.memory, SCRATCH_BYTES);
	machine_run();
}

/* What a run has left. */
struct outcome {
	uint64_t general[16], flags, fs, fault_address, fault_rip;
	int signal, code;
	uint8_t xsave[MACHINE_XSAVE], memory[SCRATCH_BYTES];
};

static void keep(struct outcome *o)
{
	memcpy(o->general, machine.general, sizeof(o->general));
	o->flags = machine.flags;
	o->fs = machine.fs;
	o->signal = machine.signal;
	o->code = machine.code;
	o->fault_address = machine.fault_address;
	o->fault_rip = machine.fault_rip;
	memcpy(o->xsave, machine.xsave, xsave_bytes);
	memcpy(o->memory, (void *)(uintptr_t)SCRATCH, SCRATCH_BYTES);
}

static struct outcome native, cached;

#define SAME(what, a, b)                                                                           \
	do {                                                                                       \
		if ((a) != (b)) {                                                                  \
			fprintf(stderr, "%s: %llx natively, %llx from the cache\n", what,          \
				(unsigned long long)(a), (unsigned long long)(b));                 \
			same = false;                                                              \
		}                                                                                  \
	} while (0)

/* The header of XSAVE says how the processor keeps state, not what it is. */
static bool same_vectors(const struct form *f)
{
	bool x87 = f->z.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
		   f->z.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
		   ((f->z.opcode >= 0xd8 && f->z.opcode <= 0xdf) || f->z.opcode == 0x9b);
	for (size_t i = 0; i < xsave_bytes; i++) {
		if ((i >= 464 && i < 576) ||
		    (x87 && i >= 6 && i < 16)) /* FOP and FIP: see copy.h */
			continue;
		if (native.xsave[i] != cached.xsave[i]) {
			fprintf(stderr, "XSAVE area differs at %zu\n", i);
			return false;
		}
	}
	return true;
}

static bool same_outcome(const struct form *f)
{
	bool same = true;
	for (unsigned i = 0; i < 16; i++) {
		char name[16];
		snprintf(name, sizeof(name), "register %u", i);
		SAME(name, native.general[i], cached.general[i]);
	}
	SAME("flags", native.flags, cached.flags);
	SAME("FS base", native.fs, cached.fs);
	SAME("signal", native.signal, cached.signal);
	if (native.signal) {
		SAME("si_code", native.code, cached.code);
		SAME("offset of RIP", native.fault_rip, cached.fault_rip);
		/* SIGILL, SIGFPE and SIGTRAP have the instruction's address there. */
		if (native.signal == SIGSEGV || native.signal == SIGBUS)
			SAME("si_addr", native.fault_address, cached.fault_address);
	}
	if (memcmp(native.memory, cached.memory, SCRATCH_BYTES)) {
		fprintf(stderr, "memory differs\n");
		same = false;
	}
	return same_vectors(f) && same;
}

static void jump_back(struct emitter *e)
{
	emit_jmp_far(e, (uint64_t)(uintptr_t)machine_back);
}

static struct emitter code_at(uint64_t address)
{
	return (struct emitter){(uint8_t *)(uintptr_t)address,
				(uint8_t *)(uintptr_t)address + 2 * SLOT, false};
}

/* Counts of what was run, to be sure that something was. */
static struct {
	uint64_t forms, faulted, displaced, far, mnemonics;
} ran;
static bool seen[ZYDIS_MNEMONIC_MAX_VALUE + 1];

static void count(const struct form *f)
{
	ran.forms++;
	ran.faulted += native.signal != 0;
	if (!native.signal && !seen[f->z.mnemonic]) {
		seen[f->z.mnemonic] = true;
		ran.mnemonics++;
	}
}

/* From pcmap.c's point of view: the fault's RIP and registers, as if at the program's address. */
static void restore_fault(const struct form *f, const struct copy *copy, uint64_t place)
{
	uint64_t at = cached.fault_rip - place;
	if (!cached.signal)
		return;
	if (copy->scratch != COPY_NO_REGISTER) {
		if (at >= copy->saved && at <= copy->restore)
			cached.general[copy->scratch] = context[CONTEXT_RAX / 8];
		at = at >= copy->restore ? f->size : 0;
	} else if (at == copy->size) {
		at = f->size;
	}
	cached.fault_rip = at;
}

/*
 * A signal may come between any two instructions of a copy. What struct copy says of that place has
 * to give the program's state before the instruction, or after it. The copy is cut there.
 */
static bool same_between(const struct form *f, const struct copy *copy, uint64_t program,
			 uint64_t place)
{
	bool same = true;
	ZydisDecodedInstruction z;
	for (unsigned at = 0; at < copy->size && same; at += z.length) {
		struct copy again;
		struct emitter e = code_at(place);
		assert_true(copy_insn(&e, &f->insn, f->bytes, program, &again));
		assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
		    &decoder, NULL, (void *)(uintptr_t)(place + at), copy->size - at, &z)));
		if (at == copy->restore && native.signal)
			break; /* it never gets there */
		e.at = (uint8_t *)(uintptr_t)(place + at);
		jump_back(&e);
		begin_run(place);
		keep(&cached);
		if (at >= copy->saved)
			cached.general[copy->scratch] = context[CONTEXT_RAX / 8];
		if (at >= copy->restore)
			return same_outcome(f);
		same = !cached.signal && cached.flags == before.flags && cached.fs == before.fs &&
		       !memcmp(cached.general, before.general, sizeof(before.general)) &&
		       !memcmp(cached.memory, before.memory, SCRATCH_BYTES);
		if (!same)
			fprintf(stderr, "another state at %u of the copy\n", at);
	}
	return same;
}

static bool run_copy(const struct form *f, uint64_t program, uint64_t place)
{
	struct copy copy;
	struct emitter e = code_at(place);
	assert_true(copy_insn(&e, &f->insn, f->bytes, program, &copy));
	assert_false(e.failed);
	assert_true(copy.size <= COPY_MAX);
	assert_int_equal(e.at - (uint8_t *)(uintptr_t)place, copy.size);
	ran.far += copy.scratch != COPY_NO_REGISTER;
	jump_back(&e);
	begin_run(place);
	keep(&cached);
	restore_fault(f, &copy, place);
	return same_outcome(f) && (copy.scratch == COPY_NO_REGISTER || below(8) ||
				   same_between(f, &copy, program, place));
}

/* RIP-relative: the displacement that leads to the scratch area from there. */
static void aim_rip(struct form *f, uint64_t program)
{
	if (!f->insn.code.rip_relative)
		return;
	uint64_t to = SCRATCH + SCRATCH_BYTES / 2 + (below(4) ? 0 : below(64));
	if (f->insn.code.segment_fs)
		to -= before.fs;
	int32_t d = (int32_t)(to - (program + f->size));
	memcpy(f->bytes + f->insn.code.displacement_at, &d, 4);
	f->insn.offset = d;
	ran.displaced++;
}

/* MOV with an address of 64 bits (A0 to A3). */
static void aim_offset(struct form *f)
{
	if (f->insn.code.displacement_size != 8)
		return;
	uint64_t to = SCRATCH + SCRATCH_BYTES / 2 - (f->insn.code.segment_fs ? before.fs : 0);
	memcpy(f->bytes + f->insn.code.displacement_at, &to, 8);
}

/* At its own address, which is in the page `code`, and from caches within reach and out of it. */
static void compare_at(struct form *f, uint64_t code)
{
	static unsigned slot;
	slot = (slot + 1) % (CODE_BYTES / SLOT / 4);
	uint64_t program = code + slot * 4 * SLOT, near = NEAR + slot * 4 * SLOT,
		 far = far_cache + slot * 4 * SLOT;
	if (code == PROGRAM)
		aim_rip(f, program);
	struct emitter e = code_at(program);
	emit_bytes(&e, f->bytes, f->size);
	jump_back(&e);
	begin_run(program);
	keep(&native);
	native.fault_rip -= program;
	count(f);
	if (!run_copy(f, program, near) ||
	    (f->insn.code.rip_relative && !run_copy(f, program, far))) {
		print_form(f);
		fail();
	}
}

static void compare(struct form *f)
{
	random_state(f);
	aim_offset(f);
	compare_at(f, PROGRAM);
}

static void one(const uint8_t *bytes, size_t n)
{
	struct form f;
	if (decode(&f, bytes, n) && (f.insn.flow == INSN_NEXT || f.insn.flow == INSN_TRAP) &&
	    can_compare(&f))
		compare(&f);
}

/* ModRM, SIB, displacement and immediate; kind: which operand. Returns the end. */
enum operand_kind {
	IN_REGISTER,
	AT_BASE,
	AT_INDEX,
	AT_RSP,
	AT_RIP,
	OPERAND_KINDS
};

static uint8_t *put_operand(uint8_t *p, enum operand_kind kind, unsigned reg)
{
	static const uint8_t bases[] = {0, 1, 2, 3, 6, 7};
	unsigned mod = below(3);
	switch (kind) {
	case IN_REGISTER:
		*p++ = (uint8_t)(0xc0 | reg << 3 | below(8));
		break;
	case AT_BASE:
		*p++ = (uint8_t)(mod << 6 | reg << 3 | bases[below(6)]);
		break;
	case AT_INDEX:
		*p++ = (uint8_t)(mod << 6 | reg << 3 | 4);
		*p++ = (uint8_t)random_64();
		break;
	case AT_RSP:
		*p++ = (uint8_t)(mod << 6 | reg << 3 | 4);
		*p++ = 0x24;
		break;
	default:
		*p++ = (uint8_t)(reg << 3 | 5);
	}
	/* Displacement and immediate, as long as they may be: small, so that most stay in reach. */
	for (unsigned i = 0; i < 12; i++)
		*p++ = (uint8_t)(kind == AT_INDEX && below(2) ? 0 : random_64());
	return p;
}

/* Prefixes for other segments and addresses of 32 bits, sometimes. */
static uint8_t *put_prefixes(uint8_t *p)
{
	if (below(16) == 0)
		*p++ = 0x64;
	if (below(16) == 0)
		*p++ = 0x67;
	return p;
}

/* variant: one of four prefixes, and REX.W */
static void legacy_form(unsigned map, unsigned opcode, unsigned reg, unsigned variant,
			enum operand_kind kind)
{
	static const uint8_t prefixes[] = {0, 0x66, 0xf2, 0xf3};
	uint8_t bytes[32], *p = put_prefixes(bytes);
	if (below(32) == 0)
		*p++ = 0xf0;
	if (variant & 3)
		*p++ = prefixes[variant & 3];
	if (variant & 4 || below(4) == 0)
		*p++ = (uint8_t)(0x40 | (variant & 4) << 1 | below(8));
	if (map)
		*p++ = 0x0f;
	if (map > 1)
		*p++ = map == 2 ? 0x38 : 0x3a;
	*p++ = (uint8_t)opcode;
	put_operand(p, kind, reg);
	one(bytes, X86_MAX_SIZE);
}

static void legacy_forms(void **state)
{
	(void)state;
	assert_true(machine_catch());
	/* All of them are the digits of one number. */
	for (unsigned i = 0; i < rounds * 4 * 256 * 64 * OPERAND_KINDS; i++) {
		unsigned rest = i / OPERAND_KINDS;
		legacy_form(rest >> 14 & 3, rest >> 6 & 255, rest & 7, rest >> 3 & 7,
			    i % OPERAND_KINDS);
	}
}

/* pp_l_w: mandatory prefix, vector length and W */
static void vex_form(unsigned map, unsigned opcode, unsigned reg, unsigned pp_l_w,
		     enum operand_kind kind)
{
	uint8_t bytes[32], *p = put_prefixes(bytes);
	unsigned vvvv = below(3) ? below(16) : 15; /* 15: unused */
	unsigned w = pp_l_w >> 3, low = vvvv << 3 | (pp_l_w & 7);
	if (map == 1 && !w && below(2)) {
		*p++ = 0xc5;
		*p++ = (uint8_t)(below(2) << 7 | low);
	} else {
		*p++ = 0xc4;
		*p++ = (uint8_t)(below(8) << 5 | map);
		*p++ = (uint8_t)(w << 7 | low);
	}
	*p++ = (uint8_t)opcode;
	put_operand(p, kind, reg);
	one(bytes, X86_MAX_SIZE);
}

static void vex_forms(void **state)
{
	(void)state;
	assert_true(machine_catch());
	for (unsigned i = 0; i < rounds * 3 * 256 * 128 * OPERAND_KINDS; i++) {
		unsigned rest = i / OPERAND_KINDS;
		vex_form(1 + (rest >> 15) % 3, rest >> 7 & 255, rest & 7, rest >> 3 & 15,
			 i % OPERAND_KINDS);
	}
}

/* pp_l_w: as above, with a vector length of two bits */
static void evex_form(unsigned map, unsigned opcode, unsigned pp_l_w, enum operand_kind kind)
{
	uint8_t bytes[32], *p = put_prefixes(bytes);
	unsigned vvvv = below(3) ? below(16) : 15;
	*p++ = 0x62;
	*p++ = (uint8_t)(below(16) << 4 | map);
	*p++ = (uint8_t)((pp_l_w >> 4) << 7 | vvvv << 3 | 4 | (pp_l_w & 3));
	/* z, L'L, b, V', aaa */
	*p++ = (uint8_t)((below(4) == 0) << 7 | (pp_l_w >> 2 & 3) << 5 | (below(4) == 0) << 4 |
			 (below(4) != 0) << 3 | (below(2) ? 0 : below(8)));
	*p++ = (uint8_t)opcode;
	put_operand(p, kind, below(8));
	one(bytes, X86_MAX_SIZE);
}

static void evex_forms(void **state)
{
	(void)state;
	assert_true(machine_catch());
	for (unsigned i = 0; i < rounds * 6 * 256 * 32 * OPERAND_KINDS; i++) {
		unsigned rest = i / OPERAND_KINDS;
		evex_form(1 + (rest >> 13) % 6, rest >> 5 & 255, rest & 31, i % OPERAND_KINDS);
	}
}

static void xop_forms(void **state)
{
	(void)state;
	assert_true(machine_catch());
	for (unsigned i = 0; i < rounds * 3 * 256 * OPERAND_KINDS; i++) {
		uint8_t bytes[32], *p = bytes;
		unsigned rest = i / OPERAND_KINDS;
		*p++ = 0x8f;
		*p++ = (uint8_t)(below(8) << 5 | (8 + (rest >> 8) % 3));
		*p++ = (uint8_t)(below(2) << 7 | 0x78 | below(2) << 2);
		*p++ = (uint8_t)rest;
		put_operand(p, i % OPERAND_KINDS, below(8));
		one(bytes, X86_MAX_SIZE);
	}
}

/* LEA needs no memory: RIP-relative at high addresses, where 32 bits are not all of it. */
static void lea_at_high_addresses(void **state)
{
	(void)state;
	assert_true(machine_catch());
	for (unsigned i = 0; i < 4000 * rounds; i++) {
		uint8_t bytes[32], *p = bytes;
		struct form f;
		if (below(2))
			*p++ = 0x67;
		if (below(2))
			*p++ = 0x66;
		if (below(4))
			*p++ = (uint8_t)(0x40 | below(16));
		*p++ = 0x8d;
		put_operand(p, AT_RIP, below(8));
		assert_true(decode(&f, bytes, 15));
		random_state(&f);
		compare_at(&f, high_program);
	}
}

/* Jumps and calls through registers and memory: everything in sight is the way back. */
static void aim_branch(const struct form *f)
{
	uint64_t back = (uint64_t)(uintptr_t)machine_back;
	unsigned unaligned = below(8) == 0 ? 0 : 1;
	for (size_t i = 0; i < SCRATCH_BYTES && unaligned; i += 8)
		memcpy(before.memory + i, &back, 8);
	if (f->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		*general_of(f->operands[0].reg.value) = back;
}

static bool run_indirect(const struct form *f, uint64_t program, uint64_t place)
{
	bool call = f->insn.flow == INSN_CALL_INDIRECT;
	struct emitter e = code_at(place);
	emit_save(&e, EMIT_RCX, CONTEXT_RCX);
	assert_true(copy_target(&e, &f->insn, f->bytes, program));
	uint8_t *literal = call ? copy_call(&e, program + f->size) : NULL;
	assert_false(e.failed);
	assert_true(e.at - (uint8_t *)(uintptr_t)place <= COPY_MAX);
	jump_back(&e);
	if (literal) {
		assert_true(emit_link(literal, (uint64_t)(uintptr_t)e.at));
		emit_value(&e, program + f->size, 8);
	}
	begin_run(place);
	keep(&cached);
	/*
	 * A target that is not canonical: the branch itself faults (#GP). The load of the target
	 * does not; whoever looks for the target sees it.
	 */
	uint64_t target = cached.general[EMIT_RCX];
	if (!cached.signal && native.signal == SIGSEGV && native.code == SI_KERNEL &&
	    (uint64_t)((int64_t)(target << 16) >> 16) != target)
		return true;
	if (!cached.signal && target != (uint64_t)(uintptr_t)machine_back) {
		fprintf(stderr, "another target: %llx\n", (unsigned long long)target);
		return false;
	}
	/* From here on the unit would restore RCX; at a fault, pcmap.c. */
	cached.general[EMIT_RCX] = context[CONTEXT_RCX / 8];
	cached.fault_rip = 0;
	return same_outcome(f);
}

static void compare_indirect(struct form *f, uint64_t program)
{
	random_state(f);
	aim_branch(f);
	aim_rip(f, program);
	struct emitter e = code_at(program);
	emit_bytes(&e, f->bytes, f->size);
	begin_run(program);
	keep(&native);
	/* A target that is not the way back: the branch did not fault, its target did. */
	if (native.signal && native.fault_rip != program)
		return;
	native.fault_rip = 0;
	count(f);
	if (!run_indirect(f, program, NEAR) || !run_indirect(f, program, far_cache)) {
		print_form(f);
		fail();
	}
}

static void indirect_branches(void **state)
{
	(void)state;
	assert_true(machine_catch());
	for (unsigned i = 0; i < 40000 * rounds; i++) {
		uint8_t bytes[32], *p = bytes;
		struct form f;
		bool call = below(2);
		if (below(4) == 0)
			*p++ = 0x64;
		if (below(4) == 0)
			*p++ = 0x67;
		if (below(4) == 0)
			*p++ = 0x3e; /* NOTRACK */
		if (below(4) == 0)
			*p++ = 0xf2; /* BND */
		if (below(2))
			*p++ = (uint8_t)(0x40 | below(16));
		*p++ = 0xff;
		put_operand(p, below(OPERAND_KINDS), call ? 2 : 4);
		if (!decode(&f, bytes, 15) || f.insn.code.segment_gs)
			continue;
		assert_int_equal(f.insn.flow, call ? INSN_CALL_INDIRECT : INSN_JMP_INDIRECT);
		compare_indirect(&f, PROGRAM + below(64));
	}
}

/* The return address of a call at a high address does not fit into PUSH with a constant. */
static void calls(void **state)
{
	(void)state;
	static const uint64_t returns[] = {0,
					   1,
					   0x401000,
					   0x7fffffff,
					   0x80000000,
					   0xffffffff,
					   UINT64_C(0x555555554321),
					   UINT64_C(0x7fffffffe000),
					   UINT64_C(0xffffffff80000000)};
	struct form none;
	memset(&none, 0, sizeof(none));
	assert_true(machine_catch());
	for (size_t i = 0; i < sizeof(returns) / sizeof(*returns); i++) {
		random_state(&none);
		struct emitter e = code_at(NEAR);
		uint8_t *literal = copy_call(&e, returns[i]);
		jump_back(&e);
		if (literal) {
			assert_true(emit_link(literal, (uint64_t)(uintptr_t)e.at));
			emit_value(&e, returns[i], 8);
		}
		begin_run(NEAR);
		keep(&cached);
		assert_int_equal(cached.signal, 0);
		/* CALL: RSP - 8, the return address there, and nothing else. SDM Vol. 2, CALL */
		uint64_t rsp = before.general[EMIT_RSP] -= 8;
		memcpy(before.memory + (rsp - SCRATCH), &returns[i], 8);
		assert_memory_equal(cached.general, before.general, sizeof(before.general));
		assert_memory_equal(cached.memory, before.memory, SCRATCH_BYTES);
		assert_int_equal(cached.flags, before.flags);
	}
}

/* What cannot be copied is not touched. */
static void refused(void **state)
{
	(void)state;
	uint8_t out[64];
	for (unsigned flow = 0; flow <= INSN_UNKNOWN; flow++) {
		const uint8_t nop[] = {0x90};
		struct insn insn = {.code.size = 1, .flow = (uint8_t)flow};
		struct copy copy;
		struct emitter e = {out, out + sizeof(out), false};
		bool can = flow == INSN_NEXT || flow == INSN_TRAP;
		assert_int_equal(copy_insn(&e, &insn, nop, 0x1000, &copy), can);
		assert_int_equal(e.at - out, can ? 1 : 0);
		insn.code.segment_gs = true;
		e.at = out;
		assert_false(copy_insn(&e, &insn, nop, 0x1000, &copy));
		const uint8_t jump[] = {0xff, 0xe0};
		insn =
		    (struct insn){.code = {.size = 2, .opcode = 0xff, .modrm = 0xe0, .modrm_at = 1},
				  .flow = (uint8_t)flow};
		e.at = out;
		can = flow == INSN_JMP_INDIRECT || flow == INSN_CALL_INDIRECT;
		assert_int_equal(copy_target(&e, &insn, jump, 0x1000), can);
		if (can) {
			struct insn variants[] = {insn, insn, insn};
			variants[0].code.operand_66 = true;
			variants[1].code.lock = true;
			variants[2].code.segment_gs = true;
			for (unsigned i = 0; i < 3; i++) {
				e.at = out;
				assert_false(copy_target(&e, &variants[i], jump, 0x1000));
				assert_ptr_equal(e.at, out);
			}
		}
	}
}

static void has_bytes(const struct emitter *e, const uint8_t *out, const uint8_t *bytes, size_t n)
{
	if (!memmem(out, (size_t)(e->at - out), bytes, n))
		fail_msg("no copy of %02x %02x %02x", bytes[0], bytes[1], bytes[2]);
}

/*
 * APX, of which this processor need not know: what extends a base or an index means nothing with
 * RIP, and nothing is extended in the copy, whose base is a register that is not used. Branches load
 * their target with the same extensions (Intel APX Architecture Specification, REX2 and EVEX).
 */
static void extended(void **state)
{
	static const struct {
		uint8_t insn[15], copy[6], n;
	} operands[] =
	    {
		{{0xd5, 0x33, 0x8b, 0x05}, {0xd5, 0x00, 0x8b, 0x01}, 4}, /* MOV EAX, [RCX] */
		{{0x62, 0x9c, 0x70, 0x18, 0x03, 0x05}, {0x62, 0xf4, 0x74, 0x18, 0x03, 0x02}, 6},
		{{0xd5, 0x7b, 0x8d, 0x05}, {0xd5, 0x48, 0x8d, 0x00}, 4}, /* LEA R16, [RAX] */
	    },
	  branches[] = {
	      {{0xd5, 0x10, 0xff, 0xd0}, {0xd5, 0x18, 0x8b, 0xc8}, 4}, /* CALL R16 */
	      {{0xd5, 0x11, 0xff, 0x64, 0x24, 0x08}, {0xd5, 0x19, 0x8b, 0x4c, 0x24, 0x08}, 6},
	  };
	uint8_t out[COPY_MAX];
	struct insn insn;
	struct copy copy;

	(void)state;
	for (size_t i = 0; i < sizeof(operands) / sizeof(*operands); i++) {
		struct emitter e = {out, out + sizeof(out), false};

		assert_true(insn_decode(operands[i].insn, X86_MAX_SIZE, &insn));
		assert_true(copy_insn(&e, &insn, operands[i].insn, 0x1000, &copy));
		has_bytes(&e, out, operands[i].copy, operands[i].n);
	}
	for (size_t i = 0; i < sizeof(branches) / sizeof(*branches); i++) {
		struct emitter e = {out, out + sizeof(out), false};

		assert_true(insn_decode(branches[i].insn, X86_MAX_SIZE, &insn));
		assert_true(copy_target(&e, &insn, branches[i].insn, 0x1000));
		has_bytes(&e, out, branches[i].copy, branches[i].n);
	}
}

static void *map(uint64_t at, size_t n, int protection)
{
	void *p = mmap((void *)(uintptr_t)at, n, protection,
		       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	assert_true(p != MAP_FAILED && (!at || p == (void *)(uintptr_t)at));
	return p;
}

static int prepare(void **state)
{
	(void)state;
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	cpu_set_t here;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	/* CPUID and RDPID have to say the same twice. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	map(PROGRAM, CODE_BYTES, all);
	map(NEAR, CODE_BYTES, all);
	map(SCRATCH - GUARD, GUARD, PROT_NONE);
	map(SCRATCH, SCRATCH_BYTES, PROT_READ | PROT_WRITE);
	map(SCRATCH + SCRATCH_BYTES, GUARD, PROT_NONE);
	far_cache = (uint64_t)(uintptr_t)map(0, CODE_BYTES, all);
	high_program = (uint64_t)(uintptr_t)map(0, CODE_BYTES, all);
	assert_true(far_cache >> 33 && high_program >> 33);
	return (int)syscall(SYS_arch_prctl, ARCH_SET_GS, context);
}

static void enough(void **state)
{
	(void)state;
	printf("%llu forms (%llu faulted), %llu mnemonics without a fault; RIP-relative: %llu, of "
	       "these rewritten %llu\n",
	       (unsigned long long)ran.forms, (unsigned long long)ran.faulted,
	       (unsigned long long)ran.mnemonics, (unsigned long long)ran.displaced,
	       (unsigned long long)ran.far);
	assert_true(ran.forms - ran.faulted > 50000 && ran.mnemonics > 400 && ran.far > 10000);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0) | 1;
	if (argc > 2)
		rounds = (unsigned)atoi(argv[2]);
	const struct CMUnitTest pure[] = {cmocka_unit_test(refused), cmocka_unit_test(extended)};
	const struct CMUnitTest all[] = {
	    cmocka_unit_test(calls),
	    cmocka_unit_test(lea_at_high_addresses),
	    cmocka_unit_test(indirect_branches),
	    cmocka_unit_test(legacy_forms),
	    cmocka_unit_test(vex_forms),
	    cmocka_unit_test(evex_forms),
	    cmocka_unit_test(xop_forms),
	    cmocka_unit_test(enough),
	};
	int failed = cmocka_run_group_tests(pure, NULL, NULL);
	/* Random code writes anywhere: where a sanitizer keeps its notes, too. */
	if (failed || SANITIZED)
		return failed;
	xsave_bytes = machine_init();
	if (!xsave_bytes) {
		puts("SKIP: no XSAVE, or user code may not use WRFSBASE");
		return 77;
	}
	return cmocka_run_group_tests(all, prepare, NULL);
}
