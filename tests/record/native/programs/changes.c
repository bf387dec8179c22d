/* SPDX-License-Identifier: MIT */
/*
 * Code that changes in ways that a recorder inside the program could overlook: through another
 * mapping, by the kernel, through its file, between data that changes all the time, by its own calls and pushes,
 * while a child runs in the same memory, below a signal handler. changes [CASE]: all of them, or
 * that one.
 */
#include "report.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static unsigned call(const void *code)
{
	unsigned (*function)(void);

	memcpy(&function, &code, sizeof(function));
	return function();
}

/* mov $value, %eax; ret */
static void put_constant(uint8_t *to, uint32_t value)
{
	to[0] = 0xb8;
	memcpy(to + 1, &value, 4);
	to[5] = 0xc3;
}

static uint8_t *new_code(size_t n)
{
	uint8_t *code =
	    mmap(NULL, n, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(code != MAP_FAILED, "mmap");
	return code;
}

static uint8_t *map(int file, int protection)
{
	uint8_t *at = mmap(NULL, 2 * PAGE, protection, MAP_SHARED, file, 0);

	check(at != MAP_FAILED, "mmap");
	return at;
}

/* Written at one address, executed at two others; the second mapping to write to comes later. */
static void two_mappings(void)
{
	int file = memfd_create("code", 0);
	uint8_t *to, *also, *code, *again;

	check(file >= 0 && !ftruncate(file, 2 * PAGE), "memfd_create");
	to = map(file, PROT_READ | PROT_WRITE);
	code = map(file, PROT_READ | PROT_EXEC);
	again = map(file, PROT_READ | PROT_EXEC);
	for (unsigned i = 0; i < 20; i++) {
		put_constant(to + PAGE, i);
		check(call(code + PAGE) == i && call(again + PAGE) == i, "code mapped twice");
	}
	also = map(file, PROT_READ);
	check(call(code + PAGE) == 19, "code mapped twice");
	check(!mprotect(also, 2 * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	put_constant(also + PAGE, 77);
	check(call(code + PAGE) == 77 && call(again + PAGE) == 77, "a later mapping");
	also = mremap(also, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, new_code(2 * PAGE));
	check(also != MAP_FAILED, "mremap");
	put_constant(also + PAGE, 78);
	check(call(code + PAGE) == 78 && call(again + PAGE) == 78, "a moved mapping");
	munmap(also, 2 * PAGE);
	put_constant(to + PAGE, 79);
	check(call(code + PAGE) == 79, "the first mapping");
	close(file);
}

/* The kernel writes code: by read(), readv(), recvmsg(). */
static void kernel(void)
{
	uint8_t *code = new_code(2 * PAGE), bytes[6];
	struct iovec v = {code + PAGE, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &v, .msg_iovlen = 1};
	int pair[2];

	check(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
	for (unsigned i = 0; i < 15; i++) {
		long n = 0;

		put_constant(code + PAGE, 1000 + i);
		check(call(code + PAGE) == 1000 + i, "written code");
		put_constant(bytes, i);
		check(write(pair[1], bytes, sizeof(bytes)) == sizeof(bytes), "write");
		if (i % 3 == 0)
			n = read(pair[0], code + PAGE, sizeof(bytes));
		else if (i % 3 == 1)
			n = readv(pair[0], &v, 1);
		else
			n = recvmsg(pair[0], &message, 0);
		check(n == sizeof(bytes), "read");
		check(call(code + PAGE) == i, "code that was read");
	}
	check(getcwd((char *)code + PAGE, PAGE) != NULL, "getcwd");
	close(pair[0]);
	close(pair[1]);
}

/* A counter beside the code that counts: inc counter; mov counter, %eax; ret */
static void mixed(void)
{
	static const uint8_t counting[] = {0xff, 0x05, 0x3a, 0, 0, 0,	0x8b,
					   0x05, 0x34, 0,    0, 0, 0xc3};
	uint8_t *code = new_code(PAGE);

	memcpy(code, counting, sizeof(counting));
	for (unsigned i = 1; i <= 3000; i++)
		check(call(code) == i, "code with data");
}

/*
 * The stack is in the page of the code: calls, direct and indirect ones, pushes, flags and strings
 * write there. Returns TF, which the program has not set.
 */
__asm__("	.text\n"
	"stack_code:\n"
	"	mov %rsp, %rcx\n"
	"	lea stack_code + 1024(%rip), %rsp\n"
	"	push %rcx\n"
	"	call 1f\n"
	"	lea 1f(%rip), %rdx\n"
	"	call *%rdx\n"
	"	pushf\n"
	"	pop %rax\n"
	"	and $0x100, %eax\n"
	"	push %rdi\n"
	"	lea stack_code + 512(%rip), %rdi\n"
	"	mov $5, %ecx\n"
	"	rep stosb\n"
	"	pop %rdi\n"
	"	pop %rsp\n"
	"	ret\n"
	"1:	inc %eax\n"
	"	ret\n"
	"stack_code_end:\n");
extern const uint8_t stack_code[], stack_code_end[];

static void stack(void)
{
	uint8_t *code = new_code(PAGE);

	memcpy(code, stack_code, (size_t)(stack_code_end - stack_code));
	for (unsigned i = 0; i < 50; i++)
		check(call(code) == 0, "a stack beside the code");
}

/* A child of vfork() writes code before it ends, and so does one of fork(). */
static void children(void)
{
	uint8_t *code = new_code(PAGE);
	int status;

	for (volatile unsigned i = 0; i < 5; i++) {
		pid_t child;

		put_constant(code, i);
		check(call(code) == i, "the parent's code");
		child = i % 2 ? vfork() : fork();
		if (!child) {
			put_constant(code, 50 + i);
			_exit((int)call(code));
		}
		check(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
			  WEXITSTATUS(status) == 50 + (int)i,
		      "the child's code");
		check(call(code) == (i % 2 ? 50 + i : i), "the parent's code afterwards");
	}
}

static sigjmp_buf back;
static volatile sig_atomic_t caught;
static void *volatile faulted;

static void on_fault(int number, siginfo_t *info, void *unused)
{
	(void)number;
	(void)unused;
	caught++;
	faulted = info->si_addr;
	siglongjmp(back, 1);
}

static void on_bus(int number)
{
	(void)number;
	caught++;
	siglongjmp(back, 1);
}

/* What the program has protected itself faults, and a frame can be written where code is. */
static void faults(void)
{
	uint8_t *code = new_code(4 * PAGE);
	const stack_t stack = {.ss_sp = code, .ss_size = 4 * PAGE};
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigaction(SIGSEGV, &action, NULL);
	check(!sigaltstack(&stack, NULL), "sigaltstack");
	for (volatile unsigned i = 0; i < 10; i++) {
		volatile uint8_t *page = code;

		put_constant(code, i);
		put_constant(code + 4 * PAGE - 600, i);
		check(call(code) == i && call(code + 4 * PAGE - 600) == i, "code");
		check(!mprotect(code, PAGE, PROT_READ | PROT_EXEC), "mprotect");
		check(call(code) == i, "code that is protected");
		if (!sigsetjmp(back, 1))
			*page = 1;
		check(caught == (int)i + 1 && faulted == code, "a fault");
		check(call(code) == i, "code that is protected");
		check(!mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), "mprotect");
	}
	sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
	signal(SIGSEGV, SIG_DFL);
}

/* Pages that change back to what they were, through rights that do not allow both. */
static void back_again(void)
{
	uint8_t *code = new_code(PAGE);

	for (unsigned i = 0; i < 12; i++) {
		put_constant(code, i % 2);
		if (i % 4 == 3)
			check(!mprotect(code, PAGE, PROT_READ | PROT_EXEC), "mprotect");
		check(call(code) == i % 2, "code that changes back");
		if (i % 4 == 3)
			check(!mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC),
			      "mprotect");
		if (i % 5 == 4) {
			check(!madvise(code, PAGE, MADV_DONTNEED), "madvise");
			check(!code[0], "MADV_DONTNEED");
		}
	}
}

/* Memory that can be executed and, so the program says, not read. */
static void execute_only(void)
{
	uint8_t *code = new_code(PAGE);

	for (unsigned i = 0; i < 5; i++) {
		put_constant(code, i);
		check(!mprotect(code, PAGE, PROT_EXEC), "mprotect");
		check(call(code) == i, "code that cannot be read");
		check(!mprotect(code, PAGE, PROT_READ | PROT_WRITE), "mprotect");
	}
}

/* A mapping that goes beyond the end of its file: there is no memory. */
static void beyond_end(void)
{
	const int file = memfd_create("code", 0);
	volatile uint8_t *code;

	caught = 0;
	signal(SIGBUS, on_bus);
	check(!ftruncate(file, PAGE), "ftruncate");
	code = map(file, PROT_READ | PROT_WRITE | PROT_EXEC);
	/* nop; then what lies behind the end */
	code[PAGE - 1] = 0x90;
	for (unsigned i = 0; i < 2; i++)
		if (!sigsetjmp(back, 1))
			call((const uint8_t *)code + PAGE - 1 + i);
	check(caught == 2, "SIGBUS");
	check(!ftruncate(file, 2 * PAGE), "ftruncate");
	put_constant((uint8_t *)code + PAGE, 7);
	check(call((const uint8_t *)code + PAGE - 1) == 7, "code in memory that came");
	signal(SIGBUS, SIG_DFL);
}

/* A request whose buffer only a list names, to the kernel's older interface, which is everywhere. */
static void asynchronous(void)
{
	static const uint8_t zeros[16];
	aio_context_t context = 0;
	uint8_t *code = new_code(PAGE);
	struct iocb read = {.aio_lio_opcode = IOCB_CMD_PREAD,
			    .aio_fildes = (uint32_t)memfd_create("zeros", 0),
			    .aio_buf = (uintptr_t)code + 1,
			    .aio_nbytes = 4};
	struct iocb *list = &read;
	struct io_event event = {.res = 0};

	if (syscall(SYS_io_setup, 1, &context))
		return; /* not in this kernel */
	check(write((int)read.aio_fildes, zeros, sizeof(zeros)) == sizeof(zeros), "write");
	put_constant(code, 5);
	check(call(code) == 5, "code");
	check(syscall(SYS_io_submit, context, 1, &list) == 1, "io_submit");
	check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "io_getevents");
	check(event.res == 4 && call(code) == 0, "code that was read");
	syscall(SYS_io_destroy, context);
}

static void write_constant(int file, uint32_t value, off_t at)
{
	uint8_t code[6];

	put_constant(code, value);
	check(pwrite(file, code, sizeof(code), at) == sizeof(code), "pwrite");
}

/* A file whose code runs is written to in each way that there is, and through its memory. */
static void write_file(int file, const uint8_t *code)
{
	const int other = memfd_create("other", 0);
	off_t from = 0, to = PAGE;
	uint8_t bytes[6], *alias;
	int ends[2];

	write_constant(file, 1, PAGE);
	check(call(code) == 1, "pwrite");
	put_constant(bytes, 2);
	check(lseek(file, PAGE, SEEK_SET) == PAGE && write(file, bytes, 6) == 6, "write");
	check(call(code) == 2, "write");
	put_constant(bytes, 3);
	check(pwritev(file, &(struct iovec){bytes, 6}, 1, PAGE) == 6, "pwritev");
	check(call(code) == 3, "pwritev");
	write_constant(other, 4, 0);
	check(lseek(file, PAGE, SEEK_SET) == PAGE && sendfile(file, other, &from, 6) == 6,
	      "sendfile");
	check(call(code) == 4, "sendfile");
	put_constant(bytes, 5);
	to = PAGE;
	check(!pipe(ends) && write(ends[1], bytes, 6) == 6 &&
		  splice(ends[0], NULL, file, &to, 6, 0) == 6,
	      "splice");
	check(call(code) == 5, "splice");
	alias = map(file, PROT_READ | PROT_WRITE);
	for (unsigned i = 6; i < 9; i++) {
		put_constant(alias + PAGE, i);
		check(call(code) == i, "a store to another mapping");
	}
	check(!ftruncate(file, 0) && !ftruncate(file, 2 * PAGE), "ftruncate");
	write_constant(file, 9, PAGE);
	check(call(code) == 9, "ftruncate");
}

static void files(void)
{
	char name[] = "code-XXXXXX";
	const int in_memory = memfd_create("code", 0), on_disk = mkstemp(name);
	const int file[] = {in_memory, on_disk, in_memory};

	check(in_memory >= 0 && on_disk >= 0, "files");
	for (unsigned i = 0; i < 3; i++) {
		const int how = i == 2 ? MAP_SHARED : MAP_PRIVATE;
		uint8_t *code;

		check(!ftruncate(file[i], 2 * PAGE), "ftruncate");
		write_constant(file[i], 77, PAGE);
		code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, how, file[i], 0);
		check(code != MAP_FAILED && call(code + PAGE) == 77, "code of a file");
		write_file(file[i], code + PAGE);
	}
	unlink(name);
}

