/* SPDX-License-Identifier: MIT */
/* Adds records and trace to a session while its streams are being decoded: see grow.h. */
#include "session/grow.h"

#include "perfdata/message.h"
#include "session/guest.h"
#include "session/jit.h"
#include "session/jit_follow.h"
#include "session/records.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int grow_new(const struct ptah_session_config *config, const char *name,
	     struct ptah_session **session)
{
	struct ptah_session *s;
	int status = session_make(config, &s);

	if (status < 0)
		return status;
	s->growth = calloc(1, sizeof(*s->growth));
	if (s->growth)
		s->growth->only = s->growth->forced = SESSION_NONE;
	s->use_jit_code = true;
	status = s->growth ? perfdata_open_pushed(name, &s->file) : PTAH_E_NOMEM;
	if (status >= 0)
		status = jit_follow_new(&s->growth->jit);
	if (status < 0) {
		ptah_session_close(s);
		return status;
	}
	*session = s;
	return 0;
}

void grow_forget(struct ptah_session *s)
{
	if (!s->growth)
		return;
	free(s->growth->fresh);
	free(s->growth->cuts);
	free(s->growth->limits);
	table_free(&s->growth->streams_by_cpu);
	strings_free(&s->growth->bad);
	jit_follow_free(s->growth->jit);
	free(s->growth);
}

/* Records */

static int take_cut(struct ptah_session *s, const struct perfdata_record *r)
{
	struct growth *g = s->growth;

	if (!(r->lost & PERFDATA_AUX_TRUNCATED) || r->size > UINT64_MAX - r->trace_offset)
		return 0;
	if (!LIST_ROOM(g->cuts, g->cut_count, g->cut_capacity))
		return PTAH_E_NOMEM;
	g->cuts[g->cut_count++] = (struct grow_cut){r->cpu, r->tid, r->trace_offset + r->size};
	return 0;
}

/* The time as TSC packets have it. */
static uint64_t time_of(struct ptah_session *s, const struct perfdata_record *r)
{
	struct growth *g = s->growth;
	uint64_t tsc = r->type == PERFDATA_HEADER_EVENT_TYPE ? r->tsc : session_tsc(s, r->time);

	if (!tsc)
		return 0;
	if (!g->has_high) {
		s->tsc_high = tsc & ~SESSION_TSC_MASK;
		g->has_high = true;
		s->begin = tsc - s->tsc_high;
	}
	tsc = tsc > s->tsc_high ? tsc - s->tsc_high : 0;
	s->end = tsc > s->end ? tsc : s->end;
	return tsc;
}

static int add_limit(struct stream *stream, struct limit limit)
{
	if (!LIST_ROOM(stream->limits, stream->limit_count, stream->limit_capacity))
		return PTAH_E_NOMEM;
	/* They come in order; one that does not is of no use any longer. */
	if (!stream->limit_count || stream->limits[stream->limit_count - 1].at <= limit.at)
		stream->limits[stream->limit_count++] = limit;
	return 0;
}

/* The stream of a CPU. NULL: none of its trace has come. */
static struct stream *stream_of_cpu(struct ptah_session *s, int32_t number)
{
	const size_t cpu = table_get(&s->growth->streams_by_cpu, (uint32_t)number);

	return cpu == SESSION_NONE ? NULL : &s->streams[cpu];
}

int grow_place_limits(struct ptah_session *s)
{
	struct growth *g = s->growth;
	size_t left = 0;
	int status = 0;

	for (size_t i = 0; i < g->limit_count && status >= 0; i++) {
		const struct grow_limit limit = g->limits[i];
		struct stream *stream = stream_of_cpu(s, limit.cpu);
		uint64_t before;

		if (!stream || !stream->grows || limit.offset > stream->expected) {
			g->limits[left++] = limit;
			continue;
		}
		before = stream->expected - limit.offset;
		if (before < stream->info.bytes - stream->contiguous)
			status = add_limit(stream,
					   (struct limit){stream->info.bytes - before, limit.tsc});
	}
	g->limit_count = left;
	return status;
}

