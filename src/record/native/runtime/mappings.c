/* SPDX-License-Identifier: MIT */
/*
 * System calls about memory. Two things have to hold. The program must not change the runtime's
 * memory: a call that touches it gets the answer that the kernel would give if nothing were
 * mapped there. And the cache must not outlive the code it was copied from: units of memory that
 * changes are forgotten before the call, and the recorder looks at new executable memory after it
 * and before the program runs in it.
 *
 * Memory that is writable and executable at the same time, or that is shared and executable, can
 * change without a system call: changes.c sees to that, and is told of every call here.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/sandbox.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/mman.h>
#include <linux/shm.h>

#define COPY_BYTES   NATIVE_LIMIT(32u << 10, 1u << 10)	 /* of code in one message */
#define PART	     NATIVE_LIMIT(NATIVE_PAGE, 1u << 10) /* of it that has no holes */
#define REPORT_BYTES (UINT64_C(512) << 20) /* in one call: more may be more than all memory */
#define HUGE_PAGE    (UINT64_C(2) << 20)
#define ADDRESS_BITS 57 /* of user space, with five levels of page tables */

static uint64_t page_up(uint64_t n)
{
	return (n + NATIVE_PAGE - 1) & ~(uint64_t)(NATIVE_PAGE - 1);
}

/* The end of `bytes` bytes of whole pages, never before start. */
static uint64_t end_of(uint64_t start, uint64_t bytes)
{
	const uint64_t end = start + page_up(bytes);

	return bytes > UINT64_C(1) << ADDRESS_BITS || end < start ? start : end;
}

/* ---- Executable ranges -------------------------------------------------- */

static void lock_ranges(struct syscalls *s)
{
	while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE))
		sys_call(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock_ranges(struct syscalls *s)
{
	__atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

void mapping_lock(struct context *c)
{
	if (c->syscalls)
		lock_ranges(c->syscalls);
}

void mapping_unlock(struct context *c)
{
	if (c->syscalls)
		unlock_ranges(c->syscalls);
}

static void add_executable(struct syscalls *s, uint64_t start, uint64_t end)
{
	lock_ranges(s);
	for (uint32_t i = 0; i < s->executable_count; i++) {
		struct address_range *x = &s->executable[i];

		if (start <= x->end && end >= x->start) {
			x->start = start < x->start ? start : x->start;
			x->end = end > x->end ? end : x->end;
			unlock_ranges(s);
			return;
		}
	}
	if (s->executable_count == SYSCALL_RANGES) {
		s->executable[0].start = 0;
		s->executable[0].end = UINT64_MAX;
	} else {
		s->executable[s->executable_count].start = start;
		s->executable[s->executable_count++].end = end;
	}
	unlock_ranges(s);
}

static bool may_be_executable(struct syscalls *s, uint64_t start, uint64_t end)
{
	bool found = false;

	lock_ranges(s);
	for (uint32_t i = 0; i < s->executable_count && !found; i++)
		found = start < s->executable[i].end && end > s->executable[i].start;
	unlock_ranges(s);
	return found;
}

/* Nobody executes zeros, and there may be many. */
static bool is_zero(const uint8_t *bytes, uint64_t n)
{
	while (n && !*bytes) {
		bytes++;
		n--;
	}
	return !n;
}

/*
 * What was reported to the recorder is known until something else is mapped there: a JIT that takes
 * turns writing and executing changes nothing that the recording has of the mapping.
 */
static bool is_known(const struct syscalls *s, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < SYSCALL_KNOWN; i++)
		if (start >= s->known[i].start && end <= s->known[i].end && start < end)
			return true;
	return false;
}

static void set_known(struct syscalls *s, uint64_t start, uint64_t end)
{
	s->known[s->known_next++ % SYSCALL_KNOWN] = (struct address_range){start, end};
}

static void forget_known(struct syscalls *s, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < SYSCALL_KNOWN; i++)
		if (start < s->known[i].end && end > s->known[i].start)
			s->known[i] = (struct address_range){0};
}

/* Where it cannot be described, the recorder reads the process's list of mappings there. */
static void report_executable(struct context *c, uint64_t start, uint64_t end)
{
	const struct native_message m = {
	    .type = NATIVE_MESSAGE_MAP, .address = start, .size = end - start};

	if (is_known(c->syscalls, start, end)) {
		filter_update(c); /* it may have been without PROT_EXEC meanwhile */
		return;
	}
	add_executable(c->syscalls, start, end);
	filter_update(c);
	if (!mapped_report(c, start, end))
		message_ask(c, &m, NULL);
	set_known(c->syscalls, start, end);
}

