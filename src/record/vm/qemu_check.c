/* SPDX-License-Identifier: MIT */
/* Finds out from the symbols that a QEMU exports whether it can load the plugin ptah-system.so. */
#include "record/vm/qemu_check.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/system/host.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * What the plugin calls. The functions of QEMU's plugin interface are exported by every QEMU that
 * was configured with plugins; the others only by one that was configured with modules, which then
 * exports all that it has.
 */
static const struct symbol {
	const char *name, *newer; /* NULL: it has no newer name */
} symbols[] = {{"qemu_plugin_register_vcpu_tb_exec_cb", NULL},
	       {"current_cpu", NULL},
#define X(result, member, parameters, name, newer) {name, newer},
	       HOST_FUNCTIONS(X)
#undef X
#define X(type, member, name, newer) {name, newer},
		   HOST_VARIABLES(X)
#undef X
};

#define PLUGIN_INTERFACE 0 /* the first one */

static bool is_glibs(const char *name)
{
	return !strncmp(name, "g_", 2);
}

static void mark(bool *found, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(name, symbols[i].name) ||
		    (symbols[i].newer && !strcmp(name, symbols[i].newer)))
			found[i] = true;
}

static void mark_section(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, bool *found)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const size_t n = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
	GElf_Sym symbol;

	for (size_t i = 0; i < n && i < INT32_MAX; i++) {
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (name)
			mark(found, name);
	}
}

static int judge(const bool *found, const char *path, struct ptah_message *why)
{
	char missing[512] = "";
	size_t count = 0, n = 0, inner = 0;

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		if (i == PLUGIN_INTERFACE || is_glibs(symbols[i].name))
			continue;
		inner++;
		if (found[i])
			continue;
		count++;
		if (n < sizeof(missing))
			n += (size_t)snprintf(missing + n, sizeof(missing) - n, " %s",
					      symbols[i].name);
	}
	if (!found[PLUGIN_INTERFACE])
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: this QEMU was built without plugins (configure "
					"--enable-plugins); that of Debian 12 and later has them",
					path);
	if (count == inner)
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: this QEMU exports the functions of its plugin "
					"interface alone, because it was built without modules "
					"(configure --enable-modules); that of Debian 12 and later "
					"has them",
					path);
	if (count)
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: this QEMU does not export%s; 7.2 and 10.0 are known "
					"to work",
					path, missing);
	return 0;
}

static int check_program(Elf *elf, const char *path, struct ptah_message *why)
{
	bool found[ARRAY_SIZE(symbols)] = {false};
	GElf_Shdr header;

	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
	     section = elf_nextscn(elf, section))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
			mark_section(elf, section, &header, found);
	return judge(found, path, why);
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
