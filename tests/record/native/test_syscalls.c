/* SPDX-License-Identifier: MIT */
/*
 * The gate of system calls, in this process: the calls are really made, and what the rest of the
 * runtime would do is recorded by stand-ins below. What is expected is what the manual pages and
 * the kernel's numbering say.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/syscalls.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
/*
 * What leaving early looks like: R asks for another recorder, but not where the program has as much
 * address space as AddressSanitizer's.
 */
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define REFUSED "-EL!"
#else
#define REFUSED "-ERL!"
#endif

#define PAGE 4096

/* ---- Stand-ins ------------------------------------------------------------ */

#define LOG_MAX 64

static struct native_header *shared; /* with slots for threads */
static struct runtime runtime;
static unsigned settled; /* calls of ring_settle() */
static struct syscalls state;
static uint8_t copy_room[64 << 10]; /* for code */
#define SLOTS 8			    /* so many are in use at most */
static struct context context;
static struct registers registers;

static char events[1024]; /* what was called, a letter each: see the stand-ins */
static struct native_message asked;
static char text[256]; /* of the last message with a text */
static uint64_t code_address, code_bytes;
static uint8_t code[16]; /* the first of the last NATIVE_MESSAGE_CODE */
static uint64_t forgotten[2], enabled_ip, ours[2];
static uint64_t parent;	 /* of NATIVE_MESSAGE_FORK */
static bool interrupted; /* signals_call() */
static uint64_t mapped_protection;
static bool holds; /* changes.c has taken the right to write away from held_page */
static uint64_t held_page;
/* What the child of vfork() has seen; it shares this memory. */
static bool child_leaves;
static int32_t child_pid;
static volatile uint64_t child_general[16], child_rip; /* read after a child wrote them */
static jmp_buf left;
static uint8_t log_bytes[PACKETS_MAX * LOG_MAX];

static void note(const char *event)
{
	assert_true(strlen(events) + strlen(event) < sizeof(events));
	strcat(events, event);
}

void *memory_take(struct runtime *rt, size_t n)
{
	assert_ptr_equal(rt, &runtime);
	if (n >= 1 << 17) /* a context, or what a thread without a slot has */
		return memory_map(&runtime, n);
	if (n != sizeof(state))
		return copy_room;
	memset(&state, 0, sizeof(state));
	return &state;
}

bool memory_is_ours(const struct runtime *rt, uint64_t address, uint64_t n)
{
	assert_ptr_equal(rt, &runtime);
	return address < ours[1] && address + n > ours[0];
}

bool recorder_is_alive(const struct context *c)
{
	assert_ptr_equal(c, &context);
	return shared->recorder_alive;
}

bool message_send(struct context *c, const struct native_message *m, const void *payload)
{
	assert_ptr_equal(c, &context);
	note(m->type == NATIVE_MESSAGE_COMMITTED     ? "C"
	     : m->type == NATIVE_MESSAGE_EXEC_FAILED ? "x"
	     : m->type == NATIVE_MESSAGE_FORK	     ? "F"
	     : m->type == NATIVE_MESSAGE_THREAD	     ? "T"
	     : m->type == NATIVE_MESSAGE_CODE	     ? "c"
						     : "?");
	if (m->type == NATIVE_MESSAGE_FORK)
		parent = m->value;
	if (m->type == NATIVE_MESSAGE_CODE) {
		code_address = m->address;
		code_bytes += m->bytes;
		memcpy(code, payload, m->bytes < sizeof(code) ? m->bytes : sizeof(code));
	}
	return true;
}

bool message_ask(struct context *c, const struct native_message *m, const void *payload)
{
	(void)payload;
	asked = *m;
	if (child_leaves) {
		assert_int_equal(m->type, NATIVE_MESSAGE_EXEC);
		child_pid = c->pid;
		return true;
	}
	assert_ptr_equal(c, &context);
	note(m->type == NATIVE_MESSAGE_MAP ? "M" : m->type == NATIVE_MESSAGE_EXEC ? "X" : "?");
	return true;
}

void message_text(struct context *c, uint32_t type, uint64_t address, const char *t)
{
	(void)address;
	assert_ptr_equal(c, &context);
	snprintf(text, sizeof(text), "%s", t);
	note(type == NATIVE_MESSAGE_REFUSED ? "R"
	     : type == NATIVE_MESSAGE_LEFT  ? "L"
	     : type == NATIVE_MESSAGE_COMM  ? "N"
					    : "?");
	if (type == NATIVE_MESSAGE_REFUSED)
		shared->recorder_alive = 0; /* or it would wait to be killed */
}

void ring_end(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("E");
}

void filter_update(struct context *c)
{
	assert_ptr_equal(c, &context);
}

bool filter_has_stops(const struct runtime *rt)
{
	assert_ptr_equal(rt, &runtime);
	return false;
}

