/* SPDX-License-Identifier: MIT */
/*
 * Reads line number tables: DWARF 5, section 6.2, and its predecessors down to DWARF 2.
 *
 * libdw has a reader as well. It keeps the tables of all units, and sorts the rows of a table
 * without regard to sequences. Rows of functions that the linker discarded, which begin at address
 * 0, are then found between those of other functions.
 */
#include "symbol/line_table.h"

#include "base/order.h"
#include "base/reader.h"
#include "support/list.h"

#include <ptah/base.h>

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

/* Bounds on the memory that a file can make one table use: several times what compilers write. */
#define ROWS_MAX	((size_t)1 << 23)
#define FILES_MAX	((size_t)1 << 20)
#define ENTRY_FORMS_MAX 16

/* Many entries may refer to one string. */
#define STRING_MAX 4096

/* Rows up to DW_LNE_end_sequence: of one function, or of several that follow each other. */
struct sequence {
	uint64_t start, end;
	size_t first, count; /* of the rows */
};

struct line_reader {
	const struct symbol_line_sections *sections;
	struct symbol_line_table *table;
	bool (*is_code)(const void *context, uint64_t address);
	const void *context;
	struct sequence *sequences;
	size_t sequence_count, sequence_room;
	int status;

	/* the header */
	unsigned version, offset_size;
	unsigned min_length, line_range, opcode_base;
	int line_base;
	bool default_statement;
	const uint8_t *opcode_lengths;

	/* the state machine's registers */
	uint64_t address, file;
	uint32_t line;
	uint64_t column;
	bool statement;

	/* the sequence that is being read */
	struct symbol_row last; /* its size is not known before the next row */
	bool has_last;
	size_t first_row;
	uint64_t sequence_start;
};

/* Whether there is room for one more item. If not, the status says why. */
#define ITEM_ROOM(l, items, count, room, most)                                                     \
	((count) < (most) && LIST_ROOM(items, count, room)                                         \
	     ? true                                                                                \
	     : ((l)->status = (count) < (most) ? PTAH_E_NOMEM : PTAH_E_LIMIT, false))

/* Header */

static uint64_t read_offset(const struct line_reader *l, struct reader *r)
{
	return l->offset_size == 8 ? reader_u64(r) : reader_u32(r);
}

/* A string in `r`, which has to end there. */
static const char *read_string(struct reader *r)
{
	const char *string;
	size_t n;

	string = reader_string(r, &n);
	if (r->failed || (const uint8_t *)string + n == r->end) {
		r->failed = true;
		return "";
	}
	return string;
}

static const char *string_at(const struct symbol_section *section, uint64_t offset)
{
	struct reader r = {section->bytes, NULL, false};

	if (!section->bytes || offset >= section->size)
		return "";
	r.p += offset;
	r.end =
	    section->size - offset > STRING_MAX ? r.p + STRING_MAX : section->bytes + section->size;
	return read_string(&r);
}

static void add_folder(struct line_reader *l, const char *folder)
{
	struct symbol_line_table *t = l->table;

	if (ITEM_ROOM(l, t->folders, t->folder_count, t->folder_room, FILES_MAX))
		t->folders[t->folder_count++] = folder;
}

static void add_line_file(struct line_reader *l, const char *name, uint64_t folder)
{
	struct symbol_line_table *t = l->table;

	if (!ITEM_ROOM(l, t->files, t->file_count, t->file_room, FILES_MAX))
		return;
	t->files[t->file_count++] = (struct symbol_source){
	    name, folder < t->folder_count ? t->folders[folder] : NULL, NULL};
}

/* Lists of DWARF 2 to 4: both end with an empty string. Folder 0 is where the compiler ran. */
static void read_old_lists(struct line_reader *l, struct reader *r)
{
	const char *name;

	add_folder(l, NULL);
	while (!l->status && *(name = read_string(r)))
		add_folder(l, name);
	while (!l->status && *(name = read_string(r))) {
		uint64_t folder = reader_uleb(r);

		reader_uleb(r); /* time */
		reader_uleb(r); /* size */
		add_line_file(l, name, folder);
	}
}

