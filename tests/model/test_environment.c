/* SPDX-License-Identifier: MIT */
/*
 * System management mode, VMX, resets, measured launch, and the delivery of
 * PMIs. SDM volume 3, "Intel PT and System Management Mode", "Intel PT and
 * VMX", "RESET", "ToPA PMI".
 */
#include "bare.h"

#define PMI	 PTAH_PERF_GLOBAL_TRACE_TOPA_PMI
#define TRACE_EN PTAH_RTIT_CTL_TRACE_EN
#define CTL	 (TRACE_EN | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_BRANCH_EN | PTAH_RTIT_CTL_USER)
#define LVT	 0x834
#define LVT_NMI	 0x400
#define LVT_MASK 0x10000

static const uint8_t zeros[8192];

/* Tracing into a ring of two regions, the first with INT. */
static void open_traced(struct rig *rig, const struct ptah_model_processor *p)
{
	rig_open(rig, p, 1024);
	rig_entry(rig, RIG_BASE, 0, (RIG_BASE + 4096) | PTAH_TOPA_INT);
	if (p->leaf_14_0[2] & 2)
		rig_entry(rig, RIG_BASE, 1, (RIG_BASE + 8192) | PTAH_TOPA_INT);
	rig_entry(rig, RIG_BASE, p->leaf_14_0[2] & 2 ? 2 : 1, PTAH_TOPA_END | RIG_BASE);
	rig_write(rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_BASE);
	rig_write(rig, LVT, LVT_NMI);
	rig_write(rig, PTAH_IA32_RTIT_CTL, CTL);
}

static uint64_t offset(struct rig *rig)
{
	return rig_read(rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32;
}

static bool tracing(struct rig *rig)
{
	return rig_read(rig, PTAH_IA32_RTIT_CTL) & TRACE_EN;
}

/* SMM */

TEST(test_smi)
{
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	rig_put(&rig, zeros, 70, 70);
	assert_int_equal(ptah_model_smi(&rig.m), PTAH_OK);
	assert_false(tracing(&rig));
	assert_int_equal(offset(&rig), 70); /* flushed */
	assert_int_equal(ptah_model_smi(&rig.m), PTAH_E_BUSY);
	assert_int_equal(ptah_model_rsm(&rig.m), PTAH_OK);
	assert_true(tracing(&rig));
	assert_int_equal(ptah_model_rsm(&rig.m), PTAH_E_UNSUPPORTED);
	/* Tracing that was disabled stays disabled. */
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(ptah_model_smi(&rig.m), PTAH_OK);
	assert_int_equal(ptah_model_rsm(&rig.m), PTAH_OK);
	assert_false(tracing(&rig));
	/* RSM with TraceEn set in the saved state. */
	assert_int_equal(ptah_model_smi(&rig.m), PTAH_OK);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, CTL);
	assert_int_equal(ptah_model_rsm(&rig.m), PTAH_E_UNSUPPORTED);
	assert_true(ptah_model_is_shut_down(&rig.m));
	rig_close(&rig);
}

/* VMX */

TEST(test_vmx_without_pt)
{
	struct ptah_model_processor p = *ptah_model_find("skylake");
	struct ptah_model_vmcs vmcs = {.load_rtit_ctl = true};
	struct rig rig;

	p.vmx_pt = false;
	open_traced(&rig, &p);
	rig_put(&rig, zeros, 30, 30);
	assert_int_equal(ptah_model_vmxon(&rig.m), PTAH_OK);
	assert_false(tracing(&rig));
	assert_int_equal(offset(&rig), 30);
	assert_int_equal(ptah_model_wrmsr(&rig.m, PTAH_IA32_RTIT_CTL, CTL), PTAH_E_UNSUPPORTED);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, CTL & ~TRACE_EN);
	/* This processor does not have the VMCS controls. */
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_UNSUPPORTED);
	vmcs.load_rtit_ctl = false;
	vmcs.conceal = true;
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_UNSUPPORTED);
	vmcs.conceal = false;
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_OK);
	assert_int_equal(ptah_model_vmxoff(&rig.m), PTAH_E_UNSUPPORTED); /* in the guest */
	assert_int_equal(ptah_model_vm_exit(&rig.m, &vmcs), PTAH_OK);
	assert_int_equal(ptah_model_vmxoff(&rig.m), PTAH_OK);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, CTL);
	rig_close(&rig);
}

