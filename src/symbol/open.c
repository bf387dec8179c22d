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

/* Is it an x86-64 file, without so many sections that elf_begin() would allocate gigabytes? */
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
static bool take(uint64_t *left, uint64_t n)
{
	if (n > *left)
		return false;
	*left -= n;
	return true;
}

/* Is all that this layer or libelf may read bounded? .bss and debug information are not read. */
static bool is_bounded(Elf *elf)
{
	uint64_t left = BYTES_MAX;
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0 || n > SYMBOL_SEGMENTS_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_NOTE &&
		    !take(&left, ph.p_filesz))
			return false;
	}
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS ||
		    (header.sh_type == SHT_PROGBITS && !(header.sh_flags & SHF_ALLOC)))
			continue;
		if (!take(&left, header.sh_size))
			return false;
	}
	return true;
}

bool symbol_elf_open(const char *path, struct symbol_elf *elf)
{
	struct stat st;

	*elf = (struct symbol_elf){.fd = -1};
	/* A mapped path may be a device, and opening some devices has effects. */
	if (elf_version(EV_CURRENT) == EV_NONE || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	elf->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (elf->fd < 0)
		return false;
	/* The file is read, not mapped, because it may shrink meanwhile. */
	if (fstat(elf->fd, &st) == 0 && S_ISREG(st.st_mode) && has_good_header(elf->fd))
		elf->elf = elf_begin(elf->fd, ELF_C_READ, NULL);
	if (elf->elf && elf_kind(elf->elf) == ELF_K_ELF && is_bounded(elf->elf))
		return true;
	symbol_elf_close(elf);
	return false;
}

void symbol_elf_close(struct symbol_elf *elf)
{
	elf_end(elf->elf);
	if (elf->fd >= 0)
		close(elf->fd);
	*elf = (struct symbol_elf){.fd = -1};
}
