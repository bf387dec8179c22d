/* SPDX-License-Identifier: MIT */
/*
 * What a recording's records say: streams, threads, processes and their memory.
 *
 * perf writes what each CPU saw piece by piece, so that records are not in the
 * order of time. They are read once for the trace and to learn their times,
 * and what happened to processes is then gone through in that order.
 */
#include "session/session.h"

#include "base/compiler.h"
#include "perfdata/format.h"
#include "perfdata/message.h"

#include <ptah/packet.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A record to come back to. */
struct mark {
	uint64_t time; /* perf's clock at first, then TSC */
	uint64_t offset;
};

struct pass {
	struct ptah_session *session;
	struct mark *marks;
	size_t count, capacity;
	uint64_t lost, cut; /* what the kernel says was lost */
};

void *session_grow(void *array, size_t count, size_t *capacity, size_t size)
{
	size_t more = *capacity ? *capacity * 2 : 4;
	void *bigger;

	if (count < *capacity)
		return array;
	bigger = realloc(array, more * size);
	if (bigger)
		*capacity = more;
	return bigger;
}

int session_note(struct ptah_session *s, const char *text, size_t n)
{
	char **notes = session_grow(s->notes, s->note_count, &s->note_capacity, sizeof(*notes));
	char *note;

	if (!notes)
		return PTAH_E_NOMEM;
	s->notes = notes;
	note = strndup(text, n);
	if (!note)
		return PTAH_E_NOMEM;
	notes[s->note_count++] = note;
	return 0;
}

static int PRINTF_LIKE(2, 3) note_format(struct ptah_session *s, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return session_note(s, text, strlen(text));
}

/* Processes and threads */

static struct process *new_process(struct ptah_session *s, int32_t pid)
{
	struct process *processes =
	    session_grow(s->processes, s->process_count, &s->process_capacity, sizeof(*processes));
	size_t older;

	if (!processes)
		return NULL;
	s->processes = processes;
	older = table_get(&s->processes_by_pid, (uint32_t)pid);
	if (table_set(&s->processes_by_pid, (uint32_t)pid, s->process_count) < 0)
		return NULL;
	processes[s->process_count] = (struct process){
	    .pid = pid, .parent = SESSION_NONE, .program = SESSION_NONE, .older = older};
	return &processes[s->process_count++];
}

static struct process *process_of(struct ptah_session *s, int32_t pid)
{
	size_t i = table_get(&s->processes_by_pid, (uint32_t)pid);

	return i == SESSION_NONE ? new_process(s, pid) : &s->processes[i];
}

static struct thread *thread_of(struct ptah_session *s, int32_t pid, int32_t tid)
{
	size_t i = table_get(&s->threads_by_tid, (uint32_t)tid);
	struct thread *threads;

	if (i != SESSION_NONE) {
		s->threads[i].pid = pid;
		return &s->threads[i];
	}
	threads = session_grow(s->threads, s->thread_count, &s->thread_capacity, sizeof(*threads));
	if (!threads)
		return NULL;
	s->threads = threads;
	if (table_set(&s->threads_by_tid, (uint32_t)tid, s->thread_count) < 0)
		return NULL;
	threads[s->thread_count] =
	    (struct thread){.pid = pid, .tid = tid, .first = SESSION_NONE, .last = SESSION_NONE};
	return &threads[s->thread_count++];
}

static int add_change(struct ptah_session *s, int32_t pid, const struct change *change)
{
	struct process *p = process_of(s, pid);
	struct change *changes;

	if (!p)
		return PTAH_E_NOMEM;
	changes = session_grow(p->changes, p->count, &p->capacity, sizeof(*changes));
	if (!changes)
		return PTAH_E_NOMEM;
	p->changes = changes;
	changes[p->count++] = *change;
	p->has_maps = p->has_maps || change->type == CHANGE_MAP;
	return 0;
}

static bool is_range(uint64_t address, uint64_t size)
{
	return size && size - 1 <= UINT64_MAX - address;
}

static int on_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct change change = {
	    .type = CHANGE_MAP,
	    .tsc = tsc,
	    .address = r->address,
	    .size = r->size,
	    .file_offset = r->file_offset,
	    .id = r->id,
	};

	/* The kernel's own maps have pid -1. */
	if (!r->executable || r->pid < 0 || !is_range(r->address, r->size))
		return 0;
	change.path = strings_keep(&s->paths, r->text, r->text_size);
	return change.path ? add_change(s, r->pid, &change) : PTAH_E_NOMEM;
}

