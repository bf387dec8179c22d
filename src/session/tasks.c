/* SPDX-License-Identifier: MIT */
/*
 * The processes and threads of a recording, and what was mapped in them: handles the records of
 * forks, names, mappings and begins.
 */
#include "session/grow.h"
#include "session/jit.h"
#include "session/records.h"

#include "base/path.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct process *new_process(struct ptah_session *s, int32_t pid)
{
	size_t older;

	if (!LIST_ROOM(s->processes, s->process_count, s->process_capacity))
		return NULL;
	older = table_get(&s->processes_by_pid, (uint32_t)pid);
	if (table_set(&s->processes_by_pid, (uint32_t)pid, s->process_count) < 0)
		return NULL;
	s->processes[s->process_count] = (struct process){
	    .pid = pid, .parent = SESSION_NONE, .program = SESSION_NONE, .older = older};
	return &s->processes[s->process_count++];
}

struct process *session_process_of(struct ptah_session *s, int32_t pid)
{
	size_t i = table_get(&s->processes_by_pid, (uint32_t)pid);

	return i == SESSION_NONE ? new_process(s, pid) : &s->processes[i];
}

struct thread *session_thread_of(struct ptah_session *s, int32_t pid, int32_t tid)
{
	size_t i = table_get(&s->threads_by_tid, (uint32_t)tid);

	if (i != SESSION_NONE) {
		s->threads[i].pid = pid;
		return &s->threads[i];
	}
	if (!LIST_ROOM(s->threads, s->thread_count, s->thread_capacity))
		return NULL;
	if (table_set(&s->threads_by_tid, (uint32_t)tid, s->thread_count) < 0)
		return NULL;
	s->threads[s->thread_count] =
	    (struct thread){.pid = pid, .tid = tid, .first = SESSION_NONE, .last = SESSION_NONE};
	return &s->threads[s->thread_count++];
}

int session_append_change(struct process *p, const struct change *change)
{
	if (!LIST_ROOM(p->changes, p->count, p->capacity))
		return PTAH_E_NOMEM;
	p->changes[p->count++] = *change;
	p->has_maps = p->has_maps || change->type == CHANGE_MAP;
	return 0;
}

static int add_change(struct ptah_session *s, int32_t pid, const struct change *change)
{
	struct process *p = session_process_of(s, pid);

	if (p && s->growth)
		return grow_add_change(s, p, change);
	return p ? session_append_change(p, change) : PTAH_E_NOMEM;
}

bool session_is_range(uint64_t address, uint64_t size)
{
	return size && size - 1 <= UINT64_MAX - address;
}

/* The path of a recorded file, which is that below the set's root if there is such a file. */
static const char *recorded_path(struct ptah_session *s, const struct perfdata_record *r)
{
	const char *path = NULL;
	char *full;

	if (!s->root || !r->text_size || *r->text != '/')
		return strings_keep(&s->paths, r->text, r->text_size);
	if (asprintf(&full, "%s%.*s", s->root, (int)r->text_size, r->text) < 0)
		return NULL;
	path_resolve(full + strlen(s->root));
	path = access(full, F_OK) ? strings_keep(&s->paths, r->text, r->text_size)
				  : strings_keep(&s->paths, full, strlen(full));
	free(full);
	return path;
}

int session_on_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct change change = {
	    .type = CHANGE_MAP,
	    .tsc = tsc,
	    .address = r->address,
	    .size = r->size,
	    .file_offset = r->file_offset,
	    .id = r->id,
	};

	if (!r->executable || !session_is_range(r->address, r->size))
		return 0;
	if (r->pid < 0)
		return session_on_kernel_map(s, r, tsc);
	/* A process maps its jitdump so that recorders know of it, not to execute it. */
	if (jit_is_dump(r->text, r->text_size))
		return 0;
	/*
	 * Changes of protection are reported as mappings, too: they must not remove the code of the
	 * jitdump. perf leaves these records out as well.
	 */
	if (r->text_size >= 6 && !memcmp(r->text, "//anon", 6) && jit_has_code(s, r->pid))
		return 0;
	change.path = recorded_path(s, r);
	return change.path ? add_change(s, r->pid, &change) : PTAH_E_NOMEM;
}

