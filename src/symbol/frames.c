/* SPDX-License-Identifier: MIT */
/*
 * Reads function bounds from .eh_frame, which even stripped files have (System V
 * ABI AMD64, section "DWARF Definition", and the Linux Standard Base, "Exception
 * Frames"). Each FDE covers one function, or the cold part of one.
 */
#include "base/reader.h"
#include "symbol/elf.h"

#include <stdio.h>
#include <string.h>

/* Encodings of pointers (DW_EH_PE_...). */
enum {
	ENCODING_ABSPTR = 0x00,
	ENCODING_UDATA2 = 0x02,
	ENCODING_UDATA4 = 0x03,
	ENCODING_UDATA8 = 0x04,
	ENCODING_SDATA2 = 0x0a,
	ENCODING_SDATA4 = 0x0b,
	ENCODING_SDATA8 = 0x0c,
	ENCODING_FORMAT = 0x0f,
	ENCODING_PCREL = 0x10,
	ENCODING_RELATIVE = 0x70, /* mask: what the pointer is relative to */
	ENCODING_INDIRECT = 0x80,
	ENCODING_UNKNOWN = 0xff,
};

#define CIE_MAX 256

/* Reads an encoded pointer. What it is relative to is not added yet. */
static uint64_t read_pointer(struct reader *r, unsigned encoding)
{
	switch (encoding & ENCODING_FORMAT) {
	case ENCODING_ABSPTR:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		return reader_u64(r);
	case ENCODING_UDATA4:
		return reader_u32(r);
	case ENCODING_SDATA4:
		return (uint64_t)(int64_t)(int32_t)reader_u32(r);
	case ENCODING_UDATA2:
		return reader_u16(r);
	case ENCODING_SDATA2:
		return (uint64_t)(int64_t)(int16_t)reader_u16(r);
	default:
		r->failed = true;
		return 0;
	}
}

/* Call frame instructions (DW_CFA_...). */
enum {
	CFA_NOP = 0x00,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_ARGUMENTS_SIZE = 0x2e,
	CFA_OFFSET = 0x80, /* mask 0xc0, with a register */
};

enum {
	REGISTER_RSP = 7,
	/* Where rsp points at the entry of a function, and of one that a linkage table jumps to. */
	ENTRY_OFFSET = 8,
	LINKAGE_OFFSET = 24,
};

/*
 * The canonical frame address at one instruction: so far above a register (System V ABI AMD64,
 * "Call Frame Information").
 */
struct cfa {
	uint64_t reg, offset;
};

/*
 * Carries out the instructions for the first byte of a frame. Those of the CIE come first; an
 * assembler may put there what the first of its FDEs begins with.
 */
static void run_cfa(struct reader *r, struct cfa *cfa)
{
	while (r->p < r->end && !r->failed) {
		unsigned op = reader_u8(r);

		if ((op & 0xc0) == CFA_OFFSET)
			op = CFA_SAME_VALUE; /* one operand, too */
		switch (op) {
		case CFA_NOP:
		case CFA_REMEMBER_STATE:
			break;
		case CFA_DEF_CFA:
			cfa->reg = reader_uleb(r);
			cfa->offset = reader_uleb(r);
			break;
		case CFA_DEF_CFA_REGISTER:
			cfa->reg = reader_uleb(r);
			break;
		case CFA_DEF_CFA_OFFSET:
			cfa->offset = reader_uleb(r);
			break;
		case CFA_OFFSET_EXTENDED:
			reader_uleb(r);
			reader_uleb(r);
			break;
		case CFA_UNDEFINED:
		case CFA_SAME_VALUE:
		case CFA_ARGUMENTS_SIZE:
			reader_uleb(r);
			break;
		default: /* nearly always one that moves on to the second byte */
			return;
		}
	}
}

struct frames {
	const uint8_t *bytes;
	size_t size;
	uint64_t address;
	bool linker;
	uint64_t cie; /* offset of the CIE that the following belongs to */
	unsigned encoding;
	bool sized;  /* the FDEs say how long their augmentation is */
	bool signal; /* the frames are of signal handlers */
	struct cfa cfa;
};

/* The reader n bytes further on. */
static struct reader skipped(struct reader *r, uint64_t n)
{
	struct reader rest = *r;

	reader_bytes(&rest, n);
	return rest;
}

/* Reads a CIE's augmentation: "R" is the encoding of addresses in its FDEs. */
static unsigned cie_encoding(struct frames *f, struct reader *r)
{
	unsigned version = reader_u8(r), encoding = ENCODING_ABSPTR;
	struct reader rest = {0};
	size_t n;
	const char *augmentation = reader_string(r, &n);

	reader_uleb(r); /* code alignment */
	reader_uleb(r); /* data alignment */
	if (version == 1)
		reader_u8(r); /* return address register */
	else
		reader_uleb(r);
	f->sized = n && augmentation[0] == 'z';
	f->signal = memchr(augmentation, 'S', n);
	for (size_t i = 0; i < n; i++) {
		if (augmentation[i] == 'z')
			rest = skipped(r, reader_uleb(r));
		else if (augmentation[i] == 'R')
			encoding = reader_u8(r);
		else if (augmentation[i] == 'L')
			reader_u8(r);
		else if (augmentation[i] == 'P')
			read_pointer(r, reader_u8(r));
		else if (!strchr("SB", augmentation[i]))
			return ENCODING_UNKNOWN;
	}
	if (r->failed)
		return ENCODING_UNKNOWN;
	f->cfa = (struct cfa){REGISTER_RSP, ENTRY_OFFSET};
	if (f->sized)
		*r = rest;
	run_cfa(r, &f->cfa);
	return encoding;
}

