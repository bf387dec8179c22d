/* SPDX-License-Identifier: MIT */
/*
 * Processes that run already: the recorder attaches to them, and lets them and their children go
 * when the recording ends.
 */
#include "record/native/native.h"

#include "perfdata/message.h"
#include "record/native/attach.h"

#include <stdlib.h>

#define EXEC_WAITS 2000 /* times that a program is waited for that is about to execve */

bool native_is_target(const struct recording *r, int32_t pid)
{
	for (size_t i = 0; native_is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			return true;
	return false;
}

void native_set_over(struct recording *r, int32_t pid)
{
	for (size_t i = 0; native_is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			r->targets[i].over = true;
}

void native_set_control(struct recording *r, int32_t pid, uint64_t control)
{
	for (size_t i = 0; native_is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			r->targets[i].control = control;
}

bool native_all_over(const struct recording *r)
{
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over)
			return false;
	return true;
}

/* attach_memory.claim: in the memory; all of them are taken: NATIVE_THREADS. */
static unsigned claim(void *context)
{
	const struct native_memory *memory = context;
	const unsigned slot = native_claim_slot(memory);

	return slot < NATIVE_SLOTS ? slot % NATIVE_THREADS : NATIVE_THREADS;
}

static void give_back(void *context, unsigned slot)
{
	const struct native_memory *memory = context;

	native_give_slot_back(memory->r, native_memory_number(memory) * NATIVE_THREADS + slot);
}

static int attach_to(struct recording *r, size_t target, struct ptah_message *why)
{
	const int32_t pid = r->r->config.target.ids[target];
	struct native_memory *memory = native_memory_of(r, pid);
	struct attach_memory given = {.claim = claim, .give_back = give_back, .context = memory};
	struct attach *a;
	char name[16];
	int status;

	if (!memory)
		return perfdata_message(why, PTAH_E_UNSUPPORTED, NATIVE_MANY_USERS);
	a = attach_hold(pid, &r->r->late, why);
	if (!a)
		return PTAH_E_SYSTEM;
	given.inject = native_memory_for(memory, 0);
	native_read_comm(pid, name);
	native_add_process(r, pid, native_parent_of(pid), name, memory);
	native_take_time(r);
	native_wrote(r, perfdata_write_comm(native_writer(r), pid, pid, r->last_tsc, false, name));
	native_write_maps(r, pid, r->last_tsc, 0, UINT64_MAX);
	native_write_code(r, pid);
	native_follow_switches(r, pid);
	status = attach_put(a, &given, &r->targets[target].control, why);
	if (status < 0)
		processes_remove(&r->processes, r->processes.count - 1);
	return status;
}

int native_start_attached(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	struct ptah_message why = {""};

	r->targets = calloc(recorder->config.target.id_count, sizeof(*r->targets));
	if (!r->targets)
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM,
				     "out of memory");
	r->committed = true;
	for (size_t i = 0; i < recorder->config.target.id_count; i++) {
		const int status = attach_to(r, i, &why);

		if (status < 0)
			return recorder_fail(recorder, PTAH_RECORD_NOT_POSSIBLE, status, "%s",
					     why.text);
		r->attached++;
	}
	return recorder->error;
}

static void serve(void *context)
{
	native_drain(context, 0);
}

/* A process that can be let go; its struct native_control. */
static int32_t find_recorded(const struct recording *r, uint64_t *control)
{
	/* Its threads may not have said anything yet. */
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over && r->targets[i].control) {
			*control = r->targets[i].control;
			return r->r->config.target.ids[i];
		}
	STREAMS_EACH (r->streams, i) {
		const struct native_stream *s = &r->streams->list[i];

		*control = r->controls[i];
		if (s->used && !streams_has_ended(r->streams, i) && !native_is_seized(r, s->pid) &&
		    native_is_recorded(r, s->pid, s->tid))
			return s->pid;
	}
	return 0;
}

static void let_go(struct recording *r, int32_t pid, uint64_t control)
{
	struct detach d = {
	    .pid = pid, .control = control, .late = &r->r->late, .serve = serve, .context = r};
	const struct process *process;

	r->detaching = pid;
	detach_process(&d);
	native_drain(r, 0);
	if (d.stuck)
		recorder_note(r->r,
			      "process %d (%s) is still in %u system calls: it runs on untraced "
			      "when they are done",
			      pid, native_name_of(r, pid), d.stuck);
	process = processes_find(&r->processes, pid);
	if (process)
		native_bury(r, (size_t)(process - r->processes.list));
	r->detaching = 0;
	native_set_over(r, pid);
}

static bool any_execs(const struct recording *r)
{
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over &&
		    (!r->targets[i].control || native_is_seized(r, r->r->config.target.ids[i])))
			return true;
	return false;
}

void native_let_all_go(struct recording *r)
{
	uint64_t control;
	int32_t pid;

	for (unsigned i = 0; i < EXEC_WAITS && any_execs(r) && !recorder_is_late(r->r); i++)
		native_drain(r, NATIVE_POLL_MS);
	while (native_is_attached(r) && (pid = find_recorded(r, &control)))
		let_go(r, pid, control);
}
