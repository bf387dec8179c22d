/* SPDX-License-Identifier: MIT */
/* Finds out whose trace each stream is: the thread, program and process. */
#include "session/records.h"

#include "session/guest.h"

#include <string.h>

static size_t only_process_with_maps(const struct ptah_session *s)
{
	size_t found = SESSION_NONE;

	for (size_t i = 0; i < s->process_count; i++) {
		if (!s->processes[i].has_maps)
			continue;
		if (found != SESSION_NONE)
			return SESSION_NONE;
		found = i;
	}
	return found;
}

/* A stream of which only the process is known gets the name of that process's first thread. */
static void name_by_process(const struct ptah_session *s, struct ptah_stream_info *info)
{
	const size_t i = table_get(&s->threads_by_tid, (uint32_t)info->pid);

	if (i != SESSION_NONE)
		memcpy(info->comm, s->threads[i].comm, sizeof(info->comm));
}

/*
 * Makes the stream follow the threads that ran on its CPU. False: the recording has no switches, or
 * no times.
 */
static bool follow_cpu(const struct ptah_session *s, struct stream *stream)
{
	size_t i = stream->info.cpu < 0 ? SESSION_NONE
					: table_get(&s->cpus_by_number, (uint32_t)stream->info.cpu);

	if (i == SESSION_NONE || !(s->has_clock || s->is_set))
		return false;
	stream->cpu = i;
	return true;
}

/*
 * Whether the context switches of a set name another process on the stream's CPU than the only one
 * whose code is known. A recording has the code of all that it traced, a set may not.
 */
static bool others_ran(const struct ptah_session *s, struct stream *stream, size_t only)
{
	const struct cpu *cpu = s->is_set && follow_cpu(s, stream) ? &s->cpus[stream->cpu] : NULL;

	for (size_t i = 0; cpu && i < cpu->count; i++)
		if (cpu->turns[i].pid > 0 && cpu->turns[i].pid != s->processes[only].pid)
			return true;
	return false;
}

/*
 * Names the stream after the thread's next begin, which it uses up. When all begins are used, the
 * stream belongs to the last one; a thread without any begin gives the stream its pid and name. The
 * stream of a set has all of a thread's trace, and so all of its begins.
 */
static void name_stream(struct ptah_session *s, struct stream *stream, struct thread *t)
{
	struct ptah_stream_info *info = &stream->info;
	const struct begin *begin = t->first == SESSION_NONE ? NULL : &s->begins[t->first];
	const struct program *program;
	bool is_last, has_next;

	if (!begin) {
		info->pid = t->pid;
		memcpy(info->comm, t->comm, sizeof(info->comm));
		return;
	}
	program = &s->programs[begin->program];
	stream->process = program->process;
	stream->first = program->first;
	info->pid = s->processes[program->process].pid;
	is_last = table_get(&s->processes_by_pid, (uint32_t)info->pid) == program->process;
	has_next = begin->next != SESSION_NONE && !s->is_set;
	/*
	 * perf continues tracing through execve without another begin (and with enable_on_exec it
	 * begins just before the execve): so the stream gets the name of the program that ran last.
	 */
	if (is_last && !has_next && t->tid == info->pid) {
		memcpy(info->comm, t->comm, sizeof(info->comm));
		return;
	}
	if ((program->until || !is_last) && begin->program < INT32_MAX - 1)
		info->space = -2 - (int32_t)begin->program;
	/*
	 * If there is another begin, the thread has ended, or its next stream is that of the next
	 * program.
	 */
	if (has_next) {
		stream->last = program->last;
		t->first = begin->next;
	}
	memcpy(info->comm, begin->comm, sizeof(info->comm));
}

void session_take_clue(struct ptah_session *s, const struct perfdata_record *r)
{
	const bool is_switch = r->type == PERFDATA_SWITCH || r->type == PERFDATA_SWITCH_CPU_WIDE;
	int32_t *only = is_switch ? &s->clue.cpu : &s->clue.tid;
	const int32_t number = is_switch ? r->cpu : r->tid;

	if ((!is_switch && r->type != PERFDATA_ITRACE_START) || number < 0 ||
	    (is_switch && s->clue.has_primary && !r->primary))
		return;
	*only = *only == -1 || *only == number ? number : -2;
}

