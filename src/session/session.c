/* SPDX-License-Identifier: MIT */
/* Opens a recording, and answers questions about it. */
#include "session/absences.h"
#include "session/grow.h"
#include "session/guest.h"
#include "session/jit.h"
#include "session/stream.h"
#include "session/trace_set.h"
#include "session/versions.h"

#include <ptah/base.h>

#include "base/compiler.h"
#include "base/order.h"
#include "perfdata/format.h"
#include "perfdata/jit_folder.h"
#include "perfdata/message.h"
#include "profile/profile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_config(struct ptah_session *s, const struct ptah_session_config *config,
		       struct ptah_message *why)
{
	if (!config)
		return 0;
	if (config->size < sizeof(*config))
		return perfdata_message(
		    why, PTAH_E_INVAL,
		    "struct ptah_session_config: its size is %zu, not %zu: set it to "
		    "sizeof(config), and build with the headers of this library",
		    config->size, sizeof(*config));
	s->config = *config;
	if (config->build_id_cache) {
		s->build_id_cache = strdup(config->build_id_cache);
		if (!s->build_id_cache)
			return PTAH_E_NOMEM;
		s->config.build_id_cache = s->build_id_cache;
	}
	if (config->symfs && *config->symfs) {
		size_t n;

		s->symfs = strdup(config->symfs);
		if (!s->symfs)
			return PTAH_E_NOMEM;
		n = strlen(s->symfs);
		while (n && s->symfs[n - 1] == '/')
			s->symfs[--n] = '\0';
	}
	return 0;
}

/* Kinds in AUXTRACE_INFO other than Intel PT (enum auxtrace_type in perf's auxtrace.h). */
static const char *auxtrace_name(uint32_t kind)
{
	static const char *const names[] = {
	    NULL, NULL, "Intel BTS", "Arm CoreSight", "Arm SPE", "s390 sampling", "HiSilicon PTT"};

	return kind < ARRAY_SIZE(names) && names[kind] ? names[kind] : "another kind";
}

static int explain_empty(const struct ptah_session *s, const char *path, struct ptah_message *why)
{
	uint32_t kind = perfdata_auxtrace(s->file);

	if (kind && kind != PERFDATA_AUXTRACE_INTEL_PT)
		return perfdata_message(why, PTAH_E_FOREIGN, "%s: a trace of %s, not of Intel PT",
					path, auxtrace_name(kind));
	if (perfdata_truncated(s->file))
		return perfdata_message(why, PTAH_E_TRUNCATED,
					"%s: the file ends at offset %" PRIu64
					" before any trace; copy or record it again",
					path, perfdata_size(s->file));
	return perfdata_message(why, PTAH_E_EMPTY,
				kind ? "%s: the recording holds no trace"
				     : "%s: not a recording of Intel PT (record with `ptah "
				       "record` or `perf record -e intel_pt//`)",
				path);
}

void session_read_events(struct ptah_session *s)
{
	struct ptah_event_config *events = &s->flow.events;
	struct perfdata_timing timing;
	struct ptah_cpu cpu;

	if (perfdata_timing(s->file, &timing)) {
		events->trace.tsc = timing.tsc;
		events->trace.mtc = timing.mtc;
		events->trace.cyc = timing.cyc;
		events->trace.mtc_period = timing.mtc_freq;
		events->nominal_ratio = timing.nominal_ratio;
		events->tsc_n = timing.tsc_n;
		events->tsc_d = timing.tsc_d;
		events->trace.cyc_threshold = timing.cyc_thresh;
		events->trace.event_trace = timing.event_trace;
		events->no_iflags = !timing.event_trace;
		s->flow.events.trace.no_tnt = timing.no_tnt;
		s->flow.events.trace.no_retcomp = timing.no_retcomp;
	}
	if (ptah_cpu_parse(perfdata_cpuid(s->file), &cpu) >= 0)
		events->errata = ptah_cpu_errata(&cpu);
}