int session_on_code(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct change change = {
	    .type = CHANGE_CODE,
	    .tsc = tsc,
	    .address = r->address,
	    .size = r->size,
	    .bytes = r->bytes,
	};

	return session_is_range(r->address, r->size) ? add_change(s, r->pid, &change) : 0;
}

/* From now on the process runs another program. */
static int on_exec(struct ptah_session *s, int32_t pid, uint64_t tsc)
{
	const struct change exec = {.type = CHANGE_EXEC, .tsc = tsc, .size = UINT64_MAX};
	struct process *p = session_process_of(s, pid);

	if (!p)
		return PTAH_E_NOMEM;
	if (p->program != SESSION_NONE) {
		s->programs[p->program].until = tsc ? tsc - 1 : 0;
		s->programs[p->program].last = p->count;
	}
	p->program = SESSION_NONE;
	p->exec = p->count + 1;
	return add_change(s, pid, &exec);
}

/* A program gets the name of its process's first thread, if that is known. */
static void name_program(struct program *program, const struct thread *t)
{
	if (t->tid == t->pid || !program->comm[0])
		memcpy(program->comm, t->comm, sizeof(program->comm));
}

/* From now on the thread has this name, of `n` characters. */
static int rename_thread(struct thread *t, const char *name, size_t n, uint64_t tsc)
{
	if (!LIST_ROOM(t->names, t->name_count, t->name_capacity))
		return PTAH_E_NOMEM;
	n = n < sizeof(t->comm) ? n : sizeof(t->comm) - 1;
	memmove(t->comm, name, n);
	memset(t->comm + n, 0, sizeof(t->comm) - n);
	t->names[t->name_count].tsc = tsc;
	memcpy(t->names[t->name_count++].comm, t->comm, sizeof(t->comm));
	return 0;
}

int session_on_comm(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct thread *t = session_thread_of(s, r->pid, r->tid);
	int status = t ? rename_thread(t, r->text, r->text_size, tsc) : PTAH_E_NOMEM;

	if (status < 0)
		return status;
	if (!r->exec && t->begun) {
		memcpy(s->begins[t->last].comm, t->comm, sizeof(t->comm));
		name_program(&s->programs[s->begins[t->last].program], t);
	}
	return r->exec ? on_exec(s, r->pid, tsc) : 0;
}

int session_on_set_thread(struct ptah_session *s, const struct ptah_trace_thread *thread)
{
	const size_t known = table_get(&s->threads_by_tid, (uint32_t)thread->tid);
	const int32_t pid =
	    thread->pid < 0 && known != SESSION_NONE ? s->threads[known].pid : thread->pid;
	struct thread *t = session_thread_of(s, pid, thread->tid);

	if (!t)
		return PTAH_E_NOMEM;
	return thread->comm[0] ? rename_thread(t, thread->comm, strlen(thread->comm), 0) : 0;
}

/*
 * Linux' kthreadd has the pid 2 and no parent but the idle thread. The threads of the kernel are
 * its children.
 */
#define KTHREADD 2

static int note_kernel_thread(struct ptah_session *s, const struct perfdata_record *r)
{
	struct table *t = &s->kernel_threads;
	const bool is =
	    r->pid == KTHREADD ? !r->ppid : r->ppid == KTHREADD && table_get(t, KTHREADD) == true;

	if (!is && table_get(t, (uint32_t)r->pid) == SESSION_NONE)
		return 0;
	return table_set(t, (uint32_t)r->pid, is);
}

