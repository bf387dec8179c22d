/* SPDX-License-Identifier: MIT */
/* Adds up what each process executed in the stream of a CPU that several processes share. */
#include "base/order.h"
#include "process_shares.h"

#include <stdlib.h>
#include <string.h>

bool shares_has(const struct ptah_stream_info *info)
{
	return info->pid < 0 && info->tid < 0 && info->cpu >= 0;
}

static int by_share_pid(const void *a, const void *b)
{
	const struct process_share *x = a, *y = b;

	return COMPARE(x->pid, y->pid);
}

int shares_list(const struct ptah_session *session, size_t stream, struct ptah_profile *profile,
		struct process_share **shares, size_t *count)
{
	struct ptah_profile_block *blocks;
	size_t n, last = 0;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	*count = 0;
	*shares = calloc(n + 1, sizeof(**shares));
	for (size_t i = 0; *shares && i < n; i++)
		(*shares)[i] = (struct process_share){
		    .pid = ptah_session_profile_pid(session, stream, profile, blocks[i].space),
		    .instructions = blocks[i].count * blocks[i].ninsn};
	free(blocks);
	if (!*shares)
		return PTAH_E_NOMEM;
	qsort(*shares, n, sizeof(**shares), by_share_pid);
	for (size_t i = 1; i < n; i++) {
		if ((*shares)[last].pid == (*shares)[i].pid)
			(*shares)[last].instructions += (*shares)[i].instructions;
		else
			(*shares)[++last] = (*shares)[i];
	}
	*count = n ? last + 1 : 0;
	for (size_t i = 0; i < *count; i++) {
		struct ptah_thread who = {.comm = ""};

		ptah_session_space(session, (*shares)[i].pid, &who);
		memcpy((*shares)[i].comm, who.comm, sizeof(who.comm));
	}
	return 0;
}
