/* SPDX-License-Identifier: MIT */
/*
 * The recorder's QEMU plugin: installation, and the system calls that concern it. It is built as a
 * module (ptah-qemu.so).
 */
#include "record/qemu/plugin/plugin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct plugin plugin;

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *b = plugin.recorder_gone ? NULL : plugin_block(tb);

	(void)id;
	if (b)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, plugin_on_block, QEMU_PLUGIN_CB_R_REGS, b);
}

/* Reads a string of the guest, as far as it is readable. */
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

/* Whether it matters that the call maps, or protects, what it does. */
static bool is_kept(int64_t number, const struct shared_mapping *m)
{
	if (number == SYS_mprotect)
		return m->prot & (PROT_EXEC | PROT_WRITE);
	return !(m->flags & MAP_ANONYMOUS) && (m->prot & PROT_EXEC || m->flags & MAP_SHARED);
}

/* Remembers what the call maps until it has returned. */
static void on_mapping(unsigned vcpu, int64_t number, const struct shared_mapping *m)
{
	struct shared_mapping *mapping = plugin_mapping(vcpu);

	if (!mapping)
		return;
	mapping->size = 0;
	if (is_kept(number, m))
		*mapping = *m;
}

static void on_mapped(unsigned vcpu, int64_t number, int64_t result)
{
	struct shared_mapping *m = plugin_mapping(vcpu);

	if (!m || !m->size || (result < 0 && result > -4096))
		return;
	if (number == SYS_mmap) {
		m->address = (uint64_t)result;
		plugin_add_map(m);
	} else {
		plugin_add_protection(m);
	}
}

/* The thread gives itself the name at `address`. */
static void on_name(unsigned vcpu, uint64_t address)
{
	const uint64_t time = plugin_exec_time();
	char text[16];

	guest_string(address, text, sizeof(text));
	plugin_stamp_name(vcpu, time);
	plugin_send_text_at(MESSAGE_COMM, plugin_thread_id(vcpu), text, time);
}

static void on_exit_group(unsigned vcpu, uint64_t status)
{
	const struct shared_message message = {.type = MESSAGE_ENDED,
					       .pid = getpid(),
					       .tid = plugin_thread_id(vcpu),
					       .tsc = atomic_load(&plugin.shared->clock),
					       .value = status};

	plugin_send(&message, "");
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
		       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	const struct shared_mapping mapping = {a1, a2, a6, (uint32_t)a3, (uint32_t)a4, (int32_t)a5};
	const uint64_t args[6] = {a1, a2, a3, a4, a5, a6};

	(void)id, (void)a7, (void)a8;
	if (plugin.recorder_gone)
		return;
	plugin_before_syscall(vcpu);
	plugin_log_call(vcpu, number, args);
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
		on_mapping(vcpu, number, &mapping);
		break;
	case SYS_mprotect:
		on_mapping(vcpu, number, &mapping);
		break;
	case SYS_prctl:
		if (a1 == PR_SET_NAME)
			on_name(vcpu, a2);
		break;
	case SYS_exit_group:
		on_exit_group(vcpu, a1);
		break;
	case SYS_execve:
		plugin_before_exec(vcpu, a1, a2, a3);
		break;
	case SYS_setrlimit:
		if (a1 == RLIMIT_STACK)
			plugin_before_stack_limit(a2);
		break;
	case SYS_prlimit64:
		if ((!a1 || a1 == (uint64_t)getpid()) && a2 == RLIMIT_STACK)
			plugin_before_stack_limit(a3);
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
	if (number == SYS_mmap || number == SYS_mprotect)
		on_mapped(vcpu, number, result);
	else if (number == SYS_setrlimit || number == SYS_prlimit64)
		plugin_after_stack_limit(result);
	else if (number == SYS_execve)
		plugin_send_text(MESSAGE_NATIVE_FAILED, plugin_thread_id(vcpu), "");
	plugin_log_return(vcpu, number, result);
	plugin_after_syscall(vcpu);
}

static bool map_shared(int fd)
{
	void *first =
	    fd < 0 ? MAP_FAILED : mmap(NULL, SHARED_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	struct shared_header *header = first;
	void *memory = MAP_FAILED;

	if (header != MAP_FAILED && header->magic == SHARED_MAGIC) {
		plugin.buffer = header->buffer;
		plugin.guard = header->guard;
		memory = mmap(NULL, shared_bytes(plugin.buffer), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE, fd, 0);
	}
	if (header != MAP_FAILED)
		munmap(header, SHARED_HEADER_BYTES);
	if (fd >= 0)
		close(fd);
	plugin.shared = memory == MAP_FAILED ? NULL : memory;
	return plugin.shared;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
							       const struct qemu_info *info,
							       int argc, char **argv);

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	const char *name = NULL;
	int fd = -1;

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "fd=", 3))
			fd = atoi(argv[i] + 3);
		if (!strncmp(argv[i], "memory=", 7))
			fd = open(argv[i] + 7, O_RDWR | O_CLOEXEC);
		if (!strncmp(argv[i], "close=", 6)) /* the descriptor of this file */
			close(atoi(argv[i] + 6));
		if (!strncmp(argv[i], "name=", 5))
			name = argv[i] + 5;
	}
	if (info->system_emulation || strcmp(info->target_name, "x86_64"))
		return -1;
	/* After an execve the recorder may have ended already. The program runs all the same. */
	if (!map_shared(fd))
		return name ? 0 : -1;
	qemu_api_init(info);
	plugin_trace_init();
	plugin_watch_end();
	if (name)
		plugin_after_exec(name);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_exit_cb(id, plugin_on_exit);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
	return 0;
}