struct entry {
	const char *name;
	uint64_t folder;
};

static void read_line_field(const struct line_reader *l, struct reader *r, uint64_t content,
			    uint64_t form, struct entry *entry)
{
	const char *string = NULL;
	uint64_t number = 0;

	switch (form) {
	case DW_FORM_string:
		string = read_string(r);
		break;
	case DW_FORM_line_strp:
		string = string_at(&l->sections->line_strings, read_offset(l, r));
		break;
	case DW_FORM_strp:
		string = string_at(&l->sections->strings, read_offset(l, r));
		break;
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		read_offset(l, r); /* in another file: the name stays unknown */
		break;
	case DW_FORM_udata:
		number = reader_uleb(r);
		break;
	case DW_FORM_data1:
		number = reader_u8(r);
		break;
	case DW_FORM_data2:
		number = reader_u16(r);
		break;
	case DW_FORM_data4:
		number = reader_u32(r);
		break;
	case DW_FORM_data8:
		number = reader_u64(r);
		break;
	case DW_FORM_data16:
		reader_bytes(r, 16);
		break;
	case DW_FORM_block:
		reader_bytes(r, reader_uleb(r));
		break;
	default:
		r->failed = true;
	}
	if (content == DW_LNCT_path && string)
		entry->name = string;
	else if (content == DW_LNCT_directory_index)
		entry->folder = number;
}

/* A list of DWARF 5, whose entries have the fields that a list before them names. */
static void read_new_list(struct line_reader *l, struct reader *r, bool folders)
{
	uint64_t forms[ENTRY_FORMS_MAX][2], n;
	unsigned form_count = reader_u8(r);

	if (form_count > ENTRY_FORMS_MAX) {
		r->failed = true;
		return;
	}
	for (unsigned i = 0; i < form_count; i++) {
		forms[i][0] = reader_uleb(r);
		forms[i][1] = reader_uleb(r);
	}
	n = reader_uleb(r);
	/* Each entry takes a byte at least. */
	if (n && (!form_count || n > (uint64_t)(r->end - r->p)))
		r->failed = true;
	for (uint64_t i = 0; i < n && !r->failed && !l->status; i++) {
		struct entry entry = {"", 0};

		for (unsigned k = 0; k < form_count; k++)
			read_line_field(l, r, forms[k][0], forms[k][1], &entry);
		if (folders)
			add_folder(l, entry.name);
		else
			add_line_file(l, entry.name, entry.folder);
	}
}

/* Reads the header; `r` is what follows the length, and then the program. */
static bool read_line_header(struct line_reader *l, struct reader *r)
{
	struct reader lists;
	uint64_t length;

	l->version = reader_u16(r);
	if (l->version < 2 || l->version > 5)
		return false;
	if (l->version >= 5)
		reader_u16(r); /* sizes of an address and of a segment selector */
	length = read_offset(l, r);
	lists.p = reader_bytes(r, length);
	if (!lists.p)
		return false;
	lists.end = r->p;
	lists.failed = false;
	l->min_length = reader_u8(&lists);
	if (l->version >= 4)
		reader_u8(&lists); /* operations per instruction, for VLIW processors */
	l->default_statement = reader_u8(&lists);
	l->line_base = (int8_t)reader_u8(&lists);
	l->line_range = reader_u8(&lists);
	l->opcode_base = reader_u8(&lists);
	if (!l->opcode_base)
		return false;
	l->opcode_lengths = reader_bytes(&lists, l->opcode_base - 1);
	if (!l->opcode_lengths)
		return false;
	l->table->first_file = l->version >= 5 ? 0 : 1;
	if (l->version >= 5) {
		read_new_list(l, &lists, true);
		read_new_list(l, &lists, false);
	} else {
		read_old_lists(l, &lists);
	}
	return !lists.failed && !l->status;
}

/* Program */

static void reset(struct line_reader *l)
{
	l->address = 0;
	l->file = 1;
	l->line = 1;
	l->column = 0;
	l->statement = l->default_statement;
	l->has_last = false;
	l->first_row = l->table->count;
}

