/* SPDX-License-Identifier: MIT */
/*
 * The difference of two recordings: what their functions and the paths of their calls took, next to
 * each other. Functions belong together by their names and those of their objects; objects that are
 * versions of one are matched as `ptah diff` does. The calls are read when they are first asked
 * for.
 */
#ifndef PTAH_VIEW_DIFFERENCE_H
#define PTAH_VIEW_DIFFERENCE_H

#include "export/row_ids.h"
#include "output/call_graph.h"
#include "output/diff.h"
#include "view/model.h"

#include <pthread.h>

/* All 0: it was not called. */
struct difference_sums {
	uint64_t count;
	struct ptah_call_figures inclusive, self;
};

/* A function of either recording; functions of one object with one name are added up. Texts belong
 * to the graphs. */
struct difference_key {
	const char *name;   /* "[unknown]" if it has none */
	const char *object; /* its file without folders; "" */
	struct difference_sums sums[VIEW_SIDES];
};

/* A path of calls in one direction. */
struct difference_node {
	uint32_t key, parent; /* UINT32_MAX: none */
	struct difference_sums sums[VIEW_SIDES];
};

/* Directions: GRAPH_DOWN and GRAPH_UP. */
struct difference {
	struct view_model *model;
	pthread_mutex_t lock;
	bool made;
	int status;
	struct call_graph *graphs[VIEW_SIDES][2];
	struct diff pairs; /* which objects belong together */
	struct difference_key *keys;
	uint32_t key_count;
	size_t key_room;
	struct difference_node *nodes[2]; /* parents first */
	uint32_t node_count[2];
	size_t node_room[2];
};

int difference_new(struct view_model *model, struct difference **difference);
void difference_free(struct difference *difference);

/* Takes the lock, and reads the calls of both recordings if nobody has. 0 or an error; then
 * difference_unlock() in both cases. */
int difference_lock(struct difference *difference);
void difference_unlock(struct difference *difference);

#endif
