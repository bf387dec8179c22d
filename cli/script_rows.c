/* SPDX-License-Identifier: MIT */
/* The modes of `ptah script`: which items make a row, and the row in each format. */
#include "script_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void script_begin_json(void *view)
{
	struct script *s = view;

	json_object(&s->json, NULL, false);
	if (s->time)
		json_string(&s->json, "times", ptah_session_times(s->session).name);
	json_array(&s->json, s->mode->array);
}

void script_end_json(void *view)
{
	struct script *s = view;

	json_end_array(&s->json);
	json_number(&s->json, "errors", s->errors);
	json_end_object(&s->json);
	json_finish(&s->json);
}

void script_begin_tsv(void *view)
{
	struct script *s = view;

	fields_tsv_head(s->out, s->mode->type, s->asked);
}

/* Writes a row as TSV. The members that only JSON shows are not filled in. */
static void put_script_tsv(void *view, const void *row)
{
	struct script *s = view;

	fields_tsv(s->out, s->mode->type, s->asked, row);
}

/* Branches */

struct branch {
	int32_t tid;
	struct script_time time;
	uint64_t from, to;
	const char *kind, *from_symbol, *to_symbol, *line;
};

static const struct field branch_fields[] = {
    FIELD(struct branch, "tid", FIELD_SIGNED, tid),
    SCRIPT_TIME_FIELD(struct branch),
    FIELD(struct branch, "kind", FIELD_STRING, kind),
    FIELD(struct branch, "from", FIELD_ADDRESS, from),
    SCRIPT_SYMBOL_FIELD(struct branch, "from_symbol", from_symbol),
    FIELD(struct branch, "to", FIELD_ADDRESS, to),
    SCRIPT_SYMBOL_FIELD(struct branch, "to_symbol", to_symbol),
    SCRIPT_LINE_FIELD(struct branch),
    SCRIPT_KIND_FIELD(struct branch),
};

static const struct row_type branch_type = ROW_TYPE(branch_fields);

static void put_branch_text(void *view, const void *row)
{
	const struct branch *b = row;
	struct script *s = view;

	script_put_prefix(s);
	out_text(s->out, b->kind);
	out_bytes(s->out, "               ", 15 - (strlen(b->kind) < 14 ? strlen(b->kind) : 14));
	out_hex(s->out, b->from);
	if (b->from)
		script_put_name(s, b->from);
	out_text(s->out, " => ");
	out_hex(s->out, b->to);
	if (b->to)
		script_put_name(s, b->to);
	script_end_row(s, b->line);
}

static void put_branch_json(void *view, const void *row)
{
	struct branch b = *(const struct branch *)row;
	struct script *s = view;
	char from[NAMES_LABEL_MAX], to[NAMES_LABEL_MAX];

	b.from_symbol = script_symbol(s, b.from, from, sizeof(from));
	b.to_symbol = script_symbol(s, b.to, to, sizeof(to));
	fields_json(&s->json, &branch_type, s->asked, &b);
}

static void put_script_branch(struct script *s, uint64_t from, uint64_t to, const char *kind)
{
	const struct script_key key = {from, to, (uintptr_t)kind};
	struct branch b = {
	    .tid = s->info.tid, .time = s->now, .from = from, .to = to, .kind = kind};

	if (!script_is_wanted(s, from ? from : to) || script_cache_repeat(s, &key))
		return;
	script_cache_begin(s, &key);
	b.line = script_source_line(s, from ? from : to);
	script_put_row(s, &b);
	script_cache_end(s);
}

static bool is_taken(const struct ptah_item *block)
{
	if (block->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN))
		return false;
	if (block->insn_class == PTAH_INSN_COND)
		return block->flags & PTAH_ITEM_TAKEN;
	return block->insn_class != PTAH_INSN_OTHER && block->insn_class != PTAH_INSN_PTWRITE;
}

/* What was before the segment is known to the main thread. */
static void carry(struct script *s, uint64_t to)
{
	struct script_carry *c = &s->carry;

	*c = (struct script_carry){.resolved = true, .to = to, .tsc = s->at};
	out_written(s->out, &c->at);
}

void script_resolve_branch(struct script *s, uint64_t to)
{
	if (s->carry.is_open)
		carry(s, to);
	if (s->branch.is_open)
		put_script_branch(s, s->branch.from, to, s->branch.kind);
	s->branch.is_open = false;
}

