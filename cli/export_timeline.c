/* SPDX-License-Identifier: MIT */
/*
 * ptah export of timelines: reads the calls and events of each thread in order, and hands them to
 * the format's writer.
 */
#include "export_functions.h"
#include "export_view.h"
#include "export_waits.h"
#include "progress.h"

#include "base/text.h"
#include "export/timeline.h"
#include "output/items.h"
#include "support/list.h"

#include <ptah/calls.h>
#include <ptah/session.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A call that is open. */
struct frame {
	const struct timeline_function *function; /* NULL: it is left out */
	uint64_t id;
	bool waits; /* its beginning has no time: it is written with the first time that is known */
	bool folds; /* calls that it made are too deep, and left out */
};

/* A thread, by its number. */
struct line {
	struct timeline_thread thread;
	char comm[16];
	bool begun;	 /* the writer knows it */
	bool timed;	 /* its time is known */
	bool executed;	 /* it has executed another program */
	uint64_t inside; /* the call of --function that is open and outermost; 0: none */
	uint64_t last;	 /* the time of its last event */
	/* Tracing is off, and this slice open, whose end is where tracing begins again. NULL: it is
	 * on, or the clock is instructions, of which none pass meanwhile. */
	const char *away;
	struct export_wait_place place;
	struct frame *frames;
	size_t count, room;
	size_t shown; /* frames that are not left out */
};

struct timeline {
	struct exporting *e;
	const struct timeline_format *format;
	void *writer;
	struct export_functions *functions;
	struct export_waits *waits; /* NULL: the recording has none, or the clock is no time */
	struct progress progress;
	bool instructions;  /* the clock */
	uint64_t max_depth; /* deeper calls are left out; 0: none */
	uint64_t folded;    /* calls that are left out because they are too deep, */
	uint64_t untimed;   /* or because no time is known */
	struct line *lines;
	size_t line_count;
};

static struct line *line_of(struct timeline *t, size_t number)
{
	return LIST_REACH(t->lines, t->line_count, number) ? &t->lines[number] : NULL;
}

/* Announces a thread to the writer before its first event, and when its name has changed. */
static int name_thread(struct timeline *t, struct line *line, const struct ptah_call_thread *thread)
{
	char comm[16];

	memcpy(comm, thread->comm, sizeof(comm));
	text_clean(comm);
	/* The list of threads may have been moved. */
	line->thread.comm = line->comm;
	if (line->begun && !strcmp(line->comm, comm))
		return 0;
	memcpy(line->comm, comm, sizeof(comm));
	line->begun = true;
	line->thread.number = thread->number;
	line->thread.pid = thread->pid >= 0 ? thread->pid : TIMELINE_MADE_UP;
	line->thread.tid =
	    thread->tid > 0 ? thread->tid : TIMELINE_MADE_UP + 1 + (int32_t)thread->number;
	if (!comm[0] && thread->tid <= 0)
		strcpy(line->comm, thread->tid ? "[unknown]" : "[idle]");
	return t->format->thread(t->writer, &line->thread);
}

static int put_event(struct timeline *t, struct line *line, struct timeline_event *event,
		     uint64_t at)
{
	if (at > line->last)
		line->last = at;
	event->at = line->last;
	event->thread = &line->thread;
	return t->format->event(t->writer, event);
}

/* The first time of a thread is known: the calls that are open begin, as far as the file goes. */
static int begin_waiting(struct timeline *t, struct line *line, uint64_t at)
{
	static const struct timeline_detail detail = {
	    "begin", "earlier: the trace has no time before this one", 0};
	int status = 0;

	line->timed = true;
	for (size_t i = 0; i < line->count && status >= 0; i++) {
		struct timeline_event event = {.kind = TIMELINE_BEGIN,
					       .function = line->frames[i].function,
					       .noted = true,
					       .details = &detail,
					       .detail_count = 1};

		if (line->frames[i].waits)
			status = put_event(t, line, &event, at);
		line->frames[i].waits = false;
	}
	return status;
}