static int on_code(struct ptah_session *s, const struct perfdata_record *r)
{
	struct change change = {
	    .type = CHANGE_CODE,
	    .tsc = r->tsc,
	    .address = r->address,
	    .size = r->size,
	    .bytes = r->bytes,
	};

	return is_range(r->address, r->size) ? add_change(s, r->pid, &change) : 0;
}

/* What runs from now on is another program. */
static int on_exec(struct ptah_session *s, int32_t pid, uint64_t tsc)
{
	const struct change exec = {.type = CHANGE_EXEC, .tsc = tsc, .size = UINT64_MAX};
	struct process *p = process_of(s, pid);

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

/* A program has the name of its process's first thread, if that is known. */
static void name_program(struct program *program, const struct thread *t)
{
	if (t->tid == t->pid || !program->comm[0])
		memcpy(program->comm, t->comm, sizeof(program->comm));
}

static int on_comm(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct thread *t = thread_of(s, r->pid, r->tid);
	size_t n = r->text_size;

	if (!t)
		return PTAH_E_NOMEM;
	n = n < sizeof(t->comm) ? n : sizeof(t->comm) - 1;
	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, r->text, n);
	if (!r->exec && t->begun) {
		memcpy(s->begins[t->last].comm, t->comm, sizeof(t->comm));
		name_program(&s->programs[s->begins[t->last].program], t);
	}
	return r->exec ? on_exec(s, r->pid, tsc) : 0;
}

/* A thread has its parent's name at first; a new process also begins with its parent's memory. */
static int on_fork(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	size_t parent = table_get(&s->processes_by_pid, (uint32_t)r->ppid);
	size_t parent_thread = table_get(&s->threads_by_tid, (uint32_t)r->ptid);
	struct thread *t = thread_of(s, r->pid, r->tid);
	struct process *p;

	if (!t)
		return PTAH_E_NOMEM;
	t->begun = false;
	if (parent_thread != SESSION_NONE)
		memmove(t->comm, s->threads[parent_thread].comm, sizeof(t->comm));
	if (r->pid == r->ppid)
		return 0;
	/* Of a parent that nothing is known of; the number may still have been another's before. */
	if (parent == SESSION_NONE)
		return table_get(&s->processes_by_pid, (uint32_t)r->pid) == SESSION_NONE ||
			       new_process(s, r->pid)
			   ? 0
			   : PTAH_E_NOMEM;
	p = new_process(s, r->pid); /* the number may have been another's before */
	if (!p)
		return PTAH_E_NOMEM;
	p->born = tsc;
	p->parent = parent;
	p->inherited = s->processes[parent].count;
	p->has_maps = s->processes[parent].has_maps;
	return 0;
}

/* Who runs on which CPU */

static struct cpu *cpu_of(struct ptah_session *s, int32_t number)
{
	size_t i = table_get(&s->cpus_by_number, (uint32_t)number);
	struct cpu *cpus;

	if (i != SESSION_NONE)
		return &s->cpus[i];
	cpus = session_grow(s->cpus, s->cpu_count, &s->cpu_capacity, sizeof(*cpus));
	if (!cpus)
		return NULL;
	s->cpus = cpus;
	if (table_set(&s->cpus_by_number, (uint32_t)number, s->cpu_count) < 0)
		return NULL;
	cpus[s->cpu_count] = (struct cpu){0};
	return &cpus[s->cpu_count++];
}

/* Who it is, at this time. pid -1: the thread's, as far as it is known. */
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
	p = process_of(s, turn->pid);
	if (!p)
		return PTAH_E_NOMEM;
	turn->process = (size_t)(p - s->processes);
	return 0;
}

static int add_turn(struct ptah_session *s, struct cpu *cpu, struct turn turn)
{
	struct turn *last = cpu->count ? &cpu->turns[cpu->count - 1] : NULL, *turns;
	int status = name_turn(s, &turn);

	if (status < 0)
		return status;
	if (last && last->pid == turn.pid && last->tid == turn.tid &&
	    last->process == turn.process) {
		/* A switch is told twice: by the one that leaves, and by the one that comes. */
		if (cpu->comes)
			last->tsc = turn.tsc;
		return 0;
	}
	turns = session_grow(cpu->turns, cpu->count, &cpu->capacity, sizeof(*turns));
	if (!turns)
		return PTAH_E_NOMEM;
	cpu->turns = turns;
	turns[cpu->count++] = turn;
	return 0;
}

