/* SPDX-License-Identifier: MIT */
/* Which thread runs on which CPU, and since when: handles the records of context switches. */
#include "session/absences.h"
#include "session/records.h"
#include "support/list.h"

static struct cpu *cpu_of(struct ptah_session *s, int32_t number)
{
	size_t i = table_get(&s->cpus_by_number, (uint32_t)number);

	if (i != SESSION_NONE)
		return &s->cpus[i];
	if (!LIST_ROOM(s->cpus, s->cpu_count, s->cpu_capacity))
		return NULL;
	if (table_set(&s->cpus_by_number, (uint32_t)number, s->cpu_count) < 0)
		return NULL;
	s->cpus[s->cpu_count] = (struct cpu){.stream = SESSION_NONE};
	return &s->cpus[s->cpu_count++];
}

size_t session_cpu_of(struct ptah_session *s, int32_t number)
{
	const struct cpu *cpu = cpu_of(s, number);

	return cpu ? (size_t)(cpu - s->cpus) : SESSION_NONE;
}

/*
 * Finds the process of a turn at this time. A pid of -1 is replaced by that of the thread, if it is
 * known.
 */
static int name_turn(struct ptah_session *s, struct turn *turn)
{
	struct process *p;

	if (turn->pid < 0 && turn->tid >= 0) {
		size_t i = table_get(&s->threads_by_tid, (uint32_t)turn->tid);

		turn->pid = i != SESSION_NONE ? s->threads[i].pid : turn->tid ? -1 : 0;
	}
	turn->process = SESSION_NONE;
	if (turn->pid <= 0)
		return 0;
	p = session_process_of(s, turn->pid);
	if (!p)
		return PTAH_E_NOMEM;
	turn->process = (size_t)(p - s->processes);
	return 0;
}

/* Where the thread's last turn is kept, made if there is none. NULL: out of memory. */
static struct last_turn *last_of(struct ptah_session *s, int32_t tid)
{
	const size_t i = table_get(&s->last_by_tid, (uint32_t)tid);

	if (i != SESSION_NONE)
		return &s->last_turns[i];
	if (!LIST_ROOM(s->last_turns, s->last_turn_count, s->last_turn_capacity))
		return NULL;
	s->last_turns[s->last_turn_count] = (struct last_turn){SESSION_NONE, SESSION_NONE};
	if (table_set(&s->last_by_tid, (uint32_t)tid, s->last_turn_count) < 0)
		return NULL;
	return &s->last_turns[s->last_turn_count++];
}

static int append_turn(struct ptah_session *s, struct cpu *cpu, struct turn *turn)
{
	struct last_turn *last = turn->tid > 0 ? last_of(s, turn->tid) : NULL;

	if (!LIST_ROOM(cpu->turns, cpu->count, cpu->capacity) || (turn->tid > 0 && !last))
		return PTAH_E_NOMEM;
	turn->cpu_before = last ? last->cpu : SESSION_NONE;
	turn->before = last ? last->number : SESSION_NONE;
	if (last)
		*last = (struct last_turn){(size_t)(cpu - s->cpus), cpu->gone + cpu->count};
	cpu->turns[cpu->count++] = *turn;
	return 0;
}

/* Whether the thread has run on another CPU since this turn, the last one of its CPU. */
static bool was_elsewhere(const struct ptah_session *s, const struct cpu *cpu,
			  const struct turn *turn)
{
	const size_t i =
	    turn->tid > 0 ? table_get(&s->last_by_tid, (uint32_t)turn->tid) : SESSION_NONE;

	return i != SESSION_NONE && &s->cpus[s->last_turns[i].cpu] != cpu;
}

