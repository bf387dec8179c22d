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
#include "image/pe.h"

#include "base/bits.h"
#include "image/image_access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
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

/* Takes an executable section. 1, 0: it has no code, or an error. */
static int take_pe_section(const uint8_t *section, uint64_t base, struct pe_section *taken)
{
	const uint32_t in_memory = load_le32(section + 8), address = load_le32(section + 12);
	const uint32_t in_file = load_le32(section + 16), offset = load_le32(section + 20);
	uint32_t size = in_file;

	/* What the file has beyond the section's size in memory is padding, and not loaded. */
	if (in_memory && in_memory < size)
		size = in_memory;
	if (!(load_le32(section + 36) & MEM_EXECUTE) || !size)
		return 0;
	if (base > UINT64_MAX - address || base + address > UINT64_MAX - size)
		return PTAH_E_BAD_FILE;
	*taken = (struct pe_section){base + address, size, offset};
	return 1;
}

static int read_sections(int fd, uint64_t base, struct pe_section sections[SECTIONS_MAX])
{
	uint8_t dos[DOS_HEADER], coff[COFF_HEADER], optional[OPTIONAL_HEADER];
	uint64_t at;
	unsigned count;
	int n = 0;

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
			status = take_pe_section(section, base ? base : image_base(optional),
						 &sections[n]);
		if (status < 0)
			return status;
		n += status;
	}
	return n ? n : PTAH_E_BAD_FILE;
}

int pe_sections(const char *path, uint64_t base, struct pe_section **sections)
{
	struct pe_section *found;
	int fd, n;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	found = calloc(SECTIONS_MAX, sizeof(*found));
	n = found ? read_sections(fd, base, found) : PTAH_E_NOMEM;
	close(fd);
	if (n < 0) {
		free(found);
		found = NULL;
	}
	*sections = found;
	return n;
}

int image_add_pe(struct ptah_image *image, const char *path, uint64_t base,
		 const struct ptah_space *space)
{
	struct pe_section *sections;
	int n, status = 0;

	if (!image || !path)
		return PTAH_E_INVAL;
	n = pe_sections(path, base, &sections);
	if (n < 0)
		return n;
	for (int i = 0; i < n && status >= 0; i++)
		status = ptah_image_add_file(image, path, sections[i].offset, sections[i].size,
					     sections[i].address, space);
	free(sections);
	return status;
}
