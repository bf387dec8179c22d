/* SPDX-License-Identifier: MIT */
/*
 * ptah calls --of=F: single calls of a function. All calls are read; of F's the ones with the
 * largest values are kept, each with what the functions that it called took.
 */
#include "calls_view.h"

#include "base/order.h"
#include "base/text.h"
#include "output/fields.h"
#include "output/pretty.h"
#include "progress.h"
#include "support/list.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a call's calls of one function took together. */
struct share {
	size_t key;
	uint64_t calls, figure;
};

struct slow_call {
	uint64_t figure, self, order; /* order: in which they ended, to break ties */
	bool ended;		      /* or else the figures are those up to the trace's end */
	uint64_t tsc, end_tsc;
	int32_t pid, tid;
	char comm[16];
	char site[512]; /* where it was called */
	struct share *shares;
	size_t share_count;
};

/* A call that is open. */
struct frame {
	size_t key;
	size_t callee; /* of a stub: what it led to; SIZE_MAX: not known yet */
	bool wanted, stub, partial;
	char *site; /* of wanted ones */
	struct share *shares;
	size_t share_count;
	/* What it ran before it was suspended, and when it began; 0: it never was. */
	uint64_t before, self_before, begin_tsc;
};

/* A wanted call that is suspended, by its id. */
struct suspended {
	uint64_t id;
	struct frame frame;
};

struct stack {
	struct frame *frames;
	size_t count, room;
	void *suspended; /* tsearch() tree of struct suspended */
};

struct slowest {
	struct calls_view *view;
	struct progress progress;
	struct stack *stacks; /* by the numbers of the threads */
	size_t stack_count;
	struct slow_call *kept;
	size_t kept_count, most;
	uint64_t calls, partial, untimed, cycles;
	uint32_t mult, shift;
	struct call_waits *waits; /* NULL: the recording has none */
};

static uint64_t to_ns(const struct slowest *s, uint64_t ticks)
{
	const uint64_t low = ticks & ((UINT64_C(1) << s->shift) - 1);

	return (ticks >> s->shift) * s->mult + (low * s->mult >> s->shift);
}

static uint64_t figure_of(const struct slowest *s, const struct ptah_call_counts *counts)
{
	switch (s->view->options->value) {
	case PTAH_CALL_VALUE_CYCLES:
		return counts->cycles;
	case PTAH_CALL_VALUE_TIME:
		return to_ns(s, counts->ticks);
	default:
		return counts->instructions;
	}
}

static struct stack *stack_of(struct slowest *s, size_t thread)
{
	return LIST_REACH(s->stacks, s->stack_count, thread) ? &s->stacks[thread] : NULL;
}

static void free_frame(struct frame *f)
{
	free(f->site);
	free(f->shares);
}

static int compare_suspended(const void *a, const void *b)
{
	const struct suspended *x = a, *y = b;

	return COMPARE(x->id, y->id);
}

/* Keeps what the frame has until the call is resumed. The caller forgets the frame. */
static int suspend_call(struct slowest *s, struct stack *stack, const struct frame *f,
			const struct ptah_call_mark *mark)
{
	struct suspended *kept = malloc(sizeof(*kept));

	if (!kept)
		return PTAH_E_NOMEM;
	*kept = (struct suspended){.id = mark->id, .frame = *f};
	kept->frame.partial |= mark->flags & (PTAH_CALL_NO_BEGIN | PTAH_CALL_HAS_LOSS);
	kept->frame.before += figure_of(s, &mark->total);
	kept->frame.self_before += figure_of(s, &mark->self);
	if (!kept->frame.begin_tsc)
		kept->frame.begin_tsc = mark->begin_tsc;
	if (!tsearch(kept, &stack->suspended, compare_suspended)) {
		free(kept);
		return PTAH_E_NOMEM;
	}
	return 0;
}

/* A call continues that was suspended: it is the same call. False: its beginning was not seen. */
static bool resume_call(struct stack *stack, uint64_t id, struct frame *f)
{
	const struct suspended wanted = {.id = id};
	struct suspended **found = tfind(&wanted, &stack->suspended, compare_suspended), *kept;

	if (!found)
		return false;
	kept = *found;
	tdelete(&wanted, &stack->suspended, compare_suspended);
	*f = kept->frame;
	free(kept);
	return true;
}

