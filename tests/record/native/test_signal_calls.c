/* SPDX-License-Identifier: MIT */
/*
 * System calls about signals: the same program notes what they answer, and what happens, natively
 * and under the runtime; the kernel is the judge.
 */
#include "test.h"

#include "signal_program.h"

#include "record/native/runtime/sys.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define BIT SIGNAL_BIT

static int64_t call(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return program_call(number, a, b, c, d, 0, 0);
}

static uint64_t at(const void *p)
{
	return (uintptr_t)p;
}

static void set_handler(int signal, void (*handler)(int, struct signal_info *, void *),
			uint64_t flags, uint64_t mask)
{
	struct action a = {.handler = (uintptr_t)handler,
			   .flags = flags | ACTION_SIGINFO | ACTION_RESTORER,
			   .restorer = (uintptr_t)program_restorer,
			   .mask = mask};

	program_note(call(__NR_rt_sigaction, (uint64_t)signal, at(&a), 0, 8));
}

static void set_plain(int signal, uint64_t handler)
{
	struct action a = {.handler = handler};

	program_note(call(__NR_rt_sigaction, (uint64_t)signal, at(&a), 0, 8));
}

static void set_mask(int how, uint64_t mask)
{
	program_note(call(__NR_rt_sigprocmask, (uint64_t)how, at(&mask), 0, 8));
}

static uint64_t get_mask(void)
{
	uint64_t mask = 0;

	call(__NR_rt_sigprocmask, SIG_BLOCK, 0, at(&mask), 8);
	return mask;
}

static uint64_t get_pending(void)
{
	uint64_t mask = 0;

	program_note(call(__NR_rt_sigpending, at(&mask), 8, 0, 0));
	return mask;
}

static int64_t process(void)
{
	return call(__NR_getpid, 0, 0, 0, 0);
}

static void send(int signal)
{
	program_note(call(__NR_kill, (uint64_t)process(), (uint64_t)signal, 0, 0));
}

/* One that is queued, with a value. */
static void queue(int signal, uint64_t value)
{
	struct signal_info info = {.number = signal, .code = SI_QUEUE};

	memcpy(info.rest, &value, sizeof(value));
	program_note(
	    call(__NR_rt_sigqueueinfo, (uint64_t)process(), (uint64_t)signal, at(&info), 0));
}

/* Notes what it was called for, with which mask. */
static void on_signal(int number, struct signal_info *info, void *context)
{
	const struct user_context *u = context;

	program_note(number);
	program_note(info->number);
	program_note(info->code);
	program_note(info->code == SI_QUEUE ? info->rest[0] : 0);
	program_note((int64_t)get_mask());
	program_note((int64_t)u->mask);
	program_note((int64_t)u->machine.old_mask);
}

/* Runs a program both ways and compares its notes; count: how many there are at least. */
static void compare(void (*program)(void), int status, unsigned count)
{
	const struct seen *a = program_natively(), *b = program_here();

	if (!program_can_run())
		skip();
	assert_int_equal(program_run_both(program), status);
	for (unsigned i = 0; i < SEEN_NUMBERS; i++)
		if (a->numbers[i] != b->numbers[i])
			fail_msg("note %u: %lld natively, %lld here", i, (long long)a->numbers[i],
				 (long long)b->numbers[i]);
	assert_int_equal(a->count, b->count);
	assert_true(a->count >= count);
}

/* Actions */

