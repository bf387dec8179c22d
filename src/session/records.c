/* SPDX-License-Identifier: MIT */
/*
 * Reads the records of a recording: streams, threads, processes and their memory.
 *
 * perf writes what each CPU saw piece by piece, so that records are not in the order of time. The
 * first pass over the records takes the trace and notes the time of every other record. The second
 * pass goes through these in the order of time. The entries of a trace set take their places among
 * them.
 */
#include "session/records.h"

#include "base/compiler.h"
#include "base/order.h"
#include "perfdata/message.h"
#include "session/guest.h"
#include "session/jit.h"
#include "session/trace_set.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the second pass takes: at the same time in this order. */
enum mark_type {
	MARK_THREAD, /* of a trace set */
	MARK_MAP,    /* of a trace set: of its struct set_maps */
	MARK_SWITCH, /* of a trace set */
	MARK_RECORD,
};

struct mark {
	uint64_t time;	 /* of a record: by perf's clock at first, then converted to TSC */
	uint64_t offset; /* of the record, or the index of the entry */
	enum mark_type type;
};

/* What an AUX record's flags say of its trace (perf_event.h, "PERF_AUX_FLAG_"). */
static const struct aux_loss {
	uint64_t flag;
	const char *note;
} aux_losses[] = {
    {PERFDATA_AUX_TRUNCATED, "are cut: the buffer was full"},
    {PERFDATA_AUX_PARTIAL, "have gaps: something ran untraced, such as a virtual machine on a "
			   "processor that does not trace while VMX is in use"},
    {PERFDATA_AUX_COLLISION, "have gaps: samples of another recording got in the way"},
};

struct pass {
	struct ptah_session *session;
	const struct ptah_trace_set *set; /* NULL: a recording */
	bool has_code;			  /* the recording has code that is in no file */
	struct set_maps maps;
	struct mark *marks;
	size_t count, capacity;
	/* What the kernel reported as lost: events, and pieces of trace for each reason. */
	uint64_t lost, lost_samples, damaged[ARRAY_SIZE(aux_losses)];
	struct cut *cuts;
	size_t cut_count, cut_capacity;
};

int session_note(struct ptah_session *s, const char *text, size_t n)
{
	char *note;

	if (!LIST_ROOM(s->notes, s->note_count, s->note_capacity))
		return PTAH_E_NOMEM;
	note = strndup(text, n);
	if (!note)
		return PTAH_E_NOMEM;
	s->notes[s->note_count++] = note;
	return 0;
}

int session_on_hit(struct ptah_session *s, const struct perfdata_record *r)
{
	char *text;

	if (!LIST_ROOM(s->hits, s->hit_count, s->hit_capacity))
		return PTAH_E_NOMEM;
	text = strndup(r->text, r->text_size);
	if (!text)
		return PTAH_E_NOMEM;
	s->hits[s->hit_count++] = (struct ptah_hit){.size = sizeof(*s->hits),
						    .time = r->hit_time,
						    .since = r->hit_since,
						    .pid = r->pid,
						    .tid = r->tid,
						    .text = text};
	return 0;
}

int session_note_format(struct ptah_session *s, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return session_note(s, text, strlen(text));
}

/* First pass */

static int add_mark(struct pass *pass, enum mark_type type, uint64_t time, uint64_t offset)
{
	if (!LIST_ROOM(pass->marks, pass->count, pass->capacity))
		return PTAH_E_NOMEM;
	pass->marks[pass->count++] = (struct mark){time, offset, type};
	return 0;
}

static int mark_record(struct pass *pass, const struct perfdata_record *r)
{
	return add_mark(pass, MARK_RECORD, r->time, r->offset);
}

/* What the entries of a trace set say of processes and threads. */
static int mark_set(struct pass *pass, struct ptah_message *why)
{
	const struct ptah_trace_set *set = pass->set;
	int status = session_list_set_maps(pass->session, set, &pass->maps, why);

	for (size_t i = 0; i < set->thread_count && status >= 0; i++)
		status = add_mark(pass, MARK_THREAD, 0, i);
	for (size_t i = 0; i < pass->maps.count && status >= 0; i++)
		status = add_mark(pass, MARK_MAP, pass->maps.maps[i].change.tsc, i);
	for (size_t i = 0; i < set->switch_count && status >= 0; i++)
		status = add_mark(pass, MARK_SWITCH, set->switches[i].tsc, i);
	for (size_t i = 0; i < set->note_count && status >= 0; i++)
		status = session_note(pass->session, set->notes[i], strlen(set->notes[i]));
	return status;
}