/* Calls that were not resumed are not wholly in the trace. */
static void end_suspended(struct slowest *s, struct stack *stack)
{
	while (stack->suspended) {
		struct suspended *kept = *(struct suspended **)stack->suspended;

		tdelete(kept, &stack->suspended, compare_suspended);
		free_frame(&kept->frame);
		free(kept);
		s->calls++;
		s->partial++;
	}
}

static bool add_share(struct frame *f, size_t key, uint64_t figure, bool ended)
{
	size_t i = 0;

	while (i < f->share_count && f->shares[i].key != key)
		i++;
	if (i == f->share_count) {
		if (!LIST_ADD(f->shares, f->share_count))
			return false;
		f->shares[i].key = key;
	}
	f->shares[i].calls += ended;
	f->shares[i].figure += figure;
	return true;
}

/* Where a call was made from; of unknown ones the calling function, if it is known. */
static char *site_of(struct slowest *s, const struct stack *stack, int32_t space, uint64_t site)
{
	const struct calls_view *v = s->view;
	char text[NAMES_LABEL_MAX];

	if (site)
		return strdup(names_label(v->names, space, site, text, sizeof(text)));
	return strdup(stack->count > 1 ? v->keys[stack->frames[stack->count - 2].key].function
				       : "[not known]");
}

static int begin_slowest_call(struct slowest *s, const struct ptah_call_thread *thread,
			      struct stack *stack, const struct ptah_call_mark *mark)
{
	const int32_t space = ptah_call_thread_space(thread, mark->space);
	struct frame *f;

	if (!LIST_ROOM(stack->frames, stack->count, stack->room))
		return PTAH_E_NOMEM;
	f = &stack->frames[stack->count++];
	*f = (struct frame){.key = calls_key_of(s->view, space, mark->function),
			    .callee = SIZE_MAX,
			    .stub = mark->flags & PTAH_CALL_STUB,
			    .partial = mark->how == PTAH_CALL_RESUMED};
	if (f->key == SIZE_MAX) {
		stack->count--;
		return PTAH_E_NOMEM;
	}
	f->wanted = s->view->keys[f->key].wanted;
	if (f->wanted && mark->how == PTAH_CALL_RESUMED && resume_call(stack, mark->id, f))
		return 0;
	if (f->wanted)
		f->site = site_of(s, stack, space, mark->site);
	return f->wanted && !f->site ? PTAH_E_NOMEM : 0;
}

static int compare_slowest_calls(const void *a, const void *b)
{
	const struct slow_call *x = a, *y = b;

	return COMPARE_THEN(y->figure, x->figure, COMPARE(x->order, y->order));
}

/* Keeps a call if it is one of the slowest so far. Takes the frame's shares then. */
static int keep_slow_call(struct slowest *s, const struct ptah_call_thread *thread, struct frame *f,
			  const struct ptah_call_mark *mark)
{
	const uint64_t figure = f->before + figure_of(s, &mark->total);
	struct slow_call *call;

	if (s->kept_count == 2 * s->most) { /* drops the quicker half */
		qsort(s->kept, s->kept_count, sizeof(*s->kept), compare_slowest_calls);
		while (s->kept_count > s->most)
			free(s->kept[--s->kept_count].shares);
	}
	if (!s->most)
		return 0;
	call = &s->kept[s->kept_count++];
	*call = (struct slow_call){.figure = figure,
				   .self = f->self_before + figure_of(s, &mark->self),
				   .order = s->calls,
				   .ended = !(mark->flags & PTAH_CALL_NO_END),
				   .tsc = f->begin_tsc ? f->begin_tsc : mark->begin_tsc,
				   .end_tsc = mark->tsc,
				   .pid = thread->pid,
				   .tid = thread->tid,
				   .shares = f->shares,
				   .share_count = f->share_count};
	memcpy(call->comm, thread->comm, sizeof(call->comm));
	call->comm[sizeof(call->comm) - 1] = '\0';
	text_clean(call->comm);
	snprintf(call->site, sizeof(call->site), "%s", f->site);
	f->shares = NULL;
	return 0;
}

