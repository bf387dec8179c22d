/* SPDX-License-Identifier: MIT */
/* The answer "info": what the recording is, its threads and axes, and how far it has been read. */
#include "view/answers.h"
#include "view/trees.h"

#include <ptah/base.h>

#include <stdlib.h>

static void put_on_axes(struct json *j, const struct view_model *m, const char *key,
			const uint64_t at[LOG_AXES])
{
	json_object(j, key, true);
	if (m->has_time)
		json_number(j, "time", at[LOG_TIME]);
	json_number(j, "instructions", at[LOG_INSTRUCTIONS]);
	json_end_object(j);
}

/* What the threads together have done. */
struct sums {
	uint64_t calls, instructions, errors, losses;
	uint64_t length; /* in instructions: of the longest */
};

static void put_info_thread(struct json *j, struct view_model *m, struct view_thread *t,
			    size_t number, struct sums *sums)
{
	uint64_t end[LOG_AXES], begin[LOG_AXES], calls, errors, losses;
	size_t depth;
	bool ended;

	view_lock_read(&t->lock);
	for (unsigned axis = 0; axis < LOG_AXES; axis++) {
		begin[axis] = t->begin[axis];
		end[axis] = log_on(&t->now, axis);
	}
	calls = t->calls;
	depth = t->most_depth;
	errors = t->errors;
	losses = t->losses;
	ended = t->ended;
	view_unlock_read(&t->lock);
	sums->calls += calls;
	sums->instructions += end[LOG_INSTRUCTIONS];
	sums->errors += errors;
	sums->losses += losses;
	if (end[LOG_INSTRUCTIONS] > sums->length)
		sums->length = end[LOG_INSTRUCTIONS];
	json_object(j, NULL, true);
	json_number(j, "number", number);
	json_signed(j, "pid", t->info.pid);
	json_signed(j, "tid", t->info.tid);
	json_string(j, "comm", t->info.comm);
	put_on_axes(j, m, "begin", begin);
	put_on_axes(j, m, "end", end);
	json_number(j, "depth", depth);
	json_number(j, "calls", calls);
	json_number(j, "errors", errors);
	json_number(j, "losses", losses);
	json_bool(j, "complete", ended);
	json_end_object(j);
}

static void put_threads(struct json *j, struct view_model *m, struct sums *sums)
{
	struct view_thread *t;

	json_array(j, "threads");
	for (size_t i = 0; (t = view_thread_get(m, i)); i++)
		put_info_thread(j, m, t, i, sums);
	json_end_array(j);
}

/*
 * Whether there are times only where the kernel was entered or left, and at synchronisation points.
 */
static bool is_coarse(const struct view_model *m)
{
	struct ptah_flow_config flow;
	const struct ptah_trace_config *trace = &flow.events.trace;

	ptah_session_get_flow(m->config.recordings[VIEW_SHOWN].session, &flow);
	return m->has_time && trace->tsc && !trace->mtc && !trace->cyc;
}

void view_model_problems(struct view_model *m, struct view_problems *problems)
{
	struct view_thread *t;

	*problems = (struct view_problems){0};
	for (size_t i = 0; (t = view_thread_get(m, i)); i++) {
		view_lock_read(&t->lock);
		problems->errors += t->errors;
		problems->log_full |= t->log.full;
		view_unlock_read(&t->lock);
	}
}

static void put_notes(struct json *j, struct view_model *m)
{
	const struct ptah_session *session = m->config.recordings[VIEW_SHOWN].session;
	struct view_problems problems;
	const char *note;

	view_model_problems(m, &problems);
	json_array(j, "notes");
	for (size_t i = 0; (note = ptah_session_note(session, i)); i++)
		json_string(j, NULL, note);
	if (!m->has_time)
		json_string(j, NULL,
			    "The recording does not relate its time stamps to a clock: there is no "
			    "axis of time.");
	if (problems.log_full)
		json_string(j, NULL,
			    "There was no room for the file of single calls: of some parts only "
			    "levels of detail are shown. TMPDIR names another folder for it.");
	json_end_array(j);
}

