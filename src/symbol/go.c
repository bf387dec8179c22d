/* SPDX-License-Identifier: MIT */
/*
 * Reads .gopclntab (go.h). It begins with a header, which has changed three times. A table of
 * functions follows, sorted by address: for each the address, and the offset of a description with
 * the function's name and tables of values. Such a table gives a value (the line, the index of the
 * file) for each address of the function, as differences from one piece of code to the next.
 */
#include "symbol/go.h"

#include "base/reader.h"
#include "symbol/elf.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

#define HEADER_SIZE 8

static const struct {
	uint32_t magic;
	unsigned words; /* of the header */
} versions[] = {
    [SYMBOL_GO_1_2] = {0xfffffffb, 1},
    [SYMBOL_GO_1_16] = {0xfffffffa, 7},
    [SYMBOL_GO_1_18] = {0xfffffff0, 8},
    [SYMBOL_GO_1_20] = {0xfffffff1, 8},
};

/* A reader of the table from `offset` on. */
static struct reader at(const struct symbol_go *go, uint64_t offset)
{
	struct reader r = {go->bytes, go->bytes + go->size, false};

	reader_bytes(&r, offset);
	return r;
}

/* Since 1.18 addresses take four bytes, before that they take eight. */
static uint64_t read_address(const struct symbol_go *go, struct reader *r)
{
	return go->version >= SYMBOL_GO_1_18 ? go->text + reader_u32(r) : reader_u64(r);
}

static uint64_t entry_size(const struct symbol_go *go)
{
	return go->version >= SYMBOL_GO_1_18 ? 8 : 16;
}

static uint64_t read_go_offset(const struct symbol_go *go, struct reader *r)
{
	return go->version >= SYMBOL_GO_1_18 ? reader_u32(r) : reader_u64(r);
}

/* Reads the words of the header, with offsets of the parts of the table. */
static bool read_go_header(struct symbol_go *go, struct reader *r)
{
	uint64_t words[8] = {0};
	const bool text = go->version >= SYMBOL_GO_1_18;

	for (unsigned i = 0; i < versions[go->version].words; i++)
		words[i] = reader_u64(r);
	go->count = words[0];
	if (go->version == SYMBOL_GO_1_2) {
		go->functions = HEADER_SIZE + 8;
		if (go->count > (go->size - go->functions) / 16)
			return false;
		/* The files are a list of offsets, whose place is given after the functions. */
		reader_bytes(r, go->count * 16 + 8);
		go->files = reader_u32(r);
		return !r->failed;
	}
	if (text && words[2])
		go->text = words[2];
	go->names = words[2 + text];
	go->units = words[3 + text];
	go->files = words[4 + text];
	go->values = words[5 + text];
	go->functions = words[6 + text];
	return !r->failed && go->functions < go->size &&
	       go->count <= (go->size - go->functions) / entry_size(go);
}

bool symbol_go_open(struct symbol_go *go, const uint8_t *bytes, size_t size, uint64_t text)
{
	struct reader r = {bytes, bytes + size, false};
	const uint32_t magic = reader_u32(&r), layout = reader_u32(&r);

	*go = (struct symbol_go){.bytes = bytes, .size = size, .text = text};
	/* Two zeros, the least size of an instruction, the size of a pointer. */
	if (r.failed || layout != 0x08010000)
		return false;
	for (unsigned i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		if (versions[i].magic != magic)
			continue;
		go->version = (enum symbol_go_version)i;
		return read_go_header(go, &r);
	}
	return false;
}

/* The addend of the relocation of the word at `address`; 0: there is none. */
static uint64_t relocated(Elf *elf, uint64_t address)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Rela r;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getrela(data, i, &r); i++)
			if (r.r_offset == address && GELF_R_TYPE(r.r_info) == R_X86_64_RELATIVE)
				return (uint64_t)r.r_addend;
	}
	return 0;
}

bool symbol_go_find(Elf *elf, struct symbol_go *go)
{
	static const char wanted[] = "gopclntab";
	Elf_Data *strings = symbol_section_names(elf), *data = NULL;
	uint64_t text = 0, address = 0;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];
		size_t n;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		n = strlen(name);
		if (!strcmp(name, ".text"))
			text = header.sh_addr;
		if (n < strlen(wanted) || strcmp(name + n - strlen(wanted), wanted) != 0)
			continue;
		address = header.sh_addr;
		data = elf_getdata(section, NULL);
	}
	if (!data || !data->d_buf || !symbol_go_open(go, data->d_buf, data->d_size, 0))
		return false;
	/* In a position-independent program the word may be left to the dynamic linker. */
	if (go->version >= SYMBOL_GO_1_18 && !go->text) {
		go->text = relocated(elf, address + HEADER_SIZE + 2 * 8);
		go->text = go->text ? go->text : text;
	}
	return true;
}