/* What comes before the call is taken while the thread waits in it. */
void ring_wake_recorder(const struct context *c)
{
	(void)c;
	note("w");
}

void ring_settle(struct context *c)
{
	assert_ptr_equal(c, &context);
	assert_string_equal(events + strlen(events) - 1, "-");
	settled++;
}

uint8_t *packets_room(struct context *c, uint64_t ip)
{
	assert_int_equal(ip, registers.rip);
	return (uint8_t *)c->log;
}

uint8_t *packets_disable(struct context *c, uint8_t *at)
{
	assert_ptr_equal(at, (uint8_t *)c->log);
	note("-");
	return at + 1;
}

uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip)
{
	assert_int_equal(ip, registers.rip);
	return packets_disable(c, at);
}

uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip)
{
	assert_ptr_equal(at, (uint8_t *)c->log);
	note("+");
	enabled_ip = ip;
	return at + 1;
}

uint8_t *packets_begin(struct context *c, uint8_t *at, uint64_t ip)
{
	assert_ptr_equal(at, (uint8_t *)c->log);
	note("p");
	enabled_ip = ip;
	return at + 1;
}

void pause_follow(struct context *c, uint64_t ip, bool traced)
{
	assert_int_equal(ip, registers.rip);
	assert_false(traced);
	c->paused = !c->paused;
	note("Z");
}

bool ring_guard(struct context *c)
{
	return c->slot;
}

void unit_fill_tables(struct context *c)
{
	assert_ptr_equal(c, &context);
}

void ring_begin(struct context *c)
{
	c->log = (uint64_t)log_bytes;
	note("B");
}

void *memory_map(struct runtime *rt, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_equal(rt, &runtime);
	return p == MAP_FAILED ? NULL : p;
}

void memory_unmap(struct runtime *rt, void *address, size_t n)
{
	assert_ptr_equal(rt, &runtime);
	assert_int_equal(munmap(address, n), 0);
}

void unit_forget(struct context *c, uint64_t start, uint64_t end)
{
	assert_ptr_equal(c, &context);
	assert_true(start < end);
	forgotten[0] = start;
	forgotten[1] = end;
	note("f");
}

void cache_lock(struct context *c)
{
	c->cache_holds++;
}

void cache_unlock(struct context *c)
{
	c->cache_holds--;
}

void changes_before_mapping(struct context *c, uint64_t start, uint64_t end)
{
	assert_ptr_equal(c, &context);
	assert_true(start < end);
	assert_int_equal(c->cache_holds, 1);
	note("w");
}

void changes_after_mapping(struct context *c, uint64_t start, uint64_t end, uint64_t protection,
			   bool shared)
{
	assert_ptr_equal(c, &context);
	assert_true(start < end);
	mapped_protection = protection;
	note(shared ? "S" : "P");
}

void changes_before_call(struct context *c, const uint64_t *words)
{
	assert_ptr_equal(c, &context);
	assert_int_equal(words[0], (uint32_t)registers.general[0]);
}

void changes_file(struct context *c, uint64_t inode)
{
	(void)c;
	(void)inode;
}

void changes_written(struct context *c, uint64_t inode)
{
	(void)c;
	(void)inode;
}

void changes_forked(struct context *c)
{
	(void)c;
}

bool changes_has_files(const struct context *c)
{
	(void)c;
	return false;
}

bool changes_executes(const struct context *c, uint64_t inode)
{
	(void)c;
	(void)inode;
	return false;
}

bool changes_give_back_all(struct context *c)
{
	const bool had = holds;

	assert_ptr_equal(c, &context);
	holds = false;
	if (had && held_page)
		assert_int_equal(mprotect((void *)held_page, PAGE, PROT_READ | PROT_WRITE), 0);
	note("g");
	return had;
}

bool signals_call(struct context *c, const uint64_t call[7], int64_t *result)
{
	long r;

	assert_ptr_equal(c, &context);
	if (interrupted)
		return false;
	r = syscall((long)call[0], call[1], call[2], call[3], call[4], call[5], call[6]);
	*result = r < 0 ? -errno : r;
	return true;
}

bool signals_syscall(struct context *c, struct registers *r)
{
	assert_ptr_equal(c, &context);
	assert_ptr_equal(r, &registers);
	note("s");
	r->rip = 0x1234;
	return true;
}

bool signals_deliver(struct context *c, struct registers *r)
{
	note("d");
	c->pending = false;
	r->rip = 0x5678;
	return true;
}

bool signals_copy(void *to, const void *from, size_t n)
{
	const struct iovec there = {(void *)(uintptr_t)from, n}, here = {to, n};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)n;
}

void signals_place_trap(struct context *c, uint64_t next)
{
	(void)c;
	(void)next;
}

void signals_give_back(struct context *c, uint64_t *mask)
{
	(void)c;
	*mask = 0;
}

void signals_hold(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("h");
}

void signals_release(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("r");
}

void signals_forked(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("k");
}