/* Page by page, because there may be holes. Returns how much there is. */
static uint64_t copy_code(uint8_t *to, uint64_t start, uint64_t end)
{
	uint64_t n = 0;

	while (n < COPY_BYTES && start + n < end) {
		const uint64_t left = end - start - n, part = left < PART ? left : PART;

		if (!signals_copy(to + n, (const void *)(start + n), part))
			break;
		n += part;
	}
	return n;
}

/* Sends what is there now, for it may be in no file: the program has written it, or moved it. */
static void report_bytes(struct context *c, uint64_t start, uint64_t end)
{
	struct syscalls *s = c->syscalls;

	/* It may not be there yet, and is sent when it is executed: written_after(). */
	if (c->runtime->serves_faults)
		return;
	if (!s->copy && !(s->copy = memory_take(c->runtime, COPY_BYTES)))
		return;
	if (end - start > REPORT_BYTES && !__atomic_exchange_n(&s->cut, true, __ATOMIC_RELAXED))
		message_text(c, NATIVE_MESSAGE_NOTE, 0,
			     "a program has made more code at once than is read: some is missing");
	if (end - start > REPORT_BYTES)
		end = start + REPORT_BYTES;
	while (start < end) {
		const uint64_t got = copy_code(s->copy, start, end);
		const struct native_message m = {.type = NATIVE_MESSAGE_CODE,
						 .address = start,
						 .bytes = (uint32_t)got,
						 .size = got};

		if (!is_zero(s->copy, got))
			message_send(c, &m, s->copy);
		start += got ? got : NATIVE_PAGE;
	}
}

/* ---- Around the runtime's memory ---------------------------------------- */

static bool is_ours(const struct context *c, uint64_t start, uint64_t end)
{
	return end > start && memory_is_ours(c->runtime, start, end - start);
}

/* The end of the part of [start, end) before the first page of the runtime's. */
static uint64_t end_of_free(const struct context *c, uint64_t start, uint64_t end)
{
	uint64_t low = start, high = end; /* nothing before low is ours */

	if (!is_ours(c, start, end))
		return end;
	while (high - low > NATIVE_PAGE) {
		const uint64_t middle = low + (high - low) / NATIVE_PAGE / 2 * NATIVE_PAGE;

		if (is_ours(c, start, middle))
			high = middle;
		else
			low = middle;
	}
	return low;
}

static uint64_t end_of_ours(const struct context *c, uint64_t start, uint64_t end)
{
	while (start < end && is_ours(c, start, start + NATIVE_PAGE))
		start += NATIVE_PAGE;
	return start;
}

/* Whether the kernel gives up at the first page that is not mapped. */
static bool stops_at_gap(uint64_t number)
{
	return number == __NR_mprotect || number == __NR_pkey_mprotect || number == __NR_mlock ||
	       number == __NR_mlock2 || number == __NR_munlock || number == __NR_mincore ||
	       number == __NR_mbind;
}

/*
 * A call about [RDI, RDI + RSI) as if nothing were mapped where the runtime is: made for each part
 * around it.
 */
static int64_t call_around(struct context *c, const struct call *call)
{
	const uint64_t number = call->words[0], start = call->words[1];
	const uint64_t end = end_of(start, call->words[2]);
	const int64_t gap = number == __NR_munmap ? 0 : -ENOMEM;
	struct call part = *call;

	/* Arguments that the kernel does not take do nothing. */
	if (start % NATIVE_PAGE || !is_ours(c, start, end))
		return syscall_kernel(call);
	for (uint64_t at = start; at < end;) {
		const uint64_t stop = end_of_free(c, at, end);
		int64_t result = 0;

		part.words[1] = at;
		part.words[2] = stop - at;
		if (stop > at)
			result = syscall_kernel(&part);
		if (sys_is_error(result) && (result != gap || stops_at_gap(number)))
			return result;
		at = end_of_ours(c, stop, end);
		if (stops_at_gap(number))
			break;
	}
	return gap;
}

/* ---- Calls --------------------------------------------------------------- */

/*
 * Who may execute may read, as on processors without protection keys: the translator reads code.
 */
static struct call readable(const struct call *call)
{
	struct call changed = *call;

	if ((call->treatment == SYSCALL_MMAP || call->treatment == SYSCALL_MPROTECT) &&
	    call->words[3] & PROT_EXEC)
		changed.words[3] |= PROT_READ;
	return changed;
}

/* Of mmap()'s flags, which have the logarithm; without one it is the kernel's default. */
static uint64_t huge_page(uint64_t flags)
{
	const unsigned log = flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;

	return log ? UINT64_C(1) << log : HUGE_PAGE;
}

