/* SPDX-License-Identifier: MIT */
/*
 * The way that the outcomes of one TNT packet take through the code, found by the flow's own rules
 * and reported node by node: this is what the profile and the paths remember.
 */
#ifndef PTAH_FLOW_ROUTE_H
#define PTAH_FLOW_ROUTE_H

#include "flow/flow_machine.h"

/* Calls that one packet may leave open; packets with more are left to the flow. */
#define ROUTE_PUSHES 12

enum route_stop {
	ROUTE_SPENT,  /* all outcomes are used */
	ROUTE_RETURN, /* at a compressed return to a call from before the packet */
	ROUTE_BRANCH, /* at a branch that needs a TIP */
	ROUTE_LOST,   /* unmapped code, a loop without packets, or too many calls */
};

/*
 * Called for each node on the way. `taken` is for a conditional branch, `to` for a return (else
 * NULL).
 */
typedef void route_visit(void *context, const struct code_node *node, bool taken,
			 const uint64_t *to);

struct route {
	struct ptah_flow *flow;
	struct code_node
	    *node; /* where the route has got to; NULL: at `ip`, not mapped or not looked up */
	uint64_t ip;
	unsigned mode;
	unsigned left; /* outcomes not used yet */
	/* The return address stack, unless returns are never compressed. */
	bool no_stack;
	unsigned pushes, reach; /* calls left open, and the most there were at once */
	struct code_node *calls[ROUTE_PUSHES];
	route_visit *visit; /* or NULL */
	void *context;
};

/* The node at the route's place; NULL: not mapped. */
struct code_node *route_here(struct route *r);

/* Follows direct branches up to a deciding one. */
bool route_pass_chain(struct route *r);

/* Uses up a payload: outcomes, oldest first, below a stop bit. */
enum route_stop route_spend(struct route *r, unsigned payload);

/*
 * Applies a TIP to the route's stack. The TIP belongs to the branch at the end of the chain: a call
 * pushes, a return pops. *pops: the return pops a call from before the packet. False: the flow has
 * to carry out the TIP.
 */
bool route_take_tip(struct route *r, bool *pops);

#endif