/* A file whose code runs is written to by the child of a fork(), while both run it. */
static void forked(void)
{
	const int file = memfd_create("code", 0);
	uint8_t *code;
	int status;

	check(file >= 0 && !ftruncate(file, PAGE), "memfd_create");
	write_constant(file, 1, 0);
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	check(code != MAP_FAILED && call(code) == 1, "code of a file");
	for (unsigned i = 2; i < 6; i++) {
		pid_t child = fork();

		if (!child) {
			write_constant(file, i, 0);
			_exit((int)call(code));
		}
		check(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
			  WEXITSTATUS(status) == (int)i,
		      "the child's code");
		check(call(code) == i, "what the child has written");
	}
}

/* A program maps code and writes to it by a descriptor that the one before it has opened. */
static void inherited(void)
{
	const char *given = getenv("CODE_FILE");
	const int file = given ? atoi(given) : memfd_create("code", 0);
	uint8_t *code;
	char number[16];

	check(file >= 0, "the file");
	if (!given) {
		write_constant(file, 1, 0);
		snprintf(number, sizeof(number), "%d", file);
		setenv("CODE_FILE", number, 1);
		execl("/proc/self/exe", "changes", "inherited", NULL);
	}
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	check(code != MAP_FAILED && call(code) == 1, "code of a file");
	write_constant(file, 2, 0);
	check(call(code) == 2, "code that was written by an inherited descriptor");
}