/* Returns the entry at *at without its length, and moves *at to the next one. False at the end. */
static bool next_entry(const struct frames *f, size_t *at, struct reader *entry)
{
	struct reader r = {f->bytes + *at, f->bytes + f->size, false};
	uint64_t length = reader_u32(&r);

	if (length == UINT32_MAX)
		length = reader_u64(&r);
	entry->p = reader_bytes(&r, length);
	if (r.failed || !length)
		return false;
	entry->end = r.p;
	entry->failed = false;
	*at = (size_t)(r.p - f->bytes);
	return true;
}

/* The encoding of the CIE at `offset`. The last one is remembered, as a CIE has many FDEs. */
static unsigned find_encoding(struct frames *f, uint64_t offset)
{
	struct reader entry;
	size_t at = (size_t)offset;

	if (offset == f->cie)
		return f->encoding;
	if (offset >= f->size || !next_entry(f, &at, &entry) || reader_u32(&entry) != 0)
		return ENCODING_UNKNOWN;
	/* Only the short first part of a CIE is needed. A huge CIE would only cost time. */
	if (entry.end - entry.p > CIE_MAX)
		entry.end = entry.p + CIE_MAX;
	f->cie = offset;
	f->encoding = cie_encoding(f, &entry);
	return f->encoding;
}

/* What the frame says of the code: only that of a function begins with rsp as a call leaves it. */
static unsigned frame_flags(const struct frames *f, struct reader *entry)
{
	struct cfa cfa = f->cfa;

	if (f->sized)
		reader_bytes(entry, reader_uleb(entry));
	run_cfa(entry, &cfa);
	if (f->signal || entry->failed)
		return PTAH_FUNCTION_FRAME;
	if (f->linker && cfa.reg == REGISTER_RSP && cfa.offset == LINKAGE_OFFSET)
		return PTAH_FUNCTION_FRAME | PTAH_FUNCTION_RESOLVER;
	return cfa.reg == REGISTER_RSP && cfa.offset == ENTRY_OFFSET
		   ? PTAH_FUNCTION_FRAME
		   : PTAH_FUNCTION_FRAME | PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT;
}

static void add_frame(struct frames *f, struct reader *entry, uint64_t cie,
		      struct symbol_ranges *ranges)
{
	unsigned encoding = find_encoding(f, cie);
	uint64_t place = f->address + (uint64_t)(entry->p - f->bytes), start, size;

	if (encoding & ENCODING_INDIRECT)
		return;
	start = read_pointer(entry, encoding);
	size = read_pointer(entry, encoding & ENCODING_FORMAT);
	if ((encoding & ENCODING_RELATIVE) == ENCODING_PCREL)
		start += place;
	else if (encoding & ENCODING_RELATIVE)
		return;
	if (entry->failed || !start || start + size <= start)
		return;
	symbol_ranges_add(ranges, (struct symbol_range){
				      .start = start,
				      .end = start + size,
				      .head = start,
				      .size = size,
				      .name = SYMBOL_NO_NAME,
				      .flags = (uint16_t)frame_flags(f, entry),
				  });
}

static void read_frames(struct frames *f, struct symbol_ranges *ranges)
{
	struct reader entry;
	size_t at = 0;

	while (at < f->size && next_entry(f, &at, &entry)) {
		uint64_t here = (uint64_t)(entry.p - f->bytes);
		uint32_t back = reader_u32(&entry);

		/* In .eh_frame an FDE has the distance back to its CIE; 0 marks a CIE. */
		if (back && back <= here && !entry.failed)
			add_frame(f, &entry, here - back, ranges);
	}
}

void symbol_add_frames(Elf *elf, bool linker, struct symbol_ranges *ranges)
{
	Elf_Data *strings = symbol_section_names(elf);

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (strcmp(name, ".eh_frame") != 0)
			continue;
		data = elf_getdata(section, NULL);
		if (data && data->d_buf) {
			struct frames f = {.bytes = data->d_buf,
					   .size = data->d_size,
					   .address = header.sh_addr,
					   .linker = linker,
					   .cie = UINT64_MAX,
					   .encoding = ENCODING_UNKNOWN};

			read_frames(&f, ranges);
		}
		return;
	}
}

void symbol_name_frames(struct symbol_ranges *ranges, struct symbol_names *names)
{
	char hex[24];

	for (size_t i = 0; i < ranges->count; i++) {
		struct symbol_range *r = &ranges->items[i];

		if (r->name != SYMBOL_NO_NAME)
			continue;
		snprintf(hex, sizeof(hex), "%llx", (unsigned long long)r->head);
		r->name = symbol_names_add(names, "fn_", hex);
	}
}
