/* SPDX-License-Identifier: MIT */
/*
 * Test group T1, the half about configurations. The judge is the simulated
 * processor (src/model/), which shares no code with the engine's check: what
 * the engine accepts can be written without a #GP, on named and on random
 * processors; what it refuses as reserved raises one.
 */
#include "test.h"

#include "random_request.h"

#include <ptah/model/model.h>

#include <stdlib.h>

#define PHYSICAL 0x10000u /* a table of one page and a region of one */

static uint64_t seed = 610;

static uint64_t memory[1024];

static uint8_t *at_physical(void *port, uint64_t physical, uint64_t *bytes)
{
	(void)port;
	if (physical < PHYSICAL || physical >= PHYSICAL + sizeof(memory))
		return NULL;
	*bytes = PHYSICAL + sizeof(memory) - physical;
	return (uint8_t *)memory + (physical - PHYSICAL);
}

static void model_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	ptah_model_cpuid(port, leaf, subleaf, r);
}

static int model_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	return ptah_model_rdmsr(port, msr, value);
}

static bool model_in_vmx(void *port)
{
	return ptah_model_in_vmx(port);
}

static const struct ptah_hal hal = {
    .size = sizeof(hal), .rdmsr = model_rdmsr, .cpuid = model_cpuid, .in_vmx = model_in_vmx};

static void begin(struct ptah_model *m, const struct ptah_model_processor *p)
{
	const struct ptah_model_config config = {
	    .size = sizeof(config), .processor = p, .memory = at_physical};

	assert_int_equal(ptah_model_init(m, &config), PTAH_OK);
}

/* Writes every register of a capture in the SDM's order; false: one of them raised #GP. */
static bool program(struct ptah_model *m, const struct ptah_caps *caps,
		    const struct ptah_trace_config *c)
{
	uint64_t ctl = ptah_trace_config_ctl(c) | PTAH_RTIT_CTL_TRACE_EN;
	uint64_t base = PHYSICAL, mask = 0x7f;

	memory[0] = PHYSICAL + 0x1000;
	memory[1] = PHYSICAL | PTAH_TOPA_END;
	if (caps->topa) {
		ctl |= PTAH_RTIT_CTL_TOPA;
	} else {
		base = PHYSICAL + 0x1000;
		mask = 0xfff;
	}
	if (ptah_model_wrmsr(m, PTAH_IA32_RTIT_STATUS, 0) < 0 ||
	    ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, base) < 0 ||
	    ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, mask) < 0)
		return false;
	if (c->cr3_filter && ptah_model_wrmsr(m, PTAH_IA32_RTIT_CR3_MATCH, c->cr3) < 0)
		return false;
	for (unsigned n = 0; n < PTAH_RANGES; n++)
		if (c->ranges[n].mode &&
		    (ptah_model_wrmsr(m, PTAH_IA32_RTIT_ADDR(n), c->ranges[n].first) < 0 ||
		     ptah_model_wrmsr(m, PTAH_IA32_RTIT_ADDR(n) + 1, c->ranges[n].last) < 0))
			return false;
	return ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, ctl) == PTAH_OK;
}

TEST(named_processors_are_discovered)
{
	const struct ptah_model_processor *p;
	size_t n = 0;

	for (; (p = ptah_model_named(n)); n++) {
		struct ptah_trace_config c;
		struct ptah_caps caps;
		int status;

		begin(*state, p);
		status = ptah_caps_discover(&hal, *state, &caps);
		assert_int_equal(caps.cpu.family, p->cpu.family);
		assert_int_equal(caps.cpu.model, p->cpu.model);
		assert_int_equal(caps.cpu.stepping, p->cpu.stepping);
		assert_int_equal(caps.physical_bits, p->physical_bits);
		assert_int_equal(caps.linear_bits, p->linear_bits);
		assert_int_equal(caps.hypervisor, p->hypervisor);
		if (!p->pt) {
			assert_int_equal(status, PTAH_E_UNSUPPORTED);
			assert_int_equal(caps.obstacle, PTAH_CAPS_NO_PT);
			continue;
		}
		assert_int_equal(status, PTAH_OK);
		assert_int_equal(caps.nominal_ratio, p->nominal_ratio);
		assert_int_equal(caps.xsaves, p->xsaves);
		assert_int_equal(caps.vmx, p->vmx);
		assert_int_equal(caps.vmx_pt, p->vmx_pt);
		assert_int_equal(caps.branch_required, p->branch_required);
		ptah_trace_config_default(&caps, &c);
		assert_int_equal(ptah_trace_config_check(&caps, &c, true, NULL), PTAH_OK);
		assert_true(program(*state, &caps, &c));
		/* Now a trace runs. */
		assert_int_equal(ptah_caps_discover(&hal, *state, &caps), PTAH_E_UNSUPPORTED);
		assert_int_equal(caps.obstacle, PTAH_CAPS_IN_USE);
	}
	assert_true(n > 8);
}