/* The folder that a recording is in. NULL: it is in none, or out of memory. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!strcmp(path, "-"))
		return NULL;
	return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

static int open_recording(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	uint64_t bytes = 0;
	int status = perfdata_open(path, &s->file, why);

	s->folder = folder_of(path);
	s->jit_folder = s->folder ? perfdata_jit_folder(path) : NULL;
	if (status >= 0) {
		if (s->config.samples)
			perfdata_want_samples(s->file);
		status = session_read_records(s, path, NULL, why);
	}
	if (status < 0)
		return status;
	session_read_events(s);
	for (size_t i = 0; i < s->stream_count; i++)
		bytes += s->streams[i].info.bytes;
	if (!bytes || perfdata_auxtrace(s->file) != PERFDATA_AUXTRACE_INTEL_PT)
		return explain_empty(s, path, why);
	if (s->config.no_images)
		return 0;
	status = session_find_kernel(s, why);
	return status < 0 ? status : session_check_files(s, why);
}

static struct ptah_session *new_session(void)
{
	struct ptah_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mapped = file_table_new();
	s->versions = versions_new();
	if (!s->mapped || !s->versions) {
		file_table_put(s->mapped);
		versions_free(s->versions);
		free(s);
		return NULL;
	}
	ptah_session_set_window(s, NULL);
	s->flow.size = sizeof(s->flow);
	s->flow.resync = true;
	s->flow.events.size = sizeof(s->flow.events);
	return s;
}

int session_make(const struct ptah_session_config *config, struct ptah_session **session)
{
	struct ptah_session *s = new_session();
	int status = s ? copy_config(s, config, NULL) : PTAH_E_NOMEM;

	if (status < 0) {
		ptah_session_close(s);
		return status;
	}
	*session = s;
	return 0;
}

/* Returns what was opened to the caller, or closes it after a failure. */
static int hand_over(struct ptah_session *s, int status, struct ptah_session **session)
{
	if (status < 0) {
		ptah_session_close(s);
		return status;
	}
	*session = s;
	return 0;
}

/* Trace sets */

static int open_sideband(struct ptah_session *s, const struct ptah_trace_set *set,
			 struct ptah_message *why)
{
	const struct ptah_trace_processor *p = &set->processor;
	struct perfdata_records_part *parts = calloc(set->sideband_count + 1, sizeof(*parts));
	struct perfdata_records_event *events = calloc(set->event_count + 1, sizeof(*events));
	const struct perfdata_records records = {
	    .parts = parts,
	    .count = set->sideband_count,
	    .events = events,
	    .event_count = set->event_count,
	    .clock = {.shift = p->time_shift,
		      .mult = p->has_clock ? p->time_mult : 0,
		      .zero = p->time_zero},
	    .kernel = p->trace.os && set->sideband_count,
	};
	int status = parts && events ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; status >= 0 && i < set->sideband_count; i++) {
		const struct ptah_trace_sideband *from = &set->sideband[i];

		parts[i] = (struct perfdata_records_part){
		    from->file.path,   from->file.from,	 from->file.to,
		    from->sample_type, from->cpu,	 from->pid,
		    from->tid,	       from->tsc_offset, from->primary};
		s->clue.has_primary |= from->primary;
	}
	for (size_t i = 0; status >= 0 && i < set->event_count; i++)
		events[i] =
		    (struct perfdata_records_event){set->events[i].id, set->events[i].sample_type};
	if (status >= 0)
		status = perfdata_open_records(&records, &s->file, why);
	free(parts);
	free(events);
	return status;
}

/* Takes what is needed to decode the packets. */
static void read_processor(struct ptah_session *s, const struct ptah_trace_processor *p)
{
	struct ptah_event_config *events = &s->flow.events;

	events->trace = p->trace;
	events->trace.size = sizeof(events->trace);
	memcpy(s->ranges, p->trace.ranges, sizeof(s->ranges));
	events->tsc_n = p->tsc_n;
	events->tsc_d = p->tsc_d;
	events->nominal_ratio = p->nominal_ratio;
	if (p->cpu.family)
		events->errata = ptah_cpu_errata(&p->cpu);
}