/* Completes the last row, which ends at `end`. */
static void push_last(struct line_reader *l, uint64_t end)
{
	struct symbol_line_table *t = l->table;
	struct symbol_row *before;

	if (!l->has_last || end <= l->last.start)
		return;
	l->last.size =
	    end - l->last.start > UINT32_MAX ? UINT32_MAX : (uint32_t)(end - l->last.start);
	before = t->count > l->first_row ? &t->rows[t->count - 1] : NULL;
	if (before && before->start + before->size == l->last.start &&
	    before->line == l->last.line && before->file == l->last.file &&
	    before->column == l->last.column && !l->last.statement &&
	    before->size <= UINT32_MAX - l->last.size) {
		before->size += l->last.size;
		return;
	}
	if (ITEM_ROOM(l, t->rows, t->count, t->room, ROWS_MAX))
		t->rows[t->count++] = l->last;
}

/* Of several rows with one address, the last one is that of the instruction there. */
static void append_row(struct line_reader *l)
{
	if (!l->has_last)
		l->sequence_start = l->address;
	/* Addresses ascend within a sequence. A row that goes back is malformed. */
	if (l->has_last && l->address < l->last.start)
		return;
	push_last(l, l->address);
	l->last = (struct symbol_row){
	    .start = l->address,
	    .file = l->file > UINT32_MAX ? UINT32_MAX : (uint32_t)l->file,
	    .line = l->line,
	    .column = l->column > UINT16_MAX ? 0 : (uint16_t)l->column,
	    .statement = l->statement,
	};
	l->has_last = true;
}

static void end_sequence(struct line_reader *l)
{
	struct symbol_line_table *t = l->table;

	push_last(l, l->address);
	if (!l->is_code(l->context, l->sequence_start))
		t->count = l->first_row;
	if (t->count > l->first_row) {
		if (!ITEM_ROOM(l, l->sequences, l->sequence_count, l->sequence_room, ROWS_MAX))
			return;
		l->sequences[l->sequence_count++] = (struct sequence){
		    l->sequence_start, t->rows[t->count - 1].start + t->rows[t->count - 1].size,
		    l->first_row, t->count - l->first_row};
	}
	reset(l);
}

static void run_extended(struct line_reader *l, struct reader *r)
{
	uint64_t size = reader_uleb(r);
	struct reader in = {reader_bytes(r, size), r->p, false};
	const char *name;

	if (!in.p || !size)
		return;
	switch (reader_u8(&in)) {
	case DW_LNE_end_sequence:
		end_sequence(l);
		break;
	case DW_LNE_set_address:
		l->address = size - 1 == 8 ? reader_u64(&in) : reader_u32(&in);
		break;
	case DW_LNE_define_file:
		name = read_string(&in);
		if (!in.failed)
			add_line_file(l, name, reader_uleb(&in));
		break;
	}
	r->failed |= in.failed;
}

static void run_special(struct line_reader *l, unsigned adjusted)
{
	l->address += (uint64_t)(adjusted / l->line_range) * l->min_length;
	l->line += (uint32_t)(l->line_base + (int)(adjusted % l->line_range));
}

static void run_standard(struct line_reader *l, unsigned opcode, struct reader *r)
{
	switch (opcode) {
	case DW_LNS_copy:
		append_row(l);
		break;
	case DW_LNS_advance_pc:
		l->address += reader_uleb(r) * l->min_length;
		break;
	case DW_LNS_advance_line:
		l->line += (uint32_t)reader_sleb(r);
		break;
	case DW_LNS_set_file:
		l->file = reader_uleb(r);
		break;
	case DW_LNS_set_column:
		l->column = reader_uleb(r);
		break;
	case DW_LNS_negate_stmt:
		l->statement = !l->statement;
		break;
	case DW_LNS_const_add_pc:
		l->address += (uint64_t)((255 - l->opcode_base) / l->line_range) * l->min_length;
		break;
	case DW_LNS_fixed_advance_pc:
		l->address += reader_u16(r);
		break;
	default: /* its operands are numbers; how many is in the header */
		for (unsigned i = 0; i < l->opcode_lengths[opcode - 1]; i++)
			reader_uleb(r);
	}
}

