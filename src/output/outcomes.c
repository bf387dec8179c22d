/* SPDX-License-Identifier: MIT */
/* Reads all streams in order through a simulated branch predictor (outcomes.h). */
#include "output/outcomes.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "base/order.h"
#include "output/predictor.h"
#include "support/list.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A block that ran: its last branch, and whether its bytes are kept. ip 0 and size 0: free. */
struct seen {
	uint64_t ip;
	uint32_t space_size;   /* the block's address space in the stream, and its bytes */
	bool used, has_branch; /* its last instruction is a conditional branch */
	uint8_t last_size;
	uint64_t generation, version; /* of the code, when it was looked up last */
	uint64_t executed, taken, missed, missed_taken;
};

/* What the threads share. */
struct reading {
	const struct ptah_session *session;
	const struct outcomes_config *config;
	struct outcomes *outcomes;
	size_t summed;	      /* elements of its lists after the last sum() */
	pthread_mutex_t lock; /* of these and the status */
	int status;
	atomic_size_t next; /* stream */
	atomic_uint_fast64_t bytes;
	atomic_bool stop;
};

/* One stream. */
struct stream_state {
	struct reading *reading;
	struct ptah_reader *stream;
	struct predictor predictor;
	struct seen *seen;
	size_t count, capacity;
	unsigned space;	      /* of the last block, UINT_MAX: none */
	int32_t number;	      /* what it stands for in the session */
	uint64_t generation;  /* of the code */
	uint64_t offset;      /* trace bytes that have been reported */
	struct outcomes kept; /* branches of this stream, and code */
	size_t branch_capacity, code_capacity, byte_capacity;
};

static size_t hash_of(uint64_t ip, uint32_t space_size)
{
	return (size_t)(hash_number(ip ^ (uint64_t)space_size << 40) >> 20);
}

static struct seen *slot(const struct stream_state *s, uint64_t ip, uint32_t space_size)
{
	size_t i = hash_of(ip, space_size) & (s->capacity - 1);

	while (s->seen[i].used && (s->seen[i].ip != ip || s->seen[i].space_size != space_size))
		i = (i + 1) & (s->capacity - 1);
	return &s->seen[i];
}

static bool grow(struct stream_state *s)
{
	struct stream_state bigger = {.capacity = s->capacity ? 2 * s->capacity : 4096};

	bigger.seen = calloc(bigger.capacity, sizeof(*bigger.seen));
	if (!bigger.seen)
		return false;
	for (size_t i = 0; i < s->capacity; i++)
		if (s->seen[i].used)
			*slot(&bigger, s->seen[i].ip, s->seen[i].space_size) = s->seen[i];
	free(s->seen);
	s->seen = bigger.seen;
	s->capacity = bigger.capacity;
	return true;
}

/* Keeps the bytes of a block that is in no file. */
static bool keep_outcome_code(struct stream_state *s, const struct ptah_block *block,
			      uint64_t version)
{
	const struct ptah_item item = {.type = PTAH_ITEM_BLOCK,
				       .flags = block->flags,
				       .mode = block->mode,
				       .insn_class = block->insn_class,
				       .ninsn = block->ninsn,
				       .last_size = block->last_size,
				       .ip = block->ip,
				       .end = block->ip + block->size,
				       .code.space = block->space};
	struct outcomes *o = &s->kept;
	struct ptah_insn insns[255];
	struct outcome_code code = {.space = block->ip >> 63 ? OUTCOMES_KERNEL : s->number,
				    .ip = block->ip,
				    .version = version,
				    .mode = block->mode,
				    .at = o->byte_count};
	int n = ptah_reader_insns(s->stream, &item, insns, 255);

	for (int i = 0; i < n; i++) {
		if (!LIST_ROOM_FOR(o->bytes, o->byte_count, insns[i].size, s->byte_capacity))
			return false;
		memcpy(o->bytes + o->byte_count, insns[i].bytes, insns[i].size);
		for (unsigned k = 0; k < insns[i].size; k++)
			code.hash = (code.hash ^ insns[i].bytes[k]) * UINT64_C(0x100000001b3);
		o->byte_count += insns[i].size;
	}
	code.size = (uint16_t)(o->byte_count - code.at);
	if (!code.size)
		return true; /* the image has changed since */
	if (!LIST_ROOM(o->code, o->code_count, s->code_capacity))
		return false;
	o->code[o->code_count++] = code;
	return true;
}

