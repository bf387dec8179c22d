/* SPDX-License-Identifier: MIT */
/* Instructions and places of an annotation as text. */
#include "output/annotate.h"

#include "output/disasm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *annotate_label(const struct annotate_function *f, uint64_t at, char *text, size_t size)
{
	const uint64_t offset = f ? at - f->start : 0;

	if (!f)
		snprintf(text, size, "0x%" PRIx64, at);
	else if (!f->symbol)
		snprintf(text, size, "0x%" PRIx64, f->ip + offset);
	else if (offset)
		snprintf(text, size, "%s+0x%" PRIx64, f->symbol, offset);
	else
		snprintf(text, size, "%s", f->symbol);
	return text;
}

/* Writes an instruction that has bytes. */
static void disassemble(const struct annotate_code *code, const struct annotate_row *row, bool att,
			char *text, size_t size)
{
	struct ptah_insn insn = {.ip = row->at + code->slide, .size = row->size, .mode = row->mode};

	memcpy(insn.bytes, row->bytes, row->size);
	disasm(&insn, att, text, size);
}

/* Finds the target in the text of a direct branch, jump or call. */
static bool find_target(const char *text, uint64_t slide, uint64_t *target)
{
	const char *number = strrchr(text, ' ');

	if (!number || strncmp(number, " 0x", 3) != 0 || strchr(text, ',') ||
	    (*text != 'j' && *text != 'c'))
		return false;
	*target = strtoull(number, NULL, 16) - slide;
	return true;
}

bool annotate_target(const struct annotate_code *code, const struct annotate_row *row,
		     uint64_t *target)
{
	char text[768];

	if (!row->size || !row->is_code)
		return false;
	disassemble(code, row, false, text, sizeof(text));
	return find_target(text, code->slide, target);
}

void annotate_instruction(const struct annotation *a, const struct annotate_function *f,
			  const struct annotate_code *code, const struct annotate_row *row,
			  unsigned options, char *text, size_t size)
{
	const struct annotate_object *object = &a->objects[f->object];
	const struct annotate_function *to;
	struct ptah_symbol symbol; /* of a function that did not run */
	char label[512];
	uint64_t target;
	size_t n;

	if (!row->size) {
		snprintf(text, size, "(unknown bytes)");
		return;
	}
	if (!row->is_code) {
		snprintf(text, size, ".byte 0x%02x", row->bytes[0]);
		return;
	}
	disassemble(code, row, options & ANNOTATE_ATT, text, size);
	if (!find_target(text, code->slide, &target))
		return;
	n = strlen(text);
	if (target >= f->start && target < f->end && f->symbol) {
		snprintf(text + n, size - n, " <+0x%" PRIx64 ">", target - f->start);
		return;
	}
	to = annotation_function(a, f->object, target);
	if (to && to->symbol)
		snprintf(text + n, size - n, " <%s>",
			 annotate_label(to, target, label, sizeof(label)));
	else if (object->is_file && !object->changed &&
		 ptah_symbols_lookup(names_symbols(a->config.names), object->path, target,
				     &symbol) &&
		 symbol.named && symbol.start == target)
		snprintf(text + n, size - n, " <%s>",
			 options & ANNOTATE_MANGLED
			     ? symbol.name
			     : ptah_symbol_demangle(symbol.name, 0, label, sizeof(label)));
}
