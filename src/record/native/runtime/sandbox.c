/* SPDX-License-Identifier: MIT */
/*
 * See sandbox.h. The kernel asks all filters of a thread and takes the strictest answer, so each is
 * looked at alone. They are kept while a context has them, because what they say may depend on
 * arguments. An ended thread's context has its filters until another thread takes it.
 */
#include "record/native/runtime/sandbox.h"

#include "record/native/runtime/bpf.h"
#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/audit.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#define NUMBERS	    512 /* of system calls; there are fewer */
#define FILTERS_MAX 256 /* of one process that are followed */
/* Of own_calls.def. */
#define NEW	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define SHARED	(MAP_SHARED | MAP_NORESERVE)
#define NOWHERE (~UINT64_C(0)) /* as a descriptor */
#define SOCKET	02000001       /* SOCK_STREAM | SOCK_CLOEXEC */

/* A filter that the thread has; those that it had before stand behind it. */
struct sandbox_filter {
	struct sandbox_filter *before;
	uint32_t users;	 /* contexts, and filters that it stands behind; the cache's lock */
	uint32_t count;	 /* with those before it, and those that nobody has seen */
	uint32_t length; /* instructions */
	uint8_t passes[NUMBERS / 8]; /* bit n: so far, nobody denies call n, whatever it is for */
	struct sock_filter program[BPF_MAXINSNS];
};