void signals_exec(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("e");
}

void signals_exec_failed(struct context *c)
{
	assert_ptr_equal(c, &context);
	note("b");
}

_Noreturn void signals_leave(struct context *c, const struct registers *r)
{
	assert_ptr_equal(c, &context);
	if (child_leaves) {
		for (unsigned i = 0; i < 16; i++)
			child_general[i] = r->general[i];
		child_rip = r->rip;
		for (;;)
			syscall(SYS_exit_group, 42);
	}
	note("!");
	longjmp(left, 1);
}

/* Threads are tested by threads.sh: nothing here starts one. */
void unit_begin(struct context *c)
{
	(void)c;
}

bool signals_prepare_thread(struct context *c, const struct context *parent_of_it, uint64_t flags)
{
	(void)c;
	(void)parent_of_it;
	(void)flags;
	return false; /* as if there were no memory */
}

void signals_begin_thread(struct context *c)
{
	(void)c;
}

_Noreturn void signals_head(struct context *c, struct registers *r, bool traced)
{
	(void)c;
	(void)r;
	(void)traced;
	abort();
}

void signals_stop(const struct context *c, const struct context *other)
{
	(void)c;
	(void)other;
}

void signals_restore(struct context *c)
{
	assert_ptr_equal(c, &context);
}

void signals_lock(struct handlers *h)
{
	(void)h;
}

void signals_unlock(struct handlers *h)
{
	(void)h;
}

void memory_hold(struct runtime *rt)
{
	assert_ptr_equal(rt, &runtime);
}

void memory_release(struct runtime *rt)
{
	assert_ptr_equal(rt, &runtime);
}

/* ---- Driver ---------------------------------------------------------------- */

static const uint8_t plain[] = {0x0f, 0x05, 0xcc};
static const uint8_t prefixed[] = {0x48, 0x0f, 0x05, 0xcc};

static struct native_thread *slot(unsigned n)
{
	return (struct native_thread *)((char *)shared + native_slot_at(n));
}

static int set_up_group(void **unused)
{
	(void)unused;
	shared = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	return 0;
}

static int set_up(void **unused)
{
	(void)unused;
	memset(shared, 0, sizeof(*shared));
	memset(&runtime, 0, sizeof(runtime));
	memset(&context, 0, sizeof(context));
	memset(runtime.guarded, 0xff, sizeof(runtime.guarded)); /* who leaves keeps the slots */
	shared->recorder_alive = 1;
	runtime.shared = shared;
	context.runtime = &runtime;
	context.pid = getpid();
	context.tid = getpid();
	context.log = (uint64_t)log_bytes;
	events[0] = text[0] = 0;
	interrupted = child_leaves = false;
	for (unsigned n = 0; n < SLOTS; n++)
		slot(n)->state = NATIVE_SLOT_FREE;
	memset(ours, 0, sizeof(ours));
	memset(forgotten, 0, sizeof(forgotten));
	return 0;
}

/* Makes the call. False: it left. */
static bool call_at(const uint8_t *code, uint64_t number, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d, uint64_t e, uint64_t f)
{
	for (unsigned i = 0; i < 16; i++)
		registers.general[i] = 0x1000 + i;
	registers.general[0] = number;
	registers.general[7] = a;
	registers.general[6] = b;
	registers.general[2] = c;
	registers.general[10] = d;
	registers.general[8] = e;
	registers.general[9] = f;
	registers.rip = (uint64_t)code;
	registers.rflags = 0x246;
	events[0] = 0;
	context.log = (uint64_t)log_bytes;
	if (setjmp(left))
		return false;
	syscall_gate(&context, &registers);
	return true;
}

#define CALL3(number, a, b, c)                                                                     \
	call_at(plain, number, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), 0, 0, 0)

static int64_t result(void)
{
	return (int64_t)registers.general[0];
}

static uint64_t map(size_t pages, int protection)
{
	void *p = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return (uint64_t)p;
}

static bool is_mapped(uint64_t page)
{
	unsigned char resident;

	return !mincore((void *)page, PAGE, &resident);
}

/* ---- Tests ------------------------------------------------------------------ */

/* x86-64 Linux numbers 0 to 336 and from 424 on (the rest are those of the x32 ABI and a gap). */
TEST_WITH(test_every_number_has_a_row, set_up, NULL)
{
	static bool rows[512];
	static const struct {
		unsigned number, header;
	} known[] = {
#define SYSCALL(number, name, treatment) {number, SYS_##name},
/* Newer than the headers of the oldest systems. */
#ifndef SYS_uretprobe
#define SYS_uretprobe 335
#endif
#ifndef SYS_uprobe
#define SYS_uprobe 336
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake	  454
#define SYS_futex_wait	  455
#define SYS_futex_requeue 456
#endif
#ifndef SYS_statmount
#define SYS_statmount	      457
#define SYS_listmount	      458
#define SYS_lsm_get_self_attr 459
#define SYS_lsm_set_self_attr 460
#define SYS_lsm_list_modules  461
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat	  463
#define SYS_getxattrat	  464
#define SYS_listxattrat	  465
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif
#ifndef SYS__sysctl
#define SYS__sysctl 156
#endif
#include "record/native/runtime/syscalls.def"
#undef SYSCALL
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(known[i].number, known[i].header);
		assert_false(rows[known[i].number]);
		rows[known[i].number] = true;
	}
	for (unsigned n = 0; n < 512; n++)
		assert_int_equal(rows[n], n <= 336 || (n >= 424 && n <= 469));
}

