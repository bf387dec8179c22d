/* SPDX-License-Identifier: MIT */
/*
 * Ends the trace of a thread whose signal ends the process, at the instruction where it was.
 *
 * QEMU calls no function of a plugin then: it sends the signal to itself by kill(). So kill() is
 * replaced in the table through which QEMU calls functions of libraries. At that call QEMU's copy
 * of the registers has the address of the instruction that faulted or would have come next.
 */
#include "record/qemu/plugin/block_trace.h"

#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

/* CPUX86State: rip follows the sixteen general registers. */
#define ENV_RIP 16

/* Of the thread that runs; QEMU gives each thread of the program one of its own. */
static __thread struct {
	unsigned vcpu;
	const uint64_t *env;
} own;

static bool replaced, ip_trusted;

/* The signal */

/* The processor raises these, and at the instruction that caused them. */
static bool is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
	       signal == SIGTRAP;
}

/*
 * Whether `signal` was caused by an instruction is not known here. One that was sent
 * (`kill -SEGV`) comes between two blocks, so that the two cases only look the same after a block
 * that jumps to its own beginning; then the last pass through it is not recorded.
 */
static void on_fatal_signal(int signal)
{
	struct shared_message message = {.type = MESSAGE_FATAL,
					 .pid = getpid(),
					 .tid = (int32_t)syscall(SYS_gettid),
					 .value = (uint64_t)signal};
	struct shared_thread *t = own.env ? plugin_thread(own.vcpu) : NULL;
	struct signal_frame frame = {.synchronous = is_fault(signal)};

	if (t && t != &plugin_untraced && !plugin_in_kernel(t) && ip_trusted) {
		frame.ip = own.env[ENV_RIP];
		message.address = frame.ip;
		message.size = plugin_end_by_signal(t, &frame);
	}
	message.tsc = atomic_load(&plugin.shared->clock);
	plugin_send(&message, "");
}

/* What QEMU calls instead of kill(). It stops itself by kill() too, which ends nothing. */
static int kill_of_qemu(pid_t pid, int signal)
{
	if (pid == getpid() && signal != SIGSTOP && !plugin.recorder_gone)
		on_fatal_signal(signal);
	return kill(pid, signal);
}

/* The table */

/* What of an object's dynamic section is needed to find an entry of its table. */
struct dynamic {
	const Elf64_Rela *relocations[2];
	size_t bytes[2];
	const Elf64_Sym *symbols;
	const char *names;
};

/* libc has added the base to the addresses in the dynamic section; some versions have not. */
static const void *at(uint64_t base, uint64_t address)
{
	return (const void *)(uintptr_t)(address < base ? base + address : address);
}

static void read_dynamic(uint64_t base, const Elf64_Dyn *entry, struct dynamic *d)
{
	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_JMPREL:
			d->relocations[0] = at(base, entry->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			d->bytes[0] = entry->d_un.d_val;
			break;
		case DT_RELA:
			d->relocations[1] = at(base, entry->d_un.d_ptr);
			break;
		case DT_RELASZ:
			d->bytes[1] = entry->d_un.d_val;
			break;
		case DT_SYMTAB:
			d->symbols = at(base, entry->d_un.d_ptr);
			break;
		case DT_STRTAB:
			d->names = at(base, entry->d_un.d_ptr);
			break;
		default:
			break;
		}
	}
}

/* Replaces one entry, in memory that is read-only once the program is loaded. */
static bool replace(uint64_t entry)
{
	void *page = (void *)(uintptr_t)(entry & ~(PAGE - 1));

	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		return false;
	*(int (**)(pid_t, int))(uintptr_t)entry = kill_of_qemu;
	return true;
}

static bool replace_in(uint64_t base, const struct dynamic *d, int table)
{
	size_t n = d->relocations[table] ? d->bytes[table] / sizeof(Elf64_Rela) : 0;
	bool done = false;

	for (size_t i = 0; i < n; i++) {
		const Elf64_Rela *r = &d->relocations[table][i];
		uint64_t type = ELF64_R_TYPE(r->r_info);

		if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) &&
		    !strcmp(d->names + d->symbols[ELF64_R_SYM(r->r_info)].st_name, "kill"))
			done = replace(base + r->r_offset) || done;
	}
	return done;
}

/* Called for the loaded objects. The first is the program, QEMU; the others are left alone. */
static int on_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct dynamic d = {{NULL}, {0}, NULL, NULL};

	(void)size, (void)unused;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			read_dynamic(info->dlpi_addr,
				     (const Elf64_Dyn *)(uintptr_t)(info->dlpi_addr +
								    info->dlpi_phdr[i].p_vaddr),
				     &d);
	if (d.symbols && d.names) {
		replaced = replace_in(info->dlpi_addr, &d, 0);
		replaced = replace_in(info->dlpi_addr, &d, 1) || replaced;
	}
	return 1;
}

/* Beginning */

void plugin_watch_end(void)
{
	dl_iterate_phdr(on_object, NULL);
}

void plugin_check_end(const uint64_t *env, uint64_t ip, bool trusted)
{
	ip_trusted = trusted && replaced && env[ENV_RIP] == ip;
	if (trusted && !ip_trusted)
		plugin_note("this QEMU does not show where a signal ends a program: the trace of "
			    "such a program lacks its last instructions");
}

void plugin_own_thread(unsigned vcpu, const uint64_t *env)
{
	own.vcpu = vcpu;
	own.env = env;
}
