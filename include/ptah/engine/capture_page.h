/* SPDX-License-Identifier: MIT */
/*
 * The page that a capture shares with a consumer in another process: how far the
 * trace has got, how far the consumer has read, and the records. With this page and
 * the capture's buffer mapped, a program follows a trace without a system call. It
 * needs this header and nothing else: no library, C11 or C++, gcc or clang, x86.
 *
 *	struct ptah_capture_reader r;
 *	struct ptah_capture_view view;
 *
 *	ptah_capture_reader_init(&r, page, buffer);	as the driver has mapped them
 *	while (ptah_capture_reader_record(&r, &record))
 *		...
 *	ptah_capture_reader_view(&r, &view);
 *	for (at = view.tail; at < view.end; at += n) {
 *		n = ptah_capture_reader_bytes(&r, at, view.end, &bytes);
 *		fwrite(bytes, 1, n, file);
 *	}
 *	if (ptah_capture_reader_release(&r, view.end))
 *		ioctl(driver, ...);			which calls ptah_capture_page_sync()
 *
 * That is all for the policies STOP and DRAIN, whose bytes stay until they are
 * released. A buffer that wraps may overwrite bytes while they are read: copy them,
 * and let ptah_capture_reader_sure() say which of them are the trace's.
 *
 * The structs are an ABI (docs/capture-page.md lists the offsets): a field keeps its
 * place and its meaning, and new ones come at the end and raise `size`. `version`
 * changes when an older program would read something wrong.
 *
 * Who writes what: the engine everything but `consumed` and `records_read`, which are
 * the consumer's. The engine reads nothing else of the page, and a value of these two
 * that cannot be is ignored. So a consumer that writes nonsense loses its own trace,
 * and nothing else.
 */
#ifndef PTAH_CAPTURE_PAGE_H
#define PTAH_CAPTURE_PAGE_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

enum ptah_capture_shape {
	PTAH_SHAPE_AUTO = 0, /* a ring where there is ToPA, else a single range */
	PTAH_SHAPE_RING,     /* equal regions; with single-entry ToPA one at a time */
	PTAH_SHAPE_OVERFLOW, /* one large region, and a page that takes what is written until a late
				PMI comes */
	PTAH_SHAPE_SINGLE,   /* single range output: no tables, no PMI, WRAP alone */
	PTAH_SHAPE_MAX
};

enum ptah_capture_policy {
	PTAH_POLICY_WRAP = 0, /* keeps the newest bytes (a snapshot) */
	PTAH_POLICY_STOP,     /* keeps the first bytes: tracing stops when the buffer is full */
	PTAH_POLICY_DRAIN, /* never overwrites what has not been consumed: tracing waits when full
			    */
	PTAH_POLICY_MAX
};

enum ptah_capture_state {
	PTAH_CAPTURE_IDLE = 0, /* not started */
	PTAH_CAPTURE_RUNNING,  /* TraceEn is 1 on processor `cpu` */
	PTAH_CAPTURE_OUT,      /* started, and its thread is on no processor */
	PTAH_CAPTURE_PAUSED,
	PTAH_CAPTURE_FULL,    /* no room: DRAIN continues by itself once there is some */
	PTAH_CAPTURE_RANGE,   /* execution reached a stop range. Resume or start */
	PTAH_CAPTURE_ERROR,   /* `error` says why. What was written is valid. Resume or start */
	PTAH_CAPTURE_BLOCKED, /* the processor is offline, or in VMX operation */
	PTAH_CAPTURE_STATE_MAX
};

/* What a record reports; several flags may be set. */
#define PTAH_CAPTURED_DATA	   0x0001u /* the trace has bytes up to `position` */
#define PTAH_CAPTURED_STARTED	   0x0002u /* TraceEn was set: a slice begins at `position` */
#define PTAH_CAPTURED_STOPPED	   0x0004u /* the slice ends at `position`: stop, pause, switch */
#define PTAH_CAPTURED_FULL	   0x0008u /* the slice ends there: no room was left */
#define PTAH_CAPTURED_RANGE	   0x0010u /* the slice ends there: a stop range was reached */
#define PTAH_CAPTURED_TRUNCATED	   0x0020u /* the last packet before it may be cut */
#define PTAH_CAPTURED_ERROR	   0x0040u /* STATUS.Error: bytes before it may be missing */
#define PTAH_CAPTURED_PARTIAL	   0x0080u /* something ran untraced before this position */
#define PTAH_CAPTURED_LOST	   0x0100u /* `lost` bytes were overwritten unconsumed, or not kept */
#define PTAH_CAPTURED_WRAPPED	   0x0200u /* from now on bytes are overwritten */
#define PTAH_CAPTURED_RECONFIGURED 0x0400u /* other options from here on */
#define PTAH_CAPTURED_UNSURE	   0x0800u /* `position` may be too small by a whole number of cycles */
#define PTAH_CAPTURED_DROPPED	   0x1000u /* merged with records that found no room */
#define PTAH_CAPTURED_RESIZED	   0x2000u /* the buffer has another size from here on */

