/* SPDX-License-Identifier: MIT */
/*
 * The page that a capture shares with a consumer in another process (capture_page.h): writes into
 * it what the looks find out, and takes over what its consumer has read. The engine keeps the truth
 * in the capture, and the page is a copy: the process may write anything into it at any time, so
 * only `consumed` and `records_read` are ever read back, each once, and checked.
 */
#include "engine/internal.h"

/* The records begin on a page of their own. */
#define RECORDS_AT 4096u

/*
 * Release order for every field: a reader that sees a new value then also sees that `sequence` was
 * odd, or has changed.
 */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static uint32_t record_count(const struct ptah_capture *c)
{
	return c->records.mask + 1;
}

static uint64_t starts_at(const struct ptah_capture *c)
{
	return RECORDS_AT + (uint64_t)record_count(c) * sizeof(struct ptah_capture_record);
}

static uint64_t bytes_of(const struct ptah_capture *c)
{
	return starts_at(c) + (c->swap ? c->topa.regions * sizeof(uint64_t) : 0);
}

/* What remains constant. It is written again for each consumer: the last one may have changed it.
 */
static void describe(const struct ptah_capture *c, struct ptah_capture_page *p)
{
	p->magic = PTAH_CAPTURE_PAGE_MAGIC;
	p->version = PTAH_CAPTURE_PAGE_VERSION;
	p->size = sizeof(*p);
	p->bytes = bytes_of(c);
	p->buffer = c->topa.lap;
	p->region = c->topa.region;
	p->origin = 0;
	p->regions = c->topa.regions;
	p->layout = c->swap ? PTAH_LAYOUT_REGIONS : PTAH_LAYOUT_WHOLE;
	p->shape = c->shape;
	p->policy = c->policy;
	p->records = RECORDS_AT;
	p->record_size = sizeof(struct ptah_capture_record);
	p->record_count = record_count(c);
	p->starts = c->swap ? (uint32_t)starts_at(c) : 0;
	p->processor = c->cpu;
	p->covered = c->shape == PTAH_SHAPE_SINGLE ? CANARY : 0;
}

static uint64_t first_fill(const struct ptah_capture *c)
{
	uint64_t fills = atomic_load_explicit(&c->fills, memory_order_relaxed);

	return fills >= c->topa.regions ? fills - c->topa.regions + 1 : 0;
}

/* Single-entry ToPA: where the regions begin that were begun since this was written last. */
static void put_starts(struct ptah_capture *c)
{
	uint64_t *starts = (uint64_t *)(void *)((uint8_t *)c->page.page + starts_at(c));
	uint64_t fills = atomic_load_explicit(&c->fills, memory_order_relaxed);
	uint64_t q = c->page.fills > first_fill(c) ? c->page.fills : first_fill(c);

	for (; q <= fills; q++) {
		PUT(starts[q % c->topa.regions],
		    atomic_load_explicit(&c->starts_of[q % c->topa.regions], memory_order_relaxed));
	}
	c->page.fills = fills;
	PUT(c->page.page->fills, fills);
}

/*
 * With a single range that is traced, the canary covers the newest bytes: they cannot be read.
 * `laps`: with single-entry ToPA a region counts as full when the next one is begun.
 */
static void put_state(struct ptah_capture *c, unsigned state)
{
	struct ptah_capture_page *p = c->page.page;
	uint64_t position = position_of(c), end = position;
	struct ptah_capture_record owed = record_owed(&c->records);

	if (c->shape == PTAH_SHAPE_SINGLE && state == PTAH_CAPTURE_RUNNING)
		end = position < CANARY ? 0 : position - CANARY;
	PUT(p->sequence, c->page.sequence + 1);
	if (c->swap)
		put_starts(c);
	PUT(p->position, position);
	PUT(p->end, end);
	PUT(p->oldest, room_oldest(c, position));
	PUT(p->tail, atomic_load_explicit(&c->tail, memory_order_relaxed));
	PUT(p->lost, c->overwritten);
	PUT(p->laps, c->swap ? c->page.fills / c->topa.regions : position / c->topa.lap);
	PUT(p->looks, atomic_load_explicit(&c->looks, memory_order_relaxed));
	PUT(p->dropped, atomic_load_explicit(&c->records.dropped, memory_order_relaxed));
	PUT(p->state, state);
	PUT(p->error, atomic_load_explicit(&c->error, memory_order_relaxed));
	PUT(p->cpu, state == PTAH_CAPTURE_RUNNING
			? atomic_load_explicit(&c->holder, memory_order_relaxed)
			: NOBODY);
	PUT(p->owed.position, owed.position);
	PUT(p->owed.lost, owed.lost);
	PUT(p->owed.flags, owed.flags);
	c->page.sequence += 2;
	PUT(p->sequence, c->page.sequence);
}

static void put_records(struct ptah_capture *c)
{
	struct ptah_capture_record *records =
	    (struct ptah_capture_record *)(void *)((uint8_t *)c->page.page + RECORDS_AT);
	uint32_t head = atomic_load_explicit(&c->records.head, memory_order_relaxed);

	for (; c->page.copied != head; c->page.copied++) {
		records[c->page.copied & c->records.mask] =
		    c->records.records[c->page.copied & c->records.mask];
	}
	PUT(c->page.page->records_written, head);
}