static void forget_branch(struct script *s)
{
	s->branch.is_open = s->carry.is_open = false;
}

static void take_script_branches(struct script *s, const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		script_resolve_branch(s, item->ip);
		s->branch.is_open = is_taken(item);
		s->branch.from = item->end - item->last_size;
		s->branch.kind = ptah_insn_class_name(item->insn_class);
		break;
	case PTAH_ITEM_ENABLED:
		put_script_branch(s, 0, item->ip, "trace-begin");
		break;
	case PTAH_ITEM_DISABLED:
		script_resolve_branch(s, item->flags & PTAH_ITEM_IP_SUPPRESSED ? 0 : item->to);
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		script_resolve_branch(s, item->ip);
		put_script_branch(s, item->ip, 0, "async");
		break;
	case PTAH_ITEM_ASYNC_BRANCH:
		script_resolve_branch(s, item->ip);
		put_script_branch(s, item->ip, item->to, "async");
		break;
	case PTAH_ITEM_ERROR:
		/* Only the code there is missing: the branch to it is known. */
		if (item->status == PTAH_E_NO_CODE && !(item->flags & PTAH_ITEM_IP_SUPPRESSED))
			script_resolve_branch(s, item->ip);
		forget_branch(s);
		break;
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_OVERFLOW:
		forget_branch(s);
		break;
	default:
		break;
	}
}

const struct script_mode script_branches = {
    .option = "--branches",
    .array = "branches",
    .type = &branch_type,
    .event_ip = "from",
    .event_words = "kind",
    .take = take_script_branches,
    .renderers = {[FORMAT_TEXT] = {.row = put_branch_text,
				   .event = script_event_text,
				   .offered = true},
		  [FORMAT_JSON] = {.row = put_branch_json, SCRIPT_SHARED_JSON},
		  [FORMAT_TSV] = {.row = put_script_tsv, SCRIPT_SHARED_TSV}},
};

/* Blocks */

struct block {
	int32_t tid;
	struct script_time time;
	uint64_t ip, end, instructions;
	const char *insn_class, *symbol, *line;
};

static const struct field block_fields[] = {
    FIELD(struct block, "tid", FIELD_SIGNED, tid),
    SCRIPT_TIME_FIELD(struct block),
    FIELD(struct block, "ip", FIELD_ADDRESS, ip),
    FIELD(struct block, "end", FIELD_ADDRESS, end),
    FIELD(struct block, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct block, "class", FIELD_STRING, insn_class),
    SCRIPT_SYMBOL_FIELD(struct block, "symbol", symbol),
    SCRIPT_LINE_FIELD(struct block),
    SCRIPT_KIND_FIELD(struct block),
};

static const struct row_type block_type = ROW_TYPE(block_fields);

static void put_block_text(void *view, const void *row)
{
	const struct block *b = row;
	struct script *s = view;

	script_put_prefix(s);
	out_hex(s->out, b->ip);
	out_char(s->out, '-');
	out_hex(s->out, b->end);
	out_char(s->out, ' ');
	out_decimal(s->out, b->instructions);
	out_char(s->out, ' ');
	out_text(s->out, b->insn_class);
	script_put_name(s, b->ip);
	script_end_row(s, b->line);
}

static void put_block_json(void *view, const void *row)
{
	struct block b = *(const struct block *)row;
	struct script *s = view;
	char text[NAMES_LABEL_MAX];

	b.symbol = script_symbol(s, b.ip, text, sizeof(text));
	fields_json(&s->json, &block_type, s->asked, &b);
}

static struct script_key key_of(const struct ptah_item *block)
{
	return (struct script_key){block->ip, block->end,
				   (uint64_t)block->ninsn << 16 | block->mode << 8 |
				       block->insn_class};
}

static void take_blocks(struct script *s, const struct ptah_item *item)
{
	struct script_key key;
	struct block b;

	if (item->type != PTAH_ITEM_BLOCK || !script_is_wanted(s, item->ip))
		return;
	key = key_of(item);
	if (script_cache_repeat(s, &key))
		return;
	script_cache_begin(s, &key);
	b = (struct block){.tid = s->info.tid,
			   .time = s->now,
			   .ip = item->ip,
			   .end = item->end,
			   .instructions = item->ninsn,
			   .line = script_source_line(s, item->ip),
			   .insn_class = ptah_insn_class_name(item->insn_class)};
	script_put_row(s, &b);
	script_cache_end(s);
}

