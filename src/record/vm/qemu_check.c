/* SPDX-License-Identifier: MIT */
/* Finds out from the symbols that a QEMU exports whether it can load the plugin ptah-system.so. */
#include "record/vm/qemu_check.h"

#include "base/compiler.h"
#include "perfdata/message.h"

#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

/*
 * What tells the kinds of QEMU apart. The functions of QEMU's plugin interface are exported by
 * every QEMU that was configured with plugins; those of its x86 processors only by one that was
 * configured with modules, which then exports all functions.
 */
static const char plugin_function[] = "qemu_plugin_register_vcpu_tb_exec_cb";
static const char inner_function[] = "x86_cpu_exec_interrupt";

static bool defines(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const size_t n = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
	GElf_Sym symbol;

	for (size_t i = 0; i < n && i < INT32_MAX; i++) {
		const char *text;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		text = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (text && !strcmp(text, name))
			return true;
	}
	return false;
}

static bool exports(Elf *elf, const char *name)
{
	GElf_Shdr header;

	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
	     section = elf_nextscn(elf, section))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM &&
		    defines(elf, section, &header, name))
			return true;
	return false;
}

static int check_program(Elf *elf, const char *path, struct ptah_message *why)
{
	if (!exports(elf, plugin_function))
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: this QEMU was built without plugins (configure "
					"--enable-plugins); that of Debian 12 and later has them",
					path);
	if (!exports(elf, inner_function))
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: this QEMU exports the functions of its plugin "
					"interface alone (not %s), because it was built without "
					"modules (configure --enable-modules); that of Debian 12 "
					"and later has them",
					path, inner_function);
	return 0;
}

int qemu_check(const char *path, struct ptah_message *why)
{
	int status = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
	GElf_Ehdr header;
	Elf *elf;

	if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE)
		goto out;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
	    (header.e_type == ET_DYN || header.e_type == ET_EXEC))
		status = check_program(elf, path, why);
	elf_end(elf);
out:
	if (fd >= 0)
		close(fd);
	return status;
}