static int on_leave(struct ptah_session *s, struct cpu *cpu, const struct perfdata_record *r,
		    uint64_t tsc)
{
	const struct turn first = {.pid = r->pid, .tid = r->tid};
	/* Who ran from the beginning is who leaves first. */
	int status = cpu->count ? 0 : add_turn(s, cpu, first);

	/* Without the other thread's number that one is not traced. */
	cpu->has_left = r->ptid < 0;
	cpu->left = tsc;
	if (status < 0 || cpu->has_left)
		return status;
	cpu->comes = false;
	status = add_turn(s, cpu, (struct turn){tsc, tsc, r->ppid, r->ptid, SESSION_NONE});
	cpu->comes = true;
	return status;
}

static int on_come(struct ptah_session *s, struct cpu *cpu, const struct perfdata_record *r,
		   uint64_t tsc)
{
	const uint64_t from = cpu->has_left ? cpu->left : tsc;
	int status = 0;

	if (!cpu->count && r->ptid >= 0)
		status = add_turn(s, cpu, (struct turn){.pid = r->ppid, .tid = r->ptid});
	if (status >= 0)
		status = add_turn(s, cpu, (struct turn){from, tsc, r->pid, r->tid, SESSION_NONE});
	cpu->comes = cpu->has_left = false;
	return status;
}

static int on_switch(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct cpu *cpu = r->cpu >= 0 ? cpu_of(s, r->cpu) : NULL;

	if (r->cpu < 0)
		return 0;
	if (!cpu)
		return PTAH_E_NOMEM;
	return r->out ? on_leave(s, cpu, r, tsc) : on_come(s, cpu, r, tsc);
}

/* Tracing begins on a CPU while a thread runs there. */
static int on_start(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct cpu *cpu;

	if (r->tid > 0 && !thread_of(s, r->pid, r->tid))
		return PTAH_E_NOMEM;
	if (r->cpu < 0)
		return 0;
	cpu = cpu_of(s, r->cpu);
	if (!cpu)
		return PTAH_E_NOMEM;
	if (!cpu->count)
		tsc = 0;
	return add_turn(s, cpu, (struct turn){tsc, tsc, r->pid, r->tid, SESSION_NONE});
}

/* The program that a process runs. SESSION_NONE: out of memory. */
static size_t program_of(struct ptah_session *s, int32_t pid)
{
	struct process *p = process_of(s, pid);
	struct program *programs;

	if (!p || p->program != SESSION_NONE)
		return p ? p->program : SESSION_NONE;
	programs =
	    session_grow(s->programs, s->program_count, &s->program_capacity, sizeof(*programs));
	if (!programs)
		return SESSION_NONE;
	s->programs = programs;
	programs[s->program_count] = (struct program){
	    .process = (size_t)(p - s->processes), .first = p->exec, .last = SESSION_NONE};
	p->program = s->program_count++;
	return p->program;
}

static int on_begin(struct ptah_session *s, const struct perfdata_record *r)
{
	struct thread *t = thread_of(s, r->pid, r->tid);
	size_t program = program_of(s, r->pid);
	struct begin *begins;

	if (!t || program == SESSION_NONE)
		return PTAH_E_NOMEM;
	begins = session_grow(s->begins, s->begin_count, &s->begin_capacity, sizeof(*begins));
	if (!begins)
		return PTAH_E_NOMEM;
	s->begins = begins;
	begins[s->begin_count].program = program;
	begins[s->begin_count].next = SESSION_NONE;
	memcpy(begins[s->begin_count].comm, t->comm, sizeof(t->comm));
	name_program(&s->programs[program], t);
	if (t->last == SESSION_NONE)
		t->first = s->begin_count;
	else
		begins[t->last].next = s->begin_count;
	t->last = s->begin_count++;
	t->begun = true;
	return 0;
}

/* Streams */

static struct stream *stream_of(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu)
{
	size_t i = table_get(&s->streams_by_index, index);
	struct stream *streams;

	if (i != SESSION_NONE)
		return &s->streams[i];
	streams = session_grow(s->streams, s->stream_count, &s->stream_capacity, sizeof(*streams));
	if (!streams)
		return NULL;
	s->streams = streams;
	if (table_set(&s->streams_by_index, index, s->stream_count) < 0)
		return NULL;
	streams[s->stream_count] = (struct stream){
	    .index = index, .process = SESSION_NONE, .last = SESSION_NONE, .cpu = SESSION_NONE};
	streams[s->stream_count].info =
	    (struct ptah_stream_info){.pid = -1, .tid = tid, .cpu = cpu, .space = -1};
	return &streams[s->stream_count++];
}