/* Where something lies on the axis. False: not known. */
static bool find_place(const struct timeline *t, const struct ptah_call_counts *counts,
		       uint64_t tsc, uint64_t *at)
{
	*at = t->instructions ? counts->instructions
			      : (tsc ? ptah_session_time(t->e->session, tsc) : 0);
	return t->instructions || tsc;
}

/* Tracing has begun again, or what comes next is not known. */
static int come_back(struct timeline *t, struct line *line, uint64_t at)
{
	struct timeline_event event = {.kind = TIMELINE_END, .name = line->away};

	line->away = NULL;
	return put_event(t, line, &event, at);
}

/* Calls */

static bool push_timeline_frame(struct line *line, const struct frame *frame)
{
	if (!LIST_ROOM(line->frames, line->count, line->room))
		return false;
	line->frames[line->count++] = *frame;
	return true;
}

/* What is missing in a call, or not certain. */
#define NOTED (PTAH_CALL_HAS_LOSS | PTAH_CALL_FOLDED | PTAH_CALL_UNSURE)

/* How a call ended whose end is not in the trace. */
static const char *missing_end(unsigned how)
{
	switch (how) {
	case PTAH_CALL_END_LOST:
		return "not in the trace: lost";
	case PTAH_CALL_END_EXEC:
		return "another program was executed";
	default:
		return "not in the trace: it ends before";
	}
}

/* What is unusual in how a call began or ended. Returns the number of details. */
static size_t describe(const struct ptah_call_mark *mark, struct timeline_detail *details)
{
	static const struct {
		unsigned flag;
		struct timeline_detail detail;
	} notes[] = {
	    {PTAH_CALL_HAS_LOSS, {"loss", "a part of the call is not in the trace", 0}},
	    {PTAH_CALL_FOLDED, {"deep", "calls in it were too deep to be followed", 0}},
	    {PTAH_CALL_UNSURE, {"unsure", "another call of the function may continue here", 0}},
	    {PTAH_CALL_NO_BOUNDS, {"bounds", "where the function begins is not known", 0}},
	};
	const unsigned missing = mark->end ? PTAH_CALL_NO_END : PTAH_CALL_NO_BEGIN;
	size_t n = 0;

	if (mark->flags & missing)
		details[n++] = (struct timeline_detail){
		    mark->end ? "end" : "begin",
		    mark->end ? missing_end(mark->how) : "not in the trace", 0};
	else if (mark->end && mark->how != PTAH_CALL_END_RETURN)
		details[n++] =
		    (struct timeline_detail){"end", ptah_call_how_name(true, mark->how), 0};
	else if (!mark->end && mark->how != PTAH_CALL_CALLED)
		details[n++] =
		    (struct timeline_detail){"begin", ptah_call_how_name(false, mark->how), 0};
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		if (mark->flags & notes[i].flag)
			details[n++] = notes[i].detail;
	return n;
}

/* The call is too deep: the innermost one that is shown will say so. */
static void fold(struct timeline *t, struct line *line)
{
	size_t i = line->count;

	t->folded++;
	while (i && !line->frames[i - 1].function)
		i--;
	if (i)
		line->frames[i - 1].folds = true;
}

static int put_signal(struct timeline *t, struct line *line, uint64_t at, const struct frame *frame)
{
	const struct timeline_detail detail = {"handler", frame->function->name, 0};
	struct timeline_event event = {
	    .kind = TIMELINE_INSTANT, .name = "signal", .details = &detail, .detail_count = 1};

	return put_event(t, line, &event, at);
}