bool outcomes_is_file(const char *path, uint64_t ip)
{
	return !(ip >> 63) && ptah_path_is_file(path);
}

static bool is_in_file(const struct stream_state *s, uint64_t ip, uint64_t version)
{
	struct ptah_map map;

	return ptah_session_find_map(s->reading->session, s->number, ip, ptah_version_time(version),
				     &map) &&
	       outcomes_is_file(map.path, ip);
}

/* Moves what was counted of a block to the list of the stream's branches. */
static bool list_branch(struct stream_state *s, struct seen *e)
{
	struct outcomes *o = &s->kept;

	if (!e->has_branch)
		return true;
	if (!LIST_ROOM(o->branches, o->branch_count, s->branch_capacity))
		return false;
	o->branches[o->branch_count++] = (struct outcome){
	    .space = ptah_reader_space(s->stream, e->space_size >> 16),
	    .ip = e->ip + (e->space_size & UINT16_MAX) - e->last_size,
	    .version = e->version,
	    .executed = e->executed,
	    .taken = e->taken,
	    .missed = e->missed,
	    .missed_taken = e->missed_taken,
	};
	return true;
}

/* The code has changed since the block ran last, which may be another one now. */
static bool renew(struct stream_state *s, struct seen *seen, const struct ptah_block *block)
{
	const uint64_t version =
	    ptah_reader_version(s->stream, block->space, block->ip, block->mode);

	if (seen->used && seen->version == version) {
		seen->generation = s->generation;
		return true;
	}
	if (!list_branch(s, seen))
		return false;
	*seen = (struct seen){.ip = block->ip,
			      .space_size = (uint32_t)block->space << 16 | block->size,
			      .used = true,
			      .generation = s->generation,
			      .version = version};
	return is_in_file(s, block->ip, version) || keep_outcome_code(s, block, version);
}

/* A block that has not been seen yet. NULL when out of memory. */
static struct seen *add_seen_block(struct stream_state *s, const struct ptah_block *block,
				   uint32_t space_size)
{
	struct seen *seen;

	if (2 * s->count >= s->capacity && !grow(s))
		return NULL;
	seen = slot(s, block->ip, space_size);
	if (!renew(s, seen, block))
		return NULL;
	s->count++;
	return seen;
}

static bool take_outcome_block(struct stream_state *s, const struct ptah_block *block)
{
	const uint32_t space_size = (uint32_t)block->space << 16 | block->size;
	struct seen *seen;
	bool taken, missed;

	if (block->space != s->space) {
		s->space = block->space;
		s->number = ptah_reader_space(s->stream, block->space);
	}
	seen = s->capacity ? slot(s, block->ip, space_size) : NULL;
	if (!seen || !seen->used) {
		seen = add_seen_block(s, block, space_size);
		if (!seen)
			return false;
	}
	if (UNLIKELY(seen->generation != s->generation) && !renew(s, seen, block))
		return false;
	if (block->insn_class != PTAH_INSN_COND ||
	    block->flags & (PTAH_ITEM_UNKNOWN | PTAH_ITEM_TRUNCATED))
		return true;
	taken = block->flags & PTAH_ITEM_TAKEN;
	seen->has_branch = true;
	seen->last_size = block->last_size;
	seen->executed++;
	seen->taken += taken;
	missed = predictor_step(&s->predictor, block->ip + block->size - block->last_size, taken);
	seen->missed += missed;
	seen->missed_taken += missed && taken;
	return true;
}

/* Makes the list of the stream's branches. */
static bool list_outcome_branches(struct stream_state *s)
{
	for (size_t i = 0; i < s->capacity; i++)
		if (s->seen[i].used && !list_branch(s, &s->seen[i]))
			return false;
	return true;
}

static int by_outcome_place(const void *a, const void *b)
{
	const struct outcome *x = a, *y = b;

	return COMPARE_THEN(x->space, y->space,
			    COMPARE_THEN(x->ip, y->ip, COMPARE(x->version, y->version)));
}