/* So many may wait for their trace. */
#define LIMITS 4096

/* Until this offset, as the recorder counts, the CPU's trace was written before this time. */
static int take_limit(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct growth *g = s->growth;

	if (r->cpu < 0 || !tsc || r->size > UINT64_MAX - r->trace_offset ||
	    g->limit_count == LIMITS)
		return 0;
	if (!LIST_ROOM(g->limits, g->limit_count, g->limit_capacity))
		return PTAH_E_NOMEM;
	g->limits[g->limit_count++] = (struct grow_limit){r->cpu, r->trace_offset + r->size, tsc};
	return 0;
}

static int take_ptah(struct ptah_session *s, const struct perfdata_record *r,
		     struct ptah_message *why)
{
	switch (r->tag) {
	case PERFDATA_PTAH_TRUTH:
		return session_on_truth(s, r);
	case PERFDATA_PTAH_NOTE:
		return session_note(s, r->text, r->text_size);
	case PERFDATA_PTAH_HIT:
		return r->text ? session_on_hit(s, r) : 0;
	case PERFDATA_PTAH_VDSO:
		if (r->number == 64) {
			s->vdso_code = r->bytes;
			s->vdso_size = r->size;
		}
		return 0;
	case PERFDATA_PTAH_CODE:
		s->use_jit_code = false;
		return 1;
	case PERFDATA_PTAH_PAGE:
	case PERFDATA_PTAH_GUEST_MAP:
	case PERFDATA_PTAH_SPACE:
		return guest_grow(s, r, why);
	default:
		return 0;
	}
}

int grow_take(struct ptah_session *s, const struct perfdata_record *r, uint64_t *tsc,
	      struct ptah_message *why)
{
	int status = 1;

	if (!s->has_clock)
		s->has_clock = perfdata_clock(s->file, &s->clock);
	s->time_source = perfdata_time_source(s->file);
	switch (r->type) {
	case PERFDATA_SAMPLE:
		return perfdata_message(why, PTAH_E_FOREIGN,
					"trace in samples is not followed while it is recorded: "
					"decode the recording when it is complete");
	case PERFDATA_AUX:
		status = take_cut(s, r);
		return status < 0 ? status : take_limit(s, r, time_of(s, r));
	case PERFDATA_LOST:
		s->growth->lost += r->lost;
		return 0;
	case PERFDATA_HEADER_EVENT_TYPE:
		status = take_ptah(s, r, why);
		break;
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		status = jit_on_map(s, r);
		status = status < 0 ? status : 1;
		break;
	default:
		break;
	}
	*tsc = status > 0 ? time_of(s, r) : 0;
	return status;
}

/* Changes of memory */

/* Makes room at index `at` in the list; what refers to later entries of it refers to them still. */
static void shift(struct ptah_session *s, size_t process, size_t at, uint64_t tsc)
{
	struct process *p = &s->processes[process];

	for (size_t i = 0; i < s->program_count; i++) {
		struct program *program = &s->programs[i];

		if (program->process != process)
			continue;
		program->first += program->first > at;
		program->last += program->last != SESSION_NONE && program->last > at;
	}
	for (size_t i = 0; i < s->stream_count; i++) {
		struct stream *stream = &s->streams[i];

		if (stream->process != process)
			continue;
		stream->first += stream->first > at;
		stream->last += stream->last != SESSION_NONE && stream->last > at;
	}
	for (size_t i = 0; i < s->process_count; i++) {
		struct process *child = &s->processes[i];

		if (child->parent == process && (child->inherited > at || child->born > tsc))
			child->inherited++;
	}
	p->exec += p->exec > at;
	memmove(&p->changes[at + 1], &p->changes[at], (p->count - 1 - at) * sizeof(*p->changes));
}

/* A record that comes later than one of a later time. */
static int insert(struct ptah_session *s, struct process *p, const struct change *change)
{
	const size_t process = (size_t)(p - s->processes);
	size_t at = p->count;
	int status;

	while (at && p->changes[at - 1].tsc > change->tsc)
		at--;
	status = session_append_change(p, change);
	if (status < 0)
		return status;
	shift(s, process, at, change->tsc);
	p->changes[at] = *change;
	return 0;
}