static int begin_call(struct timeline *t, struct line *line, const struct ptah_call_thread *thread,
		      const struct ptah_call_mark *mark)
{
	struct timeline_detail details[TIMELINE_DETAILS];
	struct timeline_event event = {.kind = TIMELINE_BEGIN,
				       .noted = mark->flags & (PTAH_CALL_NO_BEGIN | NOTED),
				       .details = details,
				       .detail_count = describe(mark, details)};
	struct frame frame = {.id = mark->id};
	uint64_t at = line->last;
	bool wanted;
	int status;

	names_set_time(t->e->names, mark->tsc);
	event.function = export_function(t->functions, ptah_call_thread_space(thread, mark->space),
					 mark->function, &wanted);
	if (!event.function)
		return PTAH_E_NOMEM;
	if (!line->inside && wanted)
		line->inside = mark->id;
	t->e->found |= wanted;
	if (line->inside && (!(mark->flags & PTAH_CALL_STUB) || t->e->options->stubs)) {
		if (!t->max_depth || line->shown < t->max_depth)
			frame.function = event.function;
		else
			fold(t, line);
	}
	/* Where no time is known any more, the last one that is known holds. */
	frame.waits =
	    frame.function && !find_place(t, &mark->thread, mark->tsc, &at) && !line->timed;
	if (!push_timeline_frame(line, &frame))
		return PTAH_E_NOMEM;
	line->shown += frame.function != NULL;
	if (!frame.function || frame.waits)
		return 0;
	status = mark->how == PTAH_CALL_SIGNAL ? put_signal(t, line, at, &frame) : 0;
	return status < 0 ? status : put_event(t, line, &event, at);
}

static int put_exec(struct timeline *t, struct line *line, uint64_t at)
{
	struct timeline_event event = {.kind = TIMELINE_INSTANT, .name = "exec"};

	line->executed = true;
	return put_event(t, line, &event, at);
}

static int end_call(struct timeline *t, struct line *line, const struct ptah_call_mark *mark)
{
	const struct frame frame = line->frames[--line->count];
	struct timeline_detail details[TIMELINE_DETAILS];
	struct timeline_event event = {.kind = TIMELINE_END,
				       .function = frame.function,
				       .noted = mark->flags & (PTAH_CALL_NO_END | NOTED),
				       .details = details,
				       .detail_count = describe(mark, details)};
	uint64_t at = line->last;
	int status = 0;

	if (line->inside == mark->id)
		line->inside = 0;
	line->shown -= frame.function != NULL;
	t->untimed += frame.waits;
	if (!frame.function || frame.waits)
		return 0;
	if (frame.folds) {
		event.noted = true;
		details[event.detail_count++] = (struct timeline_detail){
		    "folded", "deeper calls are left out (--max-stack)", 0};
	}
	find_place(t, &mark->thread, mark->tsc, &at);
	if (mark->how == PTAH_CALL_END_EXEC && !line->executed)
		status = put_exec(t, line, at);
	return status < 0 ? status : put_event(t, line, &event, at);
}

static int put_mark(struct timeline *t, struct line *line, const struct ptah_call_thread *thread,
		    const struct ptah_call_mark *mark)
{
	uint64_t at;
	int status = 0;

	if (find_place(t, &mark->thread, mark->tsc, &at) && !line->timed)
		status = begin_waiting(t, line, at);
	else if (line->away)
		status = come_back(t, line, at);
	if (status < 0)
		return status;
	return mark->end ? end_call(t, line, mark) : begin_call(t, line, thread, mark);
}

/* Events */

/* The name of an event that is shown. NULL: it is not. */
static const char *name_item(const struct ptah_item *item)
{
	if (item->flags & PTAH_ITEM_STATUS)
		return NULL;
	switch (item->type) {
	case PTAH_ITEM_DISABLED:
		/* Where it went is in the trace unless that is the kernel. */
		return item->flags & PTAH_ITEM_IP_SUPPRESSED ? "system call" : "not traced";
	case PTAH_ITEM_ASYNC_DISABLED:
		return "interrupt";
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TSX:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_PTWRITE:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_EXSTOP:
	case PTAH_ITEM_MWAIT:
	case PTAH_ITEM_PWRE:
	case PTAH_ITEM_PWRX:
	case PTAH_ITEM_INTERRUPT:
	case PTAH_ITEM_SMI:
	case PTAH_ITEM_SIPI:
	case PTAH_ITEM_INIT:
	case PTAH_ITEM_VMENTRY:
	case PTAH_ITEM_VMEXIT:
	case PTAH_ITEM_SHUTDOWN:
	case PTAH_ITEM_UINTR:
	case PTAH_ITEM_SWINTR:
	case PTAH_ITEM_SYSCALL:
	case PTAH_ITEM_TRIGGER:
		return ptah_item_name(item->type);
	default: /* branches, packets that repeat state, the ends of interrupts */
		return NULL;
	}
}

