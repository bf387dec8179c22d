/* SPDX-License-Identifier: MIT */
/*
 * The gate through which every system call of the program goes. Before the call the trace ends
 * with a TIP.PGD, as it does on a processor that traces user code alone; behind it a TIP.PGE says
 * where the program goes on. syscalls.def says what each call needs.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/sandbox.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"
#include "record/native/users.h"

#include <asm/errno.h>
#include <asm/prctl.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/rseq.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

/* Newer than the headers of some systems. */
#define ARCH_SHADOW_STACK_ENABLE 0x5001 /* ARCH_SHSTK_ENABLE */
#define ARCH_UNTAG_MASK		 0x4001 /* ARCH_GET_UNTAG_MASK */
#define PRCTL_SET_MEMORY_MERGE	 67
#define PRCTL_GET_MEMORY_MERGE	 68
#define PRCTL_GET_MDWE		 66

struct sentence {
	char text[80];
};

static const uint8_t treatments[] = {
#define SYSCALL(number, name, treatment) [number] = SYSCALL_##treatment,
#include "record/native/runtime/syscalls.def"
#undef SYSCALL
};

/* In the order of the rows; one string, because an array of pointers needs relocations. */
static const uint16_t numbers[] = {
#define SYSCALL(number, name, treatment) number,
#include "record/native/runtime/syscalls.def"
#undef SYSCALL
};

static const char names[] =
#define SYSCALL(number, name, treatment) #name "\0"
#include "record/native/runtime/syscalls.def"
#undef SYSCALL
    ;

enum syscall_treatment syscall_treatment(uint64_t number)
{
	return number < sizeof(treatments) ? (enum syscall_treatment)treatments[number]
					   : SYSCALL_LEAVE;
}

int64_t syscall_kernel(const struct call *call)
{
	const uint64_t *w = call->words;

	return sys_call(w[0], w[1], w[2], w[3], w[4], w[5], w[6]);
}

uint64_t syscall_end(uint64_t rip)
{
	const uint8_t *at = (const uint8_t *)rip;

	while (at[0] != 0x0f || at[1] != 0x05)
		at++;
	return (uint64_t)at + 2;
}

void syscall_return(struct registers *r, const struct call *call, int64_t result)
{
	r->rip = call->next;
	r->general[0] = (uint64_t)result;
	r->general[1] = r->rip;
	r->general[11] = r->rflags;
}

/* ---- What has to leave --------------------------------------------------- */

static char *put_text(char *at, const char *end, const char *text)
{
	while (at < end - 1 && *text)
		*at++ = *text++;
	*at = 0;
	return at;
}

static char *put_number(char *at, const char *end, uint64_t n)
{
	char digits[21];
	char *digit = digits + sizeof(digits) - 1;

	*digit = 0;
	do
		*--digit = (char)('0' + n % 10);
	while (n /= 10);
	return put_text(at, end, digit);
}

/* "the program calls ptrace"; for a call that nobody knows its number. */
static const char *call_refusal(uint64_t number, struct sentence *sentence)
{
	char *text = sentence->text;
	const char *end = text + sizeof(sentence->text), *name = names;
	char *at = put_text(text, end, "the program calls ");

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i] == number) {
			put_text(at, end, name);
			return text;
		}
		while (*name++)
			;
	}
	put_number(put_text(at, end, "the unknown system call "), end, number);
	return text;
}