/* Trace was lost between this record's and the next one's, or, if only partial, within it. */
static int on_aux(struct pass *pass, const struct perfdata_record *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(aux_losses); i++)
		pass->damaged[i] += (r->lost & aux_losses[i].flag) != 0;
	if (r->size > UINT64_MAX - r->trace_offset)
		return 0;
	if (!LIST_ROOM(pass->cuts, pass->cut_count, pass->cut_capacity))
		return PTAH_E_NOMEM;
	pass->cuts[pass->cut_count++] = (struct cut){.cpu = r->cpu,
						     .tid = r->tid,
						     .offset = r->trace_offset + r->size,
						     .time = r->time,
						     .full = r->lost & PERFDATA_AUX_TRUNCATED};
	return 0;
}

/* What the recording of a virtual machine has of its code. */
static int first_pass_guest(struct pass *pass, const struct perfdata_record *r)
{
	int status;

	if (pass->session->is_set || r->tag < PERFDATA_PTAH_PAGE || r->tag > PERFDATA_PTAH_SPACE)
		return 0;
	status = guest_take(pass->session, r);
	return status < 0 || r->tag == PERFDATA_PTAH_PAGE ? status : mark_record(pass, r);
}

static int first_pass(struct pass *pass, const struct perfdata_record *r)
{
	struct ptah_session *s = pass->session;
	int status;

	if (s->config.samples &&
	    (r->sampled || r->type == PERFDATA_SWITCH || r->type == PERFDATA_SWITCH_CPU_WIDE)) {
		status = samples_take(s, r);
		if (status < 0)
			return status;
	}
	switch (r->type) {
	case PERFDATA_AUXTRACE:
	case PERFDATA_SAMPLE:
		/* Samples of other events have no trace. */
		return r->type == PERFDATA_SAMPLE && !r->trace_size
			   ? 0
			   : session_add_trace(s, r->index, r->tid, r->cpu, r->trace_offset,
					       r->bytes, r->trace_size);
	case PERFDATA_AUX:
		return on_aux(pass, r);
	case PERFDATA_LOST:
		pass->lost += r->lost;
		return 0;
	case PERFDATA_LOST_SAMPLES:
		pass->lost_samples += r->lost;
		return 0;
	case PERFDATA_HEADER_EVENT_TYPE:
		if (r->tag == PERFDATA_PTAH_TRUTH)
			return session_on_truth(s, r);
		if (r->tag == PERFDATA_PTAH_VDSO && r->number == 64) {
			s->vdso_code = r->bytes;
			s->vdso_size = r->size;
		}
		if (r->tag == PERFDATA_PTAH_NOTE)
			return session_note(s, r->text, r->text_size);
		if (r->tag == PERFDATA_PTAH_HIT && r->text)
			return session_on_hit(s, r);
		if (r->tag == PERFDATA_PTAH_CODE) {
			pass->has_code = true;
			return mark_record(pass, r);
		}
		return first_pass_guest(pass, r);
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		status = jit_on_map(s, r);
		return status < 0 ? status : mark_record(pass, r);
	default:
		return mark_record(pass, r);
	}
}

/* Second pass */

uint64_t session_tsc(const struct ptah_session *s, uint64_t time)
{
	const struct perfdata_clock *c = &s->clock;
	uint64_t t;

	/* Where the TSC began before perf's clock did, as in a guest, `zero` is a negative number.
	 */
	t = time - c->zero;
	if (!s->has_clock || !time || t > INT64_MAX)
		return 0;
	/* (t << shift) / mult, without losing the high bits */
	return ((t / c->mult) << c->shift) + (((t % c->mult) << c->shift) / c->mult);
}

/*
 * The code of a jitdump becomes code of its process, as if the recorder had recorded it. It is
 * listed in the order of the file.
 */
static int mark_dumped_code(struct pass *pass, const struct jitdump *dump)
{
	struct set_maps *m = &pass->maps;
	const size_t first = m->count, count = dump->jit.count;
	struct set_map *maps = reallocarray(m->maps, first + count + 1, sizeof(*maps));
	int status = maps ? 0 : PTAH_E_NOMEM;

	if (!maps)
		return status;
	m->maps = maps;
	m->count = m->capacity = first + count;
	for (size_t i = 0; i < count && status >= 0; i++) {
		const struct symbol_jit_code *code = &dump->jit.codes[i];
		const size_t at = first + code->order;

		maps[at] = (struct set_map){.pid = dump->pid,
					    .change = {.type = CHANGE_CODE,
						       .tsc = code->from,
						       .address = code->head,
						       .size = code->size,
						       .bytes = code->bytes}};
		if (code->from && code->bytes)
			status = add_mark(pass, MARK_MAP, code->from, at);
	}
	return status;
}