struct ptah_capture_record {
	uint64_t position;
	uint64_t time; /* TSC; 0 where IA32_TIME_STAMP_COUNTER cannot be read */
	uint64_t lost;
	uint32_t flags;
	uint32_t cpu;
};

/*
 * The page
 */

#define PTAH_CAPTURE_PAGE_MAGIC	  UINT64_C(0x4547415048415450) /* "PTAHPAGE" */
#define PTAH_CAPTURE_PAGE_VERSION 1u

/* How positions are spread over the buffer. */
enum ptah_capture_layout {
	PTAH_LAYOUT_WHOLE = 0, /* the byte at `position` is at (position - origin) % buffer */
	PTAH_LAYOUT_REGIONS,   /* single-entry ToPA: regions that are not always filled to their
				  end; `starts` has the position at which each begins */
};

struct ptah_capture_page {
	/* Constant while the page is mapped. */
	uint64_t magic;
	uint32_t version;
	uint32_t size;	 /* bytes of this struct, as the engine knows it */
	uint64_t bytes;	 /* of the mapping: this struct, the records and the starts */
	uint64_t buffer; /* bytes of the buffer */
	uint64_t
	    region; /* bytes of every region but the last of the buffer, which may be smaller */
	uint64_t origin;
	uint32_t regions;
	uint32_t layout;       /* enum ptah_capture_layout */
	uint32_t shape;	       /* enum ptah_capture_shape */
	uint32_t policy;       /* enum ptah_capture_policy */
	uint32_t records;      /* offset of the ring of records in the mapping */
	uint32_t record_size;  /* bytes from one record to the next */
	uint32_t record_count; /* records of the ring, a power of two */
	uint32_t starts;       /* LAYOUT_REGIONS: offset of `regions` positions; else 0 */
	int32_t processor;     /* that is traced; -1: the capture follows a thread */
	uint32_t covered;      /* single range: so many of the newest bytes cannot be read while it
				  runs, because the engine has replaced them */
	uint32_t reserved0[10];

	/* The engine's, as of its last look at the processor. `sequence` is odd while it writes. */
	uint64_t sequence;
	uint64_t position; /* of the next byte of the trace */
	uint64_t end;	   /* [oldest, end) can be read */
	uint64_t oldest;
	uint64_t tail;	  /* the `consumed` that the engine goes by */
	uint64_t lost;	  /* bytes overwritten before they were consumed: the sum of all records' */
	uint64_t laps;	  /* how often the buffer was filled to its end */
	uint64_t looks;	  /* how often the engine has looked */
	uint64_t fills;	  /* LAYOUT_REGIONS: regions begun before the current one */
	uint64_t dropped; /* records that found no room in the ring */
	uint32_t state;	  /* enum ptah_capture_state */
	int32_t error;	  /* of the last start or look that failed, enum ptah_error */
	int32_t cpu;	  /* where it is loaded; -1: nowhere */
	uint32_t reserved1;
	struct ptah_capture_record owed; /* dropped records as one, which is part of the next record
					    that finds room; flags 0: none */

	/* The engine's, each by itself. */
	uint32_t records_written; /* so far, modulo 2^32 */
	uint32_t waiting; /* not 0: after making room call what calls ptah_capture_page_sync() */
	uint32_t reserved2[14];

	/* The consumer's. */
	uint64_t consumed;     /* the bytes before this position were read */
	uint32_t records_read; /* modulo 2^32 */
	uint32_t reserved3[13];
};

#ifdef __cplusplus
#define PTAH_PAGE_ASSERT(condition) static_assert(condition, #condition)
#else
#define PTAH_PAGE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
#define PTAH_PAGE_AT(field, offset)                                                                \
	PTAH_PAGE_ASSERT(offsetof(struct ptah_capture_page, field) == (offset))

