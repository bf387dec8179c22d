/* SPDX-License-Identifier: MIT */
/* Keeps the versions of the processes of a session (versions.h). */
#include "session/versions.h"

#include "base/compiler.h"
#include "session/session.h"
#include "support/list.h"

#include <ptah/calls.h>

#include <pthread.h>
#include <stdlib.h>

/* No process and no address space has such a number. */
#define FIRST_SPACE 0x40000000

#define MAX_VERSIONS (UINT16_MAX - PTAH_CALLS_VERSION)

struct version {
	int32_t space;
	uint64_t identity, tsc;
};

struct versions {
	pthread_mutex_t lock;
	struct version *list;
	size_t count, capacity;
	uint32_t *slots; /* by hash: the index plus 1; 0: free */
	size_t slot_count;
};

struct versions *versions_new(void)
{
	struct versions *v = calloc(1, sizeof(*v));

	if (v && pthread_mutex_init(&v->lock, NULL)) {
		free(v);
		return NULL;
	}
	return v;
}

void versions_free(struct versions *v)
{
	if (!v)
		return;
	pthread_mutex_destroy(&v->lock);
	free(v->list);
	free(v->slots);
	free(v);
}

/* The slot of a version: its own, or a free one. */
static uint32_t *find_slot(const struct versions *v, int32_t space, uint64_t identity)
{
	size_t i = (size_t)(((identity ^ (uint32_t)space) * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (;; i++) {
		uint32_t *slot = &v->slots[i & (v->slot_count - 1)];

		if (!*slot ||
		    (v->list[*slot - 1].space == space && v->list[*slot - 1].identity == identity))
			return slot;
	}
}

/* Makes room for one more. False: out of memory, or there are too many. */
static bool make_room(struct versions *v)
{
	const size_t slots = v->slot_count ? 2 * v->slot_count : 64;
	uint32_t *more;

	if (v->count == MAX_VERSIONS)
		return false;
	if (!LIST_ROOM(v->list, v->count, v->capacity))
		return false;
	if (2 * (v->count + 1) <= v->slot_count)
		return true;
	more = calloc(slots, sizeof(*more));
	if (!more)
		return false;
	free(v->slots);
	v->slots = more;
	v->slot_count = slots;
	for (size_t i = 0; i < v->count; i++)
		*find_slot(v, v->list[i].space, v->list[i].identity) = (uint32_t)i + 1;
	return true;
}

static uint32_t add(struct versions *v, int32_t space, uint64_t identity, uint64_t tsc)
{
	const uint32_t known = v->slot_count ? *find_slot(v, space, identity) : 0;

	if (known)
		return known;
	if (!make_room(v))
		return 0;
	v->list[v->count++] = (struct version){space, identity, tsc};
	return *find_slot(v, space, identity) = (uint32_t)v->count;
}

uint16_t versions_number(struct versions *v, int32_t space, uint64_t identity, uint64_t tsc)
{
	uint32_t number;

	pthread_mutex_lock(&v->lock);
	number = add(v, space, identity, tsc);
	pthread_mutex_unlock(&v->lock);
	return (uint16_t)number;
}

int32_t versions_space(unsigned version)
{
	return FIRST_SPACE + (int32_t)version;
}

void ptah_session_version(const struct ptah_session *s, int32_t *space, uint64_t *tsc)
{
	struct versions *v = s ? s->versions : NULL;

	if (!v || *space <= FIRST_SPACE)
		return;
	pthread_mutex_lock(&v->lock);
	if ((size_t)(*space - FIRST_SPACE) <= v->count) {
		const struct version *version = &v->list[*space - FIRST_SPACE - 1];

		*space = version->space;
		*tsc = version->tsc;
	}
	pthread_mutex_unlock(&v->lock);
}
