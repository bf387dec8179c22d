/* SPDX-License-Identifier: MIT */
/* Finds out from the symbols that a QEMU exports whether it can load the plugin ptah-system.so. */
#include "record/vm/qemu_check.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/system/host.h"
#include "record/vm/elf_symbols.h"

#include <stdio.h>
#include <string.h>

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

static void mark(void *context, const char *name, const GElf_Sym *symbol)
{
	bool *found = context;

	(void)symbol;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(name, symbols[i].name) ||
		    (symbols[i].newer && !strcmp(name, symbols[i].newer)))
			found[i] = true;
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

int qemu_check(const char *path, struct ptah_message *why)
{
	bool found[ARRAY_SIZE(symbols)] = {false};

	return elf_symbols(path, SHT_DYNSYM, mark, found) ? judge(found, path, why) : 0;
}