static const char *prctl_refusal(const uint64_t *w)
{
	static const char treated[] = "the program changes how the kernel treats it (prctl)";

	switch ((uint32_t)w[1]) {
	case PR_SET_DUMPABLE:
		/* The recorder could not read what the process has mapped. Others than 0 fail. */
		return w[2] ? NULL : "the program makes itself unreadable for the recorder";
	case PR_SET_PDEATHSIG:
	case PR_GET_PDEATHSIG:
	case PR_GET_DUMPABLE:
	case PR_GET_UNALIGN:
	case PR_SET_UNALIGN:
	case PR_GET_KEEPCAPS:
	case PR_SET_KEEPCAPS:
	case PR_GET_TIMING:
	case PR_SET_TIMING:
	case PR_SET_NAME:
	case PR_GET_NAME:
	case PR_GET_SECCOMP:
	case PR_CAPBSET_READ:
	case PR_CAPBSET_DROP:
	case PR_GET_TSC:
	case PR_GET_SECUREBITS:
	case PR_SET_SECUREBITS:
	case PR_SET_TIMERSLACK:
	case PR_GET_TIMERSLACK:
	case PR_MCE_KILL:
	case PR_MCE_KILL_GET:
	case PR_SET_PTRACER:
	case PR_SET_CHILD_SUBREAPER:
	case PR_GET_CHILD_SUBREAPER:
	case PR_SET_NO_NEW_PRIVS:
	case PR_GET_NO_NEW_PRIVS:
	case PR_GET_TID_ADDRESS:
	case PR_SET_THP_DISABLE:
	case PR_GET_THP_DISABLE:
	case PR_CAP_AMBIENT:
	case PR_GET_SPECULATION_CTRL:
	case PR_SET_SPECULATION_CTRL:
	case PR_SET_IO_FLUSHER:
	case PR_GET_IO_FLUSHER:
	case PR_SET_VMA:
	case PRCTL_SET_MEMORY_MERGE:
	case PRCTL_GET_MEMORY_MERGE:
	case PRCTL_GET_MDWE:
	case PR_TASK_PERF_EVENTS_DISABLE:
	case PR_TASK_PERF_EVENTS_ENABLE:
	case PR_SCHED_CORE:
	/* Of other processors: here they fail. */
	case PR_GET_FPEMU:
	case PR_SET_FPEMU:
	case PR_GET_FPEXC:
	case PR_SET_FPEXC:
	case PR_GET_ENDIAN:
	case PR_SET_ENDIAN:
	case PR_MPX_ENABLE_MANAGEMENT:
	case PR_MPX_DISABLE_MANAGEMENT:
	case PR_SET_FP_MODE:
	case PR_GET_FP_MODE:
	case PR_SVE_SET_VL:
	case PR_SVE_GET_VL:
	case PR_PAC_RESET_KEYS:
	case PR_SET_TAGGED_ADDR_CTRL:
	case PR_GET_TAGGED_ADDR_CTRL:
		return NULL;
	case PR_SET_SECCOMP:
		return w[2] == SECCOMP_MODE_STRICT ? treated : NULL;
	case PR_SET_TSC: /* the recorder reads it */
		return w[2] == PR_TSC_SIGSEGV ? treated : NULL;
	case PR_SET_SYSCALL_USER_DISPATCH:
		return w[2] == PR_SYS_DISPATCH_ON ? treated : NULL;
	default:
		return treated;
	}
}

static const char *arch_prctl_refusal(const uint64_t *w)
{
	switch ((uint32_t)w[1]) {
	case ARCH_SET_GS:
	case ARCH_GET_GS:
		return "the program uses the segment register GS";
	case ARCH_SET_CPUID:
	case ARCH_REQ_XCOMP_PERM:
	case ARCH_REQ_XCOMP_GUEST_PERM:
		return "the program changes what the processor shows it (arch_prctl)";
	default:
		return (uint32_t)w[1] > ARCH_UNTAG_MASK && (uint32_t)w[1] < ARCH_SHADOW_STACK_ENABLE
			   ? "the program uses tagged addresses"
			   : NULL;
	}
}

/*
 * A limit that is not lower than the present one takes nothing away from the recorder, and one that
 * cannot be read fails.
 */
static const char *limit_refusal(const struct context *c, uint64_t resource, uint64_t limit)
{
	struct rlimit64 now, wanted;

	if ((resource != RLIMIT_AS && resource != RLIMIT_DATA) ||
	    !process_read(c, limit, &wanted, sizeof(wanted)) ||
	    (!(c->runtime->denied & NATIVE_NEEDS_USER) &&
	     (sys_call(__NR_prlimit64, 0, resource, 0, (uint64_t)&now, 0, 0) ||
	      wanted.rlim_cur >= now.rlim_cur)))
		return NULL;
	return "the program limits its memory, and the recorder's with it";
}

