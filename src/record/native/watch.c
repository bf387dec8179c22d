/* SPDX-License-Identifier: MIT */
/* The watcher (watch.h). */
#include "record/native/watch.h"

#include "support/monotonic.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* As in streams.c: an exit stores at most so many bytes, and there again in the next chunk. */
#define END_BYTES 128

/*
 * A look that took longer says nothing: the watcher was kept from its processor meanwhile. Decoders
 * rely on it (src/session/stamps.c).
 */
#define LOOK_NS 3000

/* Where no thread gets on, the nap grows up to so much. */
#define IDLE_NS 2000000

/* And for the watcher's share up to so much. */
#define LONGEST_NS 20000000

#define MEASURE_ROUNDS 32 /* between two looks at its own processor time */

struct numbered_look {
	uint64_t number; /* of the chunk */
	struct look look;
};

/* What is known of a slot. The lock is held for a look, which takes microseconds. */
struct watched {
	pthread_mutex_t lock;
	bool active;
	uint64_t least; /* chunks before this one are not looked at any more */
	struct numbered_look *looks;
	size_t count;
	uint64_t number; /* of the chunk that was looked at last, */
	uint32_t at;	 /* and how much of it was written */
	bool repeated;	 /* the newest look is the second one that saw the same */
	uint64_t full;	 /* number of the chunk that was found full last */
};

struct watch {
	struct watch_config config;
	pthread_t thread;
	atomic_bool over;
	pthread_mutex_t round;	      /* held during a round */
	atomic_uint_least64_t looked; /* nanoseconds: when the last round was */
	atomic_uint_least64_t period; /* nanoseconds of a nap */
	uint64_t look_ticks;	      /* LOOK_NS */
	atomic_uint slots;	      /* of which some have been active, from the first one on */
	struct watched list[NATIVE_SLOTS];
};

static struct native_thread *thread_of(const struct watch *w, unsigned slot)
{
	return (struct native_thread *)(void *)(w->config.memory + native_slot_of_all_at(slot));
}

static const uint8_t *chunk_of(const struct watch *w, unsigned slot, uint64_t number)
{
	return w->config.memory + native_slot_of_all_at(slot) +
	       native_chunk_at(NATIVE_LOG_TRACE,
			       number % native_slot_chunks(slot, w->config.chunks));
}

static uint64_t load_word(const uint8_t *chunk, uint32_t at)
{
	return __atomic_load_n((const uint64_t *)(const void *)(chunk + at), __ATOMIC_ACQUIRE);
}

/*
 * How many bytes are written, of which the first `from` are: up to eight zeros, which no packets
 * have. It gallops and then bisects, so that few cache lines are taken from the thread.
 */
static uint32_t find_end(const uint8_t *chunk, uint32_t from, uint32_t size)
{
	uint32_t low = from & ~7u, high, step = 64;
	uint64_t word;

	if (from + 8 > size || !load_word(chunk, low))
		return from;
	for (high = low + step; high < size && load_word(chunk, high); high += step) {
		low = high;
		step *= 2;
	}
	high = high < size ? high : size;
	while (high - low > 8) {
		const uint32_t middle = (low + (high - low) / 2) & ~7u;

		if (load_word(chunk, middle))
			low = middle;
		else
			high = middle;
		if (high - low <= 15)
			break;
	}
	for (; low + 8 < high && load_word(chunk, low + 8); low += 8)
		;
	word = load_word(chunk, low);
	if (!word)
		return from;
	low += 8 - (uint32_t)__builtin_clzll(word) / 8;
	return low > from ? low : from;
}

/* Every other one is as good as all where there are many. */
static void thin_out(struct watched *q)
{
	size_t left = 0;

	for (size_t i = 1; i < q->count; i += 2)
		q->looks[left++] = q->looks[i];
	q->count = left;
}

/* Of looks that see the same only the first and the last say something. */
static void keep_look(struct watched *q, uint64_t number, const struct look *look)
{
	const bool same = q->count && q->number == number && q->at == look->at;

	if (same && q->repeated) {
		q->looks[q->count - 1].look = *look;
		return;
	}
	if (!q->looks)
		q->looks = calloc(WATCH_LOOKS, sizeof(*q->looks));
	if (!q->looks)
		return;
	if (q->count == WATCH_LOOKS)
		thin_out(q);
	q->looks[q->count++] = (struct numbered_look){number, *look};
	q->repeated = same;
}

