/* SPDX-License-Identifier: MIT */
/*
 * CPUID: the leaves that a tracer reads. SDM volume 2, "CPUID"; volume 3,
 * "Enumeration of Intel PT". Freestanding.
 */
#include "model/processor.h"

enum {
	EAX,
	EBX,
	ECX,
	EDX
};

#define BIT(n)	       (UINT32_C(1) << (n))
#define EXTENDED       0x80000000u
#define LAST_EXTENDED  0x80000008u
#define HYPERVISOR     0x40000000u
#define XCR0_BITS      7u /* x87, SSE, AVX */
#define AVX_BYTES      256u
#define AVX_AT	       576u
#define PT_STATE_BYTES 128u

static void set(uint32_t r[4], uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx)
{
	r[EAX] = eax;
	r[EBX] = ebx;
	r[ECX] = ecx;
	r[EDX] = edx;
}

/* Leaf 01H. Families above 0FH, and all models, are divided into two fields each. */
static void signature(const struct ptah_model_processor *p, uint32_t r[4])
{
	const uint32_t family = p->cpu.family < 15 ? p->cpu.family : 15;
	const uint32_t more = p->cpu.family < 15 ? 0 : p->cpu.family - 15u;

	set(r,
	    p->cpu.stepping | (p->cpu.model & 15u) << 4 | family << 8 |
		(p->cpu.model >> 4 & 15u) << 16 | more << 20,
	    0, (p->vmx ? BIT(5) : 0) | BIT(21) | BIT(26) | BIT(27) | (p->hypervisor ? BIT(31) : 0),
	    BIT(4) | BIT(5) | BIT(9));
}

/* Leaf 0DH: a standard image ends after AVX; component 8 is a supervisor component, in compacted
 * images only. */
static void xsave_state(const struct ptah_model_processor *p, uint32_t subleaf, uint32_t r[4])
{
	const bool pt = p->xsaves && p->pt;

	if (subleaf == 0)
		set(r, XCR0_BITS, AVX_AT + AVX_BYTES, AVX_AT + AVX_BYTES, 0);
	else if (subleaf == 1)
		set(r, p->xsaves ? BIT(0) | BIT(1) | BIT(3) : 0,
		    AVX_AT + AVX_BYTES + (pt ? PT_STATE_BYTES : 0),
		    pt ? (uint32_t)PTAH_XSTATE_PT : 0, 0);
	else if (subleaf == 2)
		set(r, AVX_BYTES, AVX_AT, 0, 0);
	else if (subleaf == 8 && pt)
		set(r, PT_STATE_BYTES, 0, 1, 0);
}

static void trace(const struct ptah_model_processor *p, uint32_t subleaf, uint32_t r[4])
{
	if (p->pt && subleaf == 0)
		memcpy(r, p->leaf_14_0, sizeof(p->leaf_14_0));
	else if (p->pt && subleaf == 1 && p->leaf_14_0[EAX] >= 1)
		memcpy(r, p->leaf_14_1, sizeof(p->leaf_14_1));
}

static void basic(const struct ptah_model_processor *p, uint32_t leaf, uint32_t subleaf,
		  uint32_t r[4])
{
	switch (leaf) {
	case 0x00: /* "Genu", "ntel", "ineI" */
		set(r, p->max_leaf, 0x756e6547, 0x6c65746e, 0x49656e69);
		break;
	case 0x01:
		signature(p, r);
		break;
	case 0x07:
		if (subleaf == 0)
			r[EBX] = p->pt ? BIT(25) : 0;
		if (subleaf == 0)
			r[EDX] = p->core_type ? BIT(15) : 0; /* hybrid */
		break;
	case 0x0a: /* 4 counters of 48 bits, 3 fixed ones */
		set(r, p->perfmon | 4u << 8 | 48u << 16 | 7u << 24, 0, 0, 3 | 48u << 5);
		break;
	case 0x0d:
		xsave_state(p, subleaf, r);
		break;
	case 0x14:
		trace(p, subleaf, r);
		break;
	case 0x15:
		set(r, p->tsc_d, p->tsc_n, p->crystal_hz, 0);
		break;
	case 0x16:
		set(r, p->nominal_ratio * 100u, p->nominal_ratio * 100u, 100, 0);
		break;
	case 0x1a:
		r[EAX] = (uint32_t)p->core_type << 24;
		break;
	default:
		break;
	}
}

void ptah_model_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf,
		      uint32_t registers[4])
{
	const struct ptah_model_processor *p = m->is;

	set(registers, 0, 0, 0, 0);
	if (p->hypervisor && leaf == HYPERVISOR)
		set(registers, HYPERVISOR, 0x68617450, 0x646f6d20, 0x20206c65); /* "Ptah model  " */
	else if (leaf == EXTENDED)
		registers[EAX] = LAST_EXTENDED;
	else if (leaf == LAST_EXTENDED)
		registers[EAX] = p->physical_bits | (uint32_t)p->linear_bits << 8;
	else if (leaf > EXTENDED && leaf < LAST_EXTENDED)
		return;
	else /* a leaf that is too high returns the values of the highest basic one */
		basic(p, leaf <= p->max_leaf ? leaf : p->max_leaf, subleaf, registers);
}
