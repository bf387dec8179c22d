/* SPDX-License-Identifier: MIT */
/*
 * The functions of QEMU that the plugin calls beyond QEMU's plugin interface. A QEMU that is built
 * with modules exports them to its modules, under the names below, and so to the plugin; they are
 * looked up by name when the plugin is installed.
 *
 * QEMU's own headers are under the GPL, version 2; these declarations are written from what the
 * functions do.
 */
#ifndef PTAH_RECORD_SYSTEM_HOST_H
#define PTAH_RECORD_SYSTEM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of a register for cpu_read() and cpu_write(): that of QEMU's gdb interface. */
enum host_register {
	HOST_RIP = 16,
	HOST_FLAGS = 17,
	HOST_CS = 18,
	HOST_KERNEL_GS = 26, /* IA32_KERNEL_GS_BASE */
	HOST_CR0 = 27,
	HOST_CR2 = 28,
	HOST_CR3 = 29,
	HOST_CR4 = 30,
	HOST_EFER = 32,
};

/* glib's array of bytes. */
struct host_bytes {
	uint8_t *data;
	unsigned size;
};

union host_data {
	int number;
	unsigned long word;
	void *pointer;
};

/* Exceptions' numbers for raise(). */
#define HOST_NM 7
#define HOST_GP 13

/*
 * MemTxAttrs: no attribute. The struct has 32 bits up to QEMU 9.2 and 64 from then on, with other
 * bits in other places; the local APIC looks at none of them.
 */
#define HOST_NO_ATTRIBUTES UINT64_C(0)

/*
 * X(result, member, parameters, name, other name of newer versions or NULL)
 *
 * cpu: struct CPUState *. environment: CPUX86State *. space: AddressSpace *.
 */