static void actions_program(void)
{
	struct action a, old;
	static const int numbers[] = {-1, 0, 1, SIGKILL, SIGSTOP, SIGSEGV, SIGCHLD, 32, 64, 65};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		uint64_t n = (uint64_t)numbers[i];

		memset(&old, 0x11, sizeof(old));
		a = (struct action){.handler = 0x1000 + i,
				    .flags = 0xffffffff,
				    .restorer = 0x2000,
				    .mask = ~UINT64_C(0)};
		program_note(call(__NR_rt_sigaction, n, 0, at(&old), 8));
		program_note((int64_t)old.handler);
		program_note(call(__NR_rt_sigaction, n, at(&a), 0, 8));
		program_note(call(__NR_rt_sigaction, n, 0, at(&old), 8));
		program_note((int64_t)old.handler);
		program_note((int64_t)old.flags);
		program_note((int64_t)old.restorer);
		program_note((int64_t)old.mask);
		set_plain(numbers[i], SIGNAL_DEFAULT);
	}
	program_note(call(__NR_rt_sigaction, SIGUSR1, at(&a), 0, 4));
	program_note(call(__NR_rt_sigaction, SIGUSR1, 8, 0, 8));
	program_note(call(__NR_rt_sigaction, SIGUSR1, 0, 8, 8));
	program_note(call(__NR_rt_sigaction, SIGUSR1, at(&a), UINT64_C(1) << 63, 8));
	program_note(call(__NR_rt_sigaction, SIGUSR1, 0, at(&old), 8));
	program_note((int64_t)old.handler);
}

TEST(actions)
{
	compare(actions_program, 0, 80);
}

/* Masks, and signals that wait for them */

static void masks_program(void)
{
	uint64_t set = BIT(SIGUSR1) | BIT(SIGSEGV) | BIT(SIGKILL) | BIT(34) | BIT(35) | BIT(SIGFPE);

	set_handler(SIGUSR1, on_signal, 0, 0);
	set_handler(SIGUSR2, on_signal, ACTION_NODEFER, BIT(SIGUSR1));
	set_handler(SIGSEGV, on_signal, 0, BIT(SIGUSR2));
	set_handler(34, on_signal, 0, 0);
	set_handler(35, on_signal, 0, 0);
	send(SIGUSR1);
	send(SIGUSR2);
	set_mask(SIG_BLOCK, set);
	program_note((int64_t)get_mask());
	send(SIGUSR1);
	send(SIGUSR1); /* once is enough */
	queue(35, 3);
	queue(34, 1);
	queue(34, 2); /* these are counted */
	send(SIGSEGV);
	send(SIGSEGV);
	program_note((int64_t)get_pending());
	set_mask(SIG_UNBLOCK, BIT(SIGUSR1));
	program_note((int64_t)get_mask());
	program_note((int64_t)get_pending());
	set_mask(SIG_SETMASK, BIT(SIGHUP));
	program_note((int64_t)get_mask());
	program_note((int64_t)get_pending());
	set_mask(77, 0);
	program_note(call(__NR_rt_sigprocmask, SIG_BLOCK, at(&set), 0, 4));
	program_note(call(__NR_rt_sigprocmask, SIG_BLOCK, 8, 0, 8));
	program_note(call(__NR_rt_sigprocmask, SIG_BLOCK, at(&set), 8, 8));
	program_note((int64_t)get_mask());
	/* What is ignored is forgotten. */
	send(SIGUSR1);
	send(SIGSEGV);
	set_plain(SIGUSR1, SIGNAL_IGNORE);
	set_plain(SIGSEGV, SIGNAL_IGNORE);
	program_note((int64_t)get_pending());
	set_mask(SIG_SETMASK, 0);
	send(SIGSEGV);
	send(SIGUSR1);
}

TEST(masks)
{
	compare(masks_program, 0, 80);
}

/* Alternate stacks */

static uint8_t stack_bytes[65536];

static void note_stack(void)
{
	struct alternate_stack old;

	memset(&old, 0, sizeof(old));
	program_note(call(__NR_sigaltstack, 0, at(&old), 0, 0));
	program_note((int64_t)old.address);
	program_note(old.flags);
	program_note((int64_t)old.size);
}

static void on_stack(int number, struct signal_info *info, void *context)
{
	struct alternate_stack other = {.address = at(stack_bytes), .size = 8192};
	struct user_context *u = context;

	on_signal(number, info, context);
	note_stack();
	program_note(call(__NR_sigaltstack, at(&other), 0, 0, 0));
	program_note((uintptr_t)&other - (uintptr_t)stack_bytes < sizeof(stack_bytes));
	/*
	 * What the return brings back. Linux 6.12 and later refuse it if the handler runs on that
	 * stack, and earlier ones did not.
	 */
	if (!u->stack.size || u->stack.flags)
		u->stack.size = 32768;
}

