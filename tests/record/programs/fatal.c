/* SPDX-License-Identifier: MIT */
/*
 * Dies of a signal, in the way that its argument names. Nothing depends on where the kernel maps
 * something, so that it dies at the same address under an emulator.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	 4096
#define ONE_PAGE ((uint8_t *)0x60000000) /* the next one is not mapped */

/* Functions that end with an instruction that faults, given rdi. */
__asm__(".pushsection .text\n"
	".macro function name\n"
	"	.globl \\name\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	".endm\n"
	"function load\n"
	"	mov %rdi, %rax\n"
	"	add $8, %rax\n"
	"	mov (%rax), %rax\n"
	"	inc %rax\n"
	"	ret\n"
	"function store\n"
	"	xor %eax, %eax\n"
	"	mov %rax, (%rdi)\n"
	"	ret\n"
	"function at_once\n"
	"	mov (%rdi), %rax\n"
	"	ret\n"
	"function undefined\n"
	"	mov $1, %eax\n"
	"	inc %eax\n"
	"	ud2\n"
	"function privileged\n"
	"	nop\n"
	"	hlt\n"
	"function breakpoint\n"
	"	nop\n"
	"	int3\n"
	"	ret\n"
	"function gate\n"
	"	nop\n"
	"	int $0x42\n"
	"	ret\n"
	"function call_there\n"
	"	nop\n"
	"	call *%rdi\n"
	"	ret\n"
	"function jump_there\n"
	"	push %rdi\n"
	"	pop %rcx\n"
	"	jmp *%rcx\n"
	"function return_there\n"
	"	push %rdi\n"
	"	ret\n"
	"function count_down\n" /* divides by 2, 1, 0 */
	"	mov $2, %ecx\n"
	"1:	mov $12, %eax\n"
	"	cdq\n"
	"	idiv %ecx\n"
	"	dec %ecx\n"
	"	jns 1b\n"
	"	ret\n"
	"function fill\n"
	"	mov $5000, %ecx\n"
	"	cld\n"
	"	rep stosb\n"
	"	ret\n"
	"function walk\n" /* a block that jumps to itself, until it faults at its beginning */
	"	mov $3, %ecx\n"
	"1:	mov (%rdi), %al\n"
	"	add $2048, %rdi\n"
	"	dec %ecx\n"
	"	jnz 1b\n"
	"	ret\n"
	".popsection\n");

void load(void *), store(void *), at_once(void *), undefined(void *), privileged(void *);
void breakpoint(void *), gate(void *), call_there(void *), jump_there(void *), return_there(void *);
void count_down(void *), fill(void *), walk(void *);

__attribute__((noinline)) static int divide(int x, int y)
{
	x *= 3;
	x += 7;
	return x / y;
}

static void *one_page(int protection)
{
	void *page = mmap(ONE_PAGE, PAGE, protection,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (page != ONE_PAGE)
		_exit(3);
	return page;
}

/* A page behind the end of a file. */
static void *beyond(void)
{
	int fd = open("empty", O_RDWR | O_CREAT, 0600);
	void *page = mmap(ONE_PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);

	if (page != ONE_PAGE)
		_exit(3);
	return page;
}

/* Copies code so that `split` bytes of it are in the page, and the others behind it. */
static void run_at_the_end(const uint8_t *code, size_t n, size_t split)
{
	uint8_t *end = (uint8_t *)one_page(PROT_READ | PROT_WRITE) + PAGE;

	if (n > split && mmap(end, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != end)
		_exit(3);
	memcpy(end - split, code, n);
	mprotect(end - PAGE, PAGE, PROT_READ | PROT_EXEC);
	if (n > split)
		mprotect(end, PAGE, PROT_READ | PROT_EXEC);
	((void (*)(void))(uintptr_t)(end - split))();
}

static void *thread(void *unused)
{
	load(unused);
	return unused;
}

static void on_alarm(int number)
{
	undefined((void *)(uintptr_t)number);
}

static void misalign(void)
{
	/* inc %eax; inc %eax; movabs $..., %rax: eight of its bytes are missing */
	static const uint8_t cut[] = {0xff, 0xc0, 0xff, 0xc0, 0x48, 0xb8};
	run_at_the_end(cut, sizeof(cut), sizeof(cut));
}

static void straddle(void)
{
	/* xor %eax, %eax; mov 0x12345678(%rax), %eax, which begins in one page and ends in another
	 */
	static const uint8_t code[] = {0x31, 0xc0, 0x8b, 0x80, 0x78, 0x56, 0x34, 0x12, 0xc3};
	run_at_the_end(code, sizeof(code), 4);
}

static void in_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
}

static void in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		load(NULL);
	waitpid(pid, &status, 0);
	_exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "read"))
		load(NULL);
	if (!strcmp(how, "write"))
		store(one_page(PROT_READ));
	if (!strcmp(how, "first"))
		at_once(NULL);
	if (!strcmp(how, "bus"))
		load(beyond());
	if (!strcmp(how, "no-code"))
		call_there(one_page(PROT_READ | PROT_WRITE));
	if (!strcmp(how, "null"))
		call_there(NULL);
	if (!strcmp(how, "jump"))
		jump_there(ONE_PAGE);
	if (!strcmp(how, "return"))
		return_there(ONE_PAGE + 0x123);
	if (!strcmp(how, "high"))
		jump_there((void *)UINT64_C(0xffff800000001000));
	if (!strcmp(how, "divide"))
		return divide(argc, argc - 2);
	if (!strcmp(how, "loop"))
		count_down(NULL);
	if (!strcmp(how, "undefined"))
		undefined(NULL);
	if (!strcmp(how, "privileged"))
		privileged(NULL);
	if (!strcmp(how, "breakpoint"))
		breakpoint(NULL);
	if (!strcmp(how, "gate"))
		gate(NULL);
	if (!strcmp(how, "fill"))
		fill(one_page(PROT_READ | PROT_WRITE));
	if (!strcmp(how, "walk"))
		walk(one_page(PROT_READ));
	if (!strcmp(how, "cut"))
		misalign();
	if (!strcmp(how, "straddle"))
		straddle();
	if (!strcmp(how, "thread"))
		in_thread();
	if (!strcmp(how, "child"))
		in_child();
	if (!strcmp(how, "handler")) {
		signal(SIGALRM, on_alarm);
		raise(SIGALRM);
	}
	if (!strcmp(how, "abort"))
		abort();
	return 4;
}
