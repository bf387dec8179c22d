/* SPDX-License-Identifier: MIT */
/* The names of item types and of instruction classes. */
#include "base/compiler.h"

#include <ptah/event.h>

const char *ptah_item_name(unsigned type)
{
	static const char *const names[] = {
#define PTAH_ITEM(name, text, ...) text,
#include <ptah/events.def>
	};

	return type < ARRAY_SIZE(names) ? names[type] : NULL;
}

const char *ptah_insn_class_name(unsigned insn_class)
{
	static const char *const names[PTAH_INSN_CLASS_MAX] = {
	    [PTAH_INSN_OTHER] = "other",
	    [PTAH_INSN_COND] = "conditional",
	    [PTAH_INSN_JUMP] = "jump",
	    [PTAH_INSN_CALL] = "call",
	    [PTAH_INSN_JUMP_IND] = "indirect-jump",
	    [PTAH_INSN_CALL_IND] = "indirect-call",
	    [PTAH_INSN_RETURN] = "return",
	    [PTAH_INSN_FAR_CALL] = "far-call",
	    [PTAH_INSN_FAR_RETURN] = "far-return",
	    [PTAH_INSN_FAR_JUMP] = "far-jump",
	    [PTAH_INSN_PTWRITE] = "ptwrite",
	};

	return insn_class < ARRAY_SIZE(names) ? names[insn_class] : NULL;
}