/* Notes, once for each file, that the code of a mapping cannot be used. */
static int check_file(struct ptah_session *s, struct change *change)
{
	struct growth *g = s->growth;
	const size_t before = g->bad.count;
	struct ptah_message why = {""};

	if (s->config.no_images || change->type != CHANGE_MAP || !change_is_file(change) ||
	    session_check_file(s, change, &why) >= 0 || s->config.ignore_build_ids)
		return 0;
	change->unfit = true;
	if (!strings_keep(&g->bad, change->path, strlen(change->path)))
		return PTAH_E_NOMEM;
	return g->bad.count > before ? session_note(s, why.text, strlen(why.text)) : 0;
}

int grow_add_change(struct ptah_session *s, struct process *p, const struct change *change)
{
	struct growth *g = s->growth;
	struct change with = *change;
	int status = LIST_ROOM(g->fresh, g->fresh_count, g->fresh_capacity) ? check_file(s, &with)
									    : PTAH_E_NOMEM;

	if (status < 0)
		return status;
	/* Its runtime may list what is in no file. */
	if (change->type == CHANGE_CODE ||
	    (change->type == CHANGE_MAP && *change->path != '[' && !change_is_file(change)))
		jit_follow_process(s, p->pid);
	g->fresh[g->fresh_count++] = (struct fresh_change){(size_t)(p - s->processes), with};
	if (p->count && p->changes[p->count - 1].tsc > with.tsc)
		return insert(s, p, &with);
	return session_append_change(p, &with);
}

bool grow_concerns(const struct ptah_session *s, size_t stream, size_t process)
{
	if (stream_is_shared(&s->streams[stream]))
		return true;
	/* What the process maps after an execve is another stream's. */
	return s->streams[stream].process == process && s->streams[stream].last == SESSION_NONE;
}

/* Streams */

/*
 * Each of a thread's begins belongs to one of its streams, in order; see name_stream() in
 * stream_names.c, which knows all of them.
 */
static void choose_begin(struct ptah_session *s, struct stream *stream, struct thread *t)
{
	size_t begin = t->first;

	if (begin == SESSION_NONE)
		return;
	for (size_t i = 0; i < s->stream_count; i++)
		if (&s->streams[i] != stream && s->streams[i].begin == begin &&
		    s->begins[begin].next != SESSION_NONE) {
			begin = t->first = s->begins[begin].next;
			break;
		}
	stream->begin = begin;
	stream->process = s->programs[s->begins[begin].program].process;
	stream->first = s->programs[s->begins[begin].program].first;
}

/* What is known now of the thread and its program. */
static void name_by_begin(struct ptah_session *s, struct stream *stream)
{
	const struct begin *begin = &s->begins[stream->begin];
	const struct program *program = &s->programs[begin->program];
	struct ptah_stream_info *info = &stream->info;
	const bool has_next = begin->next != SESSION_NONE;
	const size_t thread = table_get(&s->threads_by_tid, (uint32_t)info->tid);
	bool is_last;

	info->pid = s->processes[program->process].pid;
	is_last = table_get(&s->processes_by_pid, (uint32_t)info->pid) == program->process;
	info->space = info->pid;
	memcpy(info->comm, begin->comm, sizeof(info->comm));
	if (is_last && !has_next && info->tid == info->pid && thread != SESSION_NONE) {
		memcpy(info->comm, s->threads[thread].comm, sizeof(info->comm));
		return;
	}
	if ((program->until || !is_last) && begin->program < INT32_MAX - 1)
		info->space = -2 - (int32_t)begin->program;
	if (has_next)
		stream->last = program->last;
}