const struct script_mode script_blocks = {
    .option = "--blocks",
    .array = "blocks",
    .type = &block_type,
    .event_ip = "ip",
    .event_words = "class",
    .take = take_blocks,
    .renderers = {[FORMAT_TEXT] = {.row = put_block_text,
				   .event = script_event_text,
				   .offered = true},
		  [FORMAT_JSON] = {.row = put_block_json, SCRIPT_SHARED_JSON},
		  [FORMAT_TSV] = {.row = put_script_tsv, SCRIPT_SHARED_TSV}},
};

/* Instructions. Their rows are struct ptah_insn: text, the usual format, needs nothing else */

struct instruction {
	int32_t tid;
	struct script_time time;
	uint64_t ip, size;
	const char *text, *symbol, *line;
};

static const struct field instruction_fields[] = {
    FIELD(struct instruction, "tid", FIELD_SIGNED, tid),
    SCRIPT_TIME_FIELD(struct instruction),
    FIELD(struct instruction, "ip", FIELD_ADDRESS, ip),
    FIELD_TSV(struct instruction, "size", FIELD_NUMBER, size),
    SCRIPT_SYMBOL_FIELD(struct instruction, "symbol", symbol),
    FIELD(struct instruction, "instruction", FIELD_STRING, text),
    SCRIPT_LINE_FIELD(struct instruction),
    SCRIPT_KIND_FIELD(struct instruction),
};

static const struct row_type instruction_type = ROW_TYPE(instruction_fields);

static void put_insn_text(void *view, const void *row)
{
	struct script *s = view;
	const struct script_line *line = script_find_line(s, row);

	script_put_prefix(s);
	out_bytes(s->out, s->pool + line->text, line->length - 1);
	script_end_row(s, script_source_line(s, line->ip));
}

/* The row of TSV and JSON; `text` gets the disassembly. */
static struct instruction make_instruction(struct script *s, const struct ptah_insn *insn,
					   char text[512])
{
	const struct script_line *line = script_find_line(s, insn);
	const size_t n = line->length - line->code - 1; /* without the newline */

	memcpy(text, s->pool + line->text + line->code, n);
	text[n] = '\0';
	return (struct instruction){.tid = s->info.tid,
				    .time = s->now,
				    .ip = insn->ip,
				    .size = insn->size,
				    .text = text,
				    .line = script_source_line(s, insn->ip)};
}

static void put_insn_json(void *view, const void *row)
{
	char text[512], symbol[NAMES_LABEL_MAX];
	struct script *s = view;
	struct instruction i = make_instruction(s, row, text);

	i.symbol = script_symbol(s, i.ip, symbol, sizeof(symbol));
	fields_json(&s->json, &instruction_type, s->asked, &i);
}

static void put_insn_tsv(void *view, const void *row)
{
	char text[512];
	struct script *s = view;
	const struct instruction i = make_instruction(s, row, text);

	fields_tsv(s->out, &instruction_type, s->asked, &i);
}

static void take_instructions(struct script *s, const struct ptah_item *item)
{
	struct ptah_insn insns[256];
	struct script_key key;
	int n;

	if (item->type != PTAH_ITEM_BLOCK || !script_is_wanted(s, item->ip))
		return;
	key = key_of(item);
	if (script_cache_repeat(s, &key))
		return;
	script_cache_begin(s, &key);
	n = ptah_reader_insns(s->reader, item, insns, ARRAY_SIZE(insns));
	for (int i = 0; i < n; i++)
		script_put_row(s, &insns[i]);
	script_cache_end(s);
}

const struct script_mode script_instructions = {
    .option = "",
    .array = "instructions",
    .type = &instruction_type,
    .event_ip = "ip",
    .event_words = "instruction",
    .take = take_instructions,
    .renderers = {[FORMAT_TEXT] = {.row = put_insn_text,
				   .event = script_event_text,
				   .offered = true},
		  [FORMAT_JSON] = {.row = put_insn_json, SCRIPT_SHARED_JSON},
		  [FORMAT_TSV] = {.row = put_insn_tsv, SCRIPT_SHARED_TSV}},
};
