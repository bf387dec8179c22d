/* SPDX-License-Identifier: MIT */
/*
 * The recorder's QEMU plugin: installation, and what the system calls tell.
 * Built as a module of its own (ptah-qemu.so) that links Zydis.
 */
#include "record/qemu/plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct plugin plugin;

/* The interface version that QEMU compares with its own (see api.h). */
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((constructor)) static void choose_version(void)
{
	if (dlsym(RTLD_DEFAULT, "qemu_plugin_get_registers"))
		qemu_plugin_version = 2;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *b = plugin.recorder_gone ? NULL : plugin_block(tb);

	(void)id;
	if (b)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, plugin_on_block, QEMU_PLUGIN_CB_R_REGS, b);
}

static void send_text(unsigned type, unsigned vcpu, const char *text, uint64_t value)
{
	struct shared_message message = {
	    .type = type,
	    .bytes = (uint32_t)strlen(text),
	    .pid = getpid(),
	    .tid = plugin_thread_id(vcpu),
	    .tsc = atomic_load(&plugin.shared->clock),
	    .value = value,
	};

	plugin_send(&message, text);
}

/* A string of the guest's, as far as it can be read. */
static void guest_string(uint64_t address, char *text, size_t n)
{
	size_t i = 0;

	while (i < n - 1 && plugin_read(address + i, text + i, 1) && text[i])
		i++;
	text[i] = '\0';
}

static void on_sigaction(uint64_t action)
{
	uint64_t words[3]; /* handler, flags, restorer */

	if (plugin_read(action, words, sizeof(words)) && words[0] > 1)
		plugin_add_handler(words[0], words[2]);
}

/* What may be run when the call has returned. */
static void on_mapping(unsigned vcpu, int64_t number, const struct shared_mapping *m, uint64_t prot,
		       uint64_t flags)
{
	struct shared_mapping *mapping = plugin_mapping(vcpu);

	if (!mapping)
		return;
	mapping->size = 0;
	if (prot & PROT_EXEC && (number != SYS_mmap || !(flags & MAP_ANONYMOUS)))
		*mapping = *m;
}

static void on_mapped(unsigned vcpu, int64_t number, int64_t result)
{
	const struct shared_mapping *m = plugin_mapping(vcpu);

	if (!m || !m->size || (result < 0 && result > -4096))
		return;
	if (number == SYS_mmap)
		plugin_add_map((uint64_t)result, m->size, m->file_offset);
	else
		plugin_add_executable(m->address, m->size);
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
		       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	const struct shared_mapping mapping = {a1, a2, a6};
	char text[4096];

	(void)id, (void)a5, (void)a7, (void)a8;
	if (plugin.recorder_gone)
		return;
	plugin_before_syscall(vcpu);
	switch (number) {
	case SYS_rt_sigaction:
		if (a2)
			on_sigaction(a2);
		break;
	case SYS_munmap:
		plugin_forget_maps(a1, a2);
		break;
	case SYS_mremap:
		plugin_forget_maps(a1, a2);
		break;
	case SYS_mmap:
		if (a4 & MAP_FIXED)
			plugin_forget_maps(a1, a2);
		on_mapping(vcpu, number, &mapping, a3, a4);
		break;
	case SYS_mprotect:
		on_mapping(vcpu, number, &mapping, a3, 0);
		break;
	case SYS_prctl:
		if (a1 == PR_SET_NAME) {
			guest_string(a2, text, 16);
			send_text(MESSAGE_COMM, vcpu, text, 0);
		}
		break;
	case SYS_execve:
		guest_string(a1, text, sizeof(text));
		send_text(MESSAGE_EXEC, vcpu, text, 0);
		break;
	default:
		break;
	}
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
	(void)id;
	if (plugin.recorder_gone)
		return;
	switch (number) {
	case SYS_mmap:
	case SYS_mprotect:
		on_mapped(vcpu, number, result);
		break;
	case SYS_fork:
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
		/* A thread's id is in our own task list, a child's is not. */
		if (result > 0) {
			char path[64];

			snprintf(path, sizeof(path), "/proc/self/task/%lld", (long long)result);
			if (access(path, F_OK))
				send_text(MESSAGE_FORK, vcpu, "", (uint64_t)result);
		}
		break;
	case SYS_execve:
		send_text(MESSAGE_EXEC_FAILED, vcpu, "", 0);
		break;
	default:
		break;
	}
	plugin_after_syscall(vcpu);
}

static bool map_shared(int fd)
{
	struct shared_header *header =
	    mmap(NULL, SHARED_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	void *memory = MAP_FAILED;

	if (header != MAP_FAILED && header->magic == SHARED_MAGIC) {
		plugin.buffer = header->buffer;
		memory = mmap(NULL, shared_bytes(plugin.buffer), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE, fd, 0);
	}
	if (header != MAP_FAILED)
		munmap(header, SHARED_HEADER_BYTES);
	close(fd);
	plugin.shared = memory == MAP_FAILED ? NULL : memory;
	return plugin.shared;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
							       const struct qemu_info *info,
							       int argc, char **argv);

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	int fd = -1;

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "fd=", 3))
			fd = atoi(argv[i] + 3);
	if (info->system_emulation || strcmp(info->target_name, "x86_64") || fd < 0)
		return -1;
	if (!map_shared(fd))
		return -1;
	plugin.api = info->version.cur;
	*(void **)&plugin.copy_insn = dlsym(RTLD_DEFAULT, "qemu_plugin_insn_data");
	plugin_trace_init();
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_exit_cb(id, plugin_on_exit);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
	return 0;
}
