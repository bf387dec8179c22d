/* SPDX-License-Identifier: MIT */
/*
 * Gives a capture a buffer of another size. The bytes that the new buffer can hold are copied while
 * the trace continues into the old one. Then, with the processor stopped for a moment, those that
 * were written meanwhile follow, and the capture's buffer is exchanged. Positions keep their
 * meaning: only the place of a byte in memory changes.
 */
#include "engine/internal.h"

/* How often bytes are copied while the trace continues: the second time those that were written
 * during the first. */
#define ROUNDS 2

struct exchange {
	struct buffer buffer; /* the new one, and then the old one */
	uint64_t first;	      /* swap: the position at which the new region number 0 begins */
	uint64_t copied;      /* bytes before this position have been copied, or are not kept */
};

/* Finds the new region that holds the byte at `position`: its number, and where it begins. */
static uint64_t new_region(const struct exchange *x, uint64_t position, uint64_t *start)
{
	const struct topa *t = &x->buffer.topa;
	uint64_t q;

	if (x->buffer.swap) {
		q = (position - x->first) / t->region;
		*start = x->first + q * t->region;
	} else {
		q = topa_region(t, position);
		*start = topa_start(t, q);
	}
	return q;
}

static void put(const struct exchange *x, uint64_t position, const uint8_t *bytes, uint64_t n)
{
	while (n) {
		uint64_t start, q = new_region(x, position, &start);
		uint64_t part = topa_bytes(&x->buffer.topa, q) - (position - start);

		if (part > n)
			part = n;
		memcpy(topa_address(&x->buffer.topa, q) + (position - start), bytes, (size_t)part);
		position += part;
		bytes += part;
		n -= part;
	}
}

/*
 * Copies the bytes from x->copied to `to`. Where the capture wraps and runs, they may be
 * overwritten meanwhile: the last step does not keep bytes that are too old by then.
 */
static void copy(const struct ptah_capture *c, struct exchange *x, uint64_t to)
{
	struct ptah_piece piece;

	while (x->copied < to) {
		if (ptah_capture_pieces(c, x->copied, to, &piece, 1) == 1) {
			put(x, x->copied, piece.address, piece.size);
			x->copied += piece.size;
		} else if (x->copied < room_oldest(c, position_of(c))) {
			x->copied = room_oldest(c, position_of(c));
		} else {
			break;
		}
	}
}

/* The oldest byte that the new buffer has to hold or, if the capture wraps, can hold. */
static uint64_t oldest_kept(const struct ptah_capture *c, const struct exchange *x)
{
	uint64_t position = position_of(c), lap = x->buffer.topa.lap;
	uint64_t oldest = room_oldest(c, position);

	if (c->policy != PTAH_POLICY_WRAP)
		return atomic_load(&c->tail);
	return position > lap && oldest < position - lap ? position - lap : oldest;
}

/* Single-entry ToPA: the bytes from x->first on fill the new regions one after another. */
static void fill_regions(struct ptah_capture *c, const struct exchange *x, uint64_t kept)
{
	uint64_t n = c->topa.regions, written = position_of(c) - x->first, q;
	uint64_t region = c->topa.region, begin;

	c->fill = written ? (written - 1) / region : 0;
	for (q = c->fill + 1 > n ? c->fill + 1 - n : 0; q <= c->fill; q++)
		atomic_store(&c->starts_of[q % n], x->first + q * region);
	atomic_store(&c->fills, c->fill);
	begin = x->first + (c->fill + 1 > n ? c->fill + 1 - n : 0) * region;
	atomic_store(&c->oldest, begin > kept ? begin : kept);
	c->swap_due = false;
}

/* What the capture did not keep is reported by its next record. */
static void report(struct ptah_capture *c, uint64_t oldest)
{
	uint64_t kept = room_oldest(c, position_of(c)), from = oldest;

	c->flags |= PTAH_CAPTURED_RESIZED;
	if (c->policy != PTAH_POLICY_WRAP)
		return;
	if (from < c->told)
		from = c->told;
	if (from < atomic_load(&c->tail))
		from = atomic_load(&c->tail);
	if (kept <= from)
		return;
	c->unkept += kept - from;
	c->told = kept;
	c->flags |= PTAH_CAPTURED_LOST;
	log_capture(c, LOG_LOST, kept - from);
}

