/* SPDX-License-Identifier: MIT */
/* Reads the build id of an ELF file from its notes. */
#include "perfdata/build_id.h"

#include <ptah/base.h>

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More notes than this are not read: real ones are small. */
#define NOTES_MAX (1u << 20)

static bool find_in_notes(Elf_Data *notes, struct perfdata_build_id *id)
{
	size_t at = 0, next, name, desc;
	GElf_Nhdr note;

	while ((next = gelf_getnote(notes, at, &note, &name, &desc)) > 0) {
		const char *bytes = notes->d_buf;

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(bytes + name, "GNU", 4) && note.n_descsz > 0) {
			size_t size = note.n_descsz;

			if (size > sizeof(id->bytes))
				size = sizeof(id->bytes);
			memcpy(id->bytes, bytes + desc, size);
			id->size = (uint8_t)size;
			return true;
		}
		at = next;
	}
	return false;
}

static void find_in_elf(Elf *elf, struct perfdata_build_id *id)
{
	size_t n;

	if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &n) < 0)
		return;
	for (size_t i = 0; i < n && i < 65536; i++) {
		Elf_Data *notes;
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE ||
		    ph.p_filesz > NOTES_MAX)
			continue;
		notes = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
					     ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (notes && find_in_notes(notes, id))
			return;
	}
}

int perfdata_build_id_read(const char *path, struct perfdata_build_id *id)
{
	struct stat st;
	Elf *elf;
	int fd;

	*id = (struct perfdata_build_id){0};
	if (elf_version(EV_CURRENT) == EV_NONE)
		return 0;
	/* Non-blocking, because the path of a mapped file may be a fifo by now. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return PTAH_E_SYSTEM;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		elf = elf_begin(fd, ELF_C_READ, NULL);
		if (elf) {
			find_in_elf(elf, id);
			elf_end(elf);
		}
	}
	close(fd);
	return 0;
}

const char *perfdata_build_id_text(const struct perfdata_build_id *id, char *text)
{
	*text = 0;
	for (size_t i = 0; i < id->size; i++)
		sprintf(text + 2 * i, "%02x", id->bytes[i]);
	return text;
}