static int by_code_place(const void *a, const void *b)
{
	const struct outcome_code *x = a, *y = b;

	if (x->space != y->space)
		return x->space < y->space ? -1 : 1;
	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	/* Not by `at`, which depends on which thread was the first. */
	return COMPARE(x->hash, y->hash);
}

/* Adds up branches of the same place. */
static void sum_branches(struct outcomes *o)
{
	size_t last = 0;

	if (!o->branch_count)
		return;
	qsort(o->branches, o->branch_count, sizeof(*o->branches), by_outcome_place);
	for (size_t i = 1; i < o->branch_count; i++) {
		struct outcome *to = &o->branches[last];
		const struct outcome *from = &o->branches[i];

		if (by_outcome_place(to, from)) {
			o->branches[++last] = *from;
			continue;
		}
		to->executed += from->executed;
		to->taken += from->taken;
		to->missed += from->missed;
		to->missed_taken += from->missed_taken;
	}
	o->branch_count = last + 1;
}

/* Drops code that another stream has run as well. */
static int drop_copies(struct outcomes *o)
{
	uint8_t *bytes = malloc(o->byte_count + 1);
	size_t used = 0, n = 0;

	if (!bytes)
		return PTAH_E_NOMEM;
	if (o->code_count)
		qsort(o->code, o->code_count, sizeof(*o->code), by_code_place);
	for (size_t i = 0; i < o->code_count; i++) {
		struct outcome_code code = o->code[i];
		const struct outcome_code *last = n ? &o->code[n - 1] : NULL;

		if (last && !by_code_place(last, &code) &&
		    !memcmp(bytes + last->at, o->bytes + code.at, code.size))
			continue;
		memcpy(bytes + used, o->bytes + code.at, code.size);
		code.at = used;
		used += code.size;
		o->code[n++] = code;
	}
	free(o->bytes);
	o->bytes = bytes;
	o->byte_count = used;
	o->code_count = n;
	return 0;
}

static int sum(struct reading *r)
{
	sum_branches(r->outcomes);
	r->summed = r->outcomes->branch_count + r->outcomes->code_count;
	return drop_copies(r->outcomes);
}

/* Appends what a stream gave to what all gave. A thousand runs of one program take the memory of a
 * few: what is equal is summed up whenever the lists have doubled. */
