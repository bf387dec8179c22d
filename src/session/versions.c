/* SPDX-License-Identifier: MIT */
/* Keeps the versions of the processes of a session (versions.h). */
#include "session/versions.h"

#include "base/compiler.h"
#include "session/session.h"
#include "support/keyed.h"

#include <ptah/calls.h>

#include <pthread.h>
#include <stdlib.h>

/* No process and no address space has such a number. */
#define FIRST_SPACE 0x40000000

#define MAX_VERSIONS (UINT16_MAX - PTAH_CALLS_VERSION)

struct version {
	uint64_t space, identity; /* the key */
	uint64_t tsc;
};

struct versions {
	pthread_mutex_t lock;
	struct keyed list;
};

struct versions *versions_new(void)
{
	struct versions *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->list.row_size = sizeof(struct version);
	v->list.key_size = offsetof(struct version, tsc);
	v->list.most = MAX_VERSIONS;
	if (pthread_mutex_init(&v->lock, NULL)) {
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
	keyed_free(&v->list);
	free(v);
}

uint16_t versions_number(struct versions *v, int32_t space, uint64_t identity, uint64_t tsc)
{
	const struct version version = {(uint32_t)space, identity, tsc};
	uint32_t number;
	bool is_new;

	pthread_mutex_lock(&v->lock);
	number = keyed_number(&v->list, &version, &is_new);
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
	if ((size_t)(*space - FIRST_SPACE) <= v->list.count) {
		const struct version *version =
		    keyed_row(&v->list, (uint32_t)(*space - FIRST_SPACE));

		*space = (int32_t)version->space;
		*tsc = version->tsc;
	}
	pthread_mutex_unlock(&v->lock);
}