/*
 * The recorder finds processes by numbers of its own namespace, and each user has a memory of its
 * own. Flags that the kernel does not know fail.
 */
static const char *unshare_refusal(uint64_t flags)
{
	return flags & (CLONE_NEWUSER | CLONE_NEWPID) ? "the program enters a namespace of its own"
						      : NULL;
}

/* Paths may lead somewhere else from then on: mapped.c. */
static bool changes_paths(const struct call *call)
{
	const uint64_t *w = call->words;

	return w[0] == __NR_chroot || w[0] == __NR_pivot_root ||
	       (w[0] == __NR_unshare && w[1] & CLONE_NEWNS);
}

/*
 * Whether the recorder qemu records what cannot be recorded here for this call, as it would run
 * alone: QEMU's user mode has no ptrace, filters of system calls, processes that share memory, or
 * namespaces with several threads, and runs code wrongly that is mapped twice.
 */
static bool is_for_qemu(const struct call *call)
{
	const uint64_t *w = call->words;

	switch (call->treatment) {
	case SYSCALL_LEAVE:
		return w[0] == __NR_mlockall;
	case SYSCALL_ARCH_PRCTL:
		return (uint32_t)w[1] == ARCH_SET_GS || (uint32_t)w[1] == ARCH_GET_GS;
	case SYSCALL_LIMIT:
	case SYSCALL_PRLIMIT:
	case SYSCALL_MMAP:
	case SYSCALL_MREMAP:
		return true;
	default:
		return false;
	}
}

/* Why the call cannot be carried out; NULL: it can be. Only looks. */
static const char *refusal(const struct context *c, const struct call *call,
			   struct sentence *sentence)
{
	const uint64_t *w = call->words;

	switch (call->treatment) {
	case SYSCALL_LEAVE:
		return call_refusal(w[0], sentence);
	case SYSCALL_PRCTL:
		return prctl_refusal(w);
	case SYSCALL_ARCH_PRCTL:
		return arch_prctl_refusal(w);
	case SYSCALL_SECCOMP:
		/* With flags or a pointer it fails: so libseccomp asks what there is. */
		return (uint32_t)w[1] == SECCOMP_SET_MODE_STRICT && !(uint32_t)w[2] && !w[3]
			   ? call_refusal(w[0], sentence)
			   : NULL;
	case SYSCALL_USER:
		return c->runtime->denied & NATIVE_NEEDS_USER
			   ? "the program may become another user's, under a filter of system calls"
			   : NULL;
	case SYSCALL_UNSHARE:
		return unshare_refusal(w[1]);
	case SYSCALL_PERSONALITY:
		return (uint32_t)w[1] != UINT32_MAX && (w[1] & READ_IMPLIES_EXEC)
			   ? "the program makes all memory executable (personality)"
			   : NULL;
	case SYSCALL_LIMIT:
		return limit_refusal(c, (uint32_t)w[1], w[2]);
	case SYSCALL_PRLIMIT:
		return limit_refusal(c, (uint32_t)w[2], w[3]);
	case SYSCALL_MMAP:
	case SYSCALL_MPROTECT:
	case SYSCALL_MREMAP:
	case SYSCALL_SHMAT:
		return mapping_refusal(c, call);
	case SYSCALL_FORK:
	case SYSCALL_VFORK:
	case SYSCALL_CLONE:
	case SYSCALL_CLONE3:
		return process_refusal(c, call);
	default:
		return NULL;
	}
}

/* ---- Carrying out --------------------------------------------------------- */

static int64_t call_prctl(struct context *c, const struct call *call)
{
	const int64_t result = syscall_kernel(call);
	char name[COMM_BYTES + 1];

	if ((uint32_t)call->words[1] == PR_SET_NAME && !result) {
		for (unsigned i = 0; i < sizeof(name); i++)
			name[i] = 0;
		/* The program's bytes may have changed: the kernel has them. */
		if (c->runtime->denied & NATIVE_NEEDS_USER)
			process_read(c, call->words[2], name, COMM_BYTES - 1);
		else
			sys_call(__NR_prctl, PR_GET_NAME, (uint64_t)name, 0, 0, 0, 0);
		message_text(c, NATIVE_MESSAGE_COMM, 0, name);
	}
	return result;
}