static bool is_loss(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_ERROR || item->type == PTAH_ITEM_OVERFLOW ||
	       item->type == PTAH_ITEM_GAP;
}

static size_t describe_item(const struct ptah_item *item, struct timeline_detail *details)
{
	struct item_field fields[ITEM_FIELDS];
	const unsigned count = item_fields(item, fields);
	size_t n = 0;

	if (item->type == PTAH_ITEM_ERROR)
		details[n++] = (struct timeline_detail){"error", ptah_strerror(item->status), 0};
	if (is_loss(item))
		details[n++] = (struct timeline_detail){"offset", NULL, item->offset};
	for (unsigned i = 0; i < count; i++)
		details[n++] = (struct timeline_detail){
		    fields[i].name, NULL, fields[i].kind == ITEM_FIELD_WORD ? 1 : fields[i].value};
	return n;
}

/* Whether tracing stops there, so that time passes which belongs to no function. */
static bool is_leave(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_DISABLED || item->type == PTAH_ITEM_ASYNC_DISABLED;
}

static int put_item(struct timeline *t, struct line *line, const struct ptah_item *item,
		    const struct ptah_call_counts *counts)
{
	struct timeline_detail details[TIMELINE_DETAILS];
	struct timeline_event event = {
	    .kind = TIMELINE_INSTANT, .name = name_item(item), .details = details};
	uint64_t at = line->last;
	int status = 0;

	t->e->errors += item->type == PTAH_ITEM_ERROR;
	if (line->away && (item->type == PTAH_ITEM_ENABLED || is_leave(item) || is_loss(item))) {
		find_place(t, counts, item->tsc, &at);
		status = come_back(t, line, at);
	}
	if (status < 0)
		return status;
	if (!event.name || (!line->inside && t->e->options->input.function && !is_loss(item)))
		return 0;
	if (find_place(t, counts, item->tsc, &at) && !line->timed)
		status = begin_waiting(t, line, at);
	/* A loss is shown even where its time is not known; others have no place then. */
	if (status < 0 || (!line->timed && !is_loss(item)))
		return status;
	event.detail_count = describe_item(item, details);
	if (t->waits && item->type == PTAH_ITEM_DISABLED)
		export_waits_describe(t->waits, &line->place, line->thread.tid, at, &event,
				      details);
	if (is_leave(item) && !t->instructions) {
		event.kind = TIMELINE_BEGIN;
		line->away = event.name;
	}
	return put_event(t, line, &event, at);
}

static int take_batch(struct timeline *t, const struct ptah_call_batch *batch)
{
	struct line *line = line_of(t, batch->thread->number);
	int status = line ? name_thread(t, line, batch->thread) : PTAH_E_NOMEM;

	for (size_t i = 0; i < batch->count && status >= 0; i++)
		status = put_mark(t, line, batch->thread, &batch->marks[i]);
	if (batch->event && status >= 0)
		status = put_item(t, line, batch->event, &batch->counts);
	if (batch->ended && status >= 0 && line->away)
		status = come_back(t, line, line->last);
	return status;
}