static const struct own_call {
	uint16_t number;
	uint8_t need, known;
	uint64_t arguments[6];
} own_calls[] = {
#define OWN_CALL(name, need, known, a, b, c, d, e, f)                                              \
	{__NR_##name, NATIVE_NEEDS_##need, known, {a, b, c, d, e, f}},
#include "record/native/runtime/own_calls.def"
#undef OWN_CALL
};

static const char own_names[] =
#define OWN_CALL(name, need, known, a, b, c, d, e, f) #name "\0"
#include "record/native/runtime/own_calls.def"
#undef OWN_CALL
    ;

static const char *own_name(unsigned row)
{
	const char *name = own_names;

	while (row--)
		while (*name++)
			;
	return name;
}

/* known: bit n for argument n. The runtime makes the calls, wherever it is. */
static struct bpf_call bpf_call_of(uint64_t number, const uint64_t arguments[6], unsigned known)
{
	struct bpf_call call = {.words = {(uint32_t)number, AUDIT_ARCH_X86_64}, .known = 3};

	for (unsigned i = 0; i < 6; i++) {
		call.words[4 + 2 * i] = (uint32_t)arguments[i];
		call.words[5 + 2 * i] = (uint32_t)(arguments[i] >> 32);
		if (known & 1u << i)
			call.known |= (uint16_t)(3u << (4 + 2 * i));
	}
	return call;
}

static uint32_t answers_to(const struct sandbox_filter *f, uint64_t number,
			   const uint64_t arguments[6], unsigned known)
{
	const struct bpf_call call = bpf_call_of(number, arguments, known);

	return bpf_answers(f->program, f->length, &call);
}

bool sandbox_is_filter(const struct call *call)
{
	const uint64_t *w = call->words;

	return call->treatment == SYSCALL_SECCOMP
		   ? (uint32_t)w[1] == SECCOMP_SET_MODE_FILTER
		   : call->treatment == SYSCALL_PRCTL && (uint32_t)w[1] == PR_SET_SECCOMP &&
			 w[2] == SECCOMP_MODE_FILTER;
}

/* ---- Looking into one ---------------------------------------------------- */

/* The runtime makes the program's calls, too, and at other addresses. */
static bool asks_for_address(const struct sandbox_filter *f)
{
	for (uint32_t i = 0; i < f->length; i++)
		if (f->program[i].code == (BPF_LD | BPF_W | BPF_ABS) &&
		    (f->program[i].k == 8 || f->program[i].k == 12))
			return true;
	return false;
}

/* Whether the runtime does anything but to give the call to the kernel. */
static bool is_followed(enum syscall_treatment treatment)
{
	switch (treatment) {
	case SYSCALL_LEAVE:
	case SYSCALL_PASS:
	case SYSCALL_COMMIT:
	case SYSCALL_OPEN:
	case SYSCALL_OPENAT:
	case SYSCALL_READ:
	case SYSCALL_CLOSE:
	case SYSCALL_DUP:
	case SYSCALL_CLOSE_RANGE:
	case SYSCALL_IOCTL:
	case SYSCALL_FCNTL:
	case SYSCALL_KILL:
	case SYSCALL_TGKILL:
		return false;
	default:
		return true;
	}
}

/*
 * What the filter may answer to a call about which nothing is known after execve, where nobody has
 * it, so that it cannot be asked: what the runtime does then is right without knowing.
 */
static bool is_safe_unseen(enum syscall_treatment treatment, uint32_t answers)
{
	switch (treatment) {
	case SYSCALL_EXIT:
	case SYSCALL_EXIT_GROUP:
		return answers == BPF_ALLOWS;
	case SYSCALL_CLONE3: /* which is answered by ENOSYS, as is rseq */
		return !(answers & ~(uint32_t)(BPF_ALLOWS | BPF_FAILS_NOSYS));
	case SYSCALL_RSEQ:
		return !(answers & ~(uint32_t)(BPF_ALLOWS | BPF_FAILS_NOSYS | BPF_FAILS));
	default:
		return !(answers & BPF_INTERFERES);
	}
}

/* vfork() is made as clone(). */
static uint32_t answers_to_vfork(const struct sandbox_filter *f)
{
	static const uint64_t flags[6] = {CLONE_VM | CLONE_VFORK | 17 /* SIGCHLD */};

	return answers_to(f, __NR_clone, flags, 0x3d);
}

/* Adds to *denied what the filter does not let through. False: it cannot be followed. */
static bool look_at_calls(struct sandbox_filter *f, uint32_t *denied)
{
	static const uint64_t any[6];

	for (unsigned n = 0; n < NUMBERS; n++) {
		const enum syscall_treatment treatment = syscall_treatment(n);
		const uint32_t answers = answers_to(f, n, any, 0);

		if (answers == BPF_ALLOWS && (!f->before || f->before->passes[n / 8] & 1u << n % 8))
			f->passes[n / 8] |= (uint8_t)(1u << n % 8);
		if (!is_followed(treatment))
			continue;
		if (answers & (BPF_ASKS | BPF_CANNOT_TELL))
			return false;
		if (!is_safe_unseen(treatment, answers) ||
		    (treatment == SYSCALL_VFORK && answers != answers_to_vfork(f)))
			*denied |= NATIVE_NEEDS_ENTRY;
	}
	return true;
}

/* The call that no kernel has, which becomes none when the recorder answers it: user.c. */
static bool lets_move(const struct sandbox_filter *f)
{
	static const uint64_t move[6] = {NATIVE_CALL_MOVE};

	return answers_to(f, NATIVE_CALL, move, 1) == BPF_ALLOWS &&
	       answers_to(f, UINT32_MAX, move, 1) == BPF_ALLOWS;
}

static const char *look_at(struct sandbox_filter *f, uint32_t *denied, const char **name)
{
	static const char other[] = "the program has a filter of system calls that cannot be "
				    "followed";

	if (asks_for_address(f) || !look_at_calls(f, denied))
		return other;
	if (!lets_move(f))
		*denied |= NATIVE_NEEDS_USER;
	for (unsigned i = 0; i < sizeof(own_calls) / sizeof(own_calls[0]); i++) {
		const struct own_call *own = &own_calls[i];

		if (answers_to(f, own->number, own->arguments, own->known) == BPF_ALLOWS)
			continue;
		*denied |= own->need;
		if (own->need != NATIVE_NEEDS_ALWAYS)
			continue;
		*name = own_name(i);
		return other;
	}
	return NULL;
}

/* ---- Calls ---------------------------------------------------------------- */

/* The flags of seccomp() that give all threads the filter. */
static bool is_for_all(const struct call *call)
{
	return call->treatment == SYSCALL_SECCOMP && call->words[2] & SECCOMP_FILTER_FLAG_TSYNC;
}

/* The copy is given to the kernel: the program's own may change meanwhile. */
static int64_t add_copy(const struct call *call, const struct sandbox_filter *f)
{
	const struct sock_fprog program = {
	    .len = (uint16_t)f->length,
	    .filter = (struct sock_filter *)(uintptr_t)f->program,
	};
	struct call changed = *call;

	changed.words[3] = (uint64_t)&program;
	return syscall_kernel(&changed);
}

/* With the flag TSYNC, a number above 0 may be that of a thread that cannot have it. */
static bool has_begun(const struct call *call, int64_t result)
{
	const uint64_t descriptor = SECCOMP_FILTER_FLAG_NEW_LISTENER;

	return !result ||
	       (result > 0 && call->treatment == SYSCALL_SECCOMP && call->words[2] & descriptor);
}

static void drop_filter(struct runtime *rt, struct sandbox_filter *f)
{
	while (f && !--f->users) {
		struct sandbox_filter *before = f->before;

		memory_unmap(rt, f, sizeof(*f));
		f = before;
	}
}

/*
 * With the cache's lock. Nobody reads what is dropped: a thread that the kernel gives the filter
 * of another one has had only filters that stand behind it.
 */
static void give_filter(struct context *c, struct sandbox_filter *f)
{
	struct sandbox_filter *had = c->sandbox;

	if (f)
		f->users++;
	c->sandbox = f;
	drop_filter(c->runtime, had);
}

static void begin(struct context *c, const struct call *call, struct sandbox_filter *f)
{
	struct context *at = is_for_all(call) ? c->runtime->contexts : NULL;

	if (f->before)
		f->before->users++;
	give_filter(c, f);
	for (; at; at = at->next)
		give_filter(at, f);
}

static const char *try_filter(struct context *c, const struct call *call, struct sandbox_filter *f,
			      int64_t *result, const char **name)
{
	uint32_t denied = 0;
	const char *why = look_at(f, &denied, name);

	if (why)
		return why;
	/* From here on the runtime does without what is denied: other threads, too. */
	__atomic_fetch_or(&c->runtime->denied, denied, __ATOMIC_SEQ_CST);
	*result = add_copy(call, f);
	if (has_begun(call, *result))
		begin(c, call, f);
	return NULL;
}

/* With the cache's lock: another thread may give this one its filters, and drop those it had. */
static const char *begin_filter(struct context *c, const struct call *call,
				const struct sock_fprog *program, int64_t *result,
				const char **name)
{
	const uint32_t before = c->sandbox ? c->sandbox->count : c->runtime->filters_before;
	struct sandbox_filter *f;
	const char *why;

	f = before < FILTERS_MAX ? memory_map(c->runtime, sizeof(*f)) : NULL;
	if (!f)
		return "the program has more filters of system calls than can be followed";
	f->before = c->sandbox;
	f->count = before + 1;
	f->length = program->len;
	if (!process_read(c, (uint64_t)program->filter, f->program,
			  f->length * sizeof(f->program[0]))) {
		*result = -EFAULT;
		why = NULL;
	} else {
		why = try_filter(c, call, f, result, name);
	}
	if (why || !has_begun(call, *result))
		memory_unmap(c->runtime, f, sizeof(*f));
	return why;
}

const char *sandbox_begin(struct context *c, const struct call *call, int64_t *result,
			  const char **name)
{
	struct sock_fprog program;
	const char *why;

	if (!process_read(c, call->words[3], &program, sizeof(program)) || !program.len ||
	    !program.filter || program.len > BPF_MAXINSNS) {
		*result = syscall_kernel(call); /* which fails */
		return NULL;
	}
	if (c->runtime->attached)
		return "the program filters system calls, and the recorder may have to detach";
	cache_lock(c);
	why = begin_filter(c, call, &program, result, name);
	cache_unlock(c);
	return why;
}

bool sandbox_answers(const struct context *c, const struct call *call)
{
	const struct sandbox_filter *f = c->sandbox;
	const uint64_t n = call->words[0];
	uint32_t answers = 0;

	if (!f || (n < NUMBERS && f->passes[n / 8] & 1u << n % 8) ||
	    (call->treatment != SYSCALL_LEAVE && !is_followed(call->treatment)))
		return false;
	for (; f; f = f->before)
		answers |= answers_to(f, n, call->words + 1, 0x3f);
	/* Where another process decides, the kernel may carry it out. */
	return answers != BPF_ALLOWS && !(answers & (BPF_ASKS | BPF_CANNOT_TELL));
}

void sandbox_inherit(struct context *parent, struct context *child)
{
	if (!parent->sandbox && !child->sandbox)
		return;
	cache_lock(parent); /* against sandbox_begin() for all threads */
	give_filter(child, parent->sandbox);
	cache_unlock(parent);
}

uint64_t sandbox_summary(const struct context *c)
{
	const uint64_t denied = __atomic_load_n(&c->runtime->denied, __ATOMIC_RELAXED);

	return denied << 32 | (c->sandbox ? c->sandbox->count : c->runtime->filters_before);
}