static int end_wanted(struct slowest *s, const struct ptah_call_thread *thread, struct frame *f,
		      const struct ptah_call_mark *mark)
{
	const bool unknown = f->partial || mark->how == PTAH_CALL_END_LOST ||
			     mark->flags & (PTAH_CALL_NO_BEGIN | PTAH_CALL_HAS_LOSS);

	s->calls++;
	s->partial += unknown || mark->flags & PTAH_CALL_NO_END;
	if (unknown)
		return 0;
	if (s->view->options->value == PTAH_CALL_VALUE_TIME && !mark->begin_tsc) {
		s->untimed++;
		return 0;
	}
	return keep_slow_call(s, thread, f, mark);
}

static int end_call(struct slowest *s, const struct ptah_call_thread *thread, struct stack *stack,
		    const struct ptah_call_mark *mark)
{
	const bool suspended = mark->how == PTAH_CALL_END_SUSPENDED;
	struct frame *f, *caller;
	size_t key;
	int status = 0;
	bool moved;

	s->cycles |= mark->total.cycles;
	s->view->folded |= mark->flags & PTAH_CALL_FOLDED;
	if (!stack->count)
		return 0;
	f = &stack->frames[stack->count - 1];
	caller = stack->count > 1 ? f - 1 : NULL;
	/* A stub stands for the function that it led to. */
	key = f->stub && !s->view->options->stubs && f->callee != SIZE_MAX ? f->callee : f->key;
	if (f->wanted)
		status =
		    suspended ? suspend_call(s, stack, f, mark) : end_wanted(s, thread, f, mark);
	moved = f->wanted && suspended && status >= 0;
	if (caller && caller->stub)
		caller->callee = key;
	if (caller && caller->wanted && status >= 0 &&
	    !add_share(caller, key, figure_of(s, &mark->total), !suspended))
		status = PTAH_E_NOMEM;
	if (!moved)
		free_frame(f);
	stack->count--;
	return status;
}

static int take_slowest_batch(struct slowest *s, const struct ptah_call_batch *batch)
{
	struct stack *stack = stack_of(s, batch->thread->number);
	int status = stack ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < batch->count && status >= 0; i++)
		status = batch->marks[i].end
			     ? end_call(s, batch->thread, stack, &batch->marks[i])
			     : begin_slowest_call(s, batch->thread, stack, &batch->marks[i]);
	s->view->errors += batch->event && batch->event->type == PTAH_ITEM_ERROR;
	return status;
}

static bool wants_slowest_stream(void *context, size_t stream)
{
	const struct slowest *s = context;

	return input_wants(&s->view->options->input, s->view->session, stream);
}

/* A thread that waited when its trace ended was in its calls as long. */
static uint64_t end_in_slowest(void *context, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct slowest *s = context;

	return s->waits ? call_waits_end(s->waits, thread, tsc) : 0;
}

static int read_slowest_calls(struct slowest *s)
{
	const struct input *input = &s->view->options->input;
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .wants = wants_slowest_stream,
						       .ended = end_in_slowest,
						       .context = s,
						       .jobs = input_jobs(input, 0)};
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(s->view->session, &config, &reader);

	if (status >= 0) {
		progress_begin(&s->progress, input, s->view->session, true);
		while (!interrupted() && (status = ptah_call_reader_next(reader, &batch)) > 0) {
			progress_at(&s->progress, ptah_call_reader_offset(reader));
			status = take_slowest_batch(s, batch);
			if (status < 0)
				break;
		}
		progress_end(&s->progress);
		ptah_call_reader_free(reader);
	}
	for (size_t i = 0; i < s->stack_count; i++)
		end_suspended(s, &s->stacks[i]);
	return status < 0 ? status : 0;
}

/* Output */

static int compare_shares(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return COMPARE_THEN(y->figure, x->figure, COMPARE(x->key, y->key));
}

/* Where the time of a call went. False: that is not known. */
static bool split_call(const struct slowest *s, const struct slow_call *c, struct call_split *split)
{
	const struct ptah_session *session = s->view->session;

	if (!s->waits || !c->tsc || !c->end_tsc)
		return false;
	call_waits_split(s->waits, c->tid, ptah_session_time(session, c->tsc),
			 ptah_session_time(session, c->end_tsc), split);
	return true;
}

static void put_waits(const struct slowest *s, const struct slow_call *c)
{
	const struct ptah_session *session = s->view->session;
	struct call_split split;

	/* Who counts instructions does not ask for times. */
	if ((s->view->options->value != PTAH_CALL_VALUE_TIME && !s->view->options->why) ||
	    !split_call(s, c, &split))
		return;
	call_waits_put_split(s->view->out, &split);
	if (s->view->options->why)
		call_waits_put_chain(s->waits, c->tid, ptah_session_time(session, c->tsc),
				     ptah_session_time(session, c->end_tsc));
}