/* Looks how far the thread is. False: too long. */
static bool look_once(const struct watch *w, const uint8_t *chunk, uint32_t from, struct look *look)
{
	look->before = __builtin_ia32_rdtsc();
	look->at = find_end(chunk, from, w->config.chunk_bytes - END_BYTES);
	look->after = __builtin_ia32_rdtsc();
	return look->after - look->before <= w->look_ticks;
}

/* Whether the chunk is still the one that the thread writes to, so that a look at it is right. */
static bool is_current(const struct watch *w, unsigned slot, uint64_t number)
{
	const uint32_t chunks = native_slot_chunks(slot, w->config.chunks);
	struct native_thread *t = thread_of(w, slot);

	return __atomic_load_n(&t->current[NATIVE_LOG_TRACE], __ATOMIC_ACQUIRE) == number &&
	       __atomic_load_n(&t->chunks[NATIVE_LOG_TRACE][number % chunks].state,
			       __ATOMIC_ACQUIRE) != CHUNK_FULL;
}

/* With the slot's lock. True: the thread has got on. */
static bool look_at_thread(struct watch *w, unsigned slot)
{
	struct native_thread *t = thread_of(w, slot);
	struct watched *q = &w->list[slot];
	const uint64_t number = __atomic_load_n(&t->current[NATIVE_LOG_TRACE], __ATOMIC_ACQUIRE);
	const uint8_t *chunk = chunk_of(w, slot, number);
	const bool same_chunk = q->number == number;
	const uint32_t from = same_chunk ? q->at : 0;
	struct look look;
	bool right, went;

	if (number < q->least || __atomic_load_n(&t->paused, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != NATIVE_SLOT_ACTIVE)
		return false;
	/* The first one may have had far to go; the second one has not. */
	right = look_once(w, chunk, from, &look) || look_once(w, chunk, look.at, &look);
	if (!is_current(w, slot, number)) {
		/* Once: it may wait for long until a chunk is taken. */
		went = q->full != number;
		q->full = number;
		return went;
	}
	went = !same_chunk || look.at != q->at;
	/* A system call begins there: the thread itself has written when, and will write its end. */
	if (right && look.at && look.at + 8 < w->config.chunk_bytes - END_BYTES &&
	    __atomic_load_n(&t->settled, __ATOMIC_ACQUIRE) != number * NATIVE_CHUNK + look.at)
		keep_look(q, number, &look);
	q->number = number;
	q->at = look.at;
	return went;
}

/* With the lock of rounds. True: a thread has got on. */
static bool look_at_all(struct watch *w)
{
	bool any = false;

	for (unsigned i = 0; i < w->slots; i++) {
		struct watched *q = &w->list[i];

		/* Without the lock this is only a hint, and it is looked at again with it. */
		if (!__atomic_load_n(&q->active, __ATOMIC_RELAXED))
			continue;
		pthread_mutex_lock(&q->lock);
		if (q->active)
			any |= look_at_thread(w, i);
		pthread_mutex_unlock(&q->lock);
	}
	w->looked = (uint64_t)monotonic_ns();
	return any;
}

static uint64_t own_time_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* How the nap follows the share of the processor that the watcher takes. */
struct pace {
	uint64_t nap;	    /* without what is added while no thread gets on */
	uint64_t cpu, wall; /* at the last measurement */
	unsigned rounds;
};

static void follow_share(const struct watch *w, struct pace *p)
{
	uint64_t cpu, wall, allowed;

	if (++p->rounds % MEASURE_ROUNDS)
		return;
	cpu = own_time_ns();
	wall = (uint64_t)monotonic_ns();
	allowed = (wall - p->wall) * w->config.percent / 100;
	if (cpu - p->cpu > allowed)
		p->nap += p->nap / 4 + 1;
	else if (cpu - p->cpu < allowed / 2)
		p->nap -= p->nap / 8;
	if (p->nap < w->config.period_ns)
		p->nap = w->config.period_ns;
	if (p->nap > LONGEST_NS)
		p->nap = LONGEST_NS > w->config.period_ns ? LONGEST_NS : w->config.period_ns;
	p->cpu = cpu;
	p->wall = wall;
}

static void *run_watch(void *context)
{
	struct watch *w = context;
	struct pace pace = {.nap = w->config.period_ns, .wall = (uint64_t)monotonic_ns()};
	uint64_t nap = pace.nap;

	prctl(PR_SET_TIMERSLACK, 1UL);
	prctl(PR_SET_NAME, "ptah-watch");
	pace.cpu = own_time_ns();
	while (!w->over) {
		const struct timespec t = {.tv_sec = (time_t)(nap / 1000000000),
					   .tv_nsec = (long)(nap % 1000000000)};
		bool any = true;

		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		if (!pthread_mutex_trylock(&w->round)) {
			any = look_at_all(w);
			pthread_mutex_unlock(&w->round);
		}
		follow_share(w, &pace);
		nap = any ? pace.nap : nap + nap / 2;
		if (!any && nap > IDLE_NS)
			nap = pace.nap > IDLE_NS ? pace.nap : IDLE_NS;
		w->period = nap;
	}
	return NULL;
}

void watch_poll(struct watch *w)
{
	if (!w || (uint64_t)monotonic_ns() - w->looked < 2 * w->period ||
	    pthread_mutex_trylock(&w->round))
		return;
	look_at_all(w);
	pthread_mutex_unlock(&w->round);
}

/* How many ticks LOOK_NS are, measured: no more than so many, in a few attempts. */
static uint64_t measure_look(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		const int64_t end = monotonic_ns() + LOOK_NS;
		const uint64_t begin = __builtin_ia32_rdtsc();
		uint64_t ticks;

		while (monotonic_ns() < end)
			;
		ticks = __builtin_ia32_rdtsc() - begin;
		least = ticks < least ? ticks : least;
	}
	return least;
}

