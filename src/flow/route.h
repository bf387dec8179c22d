/* SPDX-License-Identifier: MIT */
/*
 * The way that the outcomes of one TNT packet take through the code, found by
 * the flow's own rules and told node by node: what profile/ and paths.c remember.
 */
#ifndef PTAH_FLOW_ROUTE_H
#define PTAH_FLOW_ROUTE_H

#include "flow/flow_machine.h"

/* Calls of one packet that are still open at its end: more are the flow's. */
#define ROUTE_PUSHES 12

enum route_stop {
	ROUTE_SPENT,  /* all outcomes are used */
	ROUTE_RETURN, /* at a compressed return from before the packet */
	ROUTE_BRANCH, /* at a branch that needs a TIP */
	ROUTE_LOST,   /* unmapped code, a loop without packets, too many calls */
};

/* A node that is passed; `taken` of a conditional branch, `to` of a return (else NULL). */
typedef void route_visit(void *context, const struct code_node *node, bool taken,
			 const uint64_t *to);

struct route {
	struct ptah_flow *flow;
	struct code_node *node; /* where it stops; NULL: at `ip`, not mapped or not looked up */
	uint64_t ip;
	unsigned mode;
	unsigned left; /* outcomes */
	/* Of the call stack, unless it does not matter. */
	bool no_stack;
	unsigned pushes, reach; /* open calls, and how many they were at most */
	struct code_node *calls[ROUTE_PUSHES];
	route_visit *visit; /* or NULL */
	void *context;
};

/* The node we stand at; NULL: not mapped. */
struct code_node *route_here(struct route *r);

/* Along direct branches to the one that decides. */
bool route_pass_chain(struct route *r);

/* Spends a payload: outcomes, oldest first, below a stop bit. */
enum route_stop route_spend(struct route *r, unsigned payload);

/* The branch at the end of a chain takes a TIP: what it does to the stack. False: not ours. */
bool route_take_tip(struct route *r, bool *pops);

#endif
