/* SPDX-License-Identifier: MIT */
/*
 * What a recorder copies of a system call besides numbers: what some of its arguments point to, as
 * far as it is small and says for what a thread waits, and by whom. Buffers of read, write and the
 * like never are, since they may be secrets. docs/perf-data.md has the table.
 *
 * The recorders that see system calls include this: the runtime of the recorder native, which runs
 * in the program without a C library, the plugin of the recorder qemu, and the tracer. Each defines
 * the two functions below first.
 */
#ifndef PTAH_RECORD_CALL_DATA_H
#define PTAH_RECORD_CALL_DATA_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Copies the program's bytes at an address. False: its memory is not there. */
static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n);
/* Puts bytes at a place of the copy; those before it are there already. */
static void call_data_put(void *context, uint64_t place, const void *bytes, uint64_t n);

#define CALL_DATA_MOST	  4096 /* PATH_MAX: no copy is longer */
#define CALL_DATA_STEP	  64   /* bytes that are copied at once */
#define CALL_DATA_ADDRESS 128  /* the most bytes of a socket's address: struct sockaddr_storage */
#define CALL_DATA_OWNER	  8    /* of glibc's pthread_mutex_t, from its futex word on */
#define CALL_DATA_PAGE	  4096
#define CALL_DATA_NUMBERS 512 /* numbers of calls that are looked up */

/* Newer than the headers of some systems. */
#define CALL_DATA_LOCK_PI2    13 /* FUTEX_LOCK_PI2 */
#define CALL_DATA_FUTEX_WAITV 449
#define CALL_DATA_PWAIT2      441 /* epoll_pwait2 */

/* Sizes of the kernel's structures. */
enum {
	CALL_DATA_WAITV_SIZE = 24,     /* struct futex_waitv */
	CALL_DATA_POLL_SIZE = 8,       /* struct pollfd */
	CALL_DATA_EPOLL_SIZE = 12,     /* struct epoll_event */
	CALL_DATA_SEMAPHORE_SIZE = 6,  /* struct sembuf */
	CALL_DATA_LOCK_SIZE = 32,      /* struct flock */
	CALL_DATA_CHILD_SIZE = 24,     /* of siginfo_t: up to si_pid and with it */
	CALL_DATA_SET_MOST = 1024 / 8, /* bytes of an fd_set */
};

enum call_subject {
	CALL_NOTHING = 0,
	/* Before the call. */
	CALL_PATH_0, /* a path, which argument 0 points to */
	CALL_PATH_1,
	CALL_ADDRESS_1, /* an address; argument 2 is its size */
	CALL_FUTEX_0,
	CALL_FUTEXES_0,	   /* argument 1 is their number */
	CALL_SEMAPHORES_1, /* argument 2 is their number */
	CALL_EPOLL_3,	   /* what epoll is to watch for */
	CALL_LOCK_2,	   /* of calls of fcntl that lock */
	/* After it. */
	CALL_PEER_1, /* an address; argument 2 points to its size */
	CALL_PAIR_0, /* two descriptors */
	CALL_PAIR_3,
	CALL_POLLED_0, /* argument 1 is their number */
	CALL_SELECTED, /* the first of three sets in which a bit is set */
	CALL_EPOLL_1,  /* the result is their number */
	CALL_CHILD_2,
};