/* Text lists so many functions of each call. */
#define MOST_SHARES 10

static void put_slowest_text(const struct slowest *s)
{
	struct calls_view *v = s->view;
	char a[32], b[32];

	calls_put_time_head(v);
	pretty_head(v->out, "# %s calls of %s", pretty_number(s->calls, a), v->wanted[0]);
	if (s->partial)
		out_format(v->out, ", of which %s are not wholly in the trace",
			   pretty_number(s->partial, b));
	if (s->untimed)
		out_format(v->out, ", and of %s no time is known", pretty_number(s->untimed, b));
	out_text(v->out, "; the slowest:\n");
	for (size_t i = 0; i < s->kept_count; i++) {
		const struct slow_call *c = &s->kept[i];
		const uint64_t ns = ptah_session_time(v->session, c->tsc);

		out_format(v->out, "%s%s", calls_text(v, c->figure, a),
			   v->options->value == PTAH_CALL_VALUE_TIME ? "" : " ");
		if (v->options->value != PTAH_CALL_VALUE_TIME)
			out_text(v->out, calls_value_name(v));
		out_format(v->out, "  thread %d (%s)", c->tid, c->comm);
		if (c->tsc && ns) {
			out_text(v->out, "  at ");
			out_seconds(v->out, ns);
		}
		out_text(v->out, "  called from ");
		out_clean(v->out, c->site);
		out_text(v->out, c->ended ? "\n" : ", has not ended\n");
		put_waits(s, c);
		out_text(v->out, "    ");
		pretty_percent(v->out, c->self, c->figure);
		out_format(v->out, " %15s %12s  [itself]\n", calls_text(v, c->self, a), "");
		for (size_t k = 0; k < c->share_count && k < MOST_SHARES; k++) {
			const struct share *p = &c->shares[k];

			out_text(v->out, "    ");
			pretty_percent(v->out, p->figure, c->figure);
			out_format(v->out, " %15s %10s x  ", calls_text(v, p->figure, a),
				   pretty_number(p->calls, b));
			pretty_name(v->out, v->keys[p->key].function, pretty_rest(v->out, 43));
			out_char(v->out, '\n');
		}
		if (c->share_count > MOST_SHARES)
			out_format(v->out, "    and %zu more (--format=json lists them)\n",
				   c->share_count - MOST_SHARES);
	}
}

struct call_row {
	int32_t pid, tid;
	const char *comm, *site, *function, *times;
	uint64_t time, total, self;
	bool timed, ended;
};

static const struct field call_fields[] = {
    FIELD(struct call_row, "pid", FIELD_SIGNED, pid),
    FIELD(struct call_row, "tid", FIELD_SIGNED, tid),
    FIELD(struct call_row, "comm", FIELD_STRING, comm),
    {"time_s", "time_s", FIELD_SECONDS, offsetof(struct call_row, time), 0,
     offsetof(struct call_row, timed)},
    FIELD(struct call_row, "total", FIELD_NUMBER, total),
    FIELD(struct call_row, "self", FIELD_NUMBER, self),
    FIELD(struct call_row, "caller", FIELD_STRING, site),
    FIELD(struct call_row, "ended", FIELD_BOOL, ended),
    CALLS_KIND_FIELD(struct call_row),
};

static const struct row_type call_type = ROW_TYPE(call_fields);

static struct call_row row_of(const struct slowest *s, const struct slow_call *c)
{
	const uint64_t ns = ptah_session_time(s->view->session, c->tsc);

	return (struct call_row){.pid = c->pid,
				 .tid = c->tid,
				 .comm = c->comm,
				 .site = c->site,
				 .time = ns,
				 .timed = c->tsc && ns,
				 .total = c->figure,
				 .self = c->self,
				 .ended = c->ended,
				 .times = calls_kind_name(s->view)};
}

static void put_split_json(const struct slowest *s, const struct slow_call *c, struct json *json)
{
	struct call_split split;

	if (!split_call(s, c, &split))
		return;
	json_array(json, "waits");
	for (size_t i = 0; i < split.wait_count; i++) {
		json_object(json, NULL, true);
		json_string(json, "cause", split.waits[i].text);
		json_number(json, "ns", split.waits[i].ns);
		json_end_object(json);
	}
	json_end_array(json);
	json_number(json, "waited_ns", split.waited);
	json_number(json, "preempted_ns", split.preempted);
	json_number(json, "system_calls_ns", split.kernel);
	json_number(json, split.has_switches ? "ran_ns" : "ran_or_preempted_ns", split.rest);
}