static void run_line_program(struct line_reader *l, struct reader *r)
{
	reset(l);
	while (r->p < r->end && !r->failed && !l->status) {
		unsigned opcode = reader_u8(r);

		if (!opcode) {
			run_extended(l, r);
		} else if (opcode < l->opcode_base) {
			if (opcode == DW_LNS_const_add_pc && !l->line_range)
				r->failed = true;
			else
				run_standard(l, opcode, r);
		} else if (!l->line_range) {
			r->failed = true;
		} else {
			run_special(l, opcode - l->opcode_base);
			append_row(l);
		}
	}
	/* A sequence that does not end has no known size. */
	l->table->count = l->first_row;
}

static int compare_sequences(const void *pa, const void *pb)
{
	const struct sequence *a = pa, *b = pb;

	return COMPARE_THEN(a->start, b->start, COMPARE(a->first, b->first));
}

/*
 * Puts the sequences into the order of their addresses. Where two overlap (a linker has folded
 * equal functions into one), the first one counts.
 */
static void order(struct line_reader *l)
{
	struct symbol_line_table *t = l->table;
	struct symbol_row *rows;
	uint64_t at = 0;
	size_t n = 0;

	rows = t->count ? reallocarray(NULL, t->count, sizeof(*rows)) : NULL;
	if (!rows) {
		l->status = t->count ? PTAH_E_NOMEM : l->status;
		return;
	}
	qsort(l->sequences, l->sequence_count, sizeof(*l->sequences), compare_sequences);
	for (size_t i = 0; i < l->sequence_count; i++) {
		const struct sequence *s = &l->sequences[i];

		for (size_t k = s->first; k < s->first + s->count; k++) {
			struct symbol_row row = t->rows[k];

			if (row.start < at && row.start + row.size > at) {
				row.size -= (uint32_t)(at - row.start);
				row.start = at;
			}
			if (row.start >= at)
				rows[n++] = row;
		}
		at = s->end > at ? s->end : at;
	}
	free(t->rows);
	t->rows = rows;
	t->count = t->room = n;
}

struct symbol_source *symbol_line_table_file(const struct symbol_line_table *table, uint64_t file)
{
	uint64_t i = file - table->first_file;

	return i < table->file_count ? &table->files[i] : NULL;
}

void symbol_line_table_free(struct symbol_line_table *table)
{
	free(table->rows);
	free(table->files);
	free(table->folders);
	*table = (struct symbol_line_table){0};
}

int symbol_line_table_read(const struct symbol_line_sections *sections, uint64_t offset,
			   bool (*is_code)(const void *context, uint64_t address),
			   const void *context, struct symbol_line_table *table)
{
	struct line_reader l = {
	    .sections = sections, .table = table, .is_code = is_code, .context = context};
	struct reader all = {0}, unit = {0};
	uint64_t length;

	*table = (struct symbol_line_table){0};
	if (!sections->lines.bytes || offset >= sections->lines.size)
		return PTAH_E_BAD_FILE;
	all.p = sections->lines.bytes + offset;
	all.end = sections->lines.bytes + sections->lines.size;
	length = reader_u32(&all);
	l.offset_size = length == UINT32_MAX ? 8 : 4;
	if (l.offset_size == 8)
		length = reader_u64(&all);
	unit.p = reader_bytes(&all, length);
	unit.end = all.p;
	if (!unit.p || !read_line_header(&l, &unit)) {
		l.status = l.status ? l.status : PTAH_E_BAD_FILE;
	} else {
		run_line_program(&l, &unit);
		l.status = l.status ? l.status : unit.failed ? PTAH_E_BAD_FILE : 0;
		if (!l.status)
			order(&l);
	}
	free(l.sequences);
	if (l.status)
		symbol_line_table_free(table);
	return l.status;
}
