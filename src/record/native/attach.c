/* SPDX-License-Identifier: MIT */
/*
 * Attaching: stops all threads, has one of them map and start the runtime, which makes contexts,
 * and sends every thread there. A system call that was interrupted by that is made again, or fails
 * if a signal comes before (native_attached_thread.interrupted).
 */
#include "record/native/attach.h"

#include "perfdata/message.h"
#include "record/haste.h"
#include "record/native/threads.h"
#include "record/proc_stat.h"
#include "record/simulated/code_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_IMPLIES_EXEC_BIT 0x0400000u
#define HWCAP2_USER_FSGSBASE  2 /* HWCAP2_FSGSBASE of <asm/hwcap2.h> */
#define FLAG_TRAP	      (UINT64_C(1) << 8)

static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

/* ---- Whether it can be done ---------------------------------------------------- */

struct process_state {
	bool exists, seccomp, shadow_stack, namespaced, kernel, tagged;
	int32_t tracer, group;
};

static struct process_state state_of(int32_t tid)
{
	const uint64_t group = proc_status_number("", tid, "Tgid", 10),
		       seccomp = proc_status_number("", tid, "Seccomp", 10),
		       mask = proc_status_number("", tid, "untag_mask", 16);
	struct process_state s = {.exists = group != UINT64_MAX};
	int first, second;
	char text[512];

	if (!s.exists)
		return s;
	s.group = (int32_t)group;
	s.tracer = (int32_t)proc_status_number("", tid, "TracerPid", 10);
	s.seccomp = seccomp && seccomp != UINT64_MAX;
	s.kernel = proc_status_number("", tid, "Kthread", 10) == 1;
	s.tagged = mask != UINT64_MAX;
	s.namespaced = proc_status_line("", tid, "NSpid", text, sizeof(text)) &&
		       sscanf(text, "%d %d", &first, &second) == 2;
	s.shadow_stack = proc_status_line("", tid, "x86_Thread_features", text, sizeof(text)) &&
			 strstr(text, "shstk");
	return s;
}

static enum ptah_record_problem check_state(int32_t tid, const struct process_state *s,
					    struct ptah_message *why)
{
	if (s->seccomp)
		return recorder_refuse(why, no,
				       "system calls of process %d are filtered (seccomp), also "
				       "those of the recorder native inside it",
				       tid);
	if (s->shadow_stack)
		return recorder_refuse(why, no,
				       "process %d has a shadow stack, which the recorder native "
				       "cannot keep right",
				       tid);
	if (s->tagged)
		return recorder_refuse(why, no, "process %d uses tagged addresses", tid);
	return PTAH_RECORD_FINE;
}

static bool is_limited(int32_t pid)
{
	struct rlimit space = {.rlim_cur = RLIM_INFINITY}, data = space;

	prlimit(pid, RLIMIT_AS, NULL, &space);
	prlimit(pid, RLIMIT_DATA, NULL, &data);
	return space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

static bool is_all_executable(int32_t pid)
{
	unsigned personality = 0;
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/personality", pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%x", &personality) != 1)
		personality = 0;
	if (f)
		fclose(f);
	return personality & READ_IMPLIES_EXEC_BIT;
}

static enum ptah_record_problem forbidden(int32_t pid, int error, struct ptah_message *why)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	unsigned scope = 0;

	if (error == ESRCH) {
		if (f)
			fclose(f);
		return recorder_refuse(why, no,
				       "the first thread of process %d has ended, and with it the "
				       "list of what is mapped",
				       pid);
	}
	if (f && fscanf(f, "%u", &scope) != 1)
		scope = 0;
	if (f)
		fclose(f);
	if (scope)
		return recorder_refuse(why, PTAH_RECORD_PERMISSION,
				       "process %d may not be traced, because "
				       "kernel.yama.ptrace_scope is %u: run ptah as root, or start "
				       "the program with ptah record",
				       pid, scope);
	return recorder_refuse(why, PTAH_RECORD_PERMISSION,
			       "process %d may not be traced by this user (%s): run ptah as its "
			       "user, or as root",
			       pid, strerror(error));
}

static enum ptah_record_problem check_access(int32_t pid, struct ptah_message *why)
{
	char path[32];
	int fd;

	/* Opening this file needs the same permissions as tracing: proc(5). */
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return forbidden(pid, errno, why);
	close(fd);
	return PTAH_RECORD_FINE;
}

enum ptah_record_problem attach_check(int32_t pid, struct ptah_message *why)
{
	const struct process_state s = state_of(pid);
	enum ptah_record_problem problem;

