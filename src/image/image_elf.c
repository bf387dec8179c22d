/* SPDX-License-Identifier: MIT */
/* Adds the loadable segments of an ELF file to an image. */
#include "image/image_access.h"

#include <ptah/image.h>

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <unistd.h>

/* Finds the lowest address of a PT_LOAD. The caller's `base` is the address that replaces it. */
static bool lowest_address(Elf *elf, size_t segments, uint64_t *lowest)
{
	bool found = false;

	for (size_t i = 0; i < segments; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		if (!found || ph.p_vaddr < *lowest)
			*lowest = ph.p_vaddr;
		found = true;
	}
	return found;
}

static int add_segments(struct ptah_image *image, Elf *elf, const char *path, uint64_t base,
			const struct ptah_space *space)
{
	uint64_t lowest = 0;
	size_t segments;
	int added = 0;

	if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &segments) < 0)
		return PTAH_E_BAD_MAGIC;
	if (!lowest_address(elf, segments, &lowest))
		return PTAH_E_BAD_FILE;
	for (size_t i = 0; i < segments; i++) {
		GElf_Phdr ph;
		int status;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return PTAH_E_BAD_FILE;
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || !ph.p_filesz)
			continue;
		status =
		    ptah_image_add_file(image, path, ph.p_offset, ph.p_filesz,
					base ? base + (ph.p_vaddr - lowest) : ph.p_vaddr, space);
		if (status < 0)
			return status;
		added++;
	}
	return added ? 0 : PTAH_E_BAD_FILE;
}

int ptah_image_add_elf(struct ptah_image *image, const char *path, uint64_t base,
		       const struct ptah_space *space)
{
	Elf *elf;
	int fd, status;

	if (!image || !path)
		return PTAH_E_INVAL;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return PTAH_E_UNSUPPORTED;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	status = elf ? add_segments(image, elf, path, base, space) : PTAH_E_BAD_MAGIC;
	elf_end(elf);
	close(fd);
	return status;
}