/* So much the kernel maps: it rounds up to a huge page. */
static uint64_t mapped_bytes(const uint64_t *w)
{
	const uint64_t page = huge_page(w[4]);

	return w[4] & MAP_HUGETLB ? (w[2] + page - 1) & -page : w[2];
}

static bool takes_our_place(const struct context *c, const uint64_t *w)
{
	return (w[4] & MAP_FIXED) && is_ours(c, w[1], end_of(w[1], mapped_bytes(w)));
}

static const char *mmap_refusal(const struct context *c, const uint64_t *w)
{
	return takes_our_place(c, w) && w[3] != PROT_NONE
		   ? "the program maps memory where the recorder's is"
		   : NULL;
}

const char *mapping_refusal(const struct context *c, const struct call *call)
{
	const uint64_t *w = call->words;

	switch (call->treatment) {
	case SYSCALL_MMAP:
		return mmap_refusal(c, w);
	case SYSCALL_MREMAP:
		if ((w[4] & MREMAP_FIXED) && is_ours(c, w[5], end_of(w[5], w[3])))
			return "the program moves memory to where the recorder's is";
		return NULL;
	case SYSCALL_SHMAT:
		if (w[3] & (SHM_EXEC | SHM_REMAP))
			return "the program attaches shared memory that is executable or replaces "
			       "other memory";
		return NULL;
	default:
		return NULL;
	}
}

/* Before something can be executed at address 0. */
static void leave_address_0(struct context *c, uint64_t start, uint64_t protection)
{
	if (!start && protection & PROT_EXEC)
		unit_fill_tables(c);
}

/* Before the memory changes. */
static void forget(struct context *c, uint64_t start, uint64_t end)
{
	changes_before_mapping(c, start, end);
	unit_forget(c, start, end);
}

/* The part [at, stop) of such a mapping, or an error. */
static int64_t reserve_part(const struct call *call, uint64_t flags, uint64_t at, uint64_t stop)
{
	struct call part = *call;

	if (at >= stop)
		return 0;
	part.words[1] = at;
	part.words[2] = stop - at;
	part.words[4] = flags;
	part.words[6] += at - call->words[1];
	return syscall_kernel(&part);
}

/* With huge pages as far as they fit, between small ones. */
static int64_t reserve_huge(const struct call *call, uint64_t at, uint64_t stop)
{
	const uint64_t huge = call->words[4], small = huge & ~(uint64_t)MAP_HUGETLB;
	const uint64_t page = huge_page(huge), first = (at + page - 1) & -page, last = stop & -page;
	int64_t result;

	if (first >= last)
		return reserve_part(call, small, at, stop);
	result = reserve_part(call, huge, first, last);
	if (!sys_is_error(result))
		result = reserve_part(call, small, at, first);
	return sys_is_error(result) ? result : reserve_part(call, small, last, stop);
}

/* Before something else is mapped there. */
static void forget_mapping(struct context *c, uint64_t start, uint64_t end)
{
	forget_known(c->syscalls, start, end);
	forget(c, start, end);
}

/*
 * Memory without access, which the program keeps free or catches mistakes with, and which may be
 * most of the address space: it is mapped around the runtime's.
 */
static int64_t reserve_around(struct context *c, const struct call *call)
{
	const uint64_t *w = call->words, start = w[1], end = end_of(start, mapped_bytes(w));

	for (uint64_t at = start; at < end;) {
		const uint64_t stop = end_of_free(c, at, end);
		const int64_t result = w[4] & MAP_HUGETLB ? reserve_huge(call, at, stop)
							  : reserve_part(call, w[4], at, stop);

		if (sys_is_error(result))
			return result;
		at = end_of_ours(c, stop, end);
	}
	return (int64_t)start;
}

static int64_t call_mmap(struct context *c, const struct call *call)
{
	const uint64_t *w = call->words, bytes = mapped_bytes(w);
	uint64_t start, end;
	int64_t result;

	if ((w[4] & MAP_FIXED) && !(w[4] & MAP_FIXED_NOREPLACE) && end_of(w[1], bytes) > w[1])
		forget_mapping(c, w[1], end_of(w[1], bytes));
	if (w[4] & MAP_FIXED)
		leave_address_0(c, w[1], w[3]);
	result = takes_our_place(c, w) ? reserve_around(c, call) : syscall_kernel(call);
	if (sys_is_error(result))
		return result;
	start = (uint64_t)result;
	end = end_of(start, bytes);
	forget_known(c->syscalls, start, end);
	changes_after_mapping(c, start, end, w[3], w[4] & MAP_SHARED);
	if (w[4] & MAP_SHARED && !(w[4] & MAP_ANONYMOUS) && w[3] & PROT_WRITE)
		written_mapped(c, w[5]);
	if (!(w[3] & PROT_EXEC))
		return result;
	if (!(w[4] & MAP_ANONYMOUS))
		written_code(c, w[5]);
	unit_forget(c, start, end);
	report_executable(c, start, end);
	return result;
}