PTAH_PAGE_ASSERT(sizeof(struct ptah_capture_record) == 32);
PTAH_PAGE_ASSERT(offsetof(struct ptah_capture_record, time) == 8);
PTAH_PAGE_ASSERT(offsetof(struct ptah_capture_record, lost) == 16);
PTAH_PAGE_ASSERT(offsetof(struct ptah_capture_record, flags) == 24);
PTAH_PAGE_ASSERT(offsetof(struct ptah_capture_record, cpu) == 28);
PTAH_PAGE_ASSERT(sizeof(struct ptah_capture_page) == 384);
PTAH_PAGE_AT(version, 8);
PTAH_PAGE_AT(size, 12);
PTAH_PAGE_AT(bytes, 16);
PTAH_PAGE_AT(buffer, 24);
PTAH_PAGE_AT(region, 32);
PTAH_PAGE_AT(origin, 40);
PTAH_PAGE_AT(regions, 48);
PTAH_PAGE_AT(layout, 52);
PTAH_PAGE_AT(shape, 56);
PTAH_PAGE_AT(policy, 60);
PTAH_PAGE_AT(records, 64);
PTAH_PAGE_AT(record_size, 68);
PTAH_PAGE_AT(record_count, 72);
PTAH_PAGE_AT(starts, 76);
PTAH_PAGE_AT(processor, 80);
PTAH_PAGE_AT(covered, 84);
PTAH_PAGE_AT(sequence, 128);
PTAH_PAGE_AT(position, 136);
PTAH_PAGE_AT(end, 144);
PTAH_PAGE_AT(oldest, 152);
PTAH_PAGE_AT(tail, 160);
PTAH_PAGE_AT(lost, 168);
PTAH_PAGE_AT(laps, 176);
PTAH_PAGE_AT(looks, 184);
PTAH_PAGE_AT(fills, 192);
PTAH_PAGE_AT(dropped, 200);
PTAH_PAGE_AT(state, 208);
PTAH_PAGE_AT(error, 212);
PTAH_PAGE_AT(cpu, 216);
PTAH_PAGE_AT(owed, 224);
PTAH_PAGE_AT(records_written, 256);
PTAH_PAGE_AT(waiting, 260);
PTAH_PAGE_AT(consumed, 320);
PTAH_PAGE_AT(records_read, 328);

#undef PTAH_PAGE_AT
#undef PTAH_PAGE_ASSERT

/*
 * The reader
 *
 * For one thread at a time. None of these functions waits, and whatever the page
 * contains, they read nothing outside of the page and the buffer.
 */

struct ptah_capture_reader {
	struct ptah_capture_page *page;
	const unsigned char *buffer;
	const unsigned char *records;
	const uint64_t *starts; /* NULL: LAYOUT_WHOLE */
	uint64_t size, region, origin;
	uint32_t regions, policy, covered;
	uint32_t record_size, record_mask;
	uint32_t record; /* the next to read */
};

/* The page's second part, with all fields of one moment. */
struct ptah_capture_view {
	uint64_t sequence, position, end, oldest, tail, lost, laps, looks, dropped;
	uint32_t state;
	int32_t error, cpu;
	struct ptah_capture_record owed;
};

/* More than a few hundred attempts are needed only while the engine's processor is interrupted. */
#ifndef PTAH_CAPTURE_TRIES
#define PTAH_CAPTURE_TRIES 100000u
#endif

#ifdef _MSC_VER
/*
 * Microsoft's compiler has no __atomic_*. The processor is an x86: loads are not reordered, nor
 * are stores, so only the compiler has to keep the order; and an exchange is sequentially
 * consistent.
 */
void _ReadWriteBarrier(void);
long long _InterlockedExchange64(long long volatile *target, long long value);
#pragma intrinsic(_ReadWriteBarrier)
#pragma intrinsic(_InterlockedExchange64)

static inline uint64_t ptah_page_loaded(uint64_t value)
{
	_ReadWriteBarrier();
	return value;
}

#define PTAH_PAGE_LOAD(field)	       ptah_page_loaded((uint64_t)(field))
#define PTAH_PAGE_LOAD_IN_ORDER(field) PTAH_PAGE_LOAD(field)
#define PTAH_PAGE_STORE(field, value)                                                              \
	(void)(_ReadWriteBarrier(), *(uint32_t volatile *)&(field) = (value))
#define PTAH_PAGE_EXCHANGE(field, value)                                                           \
	(void)_InterlockedExchange64((long long volatile *)&(field), (long long)(value))