	if (!(getauxval(AT_HWCAP2) & HWCAP2_USER_FSGSBASE))
		return recorder_refuse(why, no,
				       "the kernel or the processor does not let programs set the "
				       "base of GS (FSGSBASE), which the recorder native needs");
	if (pid <= 0 || !s.exists || s.group != pid)
		return recorder_refuse(why, PTAH_RECORD_NO_TARGET, "there is no process %d", pid);
	if (pid == getpid())
		return recorder_refuse(why, no, "the recorder native cannot trace itself");
	if (s.kernel)
		return recorder_refuse(why, no, "%d is a thread of the kernel", pid);
	if (s.tracer)
		return recorder_refuse(why, PTAH_RECORD_BUSY, "%d is traced already, by process %d",
				       pid, s.tracer);
	problem = check_access(pid, why);
	if (!problem)
		problem = check_state(pid, &s, why);
	if (problem)
		return problem;
	if (s.namespaced)
		return recorder_refuse(why, no,
				       "process %d is in a PID namespace of its own: record it "
				       "from in there",
				       pid);
	if (is_limited(pid))
		return recorder_refuse(why, no,
				       "the memory of process %d is limited (ulimit -v or -d), "
				       "and the recorder native needs some of it",
				       pid);
	if (is_all_executable(pid))
		return recorder_refuse(why, no,
				       "all memory of process %d is executable (personality "
				       "READ_IMPLIES_EXEC), so that any store could change code",
				       pid);
	return PTAH_RECORD_FINE;
}

#ifdef __x86_64__

struct attach {
	struct threads threads;
	struct native_attached *list;
	uint64_t site; /* of a SYSCALL instruction */
};

static enum ptah_record_problem check_thread(const struct thread *t, struct ptah_message *why)
{
	const struct process_state s = state_of(t->tid);

	if (t->regs.cs != CODE_SELECTOR)
		return recorder_refuse(why, no,
				       "process %d is a 32-bit program; the recorder native "
				       "records 64-bit programs only",
				       t->tid);
	if (t->regs.gs_base || t->regs.gs)
		return recorder_refuse(why, no,
				       "thread %d uses the segment register GS, as programs do "
				       "whose recorder native was killed",
				       t->tid);
	if (t->regs.eflags & FLAG_TRAP)
		return recorder_refuse(why, no, "thread %d steps single instructions", t->tid);
	return check_state(t->tid, &s, why);
}

/*
 * What the kernel does with a thread that it has stopped in a critical section: it goes on at the
 * section's end for failures.
 */
static void leave_section(const struct thread *t, struct native_attached_thread *to)
{
	const struct tracee h = {.pid = t->tid};
	const uint64_t none = 0, at = t->rseq.address + 8;
	struct {
		uint32_t version, flags;
		uint64_t start, size, abort;
	} section;
	uint64_t address = 0;

	if (!t->rseq.address || !tracee_read(&h, &address, at, sizeof(address)) || !address ||
	    !tracee_read(&h, &section, address, sizeof(section)))
		return;
	if (to->rip - section.start < section.size)
		to->rip = section.abort;
	tracee_write(&h, at, &none, sizeof(none));
}

static void fill_thread(const struct thread *t, struct native_attached_thread *to)
{
	const struct user_regs_struct *r = &t->regs;
	const uint64_t general[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp,
				      r->rsi, r->rdi, r->r8,  r->r9,  r->r10, r->r11,
				      r->r12, r->r13, r->r14, r->r15};

	*to = (struct native_attached_thread){.rip = r->rip,
					      .rflags = r->eflags,
					      .mask = t->mask,
					      .rseq = t->rseq,
					      .tid = t->tid,
					      .slot = NATIVE_THREADS,
					      .interrupted = t->interrupted};
	memcpy(to->registers, general, sizeof(general));
	if (t->interrupted) {
		to->registers[0] =
		    t->interrupted == NATIVE_RESTART_BLOCK ? SYS_restart_syscall : t->call;
		to->rip -= 2;
	}
	leave_section(t, to);
}

static void add_range(struct native_attached *a, uint64_t start, uint64_t end)
{
	if (a->range_count && a->ranges[a->range_count - 1].end == start) {
		a->ranges[a->range_count - 1].end = end;
	} else if (a->range_count == NATIVE_ATTACHED_RANGES) {
		a->ranges[0].start = 0;
		a->ranges[0].end = UINT64_MAX;
	} else {
		a->ranges[a->range_count].start = start;
		a->ranges[a->range_count++].end = end;
	}
}

static void fill_ranges(int32_t pid, struct native_attached *a)
{
	char path[32], *line = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		struct code_map map;

		if (code_map_parse(line, &map) && map.prot & PROT_EXEC)
			add_range(a, map.start, map.end);
	}
	free(line);
	if (f)
		fclose(f);
}