TEST_WITH(test_the_registers_are_the_kernels, set_up, NULL)
{
	settled = 0;
	assert_true(CALL3(SYS_getpid, 1, 2, 3));
	assert_string_equal(events, "-+");
	assert_int_equal(settled, 1);
	assert_int_equal(result(), getpid());
	assert_int_equal(registers.rip, plain + 2);
	assert_int_equal(registers.general[1], plain + 2);
	assert_int_equal(registers.general[11], 0x246);
	assert_int_equal(enabled_ip, plain + 2);
	for (unsigned i = 3; i < 6; i++)
		assert_int_equal(registers.general[i], 0x1000 + i);
	for (unsigned i = 12; i < 16; i++)
		assert_int_equal(registers.general[i], 0x1000 + i);
	assert_int_equal(registers.general[7], 1);

	assert_true(CALL3(SYS_close, -1, 0, 0));
	assert_int_equal(result(), -EBADF);
	/* The kernel takes the number from EAX, and instructions may have prefixes. */
	assert_true(call_at(prefixed, SYS_getpid | UINT64_C(1) << 40, 0, 0, 0, 0, 0, 0));
	assert_int_equal(result(), getpid());
	assert_int_equal(registers.rip, prefixed + 3);
}

TEST_WITH(test_a_signal_before_the_call_leaves_it_to_be_made_again, set_up, NULL)
{
	interrupted = true;
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_int_equal(registers.rip, plain);
	assert_int_equal(enabled_ip, plain);
	assert_int_equal(result(), SYS_getpid);
}

TEST_WITH(test_a_signal_after_the_call_is_delivered_before_tracing_goes_on, set_up, NULL)
{
	context.pending = true;
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_string_equal(events, "-d+");
	assert_int_equal(enabled_ip, 0x5678);
	assert_true(CALL3(SYS_rt_sigprocmask, 0, 0, 0));
	assert_string_equal(events, "-s+");
	assert_int_equal(enabled_ip, 0x1234);
}

/* Nothing may be written between the call and that: the recorder reads what was written before. */
TEST_WITH(test_a_pause_begins_and_ends_before_tracing_goes_on, set_up, NULL)
{
	shared->paused = 1;
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_string_equal(events, "-Z+");
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_string_equal(events, "-+");
	shared->paused = 0;
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_string_equal(events, "-Z+");
	/* A thread without a slot has nothing to pause. */
	shared->paused = 1;
	context.discards = true;
	assert_true(CALL3(SYS_getpid, 0, 0, 0));
	assert_string_equal(events, "-+");
}

TEST_WITH(test_the_first_effect_is_announced_once, set_up, NULL)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_true(CALL3(SYS_write, ends[1], "ab", 2));
	assert_string_equal(events, "-C+");
	assert_true(CALL3(SYS_write, ends[1], "c", 1));
	assert_string_equal(events, "-+");
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
}

static const char *events_of_read(uint64_t descriptor)
{
	char byte;

	CALL3(SYS_read, descriptor, &byte, 1);
	return events;
}

TEST_WITH(test_reading_what_the_program_opened_is_no_effect, set_up, NULL)
{
	int inherited = open("/proc/self/exe", O_RDONLY), mine;

	assert_true(CALL3(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC));
	assert_string_equal(events, "-+");
	mine = (int)result();
	assert_true(mine > 2);
	assert_string_equal(events_of_read((uint64_t)mine), "-+");
	/* Another descriptor takes its number. */
	assert_true(CALL3(SYS_dup2, inherited, mine, 0));
	assert_string_equal(events, "-+");
	assert_string_equal(events_of_read((uint64_t)mine), "-C+");

	set_up(NULL);
	assert_true(CALL3(SYS_open, "/proc/self/exe", O_RDONLY, 0));
	assert_int_equal(close((int)result()), 0);
	assert_true(CALL3(SYS_close, result(), 0, 0));
	assert_string_equal(events, "-+");
	assert_string_equal(events_of_read((uint64_t)inherited), "-C+");

	set_up(NULL);
	assert_true(CALL3(SYS_open, "/proc/self/comm", O_RDWR, 0));
	assert_string_equal(events, "-C+");
	close((int)result());
	set_up(NULL);
	assert_true(CALL3(SYS_open, "/dev/tty0-that-does-not-exist", O_RDONLY, 0));
	assert_int_equal(result(), -ENOENT);
	assert_string_equal(events, "-+");
	close(mine);
	close(inherited);
}

