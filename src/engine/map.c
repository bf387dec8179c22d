/* SPDX-License-Identifier: MIT */
/*
 * Maps a capture's buffer, and the page for its consumer, into a process, and unmaps them. A slot
 * for the mapping is reserved under the engine's lock, the port is called without the lock, and a
 * capture with a slot in use is not freed.
 */
#include "engine/internal.h"

/* The first slot in this state; of this owner and at this address, where they are not NULL. */
static struct mapping *find(struct ptah_capture *c, unsigned state, const uint64_t *owner,
			    const uint64_t *address)
{
	unsigned n;

	for (n = 0; n < MAX_MAPPINGS; n++) {
		struct mapping *m = &c->mappings[n];

		if (m->state == state && (!owner || m->owner == *owner) &&
		    (!address || m->address == *address))
			return m;
	}
	return NULL;
}

static void lock(struct ptah_engine *engine)
{
	engine->hal->lock(engine->port);
}

/* Under the lock. */
static bool is_mapped(const struct ptah_capture *c)
{
	bool any = false;
	unsigned n;

	for (n = 0; n < MAX_MAPPINGS; n++)
		any |= c->mappings[n].state != MAPPING_FREE;
	return any;
}

bool map_any(struct ptah_capture *c)
{
	bool any;

	lock(c->engine);
	any = is_mapped(c);
	c->engine->hal->unlock(c->engine->port);
	return any;
}

static void dispose(struct ptah_capture *c)
{
	if (c->pool)
		pool_return(c);
	else
		buffer_free(c);
}

/* The port has done its part. If the capture's owner has died meanwhile, the capture is gone
 * afterwards. */
static void set_state(struct ptah_capture *c, struct mapping *m, unsigned state)
{
	bool last;

	lock(c->engine);
	m->state = state;
	last = c->orphan && !is_mapped(c);
	c->engine->hal->unlock(c->engine->port);
	if (last)
		dispose(c);
}

/*
 * Whether the blocks are exactly as large as was requested. The process would see what lies in the
 * rest of a larger one, and the blocks after it at wrong offsets.
 */
static bool maps_exactly(const struct ptah_capture *c)
{
	uint32_t n;

	if (c->topa.nblocks == 1)
		return c->topa.blocks[0].size == c->topa.lap;
	for (n = 0; n < c->topa.nblocks; n++) {
		if (c->topa.blocks[n].size != topa_bytes(&c->topa, n))
			return false;
	}
	return true;
}

static bool is_consumed(const struct ptah_capture *c)
{
	bool any = false;
	unsigned n;

	for (n = 0; n < MAX_MAPPINGS; n++)
		any |= c->mappings[n].state != MAPPING_FREE && c->mappings[n].consumer;
	return any;
}

/* The owner has the buffer mapped already, in the same way. */
static bool is_there(struct ptah_capture *c, const struct mapping *kind, uint64_t *address)
{
	const struct mapping *m;
	bool found = false;
	unsigned n;

	lock(c->engine);
	for (n = 0; n < MAX_MAPPINGS && !found; n++) {
		m = &c->mappings[n];
		found = m->state == MAPPING_USED && !m->page && m->owner == kind->owner &&
			m->writable == kind->writable;
		if (found)
			*address = m->address;
	}
	c->engine->hal->unlock(c->engine->port);
	return found;
}

/* Reserves a slot. There is at most one for a consumer. */
static int reserve(struct ptah_capture *c, const struct mapping *kind, struct mapping **slot)
{
	bool busy;

	lock(c->engine);
	busy = kind->consumer && is_consumed(c);
	*slot = find(c, MAPPING_FREE, NULL, NULL);
	if (*slot && !busy) {
		**slot = *kind;
		(*slot)->state = MAPPING_CHANGING;
	}
	c->engine->hal->unlock(c->engine->port);
	return busy ? PTAH_E_BUSY : *slot ? PTAH_OK : PTAH_E_LIMIT;
}