/* A failure goes on: all go on as before. */
static int let_all_go(struct attach *a, int status)
{
	threads_release(&a->threads);
	threads_free(&a->threads);
	free(a->list);
	free(a);
	return status;
}

static bool fill_list(struct attach *a)
{
	const uint64_t bytes = sizeof(*a->list) + a->threads.count * sizeof(a->list->threads[0]);

	a->list = calloc(1, bytes);
	if (!a->list)
		return false;
	a->list->bytes = (bytes + NATIVE_PAGE - 1) & ~(uint64_t)(NATIVE_PAGE - 1);
	for (size_t i = 0; i < a->threads.count; i++)
		if (a->threads.list[i].state == THREAD_STANDS)
			fill_thread(&a->threads.list[i],
				    &a->list->threads[a->list->thread_count++]);
	fill_ranges(a->threads.pid, a->list);
	return a->list->thread_count;
}

struct attach *attach_hold(int32_t pid, const int64_t *late, struct ptah_message *why)
{
	struct attach *a = calloc(1, sizeof(*a));
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	if (!a) {
		perfdata_message(why, PTAH_E_NOMEM, "out of memory");
		return NULL;
	}
	a->threads.pid = pid;
	a->threads.late = late;
	if (threads_stop(&a->threads, why) < 0) {
		let_all_go(a, 0);
		return NULL;
	}
	for (size_t i = 0; i < a->threads.count && !problem; i++)
		if (a->threads.list[i].state == THREAD_STANDS)
			problem = check_thread(&a->threads.list[i], why);
	if (!problem && !fill_list(a)) {
		perfdata_message(why, PTAH_E_MISSING, "process %d has ended", pid);
		problem = PTAH_RECORD_NO_TARGET;
	}
	a->site = threads_find_site(pid);
	if (!problem && !a->site) {
		perfdata_message(why, PTAH_E_SYSTEM, "process %d has no vDSO", pid);
		problem = no;
	}
	if (!problem)
		return a;
	let_all_go(a, 0);
	return NULL;
}

/* The thread runs start() until it has made all contexts. *control: of its process. */
static int start_runtime(struct tracee *h, uint64_t *control)
{
	struct user_regs_struct r;
	int status;

	for (;;) {
		int signal = 0;

		if (ptrace(PTRACE_SYSCALL, h->pid, 0, 0) && errno != ESRCH)
			return tracee_fail(h, "starting it");
		for (;;) {
			const pid_t got = haste_waitpid(h->pid, &status, __WALL, h->late);

			if (got <= 0 || !WIFSTOPPED(status)) {
				h->ended = true;
				return tracee_fail(h, "starting it");
			}
			signal = WSTOPSIG(status);
			if (signal == SYSCALL_STOP)
				break;
			if (status >> 16 || signal == SIGSTOP) {
				h->stopped |= signal == SIGSTOP && !(status >> 16);
				signal = 0;
			}
			ptrace(PTRACE_SYSCALL, h->pid, 0, signal);
		}
		if (!threads_is_entry(h->pid) || ptrace(PTRACE_GETREGS, h->pid, 0, &r))
			continue;
		if (r.orig_rax != NATIVE_CALL || r.rdi != NATIVE_CALL_READY)
			continue;
		*control = r.rdx;
		errno = ENOMEM;
		return r.rsi ? tracee_fail(h, "starting it") : 0;
	}
}

/* Maps the list of threads, and lets the first one run. */
static int begin_runtime(struct tracee *h, const struct attach_memory *m,
			 const struct native_attached *list, uint64_t *at, uint64_t *control)
{
	struct inject_memory memory = m->inject;
	struct user_regs_struct r = h->program;
	struct native_handover o;
	uint64_t top;

	*at = tracee_map(h, list->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!*at)
		return tracee_fail(h, "mapping memory for its threads");
	memory.slot = list->threads[0].slot;
	tracee_handover(h, &memory, &o);
	o.attached = *at;
	top = tracee_top(h);
	r.rip = h->base + NATIVE_PAGE;
	r.rdi = top;
	r.rsp = top - 8;
	r.eflags = 0x202;
	r.orig_rax = UINT64_MAX;
	if (!tracee_clear_stack(h) || !tracee_write(h, top, &o, sizeof(o)) ||
	    !tracee_write(h, *at, list,
			  sizeof(*list) + list->thread_count * sizeof(list->threads[0])) ||
	    ptrace(PTRACE_SETREGS, h->pid, 0, &r))
		return tracee_fail(h, "letting it run");
	return start_runtime(h, control);
}

