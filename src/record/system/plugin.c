/* SPDX-License-Identifier: MIT */
/*
 * The plugin that gives a virtual machine Intel PT: installation, messages. It is built as a
 * module (ptah-system.so) that is linked with Zydis.
 */
#include "record/system/system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct system_plugin system_plugin;

static void say(const char *format, va_list arguments)
{
	char line[1536];

	vsnprintf(line, sizeof(line), format, arguments);
	fprintf(stderr, "ptah-system: %s\n", line);
}

void system_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void system_debug(const char *format, ...)
{
	va_list arguments;

	if (!system_plugin.arguments.verbose)
		return;
	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void system_no_memory(void)
{
	system_say("no memory");
	exit(1);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
	(void)id, (void)unused;
	outside_end();
}

static bool is_supported(const struct qemu_info *info)
{
	if (info->system_emulation && !strcmp(info->target_name, "x86_64"))
		return true;
	system_say("needs qemu-system-x86_64; this is a QEMU that emulates %s%s", info->target_name,
		   info->system_emulation ? "" : " programs");
	return false;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
							       const struct qemu_info *info,
							       int argc, char **argv);

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	char error[1024];

	if (!is_supported(info))
		return -1;
	if (!system_arguments(&system_plugin.arguments, argc, argv, error, sizeof(error))) {
		system_say("%s", error);
		return -1;
	}
	if (!host_find() || !system_report_open(system_plugin.arguments.truth))
		return -1;
	qemu_api_init(info);
	if (system_plugin.arguments.records) {
		if (!outside_open(system_plugin.arguments.recorder))
			return -1;
		qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	}
	system_plugin.max_vcpus = (unsigned)info->system.max_vcpus;
	system_plugin.vcpus = calloc(system_plugin.max_vcpus, sizeof(*system_plugin.vcpus));
	if (!system_plugin.vcpus)
		return -1;
	system_translation_init(id);
	qemu_plugin_register_vcpu_tb_trans_cb(id, system_on_translate);
	qemu_plugin_register_vcpu_idle_cb(id, system_on_idle);
	qemu_plugin_register_vcpu_resume_cb(id, system_on_resume);
	return 0;
}
