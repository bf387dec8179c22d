/* SPDX-License-Identifier: MIT */
/*
 * What threads waited for in single calls, and why: the chain from a wait to the thread that ended
 * it, to what that thread waited for, and so on.
 */
#include "calls_view.h"
#include "output/wait_names.h"

#include "base/order.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call_waits {
	struct calls_view *view;
	struct wait_names names;
	struct timed_call *calls;
	size_t call_count;
};

/* How long two intervals have in common. */
static uint64_t common(uint64_t from, uint64_t until, uint64_t begin, uint64_t end)
{
	const uint64_t a = begin > from ? begin : from, b = end < until ? end : until;

	return b > a ? b - a : 0;
}

static void add_waiting_wait(struct call_split *split, const char *text, uint64_t ns)
{
	const size_t most = sizeof(split->waits) / sizeof(*split->waits);
	size_t i = 0;

	while (i < split->wait_count && strcmp(split->waits[i].text, text) != 0)
		i++;
	if (i == most) { /* the last one is for all others */
		i--;
		snprintf(split->waits[i].text, sizeof(split->waits[i].text), "others");
	} else if (i == split->wait_count) {
		split->wait_count++;
		split->waits[i].ns = 0;
		snprintf(split->waits[i].text, sizeof(split->waits[i].text), "%s", text);
	}
	split->waits[i].ns += ns;
}

static int compare_call_waits(const void *a, const void *b)
{
	const struct call_wait *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : strcmp(x->text, y->text);
}

/* System calls with their times, by thread, then by time; of each what those before it took. */
struct timed_call {
	int32_t tid;
	uint64_t begin, end, before;
};

static int compare_timed(const void *a, const void *b)
{
	const struct timed_call *x = a, *y = b;

	return COMPARE_THEN(x->tid, y->tid, COMPARE(x->begin, y->begin));
}

static int list_waiting_calls(struct call_waits *c)
{
	const struct ptah_syscalls *calls = ptah_waits_syscalls(c->names.waits);
	struct ptah_syscall call = {.size = sizeof(call)};
	uint64_t sum = 0;

	c->calls = malloc((ptah_syscalls_count(calls) + 1) * sizeof(*c->calls));
	if (!c->calls)
		return PTAH_E_NOMEM;
	for (size_t i = 0; ptah_syscalls_get(calls, i, &call) >= 0; i++)
		if (call.flags == (PTAH_SYSCALL_ENTERED | PTAH_SYSCALL_RETURNED) &&
		    call.end >= call.begin)
			c->calls[c->call_count++] = (struct timed_call){
			    .tid = call.tid, .begin = call.begin, .end = call.end};
	if (c->call_count)
		qsort(c->calls, c->call_count, sizeof(*c->calls), compare_timed);
	for (size_t i = 0; i < c->call_count; i++) {
		c->calls[i].before = sum;
		sum += c->calls[i].end - c->calls[i].begin;
	}
	return 0;
}

/* What a thread's system calls took up to `time`, with those of the threads before it. */
static uint64_t time_up_to(const struct call_waits *c, int32_t tid, uint64_t time)
{
	size_t at;
	const struct timed_call *last;

	/* Finds the first that begins later. */
	BISECT(at, 0, c->call_count,
	       c->calls[at].tid < tid || (c->calls[at].tid == tid && c->calls[at].begin <= time));
	if (!at)
		return 0;
	last = &c->calls[at - 1];
	if (last->tid != tid || last->end <= time)
		return last->before + (last->end - last->begin);
	return last->before + (time - last->begin);
}

int call_waits_new(struct calls_view *v, struct call_waits **waits)
{
	const struct ptah_waits_config config = {
	    .size = sizeof(config), .stacks = true, .jobs = input_jobs(&v->options->input, 0)};
	struct call_waits *c;
	int status;

	*waits = NULL;
	if (!ptah_session_samples(v->session))
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	c->view = v;
	c->names = (struct wait_names){.names = v->names, .session = v->session};
	status = ptah_waits_new(v->session, &config, &c->names.waits);
	if (status >= 0 && (ptah_waits_count(c->names.waits) ||
			    ptah_syscalls_count(ptah_waits_syscalls(c->names.waits)))) {
		status = list_waiting_calls(c);
		*waits = status < 0 ? NULL : c;
	}
	if (!*waits)
		call_waits_free(c);
	return status;
}

void call_waits_free(struct call_waits *c)
{
	if (!c)
		return;
	ptah_waits_free(c->names.waits);
	free(c->calls);
	free(c);
}

uint64_t call_waits_end(const struct call_waits *c, const struct ptah_call_thread *thread,
			uint64_t tsc)
{
	return wait_end_of_thread(c->names.waits, c->names.session, thread, tsc);
}

void call_waits_split(struct call_waits *c, int32_t tid, uint64_t from, uint64_t until,
		      struct call_split *split)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	uint64_t in_calls = 0, waited_in_calls = 0;
	char text[WAIT_NAME];

	*split = (struct call_split){.has_switches = ptah_waits_has_switches(c->names.waits, tid)};
	for (size_t i = ptah_waits_of_thread(c->names.waits, tid, from); i != SIZE_MAX;
	     i = ptah_waits_next(c->names.waits, i)) {
		uint64_t ns;

		ptah_waits_get(c->names.waits, i, &wait);
		if (wait.begin >= until)
			break;
		ns = common(from, until, wait.begin, wait.end);
		if (wait.call != SIZE_MAX)
			waited_in_calls += ns;
		if (wait.kind == PTAH_WAIT_PREEMPTED) {
			split->preempted += ns;
			continue;
		}
		split->waited += ns;
		wait_name(&c->names, i, &wait, text);
		add_waiting_wait(split, text, ns);
	}
	qsort(split->waits, split->wait_count, sizeof(*split->waits), compare_call_waits);
	in_calls = time_up_to(c, tid, until) - time_up_to(c, tid, from);
	split->kernel = in_calls > waited_in_calls ? in_calls - waited_in_calls : 0;
	split->rest = split->waited + split->preempted + split->kernel;
	split->rest = until - from > split->rest ? until - from - split->rest : 0;
}

