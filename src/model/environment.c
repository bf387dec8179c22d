/* SPDX-License-Identifier: MIT */
/*
 * What happens around a traced program and touches TraceEn: SMM, VMX, reset,
 * measured launch. SDM "Intel PT and System Management Mode", "Intel PT and
 * VMX", "Intel PT and Secure Transfer Monitor", "SENTER/ENTERACCS and ACM", "RESET".
 * Freestanding.
 */
#include "model/processor.h"

/* CPUID.14H.0:EBX[2] */
#define PRESERVES_ON_WARM_RESET 4u

static bool trace_off(struct ptah_model *m)
{
	const bool was = model_trace_en(m);

	if (was)
		model_set_ctl(m, m->ctl & ~PTAH_RTIT_CTL_TRACE_EN);
	return was;
}

int ptah_model_smi(struct ptah_model *m)
{
	if (m->program.smm || m->shut_down)
		return PTAH_E_BUSY; /* blocked until RSM */
	m->cause = PTAH_CFE_SMI;
	m->smram_trace_en = trace_off(m);
	m->cause = 0;
	m->program.smm = true;
	return PTAH_OK;
}

int ptah_model_rsm(struct ptah_model *m)
{
	if (!m->program.smm)
		return PTAH_E_UNSUPPORTED; /* #UD */
	if (model_trace_en(m)) {
		trace_off(m);
		m->shut_down = true;
		return PTAH_E_UNSUPPORTED;
	}
	m->program.smm = false;
	m->cause = PTAH_CFE_RSM;
	if (m->smram_trace_en)
		model_set_ctl(m, m->ctl | PTAH_RTIT_CTL_TRACE_EN);
	m->cause = 0;
	return PTAH_OK;
}

int ptah_model_vmxon(struct ptah_model *m)
{
	if (!m->is->vmx || m->program.vmx != MODEL_VMX_OFF)
		return PTAH_E_UNSUPPORTED;
	if (!m->is->vmx_pt)
		trace_off(m);
	m->program.vmx = MODEL_VMX_ROOT;
	return PTAH_OK;
}

int ptah_model_vmxoff(struct ptah_model *m)
{
	if (m->program.vmx != MODEL_VMX_ROOT)
		return PTAH_E_UNSUPPORTED;
	m->program.vmx = MODEL_VMX_OFF;
	return PTAH_OK;
}

static bool load_msrs(struct ptah_model *m, const struct ptah_model_msr *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ptah_model_wrmsr(m, list[i].msr, list[i].value) < 0)
			return false;
	return true;
}

/* Whether this list changes TraceEn from 1 to 0. */
static bool stops_trace(const struct ptah_model *m, const struct ptah_model_msr *list, size_t n)
{
	bool on = model_trace_en(m);

	for (size_t i = 0; i < n; i++)
		if (list[i].msr == PTAH_IA32_RTIT_CTL)
			on = list[i].value & PTAH_RTIT_CTL_TRACE_EN;
	return model_trace_en(m) && !on;
}

/* SDM "Checks on VMX Controls" and on the guest state: the controls exist with IA32_VMX_MISC[14].
 */
static bool entry_fails(const struct ptah_model *m, const struct ptah_model_vmcs *v)
{
	if (m->program.vmx != MODEL_VMX_ROOT)
		return true;
	if ((v->load_rtit_ctl || v->clear_rtit_ctl || v->conceal) && !m->is->vmx_pt)
		return true;
	return v->load_rtit_ctl &&
	       (model_trace_en(m) || model_msr_faults(m, PTAH_IA32_RTIT_CTL, v->guest_rtit_ctl));
}

static int leave_guest(struct ptah_model *m, const struct ptah_model_vmcs *v)
{
	if (v->clear_rtit_ctl)
		model_set_ctl(m, 0);
	m->program.vmx = MODEL_VMX_ROOT;
	if (!m->faults.silent)
		model_trace_vm(m, false, stops_trace(m, v->exit_load, v->exit_loads));
	m->program.conceal = false;
	if (load_msrs(m, v->exit_load, v->exit_loads))
		return PTAH_OK;
	trace_off(m);
	m->shut_down = true; /* VMX abort */
	return PTAH_E_LIMIT;
}

int ptah_model_vm_entry(struct ptah_model *m, const struct ptah_model_vmcs *v)
{
	if (entry_fails(m, v))
		return PTAH_E_UNSUPPORTED;
	m->program.vmx = MODEL_VMX_GUEST;
	m->program.conceal = v->conceal;
	if (!m->faults.silent)
		model_trace_vm(m, true, stops_trace(m, v->entry_load, v->entry_loads));
	if (v->load_rtit_ctl)
		model_set_ctl(m, v->guest_rtit_ctl);
	if (load_msrs(m, v->entry_load, v->entry_loads))
		return PTAH_OK;
	/* SDM "VM-Entry Failures During or After Loading Guest State" */
	return leave_guest(m, v) < 0 ? PTAH_E_LIMIT : PTAH_E_INVAL;
}

int ptah_model_vm_exit(struct ptah_model *m, struct ptah_model_vmcs *v)
{
	if (m->program.vmx != MODEL_VMX_GUEST)
		return PTAH_E_UNSUPPORTED;
	if (v->load_rtit_ctl || v->clear_rtit_ctl)
		v->guest_rtit_ctl = m->ctl;
	for (size_t i = 0; i < v->exit_stores; i++)
		if (ptah_model_rdmsr(m, v->exit_store[i].msr, &v->exit_store[i].value) < 0) {
			trace_off(m);
			m->shut_down = true;
			return PTAH_E_LIMIT;
		}
	return leave_guest(m, v);
}

/* TraceEn is cleared without the packets and the flush that a WRMSR causes. */
void ptah_model_senter(struct ptah_model *m)
{
	if (!model_trace_en(m))
		return;
	model_output_discard(m);
	m->ctl &= ~PTAH_RTIT_CTL_TRACE_EN;
	m->context_en = m->filter_en = m->packet_en = false;
}

static void clear_trace_msrs(struct ptah_model *m)
{
	m->ctl = m->status = m->base = m->cr3_match = 0;
	m->index = 0x7f;
	m->offset = 0;
	memset(m->addr, 0, sizeof(m->addr));
}

void ptah_model_reset(struct ptah_model *m, bool cold)
{
	ptah_model_senter(m);
	if (cold || !(m->is->leaf_14_0[1] & PRESERVES_ON_WARM_RESET))
		clear_trace_msrs(m);
	m->global_status = m->debugctl = m->xss = 0;
	m->pmi_pending = m->attention = m->lvt_nmi = m->in_nmi = m->irqs_off = false;
	m->lvt_masked = true; /* as the local APIC is after reset */
	m->smram_trace_en = m->shut_down = false;
	memset(&m->program, 0, sizeof(m->program));
	m->program.vmcs = UINT64_MAX;
}
