/* SPDX-License-Identifier: MIT */
/*
 * Logs the system calls of a thread, with what some of their arguments point to: call_entry.h. A
 * call is in the log before it is made, so that the recorder sees it in the order of time, however
 * long it takes, and whatever becomes of the thread in it.
 */
#include "record/native/call_entry.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/syscalls.h"

#include <linux/futex.h>
#include <linux/time_types.h>

#define WAIT_NS	  100000000 /* how long one wait for the recorder takes, as in ring.c */
#define TEXT_STEP 64	    /* bytes of a path that are copied at once */
#define ADDRESS	  128	    /* the most bytes of an address: struct sockaddr_storage */
#define OWNER	  8	    /* of glibc's pthread_mutex_t, from its futex word on */
#define LOCK_PI2  13	    /* newer than the headers of some systems: FUTEX_LOCK_PI2 */
#define LAST_CALL 512	    /* numbers of calls that are looked up */

/* What is copied of a call. */
enum subject {
	NOTHING = 0,
	PATH_0, /* a path, which argument 0 points to */
	PATH_1,
	ADDRESS_1, /* an address; argument 2 is its size */
	PEER_1,	   /* after it: an address, and argument 2 points to its size */
	PAIR_0,	   /* after it: two descriptors */
	PAIR_3,
	FUTEX_0,
};

static const uint8_t subjects[LAST_CALL] = {
    [__NR_open] = PATH_0,	[__NR_creat] = PATH_0,	   [__NR_execve] = PATH_0,
    [__NR_stat] = PATH_0,	[__NR_lstat] = PATH_0,	   [__NR_access] = PATH_0,
    [__NR_readlink] = PATH_0,	[__NR_chdir] = PATH_0,	   [__NR_mkdir] = PATH_0,
    [__NR_rmdir] = PATH_0,	[__NR_unlink] = PATH_0,	   [__NR_openat] = PATH_1,
    [__NR_openat2] = PATH_1,	[__NR_execveat] = PATH_1,  [__NR_newfstatat] = PATH_1,
    [__NR_statx] = PATH_1,	[__NR_faccessat] = PATH_1, [__NR_faccessat2] = PATH_1,
    [__NR_readlinkat] = PATH_1, [__NR_mkdirat] = PATH_1,   [__NR_unlinkat] = PATH_1,
    [__NR_connect] = ADDRESS_1, [__NR_bind] = ADDRESS_1,   [__NR_accept] = PEER_1,
    [__NR_accept4] = PEER_1,	[__NR_pipe] = PAIR_0,	   [__NR_pipe2] = PAIR_0,
    [__NR_socketpair] = PAIR_3, [__NR_futex] = FUTEX_0,
};

static enum subject subject_of(const struct call *call)
{
	return call->words[0] < LAST_CALL ? (enum subject)subjects[call->words[0]] : NOTHING;
}

/* The place in the ring, and how many bytes lie behind it without a break. */
static uint8_t *place(const struct context *c, uint64_t position, uint64_t *room)
{
	const uint64_t at = position % NATIVE_CALL_BYTES;

	*room = NATIVE_CALL_BYTES - at;
	return (uint8_t *)c->slot + NATIVE_CALLS_AT + at;
}

/* Whole words, which no break divides. */
static uint64_t put_words(const struct context *c, uint64_t position, const void *words, unsigned n)
{
	uint64_t room;

	for (unsigned i = 0; i < n; i++, position += 8)
		__builtin_memcpy(place(c, position, &room), (const uint8_t *)words + 8 * i, 8);
	return position;
}

/* Copies the program's bytes. False: its memory is not there. */
static bool put_memory(const struct context *c, uint64_t position, uint64_t from, uint64_t n)
{
	while (n) {
		uint64_t room;
		uint8_t *to = place(c, position, &room);
		const uint64_t step = n < room ? n : room;

		if (!signals_copy(to, (const void *)from, step))
			return false;
		position += step;
		from += step;
		n -= step;
	}
	return true;
}

/* The length with the NUL; 0: the first bytes are not there. */
static uint64_t put_path(const struct context *c, uint64_t position, uint64_t from)
{
	uint64_t n = 0;

	while (n < NATIVE_ENTRY_DATA) {
		uint64_t room, step = TEXT_STEP, page = NATIVE_PAGE - (from + n) % NATIVE_PAGE;
		const uint8_t *to = place(c, position + n, &room);

		step = step < room ? step : room;
		step = step < page ? step : page;
		step = step < NATIVE_ENTRY_DATA - n ? step : NATIVE_ENTRY_DATA - n;
		if (!put_memory(c, position + n, from + n, step))
			return 0;
		for (uint64_t i = 0; i < step; i++)
			if (!to[i])
				return n + i + 1;
		n += step;
	}
	return n;
}

/* The word on which the thread is about to wait, and the one that may say for whom. */
static uint64_t put_futex(const struct context *c, uint64_t position, const uint64_t *w)
{
	uint32_t words[2] = {0};
	bool both;

	switch (w[2] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case LOCK_PI2:
		break;
	default:
		return 0;
	}
	if (!signals_copy(&words[0], (const void *)w[1], sizeof(words[0])))
		return 0;
	/* The call itself does not touch the next page, where a look may have an effect. */
	both = w[1] % NATIVE_PAGE <= NATIVE_PAGE - OWNER - sizeof(words[1]) &&
	       signals_copy(&words[1], (const void *)(w[1] + OWNER), sizeof(words[1]));
	put_words(c, position, words, 1);
	return both ? sizeof(words) : sizeof(words[0]);
}