static inline enum call_subject call_data_subject(uint64_t number)
{
	static const uint8_t subjects[CALL_DATA_NUMBERS] = {
	    [SYS_open] = CALL_PATH_0,	      [SYS_creat] = CALL_PATH_0,
	    [SYS_execve] = CALL_PATH_0,	      [SYS_stat] = CALL_PATH_0,
	    [SYS_lstat] = CALL_PATH_0,	      [SYS_access] = CALL_PATH_0,
	    [SYS_readlink] = CALL_PATH_0,     [SYS_chdir] = CALL_PATH_0,
	    [SYS_mkdir] = CALL_PATH_0,	      [SYS_rmdir] = CALL_PATH_0,
	    [SYS_unlink] = CALL_PATH_0,	      [SYS_mq_open] = CALL_PATH_0,
	    [SYS_openat] = CALL_PATH_1,	      [SYS_openat2] = CALL_PATH_1,
	    [SYS_execveat] = CALL_PATH_1,     [SYS_newfstatat] = CALL_PATH_1,
	    [SYS_statx] = CALL_PATH_1,	      [SYS_faccessat] = CALL_PATH_1,
	    [SYS_faccessat2] = CALL_PATH_1,   [SYS_readlinkat] = CALL_PATH_1,
	    [SYS_mkdirat] = CALL_PATH_1,      [SYS_unlinkat] = CALL_PATH_1,
	    [SYS_connect] = CALL_ADDRESS_1,   [SYS_bind] = CALL_ADDRESS_1,
	    [SYS_futex] = CALL_FUTEX_0,	      [CALL_DATA_FUTEX_WAITV] = CALL_FUTEXES_0,
	    [SYS_semop] = CALL_SEMAPHORES_1,  [SYS_semtimedop] = CALL_SEMAPHORES_1,
	    [SYS_epoll_ctl] = CALL_EPOLL_3,   [SYS_fcntl] = CALL_LOCK_2,
	    [SYS_accept] = CALL_PEER_1,	      [SYS_accept4] = CALL_PEER_1,
	    [SYS_pipe] = CALL_PAIR_0,	      [SYS_pipe2] = CALL_PAIR_0,
	    [SYS_socketpair] = CALL_PAIR_3,   [SYS_poll] = CALL_POLLED_0,
	    [SYS_ppoll] = CALL_POLLED_0,      [SYS_select] = CALL_SELECTED,
	    [SYS_pselect6] = CALL_SELECTED,   [SYS_epoll_wait] = CALL_EPOLL_1,
	    [SYS_epoll_pwait] = CALL_EPOLL_1, [CALL_DATA_PWAIT2] = CALL_EPOLL_1,
	    [SYS_waitid] = CALL_CHILD_2,
	};

	return number < CALL_DATA_NUMBERS ? (enum call_subject)subjects[number] : CALL_NOTHING;
}

/* Returns how many bytes were copied; 0: none, since memory is missing or there is too much. */
static inline uint64_t call_data_copy(void *context, uint64_t from, uint64_t n)
{
	uint8_t bytes[CALL_DATA_STEP];

	if (n > CALL_DATA_MOST)
		return 0;
	for (uint64_t at = 0, step; at < n; at += step) {
		step = n - at < sizeof(bytes) ? n - at : sizeof(bytes);
		if (!call_data_read(context, bytes, from + at, step))
			return 0;
		call_data_put(context, at, bytes, step);
	}
	return n;
}

static inline uint64_t call_data_copy_list(void *context, uint64_t from, uint64_t count,
					   uint64_t size)
{
	return count <= CALL_DATA_MOST / size ? call_data_copy(context, from, count * size) : 0;
}

/* The length with the NUL, or CALL_DATA_MOST; 0: the first bytes are not there. */
static inline uint64_t call_data_path(void *context, uint64_t from)
{
	uint8_t bytes[CALL_DATA_STEP];
	uint64_t n = 0;

	while (n < CALL_DATA_MOST) {
		const uint64_t page = CALL_DATA_PAGE - (from + n) % CALL_DATA_PAGE;
		uint64_t step = page < sizeof(bytes) ? page : sizeof(bytes);

		step = step < CALL_DATA_MOST - n ? step : CALL_DATA_MOST - n;
		if (!call_data_read(context, bytes, from + n, step))
			return 0;
		for (uint64_t i = 0; i < step; i++) {
			if (bytes[i])
				continue;
			call_data_put(context, n, bytes, i + 1);
			return n + i + 1;
		}
		call_data_put(context, n, bytes, step);
		n += step;
	}
	return n;
}