static int explain_no_trace(const struct ptah_trace_set *set, struct ptah_message *why)
{
	if (!set->stream_count)
		return perfdata_message(why, PTAH_E_EMPTY, "%s: it names no file of trace",
					set->origin ? set->origin : "the trace set");
	return perfdata_message(why, PTAH_E_EMPTY, "%s: the file is empty",
				set->streams[0].file.path);
}

static int open_set(struct ptah_session *s, const struct ptah_trace_set *set,
		    struct ptah_message *why)
{
	const char *name = set->origin	       ? set->origin
			   : set->stream_count ? set->streams[0].file.path
					       : "the trace set";
	uint64_t bytes = 0;
	int status;

	s->is_set = true;
	s->folder = set->origin ? folder_of(set->origin) : NULL;
	s->as_named = !set->origin;
	s->clue.cpu = s->clue.tid = -1;
	s->root = set->root && !s->symfs ? strdup(set->root) : NULL;
	if (set->root && !s->symfs && !s->root)
		return PTAH_E_NOMEM;
	read_processor(s, &set->processor);
	status = session_check_sideband(s, set, why);
	if (status >= 0)
		status = open_sideband(s, set, why);
	if (status >= 0)
		status = session_add_set_streams(s, set, why);
	for (size_t i = 0; i < s->stream_count; i++)
		bytes += s->streams[i].info.bytes;
	if (status >= 0 && !bytes)
		return explain_no_trace(set, why);
	if (status >= 0)
		status = session_add_set_code(s, set, why);
	if (status >= 0)
		status = session_read_records(s, name, set, why);
	if (status < 0 || s->config.no_images)
		return status;
	status = session_find_kernel(s, why);
	return status < 0 ? status : session_check_files(s, why);
}

static int open_session_set(const struct ptah_trace_set *set,
			    const struct ptah_session_config *config, struct ptah_session **session,
			    struct ptah_message *why)
{
	struct ptah_session *s;
	int status;

	s = new_session();
	if (!s)
		return PTAH_E_NOMEM;
	status = copy_config(s, config, why);
	s->config.set = NULL;
	if (status >= 0)
		status = open_set(s, set, why);
	return hand_over(s, status, session);
}

static int open_session_raw(const char *pt, const struct ptah_session_config *config,
			    struct ptah_session **session, struct ptah_message *why)
{
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = pt}, .cpu = -1};
	struct ptah_trace_set *set;
	struct ptah_session *s;
	int status;

	status = ptah_trace_set_new(&set);
	if (status < 0)
		return status;
	s = new_session();
	status = s ? ptah_trace_set_add_stream(set, &stream) : PTAH_E_NOMEM;
	if (status >= 0)
		status = copy_config(s, config, why);
	if (status >= 0)
		status = ptah_image_clone(config->image, &s->kernel.image);
	if (s)
		s->config.image = NULL;
	if (status >= 0)
		status = open_set(s, set, why);
	ptah_trace_set_free(set);
	return hand_over(s, status, session);
}

static int open_session_file(const char *path, const struct ptah_session_config *config,
			     struct ptah_session **session, struct ptah_message *why)
{
	const bool fits = config && config->size >= sizeof(*config);
	struct ptah_trace_set *set;
	struct ptah_session *s;
	int status;

	if (session && fits && config->set)
		return open_session_set(config->set, config, session, why);
	if (!path || !session)
		return PTAH_E_INVAL;
	if (fits && config->image)
		return open_session_raw(path, config, session, why);
	if (traceset_is(path)) {
		status = ptah_trace_set_open(path, &set, why);
		if (status < 0)
			return status;
		status = open_session_set(set, config, session, why);
		ptah_trace_set_free(set);
		return status;
	}
	s = new_session();
	if (!s)
		return PTAH_E_NOMEM;
	status = copy_config(s, config, why);
	if (status >= 0)
		status = open_recording(s, path, why);
	return hand_over(s, status, session);
}

int ptah_session_open(const char *path, const struct ptah_session_config *config,
		      struct ptah_session **session, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, open_session_file(path, config, session, why));
}