/* All other threads go on in the runtime. The first one is the last, so that it can still fail. */
static int send_others(struct tracee *h, struct attach *a, uint64_t at, uint64_t control)
{
	struct native_control c;
	size_t bytes = sizeof(*a->list) + a->list->thread_count * sizeof(a->list->threads[0]);

	if (!tracee_read(h, &c, control, sizeof(c)) || !tracee_read(h, a->list, at, bytes))
		return tracee_fail(h, "reading what it has made");
	for (size_t i = 0, n = 0; i < a->threads.count; i++) {
		struct thread *t = &a->threads.list[i];
		struct user_regs_struct r = t->regs;

		if (t->state != THREAD_STANDS)
			continue;
		if (!n++)
			continue; /* the first */
		if (!tracee_read(h, &r.gs_base, a->list->threads[n - 1].start, sizeof(r.gs_base)))
			continue;
		r.rip = c.thread_entry;
		r.rdi = a->list->threads[n - 1].start;
		r.rsp = r.rdi - 8;
		r.eflags = 0x202;
		r.orig_rax = UINT64_MAX;
		ptrace(PTRACE_SETREGS, t->tid, 0, &r);
		ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(uint64_t), &(uint64_t){ALL_SIGNALS});
		ptrace(PTRACE_DETACH, t->tid, 0, 0);
		t->state = THREAD_GONE;
	}
	threads_answer(h->pid, NATIVE_GO_ON);
	ptrace(PTRACE_DETACH, h->pid, 0, 0);
	if (h->stopped)
		kill(h->process, SIGSTOP);
	return 0;
}

/* Takes out again what was put into the process, which has run none of its own code since. */
static void undo(struct tracee *h, uint64_t list, uint64_t bytes)
{
	if (h->ended)
		return;
	tracee_close(h);
	tracee_give_room_back(h);
	if (list)
		tracee_call(h, SYS_munmap, list, bytes, 0, 0, 0, 0);
	if (h->shared)
		tracee_call(h, SYS_munmap, h->shared, h->shared_bytes, 0, 0, 0, 0);
	if (h->base)
		tracee_call(h, SYS_munmap, h->base, h->bytes, 0, 0, 0, 0);
}

static void claim_slots(struct attach *a, const struct attach_memory *m)
{
	for (uint32_t i = 0; i < a->list->thread_count; i++)
		a->list->threads[i].slot = m->claim(m->context);
}

static void give_slots_back(const struct attach *a, const struct attach_memory *m)
{
	for (uint32_t i = 0; i < a->list->thread_count; i++)
		if (a->list->threads[i].slot < NATIVE_THREADS)
			m->give_back(m->context, a->list->threads[i].slot);
}

int attach_put(struct attach *a, const struct attach_memory *memory, uint64_t *control,
	       struct ptah_message *why)
{
	const struct inject_memory *m = &memory->inject;
	struct thread *first = threads_first(&a->threads);
	struct tracee h = {.pid = first->tid,
			   .process = a->threads.pid,
			   .runs = true,
			   .why = why,
			   .program = first->regs,
			   .site = a->site,
			   .mask = first->mask,
			   .held = true,
			   .late = m->late,
			   .shared_bytes = m->bytes,
			   .descriptors = {-1, -1, -1}};
	uint64_t list = 0;
	int status;

	/* Where it goes on if the recorder is killed meanwhile: see tracee.h. */
	h.program.rip = a->list->threads[0].rip;
	h.program.rax = a->list->threads[0].registers[0];
	claim_slots(a, memory);
	tracee_lend_room(&h);
	ptrace(PTRACE_SETSIGMASK, h.pid, sizeof(uint64_t), &(uint64_t){ALL_SIGNALS});
	if (a->list->threads[0].slot == NATIVE_THREADS)
		status = perfdata_message(why, PTAH_E_UNSUPPORTED,
					  "more threads run at the same time than can be recorded");
	else
		status = tracee_map_blob(&h, m);
	if (status >= 0)
		status = tracee_map_memory(&h, m);
	if (status >= 0)
		status = begin_runtime(&h, memory, a->list, &list, control);
	if (status >= 0)
		status = send_others(&h, a, list, *control);
	if (status >= 0) {
		first->state = THREAD_GONE; /* it goes on */
	} else {
		undo(&h, list, a->list->bytes);
		give_slots_back(a, memory);
	}
	return let_all_go(a, status);
}

#else

struct attach *attach_hold(int32_t pid, const int64_t *late, struct ptah_message *why)
{
	(void)pid;
	(void)late;
	perfdata_message(why, PTAH_E_SYSTEM, "the recorder native is for x86-64 processors only");
	return NULL;
}

int attach_put(struct attach *a, const struct attach_memory *memory, uint64_t *control,
	       struct ptah_message *why)
{
	(void)a;
	(void)memory;
	(void)control;
	return perfdata_message(why, PTAH_E_SYSTEM,
				"the recorder native is for x86-64 processors only");
}

#endif