/* Whoever writes to it may have waited for that. */
TEST_WITH(test_opening_a_fifo_is_an_effect, set_up, NULL)
{
	char name[] = "test_syscalls.fifo";

	unlink(name);
	assert_int_equal(mkfifo(name, 0600), 0);
	assert_true(CALL3(SYS_open, name, O_RDONLY | O_NONBLOCK, 0));
	assert_string_equal(events, "-C+");
	close((int)result());
	unlink(name);
}

TEST_WITH(test_calls_that_ask_are_no_effect, set_up, NULL)
{
	uint64_t words[8];

	CALL3(SYS_ioctl, 0, 0x5401 /* TCGETS */, words);
	assert_string_equal(events, "-+");
	CALL3(SYS_fcntl, 0, F_GETFL, 0);
	assert_string_equal(events, "-+");
	CALL3(SYS_kill, getpid(), 0, 0);
	assert_string_equal(events, "-+");
	CALL3(SYS_tgkill, getpid(), getpid(), 0);
	assert_string_equal(events, "-+");
	CALL3(SYS_kill, getppid(), 0, 0);
	assert_string_equal(events, "-C+");
	set_up(NULL);
	CALL3(SYS_fcntl, -1, F_SETFL, 0); /* of the file, which others may have open */
	assert_string_equal(events, "-C+");
}

