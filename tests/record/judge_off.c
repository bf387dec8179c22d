/* SPDX-License-Identifier: MIT */
/*
 * Compares the time that threads were off their processors with their own log: judge_off RECORDING
 * LOG. A line of the log is of a thread: its number, RDTSC at the beginning and at the end, and in
 * nanoseconds how long it has asked to sleep, and how long it ran and did not run by the kernel's
 * clocks. 77: this kernel does not say when threads run.
 */
#include <ptah/session.h>

#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TSC_MASK ((UINT64_C(1) << 56) - 1)

static bool is_allowed(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .context_switch = 1};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0;
}

int main(int argc, char **argv)
{
	uint64_t begin, end, slept, ran, idle, off, preempted;
	struct ptah_session *session;
	struct ptah_message why;
	uint32_t mult, shift;
	int tid, lines = 0, wrong = 0;
	FILE *log;

	if (argc < 3 || ptah_session_open(argv[1], NULL, &session, &why) < 0 ||
	    !ptah_session_time_scale(session, &mult, &shift) || !(log = fopen(argv[2], "r")))
		return 2;
	if (ptah_session_time_off(session, -1, 0, UINT64_MAX, &off, &preempted) < 0) {
		printf("no switches are recorded\n");
		return is_allowed() ? 1 : 77;
	}
	for (; fscanf(log, "%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &tid,
		      &begin, &end, &slept, &ran, &idle) == 6;
	     lines++) {
		ptah_session_time_off(session, tid, begin & TSC_MASK, end & TSC_MASK, &off,
				      &preempted);
		off = (uint64_t)((unsigned __int128)off * mult >> shift);
		preempted = (uint64_t)((unsigned __int128)preempted * mult >> shift);
		printf("thread %d: slept %" PRIu64 ", ran %" PRIu64 ", did not %" PRIu64
		       "; recorded: off %" PRIu64 ", preempted %" PRIu64 "\n",
		       tid, slept, ran, idle, off, preempted);
		/* The kernel's clock of a thread stands still in interrupts, too. */
		wrong += off < slept - slept / 20 || off > idle + (ran + idle) / 20;
		/* It did not sleep while it was preempted. */
		wrong += preempted > off || off - preempted < slept - slept / 20;
	}
	fclose(log);
	ptah_session_close(session);
	return wrong || !lines;
}