/* A capture_work. */
static int exchange(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	struct exchange *x = argument;
	struct buffer old = buffer_of(c);
	uint64_t position, oldest, kept;

	/* The registers that the guest traces with name the old tables. */
	if (c->external)
		return PTAH_E_BUSY;
	if (cpu && atomic_load(&c->running))
		hardware_look(c, cpu, false);
	if (cpu)
		engine_note(cpu);
	position = position_of(c);
	oldest = room_oldest(c, position);
	kept = oldest_kept(c, x);
	if (position - kept > x->buffer.topa.lap)
		return PTAH_E_NOSPACE;
	if (x->copied < kept)
		x->copied = kept;
	copy(c, x, position);
	crash_change(c);
	buffer_set(c, &x->buffer);
	x->buffer = old;
	atomic_store(&c->floor, kept);
	if (c->swap)
		fill_regions(c, x, kept);
	crash_describe(c, c->cpu);
	c->marked = c->owed = false;
	c->program = c->verify = true;
	report(c, oldest);
	if (!cpu)
		hardware_record(c, c->engine->hal->cpu(c->engine->port));
	return PTAH_OK;
}

static int move(struct ptah_capture *c, struct exchange *x)
{
	unsigned round;
	int status;

	for (round = 0; round < ROUNDS; round++) {
		status = ptah_capture_flush(c, NULL);
		if (status < 0)
			return status;
		if (round == 0)
			x->first = x->copied = oldest_kept(c, x);
		copy(c, x, position_of(c));
		/* While a single range is traced, a pattern covers the newest bytes. */
		if (c->shape == PTAH_SHAPE_SINGLE)
			x->copied -= x->copied < CANARY ? x->copied : CANARY;
	}
	return capture_at_holder(c, exchange, x);
}

/* Why the capture keeps its buffer whatever the size; PTAH_OK: nothing is in the way. */
static int check_resize(struct ptah_capture *c, size_t buffer, struct ptah_trace_problem *problem)
{
	if (c->pool)
		return buffer_refuse(problem, "buffer", "the captures of a pool have the pool's",
				     PTAH_PROBLEM_MAX, buffer, c->topa.lap);
	if (c->lent)
		return buffer_refuse(problem, "buffer", "its memory is not the engine's",
				     PTAH_PROBLEM_MAX, buffer, c->topa.lap);
	if (map_any(c)) {
		buffer_refuse(problem, "buffer", "it is mapped: unmap it first", PTAH_PROBLEM_NEEDS,
			      buffer, 0);
		return PTAH_E_BUSY;
	}
	return page_drop(c);
}

int resize_prepare(struct ptah_capture *c, size_t buffer, size_t region, struct buffer *b,
		   struct ptah_trace_problem *problem)
{
	struct ptah_capture_config config;
	int status = check_resize(c, buffer, problem);

	if (status < 0)
		return status;
	config = c->config;
	config.shape = c->shape;
	config.buffer = buffer;
	config.region = region;
	return buffer_make(c->engine, &config, b, problem);
}

int resize_finish(struct ptah_capture *c, const struct buffer *b,
		  struct ptah_trace_problem *problem)
{
	struct exchange x = {.buffer = *b};
	int status = move(c, &x);

	if (status == PTAH_E_NOSPACE)
		buffer_refuse(problem, "buffer", "unread bytes do not fit: consume them first",
			      PTAH_PROBLEM_MIN, x.buffer.topa.lap,
			      position_of(c) - atomic_load(&c->tail));
	/* The new one if that failed. */
	buffer_unmake(c->engine, &x.buffer);
	return status;
}

int ptah_capture_resize(struct ptah_capture *c, size_t buffer, size_t region,
			struct ptah_trace_problem *problem)
{
	struct buffer b;
	int status;

	if (problem)
		*problem = (struct ptah_trace_problem){0};
	if (!c)
		return buffer_refuse_call(problem);
	status = resize_prepare(c, buffer, region, &b, problem);
	if (status == PTAH_OK)
		status = resize_finish(c, &b, problem);
	return buffer_explain(status, problem);
}