/* The signals of the recorder are for its other threads. */
static int create_thread(struct watch *w)
{
	sigset_t all, before;
	int status;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = pthread_create(&w->thread, NULL, run_watch, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

struct watch *watch_start(const struct watch_config *config)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->config = *config;
	w->period = config->period_ns;
	w->looked = (uint64_t)monotonic_ns();
	w->look_ticks = measure_look();
	pthread_mutex_init(&w->round, NULL);
	if (create_thread(w)) {
		free(w);
		return NULL;
	}
	return w;
}

void watch_stop(struct watch *w)
{
	if (!w)
		return;
	w->over = true;
	pthread_join(w->thread, NULL);
	for (unsigned i = 0; i < w->slots; i++) {
		pthread_mutex_destroy(&w->list[i].lock);
		free(w->list[i].looks);
	}
	pthread_mutex_destroy(&w->round);
	free(w);
}

static void set_active(struct watch *w, unsigned slot, bool active)
{
	struct watched *q = &w->list[slot];

	for (unsigned i = w->slots; i <= slot; i++) {
		pthread_mutex_init(&w->list[i].lock, NULL);
		w->slots = i + 1;
	}
	pthread_mutex_lock(&q->lock);
	__atomic_store_n(&q->active, active, __ATOMIC_RELAXED);
	q->least = 0;
	q->count = 0;
	q->number = q->full = UINT64_MAX;
	q->at = 0;
	q->repeated = false;
	pthread_mutex_unlock(&q->lock);
}

void watch_begin(struct watch *w, unsigned slot)
{
	if (w)
		set_active(w, slot, true);
}

void watch_end(struct watch *w, unsigned slot)
{
	if (w)
		set_active(w, slot, false);
}

void watch_leave(struct watch *w, unsigned slot, uint64_t number)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->list[slot].lock);
	w->list[slot].least = number + 1;
	pthread_mutex_unlock(&w->list[slot].lock);
}

size_t watch_take(struct watch *w, unsigned slot, uint64_t number, size_t from, size_t to,
		  struct look *looks)
{
	struct watched *q;
	size_t i = 0, n = 0;

	if (!w)
		return 0;
	q = &w->list[slot];
	pthread_mutex_lock(&q->lock);
	for (; i < q->count; i++) {
		const struct numbered_look *k = &q->looks[i];

		if (k->number > number || (k->number == number && k->look.at >= to))
			break;
		if (k->number == number && k->look.at > from)
			looks[n++] = k->look;
	}
	if (i)
		memmove(q->looks, q->looks + i, (q->count - i) * sizeof(*q->looks));
	q->count -= i;
	if (!q->count)
		q->repeated = false;
	pthread_mutex_unlock(&q->lock);
	return n;
}
