/* SPDX-License-Identifier: MIT */
/*
 * Adds the executable sections of a PE file (a Windows program, DLL or driver) to an image.
 *
 * Relocations are not applied: they change operands, never the length of an instruction or the
 * distance of a relative branch, so that the path through the code is the same.
 *
 * Source: Microsoft's "PE Format": "MS-DOS Stub", "COFF File Header", "Optional Header", "Section
 * Table".
 */
#include <ptah/image.h>

#include "base/bits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#define DOS_HEADER	64
#define COFF_HEADER	24 /* with the signature before it */
#define OPTIONAL_HEADER 32 /* up to ImageBase, which both forms have by then */
#define SECTION_HEADER	40
#define SECTIONS_MAX	96 /* the Windows loader takes no more */

#define PE32	  0x10b
#define PE32_PLUS 0x20b

#define MEM_EXECUTE 0x20000000u

static bool read_at(int fd, void *bytes, size_t n, uint64_t offset)
{
	return offset <= INT64_MAX - n && pread(fd, bytes, n, (off_t)offset) == (ssize_t)n;
}

static uint64_t image_base(const uint8_t optional[OPTIONAL_HEADER])
{
	return load_le16(optional) == PE32_PLUS ? load_le64(optional + 24)
						: load_le32(optional + 28);
}

/* 1: the section was added, 0: it has no code, or an error. */
static int add_section(struct ptah_image *image, const char *path, const uint8_t *section,
		       uint64_t base, const struct ptah_space *space)
{
	const uint32_t in_memory = load_le32(section + 8), address = load_le32(section + 12);
	const uint32_t in_file = load_le32(section + 16), offset = load_le32(section + 20);
	uint32_t size = in_file;
	int status;

	/* What the file has beyond the section's size in memory is padding, and not loaded. */
	if (in_memory && in_memory < size)
		size = in_memory;
	if (!(load_le32(section + 36) & MEM_EXECUTE) || !size)
		return 0;
	if (base > UINT64_MAX - address || base + address > UINT64_MAX - size)
		return PTAH_E_BAD_FILE;
	status = ptah_image_add_file(image, path, offset, size, base + address, space);
	return status < 0 ? status : 1;
}

static int add_sections(struct ptah_image *image, const char *path, int fd, uint64_t base,
			const struct ptah_space *space)
{
	uint8_t dos[DOS_HEADER], coff[COFF_HEADER], optional[OPTIONAL_HEADER];
	uint64_t at;
	unsigned count;
	int added = 0;

	if (!read_at(fd, dos, sizeof(dos), 0) || load_le16(dos) != 0x5a4d) /* "MZ" */
		return PTAH_E_BAD_MAGIC;
	at = load_le32(dos + 60);
	if (!read_at(fd, coff, sizeof(coff), at) || load_le32(coff) != 0x4550) /* "PE\0\0" */
		return PTAH_E_BAD_MAGIC;
	count = load_le16(coff + 6);
	if (!count || count > SECTIONS_MAX ||
	    !read_at(fd, optional, sizeof(optional), at + COFF_HEADER) ||
	    (load_le16(optional) != PE32 && load_le16(optional) != PE32_PLUS))
		return PTAH_E_BAD_FILE;
	at += COFF_HEADER + load_le16(coff + 20);
	for (unsigned i = 0; i < count; i++) {
		uint8_t section[SECTION_HEADER];
		int status = PTAH_E_BAD_FILE;

		if (read_at(fd, section, sizeof(section), at + (uint64_t)SECTION_HEADER * i))
			status = add_section(image, path, section,
					     base ? base : image_base(optional), space);
		if (status < 0)
			return status;
		added += status;
	}
	return added ? 0 : PTAH_E_BAD_FILE;
}

int ptah_image_add_pe(struct ptah_image *image, const char *path, uint64_t base,
		      const struct ptah_space *space)
{
	int fd, status;

	if (!image || !path)
		return PTAH_E_INVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	status = add_sections(image, path, fd, base, space);
	close(fd);
	return status;
}
