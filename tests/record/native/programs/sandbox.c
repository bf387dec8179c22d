/* SPDX-License-Identifier: MIT */
/*
 * sandbox WHAT: a program that filters its system calls (seccomp), as sandboxes and services do,
 * and prints what the calls answer then. after() is executed 1,000 times in the end.
 */
#include "report.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define LOAD(member)	 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(value)	 BPF_STMT(BPF_RET | BPF_K, value)
#define IS(value, t, f)	 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, t, f)
#define ANSWER(nr, what) IS(nr, 0, 1), RETURN(what)
#define FAIL(error)	 (SECCOMP_RET_ERRNO | (error))
#define ALLOW		 RETURN(SECCOMP_RET_ALLOW)
/* As libseccomp begins: other architectures and x32 are killed. */
#define BEGIN                                                                                      \
	LOAD(arch), IS(AUDIT_ARCH_X86_64, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr),       \
	    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),                                 \
	    RETURN(SECCOMP_RET_KILL_PROCESS)

static long filter(unsigned flags, const struct sock_filter *code, size_t bytes)
{
	const struct sock_fprog program = {.len = (unsigned short)(bytes / sizeof(*code)),
					   .filter = (struct sock_filter *)(uintptr_t)code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

#define FILTER(flags, ...)                                                                         \
	filter(flags, (const struct sock_filter[]){__VA_ARGS__},                                   \
	       sizeof((const struct sock_filter[]){__VA_ARGS__}))

__attribute__((noinline)) static void after(int i)
{
	__asm__ volatile("" : : "r"(i));
}

static int finish(void)
{
	for (int i = 0; i < 1000; i++)
		after(i);
	puts("done");
	return 0;
}

/* ---- SIGSYS -------------------------------------------------------------- */

static volatile long trap_number, trap_registers;
static void *volatile trap_address;

/* Carries the call out in the kernel's place, as sandboxes do. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signal;
	trap_number = info->si_syscall;
	trap_address = info->si_call_addr;
	trap_registers = r[REG_RAX] == info->si_syscall && r[REG_RDI] == 11 && r[REG_RSI] == 22 &&
			 (uintptr_t)r[REG_RIP] == (uintptr_t)info->si_call_addr &&
			 info->si_arch == AUDIT_ARCH_X86_64;
	r[REG_RAX] = 77;
}

static long call_11_22(long number, void **end)
{
	long result = number;

	__asm__ volatile("syscall\n1:\tleaq 1b(%%rip), %1"
			 : "+a"(result), "=&r"(*end)
			 : "D"(11L), "S"(22L)
			 : "rcx", "r11", "memory");
	return result;
}

static void trap(const char *what, long number)
{
	void *end;

	trap_number = 0;
	report_number(what, call_11_22(number, &end));
	report_number("number", trap_number);
	report_number("place and registers", trap_address == end && trap_registers);
}

static int traps(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	sigaction(SIGSYS, &action, NULL);
	/* libseccomp asks so whether there is this system call. */
	report("strict with flags", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	report("filter",
	       FILTER(0, BEGIN, ANSWER(SYS_getpgid, SECCOMP_RET_TRAP),
		      ANSWER(SYS_mremap, SECCOMP_RET_TRAP), ANSWER(SYS_clone3, SECCOMP_RET_TRAP),
		      ANSWER(SYS_execve, SECCOMP_RET_TRAP), ALLOW));
	trap("getpgid", SYS_getpgid);
	trap("mremap", SYS_mremap);
	trap("execve", SYS_execve);
	trap("clone3", SYS_clone3);
	trap("allowed", SYS_getuid);
	return finish();
}

/* ---- Errors, also by arguments --------------------------------------------- */

static int errors(void)
{
	struct utsname name;

	report("filter",
	       FILTER(SECCOMP_FILTER_FLAG_LOG, BEGIN, ANSWER(SYS_uname, FAIL(EXDEV)),
		      ANSWER(SYS_clone3, FAIL(EPERM)), ANSWER(SYS_rseq, FAIL(EDOM)),
		      ANSWER(SYS_ptrace, FAIL(ENOLINK)), ANSWER(SYS_mlock, FAIL(0)),
		      ANSWER(SYS_getppid, SECCOMP_RET_LOG), IS(SYS_dup2, 0, 3), LOAD(args[1]),
		      IS(99, 0, 1), RETURN(FAIL(ECHILD)), LOAD(nr), IS(SYS_mmap, 0, 4),
		      LOAD(args[3]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_LOCKED, 0, 1),
		      RETURN(FAIL(EXFULL)), ALLOW, ALLOW));
	report("uname", uname(&name));
	report("clone3", syscall(SYS_clone3, NULL, 0));
	report("rseq", syscall(SYS_rseq, NULL, 0, 0, 0));
	report("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0));
	report_number("mlock", syscall(SYS_mlock, 0, 1));
	report_number("getppid", getppid() > 0);
	report("dup2 of 98", dup2(1, 98));
	report("dup2 of 99", dup2(1, 99));
	report("locked", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1,
			      0) == MAP_FAILED
			     ? -1
			     : 0);
	report("not locked",
	       mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1
											     : 0);
	report("no filter", FILTER(~0U, ALLOW));
	return finish();
}

/* ---- Lists of what is allowed ---------------------------------------------- */

#define PASS(nr) ANSWER(nr, SECCOMP_RET_ALLOW)

/* Whatever is not in it ends the process. */
static int listed(void)
{
	report("filter",
	       FILTER(0, BEGIN, PASS(SYS_read), PASS(SYS_write), PASS(SYS_exit),
		      PASS(SYS_exit_group), PASS(SYS_futex), PASS(SYS_sched_yield), PASS(SYS_mmap),
		      PASS(SYS_munmap), PASS(SYS_mprotect), PASS(SYS_brk), PASS(SYS_rt_sigaction),
		      PASS(SYS_rt_sigprocmask), PASS(SYS_rt_sigreturn), PASS(SYS_sigaltstack),
		      PASS(SYS_rt_tgsigqueueinfo), PASS(SYS_tgkill), PASS(SYS_getpid),
		      PASS(SYS_gettid), PASS(SYS_getuid), PASS(SYS_clone), PASS(SYS_wait4),
		      PASS(SYS_set_robust_list), PASS(SYS_newfstatat), PASS(SYS_getrandom),
		      RETURN(SECCOMP_RET_KILL_PROCESS)));
	report("getuid", getuid() == (uid_t)-1 ? -1 : 0);
	finish();
	fflush(stdout);
	getppid();
	return 1;
}

/* ---- Threads ------------------------------------------------------------------ */

static void *wait_and_ask(void *barrier)
{
	long result;

	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	result = syscall(SYS_getpgid, 0);
	return (void *)(result == -1 && errno == EXDEV ? 1L : 0L);
}

static void *die(void *nothing)
{
	FILTER(0, BEGIN, ANSWER(SYS_getpgid, SECCOMP_RET_KILL_THREAD), ALLOW);
	syscall(SYS_getpgid, 0);
	return nothing;
}

/* What the thread had is cleared, as at each end of one. */
static int await_death(pthread_t *thread)
{
	return pthread_join(*thread, NULL);
}

static int threads(void)
{
	pthread_barrier_t barrier;
	pthread_t thread[3];
	void *synchronized, *alone;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread[0], NULL, wait_and_ask, &barrier);
	pthread_barrier_wait(&barrier);
	report("one thread", FILTER(0, BEGIN, ANSWER(SYS_getsid, FAIL(EDOM)), ALLOW));
	pthread_barrier_wait(&barrier);
	pthread_join(thread[0], &alone);
	pthread_create(&thread[1], NULL, wait_and_ask, &barrier);
	pthread_barrier_wait(&barrier);
	report("all threads",
	       FILTER(SECCOMP_FILTER_FLAG_TSYNC, BEGIN, ANSWER(SYS_getpgid, FAIL(EXDEV)), ALLOW));
	pthread_barrier_wait(&barrier);
	pthread_join(thread[1], &synchronized);
	report_number("filtered", (long)alone);
	report_number("filtered", (long)synchronized);
	pthread_create(&thread[2], NULL, die, NULL);
	report_number("killed", await_death(&thread[2]));
	return finish();
}

static void *filter_alone(void *nothing)
{
	FILTER(0, LOAD(nr), ANSWER(SYS_getpgid, FAIL(EXDEV)), ALLOW);
	return syscall(SYS_getpgid, 0) == -1 && errno == EXDEV ? &errno : nothing;
}

/* Threads come and go, each with filters of its own: more than a process can have at a time. */
static int each(void)
{
	unsigned filtered = 0;

	for (unsigned i = 0; i < 400; i++) {
		pthread_t thread;
		void *result = NULL;

		if (pthread_create(&thread, NULL, filter_alone, NULL) ||
		    pthread_join(thread, &result))
			return 1;
		filtered += result != NULL;
	}
	report_number("filtered", filtered);
	report("not here", syscall(SYS_getpgid, 0) < 0 ? -1 : 0);
	return finish();
}

/* ---- What the recorder cannot live with ------------------------------------ */

static void *do_nothing(void *nothing)
{
	return nothing;
}

static int refuses(long number)
{
	pthread_t thread;

	report("filter",
	       FILTER(0, BEGIN, ANSWER((unsigned)number, SECCOMP_RET_KILL_PROCESS), ALLOW));
	if (number != SYS_futex && number != SYS_mmap)
		report("thread", pthread_create(&thread, NULL, do_nothing, NULL));
	return finish();
}

static int layers(void)
{
	report("first", FILTER(0, BEGIN, ANSWER(SYS_getpgid, FAIL(EXDEV)), ALLOW));
	report("second", FILTER(0, BEGIN, ANSWER(SYS_getpgid, SECCOMP_RET_ALLOW),
				ANSWER(SYS_getsid, FAIL(EDOM)), ALLOW));
	report("getpgid", syscall(SYS_getpgid, 0));
	report("getsid", syscall(SYS_getsid, 0));
	finish();
	report("third", FILTER(0, BEGIN, ANSWER(SYS_sched_yield, FAIL(EXDEV)), ALLOW));
	report("yield", sched_yield());
	return finish();
}

/* Calls that no kernel has end the process: the recorder has one of these for changes of users. */
static int change_user(void)
{
	report("filter", FILTER(0, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1000, 0, 1),
				RETURN(SECCOMP_RET_KILL_PROCESS), ALLOW));
	finish();
	report("user", setuid(getuid() ? getuid() : 65534));
	return finish();
}