/* On the axis of time. */
static uint64_t on_axis(const struct view_model *m, uint64_t time)
{
	return time > m->begin ? time - m->begin : 0;
}

/* The moments for which the recording was kept: the page begins there. */
static void put_hits(struct json *j, struct view_model *m)
{
	const struct ptah_session *session = m->config.recordings[VIEW_SHOWN].session;
	struct ptah_hit hit = {.size = sizeof(hit)};
	struct view_thread *t;

	json_array(j, "hits");
	for (size_t i = 0; ptah_session_hit(session, i, &hit) >= 0; i++) {
		json_object(j, NULL, true);
		json_string(j, "text", hit.text);
		if (m->has_time && hit.time) {
			json_number(j, "since", on_axis(m, hit.since ? hit.since : hit.time));
			json_number(j, "time", on_axis(m, hit.time));
		}
		for (size_t k = 0; (t = view_thread_get(m, k)); k++)
			if (t->info.tid == (hit.tid > 0 ? hit.tid : hit.pid)) {
				json_number(j, "thread", t->info.number);
				break;
			}
		json_end_object(j);
	}
	json_end_array(j);
}

/* How far the reading has come, from 0 to 1: of all calls, and of the trees after that. */
static double progress(struct view_model *m)
{
	const double all = (double)(m->trace_bytes ? m->trace_bytes : 1);

	return ((double)m->read_bytes * 0.7 + (double)m->tree_bytes * 0.3) / all;
}

int view_answer_info(struct view_model *m, const struct view_query *query, struct view_reply *reply)
{
	const struct view_recording *r = &m->config.recordings[VIEW_SHOWN];
	struct json *j = &reply->json;
	struct sums sums = {0};
	uint64_t length[LOG_AXES];
	int32_t cpu;
	bool done, calls_read;
	int status;

	(void)query;
	pthread_mutex_lock(&m->lock);
	done = m->done;
	calls_read = m->calls_read;
	status = m->status;
	length[LOG_TIME] = m->length[LOG_TIME];
	pthread_mutex_unlock(&m->lock);
	json_object(j, NULL, false);
	json_string(j, "version", ptah_version());
	json_string(j, "file", r->path);
	json_string(j, "command", ptah_session_command(r->session));
	json_bool(j, "diff", m->config.recordings[VIEW_OLD].session);
	if (m->config.recordings[VIEW_OLD].session)
		json_string(j, "old", m->config.recordings[VIEW_OLD].path);
	json_array(j, "axes");
	if (m->has_time)
		json_string(j, NULL, "time");
	json_string(j, NULL, "instructions");
	json_end_array(j);
	json_bool(j, "coarse", is_coarse(m));
	json_bool(j, "waits", m->has_time && ptah_session_samples(r->session));
	if (m->has_time) {
		json_string(j, "times", ptah_session_times(r->session).name);
		json_bool(j, "times_estimated", ptah_session_times(r->session).estimated);
		json_string(j, "times_text", ptah_session_times(r->session).text);
	}
	put_threads(j, m, &sums);
	length[LOG_INSTRUCTIONS] = sums.length;
	put_on_axes(j, m, "begin", (uint64_t[LOG_AXES]){m->begin, 0});
	put_on_axes(j, m, "length", length);
	json_bool(j, "has_cycles", m->has_cycles);
	json_array(j, "cpus");
	for (size_t i = 0; view_cpu_number(m, i, &cpu); i++)
		json_signed(j, NULL, cpu);
	json_end_array(j);
	json_object(j, "totals", true);
	json_number(j, "calls", sums.calls);
	json_number(j, "instructions", sums.instructions);
	json_number(j, "errors", sums.errors);
	json_number(j, "losses", sums.losses);
	json_end_object(j);
	put_hits(j, m);
	put_notes(j, m);
	json_real(j, "progress", done ? 1 : progress(m));
	json_bool(j, "calls_complete", calls_read);
	json_bool(j, "complete", done);
	json_string(j, "error", status < 0 ? ptah_strerror(status) : NULL);
	json_end_object(j);
	json_finish(j);
	return 0;
}
