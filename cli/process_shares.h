/* SPDX-License-Identifier: MIT */
/* What each process executed in the stream of a CPU that several processes share. */
#ifndef PTAH_CLI_PROCESS_SHARES_H
#define PTAH_CLI_PROCESS_SHARES_H

#include <ptah/session.h>

struct process_share {
	int32_t pid; /* -1: not known; less: an address space */
	char comm[16];
	uint64_t instructions;
};

/* Whether it is the stream of a CPU that several processes share. */
bool shares_has(const struct ptah_stream_info *info);

/* Lists each process once, in the order of their pids. The caller frees *shares. 0 or an error. */
int shares_list(const struct ptah_session *session, size_t stream, struct ptah_profile *profile,
		struct process_share **shares, size_t *count);

#endif