static int by_address(void)
{
	report("filter",
	       FILTER(0, LOAD(instruction_pointer), IS(1, 0, 1), RETURN(FAIL(EPERM)), ALLOW));
	return finish();
}

static int strict(void)
{
	puts("strict");
	fflush(stdout);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return 1;
	if (write(1, "written\n", 8) != 8)
		return 2;
	syscall(SYS_exit, 0);
	return 3;
}

/* ---- Processes ----------------------------------------------------------------- */

static int processes(char *self)
{
	int status;
	pid_t child;

	report("filter", FILTER(0, BEGIN, ANSWER(SYS_getpgid, FAIL(EXDEV)),
				ANSWER(SYS_madvise, FAIL(EINVAL)), ALLOW));
	fflush(stdout);
	child = fork();
	if (!child) {
		report("child", syscall(SYS_getpgid, 0));
		fflush(stdout);
		execl(self, self, "executed", NULL);
	}
	waitpid(child, &status, 0);
	report_number("status", status);
	report("forked", FILTER(0, BEGIN, ANSWER(SYS_clone, FAIL(EXFULL)), ALLOW));
	report("fork", fork());
	return finish();
}

static int executed(void)
{
	report("executed", syscall(SYS_getpgid, 0));
	return finish();
}

/* ---- Another process decides --------------------------------------------------- */

