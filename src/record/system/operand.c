/* SPDX-License-Identifier: MIT */
/* Decodes operands with Zydis (operand.h). */
#include "record/system/operand.h"

#include <ptah/event.h>

#include <Zydis/Decoder.h>
#include <Zydis/Register.h>

static bool start_decoder(ZydisDecoder *decoder, unsigned mode)
{
	switch (mode) {
	case PTAH_EXEC_64:
		return ZYAN_SUCCESS(
		    ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
	case PTAH_EXEC_32:
		return ZYAN_SUCCESS(ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
						     ZYDIS_STACK_WIDTH_32));
	default:
		return ZYAN_SUCCESS(ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_COMPAT_16,
						     ZYDIS_STACK_WIDTH_16));
	}
}

static int8_t number(ZydisRegister r)
{
	return r == ZYDIS_REGISTER_NONE ? SYSTEM_NO_REGISTER : ZydisRegisterGetId(r);
}

static uint8_t segment(ZydisRegister r)
{
	switch (r) {
	case ZYDIS_REGISTER_ES:
		return SYSTEM_ES;
	case ZYDIS_REGISTER_CS:
		return SYSTEM_CS;
	case ZYDIS_REGISTER_SS:
		return SYSTEM_SS;
	case ZYDIS_REGISTER_FS:
		return SYSTEM_FS;
	case ZYDIS_REGISTER_GS:
		return SYSTEM_GS;
	default:
		return SYSTEM_DS;
	}
}

static void set_memory(struct system_operand *o, const ZydisDecodedOperandMem *m)
{
	o->number = SYSTEM_NO_REGISTER;
	o->relative = m->base == ZYDIS_REGISTER_RIP || m->base == ZYDIS_REGISTER_EIP;
	o->base = o->relative ? SYSTEM_NO_REGISTER : number(m->base);
	o->index = number(m->index);
	o->scale = m->scale;
	o->segment = segment(m->segment);
	o->constant = (uint64_t)m->disp.value; /* 0: there is none */
}

bool system_operand(struct system_operand *o, const uint8_t *bytes, size_t n, unsigned mode)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;

	if (!start_decoder(&decoder, mode) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &insn, operands)) ||
	    !insn.operand_count_visible)
		return false;
	*o = (struct system_operand){.length = insn.length,
				     .size = (uint8_t)(operands[0].size / 8),
				     .wide = insn.raw.rex.W,
				     .bits = insn.address_width,
				     .base = SYSTEM_NO_REGISTER,
				     .index = SYSTEM_NO_REGISTER};
	if (operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
		set_memory(o, &operands[0].mem);
	else if (operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		o->number = number(operands[0].reg.value);
	else
		return false;
	return true;
}

uint64_t system_operand_offset(const struct system_operand *o, const uint64_t *general,
			       uint64_t next)
{
	uint64_t offset = o->constant;

	if (o->relative)
		offset += next;
	if (o->base != SYSTEM_NO_REGISTER)
		offset += general[o->base];
	if (o->index != SYSTEM_NO_REGISTER)
		offset += general[o->index] * o->scale;
	return o->bits == 64 ? offset : offset & ((UINT64_C(1) << o->bits) - 1);
}