static int add_turn(struct ptah_session *s, struct cpu *cpu, struct turn turn)
{
	struct turn *last = cpu->count ? &cpu->turns[cpu->count - 1] : NULL;
	int status = name_turn(s, &turn);

	if (status < 0)
		return status;
	if (last && last->pid == turn.pid && last->tid == turn.tid &&
	    last->process == turn.process && !was_elsewhere(s, cpu, last)) {
		/*
		 * A switch has two records: of the thread that leaves, and of the one that arrives.
		 */
		if (cpu->comes)
			last->tsc = turn.tsc;
		return 0;
	}
	return append_turn(s, cpu, &turn);
}

static int on_leave(struct ptah_session *s, struct cpu *cpu, const struct perfdata_record *r,
		    uint64_t tsc)
{
	const struct turn first = {.pid = r->pid, .tid = r->tid};
	/* The first thread to leave ran from the beginning. */
	int status = cpu->count ? 0 : add_turn(s, cpu, first);

	/* If the record lacks the other thread's number, that thread is not traced. */
	cpu->has_left = r->ptid < 0;
	cpu->left = tsc;
	if (status < 0 || cpu->has_left)
		return status;
	cpu->comes = false;
	status = add_turn(s, cpu,
			  (struct turn){.from = tsc, .tsc = tsc, .pid = r->ppid, .tid = r->ptid});
	cpu->comes = true;
	return status;
}

static int on_come(struct ptah_session *s, struct cpu *cpu, const struct perfdata_record *r,
		   uint64_t tsc)
{
	uint64_t from = cpu->has_left ? cpu->left : tsc;
	int status = 0;

	/*
	 * The first thread of which a record exists. Without the other thread's number only threads
	 * that are traced have records, so none of them ran here before: all trace is this one's.
	 */
	if (!cpu->count && !cpu->has_left && r->ptid < 0)
		from = tsc = 0;

	if (!cpu->count && r->ptid >= 0)
		status = add_turn(s, cpu, (struct turn){.pid = r->ppid, .tid = r->ptid});
	if (status >= 0)
		status = add_turn(
		    s, cpu, (struct turn){.from = from, .tsc = tsc, .pid = r->pid, .tid = r->tid});
	cpu->comes = cpu->has_left = false;
	return status;
}

int session_on_switch(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct cpu *cpu;
	int status = r->type == PERFDATA_SWITCH ? absences_take(s, r, tsc) : 0;

	/*
	 * A recorder that stamps its trace has a stream for each thread, whose own switches (SWITCH)
	 * say nothing of streams.
	 */
	if (status < 0 || r->cpu < 0 ||
	    (s->time_source == PERFDATA_TIME_STAMPED && r->type == PERFDATA_SWITCH))
		return status;
	cpu = cpu_of(s, r->cpu);
	if (!cpu)
		return PTAH_E_NOMEM;
	return r->out ? on_leave(s, cpu, r, tsc) : on_come(s, cpu, r, tsc);
}

int session_on_start(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct cpu *cpu;

	if (r->tid > 0 && !session_thread_of(s, r->pid, r->tid))
		return PTAH_E_NOMEM;
	if (r->cpu < 0)
		return 0;
	cpu = cpu_of(s, r->cpu);
	if (!cpu)
		return PTAH_E_NOMEM;
	if (!cpu->count)
		tsc = 0;
	return add_turn(s, cpu,
			(struct turn){.from = tsc, .tsc = tsc, .pid = r->pid, .tid = r->tid});
}

int session_on_set_switch(struct ptah_session *s, const struct ptah_trace_switch *change)
{
	const uint64_t tsc = change->tsc;
	struct cpu *cpu = cpu_of(s, change->cpu);

	if (!cpu)
		return PTAH_E_NOMEM;
	if (change->pid > 0 && change->tid > 0 && !session_thread_of(s, change->pid, change->tid))
		return PTAH_E_NOMEM;
	/* What records say of a switch in progress ends here. */
	cpu->comes = cpu->has_left = false;
	return add_turn(
	    s, cpu, (struct turn){.from = tsc, .tsc = tsc, .pid = change->pid, .tid = change->tid});
}
