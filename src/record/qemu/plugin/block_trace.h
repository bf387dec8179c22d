/* SPDX-License-Identifier: MIT */
/*
 * What the files that make the trace share: block_trace.c, crossings.c, fatal_signal.c,
 * thread_clock.c, threads.c and signal_frame.c.
 */
#ifndef PTAH_RECORD_QEMU_PLUGIN_BLOCK_TRACE_H
#define PTAH_RECORD_QEMU_PLUGIN_BLOCK_TRACE_H

#include "record/qemu/plugin/plugin.h"

#include "base/compiler.h"
#include "base/path_hash.h"

#define PLUGIN_VCPUS 65536

/*
 * These are read for each block that runs. They are hidden, so that their addresses need not be
 * loaded from the global offset table.
 */
#pragma GCC visibility push(hidden)
/* threads.c: the thread of each vcpu; NULL: it has not begun */
extern struct shared_thread *plugin_threads[PLUGIN_VCPUS];
/* Stands for threads that are not traced; its `prev` is always the sentinel. */
extern struct shared_thread plugin_untraced;
extern const struct block plugin_sentinel; /* `prev` of a thread in the kernel */
#pragma GCC visibility pop

static inline struct shared_thread *plugin_thread(unsigned vcpu)
{
	return plugin_threads[vcpu % PLUGIN_VCPUS];
}

/* Whether the processor has to see every branch. */
static inline bool plugin_is_general(const struct shared_thread *t)
{
	const struct shared_header *h = plugin.shared;

	return t->timed || h->filter_count || h->mark_loops;
}

static inline bool plugin_in_kernel(const struct shared_thread *t)
{
	return t->prev == &plugin_sentinel;
}

/* Begins the thread's trace at `ip`. env: QEMU's CPU state. */
void plugin_begin_thread(unsigned vcpu, const uint64_t *env, uint64_t ip);
/* The thread continues untraced. */
void plugin_end_trace(struct shared_thread *t, unsigned vcpu);
bool plugin_unpark(struct shared_thread *t);

/* thread_clock.c */
uint64_t plugin_clock(const struct shared_thread *t);
void plugin_publish_clock(uint64_t time);
void plugin_lift_clock(struct shared_thread *t, uint64_t time);
uint64_t plugin_perf_guess(const struct shared_thread *t, uint64_t now);
void plugin_pass_measured_time(struct shared_thread *t);

static inline void plugin_pass_time(struct shared_thread *t)
{
	if (t->timed)
		plugin_pass_measured_time(t);
}

/* signal_frame.c */
struct signal_frame {
	uint64_t ip; /* where the program was interrupted */
	bool synchronous;
};

bool plugin_check_registers(const uint64_t *env);
bool plugin_signal_frame(const uint64_t *env, struct signal_frame *frame);

/* crossings.c */
void plugin_place_psb(struct shared_thread *t, uint64_t time);
void plugin_leave(struct shared_thread *t, unsigned kind, uint64_t ip);
void plugin_leave_by(struct shared_thread *t, const struct block *b);
void plugin_reach(struct shared_thread *t, uint64_t time);
void plugin_enter(struct shared_thread *t, const struct block *b);
bool plugin_return(struct shared_thread *t, const struct block *cur);
bool plugin_is_recalled(struct shared_thread *t);
void plugin_pause(struct shared_thread *t);
bool plugin_heed(struct shared_thread *t);

/* block_trace.c */
void plugin_account_part(struct shared_thread *t, unsigned n, uint64_t ip);
bool plugin_end_by_signal(struct shared_thread *t, const struct signal_frame *frame);

/*
 * fatal_signal.c. The process begins with the instruction at `ip`; trusted: `env` leads to the
 * registers.
 */
void plugin_check_end(const uint64_t *env, uint64_t ip, bool trusted);
/* Keeps the CPU state of the thread that runs. */
void plugin_own_thread(unsigned vcpu, const uint64_t *env);

/* Closes the current run if execution does not continue at its end. */
static ALWAYS_INLINE void plugin_account_run(struct shared_state *s, uint64_t end, uint64_t next)
{
	if (next != end) {
		if (s->run_start != end)
			s->hash = path_hash_mix(s->hash, s->run_start, end);
		s->run_start = next;
	}
	s->next_ip = next;
}

#endif
