/* SPDX-License-Identifier: MIT */
/*
 * The interrupt that a full region with INT raises. SDM "ToPA PMI": bit 55 of
 * IA32_PERF_GLOBAL_STATUS stays set until it is acknowledged, the interrupt is
 * not precise; volume 3 "Local Vector Table": the entry masks itself when a
 * performance-monitoring interrupt is delivered. Freestanding.
 */
#include "model/processor.h"

/* A second full region before the first is acknowledged raises no second interrupt, because the bit
 * is already set.
 */
void model_pmi_raise(struct ptah_model *m)
{
	if (m->global_status & PTAH_PERF_GLOBAL_TRACE_TOPA_PMI)
		return;
	m->global_status |= PTAH_PERF_GLOBAL_TRACE_TOPA_PMI;
	m->pmi_pending = true;
	m->pmi_bytes = m->bytes + m->faults.pmi_skid_bytes;
	m->pmi_boundaries = m->faults.pmi_skid_boundaries;
	m->attention = true;
}

/* Whether the PMI is still delayed. Once it is not, the local APIC decides. */
static bool skids(struct ptah_model *m)
{
	if (model_trigger_en(m) && m->bytes < m->pmi_bytes)
		return true;
	if (!m->pmi_boundaries)
		return false;
	m->pmi_boundaries--;
	return true;
}

void model_pmi_deliver(struct ptah_model *m)
{
	if (!m->pmi_pending) {
		m->attention = false;
		return;
	}
	if (skids(m))
		return;
	if (m->lvt_masked) {
		m->pmi_pending = !m->faults.pmi_lost_when_masked;
		m->attention = false; /* model_pmi_mask() will look again */
		return;
	}
	if (m->lvt_nmi ? m->in_nmi : m->irqs_off)
		return;
	m->pmi_pending = false;
	m->attention = false;
	m->lvt_masked = true;
	if (!m->pmi)
		return;
	m->in_nmi = m->lvt_nmi;
	m->pmi(m->port, m->cpu);
	m->in_nmi = false;
}

void model_pmi_mask(struct ptah_model *m, bool masked)
{
	m->lvt_masked = masked;
	if (!masked && m->pmi_pending)
		m->attention = true;
}