/* False: the records are of several CPUs or threads, and nothing says whose trace it is. */
static bool use_clue(const struct ptah_session *s, struct ptah_stream_info *info)
{
	if (info->cpu >= 0 || info->tid >= 0)
		return true;
	if (s->clue.cpu >= 0)
		info->cpu = s->clue.cpu;
	else if (s->clue.cpu == -1 && s->clue.tid >= 0)
		info->tid = s->clue.tid;
	return s->clue.cpu >= -1 && (s->clue.cpu >= 0 || s->clue.tid >= -1);
}

/* Raw traces without processes run over code that belongs to none. */
static bool has_processes(const struct ptah_session *s)
{
	return !s->is_set || s->process_count;
}

/* Adds the processes in these turns of which no code is known to a table. *first: one of them. */
static int list_strangers(const struct ptah_session *s, const struct cpu *cpu,
			  struct table *strangers, int32_t *first)
{
	for (size_t i = 0; i < cpu->count; i++) {
		const struct turn *turn = &cpu->turns[i];

		if (turn->pid <= 0 ||
		    (turn->process != SESSION_NONE && s->processes[turn->process].has_maps))
			continue;
		*first = turn->pid;
		if (table_set(strangers, (uint32_t)turn->pid, 0) < 0)
			return PTAH_E_NOMEM;
	}
	return 0;
}

/*
 * Notes that other processes ran on the CPUs of a set than those whose code it has. A set without
 * processes' code has none to miss.
 */
static int note_strangers(struct ptah_session *s)
{
	struct table strangers = {0};
	bool has_code = false;
	int32_t first = 0;
	int status = 0;

	for (size_t i = 0; i < s->process_count && !has_code; i++)
		has_code = s->processes[i].has_maps;
	for (size_t i = 0; s->is_set && has_code && i < s->stream_count && status >= 0; i++)
		if (stream_is_shared(&s->streams[i]))
			status = list_strangers(s, &s->cpus[s->streams[i].cpu], &strangers, &first);
	if (status >= 0 && strangers.count)
		status = session_note_format(s,
					     "no code is known of process %d%s, which ran on these "
					     "CPUs: if it was traced, each "
					     "time that it ran is an error",
					     first, strangers.count > 1 ? " and others" : "");
	table_free(&strangers);
	return status;
}

int session_name_streams(struct ptah_session *s)
{
	/* The code of address spaces is that of processes, too, though of unknown ones. */
	size_t only = s->space_count ? SESSION_NONE : only_process_with_maps(s);
	bool unknown = false, anonymous = false;
	int status = 0;

	for (size_t i = 0; i < s->stream_count; i++) {
		struct stream *stream = &s->streams[i];
		struct ptah_stream_info *info = &stream->info;
		size_t thread;

		if (s->is_guest && info->tid < 0) {
			stream->process = guest_processor(s, info->cpu);
			continue;
		}
		if (s->is_set && !use_clue(s, info))
			anonymous = true;
		thread = info->tid < 0 ? SESSION_NONE
				       : table_get(&s->threads_by_tid, (uint32_t)info->tid);
		if (thread != SESSION_NONE) {
			name_stream(s, stream, &s->threads[thread]);
		} else if (info->pid < 0 && only != SESSION_NONE && !others_ran(s, stream, only)) {
			info->pid = s->processes[only].pid;
			name_by_process(s, info);
			follow_cpu(s, stream);
		} else if (info->pid >= 0 && info->tid < 0) {
			name_by_process(s, info);
			follow_cpu(s, stream);
		}
		if (info->space == -1)
			info->space = info->pid;
		if (info->pid >= 0 && stream->process == SESSION_NONE)
			stream->process = table_get(&s->processes_by_pid, (uint32_t)info->pid);
		else if (info->tid < 0 && info->bytes && !follow_cpu(s, stream) && has_processes(s))
			unknown = true;
		if (stream->cpu != SESSION_NONE && session_list_runners(s, stream) < 0)
			return PTAH_E_NOMEM;
	}
	if (anonymous)
		status = session_note_format(s, "a trace of an unknown CPU or thread, and records "
						"of several: say whose trace it is (cpu=N or "
						"tid=N), or which records are of its CPU");
	return unknown && !anonymous && status >= 0
		   ? session_note_format(s,
					 "several processes share a CPU's trace, and no context "
					 "switches, or no times, show which ran when: record with "
					 "--switch-events, or with --per-thread")
	       : status < 0 ? status
			    : note_strangers(s);
}