#define PSB_BYTES 16

/* So many bytes are compared for each that a snapshot has, before none of it counts as seen. */
#define MOST_COMPARED 64

static bool is_padding(const uint8_t *bytes, uint64_t n)
{
	static const uint8_t zeros[8];

	return n < sizeof(zeros) && !memcmp(bytes, zeros, (size_t)n);
}

/*
 * How many bytes at the beginning of `b` are the end of `a`. Snapshots of a ring
 * that has not been written over in between overlap, and the kernel's offsets do
 * not tell by how much: they are of the ring. Both begin anywhere in a packet;
 * from a PSB on, whose time stamp follows, the same bytes are the same trace. perf
 * fills a piece up to eight bytes with zeros: *padding of `a` are such.
 */
static uint64_t find_overlap(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size,
			     uint64_t *padding)
{
	const uint8_t *const psb = ptah_packet_find_psb(b, b + b_size), *at = a;
	const uint64_t before = psb ? (uint64_t)(psb - b) : 0;
	uint64_t budget = MOST_COMPARED * a_size;

	while (psb && (at = ptah_packet_find_psb(at, a + a_size))) {
		const uint64_t rest = (uint64_t)(a + a_size - at);
		uint64_t same = 0;

		while (same < rest && same < b_size - before && at[same] == psb[same])
			same++;
		/* The ring's oldest bytes may have been written over: they are not in `b`. */
		*padding = rest - same;
		if (same > PSB_BYTES && is_padding(at + same, rest - same) &&
		    (uint64_t)(at - a) >= before && !memcmp(at - before, b, (size_t)before))
			return before + same;
		if (budget < same + PSB_BYTES)
			return 0;
		budget -= same + PSB_BYTES;
		at += PSB_BYTES;
	}
	return 0;
}

/*
 * Where this piece lies after the one before: sets *gap, and *skip to the bytes
 * that were there already. perf fills the file's copy of a piece up to eight
 * bytes but counts the next one's place without that.
 */
static void place_piece(const struct ptah_session *s, struct stream *stream, uint64_t offset,
			uint64_t *skip, bool *gap)
{
	const uint64_t before = piece_size(stream, stream->count - 1);
	const uint64_t again = stream->expected - offset;

	*gap = offset > stream->expected;
	*skip = 0;
	if (*gap) {
		if (!s->file || !perfdata_snapshot(s->file))
			stream->info.lost += offset - stream->expected;
	} else if (again < 8 && again < before) {
		stream->info.bytes -= again; /* the end of the last piece */
	} else {
		*skip = again;
	}
}

/* The same for snapshots: what comes behind the last one is not known to follow it. */
static void place_snapshot(struct stream *stream, const uint8_t *bytes, uint64_t size,
			   uint64_t *skip, bool *gap)
{
	uint64_t padding = 0;

	*skip = find_overlap(stream->snapshot, stream->snapshot_size, bytes, size, &padding);
	*gap = !*skip;
	if (*skip && padding < piece_size(stream, stream->count - 1))
		stream->info.bytes -= padding;
}

static int add_piece(struct stream *stream, const uint8_t *bytes, uint64_t size, bool gap)
{
	struct piece *pieces =
	    session_grow(stream->pieces, stream->count, &stream->capacity, sizeof(*pieces));

	if (!pieces)
		return PTAH_E_NOMEM;
	stream->pieces = pieces;
	pieces[stream->count++] = (struct piece){bytes, stream->info.bytes, gap};
	stream->info.bytes += size;
	return 0;
}

int session_add_trace(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu,
		      uint64_t offset, const uint8_t *bytes, uint64_t size)
{
	struct stream *stream = stream_of(s, index, tid, cpu);
	uint64_t skip = 0;
	bool gap = false;

	if (!stream)
		return PTAH_E_NOMEM;
	if (!size || size > UINT64_MAX - offset)
		return 0;
	if (stream->count && s->file && perfdata_snapshot(s->file))
		place_snapshot(stream, bytes, size, &skip, &gap);
	else if (stream->count)
		place_piece(s, stream, offset, &skip, &gap);
	stream->snapshot = bytes;
	stream->snapshot_size = size;
	if (skip >= size)
		return 0;
	stream->expected = offset + size;
	for (uint64_t at = skip; at < size; at += SESSION_PIECE_MAX) {
		uint64_t n = size - at < SESSION_PIECE_MAX ? size - at : SESSION_PIECE_MAX;
		int status = add_piece(stream, bytes + at, n, gap && at == skip);

		if (status < 0)
			return status;
	}
	return 0;
}