TEST_WITH(test_executable_memory_is_reported_and_forgotten, set_up, NULL)
{
	const uint64_t page = map(3, PROT_READ);

	assert_true(CALL3(SYS_mprotect, page, 100, PROT_READ | PROT_EXEC));
	assert_int_equal(result(), 0);
	assert_string_equal(events, "-wfPM+");
	assert_int_equal(mapped_protection, PROT_READ | PROT_EXEC);
	assert_int_equal(asked.address, page);
	assert_int_equal(asked.size, PAGE);
	assert_true(CALL3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE));
	assert_string_equal(events, "-wfP+");
	assert_int_equal(forgotten[0], page);
	assert_int_equal(forgotten[1], page + PAGE);
	/* It was executable: where it goes is looked at. */
	assert_true(call_at(plain, SYS_mremap, page, PAGE, PAGE, MREMAP_MAYMOVE, 0, 0));
	assert_string_equal(events, "-wfSM+");
	assert_true(call_at(plain, SYS_mremap, page + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE, 0, 0));
	assert_string_equal(events, "-wfP+");

	assert_true(call_at(plain, SYS_mmap, page, 2 * PAGE, PROT_READ | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	assert_int_equal(result(), page);
	assert_string_equal(events, "-wfPfM+");
	assert_int_equal(asked.size, 2 * PAGE);
	assert_true(CALL3(SYS_munmap, page, 3 * PAGE, 0));
	assert_string_equal(events, "-wf+");
	assert_false(is_mapped(page));
	/* What the kernel refuses, it refuses. */
	assert_true(CALL3(SYS_munmap, page + 1, PAGE, 0));
	assert_int_equal(result(), -EINVAL);
	assert_true(CALL3(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC));
	assert_int_equal(result(), -ENOMEM);
}

/* Code that can change without a call is changes.c's: it is told of every mapping. */
TEST_WITH(test_memory_that_is_writable_and_executable, set_up, NULL)
{
	const uint64_t page = map(1, PROT_READ | PROT_WRITE);

	*(uint8_t *)page = 0xc3;
	assert_true(CALL3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
	assert_int_equal(result(), 0);
	assert_string_equal(events, "-wfPM+"); /* its bytes are sent when they are executed */
	assert_int_equal(mapped_protection, PROT_READ | PROT_WRITE | PROT_EXEC);
	assert_true(call_at(plain, SYS_mmap, 0, PAGE, PROT_READ | PROT_EXEC,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	assert_string_equal(events, "-SfM+");
	assert_true(call_at(plain, SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	assert_string_equal(events, "-S+");
}

/* The translator has to read it. */
TEST_WITH(test_memory_that_can_only_be_executed, set_up, NULL)
{
	const uint64_t page = map(1, PROT_READ | PROT_WRITE);

	*(uint8_t *)page = 0xc3;
	assert_true(CALL3(SYS_mprotect, page, PAGE, PROT_EXEC));
	assert_int_equal(result(), 0);
	assert_int_equal(mapped_protection, PROT_READ | PROT_EXEC);
	assert_int_equal(code_address, page);
	assert_int_equal(code[0], 0xc3);
	assert_true(
	    call_at(plain, SYS_mmap, 0, PAGE, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	assert_int_equal(*(volatile uint8_t *)result(), 0);
}

/* A call that fails because of such a page is made again. */
TEST_WITH(test_a_call_that_writes_to_code, set_up, NULL)
{
	held_page = map(1, PROT_READ);
	holds = true;
	assert_true(CALL3(SYS_uname, held_page, 0, 0));
	assert_int_equal(result(), 0);
	assert_string_equal(events, "-g+");
	assert_string_equal((char *)held_page, "Linux");
	/* Nothing was held: the address is wrong. */
	assert_true(CALL3(SYS_uname, 1, 0, 0));
	assert_int_equal(result(), -EFAULT);
	assert_string_equal(events, "-g+");
}

/* What is in no file has to be in the recording. */

TEST_WITH(test_code_that_was_written_is_sent, set_up, NULL)
{
	const uint64_t page = map(20, PROT_READ | PROT_WRITE);

	strcpy((char *)page + 100, "code");
	strcpy((char *)page + 19 * PAGE, "end");
	code_bytes = 0;
	assert_true(CALL3(SYS_mprotect, page, 20 * PAGE, PROT_READ | PROT_EXEC));
	assert_string_equal(events, "-wfPMcc+"); /* what is between is 0 */
	assert_true(code_bytes < 20 * PAGE);
	assert_true(code_address <= page + 19 * PAGE);
	assert_true(CALL3(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC));
	assert_int_equal(code_address, page);
	assert_true(call_at(plain, SYS_mremap, page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			    page + 10 * PAGE, 0));
	assert_string_equal(events, "-wfwfSMc+");
	assert_int_equal(code_address, page + 10 * PAGE);
	/* A hole is left out. */
	assert_true(CALL3(SYS_munmap, page + 12 * PAGE, PAGE, 0));
	code_bytes = 0;
	assert_true(CALL3(SYS_mprotect, page + 10 * PAGE, 10 * PAGE, PROT_READ | PROT_EXEC));
	assert_int_equal(result(), -ENOMEM);
	assert_true(code_bytes >= 2 * PAGE);
	assert_true(CALL3(SYS_madvise, page + 10 * PAGE, PAGE, MADV_DONTNEED));
	assert_string_equal(events, "-wf+"); /* zeros now */
	munmap((void *)page, 20 * PAGE);
}

TEST_WITH(test_the_runtimes_memory_is_free_for_the_program, set_up, NULL)
{
	const uint64_t all = map(8, PROT_READ | PROT_WRITE);
	unsigned char resident[8];

	/* Pages 3 and 4 are the runtime's. */
	ours[0] = all + 3 * PAGE;
	ours[1] = all + 5 * PAGE;
	assert_true(CALL3(SYS_mprotect, all, 8 * PAGE, PROT_NONE));
	assert_int_equal(result(), -ENOMEM); /* with a gap: the pages before it have changed */
	*(volatile char *)(all + 3 * PAGE) = 1;
	*(volatile char *)(all + 5 * PAGE) = 1;
	assert_true(CALL3(SYS_mprotect, all, 3 * PAGE, PROT_READ | PROT_WRITE));
	assert_int_equal(result(), 0);
	*(volatile char *)all = 1;
	assert_true(CALL3(SYS_mprotect, ours[0], PAGE, PROT_NONE));
	assert_int_equal(result(), -ENOMEM);
	assert_true(CALL3(SYS_mincore, all, 8 * PAGE, resident));
	assert_int_equal(result(), -ENOMEM);
	assert_true(CALL3(SYS_madvise, all, 8 * PAGE, MADV_DONTNEED));
	assert_int_equal(result(), -ENOMEM); /* and the rest is done */
	assert_int_equal(*(volatile char *)all, 0);
	assert_int_equal(*(volatile char *)(all + 5 * PAGE), 0);
	assert_int_equal(*(volatile char *)(all + 3 * PAGE), 1);
	assert_true(call_at(plain, SYS_mremap, ours[0], PAGE, PAGE, MREMAP_MAYMOVE, 0, 0));
	assert_int_equal(result(), -EFAULT);
	assert_true(call_at(plain, SYS_mmap, all, 8 * PAGE, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	assert_int_equal(result(), -EEXIST);
	assert_true(CALL3(SYS_munmap, all, 8 * PAGE, 0));
	assert_int_equal(result(), 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(is_mapped(all + i * PAGE), i == 3 || i == 4);
	/* What nobody may access can be around it. */
	assert_true(call_at(plain, SYS_mmap, all, 8 * PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	assert_int_equal(result(), all);
	for (unsigned i = 0; i < 8; i++)
		assert_true(is_mapped(all + i * PAGE));
	assert_int_equal(*(volatile char *)(all + 3 * PAGE), 1);
	assert_true(CALL3(SYS_munmap, all, 8 * PAGE, 0));
	/* MAP_FIXED would replace it otherwise: nothing that could be answered is true. */
	assert_false(call_at(plain, SYS_mmap, all, 8 * PAGE, PROT_READ,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	assert_string_equal(events, REFUSED);
	munmap((void *)ours[0], 2 * PAGE);
}

/*
 * Each leaves before it is made. Where the recorder qemu does not do it either, it is too late from
 * then on to start the program again.
 */
TEST_WITH(test_what_cannot_be_followed_leaves, set_up, NULL)
{
	static const struct rlimit low = {1 << 20, 1 << 20};
	static const struct sock_filter deny = {BPF_RET, 0, 0, SECCOMP_RET_ERRNO | EPERM};
	static const struct sock_fprog program = {1, (struct sock_filter *)&deny};
	const uint64_t limit = (uintptr_t)&low, rules = (uintptr_t)&program;
	const struct {
		uint64_t number, a, b, c, d;
		const char *why, *events;
	} cases[] = {
	    {SYS_ptrace, 0, 0, 0, 0, "the program calls ptrace", "C-EL!"},
	    {SYS_seccomp, 0, 0, 0, 0, "the program calls seccomp", "C-EL!"},
	    {SYS_seccomp, 1, 0, rules, 0, "the recorder needs: futex", "-CEL!"},
	    {9999, 0, 0, 0, 0, "the program calls the unknown system call 9999", "C-EL!"},
	    {0x40000000 | SYS_getpid, 0, 0, 0, 0,
	     "the program calls the unknown system call 1073741863", "C-EL!"},
	    {SYS_arch_prctl, 0x1001, 0, 0, 0, "GS", REFUSED},
	    {SYS_arch_prctl, 0x1012, 0, 0, 0, "arch_prctl", "C-EL!"},
	    {SYS_arch_prctl, 0x4002, 6, 0, 0, "tagged", "C-EL!"},
	    {SYS_prctl, PR_SET_SECCOMP, 1, 0, 0, "prctl", "C-EL!"},
	    {SYS_prctl, PR_SET_SECCOMP, 2, rules, 0, "the recorder needs: futex", "-CEL!"},
	    {SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, "unreadable", "C-EL!"},
	    {SYS_personality, 0x0400000, 0, 0, 0, "personality", "C-EL!"},
	    {SYS_setrlimit, 9, limit, 0, 0, "limits", REFUSED},
	    {SYS_prlimit64, 0, 9, limit, 0, "limits", REFUSED},
	    {SYS_shmat, 0, 0, 0100000, 0, "shared", "C-EL!"},
	    {SYS_unshare, 0x10000000 /* CLONE_NEWUSER */, 0, 0, 0, "namespace", "C-EL!"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(NULL);
		assert_false(call_at(plain, cases[i].number, cases[i].a, cases[i].b, cases[i].c,
				     cases[i].d, 0, 0));
		assert_string_equal(events, cases[i].events);
		assert_non_null(strstr(text, cases[i].why));
		assert_int_equal(registers.rip, plain);
		assert_int_equal(registers.general[0], cases[i].number);
	}
}

TEST_WITH(test_calls_with_an_answer_of_their_own, set_up, NULL)
{
	char name[16];

	assert_true(CALL3(SYS_rseq, 0, 32, 0));
	assert_int_equal(result(), -ENOSYS);
	assert_true(CALL3(SYS_arch_prctl, 0x5001, 1, 0));
	assert_int_equal(result(), -EOPNOTSUPP);
	assert_true(CALL3(SYS_prctl, PR_SET_NAME, "a-name-of-too-many-letters", 0));
	assert_string_equal(events, "-N+");
	assert_string_equal(text, "a-name-of-too-m");
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	assert_string_equal(name, "a-name-of-too-m");
	assert_true(CALL3(SYS_personality, 0xffffffff, 0, 0));
	assert_true(result() >= 0);
	assert_true(CALL3(SYS_prlimit64, 0, 9, 0)); /* asks */
}

TEST_WITH(test_leaving_after_an_effect_lets_the_program_go_on, set_up, NULL)
{
	runtime.committed = true;
	assert_false(CALL3(SYS_ptrace, 0, 0, 0));
	assert_string_equal(events, "-EL!");
}

static int status_of_child(void (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		run();
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void call_ptrace(void)
{
	CALL3(SYS_ptrace, 0, 0, 0);
}

static void call_exit(void)
{
	CALL3(SYS_exit_group, 7, 0, 0);
}

static void be_broken(void)
{
	leave_broken(&context, "a table is full");
}

TEST_WITH(test_the_process_ends, set_up, NULL)
{
	runtime.flags = NATIVE_STRICT;
	assert_int_equal(status_of_child(call_ptrace), 125);
	assert_int_equal(status_of_child(be_broken), 125);
	assert_int_equal(status_of_child(call_exit), 7);
}

TEST_WITH(test_an_execve_that_fails, set_up, NULL)
{
	const char *const none[] = {NULL};

	assert_true(CALL3(SYS_execve, "/nothing/of/this/name", none, none));
	assert_int_equal(result(), -ENOENT);
	assert_string_equal(events, "-Xebx+");
	assert_int_equal(registers.rip, plain + 2);
}

static int wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The call is made; in the child, what it saw is its exit status: 0 if it is as it should be. */
static void fork_by(uint64_t number, uint64_t flags, uint64_t stack, unsigned expected_slot)
{
	const pid_t self = getpid();

	runtime.committed = true;
	assert_true(CALL3(number, flags, stack, 0));
	if (getpid() != self) {
		const struct native_thread *mine = slot(expected_slot);

		_exit(strcmp(events, "-hFBTkp")		       ? 1
		      : result()			       ? 2
		      : context.pid != getpid()		       ? 3
		      : context.slot != mine		       ? 4
		      : mine->pid != getpid()		       ? 5
		      : (pid_t)parent != self		       ? 6
		      : enabled_ip != (uint64_t)plain + 2      ? 7
		      : stack && registers.general[4] != stack ? 8
							       : 0);
	}
	assert_string_equal(events, "-hr+");
	assert_true(result() > 0);
	assert_int_equal(registers.rip, plain + 2);
	assert_int_equal(registers.general[4], 0x1004);
	assert_int_equal(wait_for((pid_t)result()), 0);
	assert_int_equal(slot(expected_slot)->state, NATIVE_SLOT_ACTIVE);
	assert_int_equal(context.pid, self);
}

TEST_WITH(test_the_child_of_fork_has_a_slot_of_its_own, set_up, NULL)
{
	slot(0)->state = NATIVE_SLOT_ACTIVE;
	slot(1)->state = NATIVE_SLOT_ENDED; /* the recorder has not taken everything yet */
	fork_by(SYS_fork, 0, 0, 2);
	fork_by(SYS_clone, SIGCHLD, 0, 3);
	fork_by(SYS_clone, SIGCHLD, 0x7000, 4);
	/* A call that fails takes none. */
	assert_true(CALL3(SYS_clone, 0x00010000 /* CLONE_THREAD */ | SIGCHLD, 0, 0) == false);
	assert_true(CALL3(SYS_clone, 0x00002000 /* CLONE_PTRACE */ | SIGCHLD, 0, 0) == false);
	assert_int_equal(slot(5)->state, NATIVE_SLOT_FREE);
}

TEST_WITH(test_a_fork_without_a_free_slot_is_not_recorded, set_up, NULL)
{
	for (unsigned n = 0; n < NATIVE_THREADS; n++)
		slot(n)->state = NATIVE_SLOT_ACTIVE;
	runtime.committed = true;
	child_leaves = true;
	assert_true(CALL3(SYS_fork, 0, 0, 0));
	assert_int_equal(wait_for((pid_t)result()), 42);
	for (unsigned n = 0; n < NATIVE_THREADS; n++)
		slot(n)->state = NATIVE_SLOT_FREE;
}

static void vfork_by(uint64_t number, uint64_t flags, uint64_t stack)
{
	const int32_t self = context.pid;

	runtime.committed = true;
	child_leaves = true;
	assert_true(CALL3(number, flags, stack, 0));
	assert_string_equal(events, "-hgr+");
	assert_int_equal(child_pid, result());
	assert_int_equal(wait_for((pid_t)result()), 42);
	assert_int_equal(child_general[0], 0);
	assert_int_equal(child_general[1], plain + 2);
	assert_int_equal(child_rip, plain + 2);
	assert_int_equal(child_general[4], stack ? stack : 0x1004);
	assert_int_equal(registers.general[4], 0x1004);
	assert_int_equal(context.pid, self);
	assert_int_equal(slot(0)->state, NATIVE_SLOT_FREE);
}

TEST_WITH(test_the_child_of_vfork_runs_natively, set_up, NULL)
{
	vfork_by(SYS_vfork, 0, 0);
	vfork_by(SYS_clone, 0x4100 | SIGCHLD, 0x7000); /* posix_spawn() */
}

TEST_WITH(test_clone3_is_not_there, set_up, NULL)
{
	assert_true(CALL3(SYS_clone3, 0, 0, 0));
	assert_int_equal(result(), -ENOSYS);
	assert_string_equal(events, "-+");
}

/* As the kernel answers, and nobody outside has seen it. */
TEST_WITH(test_a_thread_without_memory, set_up, NULL)
{
	assert_true(CALL3(SYS_clone, 0x3d0f00, 0x7000, 0)); /* pthread_create() */
	assert_int_equal(result(), -EAGAIN);
	assert_string_equal(events, "-+");
	assert_int_equal(slot(0)->state, NATIVE_SLOT_FREE);
}

TEST_WITH(test_processes_that_share_memory_leave, set_up, NULL)
{
	assert_false(CALL3(SYS_clone, 0x100 /* CLONE_VM */, 0x7000, 0));
	assert_string_equal(events, "C-EL!");
	assert_non_null(strstr(text, "shares its memory"));
}

TEST_GROUP(set_up_group, NULL)