/* What an argument points to before the call. Returns how many bytes. */
static uint64_t put_before(const struct context *c, const struct call *call, uint64_t position,
			   uint8_t *argument)
{
	const uint64_t *w = call->words;
	uint64_t n = (uint32_t)w[3];

	switch (subject_of(call)) {
	case PATH_0:
		return put_path(c, position, w[1]);
	case PATH_1:
		*argument = 1;
		return put_path(c, position, w[2]);
	case ADDRESS_1:
		*argument = 1;
		n = n < ADDRESS ? n : ADDRESS;
		return put_memory(c, position, w[2], n) ? n : 0;
	case FUTEX_0:
		return put_futex(c, position, w);
	default:
		return 0;
	}
}

static uint64_t put_peer(const struct context *c, const uint64_t *w, uint64_t position)
{
	uint32_t n = 0;

	if (!w[2] || !signals_copy(&n, (const void *)w[3], sizeof(n)))
		return 0;
	n = n < ADDRESS ? n : ADDRESS;
	return put_memory(c, position, w[2], n) ? n : 0;
}

/* What it points to after it. */
static uint64_t put_after(const struct context *c, const struct call *call, uint64_t position,
			  uint8_t *argument)
{
	const uint64_t *w = call->words;
	const uint64_t pair = 2 * sizeof(int32_t);

	switch (subject_of(call)) {
	case PEER_1:
		*argument = 1;
		return put_peer(c, w, position);
	case PAIR_0:
		return put_memory(c, position, w[1], pair) ? pair : 0;
	case PAIR_3:
		*argument = 3;
		return put_memory(c, position, w[4], pair) ? pair : 0;
	default:
		return 0;
	}
}

/* Whether the log is still this thread's: a recorder that was deceived may have freed the slot. */
static bool has_log(const struct context *c)
{
	return __atomic_load_n(&c->slot->calls_head, __ATOMIC_RELAXED) == c->calls_head;
}

/* Waits for room for an entry. False: there is none, because nobody reads. */
static bool wait_for_room(const struct context *c)
{
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};
	uint64_t *tail = &c->slot->calls_tail, taken;

	while (c->calls_head + NATIVE_ENTRY_MAX -
		   (taken = __atomic_load_n(tail, __ATOMIC_ACQUIRE)) >
	       NATIVE_CALL_BYTES) {
		if (!has_log(c) || !recorder_is_alive(c))
			return false;
		sys_call(__NR_futex, (uint64_t)tail, FUTEX_WAIT, (uint32_t)taken, (uint64_t)&wait,
			 0, 0);
	}
	return has_log(c);
}

/* The entry's words and data are in the ring. */
static void publish_entry(struct context *c, struct native_entry *e, uint64_t data)
{
	const uint64_t half = NATIVE_CALL_BYTES / 2, before = c->calls_head;
	const unsigned words = native_entry_words(e->kind);

	e->tsc = c->stamp ? c->stamp : __builtin_ia32_rdtsc();
	e->data = (uint16_t)data;
	put_words(c, before, e, sizeof(*e) / 8);
	c->calls_head += sizeof(*e) + 8 * words + ((data + 7) & ~UINT64_C(7));
	__atomic_store_n(&c->slot->calls_head, c->calls_head, __ATOMIC_RELEASE);
	if (before / half != c->calls_head / half)
		ring_wake_recorder(c);
}

static bool is_logged(const struct context *c)
{
	return c->runtime->flags & NATIVE_CALLS && !c->discards && !c->paused;
}

void call_log_call(struct context *c, const struct call *call)
{
	struct native_entry e = {
	    .ip = call->next, .number = (uint32_t)call->words[0], .kind = NATIVE_ENTRY_CALL};
	uint64_t at;

	c->call_logged = is_logged(c) && wait_for_room(c);
	if (!c->call_logged)
		return;
	at = put_words(c, c->calls_head + sizeof(e), call->words + 1, NATIVE_ENTRY_WORDS);
	publish_entry(c, &e, put_before(c, call, at, &e.argument));
}

void call_log_return(struct context *c, const struct call *call, int64_t result)
{
	struct native_entry e = {
	    .ip = call->next, .number = (uint32_t)call->words[0], .kind = NATIVE_ENTRY_RETURN};
	uint64_t at;

	if (!c->call_logged || !is_logged(c) || !wait_for_room(c))
		return;
	c->call_logged = false;
	at = put_words(c, c->calls_head + sizeof(e), &result, 1);
	publish_entry(c, &e, sys_is_error(result) ? 0 : put_after(c, call, at, &e.argument));
}

void call_log_begin(struct context *c, uint64_t number, uint64_t ip)
{
	const struct call call = {.words = {number}, .next = ip};

	c->call_logged = true;
	call_log_return(c, &call, 0);
}