#else
#define PTAH_PAGE_LOAD(field)		 __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define PTAH_PAGE_LOAD_IN_ORDER(field)	 __atomic_load_n(&(field), __ATOMIC_SEQ_CST)
#define PTAH_PAGE_STORE(field, value)	 __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)
#define PTAH_PAGE_EXCHANGE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_SEQ_CST)
#endif

/*
 * Begins where the last consumer of this capture has ended. False: it is no such page, or
 * of a version that this header does not know.
 */
static inline bool ptah_capture_reader_init(struct ptah_capture_reader *r, void *page,
					    const void *buffer)
{
	struct ptah_capture_page *p = (struct ptah_capture_page *)page;
	const uint64_t bytes = p->bytes, records = p->records, starts = p->starts;
	const uint64_t count = p->record_count, step = p->record_size;

	r->page = p;
	r->buffer = (const unsigned char *)buffer;
	r->records = (const unsigned char *)page;
	r->starts = NULL;
	r->size = p->buffer;
	r->region = p->region;
	r->origin = p->origin;
	r->regions = p->regions;
	r->policy = p->policy;
	r->covered = p->covered;
	r->record_size = (uint32_t)step;
	r->record_mask = (uint32_t)count - 1;
	r->record = PTAH_PAGE_LOAD(p->records_read);
	if (p->magic != PTAH_CAPTURE_PAGE_MAGIC || p->version != PTAH_CAPTURE_PAGE_VERSION ||
	    p->size < sizeof(*p) || bytes < sizeof(*p))
		return false;
	if (!r->size || !r->regions || !count || (count & (count - 1)) ||
	    step < sizeof(struct ptah_capture_record) || ((records | starts | step) & 7) ||
	    records < sizeof(*p) || records > bytes || (bytes - records) / step < count)
		return false;
	r->records = (const unsigned char *)page + records;
	if (p->layout == PTAH_LAYOUT_WHOLE)
		return true;
	if (p->layout != PTAH_LAYOUT_REGIONS || !r->region || r->size / r->region < r->regions ||
	    starts < sizeof(*p) || starts > bytes ||
	    (bytes - starts) / sizeof(uint64_t) < r->regions)
		return false;
	r->starts = (const uint64_t *)(const void *)((const unsigned char *)page + starts);
	return true;
}

/*
 * Takes the second part of the page. False: the engine was writing it for as long as this
 * function tried; call it again, later.
 */
static inline bool ptah_capture_reader_view(const struct ptah_capture_reader *r,
					    struct ptah_capture_view *view)
{
	const struct ptah_capture_page *p = r->page;
	unsigned tries;

	for (tries = 0; tries < PTAH_CAPTURE_TRIES; tries++) {
		uint64_t sequence = PTAH_PAGE_LOAD(p->sequence);

		if (sequence & 1)
			continue;
		view->sequence = sequence;
		view->position = PTAH_PAGE_LOAD(p->position);
		view->end = PTAH_PAGE_LOAD(p->end);
		view->oldest = PTAH_PAGE_LOAD(p->oldest);
		view->tail = PTAH_PAGE_LOAD(p->tail);
		view->lost = PTAH_PAGE_LOAD(p->lost);
		view->laps = PTAH_PAGE_LOAD(p->laps);
		view->looks = PTAH_PAGE_LOAD(p->looks);
		view->dropped = PTAH_PAGE_LOAD(p->dropped);
		view->state = PTAH_PAGE_LOAD(p->state);
		view->error = PTAH_PAGE_LOAD(p->error);
		view->cpu = PTAH_PAGE_LOAD(p->cpu);
		view->owed.position = PTAH_PAGE_LOAD(p->owed.position);
		view->owed.time = PTAH_PAGE_LOAD(p->owed.time);
		view->owed.lost = PTAH_PAGE_LOAD(p->owed.lost);
		view->owed.flags = PTAH_PAGE_LOAD(p->owed.flags);
		view->owed.cpu = PTAH_PAGE_LOAD(p->owed.cpu);
		if (PTAH_PAGE_LOAD(p->sequence) == sequence)
			return true;
	}
	return false;
}

/*
 * LAYOUT_REGIONS: the region that holds the byte at `position`, and where it begins and ends.
 * The engine changes `starts` while it writes the second part. False: overwritten.
 */
