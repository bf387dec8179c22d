/* SPDX-License-Identifier: MIT */
/*
 * The part of QEMU's TCG plugin interface that the plugins use. Debian's packages of QEMU have no
 * header for it, and the interface is small and stable, so it is declared here.
 *
 * Version 1 is that of QEMU 4.2 to 8.x. QEMU 9.0 and later accept only version 2 and later, and
 * from version 3 on (QEMU 9.1) qemu_plugin_insn_data() copies. qemu_api.c adapts the plugins to
 * the QEMU that loads them. Tested with QEMU 7.2 (programs and virtual machines) and 10.0 (virtual
 * machines; Debian's qemu-user 10.0 is linked statically and loads no plugins).
 */
#ifndef PTAH_RECORD_QEMU_PLUGIN_QEMU_API_H
#define PTAH_RECORD_QEMU_PLUGIN_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qemu_plugin_id_t;

struct qemu_info {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus, max_vcpus;
	} system;
};

struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
	QEMU_PLUGIN_CB_R_REGS,
	QEMU_PLUGIN_CB_RW_REGS,
};

typedef void qemu_vcpu_fn(qemu_plugin_id_t id, unsigned vcpu);
typedef void qemu_exec_fn(unsigned vcpu, void *user);
typedef void qemu_exit_fn(qemu_plugin_id_t id, void *user);
typedef void qemu_translate_fn(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void qemu_syscall_fn(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
			     uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
			     uint64_t a7, uint64_t a8);
typedef void qemu_syscall_return_fn(qemu_plugin_id_t id, unsigned vcpu, int64_t number,
				    int64_t result);

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_exit_fn *fn, void *user);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_vcpu_fn *fn);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t id, qemu_vcpu_fn *fn);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id, qemu_vcpu_fn *fn);
void qemu_plugin_register_flush_cb(qemu_plugin_id_t id, void (*fn)(qemu_plugin_id_t id));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_translate_fn *fn);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_exec_fn *fn,
					  enum qemu_plugin_cb_flags flags, void *user);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_syscall_fn *fn);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, qemu_syscall_return_fn *fn);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);

/* Versions 1 and 2: returns a pointer to the bytes. Use qemu_api_insn_bytes(). */
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);

/* Called by qemu_plugin_install(). */
void qemu_api_init(const struct qemu_info *info);

/*
 * The bytes of an instruction; *n, their limit, becomes their number. The result is QEMU's memory,
 * valid while the block is translated, or `buffer`, which must have room for *n.
 */
const uint8_t *qemu_api_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *buffer, size_t *n);

#endif