/* As what writes to its own memory by a file does, whatever that may be written to. */
static void own_memory(void)
{
	const int file = open("/proc/self/mem", O_RDWR);
	uint8_t *code = new_code(PAGE);

	if (file < 0)
		return;
	put_constant(code, 1);
	check(!mprotect(code, PAGE, PROT_READ | PROT_EXEC), "mprotect");
	for (unsigned i = 1; i < 9; i++) {
		check(call(code) == i, "code in memory");
		write_constant(file, i + 1, (off_t)(uintptr_t)code);
	}
	close(file);
}

/* Puts code where somebody waits for it. */
static void *serve_faults(void *argument)
{
	const int server = *(const int *)argument;
	static uint8_t page[PAGE];
	struct uffd_msg message;
	struct uffdio_copy copy = {.src = (uintptr_t)page, .len = PAGE};

	for (uint32_t i = 1; read(server, &message, sizeof(message)) == sizeof(message); i++) {
		put_constant(page, i);
		copy.dst = message.arg.pagefault.address & -(uint64_t)PAGE;
		check(!ioctl(server, UFFDIO_COPY, &copy), "UFFDIO_COPY");
	}
	return NULL;
}

/* Pages of code that come when they are executed; another thread brings them. */
static void served(void)
{
	int server = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	uint8_t *code = new_code(4 * PAGE);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)code, 4 * PAGE},
					.mode = UFFDIO_REGISTER_MODE_MISSING};
	pthread_t thread;

	if (server < 0)
		return; /* not for everybody */
	check(!ioctl(server, UFFDIO_API, &api) && !ioctl(server, UFFDIO_REGISTER, &range),
	      "server");
	check(!pthread_create(&thread, NULL, serve_faults, &server), "pthread_create");
	check(!mprotect(code, 4 * PAGE, PROT_READ | PROT_EXEC), "mprotect");
	for (uint32_t i = 0; i < 4; i++)
		check(call(code + i * PAGE) == i + 1, "code that was brought");
	check(!madvise(code, PAGE, MADV_DONTNEED) && call(code) == 5,
	      "code that was brought again");
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
	    {"two_mappings", two_mappings},
	    {"kernel", kernel},
	    {"mixed", mixed},
	    {"stack", stack},
	    {"children", children},
	    {"faults", faults},
	    {"back_again", back_again},
	    {"execute_only", execute_only},
	    {"beyond_end", beyond_end},
	    {"asynchronous", asynchronous},
	    {"files", files},
	    {"own_memory", own_memory},
	    {"served", served},
	    {"forked", forked},
	    {"inherited", inherited}, /* the last one: it begins this program again */
	};

	setvbuf(stdout, NULL, _IONBF, 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (count > 1 && strcmp(arguments[1], cases[i].name))
			continue;
		cases[i].run();
		report(cases[i].name, 0);
	}
	return 3;
}
