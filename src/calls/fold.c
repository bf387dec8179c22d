/* SPDX-License-Identifier: MIT */
/*
 * Calls that are too deep for a frame. They are folded into the deepest frame: only the return
 * sites of the newest are kept, to know when execution is back in that frame.
 */
#include "calls/internal.h"

#include <stdlib.h>

void calls_fold(struct calls_machine *m, uint64_t return_site)
{
	if (!m->folded_sites)
		m->folded_sites = calloc(CALLS_FOLDED_SITES, sizeof(*m->folded_sites));
	if (!m->folded_sites) {
		m->status = PTAH_E_NOMEM;
		return;
	}
	m->folded_sites[m->folded++ % CALLS_FOLDED_SITES] = return_site;
	if (m->folded_known < CALLS_FOLDED_SITES)
		m->folded_known++;
	m->top->state |= CALLS_FULL;
	m->top->flags |= PTAH_CALL_FOLDED;
}

static void unfold(struct calls_machine *m, uint32_t n)
{
	m->folded -= n;
	m->folded_known = m->folded_known > n ? m->folded_known - n : 0;
	if (!m->folded)
		calls_forget_folded(m);
}

void calls_forget_folded(struct calls_machine *m)
{
	m->folded = m->folded_known = 0;
	m->top->state &= (uint16_t)~CALLS_FULL;
}

bool calls_return_folded(struct calls_machine *m, uint64_t to)
{
	/* Where the site of the innermost call is forgotten, every return may be that call's. */
	if (!m->folded_known) {
		unfold(m, 1);
		return true;
	}
	for (uint32_t i = 1; i <= m->folded_known && i <= CALLS_NEAR; i++) {
		if (m->folded_sites[(m->folded - i) % CALLS_FOLDED_SITES] == to) {
			unfold(m, i);
			return true;
		}
	}
	return false;
}