void ptah_session_close(struct ptah_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->stream_count; i++) {
		free(s->streams[i].pieces);
		free(s->streams[i].placements);
		free(s->streams[i].limits);
		free(s->streams[i].runners);
	}
	for (size_t i = 0; i < s->process_count; i++) {
		free(s->processes[i].changes);
		free(s->processes[i].by_address);
		change_index_free(&s->processes[i].index);
	}
	for (size_t i = 0; i < s->cpu_count; i++)
		free(s->cpus[i].turns);
	session_forget_kernel(&s->kernel);
	jit_free_dumps(s);
	free(s->folder);
	free(s->jit_folder);
	free(s->cpus);
	free(s->last_turns);
	table_free(&s->last_by_tid);
	table_free(&s->cpus_by_number);
	for (size_t i = 0; i < s->note_count; i++)
		free(s->notes[i]);
	free(s->streams);
	free(s->processes);
	for (size_t i = 0; i < s->thread_count; i++)
		free(s->threads[i].names);
	absences_free(&s->absences);
	free(s->threads);
	free(s->begins);
	free(s->namespaces);
	free(s->cgroups);
	free(s->programs);
	free(s->notes);
	for (size_t i = 0; i < s->hit_count; i++)
		free((char *)(uintptr_t)s->hits[i].text);
	free(s->hits);
	samples_free(&s->samples);
	table_free(&s->streams_by_index);
	table_free(&s->processes_by_pid);
	table_free(&s->threads_by_tid);
	table_free(&s->kernel_threads);
	strings_free(&s->paths);
	session_forget_copies(s);
	file_table_put(s->mapped);
	free(s->build_id_cache);
	free(s->symfs);
	free(s->root);
	perfdata_close(s->file);
	session_free_set(s);
	versions_free(s->versions);
	guest_forget(s);
	grow_forget(s);
	free(s);
}

/* Questions */

size_t ptah_session_streams(const struct ptah_session *s)
{
	return s->stream_count;
}

int ptah_session_stream_info(const struct ptah_session *s, size_t stream,
			     struct ptah_stream_info *info)
{
	if (!s || !info || stream >= s->stream_count)
		return PTAH_E_INVAL;
	*info = s->streams[stream].info;
	return 0;
}

bool session_has_spaces(const struct ptah_session *s, const struct stream *stream)
{
	return stream_is_shared(stream) ||
	       (s->space_count && (stream->process == SESSION_NONE || s->is_guest));
}

int32_t session_space_of(const struct ptah_session *s, const struct stream *stream,
			 const struct ptah_space *space)
{
	return stream_is_shared(stream) ? follow_pid(s, space) : session_number_space(s, space);
}

int32_t ptah_session_profile_pid(const struct ptah_session *s, size_t stream,
				 const struct ptah_profile *profile, unsigned space)
{
	struct ptah_space value;

	if (!s || stream >= s->stream_count)
		return -1;
	if (!session_has_spaces(s, &s->streams[stream]))
		return s->streams[stream].info.space;
	return ptah_profile_space(profile, space, &value) < 0
		   ? -1
		   : session_space_of(s, &s->streams[stream], &value);
}

size_t ptah_session_stream_like(const struct ptah_session *s, size_t stream)
{
	return s && stream < s->stream_count ? s->streams[stream].like : stream;
}

int ptah_session_space(const struct ptah_session *s, int32_t space, struct ptah_thread *who)
{
	size_t program, process, thread;
	uint64_t tsc;

	if (!s || !who)
		return PTAH_E_INVAL;
	ptah_session_version(s, &space, &tsc);
	program = (size_t)(-2 - (int64_t)space);
	*who = (struct ptah_thread){.pid = space, .tid = -1};
	if (space < -1) {
		if (program >= s->program_count)
			return PTAH_E_INVAL;
		/* An address space that a trace set names is that of an unknown process. */
		who->pid =
		    program < s->space_count ? -1 : s->processes[s->programs[program].process].pid;
		memcpy(who->comm, s->programs[program].comm, sizeof(who->comm));
		return 0;
	}
	process = space < 0 ? SESSION_NONE : table_get(&s->processes_by_pid, (uint32_t)space);
	thread = space < 0 ? SESSION_NONE : table_get(&s->threads_by_tid, (uint32_t)space);
	/* The thread's number may belong to another process by now. */
	if (thread != SESSION_NONE && s->threads[thread].pid == space)
		memcpy(who->comm, s->threads[thread].comm, sizeof(who->comm));
	else if (process != SESSION_NONE && s->processes[process].program != SESSION_NONE)
		memcpy(who->comm, s->programs[s->processes[process].program].comm,
		       sizeof(who->comm));
	return 0;
}

