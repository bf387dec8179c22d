/* SPDX-License-Identifier: MIT */
/*
 * PTWRITE, which TCG does not have; and the operands of such instructions, of which QEMU has read
 * no more than it needed to find out that it does not know them.
 */
#include "record/system/system.h"

#define EBX_PTW 4 /* CPUID leaf 14H: PTWRITE exists */
#define PAGE	4096u

/* Reads the instruction at the beginning of b; returns how many bytes of it are mapped. */
static size_t fetch(struct system_vcpu *v, const struct system_block *b, uint8_t *bytes)
{
	const size_t in_page = PAGE - b->start % PAGE;

	if (host.debug(v->cpu, b->start, bytes, X86_MAX_SIZE, false) >= 0)
		return X86_MAX_SIZE;
	if (in_page < X86_MAX_SIZE && host.debug(v->cpu, b->start, bytes, in_page, false) >= 0)
		return in_page;
	return 0;
}

bool system_fetch_operand(struct system_vcpu *v, const struct system_block *b,
			  struct system_operand *o, uint64_t *address)
{
	uint8_t bytes[X86_MAX_SIZE];
	const size_t n = fetch(v, b, bytes);

	if (!n || !system_operand(o, bytes, n, b->mode))
		return false;
	*address = 0;
	if (o->number != SYSTEM_NO_REGISTER)
		return true;
	*address = system_operand_offset(o, v->general, b->start - b->base + o->length) +
		   system_segment_base(v, b->mode, o->segment);
	if (b->mode != PTAH_EXEC_64)
		*address = (uint32_t)*address;
	return true;
}

static uint64_t load_ptwrite_operand(struct system_vcpu *v, uint64_t address, unsigned n)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < n; i++)
		value |= (uint64_t)(host.load_byte(v->general, address + i, 0) & 0xff) << 8 * i;
	return value;
}

enum system_access system_ptwrite(struct system_vcpu *v, const struct system_block *b,
				  unsigned *length)
{
	struct system_operand o;
	uint64_t address, value, next;

	if (!(v->model->is->leaf_14_0[1] >> EBX_PTW & 1) ||
	    !system_fetch_operand(v, b, &o, &address))
		return SYSTEM_NOT_OURS; /* #UD */
	value = o.number == SYSTEM_NO_REGISTER ? load_ptwrite_operand(v, address, o.size)
					       : v->general[o.number];
	next = b->start + o.length;
	*length = o.length;
	if (!v->traced)
		return SYSTEM_DONE;
	system_pass_time(v);
	ptah_model_ptwrite(v->model, b->start, next, value, o.size);
	return SYSTEM_DONE;
}
