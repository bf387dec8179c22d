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

/* The ELF file's bytes: in a file, or in memory. */
struct source {
	const char *path;
	const uint8_t *bytes;
	size_t size;
	uint64_t base;
	const struct ptah_space *space;
};

static int add_elf_segment(struct ptah_image *image, const struct source *from, const GElf_Phdr *ph,
			   uint64_t address)
{
	if (from->path)
		return ptah_image_add_file(image, from->path, ph->p_offset, ph->p_filesz, address,
					   from->space);
	if (ph->p_offset >= from->size)
		return PTAH_E_BAD_FILE;
	return ptah_image_add_bytes(image, from->bytes + ph->p_offset,
				    ph->p_filesz < from->size - ph->p_offset
					? (size_t)ph->p_filesz
					: (size_t)(from->size - ph->p_offset),
				    address, from->space);
}

static int add_segments(struct ptah_image *image, Elf *elf, const struct source *from)
{
	const uint64_t base = from->base;
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
		status = add_elf_segment(image, from, &ph,
					 base ? base + (ph.p_vaddr - lowest) : ph.p_vaddr);
		if (status < 0)
			return status;
		added++;
	}
	return added ? 0 : PTAH_E_BAD_FILE;
}

int ptah_image_add_elf(struct ptah_image *image, const char *path, uint64_t base,
		       const struct ptah_space *space)
{
	const struct source from = {.path = path, .base = base, .space = space};
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
	status = elf ? add_segments(image, elf, &from) : PTAH_E_BAD_MAGIC;
	elf_end(elf);
	close(fd);
	return status;
}

int image_add_elf_bytes(struct ptah_image *image, const void *bytes, size_t size, uint64_t base,
			const struct ptah_space *space)
{
	const struct source from = {.bytes = bytes, .size = size, .base = base, .space = space};
	Elf *elf;
	int status;

	if (!image || !bytes || !size)
		return PTAH_E_INVAL;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return PTAH_E_UNSUPPORTED;
	/* libelf asks for a writable buffer and does not write to it. */
	elf = elf_memory((char *)(uintptr_t)bytes, size);
	status = elf ? add_segments(image, elf, &from) : PTAH_E_BAD_MAGIC;
	elf_end(elf);
	return status;
}
