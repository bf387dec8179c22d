/* SPDX-License-Identifier: MIT */
/* A cache of instructions' lines by address, because most instructions run often. */
#include "base/hash.h"
#include "output/disasm.h"
#include "script_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES	  (1u << 17)
#define POOL_SIZE (16u << 20)

int script_new_lines(struct script *s)
{
	s->lines = calloc(LINES, sizeof(*s->lines));
	s->pool = malloc(POOL_SIZE);
	return s->lines && s->pool ? 0 : PTAH_E_NOMEM;
}

void script_forget_lines(struct script *s)
{
	memset(s->lines, 0, LINES * sizeof(*s->lines));
}

void script_free_lines(struct script *s)
{
	free(s->lines);
	free(s->pool);
}

/*
 * Writes the text of a line; *code is the index where the disassembly begins. False: the line may
 * have another name at another time.
 */
static bool render_line(struct script *s, const struct ptah_insn *insn, char *text, size_t n,
			size_t *code)
{
	const struct name *name = NULL;
	char assembly[128];
	int k = 0;

	disasm(insn, s->att, assembly, sizeof(assembly));
	if (!s->input->no_symbols)
		name = script_find_name(s, insn->ip);
	if (!name)
		k = snprintf(text, n, "%" PRIx64, insn->ip);
	else if (name->symbol)
		k = snprintf(text, n, "%" PRIx64 " %.200s+0x%" PRIx64 " (%.100s)", insn->ip,
			     name->symbol, name->offset, name->dso);
	else
		k = snprintf(text, n, "%" PRIx64 " (%.100s)", insn->ip, name->dso);
	*code = (size_t)k + 1;
	snprintf(text + k, n - (size_t)k, "\t%s\n", assembly);
	return !name || !name->generated;
}

const struct script_line *script_find_line(struct script *s, const struct ptah_insn *insn)
{
	size_t i = (size_t)(hash_number(insn->ip) >> 40) % LINES;
	struct script_line *line = &s->lines[i];
	char text[512];
	size_t code;
	bool lasting;

	if (line->size == insn->size && line->ip == insn->ip && line->space == s->info.space &&
	    !memcmp(line->bytes, insn->bytes, insn->size))
		return line;
	lasting = render_line(s, insn, text, sizeof(text), &code);
	if (s->pool_used + sizeof(text) > POOL_SIZE) {
		s->pool_used = 0;
		script_forget_lines(s);
	}
	line->ip = insn->ip;
	line->space = s->info.space;
	line->size = lasting ? insn->size : 0;
	memcpy(line->bytes, insn->bytes, insn->size);
	line->length = (uint32_t)strlen(text);
	line->code = (uint32_t)code;
	line->text = (uint32_t)s->pool_used;
	memcpy(s->pool + s->pool_used, text, line->length);
	s->pool_used += line->length;
	return line;
}
