/* SPDX-License-Identifier: MIT */
/*
 * Initialises a simulated processor; and the public functions with which its owner, not the traced
 * program, controls it: faults, interrupts, NMIs, the count of output bytes. Freestanding.
 */
#include "model/processor.h"

#define PUBLIC_STAGING 1024u

void model_init(struct ptah_model *m, const struct ptah_model_processor *is, uint8_t *staging,
		uint32_t staging_size)
{
	memset(m, 0, sizeof(*m));
	m->is = is;
	m->staging = staging;
	m->staging_size = staging_size;
	generator_init(&m->g, staging, true, false);
	m->clock.nominal_ratio = m->clock.ratio = is->nominal_ratio ? is->nominal_ratio : 1;
	m->clock.n = is->tsc_n ? is->tsc_n : 1;
	m->clock.d = is->tsc_d ? is->tsc_d : 1;
	clock_init(&m->clock);
	ptah_model_reset(m, true);
	/* The state in which an operating system starts a program. */
	m->program.paging = is->linear_bits > 48 ? MODEL_PAGING_5_LEVEL : MODEL_PAGING_4_LEVEL;
	m->program.cs_l = true;
	m->program.interrupts = true;
}

void model_rebind(struct ptah_model *m, const struct ptah_model_processor *is, uint8_t *staging)
{
	/* As numbers: the old pointers may belong to another process. */
	const uintptr_t old = (uintptr_t)m->staging;

	m->g.out = staging + ((uintptr_t)m->g.out - old);
	m->limit = staging + ((uintptr_t)m->limit - old);
	m->staging = staging;
	m->is = is;
	/* It is mapped again for the next byte. */
	m->region.host = NULL;
	m->region.first = m->region.end = m->offset;
}

size_t ptah_model_size(void)
{
	return sizeof(struct ptah_model) + PUBLIC_STAGING;
}

int ptah_model_init(struct ptah_model *m, const struct ptah_model_config *config)
{
	if (!m || !config || config->size != sizeof(*config) || !config->processor ||
	    config->processor->physical_bits < 32 || config->processor->physical_bits > 52 ||
	    (config->processor->linear_bits != 48 && config->processor->linear_bits != 57))
		return PTAH_E_INVAL;
	model_init(m, config->processor, (uint8_t *)(m + 1), PUBLIC_STAGING);
	m->cpu = config->cpu;
	m->memory = config->memory;
	m->pmi = config->pmi;
	m->port = config->port;
	return PTAH_OK;
}

const struct ptah_model_processor *ptah_model_processor(const struct ptah_model *m)
{
	return m->is;
}

void ptah_model_set_faults(struct ptah_model *m, const struct ptah_model_faults *faults)
{
	m->faults = *faults;
	model_output_settle(m);
}

void ptah_model_fence(struct ptah_model *m)
{
	model_output_fence(m);
}

void ptah_model_boundary(struct ptah_model *m)
{
	model_boundary(m);
}

void ptah_model_set_irqs(struct ptah_model *m, bool on)
{
	m->irqs_off = !on;
}

bool ptah_model_irqs(const struct ptah_model *m)
{
	return !m->irqs_off;
}

bool ptah_model_in_nmi(const struct ptah_model *m)
{
	return m->in_nmi;
}

bool ptah_model_nmi(struct ptah_model *m)
{
	if (m->in_nmi || !m->pmi)
		return false;
	m->in_nmi = true;
	m->pmi(m->port, m->cpu);
	m->in_nmi = false;
	return true;
}

bool ptah_model_in_vmx(const struct ptah_model *m)
{
	return m->program.vmx != MODEL_VMX_OFF;
}

bool ptah_model_is_shut_down(const struct ptah_model *m)
{
	return m->shut_down;
}

uint64_t ptah_model_output_bytes(struct ptah_model *m, uint64_t *dropped)
{
	model_output_settle(m);
	if (dropped)
		*dropped = m->dropped;
	return m->bytes;
}

/* Writes the bytes as packets are written: into the staging area, a burst at a time. */
void ptah_model_put(struct ptah_model *m, const uint8_t *bytes, size_t n)
{
	while (n) {
		size_t burst = n < GENERATOR_BURST ? n : GENERATOR_BURST;

		model_room(m);
		memcpy(m->g.out, bytes, burst);
		m->g.out += burst;
		bytes += burst;
		n -= burst;
	}
}