static int map_slot(struct ptah_capture *c, struct mapping *m, uint64_t *address)
{
	const struct ptah_hal *hal = c->engine->hal;
	const struct ptah_hal_memory *pieces = m->page ? &c->page.memory : c->topa.blocks;
	uint64_t at = 0;
	int status = hal->user_map(c->engine->port, m->owner, pieces, m->page ? 1 : c->topa.nblocks,
				   m->writable, &at);

	m->address = at;
	if (status < 0)
		return status;
	*address = at;
	return PTAH_OK;
}

static int map(struct ptah_capture *c, const struct mapping *kind, uint64_t *address)
{
	struct mapping *m;
	int status;

	if (!c || !address)
		return PTAH_E_INVAL;
	if (!c->engine->hal->user_map || !maps_exactly(c))
		return PTAH_E_UNSUPPORTED;
	status = reserve(c, kind, &m);
	if (status < 0)
		return status;
	if (m->page)
		status = page_begin(c, m->consumer);
	if (status == PTAH_OK) {
		status = map_slot(c, m, address);
		if (status < 0 && m->consumer)
			page_end(c);
	}
	set_state(c, m, status < 0 ? MAPPING_FREE : MAPPING_USED);
	return status;
}

int map_buffer(struct ptah_capture *c, uint64_t owner, bool writable, uint64_t *address, bool *made)
{
	const struct mapping kind = {.owner = owner, .writable = writable};

	*made = !c || !address || !is_there(c, &kind, address);
	return *made ? map(c, &kind, address) : PTAH_OK;
}

int ptah_capture_map(struct ptah_capture *c, uint64_t owner, bool writable, uint64_t *address)
{
	bool made;

	return map_buffer(c, owner, writable, address, &made);
}

int ptah_capture_map_page(struct ptah_capture *c, uint64_t owner, bool consumer, uint64_t *address)
{
	const struct mapping kind = {
	    .owner = owner, .page = true, .writable = consumer, .consumer = consumer};

	/* A drain() is a consumer, too. */
	if (c && consumer && c->drain)
		return PTAH_E_BUSY;
	return map(c, &kind, address);
}

/* Unmaps a slot that the caller has found and set to CHANGING, under the lock. */
static void unmap(struct ptah_capture *c, struct mapping *m)
{
	c->engine->hal->user_unmap(c->engine->port, m->owner, m->address,
				   m->page ? c->page.memory.size : c->topa.lap);
	if (m->consumer)
		page_end(c);
	set_state(c, m, MAPPING_FREE);
}

int ptah_capture_unmap(struct ptah_capture *c, uint64_t owner, uint64_t address)
{
	struct mapping *m;

	if (!c)
		return PTAH_E_INVAL;
	lock(c->engine);
	m = find(c, MAPPING_USED, &owner, &address);
	if (m)
		m->state = MAPPING_CHANGING;
	c->engine->hal->unlock(c->engine->port);
	if (!m)
		return PTAH_E_INVAL;
	unmap(c, m);
	return PTAH_OK;
}

bool map_remove(struct ptah_capture *c, const uint64_t *owner)
{
	struct mapping *m;

	lock(c->engine);
	m = find(c, MAPPING_USED, owner, NULL);
	if (m)
		m->state = MAPPING_CHANGING;
	c->engine->hal->unlock(c->engine->port);
	if (m)
		unmap(c, m);
	return m != NULL;
}

void map_remove_and_free(struct ptah_capture *c)
{
	bool mapped;

	while (map_remove(c, NULL))
		;
	lock(c->engine);
	mapped = c->orphan = is_mapped(c);
	c->engine->hal->unlock(c->engine->port);
	if (!mapped)
		dispose(c);
}

bool map_remove_anywhere(struct ptah_engine *engine, uint64_t owner)
{
	struct ptah_capture *c;
	struct mapping *m = NULL;

	lock(engine);
	for (c = engine->captures; c; c = c->next) {
		m = find(c, MAPPING_USED, &owner, NULL);
		if (m)
			break;
	}
	if (m)
		m->state = MAPPING_CHANGING;
	engine->hal->unlock(engine->port);
	if (m)
		unmap(c, m);
	return m != NULL;
}