static void stacks_program(void)
{
	struct alternate_stack stack = {.address = at(stack_bytes), .size = sizeof(stack_bytes)};

	note_stack();
	set_handler(SIGUSR1, on_stack, ACTION_ONSTACK, 0);
	send(SIGUSR1);
	program_note(call(__NR_sigaltstack, at(&stack), 0, 0, 0));
	note_stack();
	send(SIGUSR1);
	note_stack();
	stack.size = 100;
	program_note(call(__NR_sigaltstack, at(&stack), 0, 0, 0));
	stack.size = sizeof(stack_bytes);
	stack.flags = STACK_AUTODISARM;
	program_note(call(__NR_sigaltstack, at(&stack), 0, 0, 0));
	note_stack();
	send(SIGUSR1);
	note_stack();
	stack.flags = 4;
	program_note(call(__NR_sigaltstack, at(&stack), 0, 0, 0));
	stack.flags = STACK_DISABLE;
	program_note(call(__NR_sigaltstack, at(&stack), 0, 0, 0));
	note_stack();
	program_note(call(__NR_sigaltstack, 8, 0, 0, 0));
	program_note(call(__NR_sigaltstack, 0, 8, 0, 0));
}

TEST(stacks)
{
	compare(stacks_program, 0, 60);
}

/* Waiting */

static void set_timer(void)
{
	struct itimerval soon = {.it_value = {0, 20000}};

	program_note(call(__NR_setitimer, ITIMER_REAL, at(&soon), 0, 0));
}

static int ends[2];

/* Lets a read() go on that has been begun again. */
static void on_alarm(int number, struct signal_info *info, void *context)
{
	on_signal(number, info, context);
	program_note(call(__NR_write, (uint64_t)ends[1], at("x"), 1, 0));
}

static void waits_program(void)
{
	const struct timespec second = {1, 0};
	struct timespec left = {0, 0};
	uint64_t set = BIT(SIGUSR1), none = 0, pair[2] = {at(&none), 8};
	struct pollfd poll = {.events = POLLIN};
	struct epoll_event event;
	char byte;
	int epoll;

	program_note(call(__NR_pipe, at(ends), 0, 0, 0));
	poll.fd = ends[0];
	set_handler(SIGUSR1, on_signal, 0, 0);
	set_handler(SIGFPE, on_signal, 0, 0);
	set_handler(SIGALRM, on_signal, ACTION_RESTART, 0);
	/* Interrupted always. */
	set_timer();
	program_note(call(__NR_pause, 0, 0, 0, 0));
	set_timer();
	program_note(call(__NR_nanosleep, at(&second), at(&left), 0, 0));
	program_note(left.tv_nsec > 0);
	set_timer();
	program_note(call(__NR_poll, at(&poll), 1, 5000, 0));
	/* Begun again, or not. */
	set_handler(SIGALRM, on_alarm, ACTION_RESTART, 0);
	set_timer();
	program_note(call(__NR_read, (uint64_t)ends[0], at(&byte), 1, 0));
	set_handler(SIGALRM, on_alarm, 0, 0);
	set_timer();
	program_note(call(__NR_read, (uint64_t)ends[0], at(&byte), 1, 0));
	program_note(call(__NR_read, (uint64_t)ends[0], at(&byte), 1, 0));
	/* With a mask of their own: what waits gets in, and the mask comes back. */
	set_handler(SIGALRM, on_signal, 0, 0);
	set_mask(SIG_SETMASK, BIT(SIGUSR1) | BIT(SIGALRM) | BIT(SIGFPE));
	send(SIGUSR1);
	program_note(call(__NR_rt_sigsuspend, at(&none), 8, 0, 0));
	program_note((int64_t)get_mask());
	set_timer();
	program_note(call(__NR_rt_sigsuspend, at(&set), 8, 0, 0));
	send(SIGFPE);
	program_note(call(__NR_rt_sigsuspend, at(&none), 8, 0, 0));
	send(SIGUSR1);
	program_note(call(__NR_ppoll, at(&poll), 1, 0, at(&none)));
	program_note(program_call(__NR_ppoll, at(&poll), 1, 0, at(&none), 8, 0));
	send(SIGFPE);
	program_note(program_call(__NR_ppoll, at(&poll), 1, 0, at(&none), 8, 0));
	send(SIGUSR1);
	program_note(program_call(__NR_pselect6, 0, 0, 0, 0, 0, at(pair)));
	set_timer();
	program_note(program_call(__NR_pselect6, 0, 0, 0, 0, 0, at(pair)));
	epoll = (int)call(__NR_epoll_create1, 0, 0, 0, 0);
	send(SIGUSR1);
	program_note(
	    program_call(__NR_epoll_pwait, (uint64_t)epoll, at(&event), 1, 5000, at(&none), 8));
	program_note((int64_t)get_mask());
	program_note((int64_t)get_pending());
	/* A timeout, with something that waits and is not let in. */
	left = (struct timespec){0, 1000};
	send(SIGUSR1);
	program_note(program_call(__NR_ppoll, at(&poll), 1, at(&left), at(&set), 8, 0));
	program_note((int64_t)get_mask());
	program_note(call(__NR_rt_sigsuspend, 8, 8, 0, 0));
	program_note(call(__NR_rt_sigsuspend, at(&set), 4, 0, 0));
}