int grow_name(struct ptah_session *s, size_t index)
{
	struct stream *stream = &s->streams[index];
	struct ptah_stream_info *info = &stream->info;
	const size_t i =
	    info->tid < 0 ? SESSION_NONE : table_get(&s->threads_by_tid, (uint32_t)info->tid);

	stream->like = index;
	if (s->is_guest && info->tid < 0) {
		const int status = guest_begin_processor(s, info->cpu);

		stream->process = guest_processor(s, info->cpu);
		return status;
	}
	if (info->cpu >= 0) {
		stream->cpu = session_cpu_of(s, info->cpu);
		if (stream->cpu == SESSION_NONE)
			return PTAH_E_NOMEM;
		s->cpus[stream->cpu].stream = index;
		return 0;
	}
	if (i != SESSION_NONE)
		choose_begin(s, stream, &s->threads[i]);
	if (stream->begin != SESSION_NONE) {
		name_by_begin(s, stream);
		return 0;
	}
	if (i != SESSION_NONE) {
		info->pid = s->threads[i].pid;
		memcpy(info->comm, s->threads[i].comm, sizeof(info->comm));
	}
	info->space = info->pid;
	if (info->pid >= 0)
		stream->process = table_get(&s->processes_by_pid, (uint32_t)info->pid);
	return 0;
}

static int index_again(struct process *p, size_t indexed)
{
	return indexed != p->count ? session_index_process(p) : 0;
}

static size_t only_process(const struct ptah_session *s)
{
	size_t only = SESSION_NONE;

	for (size_t i = 0; i < s->process_count; i++) {
		if (!s->processes[i].has_maps)
			continue;
		if (only != SESSION_NONE)
			return SESSION_NONE;
		only = i;
	}
	return only;
}

int grow_settle(struct ptah_session *s)
{
	int status = 0;

	s->growth->only = only_process(s);

	for (size_t i = 0; i < s->growth->fresh_count && status >= 0; i++)
		s->processes[s->growth->fresh[i].process].has_fresh = true;
	for (size_t i = 0; i < s->growth->fresh_count && status >= 0; i++) {
		struct process *p = &s->processes[s->growth->fresh[i].process];

		if (p->has_fresh)
			status = session_index_process(p);
		p->has_fresh = false;
	}
	if (status >= 0)
		status = index_again(&s->kernel.maps, s->kernel.maps.indexed);
	if (status >= 0)
		status = index_again(&s->kernel.functions, s->kernel.functions.indexed);
	for (size_t i = 0; i < s->stream_count; i++)
		if (s->streams[i].begin != SESSION_NONE)
			name_by_begin(s, &s->streams[i]);
	return status;
}

int grow_begin(struct ptah_session *s, struct ptah_message *why)
{
	const uint32_t kind = perfdata_auxtrace(s->file);
	int status = 0;

	if (s->growth->begun)
		return 0;
	if (kind != PERFDATA_AUXTRACE_INTEL_PT)
		return perfdata_message(why, PTAH_E_FOREIGN,
					kind ? "a trace of another kind than Intel PT"
					     : "trace without the records that say what it is of");
	if (perfdata_snapshot(s->file))
		return perfdata_message(
		    why, PTAH_E_FOREIGN,
		    "snapshots are not followed while they are recorded: decode "
		    "the recording when it is complete");
	s->growth->begun = true;
	session_read_events(s);
	kernel_find_later(&s->kernel);
	if (!s->config.no_images && perfdata_has_kernel(s->file))
		status = session_find_kernel(s, why);
	return status;
}

/* Trace */

size_t grow_stream(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu)
{
	size_t i = table_get(&s->streams_by_index, index);
	struct stream *stream;

	if (i != SESSION_NONE)
		return i;
	stream = session_new_stream(s, index);
	if (!stream)
		return SESSION_NONE;
	stream->info.tid = cpu < 0 ? tid : -1;
	stream->info.cpu = cpu;
	if (cpu >= 0 &&
	    table_set(&s->growth->streams_by_cpu, (uint32_t)cpu, s->stream_count - 1) < 0)
		return SESSION_NONE;
	return s->stream_count - 1;
}

static bool is_of(const struct grow_cut *cut, const struct ptah_stream_info *info)
{
	return cut->cpu >= 0 && info->cpu >= 0 ? cut->cpu == info->cpu
					       : info->tid >= 0 && cut->tid == info->tid;
}

