/* SPDX-License-Identifier: MIT */
/*
 * Bounds the time that reading lists of ranges takes. Any number of entries may refer to one list,
 * and libdw passes over its empty ranges without a return; so the lists are measured before.
 */
#include "base/reader.h"
#include "symbol/debug.h"

#include <dwarf.h>
#include <string.h>

/* Compilers write a list for each entry: together they are as long as the section. */
#define TIMES 8
#define EXTRA ((uint64_t)1 << 20)

void symbol_range_lists_init(struct symbol_range_lists *lists, Dwarf *dwarf)
{
	Elf *elf = dwarf_getelf(dwarf);
	Elf_Data *strings = symbol_section_names(elf);

	*lists = (struct symbol_range_lists){.left = EXTRA};
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[32];
		Elf_Data *data;
		unsigned i;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (strstr(name, "debug_rnglists"))
			i = 1;
		else if (strstr(name, "debug_ranges"))
			i = 0;
		else
			continue;
		data = elf_getdata(section, NULL);
		if (!data || !data->d_buf)
			continue;
		lists->sections[i] = (struct symbol_section){data->d_buf, data->d_size};
		lists->left += TIMES * data->d_size;
	}
}

static void skip_address(struct reader *r, unsigned size)
{
	reader_bytes(r, size);
}

/* Skips an entry of DWARF 5, section 2.17.3. False: it is the last. */
static bool skip_new(struct reader *r, unsigned address_size)
{
	switch (reader_u8(r)) {
	case DW_RLE_base_addressx:
		reader_uleb(r);
		return true;
	case DW_RLE_startx_endx:
	case DW_RLE_startx_length:
	case DW_RLE_offset_pair:
		reader_uleb(r);
		reader_uleb(r);
		return true;
	case DW_RLE_base_address:
		skip_address(r, address_size);
		return true;
	case DW_RLE_start_end:
		skip_address(r, address_size);
		skip_address(r, address_size);
		return true;
	case DW_RLE_start_length:
		skip_address(r, address_size);
		reader_uleb(r);
		return true;
	default:
		return false;
	}
}

/* The same of the versions before: two addresses, of which the last are 0. */
static bool skip_old(struct reader *r, unsigned address_size)
{
	const uint8_t *pair = reader_bytes(r, 2 * (uint64_t)address_size);
	uint8_t any = 0;

	for (unsigned i = 0; pair && i < 2 * address_size; i++)
		any |= pair[i];
	return any;
}

bool symbol_range_lists_take(struct symbol_range_lists *lists, Dwarf_Die *die)
{
	const struct symbol_section *section;
	Dwarf_Attribute attribute;
	uint8_t address_size = 8;
	Dwarf_Half version = 4;
	struct reader r = {0};
	Dwarf_Word offset;

	if (!dwarf_attr(die, DW_AT_ranges, &attribute) ||
	    dwarf_formudata(&attribute, &offset) < 0 ||
	    dwarf_cu_info(die->cu, &version, NULL, NULL, NULL, NULL, &address_size, NULL) < 0)
		return true;
	section = &lists->sections[version >= 5];
	if (!section->bytes || offset >= section->size)
		return true;
	r.p = section->bytes + offset;
	r.end = section->bytes + section->size;
	while (!r.failed &&
	       (version >= 5 ? skip_new(&r, address_size) : skip_old(&r, address_size)))
		if ((uint64_t)(r.p - section->bytes) - offset > lists->left)
			return false;
	lists->left -= (uint64_t)(r.p - section->bytes) - offset < lists->left
			   ? (uint64_t)(r.p - section->bytes) - offset
			   : lists->left;
	return true;
}