static int on_truth(struct ptah_session *s, const struct perfdata_record *r)
{
	struct stream *stream = stream_of(s, r->index, r->tid, -1);

	if (!stream)
		return PTAH_E_NOMEM;
	stream->info.pid = r->pid;
	stream->info.has_truth = true;
	stream->info.truth = r->truth;
	return 0;
}

/* First pass */

static int mark_record(struct pass *pass, const struct perfdata_record *r)
{
	struct mark *marks =
	    session_grow(pass->marks, pass->count, &pass->capacity, sizeof(*marks));

	if (!marks)
		return PTAH_E_NOMEM;
	pass->marks = marks;
	marks[pass->count++] = (struct mark){r->time, r->offset};
	return 0;
}

static int first_pass(struct pass *pass, const struct perfdata_record *r)
{
	struct ptah_session *s = pass->session;

	switch (r->type) {
	case PERFDATA_AUXTRACE:
		return session_add_trace(s, r->index, r->tid, r->cpu, r->trace_offset, r->bytes,
					 r->trace_size);
	case PERFDATA_AUX:
		pass->cut += r->lost != 0;
		return 0;
	case PERFDATA_LOST:
		pass->lost += r->lost;
		return 0;
	case PERFDATA_HEADER_EVENT_TYPE:
		if (r->tag == PERFDATA_PTAH_TRUTH)
			return on_truth(s, r);
		if (r->tag == PERFDATA_PTAH_NOTE)
			return session_note(s, r->text, r->text_size);
		if (r->tag == PERFDATA_PTAH_CODE)
			return mark_record(pass, r);
		return 0;
	case PERFDATA_EXIT:
		return 0;
	default:
		return mark_record(pass, r);
	}
}

/* Second pass */

static uint64_t to_tsc(const struct ptah_session *s, uint64_t time)
{
	const struct perfdata_clock *c = &s->clock;
	uint64_t t;

	if (!s->has_clock || time < c->zero)
		return 0;
	t = time - c->zero;
	/* (t << shift) / mult without losing the high bits. */
	return ((t / c->mult) << c->shift) + (((t % c->mult) << c->shift) / c->mult);
}

