/* SPDX-License-Identifier: MIT */
/*
 * Instructions that the plugin carries out in QEMU's place: those that QEMU does not know enough
 * of (CPUID, RDMSR, WRMSR, RDPMC), and those that it does not know (PTWRITE, XSAVES).
 *
 * QEMU's copy of the registers is exact where a block begins, and may be stale in the middle of a
 * block. So a block that has such an instruction in its middle is left at its beginning, and QEMU
 * is made to translate blocks of one instruction until the instruction begins one (isolation).
 */
#include "record/system/system.h"

/* QEMU's order of the general registers. */
enum {
	RAX,
	RCX,
	RDX,
	RBX
};

#define CR4_PCE	   UINT64_C(0x100)
#define XSAVE_LEAF 0x0du

static atomic_uint isolating;

static void isolate(struct system_vcpu *v, const struct system_block *b)
{
	if (!v->isolating) {
		v->isolating = true;
		if (atomic_fetch_add(&isolating, 1) == 0)
			*host.one_insn = 1;
	}
	system_flow_stand(v, b->start);
	system_go(v, b, b->start);
	host.leave(v->cpu);
}

void system_end_isolation(struct system_vcpu *v)
{
	if (!v->isolating)
		return;
	v->isolating = false;
	if (atomic_fetch_sub(&isolating, 1) == 1)
		*host.one_insn = 0;
}

/* The instruction, of so many bytes, is done. */
static void finish_instruction(struct system_vcpu *v, const struct system_block *b, unsigned length)
{
	const uint64_t next = b->start + length;

	system_flow_step(v, next);
	system_go(v, b, next);
	host.leave(v->cpu);
}

/* The instruction raises #GP(0). */
static void fault(struct system_vcpu *v, const struct system_block *b)
{
	system_flow_stand(v, b->start);
	system_go(v, b, b->start);
	host.raise(v->general, HOST_GP, 0);
}

static void on_cpuid(struct system_vcpu *v)
{
	uint64_t *g = v->general;
	const uint32_t leaf = (uint32_t)g[RAX], subleaf = (uint32_t)g[RCX];
	uint32_t r[4];

	host.cpuid(v->general, leaf, subleaf, &r[0], &r[1], &r[2], &r[3]);
	system_cpuid(v->model, leaf, subleaf, r);
	if (leaf == XSAVE_LEAF)
		system_xsave_cpuid(v, subleaf, r);
	g[RAX] = r[0];
	g[RBX] = r[1];
	g[RCX] = r[2];
	g[RDX] = r[3];
}

static uint64_t edx_eax(const struct system_vcpu *v)
{
	return (uint32_t)v->general[RAX] | v->general[RDX] << 32;
}

static void set_edx_eax(struct system_vcpu *v, uint64_t value)
{
	v->general[RAX] = (uint32_t)value;
	v->general[RDX] = value >> 32;
}

static enum system_access on_rdmsr(struct system_vcpu *v, uint32_t msr)
{
	uint64_t value = 0;
	enum system_access access = system_rdmsr(&v->registers, v->model, msr, &value);

	if (access == SYSTEM_NOT_OURS)
		access = system_truth_rdmsr(&v->truth, v->model, msr, &value);
	if (msr == PTAH_IA32_TIME_STAMP_COUNTER) {
		value = system_now(v);
		access = SYSTEM_DONE;
	}
	if (access != SYSTEM_NOT_OURS)
		system_debug("processor %u: RDMSR %x = %" PRIx64 "%s", v->index, msr, value,
			     access == SYSTEM_FAULTS ? ", #GP" : "");
	if (access == SYSTEM_DONE)
		set_edx_eax(v, value);
	return access;
}

static enum system_access write_trap_truth(struct system_vcpu *v, uint32_t msr, uint64_t value)
{
	if (msr != SYSTEM_MSR_REPORT)
		return system_truth_wrmsr(&v->truth, v->model, msr, value);
	system_report(v, value);
	return SYSTEM_DONE;
}

static enum system_access on_wrmsr(struct system_vcpu *v, const struct system_block *b,
				   uint32_t msr)
{
	const uint64_t value = edx_eax(v);
	const bool ctl = msr == PTAH_IA32_RTIT_CTL;
	enum system_access access;

	if (ctl)
		system_flow_begin(v, b);
	access = system_wrmsr(&v->registers, v->model, msr, value);
	if (access == SYSTEM_NOT_OURS)
		access = write_trap_truth(v, msr, value);
	if (access != SYSTEM_NOT_OURS)
		system_debug("processor %u: WRMSR %x = %" PRIx64 "%s", v->index, msr, value,
			     access == SYSTEM_FAULTS ? ", #GP" : "");
	if (ctl && access == SYSTEM_DONE) {
		if (value & PTAH_RTIT_CTL_TRACE_EN)
			system_tracing(v, true);
		else
			system_flow_end(v);
	}
	if (v->model->pmi_pending)
		system_poll_pmi(v);
	return access;
}

static enum system_access on_rdpmc(struct system_vcpu *v, const struct system_block *b)
{
	uint64_t value = 0;
	enum system_access access;

	if (b->cpl && !(system_read(v->cpu, HOST_CR4) & CR4_PCE))
		return SYSTEM_FAULTS;
	access = system_rdpmc(&v->registers, (uint32_t)v->general[RCX], &value);
	if (access == SYSTEM_DONE)
		set_edx_eax(v, value);
	return access;
}

static enum system_access carry_out(struct system_vcpu *v, const struct system_block *b,
				    unsigned *length)
{
	const uint32_t rcx = (uint32_t)v->general[RCX];

	switch (b->trap) {
	case TRAP_CPUID:
		on_cpuid(v);
		return SYSTEM_DONE;
	case TRAP_RDMSR:
		return b->cpl ? SYSTEM_NOT_OURS : on_rdmsr(v, rcx);
	case TRAP_WRMSR:
		return b->cpl ? SYSTEM_NOT_OURS : on_wrmsr(v, b, rcx);
	case TRAP_RDPMC:
		return on_rdpmc(v, b);
	case TRAP_PTWRITE:
		return system_ptwrite(v, b, length);
	case TRAP_XSETBV:
		if (!b->cpl)
			system_xsetbv(v, rcx, edx_eax(v));
		return SYSTEM_NOT_OURS;
	default:
		return system_xsave(v, b, length);
	}
}

void system_trap(struct system_vcpu *v, const struct system_block *b)
{
	const bool traced = v->traced;
	unsigned length = b->sizes[0];
	enum system_access access;

	if (b->trap_at != 0)
		isolate(v, b);
	system_end_isolation(v);
	access = carry_out(v, b, &length);
	if (access == SYSTEM_DONE) {
		/*
		 * One that sets TraceEn is not traced. Nor is one that clears it: the FUP has its
		 * address, and a decoder stops before it.
		 */
		if (traced && v->traced)
			system_flow_count_trap(v, b, length);
		finish_instruction(v, b, length);
	}
	if (access == SYSTEM_FAULTS)
		fault(v, b);
	/* QEMU carries the instruction out, and nothing after it. */
	if (b->ninsn > 1)
		isolate(v, b);
}
