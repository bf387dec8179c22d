/* SPDX-License-Identifier: MIT */
/*
 * Finds the address at which the program was interrupted when a signal handler begins. The kernel's
 * frame on the stack holds it, and QEMU's copy of the registers leads to the frame.
 */
#include "record/qemu/plugin/block_trace.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

/* CPUX86State begins with the sixteen general registers, in the order of their numbers. */
enum {
	ENV_RDX = 2,
	ENV_RSP = 4,
	ENV_RSI = 6,
	ENV_RDI = 7
};

static bool env_trusted;

/* The registers at the beginning of a handler. */
struct handler_entry {
	uint64_t ip, rsp, rdi, rsi, rdx;
};

/*
 * Whether a handler that begins with these registers has a signal frame on its stack (pretcode,
 * ucontext, siginfo). If so, *inner has the registers of what it interrupted.
 */
static bool read_frame(const struct handler_entry *entry, struct signal_frame *frame,
		       struct handler_entry *inner)
{
	uint64_t pretcode;
	gregset_t regs;
	int32_t info[3]; /* si_signo, si_errno, si_code */
	int signal = (int)entry->rdi;

	if (entry->rdx != entry->rsp + 8 || !plugin_read(entry->rsp, &pretcode, 8) ||
	    !plugin_is_restorer(pretcode))
		return false;
	if (!plugin_read(entry->rdx + offsetof(ucontext_t, uc_mcontext.gregs), regs,
			 sizeof(regs)) ||
	    !plugin_read(entry->rsi, info, sizeof(info)))
		return false;
	*inner = (struct handler_entry){
	    .ip = (uint64_t)regs[REG_RIP],
	    .rsp = (uint64_t)regs[REG_RSP],
	    .rdi = (uint64_t)regs[REG_RDI],
	    .rsi = (uint64_t)regs[REG_RSI],
	    .rdx = (uint64_t)regs[REG_RDX],
	};
	frame->ip = inner->ip;
	frame->synchronous =
	    info[2] > 0 && (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
			    signal == SIGFPE || signal == SIGTRAP);
	return true;
}

/*
 * Whether the kernel called the handler that begins now. QEMU's plugin interface cannot read
 * registers, but its code generator keeps a pointer to the CPU state, which begins with them, in
 * rbp. If several signals came at once, each handler but the first interrupts another before its
 * first instruction; the frame of the first holds the program's address.
 */
bool plugin_signal_frame(const uint64_t *env, struct signal_frame *frame)
{
	struct handler_entry entry, inner;
	struct signal_frame outer;

	if (!env_trusted)
		return false;
	entry = (struct handler_entry){0, env[ENV_RSP], env[ENV_RDI], env[ENV_RSI], env[ENV_RDX]};
	if (!read_frame(&entry, frame, &inner))
		return false;
	for (int depth = 0; depth < NSIG && plugin_is_handler(inner.ip); depth++) {
		entry = inner;
		if (!read_frame(&entry, &outer, &inner))
			break;
		*frame = outer;
	}
	return true;
}

/* rbp is only trusted if the stack pointer of the first block leads to the program's arguments. */
bool plugin_check_registers(const uint64_t *env)
{
	uint64_t argc, first = 0, last = 0;

	if (!plugin_read((uint64_t)(uintptr_t)env - plugin.guest_base, &argc, 8))
		return false;
#ifndef PTAH_NO_REGISTERS /* a test builds the plugin without this */
	env_trusted = plugin_read(env[ENV_RSP], &argc, 8) && argc > 0 && argc < 1u << 24 &&
		      plugin_read(env[ENV_RSP] + 8, &first, 8) && first != 0 &&
		      plugin_read(env[ENV_RSP] + 8 + 8 * argc, &last, 8) && last == 0;
#endif
	if (!env_trusted)
		plugin_note("this QEMU does not show its registers: signals appear as lost trace");
	return env_trusted;
}