/* A jitdump serves as code if the recording has none, as those of processors with Intel PT. */
static int mark_jit(struct pass *pass)
{
	struct ptah_session *s = pass->session;
	int status = jit_read_dumps(s);

	s->use_jit_code = !pass->has_code;
	for (size_t i = 0; i < s->jitdump_count && status >= 0; i++)
		if (s->use_jit_code && s->jitdumps[i].has_times)
			status = mark_dumped_code(pass, &s->jitdumps[i]);
	return status;
}

/* Records with the same time stay in the order of the file. */
static int compare_marks(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return COMPARE_THEN(x->time, y->time,
			    COMPARE_THEN(x->type, y->type, COMPARE(x->offset, y->offset)));
}

static int sort_marks(struct pass *pass)
{
	struct perfdata_record r;
	bool sorted = true;

	for (size_t i = 0; i < pass->count; i++) {
		struct mark *m = &pass->marks[i];
		int status = m->type == MARK_RECORD
				 ? perfdata_read_at(pass->session->file, m->offset, &r)
				 : 0;

		if (status < 0)
			return status;
		if (m->type == MARK_RECORD)
			m->time = r.type == PERFDATA_HEADER_EVENT_TYPE
				      ? r.tsc
				      : session_tsc(pass->session, m->time);
		sorted = sorted && (!i || compare_marks(m - 1, m) < 0);
	}
	if (!sorted)
		qsort(pass->marks, pass->count, sizeof(*pass->marks), compare_marks);
	return 0;
}

/*
 * Whether it is known when records were written. Without that their switches are not used, so that
 * those which a trace set names itself are.
 */
static bool has_times(const struct ptah_session *s)
{
	return s->has_clock || !s->is_set;
}

static void leave_out_high_byte(struct pass *pass)
{
	struct ptah_session *s = pass->session;
	size_t first = 0;

	/* The entries of a set have times of their own. */
	if (s->is_set)
		return;
	while (first < pass->count && !pass->marks[first].time)
		first++;
	if (first < pass->count)
		s->tsc_high = pass->marks[first].time & ~SESSION_TSC_MASK;
	for (size_t i = first; i < pass->count; i++)
		pass->marks[i].time -= s->tsc_high;
	s->begin = first < pass->count ? pass->marks[first].time : 0;
	s->end = first < pass->count ? pass->marks[pass->count - 1].time : 0;
	for (size_t i = 0; i < pass->maps.count; i++)
		pass->maps.maps[i].change.tsc -= s->tsc_high;
	jit_leave_out(s, s->tsc_high);
}

static int compare_limits(const void *a, const void *b)
{
	const struct limit *x = a, *y = b;

	return COMPARE_THEN(x->at, y->at, COMPARE(x->tsc, y->tsc));
}

/* Converts the limits to the times that TSC packets have. */
static void convert_limits(struct ptah_session *s)
{
	for (size_t i = 0; i < s->stream_count; i++) {
		struct stream *stream = &s->streams[i];

		for (size_t k = 0; k < stream->limit_count; k++)
			stream->limits[k].tsc = session_tsc(s, stream->limits[k].tsc) - s->tsc_high;
		if (stream->limit_count)
			qsort(stream->limits, stream->limit_count, sizeof(*stream->limits),
			      compare_limits);
	}
}

static int take_entry(struct pass *pass, const struct mark *m)
{
	struct ptah_session *s = pass->session;
	const struct set_map *map;
	struct process *p;

	switch (m->type) {
	case MARK_THREAD:
		return session_on_set_thread(s, &pass->set->threads[m->offset]);
	case MARK_SWITCH:
		return session_on_set_switch(s, &pass->set->switches[m->offset]);
	default:
		map = &pass->maps.maps[m->offset];
		p = session_process_of(s, map->pid);
		return p ? session_append_change(p, &map->change) : PTAH_E_NOMEM;
	}
}