/* A thread begins with its parent's name, and a new process also with its parent's memory. */
int session_on_fork(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	size_t parent = table_get(&s->processes_by_pid, (uint32_t)r->ppid);
	size_t parent_thread = table_get(&s->threads_by_tid, (uint32_t)r->ptid);
	struct thread *t = session_thread_of(s, r->pid, r->tid);
	struct process *p;

	if (!t)
		return PTAH_E_NOMEM;
	t->begun = false;
	if (parent_thread != SESSION_NONE) {
		const char *name = s->threads[parent_thread].comm;

		if (rename_thread(t, name, strlen(name), tsc) < 0)
			return PTAH_E_NOMEM;
	}
	if (r->pid == r->ppid)
		return 0;
	if (note_kernel_thread(s, r) < 0)
		return PTAH_E_NOMEM;
	/* The parent is unknown. The pid may still have belonged to another process before. */
	if (parent == SESSION_NONE)
		return table_get(&s->processes_by_pid, (uint32_t)r->pid) == SESSION_NONE ||
			       new_process(s, r->pid)
			   ? 0
			   : PTAH_E_NOMEM;
	p = new_process(s, r->pid); /* the pid may have belonged to another process before */
	if (!p)
		return PTAH_E_NOMEM;
	p->born = tsc;
	p->parent = parent;
	p->inherited = s->processes[parent].count;
	if (s->growth) /* the record may come late */
		p->inherited = session_changes_until(&s->processes[parent], p->inherited, tsc);
	p->has_maps = s->processes[parent].has_maps;
	return 0;
}

/*
 * Linux does not report every fork of a task to which perf events are attached: seen with 6.1 and
 * ptah record -p or perf record -p of a program that forks all the time; why is not known. A
 * process of which nothing is known but that it ran had the memory of its parent, which the record
 * of its end names. A process that gets a parent here had none and no maps, so that no process can
 * become its own ancestor.
 */
int session_on_exit(struct ptah_session *s, const struct perfdata_record *r)
{
	const size_t child = table_get(&s->processes_by_pid, (uint32_t)r->pid);
	const size_t parent = table_get(&s->processes_by_pid, (uint32_t)r->ppid);
	struct process *p;

	if (child == SESSION_NONE || parent == SESSION_NONE || child == parent)
		return 0;
	p = &s->processes[child];
	if (p->parent != SESSION_NONE || p->count || !s->processes[parent].has_maps)
		return 0;
	p->parent = parent;
	p->inherited = s->processes[parent].count;
	p->has_maps = true;
	return 0;
}

/* The index of the program that a process runs. SESSION_NONE: out of memory. */
static size_t program_of(struct ptah_session *s, int32_t pid)
{
	struct process *p = session_process_of(s, pid);

	if (!p || p->program != SESSION_NONE)
		return p ? p->program : SESSION_NONE;
	if (!LIST_ROOM(s->programs, s->program_count, s->program_capacity))
		return SESSION_NONE;
	s->programs[s->program_count] = (struct program){
	    .process = (size_t)(p - s->processes), .first = p->exec, .last = SESSION_NONE};
	p->program = s->program_count++;
	return p->program;
}

int session_on_begin(struct ptah_session *s, const struct perfdata_record *r)
{
	struct thread *t = session_thread_of(s, r->pid, r->tid);
	size_t program = program_of(s, r->pid);

	if (!t || program == SESSION_NONE)
		return PTAH_E_NOMEM;
	if (!LIST_ROOM(s->begins, s->begin_count, s->begin_capacity))
		return PTAH_E_NOMEM;
	s->begins[s->begin_count].program = program;
	s->begins[s->begin_count].next = SESSION_NONE;
	memcpy(s->begins[s->begin_count].comm, t->comm, sizeof(t->comm));
	name_program(&s->programs[program], t);
	if (t->last == SESSION_NONE)
		t->first = s->begin_count;
	else
		s->begins[t->last].next = s->begin_count;
	t->last = s->begin_count++;
	t->begun = true;
	return 0;
}
