/* SPDX-License-Identifier: MIT */
/*
 * Pausing. The program stays in the cache, and units write as always, but to chunks that nobody
 * reads (ring.c). So threads, processes and programs that begin meanwhile, code that changes and
 * signals need no care, and tracing goes on within microseconds. The thread's trace ends with
 * TIP.PGD, and goes on with PSB+ and TIP.PGE at the beginning of a chunk.
 */
#include "record/native/runtime/runtime.h"

void pause_follow(struct context *c, uint64_t ip, bool traced)
{
	if (c->paused) {
		ring_resume(c);
		c->log = (uint64_t)packets_psb_disabled(c, (uint8_t *)c->log);
		if (traced)
			c->log = (uint64_t)packets_enable(c, (uint8_t *)c->log, ip);
		return;
	}
	if (traced)
		c->log = (uint64_t)packets_async_disable(c, packets_room(c, ip), ip);
	ring_pause(c);
}