static void *answer(void *descriptor)
{
	struct seccomp_notif asked = {0};
	struct seccomp_notif_resp answered = {0};

	if (ioctl((int)(long)descriptor, SECCOMP_IOCTL_NOTIF_RECV, &asked))
		return NULL;
	answered.id = asked.id;
	answered.val = asked.data.nr == SYS_getpgid ? 4711 : 0;
	ioctl((int)(long)descriptor, SECCOMP_IOCTL_NOTIF_SEND, &answered);
	return NULL;
}

static int decides(void)
{
	const long descriptor = FILTER(SECCOMP_FILTER_FLAG_NEW_LISTENER, BEGIN,
				       ANSWER(SYS_getpgid, SECCOMP_RET_USER_NOTIF), ALLOW);
	pthread_t thread;

	report("filter", descriptor < 0 ? -1 : 0);
	pthread_create(&thread, NULL, answer, (void *)descriptor);
	report_number("answer", syscall(SYS_getpgid, 0));
	pthread_join(thread, NULL);
	return finish();
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";

	if (!strcmp(what, "traps"))
		return traps();
	if (!strcmp(what, "errors"))
		return errors();
	if (!strcmp(what, "listed"))
		return listed();
	if (!strcmp(what, "threads"))
		return threads();
	if (!strcmp(what, "each"))
		return each();
	if (!strcmp(what, "layers"))
		return layers();
	if (!strcmp(what, "futex"))
		return refuses(SYS_futex);
	if (!strcmp(what, "mmap"))
		return refuses(SYS_mmap);
	if (!strcmp(what, "queue"))
		return refuses(SYS_rt_tgsigqueueinfo);
	if (!strcmp(what, "user"))
		return change_user();
	if (!strcmp(what, "address"))
		return by_address();
	if (!strcmp(what, "strict"))
		return strict();
	if (!strcmp(what, "processes"))
		return processes(arguments[0]);
	if (!strcmp(what, "executed"))
		return executed();
	return strcmp(what, "decides") ? 2 : decides();
}