/* The first cut in [offset, offset + size) of the stream; it is used up. UINT64_MAX: none. */
static uint64_t next_cut(struct ptah_session *s, const struct stream *stream, uint64_t offset,
			 uint64_t size)
{
	struct growth *g = s->growth;
	size_t found = SIZE_MAX;
	uint64_t at = UINT64_MAX;

	for (size_t i = 0; i < g->cut_count; i++)
		if (is_of(&g->cuts[i], &stream->info) && g->cuts[i].offset >= offset &&
		    g->cuts[i].offset - offset < size && g->cuts[i].offset < at) {
			found = i;
			at = g->cuts[i].offset;
		}
	if (found != SIZE_MAX)
		g->cuts[found] = g->cuts[--g->cut_count];
	return at;
}

static int add(struct stream *stream, const uint8_t *bytes, uint64_t size, enum session_joint joint,
	       bool restart)
{
	const size_t first = stream->count;
	int status = size ? session_add_pieces(stream, bytes, size, joint) : 0;

	if (status >= 0 && size)
		stream->pieces[first].restart = restart;
	return status;
}

int grow_trace(struct ptah_session *s, size_t index, uint64_t offset, const uint8_t *bytes,
	       uint64_t size)
{
	struct stream *stream = &s->streams[index];
	enum session_joint joint = JOINT_NONE;
	bool restart = false;
	int status = 0;

	if (!size || size > UINT64_MAX - offset)
		return 0;
	if (stream->grows && offset < stream->expected) {
		const uint64_t again = stream->expected - offset;

		if (again >= size)
			return 0;
		bytes += again;
		size -= again;
		offset += again;
	} else if (stream->grows && offset > stream->expected) {
		stream->contiguous = stream->info.bytes;
		stream->info.lost += offset - stream->expected;
		joint = JOINT_GAP;
	}
	/* The first cut that is known may be that of trace before the recording began. */
	while (size && status >= 0) {
		const uint64_t cut = next_cut(s, stream, offset, size);
		const uint64_t n = cut == UINT64_MAX ? size : cut - offset;

		status = add(stream, bytes, n, joint, restart);
		if (n)
			joint = JOINT_NONE;
		if (n)
			restart = false;
		/* Where bytes are missing, no packet begins. */
		if (cut != UINT64_MAX && joint == JOINT_NONE && (n || stream->grows)) {
			joint = JOINT_GAP;
			restart = true;
		}
		bytes += n;
		offset += n;
		size -= n;
	}
	stream->expected = offset;
	stream->grows = true;
	return status;
}

size_t grow_trim(struct stream *stream, uint64_t offset)
{
	size_t n = 0;

	while (n < stream->count && piece_end(stream, n) <= offset)
		n++;
	if (!n)
		return 0;
	memmove(stream->pieces, stream->pieces + n, (stream->count - n) * sizeof(*stream->pieces));
	stream->count -= n;
	return n;
}

void grow_trim_limits(struct stream *stream, size_t count)
{
	if (!count)
		return;
	memmove(stream->limits, stream->limits + count,
		(stream->limit_count - count) * sizeof(*stream->limits));
	stream->limit_count -= count;
}

void grow_trim_turns(struct ptah_session *s, const struct stream *stream, size_t turn)
{
	struct cpu *cpu = &s->cpus[stream->cpu];
	size_t n = turn > cpu->gone ? turn - cpu->gone : 0;

	/* The last ones are those that the next record is compared with. */
	n = n + 2 < cpu->count ? n : cpu->count > 2 ? cpu->count - 2 : 0;
	if (2 * n < cpu->count || n < 64)
		return;
	for (size_t i = 0; i < s->stream_count; i++)
		if (&s->streams[i] != stream && s->streams[i].cpu == stream->cpu)
			return;
	memmove(cpu->turns, cpu->turns + n, (cpu->count - n) * sizeof(*cpu->turns));
	cpu->count -= n;
	cpu->gone += n;
}
