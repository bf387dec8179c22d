/* SPDX-License-Identifier: MIT */
/* What differs between the versions of QEMU's plugin interface. Both plugins are linked with it. */
#include "record/qemu/plugin/qemu_api.h"

#include <dlfcn.h>

/*
 * The version that QEMU compares with its own when it has loaded the plugin. By then the function
 * below has adapted it: a QEMU whose interface is of version 2 or later has functions that earlier
 * ones have not, and does not accept version 1.
 */
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static int version; /* of QEMU */
static size_t (*copy_insn)(const struct qemu_plugin_insn *insn, void *bytes, size_t n);

__attribute__((constructor)) static void choose_version(void)
{
	if (dlsym(RTLD_DEFAULT, "qemu_plugin_get_registers"))
		qemu_plugin_version = 2;
}

void qemu_api_init(const struct qemu_info *info)
{
	version = info->version.cur;
	*(void **)&copy_insn = dlsym(RTLD_DEFAULT, "qemu_plugin_insn_data");
}

const uint8_t *qemu_api_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *buffer, size_t *n)
{
	const size_t size = qemu_plugin_insn_size(insn);

	if (size < *n)
		*n = size;
	if (version < 3)
		return qemu_plugin_insn_data(insn);
	*n = copy_insn(insn, buffer, *n);
	return buffer;
}
