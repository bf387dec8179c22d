/* SPDX-License-Identifier: MIT */
/*
 * XSAVES, XSAVEC and XRSTORS, which TCG does not have, and XRSTOR of their areas, with the state of
 * Intel PT (component 8). QEMU exports functions that copy the user state of a CPU to the standard
 * format and back; the plugin changes the format and adds the model's state. Argument xsaves=on:
 * without it CPUID does not report these instructions, because a guest that finds them uses them
 * for each switch of threads, where leaving translated code is slow.
 */
#include "record/system/system.h"

#include "record/system/xsave_area.h"

#define XSAVE_LEAF  0x0du
#define ALIGNMENT   64u
#define CR0_TS	    UINT64_C(8)
#define CR4_OSXSAVE (UINT64_C(1) << 18)
#define PKRU	    (UINT64_C(1) << 9)
#define PAGE	    4096u
#define PT_IMAGE    (XSAVE_EXTENDED + XSAVE_PT_BYTES)

/* QEMU's order of the general registers. */
enum {
	RAX = 0,
	RDX = 2
};

/* The same for all CPUs. */
static struct xsave_layout layout;

static void qemu_leaf(const struct system_vcpu *v, uint32_t subleaf, uint32_t r[4])
{
	host.cpuid(v->general, XSAVE_LEAF, subleaf, &r[0], &r[1], &r[2], &r[3]);
}

void system_xsave_init(const struct system_vcpu *v)
{
	uint32_t r[4];

	qemu_leaf(v, 0, r);
	layout.user = r[0] | (uint64_t)r[3] << 32;
	for (unsigned i = 2; i < XSAVE_COMPONENTS; i++) {
		if (!(layout.user >> i & 1))
			continue;
		qemu_leaf(v, i, r);
		layout.component[i].size = r[0];
		layout.component[i].offset = r[1];
		layout.component[i].aligned = r[2] & 2;
		if (r[0] > XSAVE_AREA_MAX || r[1] > XSAVE_AREA_MAX - r[0])
			system_plugin.processor.xsaves = false; /* AMX: not with TCG */
	}
	layout.supervisor = system_plugin.processor.xsaves ? XSAVE_PT : 0;
	layout.component[8].size = XSAVE_PT_BYTES;
	if (!(layout.user & XSAVE_SSE) ||
	    xsave_size(&layout, layout.user | XSAVE_PT) > XSAVE_AREA_MAX)
		system_plugin.processor.xsaves = false;
}

void system_xsave_cpuid(const struct system_vcpu *v, uint32_t subleaf, uint32_t r[4])
{
	const uint64_t enabled = v->xcr0 | v->model->xss;

	if (!system_plugin.processor.xsaves)
		return;
	if (subleaf == 1) {
		r[0] |= 2 | 8; /* XSAVEC, XSAVES */
		r[1] = (uint32_t)xsave_size(&layout, enabled);
		r[2] = (uint32_t)layout.supervisor;
		r[3] = 0;
	} else if (subleaf == 8) {
		r[0] = XSAVE_PT_BYTES;
		r[1] = r[3] = 0;
		r[2] = 1; /* of IA32_XSS */
	}
}

void system_xsetbv(struct system_vcpu *v, uint32_t which, uint64_t value)
{
	if (!which && value & XSAVE_X87 && !(value & ~layout.user))
		v->xcr0 = value;
}

/* The guest's memory, through its page tables; page faults do not return. */

static void load_xsave_bytes(struct system_vcpu *v, uint64_t address, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)host.load_byte(v->general, address + i, 0);
}

static void store_xsave_bytes(struct system_vcpu *v, uint64_t address, const uint8_t *from,
			      size_t n)
{
	for (size_t i = 0; i < n; i++)
		host.store_byte(v->general, address + i, from[i], 0);
}

/* Lets all page faults happen before anything is changed. */
static void make_writable(struct system_vcpu *v, uint64_t address, size_t n)
{
	uint8_t byte;

	for (size_t at = 0; at < n; at += PAGE - (address + at) % PAGE) {
		load_xsave_bytes(v, address + at, &byte, 1);
		store_xsave_bytes(v, address + at, &byte, 1);
	}
}

/* The model's state, in an area with no other component. */
static uint64_t save_pt(struct system_vcpu *v, const struct system_block *b, uint8_t *pt)
{
	uint8_t area[PT_IMAGE] __attribute__((aligned(64))) = {0};

	system_flow_begin(v, b);
	ptah_model_xsaves(v->model, area, XSAVE_PT);
	system_flow_end(v);
	memcpy(pt, area + XSAVE_EXTENDED, XSAVE_PT_BYTES);
	return load_le64(area + XSAVE_HEADER) & XSAVE_PT;
}