static int64_t call_mprotect(struct context *c, const struct call *call)
{
	const uint64_t start = call->words[1], end = end_of(start, call->words[2]);
	int64_t result;

	if (end > start)
		forget(c, start, end);
	leave_address_0(c, start, call->words[3]);
	result = call_around(c, call);
	/* With -ENOMEM, the pages before a gap have changed. Without any, the list is read again.
	 */
	if (!result)
		changes_after_mapping(c, start, end, call->words[3], false);
	if ((!result || result == -ENOMEM) && end > start && (call->words[3] & PROT_EXEC)) {
		report_executable(c, start, end);
		/* What can still be written to is sent when it is executed. */
		if (!(call->words[3] & PROT_WRITE))
			report_bytes(c, start, end);
	}
	return result;
}

static int64_t call_munmap(struct context *c, const struct call *call)
{
	const uint64_t start = call->words[1], end = end_of(start, call->words[2]);

	if (end > start)
		forget_mapping(c, start, end);
	return call_around(c, call);
}

static int64_t call_mremap(struct context *c, const struct call *call)
{
	const uint64_t *w = call->words;
	const uint64_t old_end = end_of(w[1], w[2]), new_end = end_of(w[5], w[3]);
	const bool fixed = w[4] & MREMAP_FIXED;
	bool executable;
	int64_t result;

	/* An old size of 0 doubles a shared mapping. */
	if (is_ours(c, w[1], old_end > w[1] ? old_end : w[1] + NATIVE_PAGE))
		return -EFAULT;
	executable = may_be_executable(c->syscalls, w[1], old_end) || fixed;
	if (old_end > w[1])
		forget_mapping(c, w[1], old_end);
	if (fixed && new_end > w[5])
		forget_mapping(c, w[5], new_end);
	result = syscall_kernel(call);
	if (!sys_is_error(result))
		forget_known(c->syscalls, (uint64_t)result, end_of((uint64_t)result, w[3]));
	/* It may be shared. What it may do is asked of the kernel. */
	if (!sys_is_error(result))
		changes_after_mapping(c, (uint64_t)result, end_of((uint64_t)result, w[3]), 0,
				      executable || old_end == w[1]);
	if (!sys_is_error(result) && executable) {
		report_executable(c, (uint64_t)result, end_of((uint64_t)result, w[3]));
		report_bytes(c, (uint64_t)result, end_of((uint64_t)result, w[3]));
	}
	return result;
}

static int64_t call_range(struct context *c, const struct call *call)
{
	const uint64_t start = call->words[1], end = end_of(start, call->words[2]);
	/* MADV_DONTNEED and others bring back the bytes of the file. */
	const bool changes = call->words[0] == __NR_madvise && end > start &&
			     may_be_executable(c->syscalls, start, end);
	int64_t result;

	if (end > start)
		changes_before_mapping(c, start, end);
	if (!changes)
		return call_around(c, call);
	cache_lock(c);
	unit_forget(c, start, end);
	result = call_around(c, call);
	report_bytes(c, start, end);
	cache_unlock(c);
	return result;
}

static int64_t call_shmat(struct context *c, const struct call *call)
{
	const int64_t result = syscall_kernel(call);

	if (sys_is_error(result))
		return result;
	/* How large it is, the kernel has not said. */
	forget_known(c->syscalls, 0, UINT64_MAX);
	changes_after_mapping(c, (uint64_t)result, (uint64_t)result + NATIVE_PAGE, 0, true);
	return result;
}

static int64_t carry_out(struct context *c, const struct call *call)
{
	switch (call->treatment) {
	case SYSCALL_MMAP:
		return call_mmap(c, call);
	case SYSCALL_MPROTECT:
		return call_mprotect(c, call);
	case SYSCALL_MUNMAP:
		return call_munmap(c, call);
	case SYSCALL_MREMAP:
		return call_mremap(c, call);
	case SYSCALL_RANGE:
		return call_range(c, call);
	default:
		return call_shmat(c, call);
	}
}

/* No other thread translates what is just changing. */
int64_t mapping_call(struct context *c, const struct call *call)
{
	struct call changed = readable(call);
	int64_t result;

	if (sandbox_answers(c, &changed))
		changed = *call;
	cache_lock(c);
	result = carry_out(c, &changed);
	cache_unlock(c);
	return result;
}