TEST(waits)
{
	compare(waits_program, 0, 100);
}

static void timed_waits_program(void)
{
	const struct timespec soon = {0, 1000000};
	uint64_t set = BIT(SIGUSR1) | BIT(SIGSEGV);
	struct signal_info info = {.number = 0};

	set_handler(SIGALRM, on_signal, 0, 0);
	set_mask(SIG_SETMASK, set);
	send(SIGUSR1);
	program_note(call(__NR_rt_sigtimedwait, at(&set), at(&info), at(&soon), 8));
	program_note(info.number);
	program_note(info.code);
	program_note(call(__NR_rt_sigtimedwait, at(&set), at(&info), at(&soon), 8));
	send(SIGSEGV);
	program_note(call(__NR_rt_sigtimedwait, at(&set), at(&info), at(&soon), 8));
	program_note(info.number);
	program_note(info.code);
	set_timer();
	program_note(call(__NR_rt_sigtimedwait, at(&set), 0, 0, 8));
	program_note((int64_t)get_pending());
	program_note(call(__NR_rt_sigtimedwait, at(&set), 0, 0, 4));
}

TEST(timed_waits)
{
	compare(timed_waits_program, 0, 20);
}

/* Handlers in handlers, and those that remove themselves */

static void on_outer(int number, struct signal_info *info, void *context)
{
	on_signal(number, info, context);
	send(SIGUSR2);
	send(SIGUSR1); /* waits until this handler has returned */
	set_handler(SIGUSR1, on_signal, ACTION_RESETHAND, 0);
	program_note(-1);
}

static void nested_program(void)
{
	struct action old;

	set_handler(SIGUSR1, on_outer, 0, 0);
	set_handler(SIGUSR2, on_signal, ACTION_NODEFER, 0);
	send(SIGUSR1);
	call(__NR_rt_sigaction, SIGUSR1, 0, at(&old), 8);
	program_note((int64_t)old.handler);
	set_handler(SIGSEGV, on_signal, ACTION_RESETHAND, 0);
	send(SIGSEGV);
	call(__NR_rt_sigaction, SIGSEGV, 0, at(&old), 8);
	program_note((int64_t)old.handler);
}

TEST(nested)
{
	compare(nested_program, 0, 30);
}

TEST_GROUP(program_setup, NULL)
