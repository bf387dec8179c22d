/* SPDX-License-Identifier: MIT */
/* See haste.h. */
#include "record/haste.h"

#include "support/monotonic.h"

#include <errno.h>
#include <sched.h>
#include <sys/wait.h>

/* Most processes that are waited for stop at once. The nap is short beside what they do next. */
#define SPINS	   50  /* looks before the first nap */
#define LOOKS	   150 /* at least: what is about to happen is not given up for haste */
#define NAP_NS	   50000
#define NAP_MAX_NS 5000000

bool haste_is_late(const int64_t *late)
{
	const int64_t from = late ? __atomic_load_n(late, __ATOMIC_ACQUIRE) : 0;

	return from && monotonic_ns() > from;
}

void haste_nap(unsigned *looks)
{
	const unsigned naps = *looks > SPINS ? *looks - SPINS : 0;
	struct timespec nap = {.tv_nsec = naps < 10 ? NAP_NS : (int64_t)NAP_NS / 10 * naps};

	if (nap.tv_nsec > NAP_MAX_NS)
		nap.tv_nsec = NAP_MAX_NS;
	if (++*looks < SPINS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

pid_t haste_waitpid(pid_t pid, int *status, int options, const int64_t *late)
{
	unsigned looks = 0;
	pid_t got;

	while (!(got = waitpid(pid, status, options | WNOHANG)) || (got < 0 && errno == EINTR)) {
		if (looks > LOOKS && haste_is_late(late))
			return 0;
		haste_nap(&looks);
	}
	return got;
}