/* The word on which the thread is about to wait, and the one that may say for whom. */
static inline uint64_t call_data_futex(void *context, const uint64_t *args)
{
	uint32_t words[2] = {0};
	uint64_t n = sizeof(words[0]);

	switch (args[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case CALL_DATA_LOCK_PI2:
		break;
	default:
		return 0;
	}
	if (!call_data_read(context, &words[0], args[0], sizeof(words[0])))
		return 0;
	/* The call itself does not touch the next page, where a look may have an effect. */
	if (args[0] % CALL_DATA_PAGE <= CALL_DATA_PAGE - CALL_DATA_OWNER - sizeof(words[1]) &&
	    call_data_read(context, &words[1], args[0] + CALL_DATA_OWNER, sizeof(words[1])))
		n = sizeof(words);
	call_data_put(context, 0, words, n);
	return n;
}

/* F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW */
static inline bool call_data_is_lock(uint64_t command)
{
	return command == 6 || command == 7 || command == 37 || command == 38;
}

/*
 * What an argument points to before the call. Returns how many bytes, and sets *argument to its
 * number, if that is not 0.
 */
static inline uint64_t call_data_before(void *context, uint64_t number, const uint64_t args[6],
					uint8_t *argument)
{
	const uint64_t size = (uint32_t)args[2];

	switch (call_data_subject(number)) {
	case CALL_PATH_0:
		return call_data_path(context, args[0]);
	case CALL_PATH_1:
		*argument = 1;
		return call_data_path(context, args[1]);
	case CALL_ADDRESS_1:
		*argument = 1;
		return call_data_copy(context, args[1],
				      size < CALL_DATA_ADDRESS ? size : CALL_DATA_ADDRESS);
	case CALL_FUTEX_0:
		return call_data_futex(context, args);
	case CALL_FUTEXES_0:
		return call_data_copy_list(context, args[0], (uint32_t)args[1],
					   CALL_DATA_WAITV_SIZE);
	case CALL_SEMAPHORES_1:
		*argument = 1;
		return call_data_copy_list(context, args[1], args[2], CALL_DATA_SEMAPHORE_SIZE);
	case CALL_EPOLL_3:
		*argument = 3;
		return args[3] ? call_data_copy(context, args[3], CALL_DATA_EPOLL_SIZE) : 0;
	case CALL_LOCK_2:
		*argument = 2;
		return call_data_is_lock((uint32_t)args[1])
			   ? call_data_copy(context, args[2], CALL_DATA_LOCK_SIZE)
			   : 0;
	default:
		return 0;
	}
}

static inline uint64_t call_data_peer(void *context, const uint64_t args[6])
{
	uint32_t n = 0;

	if (!args[1] || !call_data_read(context, &n, args[2], sizeof(n)))
		return 0;
	return call_data_copy(context, args[1], n < CALL_DATA_ADDRESS ? n : CALL_DATA_ADDRESS);
}

/* Of the sets of select() the first one with a bit. */
static inline uint64_t call_data_selected(void *context, const uint64_t args[6], uint8_t *argument)
{
	const uint64_t n = ((uint32_t)args[0] + 63) / 64 * 8;
	uint8_t set[CALL_DATA_SET_MOST];

	for (uint8_t i = 1; i <= 3 && n <= sizeof(set); i++) {
		if (!args[i] || !call_data_read(context, set, args[i], n))
			continue;
		for (uint64_t k = 0; k < n; k++) {
			if (!set[k])
				continue;
			*argument = i;
			call_data_put(context, 0, set, n);
			return n;
		}
	}
	return 0;
}

/* What it points to after a call that has not failed. */
static inline uint64_t call_data_after(void *context, uint64_t number, const uint64_t args[6],
				       int64_t result, uint8_t *argument)
{
	switch (call_data_subject(number)) {
	case CALL_PEER_1:
		*argument = 1;
		return call_data_peer(context, args);
	case CALL_PAIR_0:
		return call_data_copy(context, args[0], 2 * sizeof(int32_t));
	case CALL_PAIR_3:
		*argument = 3;
		return call_data_copy(context, args[3], 2 * sizeof(int32_t));
	case CALL_POLLED_0:
		return result > 0 ? call_data_copy_list(context, args[0], (uint32_t)args[1],
							CALL_DATA_POLL_SIZE)
				  : 0;
	case CALL_SELECTED:
		return result > 0 ? call_data_selected(context, args, argument) : 0;
	case CALL_EPOLL_1:
		*argument = 1;
		return call_data_copy_list(context, args[1], (uint64_t)result,
					   CALL_DATA_EPOLL_SIZE);
	case CALL_CHILD_2:
		*argument = 2;
		return args[2] ? call_data_copy(context, args[2], CALL_DATA_CHILD_SIZE) : 0;
	default:
		return 0;
	}
}

#endif