static inline bool ptah_capture_reader_find(const struct ptah_capture_reader *r, uint64_t position,
					    uint64_t *q, uint64_t *start, uint64_t *end)
{
	unsigned tries;

	for (tries = 0; tries < PTAH_CAPTURE_TRIES; tries++) {
		const uint64_t sequence = PTAH_PAGE_LOAD(r->page->sequence);
		bool found = false;
		uint32_t n;

		*end = PTAH_PAGE_LOAD(r->page->position);
		*q = PTAH_PAGE_LOAD(r->page->fills);
		for (n = 0; n < r->regions && !found; n++) {
			*start = PTAH_PAGE_LOAD(r->starts[*q % r->regions]);
			found = *start <= position;
			if (found || !*q)
				break;
			*end = *start;
			--*q;
		}
		if (!(sequence & 1) && PTAH_PAGE_LOAD(r->page->sequence) == sequence)
			return found && position < *end;
	}
	return false;
}

/*
 * Where the bytes [from, to) are, as many as are contiguous in memory; call it again from the
 * byte after them. 0: from == to, or the byte at `from` was overwritten: take another view. `to`
 * is at most the `end` of a view.
 */
static inline size_t ptah_capture_reader_bytes(const struct ptah_capture_reader *r, uint64_t from,
					       uint64_t to, const void **address)
{
	uint64_t at = (from - r->origin) % r->size, bytes = r->size - at;
	uint64_t q = 0, start = 0, end = 0;

	if (from >= to)
		return 0;
	if (r->starts) {
		if (!ptah_capture_reader_find(r, from, &q, &start, &end) ||
		    from - start >= r->region)
			return 0;
		at = q % r->regions * r->region + (from - start);
		bytes = end - start < r->region ? end - from : r->region - (from - start);
	}
	*address = r->buffer + at;
	return (size_t)(bytes < to - from ? bytes : to - from);
}

/*
 * After bytes were copied out of the buffer: which of them are certain. `before`: the view whose
 * `end` limited the copy; `after`: one taken when the copy was complete. True: those in
 * [*first, *last); the copy may have newer bytes in place of those before *first. False: that is
 * known after the engine's next look: call it again with the same views. With WRAP a trace that
 * runs is looked at when a PMI comes, or by ptah_capture_page_sync(); all other traces give an
 * answer at once.
 */
static inline bool ptah_capture_reader_sure(const struct ptah_capture_reader *r,
					    const struct ptah_capture_view *before,
					    const struct ptah_capture_view *after, uint64_t *first,
					    uint64_t *last)
{
	struct ptah_capture_view now;

	*last = before->end;
	/* It may have run meanwhile, and more than once. */
	if (r->covered && after->sequence != before->sequence &&
	    before->position - before->end < r->covered)
		*last = before->position < r->covered ? 0 : before->position - r->covered;
	*first = r->policy == PTAH_POLICY_WRAP ? after->oldest : after->tail;
	if (r->policy != PTAH_POLICY_WRAP || after->state != PTAH_CAPTURE_RUNNING)
		return true;
	if (!ptah_capture_reader_view(r, &now) ||
	    (now.state == PTAH_CAPTURE_RUNNING && now.looks == after->looks))
		return false;
	*first = now.oldest;
	return true;
}

/*
 * The consumer alone: the bytes before `upto` have been read and may be overwritten. `upto` is
 * at most the position of a view; a smaller one than before has no effect. True: the engine
 * waits for room, or would not find out in time that there is some; call the driver's function
 * that calls ptah_capture_page_sync().
 */
static inline bool ptah_capture_reader_release(struct ptah_capture_reader *r, uint64_t upto)
{
	/*
	 * The engine writes `waiting` and then reads `consumed`. The order of all four accesses is
	 * sequentially consistent, so at least one side sees what the other has written.
	 */
	PTAH_PAGE_EXCHANGE(r->page->consumed, upto);
	return PTAH_PAGE_LOAD_IN_ORDER(r->page->waiting) != 0;
}

/* The consumer alone: takes the next record. False: there is none. */
static inline bool ptah_capture_reader_record(struct ptah_capture_reader *r,
					      struct ptah_capture_record *record)
{
	const unsigned char *at;

	if (PTAH_PAGE_LOAD(r->page->records_written) == r->record)
		return false;
	at = r->records + (size_t)(r->record & r->record_mask) * r->record_size;
	*record = *(const struct ptah_capture_record *)(const void *)at;
	PTAH_PAGE_STORE(r->page->records_read, r->record + 1);
	r->record++;
	return true;
}

#undef PTAH_PAGE_LOAD
#undef PTAH_PAGE_LOAD_IN_ORDER
#undef PTAH_PAGE_STORE
#undef PTAH_PAGE_EXCHANGE

PTAH_END_DECLS

#endif