/* The description of a function begins with its address and the offset of its name. */
static struct reader description(const struct symbol_go *go, uint64_t offset)
{
	struct reader r = at(go, go->version == SYMBOL_GO_1_2 ? offset : go->functions + offset);

	reader_bytes(&r, go->version >= SYMBOL_GO_1_18 ? 4 : 8);
	return r;
}

static void copy_string(struct reader r, char *text, size_t size)
{
	size_t n;
	const char *string = reader_string(&r, &n);

	n = n < size ? n : size - 1;
	memcpy(text, string, n);
	text[n] = '\0';
}

void symbol_go_add(const struct symbol_go *go, struct symbol_ranges *ranges,
		   struct symbol_names *names)
{
	struct reader r = at(go, go->functions);
	uint64_t next = read_address(go, &r);

	for (uint64_t i = 0; i < go->count && !names->failed && !ranges->failed; i++) {
		const uint64_t start = next;
		struct reader of = description(go, read_go_offset(go, &r));
		char name[SYMBOL_NAME_MAX];

		next = read_address(go, &r);
		copy_string(at(go, go->names + reader_u32(&of)), name, sizeof(name));
		if (r.failed)
			return;
		if (of.failed || !*name || next <= start)
			continue;
		symbol_ranges_add(ranges, (struct symbol_range){
					      .start = start,
					      .end = next,
					      .head = start,
					      .size = next - start,
					      .name = symbol_names_add(names, name, ""),
					      .rank = SYMBOL_RANK_GLOBAL | SYMBOL_RANK_FUNCTION,
					      .named = true,
					  });
	}
}

/* Lines */