/* How many pieces before are released again. */
#define FORGET_AGAIN 64

void session_release_before(const struct stream *stream, size_t next)
{
	const struct piece *p = stream->pieces + next;
	const uint8_t *begin;

	if (!next)
		return;
	/*
	 * The kernel maps some pages around each one that is touched, so that a little of the
	 * earlier pieces comes back with every piece. That is released together with the next ones.
	 */
	begin = p[-1].bytes;
	for (size_t i = 2; i <= next && i <= FORGET_AGAIN; i++)
		if (p[-(ptrdiff_t)i].bytes < begin && begin - p[-(ptrdiff_t)i].bytes < (1 << 20))
			begin = p[-(ptrdiff_t)i].bytes;
	perfdata_forget(begin, p[-1].bytes + piece_size(stream, next - 1));
}

size_t session_piece_at(const struct stream *stream, uint64_t offset)
{
	size_t at;

	/* Finds the first piece that ends after `offset`. */
	BISECT(at, 0, stream->count, piece_end(stream, at) <= offset);
	return at;
}

size_t ptah_session_stream_bytes(const struct ptah_session *s, size_t stream, uint64_t offset,
				 const uint8_t **bytes)
{
	const struct stream *st;
	size_t low;

	if (!s || stream >= s->stream_count)
		return 0;
	st = &s->streams[stream];
	low = session_piece_at(st, offset);
	if (low == st->count)
		return 0;
	if (offset == st->pieces[low].offset)
		session_release_before(st, low);
	*bytes = st->pieces[low].bytes + (offset - st->pieces[low].offset);
	return (size_t)(piece_end(st, low) - offset);
}

uint64_t ptah_session_time(const struct ptah_session *s, uint64_t tsc)
{
	const struct perfdata_clock *c = &s->clock;
	uint64_t low;

	if (!s->has_clock)
		return 0;
	tsc += s->tsc_high;
	low = tsc & ((UINT64_C(1) << c->shift) - 1);
	return c->zero + (tsc >> c->shift) * c->mult + (low * c->mult >> c->shift);
}

bool ptah_session_time_scale(const struct ptah_session *s, uint32_t *mult, uint32_t *shift)
{
	if (!s->has_clock)
		return false;
	*mult = s->clock.mult;
	*shift = s->clock.shift;
	return true;
}

void ptah_session_get_flow(const struct ptah_session *s, struct ptah_flow_config *config)
{
	*config = s->flow;
}

int ptah_session_set_flow(struct ptah_session *s, const struct ptah_flow_config *config)
{
	if (!s || !config || config->size < sizeof(*config) ||
	    config->events.size < sizeof(config->events))
		return PTAH_E_INVAL;
	s->flow = *config;
	s->flow_set++;
	return 0;
}

const char *ptah_session_note(const struct ptah_session *s, size_t i)
{
	return s && i < s->note_count ? s->notes[i] : NULL;
}

int ptah_session_hit(const struct ptah_session *s, size_t i, struct ptah_hit *hit)
{
	const size_t size = hit ? hit->size : 0;

	if (!s || !size)
		return PTAH_E_INVAL;
	if (i >= s->hit_count)
		return PTAH_E_MISSING;
	memset(hit, 0, size);
	memcpy(hit, &s->hits[i], size < sizeof(*hit) ? size : sizeof(*hit));
	hit->size = size;
	return 0;
}

const char *ptah_session_command(const struct ptah_session *s)
{
	return perfdata_command(s->file);
}

bool ptah_session_truncated(const struct ptah_session *s)
{
	return perfdata_truncated(s->file);
}