void call_waits_put_split(struct out *out, const struct call_split *split)
{
	char a[PRETTY_NUMBER];

	out_format(out, "    waited %s", pretty_time(split->waited, a));
	for (size_t i = 0; i < split->wait_count; i++) {
		out_format(out, "%s%s for ", i ? ", " : " (", pretty_time(split->waits[i].ns, a));
		out_clean(out, split->waits[i].text);
	}
	if (split->wait_count)
		out_char(out, ')');
	if (split->preempted)
		out_format(out, ", for a processor %s", pretty_time(split->preempted, a));
	out_format(out, ", in other system calls %s", pretty_time(split->kernel, a));
	out_format(out, ", ran%s %s\n",
		   split->has_switches ? "" : " or waited for a processor (not recorded)",
		   pretty_time(split->rest, a));
}

/* Chains */

/* So deep does a chain go, and so many waits of a thread are shown. */
#define MOST_DEEP  16
#define MOST_WAITS 10

struct chain {
	struct call_waits *waits;
	uint64_t since; /* times are shown from here on */
	unsigned depth;
};

static void put_chain(struct chain *c, int32_t tid, uint64_t from, uint64_t until);

static void indent(const struct chain *c)
{
	for (unsigned i = 0; i < c->depth + 2; i++)
		out_text(c->waits->view->out, "  ");
}

/* A time, from the beginning of the call on; the others have begun before it, perhaps. */
static void put_waiting_time(const struct chain *c, uint64_t time)
{
	const bool before = time < c->since;
	char text[PRETTY_NUMBER];

	out_char(c->waits->view->out, before ? '-' : '+');
	out_text(c->waits->view->out,
		 pretty_time(before ? c->since - time : time - c->since, text));
}

/* What the thread that ended the wait did until then. */
static void put_waiting_waker(struct chain *c, size_t i, const struct ptah_wait *wait)
{
	const struct wait_names *names = &c->waits->names;
	const uint64_t from = wait->begin, until = wait->woken ? wait->woken : wait->end;
	struct out *out = c->waits->view->out;
	struct ptah_wait other = {.size = sizeof(other)};
	char text[WAIT_TEXT];
	size_t first = ptah_waits_of_thread(names->waits, wait->waker_tid, from);

	if (wait->how != PTAH_WAIT_END_WOKEN || c->depth >= MOST_DEEP || until <= from)
		return;
	if (first != SIZE_MAX)
		ptah_waits_get(names->waits, first, &other);
	c->depth++;
	indent(c);
	wait_functions(names, i,
		       wait->holder == wait->waker_tid ? PTAH_WAIT_STACK_HOLDER
						       : PTAH_WAIT_STACK_WAKER,
		       3, text);
	out_format(out, "%d%s  ", wait->waker_tid, wait_or_others(wait));
	put_waiting_time(c, from);
	out_text(out, " to ");
	put_waiting_time(c, until);
	if (*text)
		out_text(out, ": in ");
	out_clean(out, text);
	if (first == SIZE_MAX || other.begin >= until)
		out_text(out, ptah_waits_has_switches(names->waits, wait->waker_tid)
				  ? ", it ran\n"
				  : ", it ran, or waited for a processor (not recorded)\n");
	else
		out_char(out, '\n');
	c->depth++;
	put_chain(c, wait->waker_tid, from, until);
	c->depth -= 2;
}

static void put_chain(struct chain *c, int32_t tid, uint64_t from, uint64_t until)
{
	const struct wait_names *names = &c->waits->names;
	struct out *out = c->waits->view->out;
	struct ptah_wait wait = {.size = sizeof(wait)};
	char text[WAIT_NAME], end[WAIT_END], a[PRETTY_NUMBER];
	unsigned shown = 0;

	for (size_t i = ptah_waits_of_thread(names->waits, tid, from); i != SIZE_MAX;
	     i = ptah_waits_next(names->waits, i)) {
		ptah_waits_get(names->waits, i, &wait);
		if (wait.begin >= until)
			break;
		if (shown++ == MOST_WAITS) {
			indent(c);
			out_text(out, "and more\n");
			break;
		}
		indent(c);
		wait_name(&c->waits->names, i, &wait, text);
		put_waiting_time(c, wait.begin);
		out_format(out, "  %s  ",
			   pretty_time(common(from, until, wait.begin, wait.end), a));
		out_clean(out, text);
		out_text(out, ", ");
		out_clean(out, wait_end(names, i, &wait, end));
		out_char(out, '\n');
		put_waiting_waker(c, i, &wait);
	}
}

void call_waits_put_chain(struct call_waits *waits, int32_t tid, uint64_t from, uint64_t until)
{
	struct chain c = {.waits = waits, .since = from};

	put_chain(&c, tid, from, until);
}
