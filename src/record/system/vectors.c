/* SPDX-License-Identifier: MIT */
/*
 * Which vector an interrupt or exception had, for Event Trace. QEMU does not tell a plugin, so the
 * guest's table of interrupts is searched for the address to which the transfer led. Where vectors
 * share a handler, the first of them is taken.
 */
#include "record/system/system.h"

#define VECTORS		256u
#define EXCEPTIONS	32u
#define GATE_TYPE(gate) ((gate)[5] & 0xf)
#define GATE_16		7u /* types up to this one have an offset of 16 bits */

/* The offset in a gate of protected mode, or of IA-32e mode with 16 bytes. */
static uint64_t gate_offset(const uint8_t *gate, bool long_mode)
{
	uint64_t offset = gate[0] | (uint64_t)gate[1] << 8;

	if (GATE_TYPE(gate) > GATE_16 || long_mode)
		offset |= (uint64_t)gate[6] << 16 | (uint64_t)gate[7] << 24;
	for (unsigned i = 0; long_mode && i < 4; i++)
		offset |= (uint64_t)gate[8 + i] << (32 + 8 * i);
	return offset;
}

/* Whether vector n leads to `to`. */
static bool leads(const struct system_vcpu *v, const struct system_table *table, unsigned n,
		  const struct system_place *to)
{
	const uint64_t rip = to->ip - to->base;
	uint8_t entry[16] = {0};
	const unsigned size = table->real_mode ? 4 : table->long_mode ? 16 : 8;

	if ((n + 1) * size > table->limit + UINT64_C(1) ||
	    host.read_linear(v->cpu, table->base + n * size, entry, size, false) < 0)
		return false;
	if (table->real_mode)
		return (entry[0] | entry[1] << 8) == (int)rip &&
		       (uint64_t)(entry[2] | entry[3] << 8) << 4 == to->base;
	return entry[5] & 0x80 && gate_offset(entry, table->long_mode) == rip;
}

uint8_t system_find_vector(const struct system_vcpu *v, bool exception,
			   const struct system_place *to)
{
	struct system_table table;

	system_find_table(v, &table);
	/* NMI is an interrupt; an exception may be that of INT n. */
	for (unsigned i = 0; i < VECTORS; i++) {
		const unsigned n = exception ? i : (i + EXCEPTIONS) % VECTORS;

		if (leads(v, &table, n, to))
			return (uint8_t)n;
	}
	return 0;
}