TEST(test_guest_controls)
{
	struct ptah_model_vmcs vmcs = {.load_rtit_ctl = true, .clear_rtit_ctl = true};
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_UNSUPPORTED);
	assert_int_equal(ptah_model_vmxon(&rig.m), PTAH_OK);
	assert_true(tracing(&rig));
	/* The entry fails: TraceEn is set, and it would load IA32_RTIT_CTL. */
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_UNSUPPORTED);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	vmcs.guest_rtit_ctl = UINT64_C(1) << 18;
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_UNSUPPORTED);
	vmcs.guest_rtit_ctl = CTL;
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_OK);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), CTL);
	rig_put(&rig, zeros, 50, 50);
	vmcs.guest_rtit_ctl = 0;
	assert_int_equal(ptah_model_vm_exit(&rig.m, &vmcs), PTAH_OK);
	assert_int_equal(vmcs.guest_rtit_ctl, CTL);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), 0);
	assert_int_equal(offset(&rig), 50);
	rig_close(&rig);
}

/* Each element of the MSR list is a WRMSR: their order matters, and a fault undoes the entry. */
TEST(test_msr_lists)
{
	struct ptah_model_msr load[] = {{PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, UINT64_C(9) << 32},
					{PTAH_IA32_RTIT_CTL, CTL}};
	struct ptah_model_msr store[] = {{PTAH_IA32_RTIT_CTL, 0}};
	const struct ptah_model_msr host[] = {{PTAH_IA32_RTIT_CTL, 0}};
	struct ptah_model_vmcs vmcs = {.entry_load = load,
				       .entry_loads = 2,
				       .exit_store = store,
				       .exit_stores = 1,
				       .exit_load = host,
				       .exit_loads = 1};
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(ptah_model_vmxon(&rig.m), PTAH_OK);
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_OK);
	assert_true(tracing(&rig));
	assert_int_equal(offset(&rig), 9);
	assert_int_equal(ptah_model_vm_exit(&rig.m, &vmcs), PTAH_OK);
	assert_int_equal(store[0].value, CTL);
	assert_false(tracing(&rig));
	/* With TraceEn in the first element, the second one faults. */
	load[1] = load[0];
	load[0] = (struct ptah_model_msr){PTAH_IA32_RTIT_CTL, CTL};
	assert_int_equal(ptah_model_vm_entry(&rig.m, &vmcs), PTAH_E_INVAL);
	assert_false(tracing(&rig)); /* the host's MSR list was loaded */
	assert_int_equal(ptah_model_vmxoff(&rig.m), PTAH_OK);
	rig_close(&rig);
}

/* Resets */

TEST(test_resets)
{
	struct ptah_model_processor p = *ptah_model_find("skylake");
	struct rig rig;

	for (unsigned preserve = 0; preserve < 2; preserve++) {
		for (unsigned cold = 0; cold < 2; cold++) {
			p.leaf_14_0[1] = preserve ? 0xf : 0xb;
			open_traced(&rig, &p);
			rig_put(&rig, zeros, 40, 40);
			model_output_settle(&rig.m);
			ptah_model_reset(&rig.m, cold);
			assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL),
					 preserve && !cold ? CTL & ~TRACE_EN : 0);
			assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_BASE),
					 preserve && !cold ? RIG_BASE : 0);
			assert_int_equal(offset(&rig), preserve && !cold ? 40 : 0);
			rig_close(&rig);
		}
	}
}

/* SDM: SENTER clears TraceEn, and packets may be lost. */
TEST(test_senter)
{
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	rig_put(&rig, zeros, 40, 40);
	model_output_settle(&rig.m);
	rig_put(&rig, zeros, 10, 10);
	ptah_model_senter(&rig.m);
	assert_false(tracing(&rig));
	assert_int_equal(offset(&rig), 40);
	assert_int_equal(rig.m.dropped, 10);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, CTL);
	rig_put(&rig, zeros, 5, 5);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(offset(&rig), 45);
	rig_close(&rig);
}

/* PMIs */

static void put_and_step(struct rig *rig, size_t n)
{
	rig_put(rig, zeros, n, 64);
	model_output_settle(&rig->m);
	ptah_model_boundary(&rig->m);
}

static void acknowledge(struct rig *rig)
{
	rig_write(rig, PTAH_IA32_PERF_GLOBAL_STATUS_RESET, PMI);
	rig_write(rig, LVT, LVT_NMI);
}

TEST(test_pmi)
{
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	put_and_step(&rig, 4095);
	assert_int_equal(rig.pmis, 0);
	put_and_step(&rig, 1);
	assert_int_equal(rig.pmis, 1);
	assert_int_equal(rig_read(&rig, PTAH_IA32_PERF_GLOBAL_STATUS), PMI);
	assert_int_equal(rig_read(&rig, LVT), LVT_NMI | LVT_MASK); /* masked by delivery */
	/* A second PMI before the first is acknowledged merges with it. */
	put_and_step(&rig, 4096);
	rig_write(&rig, LVT, LVT_NMI);
	put_and_step(&rig, 0);
	assert_int_equal(rig.pmis, 1);
	acknowledge(&rig);
	put_and_step(&rig, 4096);
	assert_int_equal(rig.pmis, 2);
	rig_close(&rig);
}

