/* SPDX-License-Identifier: MIT */
/* Signals that arrive in every kind of situation. argv[1] names the case. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t count;
static volatile unsigned work;
static sigjmp_buf back;

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigaction(signal, &action, NULL);
}

static void start_timer(unsigned microseconds)
{
	struct itimerval timer = {{0, microseconds}, {0, microseconds}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void on_alarm(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	count++;
}

/* Calls, returns and both ways of a branch, at which signals may arrive. */
static unsigned step(unsigned n)
{
	work += n & 1 ? n : 1;
	return n;
}

static int asynchronous(void)
{
	unsigned (*volatile indirect)(unsigned) = step;

	handle(SIGALRM, on_alarm, SA_RESTART);
	start_timer(700);
	for (unsigned i = 0; count < 100; i++)
		indirect(step(i));
	start_timer(0);
	return 0;
}

static void copy(char *to, const char *from, unsigned long n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* A loop of one block, and a string instruction: both run without leaving the block. */
static int tight(void)
{
	static char a[5000], b[5000];

	handle(SIGALRM, on_alarm, SA_RESTART);
	start_timer(700);
	while (count < 30)
		;
	while (count < 60)
		copy(a, b, sizeof(a));
	__asm__ volatile("1: jmp 2f\n2: cmpl $90, %0\n\tjl 1b" : : "m"(count) : "cc");
	start_timer(0);
	return 0;
}

static int self(void)
{
	handle(SIGUSR1, on_alarm, 0);
	for (int i = 0; i < 20; i++) {
		kill(getpid(), SIGUSR1);
		raise(SIGUSR1);
	}
	return count != 40;
}

static void on_outer(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	for (int i = 0; i < 3; i++)
		raise(SIGUSR2);
	count++;
}

/* Enters itself until ten deep. */
static void on_nodefer(int signal, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	if (++count < 10)
		raise(signal);
}

static int nested(void)
{
	sigset_t both;

	handle(SIGUSR1, on_outer, 0);
	handle(SIGUSR2, on_alarm, 0);
	raise(SIGUSR1);
	if (count != 4)
		return 1;
	count = 0;
	handle(SIGUSR1, on_nodefer, SA_NODEFER);
	raise(SIGUSR1);
	if (count != 10)
		return 2;
	/* Two at once: the second interrupts the first before its first instruction. */
	count = 0;
	handle(SIGUSR1, on_alarm, 0);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	for (int i = 0; i < 10; i++) {
		sigprocmask(SIG_BLOCK, &both, NULL);
		raise(SIGUSR1);
		raise(SIGUSR2);
		sigprocmask(SIG_UNBLOCK, &both, NULL);
	}
	return count != 20;
}

static void on_jump(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	siglongjmp(back, 1);
}

static int jumping(void)
{
	handle(SIGALRM, on_jump, 0);
	/* The first signal may arrive at once. */
	if (sigsetjmp(back, 1))
		count++;
	else
		start_timer(1000);
	for (unsigned i = 0; count < 30; i++)
		step(i);
	start_timer(0);
	return 0;
}

static int other_stack(void)
{
	stack_t stack = {.ss_size = 65536};

	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	handle(SIGALRM, on_alarm, SA_ONSTACK | SA_RESTART);
	handle(SIGUSR1, on_alarm, SA_ONSTACK);
	start_timer(1000);
	while (count < 30)
		raise(SIGUSR1);
	start_timer(0);
	return 0;
}

/* System calls that a signal ends, that are restarted, or that wait for a signal. */
static int system_calls(void)
{
	struct timespec second = {1, 0};
	/* Repeatedly: on a busy machine the first signal may arrive before the call begins. */
	struct itimerval soon = {{0, 3000}, {0, 3000}};
	sigset_t none;
	char byte;
	int ends[2];

	handle(SIGALRM, on_alarm, 0);
	for (int i = 0; i < 5; i++) {
		setitimer(ITIMER_REAL, &soon, NULL);
		if (nanosleep(&second, NULL) == 0 || errno != EINTR)
			return 1;
		setitimer(ITIMER_REAL, &soon, NULL);
		if (poll(NULL, 0, 1000) != -1 || errno != EINTR)
			return 2;
		setitimer(ITIMER_REAL, &soon, NULL);
		sigemptyset(&none);
		sigsuspend(&none);
	}
	handle(SIGALRM, on_alarm, SA_RESTART);
	if (pipe(ends))
		return 3;
	for (int i = 0; i < 5; i++) {
		int before = count;

		start_timer(2000);
		/* The read is restarted until a child writes. */
		if (fork() == 0) {
			usleep(10000);
			_exit(write(ends[1], "x", 1) != 1);
		}
		if (read(ends[0], &byte, 1) != 1 || count == before)
			return 4;
		start_timer(0);
	}
	return 0;
}

/* Faults */

__asm__(".pushsection .text\n"
	".globl load, load_end, divide, divide_end, undefined, undefined_end, trap, store\n"
	".type load, @function\n"
	"load:	mov %rdi, %rax\n"
	"	mov (%rax), %eax\n"
	"load_end: ret\n"
	".size load, . - load\n"
	".type store, @function\n"
	"store:	inc %eax\n"
	"	cmp %rdi, %rsi\n"
	"	movb $1, (%rdi)\n"
	"	ret\n"
	".size store, . - store\n"
	".type divide, @function\n"
	"divide: mov $7, %eax\n"
	"	cltd\n"
	"	xor %ecx, %ecx\n"
	"	idiv %ecx\n"
	"divide_end: ret\n"
	".size divide, . - divide\n"
	".type undefined, @function\n"
	"undefined: nop\n"
	"	ud2\n"
	"undefined_end: ret\n"
	".size undefined, . - undefined\n"
	".type trap, @function\n"
	"trap:	nop\n"
	"	int3\n"
	"	ret\n"
	".size trap, . - trap\n"
	".popsection\n");
void load(const void *address), load_end(void), divide(void), divide_end(void), undefined(void),
    undefined_end(void), trap(void), store(void *address);

static void on_skip(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	void (*to)(void) = signal == SIGSEGV  ? load_end
			   : signal == SIGFPE ? divide_end
					      : undefined_end;

	(void)info;
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)to;
	count++;
}

