/* SPDX-License-Identifier: MIT */
/* Sends the system calls of traced threads to the recorder. */
#include "record/ptrace/tracer.h"

static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n);

#include "record/call_buffer.h"

#include <sys/user.h>

static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n)
{
	const struct call_buffer *b = context;

	return fetch_bytes(b->reader, from, to, n);
}

static bool is_recorded(const struct thread *t)
{
	return !t->r->config->backend.no_syscalls && t->begun && !t->r->paused;
}

static void send_entry(struct thread *t, const struct call_buffer *b, size_t n, uint64_t time)
{
	const struct tracer_message message = {.type = TRACER_CALL,
					       .pid = t->process->pid,
					       .tid = t->tid,
					       .tsc = time,
					       .size = (uint32_t)n};

	tracer_send(t->r, &message, b->bytes);
}

static struct call_registers registers_of(const struct thread *t,
					  const struct user_regs_struct *regs)
{
	return (struct call_registers){
	    .tsc = tracer_time(t->r),
	    .ip = regs->rip,
	    .number = t->call,
	    .args = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9}};
}

void syscall_enter(struct thread *t, const struct user_regs_struct *regs)
{
	const struct insn *insn = &t->insn;
	struct call_buffer b = {.reader = t->process};
	struct call_registers r = registers_of(t, regs);

	/* INT 80h and SYSENTER have the numbers of 32-bit programs: only SYSCALL ends with 05. */
	t->logged = is_recorded(t) && t->known && insn->syscall && !insn->interrupt &&
		    insn->bytes[insn->size - 1] == 0x05;
	r.ip = insn->end;
	if (t->logged)
		send_entry(t, &b, call_buffer_call(&b, &r), r.tsc);
}

void syscall_leave(struct thread *t, const struct user_regs_struct *regs)
{
	struct call_buffer b = {.reader = t->process};
	const struct call_registers r = registers_of(t, regs);

	if (t->logged && is_recorded(t))
		send_entry(t, &b, call_buffer_return(&b, &r, (int64_t)regs->rax), r.tsc);
	t->logged = false;
}

void syscall_begin(struct thread *t, const struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_clone:
	case SYS_fork:
	case SYS_vfork:
	case SYS_clone3:
		t->call = regs->orig_rax;
		t->logged = !regs->rax;
		syscall_leave(t, regs);
		break;
	default:
		break;
	}
}