static void put_slowest_json(const struct slowest *s)
{
	struct calls_view *v = s->view;
	struct json json;

	json_init(&json, v->out);
	json_object(&json, NULL, false);
	json_string(&json, "of", v->wanted[0]);
	json_string(&json, "value", calls_value_name(v));
	calls_put_time_json(v, &json);
	json_number(&json, "count", s->calls);
	json_number(&json, "partial", s->partial);
	json_number(&json, "errors", v->errors);
	json_array(&json, "calls");
	for (size_t i = 0; i < s->kept_count; i++) {
		const struct call_row row = row_of(s, &s->kept[i]);

		json_object(&json, NULL, false);
		fields_json_members(&json, &call_type, 0, &row);
		json_array(&json, "callees");
		for (size_t k = 0; k < s->kept[i].share_count; k++) {
			const struct share *p = &s->kept[i].shares[k];

			json_object(&json, NULL, true);
			json_string(&json, "function", v->keys[p->key].function);
			json_number(&json, "calls", p->calls);
			json_number(&json, "total", p->figure);
			json_end_object(&json);
		}
		json_end_array(&json);
		put_split_json(s, &s->kept[i], &json);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_end_object(&json);
	json_finish(&json);
}

static void put_slowest_tsv(const struct slowest *s)
{
	fields_tsv_head(s->view->out, &call_type, calls_asked(s->view));
	for (size_t i = 0; i < s->kept_count; i++) {
		const struct call_row row = row_of(s, &s->kept[i]);

		fields_tsv(s->view->out, &call_type, calls_asked(s->view), &row);
	}
}

static int put_slowest(struct slowest *s)
{
	int status = calls_check_wanted(s->view);

	if (!status && s->view->options->value == PTAH_CALL_VALUE_CYCLES && !s->cycles)
		status = fail(&command_calls,
			      "--value=cycles: no cycles are known: they are in CYC packets, "
			      "recorded with -e intel_pt/cyc/u");
	if (status)
		return status;
	if (s->kept_count)
		qsort(s->kept, s->kept_count, sizeof(*s->kept), compare_slowest_calls);
	while (s->kept_count > s->most)
		free(s->kept[--s->kept_count].shares);
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].share_count)
			qsort(s->kept[i].shares, s->kept[i].share_count, sizeof(*s->kept[i].shares),
			      compare_shares);
	if (s->view->options->input.format == FORMAT_JSON)
		put_slowest_json(s);
	else if (s->view->options->input.format == FORMAT_TSV)
		put_slowest_tsv(s);
	else
		put_slowest_text(s);
	return EXIT_OK;
}

/* More calls than this are not kept at once. */
#define MOST_KEPT 100000

int calls_put_slowest(struct calls_view *v)
{
	const uint64_t wanted = v->options->slowest ? v->options->slowest : 10;
	struct slowest s = {.view = v, .most = wanted < MOST_KEPT ? (size_t)wanted : MOST_KEPT};
	int status, problem;

	if (!ptah_session_time_scale(v->session, &s.mult, &s.shift) &&
	    v->options->value == PTAH_CALL_VALUE_TIME)
		return fail(&command_calls,
			    "--value=time: the recording does not relate TSC to a clock; "
			    "--value=instructions needs none");
	s.kept = calloc(2 * s.most, sizeof(*s.kept));
	problem = s.kept ? call_waits_new(v, &s.waits) : PTAH_E_NOMEM;
	if (problem >= 0)
		problem = read_slowest_calls(&s);
	status = problem < 0 ? fail(&command_calls, "%s", ptah_strerror(problem)) : put_slowest(&s);
	for (size_t i = 0; i < s.stack_count; i++) {
		while (s.stacks[i].count)
			free_frame(&s.stacks[i].frames[--s.stacks[i].count]);
		free(s.stacks[i].frames);
	}
	for (size_t i = 0; i < s.kept_count; i++)
		free(s.kept[i].shares);
	call_waits_free(s.waits);
	free(s.stacks);
	free(s.kept);
	return status;
}