int session_take_record(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	int status;

	switch (r->type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		return session_on_map(s, r, tsc);
	case PERFDATA_COMM:
		return session_on_comm(s, r, tsc);
	case PERFDATA_FORK:
		return session_on_fork(s, r, tsc);
	case PERFDATA_EXIT:
		return session_on_exit(s, r);
	case PERFDATA_ITRACE_START:
		status = session_on_begin(s, r);
		return status < 0 || !has_times(s) ? status : session_on_start(s, r, tsc);
	case PERFDATA_SWITCH:
	case PERFDATA_SWITCH_CPU_WIDE:
		return has_times(s) ? session_on_switch(s, r, tsc) : 0;
	case PERFDATA_NAMESPACES:
		return session_on_namespaces(s, r, tsc);
	case PERFDATA_CGROUP:
		return session_on_cgroup(s, r);
	case PERFDATA_KSYMBOL:
		return session_on_ksymbol(s, r, tsc);
	case PERFDATA_BPF_EVENT:
		return session_on_bpf(s, r, tsc);
	case PERFDATA_TEXT_POKE:
		return session_on_poke(s, r, tsc);
	case PERFDATA_HEADER_EVENT_TYPE:
		return r->tag == PERFDATA_PTAH_CODE ? session_on_code(s, r, tsc)
						    : guest_apply(s, r, tsc);
	default:
		return 0;
	}
}

static int take_mark(struct ptah_session *s, const struct mark *m)
{
	struct perfdata_record r;
	int status = perfdata_read_at(s->file, m->offset, &r);

	return status < 0 ? status : session_take_record(s, &r, m->time);
}

static int read_twice(struct pass *pass, struct ptah_message *why)
{
	struct ptah_session *s = pass->session;
	struct perfdata_record r;
	int status, more;

	while ((more = perfdata_next(s->file, &r, why)) > 0) {
		session_take_clue(s, &r);
		status = first_pass(pass, &r);
		if (status < 0)
			return status;
	}
	if (more < 0)
		return more;
	s->has_clock = perfdata_clock(s->file, &s->clock);
	s->time_source = perfdata_time_source(s->file);
	status = session_cut_streams(s, pass->cuts, pass->cut_count);
	if (status >= 0)
		status = pass->set ? mark_set(pass, why) : guest_number_spaces(s);
	if (status >= 0 && !s->config.no_images)
		status = mark_jit(pass);
	if (status >= 0)
		status = sort_marks(pass);
	if (status >= 0)
		leave_out_high_byte(pass);
	convert_limits(s);
	if (status >= 0 && s->config.samples)
		status = samples_finish(s);
	for (size_t i = 0; i < pass->count && status >= 0; i++)
		status = pass->marks[i].type == MARK_RECORD ? take_mark(s, &pass->marks[i])
							    : take_entry(pass, &pass->marks[i]);
	return status;
}

static int note_losses(const struct pass *pass)
{
	struct ptah_session *s = pass->session;
	int status = 0;

	if (pass->lost)
		status = session_note_format(
		    s, "the kernel lost %" PRIu64 " events: processes or their maps may be missing",
		    pass->lost);
	if (pass->lost_samples && status >= 0)
		status = session_note_format(
		    s, "the kernel lost %" PRIu64 " samples of other events or more",
		    pass->lost_samples);
	for (size_t i = 0; i < ARRAY_SIZE(aux_losses) && status >= 0; i++)
		if (pass->damaged[i])
			status = session_note_format(s, "%" PRIu64 " pieces of trace %s",
						     pass->damaged[i], aux_losses[i].note);
	if (perfdata_truncated(s->file) && status >= 0)
		status =
		    session_note_format(s, "%s is cut short at offset %" PRIu64 ": its end is lost",
					perfdata_cut_path(s->file), perfdata_size(s->file));
	else if (perfdata_unfinished(s->file) && status >= 0)
		status =
		    session_note_format(s, "the recorder did not end properly: this is what it had "
					   "written");
	return status;
}

int session_read_records(struct ptah_session *s, const char *path, const struct ptah_trace_set *set,
			 struct ptah_message *why)
{
	struct pass pass = {.session = s, .set = set};
	int status;

	if (why)
		why->text[0] = '\0';
	status = read_twice(&pass, why);
	free(pass.marks);
	free(pass.cuts);
	free(pass.maps.maps);
	if (status >= 0)
		status = note_losses(&pass);
	if (status >= 0)
		status = session_name_streams(s);
	kernel_find_later(&s->kernel);
	if (status >= 0)
		status = session_index_maps(s);
	if (status >= 0)
		status = session_find_alike(s);
	if (status < 0 && why && !why->text[0])
		perfdata_message(why, status, "%s: %s", path, ptah_strerror(status));
	return status;
}
