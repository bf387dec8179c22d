/* SPDX-License-Identifier: MIT */
/*
 * What filters of system calls answer. The judge of whole programs is the kernel: a child has the
 * filter and makes the call.
 */
#include "record/native/runtime/bpf.h"

#include "test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL UINT16_MAX

static struct bpf_call call_of(uint32_t number, uint32_t first, uint16_t known)
{
	return (struct bpf_call){.words = {number, AUDIT_ARCH_X86_64, 0, 0, first}, .known = known};
}

static uint32_t answers(const struct sock_filter *program, size_t bytes, struct bpf_call call)
{
	return bpf_answers(program, (uint32_t)(bytes / sizeof(*program)), &call);
}

#define ANSWERS(call, ...)                                                                         \
	answers((const struct sock_filter[]){__VA_ARGS__},                                         \
		sizeof((const struct sock_filter[]){__VA_ARGS__}), call)
#define NUMBER	       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)
#define FIRST	       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16)
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RETURN(k)      BPF_STMT(BPF_RET | BPF_K, k)
#define ALLOW	       RETURN(SECCOMP_RET_ALLOW)

TEST(test_each_answer)
{
	static const struct {
		uint32_t value, answer;
	} rows[] = {
	    {SECCOMP_RET_ALLOW, BPF_ALLOWS},
	    {SECCOMP_RET_LOG, BPF_ALLOWS},
	    {SECCOMP_RET_ERRNO | EPERM, BPF_FAILS},
	    {SECCOMP_RET_ERRNO | ENOSYS, BPF_FAILS_NOSYS},
	    {SECCOMP_RET_ERRNO, BPF_INTERFERES}, /* as if it had been carried out */
	    {SECCOMP_RET_TRAP | 7, BPF_INTERFERES},
	    {SECCOMP_RET_KILL_THREAD, BPF_INTERFERES},
	    {SECCOMP_RET_KILL_PROCESS, BPF_KILLS},
	    {0x12340000, BPF_KILLS}, /* what the kernel does not know */
	    {SECCOMP_RET_TRACE, BPF_ASKS},
	    {SECCOMP_RET_USER_NOTIF, BPF_ASKS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(ANSWERS(call_of(1, 1, ALL), RETURN(rows[i].value)),
				 rows[i].answer);
		assert_int_equal(ANSWERS(call_of(1, 1, ALL),
					 BPF_STMT(BPF_LD | BPF_IMM, rows[i].value),
					 BPF_STMT(BPF_RET | BPF_A, 0)),
				 rows[i].answer);
	}
}

TEST(test_what_is_not_known_may_be_anything)
{
	const struct bpf_call known = call_of(9, 5, ALL), unknown = call_of(9, 5, 3);

	assert_int_equal(ANSWERS(known, NUMBER, IS(9, 0, 1), RETURN(SECCOMP_RET_TRACE), ALLOW),
			 BPF_ASKS);
	assert_int_equal(ANSWERS(unknown, NUMBER, IS(8, 0, 1), RETURN(SECCOMP_RET_TRACE), ALLOW),
			 BPF_ALLOWS);
	assert_int_equal(ANSWERS(known, FIRST, IS(5, 0, 1), RETURN(SECCOMP_RET_TRACE), ALLOW),
			 BPF_ASKS);
	assert_int_equal(ANSWERS(unknown, FIRST, IS(5, 0, 1), RETURN(SECCOMP_RET_TRACE), ALLOW),
			 BPF_ASKS | BPF_ALLOWS);
	/* By way of a cell and of calculation; a constant stays one. */
	assert_int_equal(ANSWERS(unknown, FIRST, BPF_STMT(BPF_ST, 3),
				 BPF_STMT(BPF_LDX | BPF_MEM, 3), BPF_STMT(BPF_LD | BPF_IMM, 1),
				 BPF_STMT(BPF_ALU | BPF_AND | BPF_X, 0), IS(1, 0, 1),
				 RETURN(SECCOMP_RET_ERRNO | 1), ALLOW),
			 BPF_FAILS | BPF_ALLOWS);
	assert_int_equal(ANSWERS(unknown, FIRST, BPF_STMT(BPF_RET | BPF_A, 0)), BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(unknown, FIRST, BPF_STMT(BPF_MISC | BPF_TAX, 0),
				 BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), ALLOW),
			 BPF_INTERFERES | BPF_ALLOWS);
}

TEST(test_what_the_kernel_does_not_take_is_never_let_through)
{
	const struct bpf_call call = call_of(1, 1, ALL);

	assert_int_equal(ANSWERS(call, NUMBER), BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ALLOW),
			 BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), ALLOW),
			 BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ALLOW),
			 BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_ST, 16), ALLOW), BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_LDX | BPF_MEM, 16), ALLOW), BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), ALLOW),
			 BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), ALLOW),
			 BPF_CANNOT_TELL);
	assert_int_equal(ANSWERS(call, IS(0, 200, 200), ALLOW), BPF_CANNOT_TELL);
	assert_int_equal(bpf_answers(NULL, 0, &call), BPF_CANNOT_TELL);
}

