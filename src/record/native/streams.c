/* SPDX-License-Identifier: MIT */
/* Takes the threads' logs out of the shared memory: see streams.h. */
#include "record/native/streams.h"

#include "record/packet_cut.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than the packets of an exit, or than the runtime puts in between units. */
#define END_BYTES 128

static unsigned logs_of(const struct native_streams *s)
{
	return s->flags & NATIVE_TRUTH ? NATIVE_LOGS : 1;
}

static uint8_t *chunk_bytes(const struct native_streams *s, unsigned slot, unsigned log,
			    uint64_t number)
{
	return (uint8_t *)streams_thread(s, slot) +
	       native_chunk_at(log, number % streams_chunks(s, slot));
}

static struct native_chunk *chunk_of(const struct native_streams *s, unsigned slot, unsigned log,
				     uint64_t number)
{
	return &streams_thread(s, slot)->chunks[log][number % streams_chunks(s, slot)];
}

static bool is_full(const struct native_streams *s, unsigned slot, unsigned log, uint64_t number)
{
	const struct native_chunk *chunk = chunk_of(s, slot, log, number);

	return __atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE) == CHUNK_FULL;
}

static bool next_is_full(const struct native_streams *s, unsigned slot, unsigned log)
{
	return is_full(s, slot, log, s->list[slot].next[log]);
}

