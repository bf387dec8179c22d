/* SPDX-License-Identifier: MIT */
/*
 * Names the entries of procedure linkage tables. They have no symbols; but each
 * entry jumps through a slot of the GOT, and the relocation of the slot names the
 * function. The code of the entries is read to find the slot, so that the layouts
 * of linkers (.plt with a header, .plt.sec with ENDBR64, .plt.got, BND prefixes)
 * need not be known.
 */
#include "base/bits.h"
#include "base/order.h"
#include "support/list.h"
#include "symbol/elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX 16

/* No linker writes more sections of a kind. */
#define SECTIONS_MAX 16

struct slot {
	uint64_t address;
	uint64_t resolver; /* IRELATIVE: the function that chooses the target */
	size_t name;	   /* offset in the names; 0 with a resolver */
};

struct slots {
	struct slot *items;
	size_t count, room;
};

static void add_slot(struct slots *slots, struct slot slot)
{
	if (!LIST_ROOM(slots->items, slots->count, slots->room))
		return;
	slots->items[slots->count++] = slot;
}

/* Reads the relocations of a section. Their names are stored with "@plt" appended. */
static void read_relocations(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			     struct slots *slots, struct symbol_names *names)
{
	Elf_Scn *link = header->sh_link ? elf_getscn(elf, header->sh_link) : NULL;
	Elf_Data *data = elf_getdata(section, NULL),
		 *symbols = link ? elf_getdata(link, NULL) : NULL;
	GElf_Shdr table;
	Elf_Data *strings = NULL;
	char name[SYMBOL_NAME_MAX];
	GElf_Rela r;

	if (link && gelf_getshdr(link, &table))
		strings = symbol_string_table(elf, table.sh_link);
	for (int i = 0; data && gelf_getrela(data, i, &r); i++) {
		unsigned type = GELF_R_TYPE(r.r_info);
		struct slot slot = {.address = r.r_offset};
		GElf_Sym symbol;

		if (type == R_X86_64_IRELATIVE) {
			slot.resolver = (uint64_t)r.r_addend;
		} else if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) && symbols &&
			   gelf_getsym(symbols, (int)GELF_R_SYM(r.r_info), &symbol)) {
			symbol_string(strings, symbol.st_name, name, sizeof(name));
			if (!*name)
				continue;
			slot.name = symbol_names_add(names, name, "@plt");
		} else {
			continue;
		}
		add_slot(slots, slot);
	}
}

static int compare_starts(const void *pa, const void *pb)
{
	const struct symbol_range *a = pa, *b = pb;

	return COMPARE(a->start, b->start);
}

static int compare_slots(const void *pa, const void *pb)
{
	const struct slot *a = pa, *b = pb;

	return COMPARE(a->address, b->address);
}

static void read_slots(Elf *elf, struct slots *slots, struct symbol_names *names)
{
	unsigned sections = 0;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA &&
		    header.sh_flags & SHF_ALLOC && sections++ < SECTIONS_MAX)
			read_relocations(elf, section, &header, slots, names);
	}
	if (slots->count)
		qsort(slots->items, slots->count, sizeof(*slots->items), compare_slots);
}

/* Finds the slot that the n bytes of code jump through: FF /4 with a RIP-relative operand. */
static bool entry_slot(const uint8_t *bytes, size_t n, uint64_t address, uint64_t *slot)
{
	for (size_t i = 0; i + 6 <= n; i++) {
		if (bytes[i] != 0xff || bytes[i + 1] != 0x25)
			continue;
		*slot = address + i + 6 + (uint64_t)(int64_t)(int32_t)load_le32(bytes + i + 2);
		return true;
	}
	return false;
}

/* A function whose implementation is chosen at load time gets the name of its resolver. */
static size_t resolver_name(uint64_t resolver, const struct symbol_ranges *symbols,
			    struct symbol_names *names)
{
	struct symbol_range key = {.start = resolver};
	const struct symbol_range *range = NULL;
	char text[SYMBOL_NAME_MAX];

	if (symbols->count)
		range = bsearch(&key, symbols->items, symbols->count, sizeof(key), compare_starts);
	if (range)
		snprintf(text, sizeof(text), "%s", names->bytes + range->name);
	else
		snprintf(text, sizeof(text), "fn_%llx", (unsigned long long)resolver);
	return symbol_names_add(names, text, "@plt");
}

/* Linkers of before 2017 leave sh_entsize of .plt.got 0. */
static size_t entry_size(const GElf_Shdr *header)
{
	uint64_t size = header->sh_entsize ? header->sh_entsize : header->sh_addralign;

	return size == 8 ? 8 : ENTRY_MAX;
}

static void add_entries(const struct slots *slots, Elf_Data *data, const GElf_Shdr *header,
			size_t size, struct symbol_ranges *plt, const struct symbol_ranges *symbols,
			struct symbol_names *names)
{
	const uint8_t *bytes = data->d_buf;

	for (size_t at = 0; data->d_size - at >= size && bytes; at += size) {
		struct slot key = {0};
		const struct slot *slot;
		uint64_t start = header->sh_addr + at;

		if (!entry_slot(bytes + at, size, start, &key.address) || !slots->count)
			continue;
		slot = bsearch(&key, slots->items, slots->count, sizeof(key), compare_slots);
		if (!slot)
			continue;
		symbol_ranges_add(
		    plt, (struct symbol_range){
			     .start = start,
			     .end = start + size,
			     .head = start,
			     .size = size,
			     .name = slot->resolver ? resolver_name(slot->resolver, symbols, names)
						    : slot->name,
			     .flags = PTAH_FUNCTION_STUB,
			     .named = true,
			 });
	}
}

void symbol_add_plt(Elf *elf, struct symbol_ranges *plt, struct symbol_ranges *tables,
		    const struct symbol_ranges *symbols, struct symbol_names *names)
{
	struct slots slots = {0};
	Elf_Data *strings = symbol_section_names(elf);
	unsigned sections = 0;

	read_slots(elf, &slots, names);
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (strncmp(name, ".plt", 4) != 0 || ++sections > SECTIONS_MAX)
			continue;
		symbol_ranges_add(tables, (struct symbol_range){
					      .start = header.sh_addr,
					      .end = header.sh_addr + header.sh_size,
					      .head = header.sh_addr,
					      .size = header.sh_size,
					      .name = symbol_names_add(names, name, ""),
					      .flags = PTAH_FUNCTION_STUB,
					  });
		data = elf_getdata(section, NULL);
		if (data)
			add_entries(&slots, data, &header, entry_size(&header), plt, symbols,
				    names);
	}
	free(slots.items);
}
