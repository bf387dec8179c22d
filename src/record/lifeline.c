/* SPDX-License-Identifier: MIT */
/* See lifeline.h. */
#include "record/lifeline.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lifeline {
	uint32_t *word;
	pthread_t thread;
	sem_t begun, over;
	int error; /* of the thread */
	/*
	 * No list, but a lock that is just being taken: all that the kernel follows lies here,
	 * where recorded programs cannot change it.
	 */
	struct robust_list_head head;
};

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The C library has given the thread a list for robust mutexes, of which it locks none. */
static void *hold_word(void *context)
{
	struct lifeline *l = context;

	l->head.list.next = &l->head.list;
	l->head.list_op_pending = (struct robust_list *)(void *)l->word;
	if (syscall(SYS_set_robust_list, &l->head, sizeof(l->head)))
		l->error = errno;
	else
		__atomic_store_n(l->word, (uint32_t)gettid(), __ATOMIC_RELEASE);
	sem_post(&l->begun);
	while (sem_wait(&l->over))
		;
	return NULL;
}

/* Signals are for the other threads. */
static int start_thread(struct lifeline *l)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&l->thread, NULL, hold_word, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (!error && sem_wait(&l->begun))
		;
	return error;
}

struct lifeline *lifeline_begin(uint32_t *word)
{
	struct lifeline *l = calloc(1, sizeof(*l));
	int error;

	if (!l)
		return NULL;
	l->word = word;
	sem_init(&l->begun, 0, 0);
	sem_init(&l->over, 0, 0);
	error = start_thread(l);
	if (!error && !l->error)
		return l;
	if (error)
		free(l);
	else
		lifeline_end(l);
	errno = error ? error : EOPNOTSUPP;
	return NULL;
}

void lifeline_cut(struct lifeline *l)
{
	__atomic_store_n(l->word, 0, __ATOMIC_RELEASE);
	wake(l->word);
}

void lifeline_end(struct lifeline *l)
{
	if (!l)
		return;
	lifeline_cut(l);
	sem_post(&l->over);
	pthread_join(l->thread, NULL);
	sem_destroy(&l->begun);
	sem_destroy(&l->over);
	free(l);
}