/* What has the same time stays in the order of the file. */
static int compare_marks(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int sort_marks(struct pass *pass)
{
	struct perfdata_record r;
	bool sorted = true;

	for (size_t i = 0; i < pass->count; i++) {
		struct mark *m = &pass->marks[i];
		int status = perfdata_read_at(pass->session->file, m->offset, &r);

		if (status < 0)
			return status;
		m->time =
		    r.type == PERFDATA_HEADER_EVENT_TYPE ? r.tsc : to_tsc(pass->session, m->time);
		sorted = sorted && (!i || m[-1].time <= m->time);
	}
	if (!sorted)
		qsort(pass->marks, pass->count, sizeof(*pass->marks), compare_marks);
	return 0;
}

static int second_pass(struct ptah_session *s, const struct mark *m)
{
	struct perfdata_record r;
	int status = perfdata_read_at(s->file, m->offset, &r);

	if (status < 0)
		return status;
	switch (r.type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		return on_map(s, &r, m->time);
	case PERFDATA_COMM:
		return on_comm(s, &r, m->time);
	case PERFDATA_FORK:
		return on_fork(s, &r, m->time);
	case PERFDATA_ITRACE_START:
		status = on_begin(s, &r);
		return status < 0 ? status : on_start(s, &r, m->time);
	case PERFDATA_SWITCH:
	case PERFDATA_SWITCH_CPU_WIDE:
		return on_switch(s, &r, m->time);
	case PERFDATA_HEADER_EVENT_TYPE:
		return on_code(s, &r);
	default:
		return 0;
	}
}

static int read_twice(struct pass *pass, struct ptah_message *why)
{
	struct ptah_session *s = pass->session;
	struct perfdata_record r;
	int status, more;

	while ((more = perfdata_next(s->file, &r, why)) > 0) {
		status = first_pass(pass, &r);
		if (status < 0)
			return status;
	}
	if (more < 0)
		return more;
	s->has_clock = perfdata_clock(s->file, &s->clock);
	status = sort_marks(pass);
	for (size_t i = 0; i < pass->count && status >= 0; i++)
		status = second_pass(s, &pass->marks[i]);
	return status;
}

/* Who ran what */

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

/* Follows who ran on the stream's CPU. False: the recording does not tell. */
static bool follow_cpu(const struct ptah_session *s, struct stream *stream)
{
	size_t i = stream->info.cpu < 0 ? SESSION_NONE
					: table_get(&s->cpus_by_number, (uint32_t)stream->info.cpu);

	if (i == SESSION_NONE || !s->has_clock)
		return false;
	stream->cpu = i;
	return true;
}

/* The thread's next stream is that of its next begin. One without a begin is the last's. */
static void name_stream(struct ptah_session *s, struct stream *stream, struct thread *t)
{
	struct ptah_stream_info *info = &stream->info;
	const struct begin *begin = t->first == SESSION_NONE ? NULL : &s->begins[t->first];
	const struct program *program;
	bool is_last;

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
	/*
	 * perf's tracing goes on through execve without another begin (and with
	 * enable_on_exec begins just before it): the stream is of what ran last.
	 */
	if (is_last && begin->next == SESSION_NONE && t->tid == info->pid) {
		memcpy(info->comm, t->comm, sizeof(info->comm));
		return;
	}
	if ((program->until || !is_last) && begin->program < INT32_MAX - 1)
		info->space = -2 - (int32_t)begin->program;
	/* With another begin the thread has ended, or its next stream is of the next program. */
	if (begin->next != SESSION_NONE)
		stream->last = program->last;
	memcpy(info->comm, begin->comm, sizeof(info->comm));
	if (begin->next != SESSION_NONE)
		t->first = begin->next;
}

/*
 * A thread's stream has the thread's process and name. A CPU's stream is that of
 * the recording's only process, if it is one, and else of who ran there when.
 */
static int name_streams(struct ptah_session *s)
{
	size_t only = only_process_with_maps(s);
	bool unknown = false;

	for (size_t i = 0; i < s->stream_count; i++) {
		struct stream *stream = &s->streams[i];
		struct ptah_stream_info *info = &stream->info;
		size_t thread = info->tid < 0 ? SESSION_NONE
					      : table_get(&s->threads_by_tid, (uint32_t)info->tid);

		if (thread != SESSION_NONE) {
			name_stream(s, stream, &s->threads[thread]);
		} else if (info->pid < 0 && only != SESSION_NONE) {
			info->pid = s->processes[only].pid;
		}
		if (info->space == -1)
			info->space = info->pid;
		if (info->pid >= 0 && stream->process == SESSION_NONE)
			stream->process = table_get(&s->processes_by_pid, (uint32_t)info->pid);
		else if (info->tid < 0 && info->bytes && s->file && !follow_cpu(s, stream))
			unknown = true;
	}
	return unknown ? note_format(s, "several processes share a CPU's trace, and no context "
					"switches, or no times, tell which ran when: record with "
					"--switch-events, or with --per-thread")
		       : 0;
}

static int note_losses(const struct pass *pass, const char *path)
{
	struct ptah_session *s = pass->session;
	int status = 0;

	if (pass->lost)
		status = note_format(
		    s, "the kernel lost %" PRIu64 " events: processes or their maps may be missing",
		    pass->lost);
	if (pass->cut && status >= 0)
		status = note_format(s, "%" PRIu64 " pieces of trace are cut: the buffer was full",
				     pass->cut);
	if (perfdata_truncated(s->file) && status >= 0)
		status = note_format(s, "%s is cut short at offset %" PRIu64 ": its end is lost",
				     path, perfdata_size(s->file));
	else if (perfdata_unfinished(s->file) && status >= 0)
		status = note_format(s, "the recorder did not end properly: this is what it had "
					"written");
	return status;
}

int session_read_records(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	struct pass pass = {.session = s};
	int status;

	if (why)
		why->text[0] = '\0';
	status = read_twice(&pass, why);
	free(pass.marks);
	if (status >= 0)
		status = note_losses(&pass, path);
	if (status >= 0)
		status = name_streams(s);
	if (status >= 0)
		status = session_index_maps(s);
	if (status >= 0)
		status = session_find_alike(s);
	if (status < 0 && why && !why->text[0])
		perfdata_message(why, status, "%s: %s", path, ptah_strerror(status));
	return status;
}