static bool restore_pt(struct system_vcpu *v, const struct system_block *b, const uint8_t *pt)
{
	uint8_t area[PT_IMAGE] __attribute__((aligned(64))) = {0};

	store_le64(area + XSAVE_HEADER, pt ? XSAVE_PT : 0);
	store_le64(area + XSAVE_HEADER + 8, XSAVE_PT | XSAVE_COMPACTED);
	if (pt)
		memcpy(area + XSAVE_EXTENDED, pt, XSAVE_PT_BYTES);
	system_flow_begin(v, b);
	if (ptah_model_xrstors(v->model, area, XSAVE_PT) < 0)
		return false;
	if (model_trace_en(v->model))
		system_tracing(v, true);
	return true;
}

static void save(struct system_vcpu *v, const struct system_block *b, uint64_t address,
		 uint64_t bits, bool supervisor)
{
	uint8_t standard[XSAVE_AREA_MAX] __attribute__((aligned(64)));
	uint8_t area[2 * XSAVE_AREA_MAX];
	const size_t n = xsave_size(&layout, bits);
	uint64_t in_use = bits & layout.user;

	make_writable(v, address, n);
	load_xsave_bytes(v, address, area, n); /* what belongs to no component stays as it is */
	host.save_state(v->cpu, standard, sizeof(standard));
	if (supervisor && bits & XSAVE_PT)
		in_use |= save_pt(v, b, area + xsave_offset(&layout, bits, 8));
	xsave_compact(&layout, area, bits, bits & layout.user, in_use, standard);
	store_xsave_bytes(v, address, area, n);
}

/* Whether the area is in the compacted format. The standard one is QEMU's to restore. */
static bool is_compacted(struct system_vcpu *v, uint64_t address)
{
	uint8_t word[8];

	load_xsave_bytes(v, address + XSAVE_HEADER + 8, word, sizeof(word));
	return load_le64(word) & XSAVE_COMPACTED;
}

static enum system_access restore(struct system_vcpu *v, const struct system_block *b,
				  uint64_t address, uint64_t enabled, uint64_t bits)
{
	uint8_t standard[XSAVE_AREA_MAX] __attribute__((aligned(64)));
	uint8_t area[2 * XSAVE_AREA_MAX];
	uint64_t in_use;
	size_t n;

	load_xsave_bytes(v, address, area, XSAVE_EXTENDED);
	if (xsave_faults(area, enabled, bits))
		return SYSTEM_FAULTS;
	in_use = load_le64(area + XSAVE_HEADER);
	n = xsave_size(&layout, load_le64(area + XSAVE_HEADER + 8) & ~XSAVE_COMPACTED);
	load_xsave_bytes(v, address + XSAVE_EXTENDED, area + XSAVE_EXTENDED, n - XSAVE_EXTENDED);
	if (bits & XSAVE_PT) {
		const uint8_t *pt =
		    area + xsave_offset(&layout, load_le64(area + XSAVE_HEADER + 8), 8);

		if (!restore_pt(v, b, in_use & XSAVE_PT ? pt : NULL))
			return SYSTEM_FAULTS;
	}
	host.save_state(v->cpu, standard, sizeof(standard));
	xsave_expand(&layout, standard, bits, area);
	host.restore_state(v->cpu, standard, sizeof(standard));
	if (bits & PKRU)
		host.flush_pages(v->cpu);
	return SYSTEM_DONE;
}

enum system_access system_xsave(struct system_vcpu *v, const struct system_block *b,
				unsigned *length)
{
	const bool supervisor = b->trap == TRAP_XSAVES || b->trap == TRAP_XRSTORS;
	const uint64_t asked = (uint32_t)v->general[RAX] | v->general[RDX] << 32;
	const uint64_t enabled = v->xcr0 | (supervisor ? v->model->xss : 0);
	struct system_operand o;
	uint64_t address;

	if (!system_plugin.processor.xsaves || !(system_read(v->cpu, HOST_CR4) & CR4_OSXSAVE) ||
	    !system_fetch_operand(v, b, &o, &address) || o.number != SYSTEM_NO_REGISTER)
		return SYSTEM_NOT_OURS; /* #UD */
	if (b->trap == TRAP_XRSTOR && (address % ALIGNMENT || !is_compacted(v, address)))
		return SYSTEM_NOT_OURS;
	if (system_read(v->cpu, HOST_CR0) & CR0_TS) {
		system_flow_stand(v, b->start);
		host.raise(v->general, HOST_NM, 0);
	}
	if ((supervisor && b->cpl) || address % ALIGNMENT)
		return SYSTEM_FAULTS;
	*length = o.length;
	if (b->trap == TRAP_XRSTORS || b->trap == TRAP_XRSTOR)
		return restore(v, b, address, enabled, asked & enabled);
	save(v, b, address, asked & enabled, supervisor);
	return SYSTEM_DONE;
}