bool page_adopt(struct ptah_capture *c)
{
	uint64_t upto;

	if (!atomic_load_explicit(&c->page.consumer, memory_order_relaxed))
		return false;
	record_release(&c->records, __atomic_load_n(&c->page.page->records_read, __ATOMIC_ACQUIRE));
	upto = __atomic_load_n(&c->page.page->consumed, __ATOMIC_SEQ_CST);
	if (upto <= atomic_load_explicit(&c->tail, memory_order_relaxed) || upto > position_of(c))
		return false;
	atomic_store(&c->tail, upto);
	c->page.unused = true;
	return true;
}

void page_running(struct ptah_capture *c)
{
	if (c->page.page)
		put_state(c, PTAH_CAPTURE_RUNNING);
}

bool page_publish(struct ptah_capture *c)
{
	bool waits, waited = c->page.waiting;

	if (!c->page.page)
		return false;
	put_records(c);
	put_state(c, capture_state(c));
	waits = c->policy == PTAH_POLICY_DRAIN && atomic_load(&c->started) && room_near(c);
	c->page.waiting = waits;
	__atomic_store_n(&c->page.page->waiting, waits, __ATOMIC_SEQ_CST);
	page_adopt(c);
	/* The consumer may have made room just before, when it could not know that it is needed. */
	return waits && !waited && c->page.unused;
}

/* A capture_work: all that the page contains is written again, and its consumer begins where the
 * last one has ended. */
static int begin(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	const struct page_request *request = argument;
	struct ptah_capture_page *p;

	(void)cpu;
	if (!c->page.page) {
		c->page.memory = request->memory;
		c->page.page = request->memory.address;
	}
	p = c->page.page;
	if (!atomic_load(&c->page.consumer)) {
		describe(c, p);
		c->page.copied = atomic_load_explicit(&c->records.tail, memory_order_relaxed);
		c->page.fills = first_fill(c);
		PUT(p->consumed, atomic_load_explicit(&c->tail, memory_order_relaxed));
		PUT(p->records_read, c->page.copied);
	}
	if (request->consumer)
		atomic_store(&c->page.consumer, true);
	page_publish(c);
	return PTAH_OK;
}

int page_begin(struct ptah_capture *c, bool consumer)
{
	const struct ptah_hal *hal = c->engine->hal;
	struct page_request request = {.consumer = consumer};
	uint64_t bytes = (bytes_of(c) + TOPA_PAGE - 1) & ~(uint64_t)(TOPA_PAGE - 1);
	int status = PTAH_OK;

	if (!c->page.page) {
		status = buffer_alloc(hal, c->engine->port, c->cpu, PTAH_MEMORY_PAGE, bytes,
				      &request.memory);
		/* The process would see what lies in the rest of a larger block. */
		if (status == PTAH_OK && request.memory.size != bytes)
			status = PTAH_E_UNSUPPORTED;
		if (status == PTAH_OK)
			memset(request.memory.address, 0, request.memory.size);
	}
	if (status == PTAH_OK)
		status = capture_at_holder(c, begin, &request);
	/* It is not needed if another thread was mapping the page and was first. */
	if (request.memory.address && (status < 0 || c->page.page != request.memory.address))
		hal->release(c->engine->port, &request.memory);
	return status;
}

/* A capture_work. */
static int end(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	(void)cpu;
	(void)argument;
	page_adopt(c);
	atomic_store(&c->page.consumer, false);
	return PTAH_OK;
}

void page_end(struct ptah_capture *c)
{
	/* On a processor that cannot be reached there is no look that could interfere. */
	if (capture_at_holder(c, end, NULL) < 0)
		atomic_store(&c->page.consumer, false);
}

/* A capture_work. */
static int detach(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	(void)cpu;
	(void)argument;
	c->page.page = NULL;
	return PTAH_OK;
}

void page_free(struct ptah_capture *c)
{
	struct ptah_hal_memory memory = c->page.memory;

	if (!memory.address)
		return;
	/* After page_drop() it is NULL already, and a look may be reading it. */
	if (c->page.page)
		c->page.page = NULL;
	c->page.memory = (struct ptah_hal_memory){0};
	c->engine->hal->release(c->engine->port, &memory);
}

int page_drop(struct ptah_capture *c)
{
	/* A look may be writing it. */
	int status = c->page.page ? capture_at_holder(c, detach, NULL) : PTAH_OK;

	if (status == PTAH_OK)
		page_free(c);
	return status;
}

/* A capture_work. Where a processor holds the capture, the look does all of it. */
static int synchronise(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	if (!cpu) {
		page_adopt(c);
		record_push_owed(&c->records);
	}
	return capture_look(c, cpu, argument);
}

int ptah_capture_page_sync(struct ptah_capture *c)
{
	if (!c || !atomic_load(&c->page.consumer))
		return PTAH_E_INVAL;
	return capture_at_holder(c, synchronise, NULL);
}

uint32_t ptah_capture_recorded(const struct ptah_capture *c)
{
	return atomic_load_explicit(&c->records.head, memory_order_acquire);
}