static int64_t call_arch_prctl(const struct call *call)
{
	/* As a kernel answers whose processor has no shadow stacks. */
	return (uint32_t)call->words[1] == ARCH_SHADOW_STACK_ENABLE ? -EOPNOTSUPP
								    : syscall_kernel(call);
}

/*
 * As a kernel without it. A program that was attached to has seen that there is one: it is answered
 * by a registration that has no effect until the recorder detaches.
 */
static int64_t call_rseq(struct context *c, const struct call *call)
{
	const struct native_rseq q = {
	    .address = call->words[1],
	    .size = (uint32_t)call->words[2],
	    .signature = (uint32_t)call->words[4],
	};
	const uint32_t flags = (uint32_t)call->words[3];

	if (!c->runtime->attached)
		return -ENOSYS;
	if (flags & ~(uint32_t)RSEQ_FLAG_UNREGISTER || !q.address)
		return -EINVAL;
	if (!flags && c->rseq.address)
		return -EBUSY;
	if (flags && (q.address != c->rseq.address || q.size != c->rseq.size ||
		      q.signature != c->rseq.signature))
		return -EINVAL;
	c->rseq = q;
	if (flags)
		c->rseq.address = 0;
	else
		syscall_unset_rseq(&q);
	return 0;
}

void syscall_unset_rseq(const struct native_rseq *q)
{
	const int32_t failed = -2; /* RSEQ_CPU_ID_REGISTRATION_FAILED of <sys/rseq.h> */

	signals_copy((uint8_t *)q->address + offsetof(struct rseq, cpu_id), &failed,
		     sizeof(failed));
}

/* False: a signal came first. */
static bool call_kernel(struct context *c, const struct call *call, int64_t *result)
{
	if (!signals_call(c, call->words, result))
		return false;
	/* The kernel may have met a page that only the runtime keeps from being written to. */
	return *result != -EFAULT || !changes_give_back_all(c) ||
	       signals_call(c, call->words, result);
}

/* False: a signal came first, the program is still before its call. */
static bool carry_out(struct context *c, const struct call *call, int64_t *result)
{
	switch (call->treatment) {
	case SYSCALL_MMAP:
	case SYSCALL_MPROTECT:
	case SYSCALL_MUNMAP:
	case SYSCALL_MREMAP:
	case SYSCALL_RANGE:
	case SYSCALL_SHMAT:
		*result = mapping_call(c, call);
		return true;
	case SYSCALL_PRCTL:
		*result = call_prctl(c, call);
		return true;
	case SYSCALL_ARCH_PRCTL:
		*result = call_arch_prctl(call);
		return true;
	case SYSCALL_RSEQ:
		*result = call_rseq(c, call);
		return true;
	default:
		return call_kernel(c, call, result);
	}
}

/* What ended a process is asked for, also where the program does not want to know. False. */
static bool wait_for_process(struct context *c, struct registers *r, const struct call *call)
{
	struct call asked = *call;
	int32_t status = 0;
	int64_t result;

	if (asked.words[0] == __NR_wait4 && !asked.words[2])
		asked.words[2] = (uint64_t)&status;
	if (!carry_out(c, &asked, &result))
		return false;
	process_reaped(c, &asked, result);
	syscall_return(r, call, result);
	return false;
}

/* True: its log is empty. */
static bool change_user(struct context *c, struct registers *r, const struct call *call)
{
	struct native_user before;
	int64_t result;

	user_read(&before);
	if (!carry_out(c, call, &result))
		return false;
	syscall_return(r, call, result);
	return !sys_is_error(result) && user_changed(c, r, &before);
}

static void add_filter(struct context *c, struct registers *r, const struct call *call)
{
	const char *name = NULL;
	struct sentence sentence;
	int64_t result;
	const char *why = sandbox_begin(c, call, &result, &name);
	char *at = sentence.text;

	if (name) {
		at = put_text(at, at + sizeof(sentence.text),
			      "the program filters (seccomp) what the recorder needs: ");
		put_text(at, sentence.text + sizeof(sentence.text), name);
		why = sentence.text;
	}
	if (why)
		leave_disabled(c, r, why);
	syscall_return(r, call, result);
}