#define HOST_FUNCTIONS(X)                                                                          \
	X(struct host_bytes *, bytes_new, (void), "g_byte_array_new", NULL)                        \
	X(struct host_bytes *, bytes_resize, (struct host_bytes *, unsigned),                      \
	  "g_byte_array_set_size", NULL)                                                           \
	X(void *, cpu_get, (int index), "qemu_get_cpu", NULL)                                      \
	X(int, cpu_read, (void *cpu, struct host_bytes *, int which), "x86_cpu_gdb_read_register", \
	  NULL)                                                                                    \
	X(int, cpu_write, (void *cpu, uint8_t *bytes, int which), "x86_cpu_gdb_write_register",    \
	  NULL)                                                                                    \
	X(void, cpuid,                                                                             \
	  (void *environment, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,       \
	   uint32_t *ecx, uint32_t *edx),                                                          \
	  "cpu_x86_cpuid", NULL)                                                                   \
	/* User state of the CPU, to and from the standard format of XSAVE. */                     \
	X(void, save_state, (void *cpu, void *area, uint32_t size), "x86_cpu_xsave_all_areas",     \
	  NULL)                                                                                    \
	X(void, restore_state, (void *cpu, const void *area, uint32_t size),                       \
	  "x86_cpu_xrstor_all_areas", NULL)                                                        \
	/* The guest's memory at a linear address, as its code accesses it: may raise #PF. */      \
	X(uint32_t, load_byte, (void *environment, uint64_t address, uintptr_t),                   \
	  "cpu_ldub_data_ra", NULL)                                                                \
	X(void, store_byte, (void *environment, uint64_t address, uint32_t value, uintptr_t),      \
	  "cpu_stb_data_ra", NULL)                                                                 \
	/* The same, as a debugger does: returns a negative number where nothing is mapped. */     \
	X(int, debug, (void *cpu, uint64_t address, void *bytes, size_t n, bool write),            \
	  "cpu_memory_rw_debug", NULL)                                                             \
	/* The TLB. */                                                                             \
	X(void, flush_pages, (void *cpu), "tlb_flush", NULL)                                       \
	/* Leaves translated code: continues at the CPU's RIP. Does not return. */                 \
	X(void, leave, (void *cpu), "cpu_loop_exit_noexc", NULL)                                   \
	/* Does not return. */                                                                     \
	X(void, raise, (void *environment, int exception, int code), "raise_exception_err", NULL)  \
	X(void, do_interrupt, (void *cpu), "x86_cpu_do_interrupt", NULL)                           \
	X(bool, exec_interrupt, (void *cpu, int request), "x86_cpu_exec_interrupt", NULL)          \
	/* Reads or writes memory at a linear address, without a fault. Negative: not mapped. */   \
	X(int, read_linear, (void *cpu, uint64_t linear, void *bytes, uint64_t n, bool write),     \
	  "cpu_memory_rw_debug", NULL)                                                             \
	/* Calls function(unused) when the system is reset. */                                     \
	X(void, on_reset, (void (*function)(void *unused), void *unused), "qemu_register_reset",   \
	  NULL)                                                                                    \
	X(void *, class_of, (void *object), "object_get_class", NULL)                              \
	X(uint64_t, tsc, (void *environment), "cpu_get_tsc", NULL)                                 \
	/* Nanoseconds that the machine has run. */                                                \
	X(int64_t, nanoseconds, (void), "cpu_get_clock", NULL)                                     \
	/* What RDTSC returns, from the accelerator's function for it or from QEMU's own. */       \
	X(int64_t, ticks, (void), "cpus_get_elapsed_ticks", NULL)                                  \
	X(void *, accelerator, (void), "cpus_get_accel", NULL)                                     \
	/* -icount: the time that so many instructions take. */                                    \
	X(int64_t, icount_time, (int64_t insns), "icount_to_ns", NULL)                             \
	X(void *, map, (uint64_t physical, uint64_t * size, bool write),                           \
	  "cpu_physical_memory_map", NULL)                                                         \
	X(void, unmap, (void *, uint64_t size, bool write, uint64_t accessed),                     \
	  "cpu_physical_memory_unmap", NULL)                                                       \
	/* NULL: the address is not in the guest's RAM. */                                         \
	X(void *, ram_block, (void *host_address, bool round, uint64_t *offset),                   \
	  "qemu_ram_block_from_host", NULL)                                                        \
	X(uint32_t, load32, (void *space, uint64_t physical, uint64_t attributes, unsigned *),     \
	  "address_space_ldl", NULL)                                                               \
	X(void, store32,                                                                           \
	  (void *space, uint64_t physical, uint32_t value, uint64_t attributes, unsigned *),       \
	  "address_space_stl", NULL)                                                               \
	/* QEMU's big lock. */                                                                     \
	X(bool, is_locked, (void), "qemu_mutex_iothread_locked", "bql_locked")                     \
	X(void, lock, (const char *file, int line), "qemu_mutex_lock_iothread_impl",               \
	  "bql_lock_impl")                                                                         \
	X(void, unlock, (void), "qemu_mutex_unlock_iothread", "bql_unlock")                        \
	/* Runs work on that CPU's thread, outside of translated code. */                          \
	X(void, run_on, (void *cpu, void (*work)(void *cpu, union host_data), union host_data),    \
	  "async_run_on_cpu", NULL)                                                                \
	/* The same, while all CPUs stand still. */                                                \
	X(void, run_alone, (void *cpu, void (*work)(void *cpu, union host_data), union host_data), \
	  "async_safe_run_on_cpu", NULL)                                                           \
	/* Throws all translations away. */                                                        \
	X(void, flush, (void *cpu), "tb_flush", NULL)

/* X(type, member, name, other name): variables. */
#define HOST_VARIABLES(X)                                                                          \
	X(char, memory, "address_space_memory", NULL)                                              \
	/* The lowest byte of an int, or a bool: blocks of one instruction are translated. */      \
	X(volatile char, one_insn, "singlestep", "one_insn_per_tb")                                \
	X(int, icount, "use_icount", NULL)

struct host {
#define X(result, member, parameters, name, other) result(*member) parameters;
	HOST_FUNCTIONS(X)
#undef X
#define X(type, member, name, other) type *member;
	HOST_VARIABLES(X)
#undef X
};

extern struct host host;

/* Looks everything up. False: something is missing, and one line about it has been printed. */
bool host_find(void);

/* The CPU whose thread this is. */
void *host_current_cpu(void);

#endif