TEST(test_pmi_masked)
{
	struct rig rig;

	for (unsigned lost = 0; lost < 2; lost++) {
		open_traced(&rig, ptah_model_find("skylake"));
		rig.m.faults.pmi_lost_when_masked = lost;
		rig_write(&rig, LVT, LVT_NMI | LVT_MASK);
		put_and_step(&rig, 4096);
		assert_int_equal(rig.pmis, 0);
		assert_int_equal(rig_read(&rig, PTAH_IA32_PERF_GLOBAL_STATUS), PMI);
		rig_write(&rig, LVT, LVT_NMI);
		put_and_step(&rig, 0);
		assert_int_equal(rig.pmis, !lost);
		rig_close(&rig);
	}
}

/*
 * A PMI that is not an NMI waits until interrupts are enabled; an NMI waits
 * until the handler returns.
 */
TEST(test_pmi_waits)
{
	struct rig rig;

	for (unsigned nmi = 0; nmi < 2; nmi++) {
		open_traced(&rig, ptah_model_find("skylake"));
		rig_write(&rig, LVT, nmi ? LVT_NMI : 0);
		ptah_model_set_irqs(&rig.m, false);
		put_and_step(&rig, 4096);
		assert_int_equal(rig.pmis, nmi);
		ptah_model_set_irqs(&rig.m, true);
		put_and_step(&rig, 0);
		assert_int_equal(rig.pmis, 1);
		rig_close(&rig);
	}
}

static void fill_inside(struct rig *rig)
{
	if (rig->pmis > 1)
		return;
	acknowledge(rig);
	put_and_step(rig, 4096);
	assert_int_equal(rig->pmis, 1);
	assert_true(ptah_model_in_nmi(&rig->m));
	assert_false(ptah_model_nmi(&rig->m));
}

TEST(test_pmi_does_not_nest)
{
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	rig.on_pmi = fill_inside;
	put_and_step(&rig, 4096);
	assert_int_equal(rig.pmis, 1);
	ptah_model_boundary(&rig.m);
	assert_int_equal(rig.pmis, 2);
	rig_close(&rig);
}

TEST(test_pmi_skid)
{
	struct rig rig;

	open_traced(&rig, ptah_model_find("skylake"));
	rig.m.faults.pmi_skid_bytes = 5000; /* into the region after the next one */
	rig.m.faults.pmi_skid_boundaries = 2;
	put_and_step(&rig, 4096);
	assert_int_equal(rig_read(&rig, PTAH_IA32_PERF_GLOBAL_STATUS), PMI);
	put_and_step(&rig, 4990);
	assert_int_equal(rig.pmis, 0);
	put_and_step(&rig, 10);
	put_and_step(&rig, 0);
	assert_int_equal(rig.pmis, 0);
	put_and_step(&rig, 0);
	assert_int_equal(rig.pmis, 1);
	/* It is also delivered after a stop. */
	acknowledge(&rig);
	put_and_step(&rig, 4096);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rig.pmis, 1);
		ptah_model_boundary(&rig.m);
	}
	assert_int_equal(rig.pmis, 2);
	rig_close(&rig);
}

/*
 * SDM "IA32_RTIT_STATUS MSR", PendTopaPMI: a PMI that a disable prevents comes
 * with the next enable.
 */
TEST(test_pending_pmi)
{
	const uint64_t ctl = CTL | PTAH_RTIT_CTL_INJECT_PSBPMI;
	struct rig rig;

	open_traced(&rig, ptah_model_find("alder-lake-p"));
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, ctl);
	rig.m.faults.pmi_skid_bytes = 100;
	put_and_step(&rig, 4096);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, ctl & ~TRACE_EN);
	put_and_step(&rig, 0);
	assert_int_equal(rig.pmis, 0);
	assert_true(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & PTAH_RTIT_STATUS_PEND_TOPA_PMI);
	rig.m.faults.pmi_skid_bytes = 0;
	rig_write(&rig, PTAH_IA32_RTIT_CTL, ctl);
	put_and_step(&rig, 0);
	assert_int_equal(rig.pmis, 1);
	assert_false(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & PTAH_RTIT_STATUS_PEND_TOPA_PMI);
	rig_close(&rig);
}
