/* SPDX-License-Identifier: MIT */
/*
 * The recorder native: puts the runtime into a command, takes what it and its children write into
 * the shared memory, and finishes each thread's trace, whichever way its process ends.
 */
#include "record/native/native.h"

#include "support/monotonic.h"
#include "record/native/check.h"
#include "record/native/inject.h"
#include "record/native/seccomp.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVE_NS (INT64_C(1) * 1000000000) /* what is seized is waited for at the end */

/* Nobody is interrupted any more. */
static void end_pauses(struct recording *r)
{
	r->pauses.over = true;
	pauses_end(&r->pauses, 0);
}

void native_leave(struct recording *r)
{
	const int64_t end = monotonic_ns() + LEAVE_NS;

	end_pauses(r);
	for (unsigned i = 0; i < r->memory_count; i++)
		lifeline_cut(r->memories[i].lifeline);
	while (!native_release_seized(r) && monotonic_ns() < end && !recorder_is_late(r->r))
		;
}

/* What did not stop in time when the recording ended is let go when it does. */
static void look_after(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	native_release_seized(r);
	pauses_follow(&r->pauses);
}

/* Until all threads have done so, or cannot for some time. */
static void pause_threads(struct recording *r, bool on)
{
	pauses_set(&r->pauses, on);
	while (!pauses_follow(&r->pauses) && !pauses_are_late(&r->pauses) &&
	       !recorder_is_late(r->r))
		native_drain(r, NATIVE_POLL_MS);
	native_drain(r, 0);
}

static void finish_threads(struct recording *r)
{
	native_take_calls(r);
	STREAMS_EACH (r->streams, i)
		if (r->streams->list[i].used)
			native_finish_thread(r, i, 0);
}

/*
 * What still runs pauses for good: each thread's trace ends at a head, and what it runs from there
 * on is written where nobody reads. A thread that cannot pause now, because it is stopped or traced
 * by somebody else, ends at the last packet that is seen whole. As long as something is taken the
 * recorder is alive for the programs: a thread that finds no free chunk waits, and overwrites none
 * that has not been taken.
 */
static int take_rest(struct recording *r)
{
	if (!native_is_attached(r))
		pause_threads(r, true);
	end_pauses(r);
	native_drain(r, 0);
	native_drain(r, 0); /* again, for processes that died during the first */
	native_let_all_go(r);
	r->rest_taken = true;
	native_take_time(r);
	finish_threads(r);
	native_drain(r, 0); /* messages with the code of what was taken last, sent before it ran */
	finish_threads(r);  /* of which messages said that they have begun */
	call_samples_write_kept(&r->calls, r->r);
	native_leave(r);
	/* One that is dead is still in the list if a round has left trace of it. */
	for (size_t i = 0; i < r->processes.count; i++)
		if (r->processes.list[i].pid != r->pid && !r->processes.list[i].dead)
			recorder_note(r->r,
				      "process %d (%s) still ran when the recording ended: what "
				      "followed was not recorded",
				      r->processes.list[i].pid, r->processes.list[i].name);
	for (size_t i = 0; i < r->processes.count; i++)
		process_tell_end(&r->processes.list[i], r->r);
	return r->r->error;
}

/* Whether the command has ended. */
static bool has_ended(struct recording *r)
{
	pid_t pid;

	if (!r->pid)
		return true;
	pid = waitpid(r->pid, &r->r->status.wait_status, WNOHANG);
	if (pid != r->pid && (pid >= 0 || errno == EINTR))
		return false;
	if (pid == r->pid && WIFSTOPPED(r->r->status.wait_status))
		return false;
	r->pid = r->r->status.pid = 0;
	return true;
}

static int poll_command(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	const int64_t end = monotonic_ns() + timeout_ms * INT64_C(1000000);

	do {
		if (native_is_attached(r) && native_all_over(r))
			return take_rest(r);
		/* A process that is traced is waited for by inject_exec() or pauses.c alone. */
		if (!native_is_attached(r) && !native_is_seized(r, r->pid) &&
		    !pauses_traces(&r->pauses, r->pid) && has_ended(r))
			return take_rest(r);
		native_drain(r, NATIVE_POLL_MS);
		if (r->refused)
			return RECORDER_REFUSED;
		if (recorder->error < 0) {
			native_leave(r);
			return recorder->error;
		}
		if (recorder_is_full(recorder))
			return 1; /* ptah_recorder_poll() ends the recording */
	} while (monotonic_ns() < end);
	return 1;
}

static int stop(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	return r->rest_taken ? 0 : take_rest(r);
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	struct recording *r = recorder->self;

	if (!on)
		native_hold_switches(r, false);
	pause_threads(r, on);
	native_hold_switches(r, on);
	return recorder->error;
}

static int start(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	struct native_memory *memory;
	struct inject_memory given;
	struct ptah_message why = {""};
	int status;

	if (native_is_attached(r))
		return native_start_attached(recorder);
	status = inject_start(recorder->config.target.argv, &r->pid, &recorder->late, &why);
	if (status < 0) {
		r->pid = 0;
		return recorder_fail(recorder, PTAH_RECORD_NO_TARGET, status, "%s", why.text);
	}
	recorder->status.pid = r->pid;
	memory = native_memory_of(r, r->pid);
	if (!memory)
		return recorder_fail(recorder, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
				     "%s was killed before its first instruction", r->name);
	given = native_memory_for(memory, 0);
	given.filters = native_seccomp_filters(r->pid);
	native_add_process(r, r->pid, getpid(), r->name, memory);
	/* A time before that of any packet: decoders look for code by time. */
	native_take_time(r);
	native_wrote(
	    r, perfdata_write_comm(native_writer(r), r->pid, r->pid, r->last_tsc, true, r->name));
	native_write_maps(r, r->pid, r->last_tsc, 0, UINT64_MAX);
	native_follow_switches(r, r->pid);
	status = inject_runtime(r->pid, &given, &why);
	if (status < 0)
		return recorder_fail(recorder, PTAH_RECORD_NOT_POSSIBLE, status, "%s", why.text);
	return recorder->error;
}

static int take_snapshot(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	native_drain(r, 0);
	native_write_ends(r);
	return recorder->error;
}

const struct recorder_backend recorder_native = {
    .kind = PTAH_RECORDER_NATIVE,
    .check = native_check,
    .open = native_open,
    .start = start,
    .poll = poll_command,
    .pause = set_paused,
    .snapshot = take_snapshot,
    .stop = stop,
    .close = native_close,
    .look_after = look_after,
    .timer = true,
};