static int append(struct reading *r, const struct outcomes *from)
{
	struct outcomes *into = r->outcomes;
	const size_t branches = into->branch_count + from->branch_count;
	const size_t codes = into->code_count + from->code_count;
	const size_t bytes = into->byte_count + from->byte_count;
	struct outcome *b = reallocarray(into->branches, branches + 1, sizeof(*b));
	struct outcome_code *c;
	uint8_t *d;

	if (!b)
		return PTAH_E_NOMEM;
	into->branches = b;
	c = reallocarray(into->code, codes + 1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	into->code = c;
	d = realloc(into->bytes, bytes + 1);
	if (!d)
		return PTAH_E_NOMEM;
	into->bytes = d;
	if (from->branch_count)
		memcpy(b + into->branch_count, from->branches, from->branch_count * sizeof(*b));
	for (size_t i = 0; i < from->code_count; i++) {
		c[into->code_count + i] = from->code[i];
		c[into->code_count + i].at += into->byte_count;
	}
	if (from->byte_count)
		memcpy(d + into->byte_count, from->bytes, from->byte_count);
	into->branch_count = branches;
	into->code_count = codes;
	into->byte_count = bytes;
	return branches + codes > 2 * r->summed + 4096 ? sum(r) : 0;
}

/* Reports the progress, and learns whether to stop. */
static bool report_outcome_progress(struct stream_state *s, bool is_caller)
{
	struct reading *r = s->reading;
	const uint64_t offset = ptah_reader_offset(s->stream);
	const uint64_t all = atomic_fetch_add(&r->bytes, offset - s->offset) + offset - s->offset;

	s->offset = offset;
	if (is_caller && r->config->progress && !r->config->progress(r->config->context, all))
		atomic_store(&r->stop, true);
	return !atomic_load(&r->stop);
}

static int read_outcome_blocks(struct stream_state *s, bool is_caller)
{
	struct ptah_block blocks[1024];
	struct ptah_item items[16];
	int n;

	do {
		while ((n = ptah_reader_read_blocks(s->stream, blocks, 1024)) > 0) {
			s->generation = ptah_reader_generation(s->stream);
			for (int i = 0; i < n; i++)
				if (!take_outcome_block(s, &blocks[i]))
					return PTAH_E_NOMEM;
			if (!report_outcome_progress(s, is_caller))
				return 0;
		}
		if (n < 0)
			return n;
		n = ptah_reader_read(s->stream, items, 1);
		s->generation = ptah_reader_generation(s->stream);
		if (n > 0 && items[0].type == PTAH_ITEM_BLOCK) {
			const struct ptah_block block = {.ip = items[0].ip,
							 .size =
							     (uint16_t)(items[0].end - items[0].ip),
							 .space = (uint16_t)items[0].code.space,
							 .ninsn = (uint8_t)items[0].ninsn,
							 .insn_class = items[0].insn_class & 15,
							 .last_size = items[0].last_size & 15,
							 .mode = items[0].mode,
							 .flags = items[0].flags};

			if (!take_outcome_block(s, &block))
				return PTAH_E_NOMEM;
		}
	} while (n > 0);
	return n;
}

static int read_outcome_stream(struct reading *r, size_t index, bool is_caller)
{
	struct stream_state *s = calloc(1, sizeof(*s));
	int status = s ? ptah_reader_new(r->session, index, NULL, &s->stream) : PTAH_E_NOMEM;

	if (status >= 0) {
		s->reading = r;
		s->space = UINT_MAX;
		predictor_init(&s->predictor);
		status = read_outcome_blocks(s, is_caller);
		if (status >= 0 && !list_outcome_branches(s))
			status = PTAH_E_NOMEM;
		pthread_mutex_lock(&r->lock);
		if (status >= 0)
			status = append(r, &s->kept);
		pthread_mutex_unlock(&r->lock);
		ptah_reader_free(s->stream);
	}
	if (s) {
		free(s->seen);
		outcomes_free(&s->kept);
	}
	free(s);
	return status;
}

static void work(struct reading *r, bool is_caller)
{
	const size_t streams = ptah_session_streams(r->session);
	size_t i;
	int status;

	while (!atomic_load(&r->stop) && (i = atomic_fetch_add(&r->next, 1)) < streams) {
		if (r->config->wants && !r->config->wants(r->config->context, i))
			continue;
		status = read_outcome_stream(r, i, is_caller);
		if (status < 0) {
			pthread_mutex_lock(&r->lock);
			r->status = status;
			pthread_mutex_unlock(&r->lock);
			atomic_store(&r->stop, true);
		}
	}
}

static void *work_of_thread(void *reading)
{
	work(reading, false);
	return NULL;
}

#define MOST_THREADS 64

int outcomes_read(const struct ptah_session *session, const struct outcomes_config *config,
		  struct outcomes *outcomes)
{
	struct reading r = {.session = session, .config = config, .outcomes = outcomes};
	pthread_t threads[MOST_THREADS];
	size_t streams = ptah_session_streams(session);
	unsigned n = 0;

	memset(outcomes, 0, sizeof(*outcomes));
	pthread_mutex_init(&r.lock, NULL);
	while (n + 1 < config->jobs && n + 1 < streams && n < MOST_THREADS &&
	       !pthread_create(&threads[n], NULL, work_of_thread, &r))
		n++;
	work(&r, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&r.lock);
	if (r.status >= 0)
		r.status = sum(&r);
	if (r.status < 0) {
		outcomes_free(outcomes);
		return r.status;
	}
	for (size_t i = 0; i < outcomes->branch_count; i++) {
		outcomes->executed += outcomes->branches[i].executed;
		outcomes->missed += outcomes->branches[i].missed;
	}
	return 0;
}

void outcomes_free(struct outcomes *o)
{
	free(o->branches);
	free(o->code);
	free(o->bytes);
	memset(o, 0, sizeof(*o));
}
