/* SPDX-License-Identifier: MIT */
/*
 * Opens untrusted ELF files. libelf allocates what the headers claim, and a sparse
 * file can back any claim at no cost; so the claims are added up and checked before
 * anything is read.
 */
#include "base/bits.h"
#include "symbol/elf.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than any real file has: browsers with full symbol tables need less than half. */
#define SECTIONS_MAX ((uint64_t)1 << 18)
#define BYTES_MAX    ((uint64_t)1 << 30)

/* The same for files with debug information, and how much larger it may be when decompressed. */
#define DWARF_FILE_MAX	((uint64_t)1 << 35)
#define DWARF_BYTES_MAX ((uint64_t)1 << 33)
#define DWARF_RATIO_MAX 32

/*
 * Whether it is an x86-64 file, without so many sections that elf_begin() would allocate gigabytes.
 */
static bool has_good_header(int fd)
{
	uint8_t header[sizeof(Elf64_Ehdr)], first[sizeof(Elf64_Shdr)];
	uint64_t table;

	if (pread(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header, ELFMAG, SELFMAG) != 0 || header[EI_CLASS] != ELFCLASS64 ||
	    header[EI_DATA] != ELFDATA2LSB ||
	    load_le16(header + offsetof(Elf64_Ehdr, e_machine)) != EM_X86_64)
		return false;
	table = load_le64(header + offsetof(Elf64_Ehdr, e_shoff));
	if (!table || load_le16(header + offsetof(Elf64_Ehdr, e_shnum)))
		return true;
	/* A count that does not fit into the ELF header is in the first section header. */
	return table <= INT64_MAX &&
	       pread(fd, first, sizeof(first), (off_t)table) == (ssize_t)sizeof(first) &&
	       load_le64(first + offsetof(Elf64_Shdr, sh_size)) <= SECTIONS_MAX;
}

/* Subtracts n bytes from *left. False when it is less. */
static bool subtract_budget(uint64_t *left, uint64_t n)
{
	if (n > *left)
		return false;
	*left -= n;
	return true;
}

/*
 * Whether all that this layer or libelf may read is bounded. .bss and debug information are not
 * read.
 */
static bool is_bounded(Elf *elf)
{
	uint64_t left = BYTES_MAX;
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0 || n > SYMBOL_SEGMENTS_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_NOTE &&
		    !subtract_budget(&left, ph.p_filesz))
			return false;
	}
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS ||
		    (header.sh_type == SHT_PROGBITS && !(header.sh_flags & SHF_ALLOC)))
			continue;
		if (!subtract_budget(&left, header.sh_size))
			return false;
	}
	return true;
}

/* The size that a section has when it is decompressed; 0 when it is not compressed. */
static uint64_t decompressed_size(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
				  const char *name)
{
	GElf_Chdr compressed;
	Elf_Data *data;
	uint64_t size = 0;

	if (header->sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(section, &compressed) ? compressed.ch_size : UINT64_MAX;
	if (strncmp(name, ".zdebug", 7) != 0)
		return 0;
	/* The old way of GNU: "ZLIB" and the size, the highest byte first. */
	data = elf_getdata_rawchunk(elf, (int64_t)header->sh_offset, 12, ELF_T_BYTE);
	for (unsigned i = 4; data && i < 12; i++)
		size = size << 8 | ((const uint8_t *)data->d_buf)[i];
	return data ? size : UINT64_MAX;
}

bool symbol_dwarf_is_bounded(const struct symbol_elf *elf)
{
	Elf_Data *strings = symbol_section_names(elf->elf);
	struct stat st;
	uint64_t left;

	if (fstat(elf->fd, &st) < 0 || (uint64_t)st.st_size > DWARF_FILE_MAX)
		return false;
	left = (uint64_t)st.st_size * DWARF_RATIO_MAX;
	left = left < DWARF_BYTES_MAX ? left : DWARF_BYTES_MAX;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header;
		char name[16];

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (!subtract_budget(&left, decompressed_size(elf->elf, section, &header, name)))
			return false;
	}
	return true;
}

static bool open_as(const char *path, Elf_Cmd command, struct symbol_elf *elf)
{
	struct stat st;

	*elf = (struct symbol_elf){.fd = -1};
	/* A mapped path may be a device, and opening some devices has effects. */
	if (elf_version(EV_CURRENT) == EV_NONE || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	elf->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (elf->fd < 0)
		return false;
	if (fstat(elf->fd, &st) == 0 && S_ISREG(st.st_mode) && has_good_header(elf->fd))
		elf->elf = elf_begin(elf->fd, command, NULL);
	if (elf->elf && elf_kind(elf->elf) == ELF_K_ELF && is_bounded(elf->elf))
		return true;
	symbol_elf_close(elf);
	return false;
}

/* The file is read, not mapped, because it may shrink meanwhile. */
bool symbol_elf_open(const char *path, struct symbol_elf *elf)
{
	return open_as(path, ELF_C_READ, elf);
}

/* Debug information is mapped: libdw would read all of it, of which little is needed. */
bool symbol_elf_map(const char *path, struct symbol_elf *elf)
{
	return open_as(path, ELF_C_READ_MMAP, elf);
}

void symbol_elf_close(struct symbol_elf *elf)
{
	elf_end(elf->elf);
	if (elf->fd >= 0)
		close(elf->fd);
	*elf = (struct symbol_elf){.fd = -1};
}