TEST(vmx_operation_is_an_obstacle_where_it_excludes_pt)
{
	const struct ptah_model_processor *p;
	unsigned excluded = 0, fine = 0;

	for (size_t n = 0; (p = ptah_model_named(n)); n++) {
		struct ptah_caps caps;

		begin(*state, p);
		if (!p->pt || !p->vmx)
			continue;
		assert_int_equal(ptah_model_vmxon(*state), PTAH_OK);
		ptah_caps_discover(&hal, *state, &caps);
		assert_int_equal(caps.obstacle, p->vmx_pt ? PTAH_CAPS_NONE : PTAH_CAPS_VMX);
		excluded += !p->vmx_pt;
		fine += p->vmx_pt;
	}
	assert_true(excluded && fine);
}

/*
 * Whether the processor must refuse it as well. It accepts an encoding of 0 in a field that is not
 * in use, even if CPUID does not list it.
 */
static bool must_fault(const struct ptah_trace_problem *p)
{
	switch (p->kind) {
	case PTAH_PROBLEM_FLAG:
	case PTAH_PROBLEM_MAX:
	case PTAH_PROBLEM_CANONICAL:
	case PTAH_PROBLEM_REQUIRED:
		return true;
	case PTAH_PROBLEM_BITMAP:
		return p->value != 0;
	case PTAH_PROBLEM_MASK:
		return p->value & 0x1f;
	default:
		return false;
	}
}

TEST(t1_what_is_accepted_raises_no_gp)
{
	unsigned accepted = 0, faulted = 0, impossible = 0, seen[PTAH_PROBLEM_KIND_MAX] = {0};

	for (unsigned i = 0; i < 200000; i++) {
		struct ptah_model_processor p;
		struct ptah_trace_config c;
		struct ptah_trace_problem problem;
		struct ptah_caps caps;
		bool fine;

		random_processor(&seed, &p);
		begin(*state, &p);
		if (ptah_caps_discover(&hal, *state, &caps) < 0) {
			assert_true(caps.obstacle == PTAH_CAPS_BAD_LEAF ||
				    caps.obstacle == PTAH_CAPS_NO_OUTPUT);
			impossible++;
			continue;
		}
		ptah_trace_config_default(&caps, &c);
		random_config(&seed, &c);
		fine = ptah_trace_config_check(&caps, &c, false, &problem) == PTAH_OK;
		accepted += fine;
		seen[problem.kind]++;
		if (fine)
			assert_true(program(*state, &caps, &c));
		else if (must_fault(&problem))
			assert_false(program(*state, &caps, &c));
		faulted += !fine && must_fault(&problem);
	}
	assert_true(accepted > 20000 && faulted > 20000 && impossible > 100);
	for (unsigned i = 0; i < PTAH_PROBLEM_KIND_MAX; i++)
		assert_true(i == PTAH_PROBLEM_CAPS || seen[i] > 30);
}

static int make_model(void **state)
{
	*state = malloc(ptah_model_size());
	return *state ? 0 : -1;
}

static int free_model(void **state)
{
	free(*state);
	return 0;
}

TEST_GROUP(make_model, free_model)