static int read_batches(struct timeline *t, struct ptah_call_reader *reader)
{
	const struct ptah_call_batch *batch;
	int status = 0;

	while (!interrupted() && !out_failed(t->e->out) &&
	       (status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = take_batch(t, batch);
		if (status < 0)
			break;
		progress_at(&t->progress, ptah_call_reader_offset(reader));
	}
	return status < 0 ? status : 0;
}

static bool wants_timeline_stream(void *timeline, size_t stream)
{
	const struct exporting *e = ((const struct timeline *)timeline)->e;

	return input_wants(&e->options->input, e->session, stream);
}

/* A thread whose trace ends while it waits waits on, and is in its calls as long. */
static uint64_t end_in_timeline(void *timeline, const struct ptah_call_thread *thread, uint64_t tsc)
{
	return export_waits_end(((const struct timeline *)timeline)->waits, thread, tsc);
}

static int read_calls(struct timeline *t)
{
	struct exporting *e = t->e;
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .wants = wants_timeline_stream,
						       .ended = t->waits ? end_in_timeline : NULL,
						       .context = t,
						       .events = true,
						       .jobs = input_jobs(&e->options->input, 1)};
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(e->session, &config, &reader);

	if (status < 0)
		return status;
	progress_begin(&t->progress, &e->options->input, e->session, false);
	status = read_batches(t, reader);
	progress_end(&t->progress);
	ptah_call_reader_free(reader);
	return status;
}

/* Decides on the clock. Returns an exit code. */
static int choose_clock(struct timeline *t)
{
	uint32_t mult, shift;
	const bool timed = ptah_session_time_scale(t->e->session, &mult, &shift);
	const int clock = t->e->options->clock;

	if (clock == EXPORT_CLOCK_TIME && !timed)
		return fail(&command_export,
			    "--clock=time: the recording does not relate TSC to a clock; "
			    "--clock=instructions needs none");
	t->instructions = clock == EXPORT_CLOCK_INSTRUCTIONS || !timed;
	if (t->instructions && clock == EXPORT_CLOCK_DEFAULT && !t->e->options->input.quiet)
		print_clean("note: ", "the recording does not relate TSC to a clock: the axis is "
				      "instructions, one for a nanosecond");
	return EXIT_OK;
}

static void free_timeline(struct timeline *t)
{
	for (size_t i = 0; i < t->line_count; i++)
		free(t->lines[i].frames);
	free(t->lines);
	if (t->writer)
		t->format->free(t->writer);
	export_functions_free(t->functions);
	export_waits_free(t->waits);
}

/* A writer's result: the system calls that fail in one are those for its temporary file. */
static int with_reason(int status)
{
	return status == PTAH_E_SYSTEM
		   ? fail(&command_export,
			  "a file in the folder of TMPDIR, or else /var/tmp, is needed: %s",
			  strerror(errno))
		   : status;
}

int export_timeline(struct exporting *e)
{
	const uint64_t most = e->options->max_stack;
	struct timeline t = {.e = e,
			     .format = e->format->timeline,
			     .max_depth = most ? most : e->format->timeline->max_depth};
	struct timeline_recording recording = {.command = ptah_session_command(e->session)};
	int status = choose_clock(&t);

	if (status)
		return status;
	recording.instructions = t.instructions;
	recording.times = t.instructions ? NULL : ptah_session_times(e->session).text;
	status = export_functions_new(e->names, e->options->input.function, &t.functions);
	if (status >= 0 && !t.instructions)
		status = export_waits_new(e, &t.waits);
	if (status >= 0)
		status = with_reason(t.format->begin(e->out, &recording, &t.writer));
	if (!status)
		status = read_calls(&t);
	if (!status)
		status = with_reason(t.format->end(t.writer));
	if (!status && t.folded && !e->options->input.quiet)
		print_clean("note: ",
			    "%" PRIu64 " calls with %" PRIu64
			    " callers or more are left out, because "
			    "viewers lose track of them; --max-stack=N sets the limit",
			    t.folded, t.max_depth);
	if (!status && t.untimed && !e->options->input.quiet)
		print_clean("note: ",
			    "%" PRIu64
			    " calls are left out, which ran before the first time in the "
			    "trace; --clock=instructions has them",
			    t.untimed);
	if (!status && !t.instructions)
		input_note_times(&e->options->input, e->session);
	free_timeline(&t);
	return status;
}
