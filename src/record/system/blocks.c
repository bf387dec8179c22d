/* SPDX-License-Identifier: MIT */
/* Describes each block that QEMU translates, and is called when one begins to run. */
#include "record/system/system.h"

#include <stdlib.h>

/* Opcodes */
#define CLI  0xfa
#define IRET 0xcf /* with or without a prefix of one byte */

/* INT3, INT n, INTO, INT1? */
static bool is_interrupt(const uint8_t *bytes)
{
	while (*bytes == 0x66 || *bytes == 0x67 || *bytes == 0xf2 || *bytes == 0xf3 ||
	       *bytes == 0xf0 || *bytes == 0x2e || *bytes == 0x36 || *bytes == 0x3e ||
	       *bytes == 0x26 || *bytes == 0x64 || *bytes == 0x65 || (*bytes & 0xf0) == 0x40)
		bytes++;
	return (*bytes >= 0xcc && *bytes <= 0xce) || *bytes == 0xf1;
}

static void describe_last(struct system_block *b, const uint8_t *bytes, size_t n)
{
	struct x86_insn insn = {0};

	if (x86_decode(bytes, n, b->end - n, b->mode, &insn) < 0)
		return;
	b->kind = insn.insn_class;
	b->target = insn.target;
	b->writes_cr3 = insn.writes_cr3;
	b->is_rsm = n == 2 && bytes[0] == 0x0f && bytes[1] == 0xaa;
	b->is_iret = insn.insn_class == PTAH_INSN_FAR_RETURN && n <= 2 && bytes[n - 1] == IRET;
	if (insn.rep) {
		b->kind = KIND_REP;
		b->target = b->end - n;
	}
	/* QEMU reports these as exceptions. */
	if (insn.insn_class == PTAH_INSN_FAR_CALL && is_interrupt(bytes))
		b->kind = PTAH_INSN_OTHER;
}

static void read_insns(struct system_block *b, const struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < b->ninsn; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t buffer[X86_MAX_SIZE];
		size_t n = X86_MAX_SIZE;
		const uint8_t *bytes = qemu_api_insn_bytes(insn, buffer, &n);

		if (!b->trap && !outside_is_open()) {
			b->trap = (uint8_t)system_trap_of(bytes, n, b->mode,
							  system_plugin.processor.xsaves);
			b->trap_at = (uint16_t)i;
		}
		b->sizes[i] = b->last_size = (uint8_t)n;
		b->end += n;
		if (n == 1 && *bytes == CLI && !b->after_cli)
			b->after_cli = (uint8_t)(i + 1 < UINT8_MAX ? i + 1 : 0);
		if (i == b->ninsn - 1u)
			describe_last(b, bytes, n);
	}
}

/* QEMU translates no more instructions than this into a block (TCG_MAX_INSNS). */
#define MAX_INSNS 512

static uint64_t block_rip(const struct system_block *b)
{
	return b->start - b->base;
}

/*
 * The block b as it is at the RIP at which it runs now. The copy remains until the next block but
 * one begins, so that the one that is running remains, too.
 */
NOINLINE static const struct system_block *block_at(struct system_vcpu *v,
						    const struct system_block *b, uint64_t rip)
{
	struct system_block **place = &v->moved[v->running == v->moved[0]], *copy;
	const uint64_t by = rip - block_rip(b);
	const uint64_t mask = b->mode == PTAH_EXEC_64 ? UINT64_MAX : UINT32_MAX;

	if (!*place)
		*place = malloc(sizeof(**place) + MAX_INSNS);
	copy = *place;
	if (!copy)
		system_no_memory();
	memcpy(copy, b, sizeof(*b) + b->ninsn);
	copy->start = (b->start + by) & mask;
	copy->end = (b->end + by) & mask;
	copy->target = (b->target + by) & mask;
	return copy;
}

__attribute__((used)) static void on_block(unsigned index, const struct system_block *b,
					   uint64_t *environment)
{
	struct system_vcpu *v = system_plugin.vcpus[index];

	if (UNLIKELY(!v))
		v = system_vcpu(index, environment, b);
	if (UNLIKELY(environment[GENERAL_RIP] != block_rip(b)))
		b = block_at(v, b, environment[GENERAL_RIP]);
	v->blocks++;
	system_check_reset(v);
	if (UNLIKELY(v->blocks >= v->next_rest))
		system_rest(v);
	v->since_settled += b->ninsn;
	if (UNLIKELY(v->traced))
		system_flow_block(v, b);
	else if (UNLIKELY(v->pmi_waits) && !++v->pmi_blocks)
		system_poll_pmi(v);
	if (UNLIKELY(b->code))
		outside_block(v, b);
	if (UNLIKELY(b->trap))
		system_trap(v, b);
	if (UNLIKELY(v->traced)) {
		v->running = b;
		v->known = true;
	}
}

/*
 * QEMU's callback for a block, with one argument more: while translated code runs, RBP is the
 * address of the CPU's CPUX86State.
 */
qemu_exec_fn system_on_block;
__asm__(".pushsection .text\n"
	".globl system_on_block\n"
	".hidden system_on_block\n"
	".type system_on_block,@function\n"
	"system_on_block:\n"
	"\tmovq %rbp,%rdx\n"
	"\tjmp on_block\n"
	".size system_on_block,.-system_on_block\n"
	".popsection\n");

/*
 * QEMU translates what runs next, so that the CPU is at the block already. A CPU of which no block
 * has run is as after a reset.
 */
static void describe_place(struct system_block *b, void *cpu)
{
	const struct system_vcpu *v = system_vcpu_of(cpu);
	struct system_place place;

	if (!v) {
		b->base = b->start - system_read(cpu, HOST_RIP);
		b->mode = PTAH_EXEC_16;
		return;
	}
	system_find_place(v, &place);
	b->base = place.base;
	b->cpl = place.cpl;
	b->mode = place.mode;
}

void system_on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const size_t n = qemu_plugin_tb_n_insns(tb);
	struct system_block *b = system_new_block(n);
	void *cpu = host_current_cpu();

	(void)id;
	b->start = b->end = qemu_plugin_tb_vaddr(tb);
	describe_place(b, cpu);
	read_insns(b, tb);
	if (outside_is_open())
		b->code = outside_code(tb);
	if (system_wants_block(b, cpu))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, system_on_block, QEMU_PLUGIN_CB_RW_REGS,
						     b);
}