/* Each of its conditions doubles the number of ways through it. */
TEST(test_too_many_ways_are_not_gone)
{
	static struct sock_filter program[BPF_MAXINSNS];
	const struct bpf_call call = call_of(1, 1, 0);
	uint32_t n = 0;

	while (n < BPF_MAXINSNS - 8) {
		program[n++] = (struct sock_filter)FIRST;
		program[n] = (struct sock_filter)IS(n + 1, 1, 0);
		n++;
		program[n++] = (struct sock_filter)NUMBER;
	}
	program[n++] = (struct sock_filter)ALLOW;
	assert_true(bpf_answers(program, n, &call) & BPF_CANNOT_TELL);
}

/* ---- The kernel as judge ------------------------------------------------------ */

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static struct sock_filter random_instruction(uint32_t *random, unsigned left)
{
	static const uint16_t calculations[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR,  BPF_AND,
						BPF_LSH, BPF_RSH, BPF_XOR, BPF_NEG, BPF_DIV};
	static const uint16_t conditions[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	const uint32_t k = next_random(random) % 24, what = next_random(random) % 9;
	const uint16_t source = next_random(random) % 2 ? BPF_X : BPF_K;
	uint16_t operation = calculations[next_random(random) % 10];

	switch (what) {
	case 0:
		/* Not the address, which is not the same each time. */
		return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    (k % 14 < 2 ? k % 14 : k % 14 + 2) * 4);
	case 1:
		return (struct sock_filter)BPF_STMT(BPF_LD | BPF_MEM, k % 4);
	case 2:
		return (struct sock_filter)BPF_STMT(BPF_ST, k % 4);
	case 3:
		return (struct sock_filter)BPF_STMT(BPF_MISC | (k % 2 ? BPF_TAX : BPF_TXA), 0);
	case 4:
		return (struct sock_filter)BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0);
	case 5:
	case 6:
		if (left > 4)
			return (struct sock_filter)BPF_JUMP(BPF_JMP | conditions[k % 4] | source,
							    next_random(random) % 200, k % 3,
							    next_random(random) % 3);
		/* fall through */
	default:
		/* What shifts by registers do depends on the kernel. */
		if (source == BPF_X && (operation == BPF_LSH || operation == BPF_RSH))
			operation = BPF_ADD;
		return (struct sock_filter)BPF_STMT(
		    BPF_ALU | operation | (operation == BPF_NEG ? 0 : source), k + 1);
	}
}

#define LENGTH	 28
#define PROGRAMS 300

/* It begins with a value in each cell, and ends with an error if bit 0 of the accumulator is set. */
static void make_program(struct sock_filter program[LENGTH], uint32_t seed)
{
	uint32_t random = seed;

	for (unsigned i = 0; i < 4; i++)
		program[i] = (struct sock_filter)BPF_STMT(BPF_ST, i);
	for (unsigned i = 4; i < LENGTH - 3; i++)
		program[i] = random_instruction(&random, LENGTH - 3 - i);
	program[LENGTH - 3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1);
	program[LENGTH - 2] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EXDEV);
	program[LENGTH - 1] = (struct sock_filter)ALLOW;
}

/* A child is killed for its call: this stays. Otherwise the answer. */
#define NO_FILTER UINT32_MAX

/* The child's end may be filtered, too: so its answer is in memory, and it ends by a fault. */
static uint32_t ask_kernel(const struct sock_filter program[LENGTH],
			   const uint32_t words[BPF_WORDS], volatile uint32_t *answer)
{
	const struct sock_fprog filter = {LENGTH, (struct sock_filter *)(uintptr_t)program};
	const struct rlimit none = {0, 0};
	uint64_t a[6];
	pid_t pid;

	memcpy(a, words + 4, sizeof(a));
	*answer = NO_FILTER;
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGILL, SIG_DFL);
		if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		    !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)) {
			*answer = BPF_INTERFERES;
			*answer = syscall(words[0], a[0], a[1], a[2], a[3], a[4], a[5]) == -1
				      ? BPF_FAILS
				      : BPF_ALLOWS;
		}
		__builtin_trap();
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return *answer;
}

TEST(test_random_programs_answer_as_the_kernels)
{
	uint32_t random = 36, seen = 0;
	volatile uint32_t *answer =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(answer != MAP_FAILED);
	for (unsigned n = 0; n < PROGRAMS; n++) {
		struct bpf_call call = call_of(SYS_getuid, 0, ALL & ~0xc);
		struct sock_filter program[LENGTH];
		uint32_t expected;

		make_program(program, n);
		for (unsigned i = 4; i < BPF_WORDS; i++)
			call.words[i] = next_random(&random) % 3 ? next_random(&random) % 4
								 : next_random(&random) << 8;
		expected = ask_kernel(program, call.words, answer);
		if (expected == NO_FILTER) {
			munmap((void *)(uintptr_t)answer, 4096);
			print_message("the kernel takes no filters here\n");
			skip();
		}
		assert_int_equal(bpf_answers(program, LENGTH, &call), expected);
		seen |= expected;
		/* The less is known, the more is possible. */
		call.known &= (uint16_t)next_random(&random);
		assert_true(bpf_answers(program, LENGTH, &call) & (expected | BPF_CANNOT_TELL));
	}
	assert_int_equal(seen, BPF_ALLOWS | BPF_FAILS | BPF_INTERFERES);
	munmap((void *)(uintptr_t)answer, 4096);
}