/* Finds the function of an address: its description, and its bounds. */
static bool find_function(const struct symbol_go *go, uint64_t address, struct reader *of,
			  uint64_t *start, uint64_t *end)
{
	const uint64_t size = entry_size(go);
	uint64_t low = 0, high = go->count;
	struct reader r;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;

		r = at(go, go->functions + middle * size);
		if (read_address(go, &r) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	r = at(go, go->functions + (low - 1) * size);
	*start = read_address(go, &r);
	*of = description(go, read_go_offset(go, &r));
	*end = read_address(go, &r);
	return !r.failed && address < *end;
}

/* An unsigned number of seven bits a byte, at most 32 bits. */
static uint32_t read_go_number(struct reader *r)
{
	uint32_t value = 0;
	const uint8_t *byte;

	for (unsigned shift = 0; (byte = reader_bytes(r, 1)); shift += 7) {
		if (shift < 32)
			value |= (uint32_t)(*byte & 0x7f) << shift;
		if (!(*byte & 0x80))
			break;
	}
	return value;
}

/* More pieces than any function has. */
#define STEPS_MAX (1u << 20)

/* A value, for the code in [start, end). */
struct value {
	uint64_t start, end;
	int32_t value;
};

/* Values of a function in the order of its code. */
struct values {
	struct reader r;
	struct value now; /* empty before the first */
	bool ended;
};

static struct values first_value(const struct symbol_go *go, uint32_t offset, uint64_t start)
{
	return (struct values){at(go, go->values + offset), {start, start, -1}, !offset};
}

/* Goes on to the next value. False: there is none. */
static bool next_value(struct values *v, bool first)
{
	uint32_t step;

	if (v->ended)
		return false;
	step = read_go_number(&v->r);
	v->now.value = (int32_t)((uint32_t)v->now.value + (step >> 1 ^ -(step & 1)));
	v->now.start = v->now.end;
	v->now.end += read_go_number(&v->r);
	v->ended = v->r.failed || (!step && !first);
	return !v->ended;
}

/* Finds the value for an address in the table at `offset`, of a function that begins at `start`. */
static bool find_value(const struct symbol_go *go, uint32_t offset, uint64_t start,
		       uint64_t address, struct value *found)
{
	struct values v = first_value(go, offset, start);

	for (unsigned i = 0; i < STEPS_MAX && next_value(&v, !i); i++) {
		if (address < v.now.start)
			return false;
		*found = v.now;
		if (address < v.now.end)
			return true;
	}
	return false;
}

/* A longer name is not one. */
#define FILE_NAME_MAX 4096

/* The name of a file by its index; `unit`: where the indexes of the function's package begin. */
static const char *file_name(const struct symbol_go *go, uint32_t index, uint32_t unit)
{
	struct reader r;
	uint32_t offset;
	const char *name;
	size_t n;

	if (go->version == SYMBOL_GO_1_2) {
		r = at(go, go->files + (uint64_t)index * 4);
		offset = reader_u32(&r);
		if (!index || r.failed)
			return NULL;
		r = at(go, offset);
	} else {
		r = at(go, go->units + ((uint64_t)unit + index) * 4);
		offset = reader_u32(&r);
		if (r.failed || offset == UINT32_MAX)
			return NULL;
		r = at(go, go->files + offset);
	}
	if ((size_t)(r.end - r.p) > FILE_NAME_MAX)
		r.end = r.p + FILE_NAME_MAX;
	name = reader_string(&r, &n);
	return r.failed || !n || (const uint8_t *)name + n == r.end ? NULL : name;
}

/* What the description of a function says of its lines. */
struct tables {
	uint32_t files, lines, unit;
};

static bool read_tables(const struct symbol_go *go, struct reader of, struct tables *t)
{
	reader_u32(&of); /* name */
	reader_u32(&of); /* arguments */
	reader_u32(&of); /* frame, deferreturn */
	reader_u32(&of); /* the stack pointer's values */
	t->files = reader_u32(&of);
	t->lines = reader_u32(&of);
	reader_u32(&of); /* number of other tables */
	t->unit = go->version == SYMBOL_GO_1_2 ? 0 : reader_u32(&of);
	return !of.failed;
}

bool symbol_go_line(const struct symbol_go *go, uint64_t address, struct symbol_go_line *line)
{
	struct value file, number;
	struct tables t;
	uint64_t start, end;
	struct reader of;

	if (!find_function(go, address, &of, &start, &end))
		return false;
	if (!read_tables(go, of, &t) || !find_value(go, t.lines, start, address, &number) ||
	    number.value < 0)
		return false;
	*line = (struct symbol_go_line){.start = number.start,
					.end = number.end < end ? number.end : end,
					.line = (uint32_t)number.value};
	if (!find_value(go, t.files, start, address, &file) || file.value < 0)
		return true;
	line->file = file_name(go, (uint32_t)file.value, t.unit);
	line->start = file.start > line->start ? file.start : line->start;
	line->end = file.end < line->end ? file.end : line->end;
	return true;
}

/* A walk over the lines of many functions. */
struct walk {
	const struct symbol_go *go;
	uint64_t start, end; /* what is wanted */
	uint64_t steps;	     /* that may still be made: functions may share their values */
	bool (*visit)(void *context, const struct symbol_go_line *line);
	void *context;
	bool ended;
};

/* The lines of one function, whose code is [start, end). */
static void walk_function(struct walk *w, const struct tables *t, uint64_t start, uint64_t end)
{
	struct values lines = first_value(w->go, t->lines, start);
	struct values files = first_value(w->go, t->files, start);
	bool more = next_value(&lines, true), more_files = next_value(&files, true);
	uint64_t address = start;

	end = end < w->end ? end : w->end;
	for (; more && address < end && w->steps && !w->ended; w->steps--) {
		const bool named = more_files && files.now.value >= 0;
		uint64_t next = lines.now.end;
		struct symbol_go_line line = {.start = address > w->start ? address : w->start};

		if (more_files && files.now.end < next)
			next = files.now.end;
		line.end = next < end ? next : end;
		line.line = (uint32_t)lines.now.value;
		if (line.start < line.end && lines.now.value >= 0) {
			line.file =
			    named ? file_name(w->go, (uint32_t)files.now.value, t->unit) : NULL;
			w->ended = !w->visit(w->context, &line);
		}
		if (next < address)
			return; /* beyond the highest address */
		address = next;
		for (; more_files && files.now.end <= address && w->steps; w->steps--)
			more_files = next_value(&files, false);
		for (; more && lines.now.end <= address && w->steps; w->steps--)
			more = next_value(&lines, false);
	}
}

int symbol_go_lines(const struct symbol_go *go, uint64_t start, uint64_t end,
		    bool (*visit)(void *context, const struct symbol_go_line *line), void *context)
{
	struct walk w = {go, start, end, 4 * (uint64_t)go->size, visit, context, false};
	struct reader r = at(go, go->functions);
	uint64_t next = read_address(go, &r);

	for (uint64_t i = 0; i < go->count && !w.ended && w.steps; i++) {
		const uint64_t from = next;
		const struct reader of = description(go, read_go_offset(go, &r));
		struct tables t;

		next = read_address(go, &r);
		if (r.failed || from >= end)
			break;
		if (from < next && next > start && read_tables(go, of, &t))
			walk_function(&w, &t, from, next);
	}
	return w.steps ? 0 : PTAH_E_LIMIT;
}