/* True: this is a child now, or another user's process, whose log is empty. */
static bool call_program(struct context *c, struct registers *r, const struct call *call)
{
	int64_t result;

	switch (call->treatment) {
	case SYSCALL_SIGNAL:
		if (!signals_syscall(c, r))
			leave_disabled(c, r, "the program calls a system call about signals");
		return false;
	case SYSCALL_USER:
		return change_user(c, r, call);
	case SYSCALL_EXIT:
	case SYSCALL_EXIT_GROUP:
	case SYSCALL_EXEC:
	case SYSCALL_FORK:
	case SYSCALL_VFORK:
	case SYSCALL_CLONE:
	case SYSCALL_CLONE3:
		return process_call(c, r, call);
	default:
		if (sandbox_is_filter(call)) {
			add_filter(c, r, call);
			return false;
		}
		if (changes_paths(call))
			c->runtime->began = 0;
		if (call->words[0] == __NR_wait4 || call->words[0] == __NR_waitid)
			return wait_for_process(c, r, call);
		if (!carry_out(c, call, &result))
			return false;
		if (effect_after(c, call, result))
			effect_commit(c);
		if (!sys_is_error(result))
			written_after(c, call, result);
		syscall_return(r, call, result);
		return false;
	}
}

static struct call call_of(const struct context *c, const struct registers *r)
{
	const uint64_t *g = r->general;
	/* The kernel takes the number from EAX. */
	struct call call = {
	    .words = {(uint32_t)g[0], g[7], g[6], g[2], g[10], g[8], g[9]},
	    .treatment = syscall_treatment((uint32_t)g[0]),
	    .next = syscall_end(r->rip),
	};

	if (sandbox_answers(c, &call))
		call.treatment = SYSCALL_PASS;
	return call;
}

void syscall_gate(struct context *c, struct registers *r)
{
	const struct call call = call_of(c, r);
	struct sentence sentence;
	const char *why;
	int64_t result;
	bool begins;

	sentence.text[0] = 0;
	if (!c->syscalls && !(c->syscalls = memory_take(c->runtime, sizeof(*c->syscalls))))
		leave(c, r, "there is no memory for the recorder in the program");
	why = refusal(c, &call, &sentence);
	if (why) {
		if (!is_for_qemu(&call))
			effect_commit(c); /* it goes on untraced, and is not started again */
		c->log = (uint64_t)packets_disable(c, packets_room(c, r->rip));
		leave_disabled(c, r, why);
	}
	/* Room for both packets: a chunk that begins while tracing is off has no address. */
	c->log = (uint64_t)packets_room(c, r->rip);
	c->stamp = 0;
	c->log = (uint64_t)packets_disable(c, (uint8_t *)c->log);
	ring_settle(c);
	call_log_call(c, &call);
	/* Nobody looks at what a program with filters does before others see it. */
	if (!effect_is_committed(c) && (effect_is_outside(c, &call) || sandbox_is_filter(&call)))
		effect_commit(c);
	changes_before_call(c, call.words);
	begins = call_program(c, r, &call);
	if (c->sandbox)
		signals_place_trap(c, call.next);
	/* It is still before its call, which is made again after the handler of a signal. */
	result = r->rip == call.next ? (int64_t)r->general[0] : -NATIVE_RESTART_SYS;
	if (begins) /* whose log has nothing */
		c->call_logged = true;
	if (r->rip != c->interrupted_at)
		c->interrupted = 0;
	if (c->pending)
		signals_deliver(c, r);
	if (!begins && pause_is_due(c))
		pause_follow(c, r->rip, false);
	/* A log begins with PSB+, whose FUP says that tracing is on, and where. */
	c->log = (uint64_t)(begins ? packets_begin(c, (uint8_t *)c->log, r->rip)
				   : packets_enable(c, (uint8_t *)c->log, r->rip));
	call_log_return(c, &call, result);
}