static int skipped(void)
{
	handle(SIGSEGV, on_skip, 0);
	handle(SIGFPE, on_skip, 0);
	handle(SIGILL, on_skip, 0);
	for (int i = 0; i < 5; i++) {
		load(NULL);
		divide();
		undefined();
	}
	return count != 15;
}

static int jumped(void)
{
	handle(SIGSEGV, on_jump, 0);
	handle(SIGFPE, on_jump, 0);
	handle(SIGILL, on_jump, 0);
	for (volatile int i = 0; i < 5; i++) {
		if (sigsetjmp(back, 1))
			count++;
		else
			load(NULL);
		if (sigsetjmp(back, 1))
			count++;
		else
			divide();
		if (sigsetjmp(back, 1))
			count++;
		else
			undefined();
	}
	return count != 15;
}

static char *volatile page;

static void on_unlock(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	count += info->si_addr == page;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

/* The instruction runs again. */
static int repeated(void)
{
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGSEGV, on_unlock, 0);
	for (int i = 0; i < 10; i++) {
		mprotect(page, 4096, i % 2 ? PROT_READ : PROT_NONE);
		store(page);
	}
	return count != 10;
}

static int traps(void)
{
	handle(SIGTRAP, on_alarm, 0);
	for (int i = 0; i < 5; i++)
		trap();
	return count != 5;
}

/* To addresses without code: by call, by jump and by return. */
static int nowhere(void)
{
	static const uintptr_t places[] = {0, 0x10000, 0x7ffffffff000};

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, 0xc3, 4096);
	handle(SIGSEGV, on_jump, 0);
	for (volatile int i = 0; i < 4; i++) {
		uintptr_t place = i < 3 ? places[i] : (uintptr_t)page;

		if (sigsetjmp(back, 1))
			count++;
		else
			__asm__ volatile("call *%0" : : "r"(place) : "memory");
		if (sigsetjmp(back, 1))
			count++;
		else
			__asm__ volatile("jmp *%0" : : "r"(place) : "memory");
		if (sigsetjmp(back, 1))
			count++;
		else
			__asm__ volatile("push %0\n\tret" : : "r"(place) : "memory");
	}
	return count != 12;
}

/* A handler that the program also calls as a function. */
static int called(void)
{
	siginfo_t info = {.si_signo = SIGUSR1};
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	handle(SIGUSR1, on_alarm, 0);
	for (int i = 0; i < 10; i++) {
		on_alarm(SIGUSR1, &info, &context);
		raise(SIGUSR1);
	}
	return count != 20;
}

static volatile int stop;

static void *be_busy(void *unused)
{
	for (unsigned i = 0; !stop; i++)
		step(i);
	return unused;
}

/* Signals to busy threads, one of them by pthread_cancel(). */
static int to_threads(void)
{
	pthread_t threads[3];

	handle(SIGUSR1, on_alarm, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, be_busy, NULL);
	for (int i = 0; i < 30; i++) {
		pthread_kill(threads[i % 3], SIGUSR1);
		usleep(500);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return count == 0;
}

/* Exits while its handler runs. */
static void on_leave(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	_exit(0);
}

static int left(void)
{
	handle(SIGALRM, on_leave, 0);
	start_timer(3000);
	for (unsigned i = 0;; i++)
		step(i);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = {
	    {"asynchronous", asynchronous},
	    {"tight", tight},
	    {"self", self},
	    {"nested", nested},
	    {"jumping", jumping},
	    {"other_stack", other_stack},
	    {"system_calls", system_calls},
	    {"skipped", skipped},
	    {"jumped", jumped},
	    {"repeated", repeated},
	    {"traps", traps},
	    {"nowhere", nowhere},
	    {"called", called},
	    {"left", left},
	    {"to_threads", to_threads},
	};

	for (unsigned i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name))
			return cases[i].run();
	return 99;
}