static void release(const struct native_streams *s, unsigned slot, unsigned log, uint64_t number)
{
	struct native_chunk *chunk = chunk_of(s, slot, log, number);

	__atomic_store_n(&chunk->state, CHUNK_FREE, __ATOMIC_RELEASE);
	syscall(SYS_futex, &chunk->state, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Gives a chunk back, filled with zeros: the thread may have stored behind its length, too. */
static void give_back(const struct native_streams *s, unsigned slot, unsigned log, uint64_t number)
{
	memset(chunk_bytes(s, slot, log, number), 0, s->chunk_bytes);
	release(s, slot, log, number);
}

/*
 * The same with all chunks that a thread had. Most of them were never written to whole, so the
 * kernel takes their pages back: it would have to make pages for the zeros otherwise.
 */
static void give_all_back(const struct native_streams *s, unsigned slot)
{
	uint8_t *first = chunk_bytes(s, slot, 0, 0);
	uint64_t most = 0;
	bool left;

	for (unsigned log = 0; log < logs_of(s); log++) {
		const uint64_t next = s->list[slot].next[log], chunks = streams_chunks(s, slot);
		const uint64_t n = next < chunks ? next + 1 : chunks;

		most = n > most ? n : most;
	}
	left = madvise(first, most * NATIVE_LOGS * NATIVE_STRIDE, MADV_REMOVE);

	for (unsigned log = 0; log < logs_of(s); log++)
		for (uint64_t i = 0; i < most; i++) {
			if (left)
				memset(chunk_bytes(s, slot, log, i), 0, s->chunk_bytes);
			release(s, slot, log, i);
		}
}

/* Whether there is PAD where a packet begins, or more zeros than a packet ends with. */
static bool has_gap(const uint8_t *bytes, size_t n)
{
	static const uint8_t zeros[8];

	return !bytes[0] ||
	       (n >= sizeof(zeros) && !memcmp(bytes + n - sizeof(zeros), zeros, sizeof(zeros)));
}

/*
 * The number of bytes of s->bytes that are whole packets; the first `before` were taken, and those
 * up to `walked` are known to be. A chunk begins with a packet, and ends with one: each can be
 * looked at alone.
 */
static size_t whole_packets(struct native_streams *s, size_t before, size_t walked, size_t n)
{
	const struct iovec part = {.iov_base = s->bytes + walked, .iov_len = n - walked};
	struct packet_cut cut = {.synced = true};
	size_t rest = packet_cut(&cut, &part, 1);

	if (rest || has_gap(s->bytes + before, n - before))
		s->damaged = true;
	return n - rest;
}

/* Numbers of exits begin with 1. */
static size_t whole_numbers(struct native_streams *s, size_t n)
{
	const size_t rest = n % sizeof(uint32_t);
	uint32_t last = 1;

	n -= rest;
	if (n)
		memcpy(&last, s->bytes + n - sizeof(last), sizeof(last));
	if (rest || !last)
		s->damaged = true;
	return n;
}

/*
 * Puts the times of looks between the bytes [from, to) of the next chunk, in s->timed. Returns how
 * many bytes that makes; 0: there are none.
 */
static size_t put_looks(struct native_streams *s, unsigned slot, size_t from, size_t to,
			size_t *walked)
{
	struct native_stream *stream = &s->list[slot];
	size_t n;

	*walked = from;
	if (!s->watch)
		return 0;
	watch_poll(s->watch);
	n = watch_take(s->watch, slot, stream->next[NATIVE_LOG_TRACE], from, to, s->looks);
	n = look_packets_put(&stream->looks, s->bytes, from, to,
			     next_is_full(s, slot, NATIVE_LOG_TRACE), s->looks, n, s->timed,
			     walked);
	watch_poll(s->watch);
	return n;
}

/* Hands over the packets of the bytes [from, to) of the next chunk. Returns up to where. */
static size_t deliver_packets(struct native_streams *s, unsigned slot, size_t from, size_t to)
{
	size_t walked, timed = put_looks(s, slot, from, to, &walked);
	const size_t whole = whole_packets(s, from, walked, to);

	if (whole < to) /* it is damaged */
		timed = 0;
	if (timed)
		s->take(s->context, &s->list[slot], NATIVE_LOG_TRACE, s->timed, timed);
	else if (whole > from)
		s->take(s->context, &s->list[slot], NATIVE_LOG_TRACE, s->bytes + from,
			whole - from);
	return whole;
}

/* Of the next chunk, which has `n` bytes. Some may have been taken before. */
static void deliver(struct native_streams *s, unsigned slot, unsigned log, size_t n)
{
	struct native_stream *stream = &s->list[slot];
	const size_t before = stream->taken[log];

	if (n < before)
		s->damaged = true;
	if (n <= before)
		return;
	if (log == NATIVE_LOG_TRACE) {
		stream->taken[log] = deliver_packets(s, slot, before, n);
		return;
	}
	n = whole_numbers(s, n);
	if (n == before)
		return;
	s->take(s->context, stream, log, s->bytes + before, n - before);
	stream->taken[log] = n;
}

/* Whether the thread can have come so far, and not so far that it would have overwritten a chunk.
 */
static bool can_be_full(const struct native_streams *s, unsigned slot, unsigned log,
			uint64_t number)
{
	const uint64_t *current = &streams_thread(s, slot)->current[log];

	return __atomic_load_n(current, __ATOMIC_ACQUIRE) - number <= streams_chunks(s, slot);
}

/* Takes the next chunk of a log, if it is FULL. */
static bool take_chunk(struct native_streams *s, unsigned slot, unsigned log)
{
	struct native_stream *stream = &s->list[slot];
	const uint64_t number = stream->next[log];
	uint32_t length;

	if (!is_full(s, slot, log, number))
		return false;
	length = __atomic_load_n(&chunk_of(s, slot, log, number)->length, __ATOMIC_RELAXED);
	if (length == NATIVE_PASSED_OVER && can_be_full(s, slot, log, number)) {
		length = 0;
	} else if (!length || length > s->chunk_bytes || !can_be_full(s, slot, log, number)) {
		s->damaged = true;
		length = 0;
	}
	memcpy(s->bytes, chunk_bytes(s, slot, log, number), length);
	deliver(s, slot, log, length);
	if (log == NATIVE_LOG_TRACE)
		watch_leave(s->watch, slot, number);
	/* Of a thread that has ended, give_all_back() takes the pages, which zeros would make. */
	if (streams_has_ended(s, slot))
		release(s, slot, log, number);
	else
		give_back(s, slot, log, number);
	stream->next[log]++;
	stream->taken[log] = 0;
	return true;
}

/* No more than there are at once: a thread that is faster than we are must not keep us here. */
static unsigned take_chunks(struct native_streams *s, unsigned slot, unsigned log, unsigned most)
{
	unsigned n = 0;

	while (n < most && n < streams_chunks(s, slot) && take_chunk(s, slot, log))
		n++;
	return n;
}

static void take_all_chunks(struct native_streams *s, unsigned slot)
{
	for (unsigned log = 0; log < logs_of(s); log++)
		take_chunks(s, slot, log, STREAMS_ALL);
}

void streams_use(struct native_streams *s, unsigned slot)
{
	unsigned *used = &s->used[slot / NATIVE_THREADS];

	if (*used <= slot % NATIVE_THREADS)
		*used = slot % NATIVE_THREADS + 1;
}

void streams_use_claimed(struct native_streams *s)
{
	for (unsigned i = 0; i < s->slots; i += NATIVE_THREADS) {
		const uint32_t n = __atomic_load_n(&streams_header(s, i)->slots, __ATOMIC_RELAXED);

		if (n)
			streams_use(s, i + (n < NATIVE_THREADS ? n : NATIVE_THREADS) - 1);
	}
}

bool streams_begin(struct native_streams *s, uint64_t slot, int32_t pid, int32_t tid,
		   uint32_t stream)
{
	if (slot >= s->slots || s->list[slot].used) {
		s->damaged = true;
		return false;
	}
	s->list[slot] =
	    (struct native_stream){.used = true, .stream = stream, .pid = pid, .tid = tid};
	streams_use(s, (unsigned)slot);
	watch_begin(s->watch, (unsigned)slot);
	return true;
}

bool streams_any_unknown(const struct native_streams *s)
{
	for (unsigned first = 0; first < s->slots; first += NATIVE_THREADS) {
		uint32_t n = __atomic_load_n(&streams_header(s, first)->slots, __ATOMIC_ACQUIRE);

		n = n < NATIVE_THREADS ? n : NATIVE_THREADS;
		for (unsigned i = first; i < first + n; i++)
			if (!s->list[i].used &&
			    __atomic_load_n(&streams_thread(s, i)->state, __ATOMIC_ACQUIRE) !=
				NATIVE_SLOT_FREE)
				return true;
	}
	return false;
}

bool streams_has_ended(const struct native_streams *s, unsigned slot)
{
	return __atomic_load_n(&streams_thread(s, slot)->state, __ATOMIC_ACQUIRE) ==
	       NATIVE_SLOT_ENDED;
}

/* Whether there were any that are FULL. */
static bool give_back_unread(const struct native_streams *s, unsigned slot)
{
	bool any = false;

	for (unsigned log = 0; log < logs_of(s); log++)
		for (unsigned i = 0; i < streams_chunks(s, slot); i++)
			if (is_full(s, slot, log, i)) {
				give_back(s, slot, log, i);
				any = true;
			}
	return any;
}

/*
 * Chunks become FULL in their order. One that is not the next was marked by somebody else than its
 * thread, which would wait for it for ever.
 */
static void give_back_unordered(struct native_streams *s, unsigned slot, unsigned log)
{
	const uint64_t next = s->list[slot].next[log], end = next + streams_chunks(s, slot);

	for (uint64_t i = next + 1; i < end && !is_full(s, slot, log, next); i++)
		if (is_full(s, slot, log, i) && !is_full(s, slot, log, next)) {
			s->damaged = true;
			give_back(s, slot, log, i);
		}
}

/* Programs look for a free slot from there on. */
static void lower_first_free(const struct native_streams *s, unsigned slot)
{
	uint32_t *first = &streams_header(s, slot)->first_free;
	uint32_t now = __atomic_load_n(first, __ATOMIC_RELAXED);

	while (now > slot % NATIVE_THREADS &&
	       !__atomic_compare_exchange_n(first, &now, slot % NATIVE_THREADS, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void free_slot(const struct native_streams *s, unsigned slot)
{
	struct native_thread *t = streams_thread(s, slot);

	for (unsigned log = 0; log < logs_of(s); log++)
		t->current[log] = 0;
	t->pid = t->tid = 0;
	t->paused = 0;
	t->settled = 0;
	t->calls_head = t->calls_tail = 0;
	if (s->flags & NATIVE_CALLS) /* a failure only means that the memory stays in use */
		(void)madvise((uint8_t *)t + NATIVE_CALLS_AT, NATIVE_CALL_BYTES, MADV_REMOVE);
	__atomic_store_n(&t->state, NATIVE_SLOT_FREE, __ATOMIC_RELEASE);
	lower_first_free(s, slot);
}

void streams_give_up(struct native_streams *s, unsigned slot)
{
	struct native_stream *stream = &s->list[slot];

	if (!stream->left)
		s->damaged = true;
	stream->left = false;
	for (unsigned log = 0; log < logs_of(s); log++)
		stream->next[log] = streams_chunks(s, slot); /* it may have written to any */
	give_all_back(s, slot);
	free_slot(s, slot);
}

bool streams_drain(struct native_streams *s, unsigned slot, unsigned *most)
{
	if (!s->list[slot].used) {
		if (s->damaged)
			give_back_unread(s, slot);
		return false;
	}
	if (logs_of(s) > NATIVE_LOG_EXITS)
		take_chunks(s, slot, NATIVE_LOG_EXITS, STREAMS_ALL);
	*most -= take_chunks(s, slot, NATIVE_LOG_TRACE, *most);
	for (unsigned log = 0; log < logs_of(s); log++)
		give_back_unordered(s, slot, log);
	return !*most && streams_has_more(s, slot);
}

bool streams_has_more(const struct native_streams *s, unsigned slot)
{
	return s->list[slot].used && next_is_full(s, slot, NATIVE_LOG_TRACE);
}

/*
 * Whether all that ran before the packet is in the log of exits, and nothing ran behind it: the
 * runtime's own code has written it, outside of the cache. It has an address where code in the
 * cache stored it, whose number comes after it.
 */
static bool closes(const struct ptah_packet *packet, bool before, bool *off)
{
	const bool keeps = packet->type == PTAH_PACKET_TSC;

	*off = packet->type == PTAH_PACKET_TIP_PGD || (*off && keeps);
	if (packet->type == PTAH_PACKET_TIP_PGD)
		return packet->u.ip.ipc == PTAH_IPC_SUPPRESSED;
	return packet->type == PTAH_PACKET_STOP || (keeps && (before || *off));
}

/*
 * The bytes up to the last one that is not 0. Its thread may go on writing. Stores become visible
 * in their order, so that what is before this byte is read as it was stored.
 */
static size_t written_bytes(const uint8_t *chunk, size_t n)
{
	while (n && !__atomic_load_n(chunk + n - 1, __ATOMIC_ACQUIRE))
		n--;
	return n;
}

/*
 * The packets that begin in the first `last` bytes, and end in the first n; up to zeros where one
 * should begin, because there a store across two cache lines is seen in part: look_at().
 */
static size_t written_packets(const uint8_t *bytes, size_t last, size_t n, bool *closed)
{
	bool off = false;
	size_t at = 0;

	while (at < last && bytes[at]) {
		struct ptah_packet packet;
		int size = ptah_packet_decode(&packet, bytes + at, n - at, 0);

		if (size <= 0)
			break;
		at += (size_t)size;
		*closed = closes(&packet, *closed, &off);
	}
	return at;
}

/* Numbers of exits begin with 1, so that 0 ends them. */
static size_t written_numbers(const uint8_t *bytes, size_t n)
{
	size_t at = 0;
	uint32_t number;

	for (; at < n; at += sizeof(number)) {
		memcpy(&number, bytes + at, sizeof(number));
		if (!number)
			break;
	}
	return at;
}

/*
 * Copies the chunk that is being written to s->bytes. Returns how much of it is written. The last
 * packet may end with zeros of its own; if its thread runs, these may not have been written yet,
 * unless the packet was taken before, when it was known to be whole.
 */
static size_t copy_last(struct native_streams *s, unsigned slot, unsigned log, bool runs,
			bool *closed)
{
	const uint8_t *chunk = chunk_bytes(s, slot, log, s->list[slot].next[log]);
	const size_t last = written_bytes(chunk, s->chunk_bytes), taken = s->list[slot].taken[log];
	const size_t whole = last > taken ? last : taken;

	memcpy(s->bytes, chunk, s->chunk_bytes);
	return log == NATIVE_LOG_TRACE
		   ? written_packets(s->bytes, last, runs ? whole : s->chunk_bytes, closed)
		   : written_numbers(s->bytes, s->chunk_bytes);
}

bool streams_has_stopped(const struct native_streams *s, unsigned slot)
{
	return s->list[slot].used && __atomic_load_n(&streams_thread(s, slot)->paused,
						     __ATOMIC_ACQUIRE) == NATIVE_STOPPED;
}

bool streams_has_paused(const struct native_streams *s, unsigned slot)
{
	return s->list[slot].used &&
	       __atomic_load_n(&streams_thread(s, slot)->paused, __ATOMIC_ACQUIRE);
}

void streams_take_written(struct native_streams *s, unsigned slot)
{
	bool closed = false; /* does not count: the thread goes on */

	for (unsigned log = 0; log < logs_of(s); log++) {
		size_t n;

		if (next_is_full(s, slot, log))
			return; /* it is taken as a whole */
		n = copy_last(s, slot, log, false, &closed);
		if (streams_has_paused(s, slot))
			return; /* it was empty, and is not any more */
		deliver(s, slot, log, n);
	}
}

/*
 * Whether the thread has not written anything behind the n bytes of trace that were taken of its
 * chunk, so that the log of exits, which was taken after them, ends there, too. The first byte of
 * a packet is not 0.
 */
static bool stands_still(const struct native_streams *s, unsigned slot, size_t n)
{
	const struct native_stream *stream = &s->list[slot];
	const struct native_thread *t = streams_thread(s, slot);
	const uint8_t *behind =
	    chunk_bytes(s, slot, NATIVE_LOG_TRACE, stream->next[NATIVE_LOG_TRACE]) + n;

	for (unsigned log = 0; log < logs_of(s); log++)
		if (__atomic_load_n(&t->current[log], __ATOMIC_ACQUIRE) != stream->next[log])
			return false;
	return n < s->chunk_bytes && !__atomic_load_n(behind, __ATOMIC_ACQUIRE);
}

/*
 * Of a thread that did not end: it was killed, or it still runs. It may pause meanwhile: then it
 * has published all that counts, and what was copied may be what is discarded.
 */
static void take_unended(struct native_streams *s, unsigned slot, bool runs)
{
	size_t taken[NATIVE_LOGS];

	for (unsigned log = 0; log < logs_of(s); log++) {
		taken[log] = copy_last(s, slot, log, runs, &s->list[slot].closed);
		if (streams_has_paused(s, slot)) {
			take_all_chunks(s, slot);
			s->list[slot].closed = true;
			return;
		}
		deliver(s, slot, log, taken[log]);
	}
	if (!stands_still(s, slot, taken[NATIVE_LOG_TRACE]))
		s->list[slot].closed = false;
}

/*
 * How much of the chunk is written, from a byte on that is: up to the last one before eight zeros,
 * which no packet has. What lies behind that is not touched, because the kernel would make pages
 * for it. Near its end exits may have stored packets that they store in the next chunk again.
 */
static size_t visible(const uint8_t *chunk, size_t from, size_t size)
{
	size_t last = from;

	for (size_t at = from & ~(size_t)7; at + 8 + END_BYTES <= size; at += 8) {
		const uint64_t *words = (const void *)(chunk + at);
		const uint64_t word = __atomic_load_n(words, __ATOMIC_ACQUIRE);

		if (!word)
			break;
		last = at + 8 - (size_t)__builtin_clzll(word) / 8;
	}
	return last > from ? last : from;
}

/*
 * Copies what the thread has written from `from` on, which is where a packet begins, and will not
 * change. Returns where it ends. Stores become visible in their order, so that a packet is whole
 * when something of the next one is seen. Of a store that lies across two cache lines the second
 * half may be seen first: the packets in the first half begin with zeros then, which the runtime
 * never writes there.
 */
static size_t look_at(struct native_streams *s, const uint8_t *chunk, size_t from)
{
	const size_t last = visible(chunk, from, s->chunk_bytes);
	size_t at = from;

	memcpy(s->bytes + from, chunk + from, last - from);
	while (at < last && s->bytes[at]) {
		struct ptah_packet packet;
		const int size = ptah_packet_decode(&packet, s->bytes + at, last - at, 0);

		if (size <= 0 || at + (size_t)size >= last)
			break;
		at += (size_t)size;
	}
	return at;
}

/*
 * With a log of exits, what an exit has stored may be stored in another way when the log's chunk is
 * full and a signal comes: only what has settled is taken then.
 */
void streams_take_early(struct native_streams *s, unsigned slot)
{
	const struct native_stream *stream = &s->list[slot];
	const uint64_t number = stream->next[NATIVE_LOG_TRACE];
	const uint8_t *chunk = chunk_bytes(s, slot, NATIVE_LOG_TRACE, number);
	size_t n = stream->taken[NATIVE_LOG_TRACE];
	uint64_t settled;

	if (!stream->used || next_is_full(s, slot, NATIVE_LOG_TRACE) || streams_has_paused(s, slot))
		return;
	settled = __atomic_load_n(&streams_thread(s, slot)->settled, __ATOMIC_ACQUIRE);
	if (settled / NATIVE_CHUNK == number && settled % NATIVE_CHUNK > n) {
		memcpy(s->bytes + n, chunk + n, settled % NATIVE_CHUNK - n);
		n = settled % NATIVE_CHUNK;
	}
	if (logs_of(s) == 1)
		n = look_at(s, chunk, n);
	if (!streams_has_paused(s, slot)) /* else it is perhaps what is discarded */
		deliver(s, slot, NATIVE_LOG_TRACE, n);
}

/* The packet with the last byte may not have been stored to its end, so it is left out. */
size_t streams_look(struct native_streams *s, unsigned slot)
{
	const uint8_t *chunk =
	    chunk_bytes(s, slot, NATIVE_LOG_TRACE, s->list[slot].next[NATIVE_LOG_TRACE]);
	const size_t taken = s->list[slot].taken[NATIVE_LOG_TRACE];
	const size_t last = written_bytes(chunk, s->chunk_bytes);
	size_t at = 0;

	memcpy(s->bytes, chunk, last);
	if (streams_has_paused(s, slot))
		return 0; /* it is perhaps what is discarded */
	while (at < last) {
		struct ptah_packet packet;
		const int size = ptah_packet_decode(&packet, s->bytes + at, last - at, 0);

		if (size <= 0 || at + (size_t)size >= last)
			break;
		at += (size_t)size;
	}
	if (at <= taken)
		return 0;
	memmove(s->bytes, s->bytes + taken, at - taken);
	return at - taken;
}

/* Before it has ended or paused, a thread has published all that counts. */
void streams_finish(struct native_streams *s, unsigned slot, bool runs)
{
	const bool ended = streams_has_ended(s, slot), paused = streams_has_paused(s, slot);

	if (!s->list[slot].used)
		return;
	take_all_chunks(s, slot);
	if ((ended || paused || !runs) && give_back_unread(s, slot))
		s->damaged = true;
	if (paused)
		s->list[slot].closed = true;
	else if (!ended)
		take_unended(s, slot, runs);
	watch_end(s->watch, slot);
	s->list[slot].used = false;
	s->list[slot].left = runs && !ended; /* it goes on writing */
	give_all_back(s, slot);
	if (!s->list[slot].left)
		free_slot(s, slot);
}
