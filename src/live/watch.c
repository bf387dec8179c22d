/* SPDX-License-Identifier: MIT */
/* Watches: reads them from text, and finds the calls that they wait for. */
#include "live/live.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "session/jit.h"
#include "support/list.h"

#include <ptah/symbol.h>

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#define SECOND UINT64_C(1000000000)

/* Text */

static const struct {
	const char *name;
	int number;
} signals[] = {{"HUP", SIGHUP},	  {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},
	       {"TRAP", SIGTRAP}, {"ABRT", SIGABRT}, {"BUS", SIGBUS},	{"FPE", SIGFPE},
	       {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
	       {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"SYS", SIGSYS},
	       {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ}};

/* Passes a word and the blanks after it. False: it is not there. */
static bool pass(const char **at, const char *word)
{
	const size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0 ||
	    (isalpha((unsigned char)word[n - 1]) && (*at)[n] && !isspace((unsigned char)(*at)[n])))
		return false;
	*at += n;
	*at += strspn(*at, " \t");
	return true;
}

static bool read_number(const char **at, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	*value = strtoull(*at, &end, 10);
	*at = end + strspn(end, " \t");
	return true;
}

/* Copies [from, to) without blanks at its end. False: it does not fit, or is empty. */
static bool copy_trimmed(char *into, size_t size, const char *from, const char *to)
{
	while (to > from && isspace((unsigned char)to[-1]))
		to--;
	if (to == from || (size_t)(to - from) >= size)
		return false;
	memcpy(into, from, (size_t)(to - from));
	into[to - from] = '\0';
	return true;
}

/* FUNCTION[@FILE], up to `end`. A name may have any characters, also " > " of a template. */
static bool read_function(const char *at, const char *end, struct ptah_watch *w)
{
	const char *file = end;

	while (file > at && file[-1] != '@')
		file--;
	if (file == at)
		return copy_trimmed(w->function, sizeof(w->function), at, end);
	if (!strncmp(file, "./", 2))
		file += 2;
	return copy_trimmed(w->function, sizeof(w->function), at,
			    file - (file[-1] == '@' ? 1 : 3)) &&
	       copy_trimmed(w->file, sizeof(w->file), file, end);
}

/* The last " > ", which separates the limit. NULL: there is none. */
static const char *find_limit(const char *text)
{
	const char *found = NULL;

	for (const char *p = text; (p = strstr(p, ">")); p++)
		found = p;
	return found;
}

/* Passes what stands behind the point of a number, as billionths; digits after the ninth are
 * nothing. */
static bool read_fraction(const char **at, uint64_t *billionths)
{
	uint64_t place = SECOND;
	const char *p = *at;

	*billionths = 0;
	if (*p != '.')
		return true;
	for (p++; isdigit((unsigned char)*p); p++) {
		place /= 10;
		*billionths += place * (uint64_t)(*p - '0');
	}
	if (p == *at + 1)
		return false;
	*at = p + strspn(p, " \t");
	return true;
}

static bool read_limit(const char *at, struct ptah_watch *w)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", SECOND}};
	uint64_t part;

	at += strspn(at, " \t");
	if (!read_number(&at, &w->limit) || !read_fraction(&at, &part))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units) && w->kind != PTAH_WATCH_RATE; i++)
		if (!strcmp(at, units[i].unit)) {
			w->kind = PTAH_WATCH_TIME;
			return !__builtin_mul_overflow(w->limit, units[i].ns, &w->limit) &&
			       !__builtin_add_overflow(w->limit, part * units[i].ns / SECOND,
						       &w->limit);
		}
	if (part)
		return false;
	if (w->kind == PTAH_WATCH_RATE)
		return !strcmp(at, "/s");
	w->kind = PTAH_WATCH_INSTRUCTIONS;
	return !strcmp(at, "instructions");
}

static bool read_signal(const char *at, struct ptah_watch *w)
{
	w->kind = PTAH_WATCH_SIGNAL;
	if (!*at)
		return true;
	if (read_number(&at, &w->limit))
		return !*at && w->limit > 0 && w->limit < NSIG;
	if (!strncasecmp(at, "SIG", 3))
		at += 3;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (!strcasecmp(at, signals[i].name))
			w->limit = (uint64_t)signals[i].number;
	return w->limit;
}

static bool read_exit(const char *at, struct ptah_watch *w)
{
	w->kind = PTAH_WATCH_EXIT;
	if (pass(&at, "!="))
		w->compare = PTAH_WATCH_UNEQUAL;
	else if (pass(&at, "==") || pass(&at, "="))
		w->compare = PTAH_WATCH_EQUAL;
	else if (pass(&at, ">"))
		w->compare = PTAH_WATCH_MORE;
	else if (pass(&at, "<"))
		w->compare = PTAH_WATCH_LESS;
	else
		return false;
	return read_number(&at, &w->limit) && !*at;
}

static bool read_watch(const char *at, struct ptah_watch *w)
{
	const char *limit;
	bool waits;

	if (pass(&at, "signal"))
		return read_signal(at, w);
	if (pass(&at, "exit"))
		return read_exit(at, w);
	if (pass(&at, "enter")) {
		w->kind = PTAH_WATCH_ENTER;
		return read_function(at, at + strlen(at), w);
	}
	waits = pass(&at, "waits");
	if (!waits && pass(&at, "rate"))
		w->kind = PTAH_WATCH_RATE;
	limit = find_limit(at);
	if (!limit || !read_function(at, limit, w) || !read_limit(limit + 1, w))
		return false;
	if (!waits)
		return true;
	if (w->kind != PTAH_WATCH_TIME)
		return false;
	w->kind = PTAH_WATCH_WAITS;
	return true;
}

static int parse_watch(const char *text, struct ptah_watch *watch, struct ptah_message *why)
{
	struct ptah_watch w = {0};

	if (!text || !watch)
		return PTAH_E_INVAL;
	if (!read_watch(text + strspn(text, " \t"), &w))
		return perfdata_message(
		    why, PTAH_E_INVAL,
		    "%.200s: not a watch; such are 'parse@server > 2ms', "
		    "'parse > 5000 instructions', 'waits parse > 2ms', 'enter fail@libfoo.so', "
		    "'rate parse > 1000/s', 'signal SEGV', 'exit != 0'",
		    text);
	*watch = w;
	return 0;
}

int ptah_watch_parse(const char *text, struct ptah_watch *watch, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, parse_watch(text, watch, why));
}

bool ptah_watch_ended(const struct ptah_watch *w, int wait_status)
{
	uint64_t code;

	if (!w)
		return false;
	if (w->kind == PTAH_WATCH_SIGNAL)
		return WIFSIGNALED(wait_status) &&
		       (!w->limit || w->limit == (uint64_t)WTERMSIG(wait_status));
	if (w->kind != PTAH_WATCH_EXIT || !WIFEXITED(wait_status))
		return false;
	code = (uint64_t)WEXITSTATUS(wait_status);
	switch (w->compare) {
	case PTAH_WATCH_MORE:
		return code > w->limit;
	case PTAH_WATCH_LESS:
		return code < w->limit;
	case PTAH_WATCH_EQUAL:
		return code == w->limit;
	default:
		return code != w->limit;
	}
}

/* Calls */

/* Paths of code that processes of a session generate begin so. */
#define GENERATED "[JIT]"

/* Whether the path is that of the file, or ends with it after a slash. */
static bool is_file(const char *path, const char *file)
{
	const size_t n = path ? strlen(path) : 0, m = strlen(file);

	if (!m)
		return true;
	if (!strcmp(file, GENERATED))
		return n > m && !strncmp(path, GENERATED " ", m + 1);
	return n >= m && !strcmp(path + n - m, file) && (n == m || path[n - m - 1] == '/');
}

bool ptah_watch_is_of(const struct ptah_watch *w, const char *function, const char *path)
{
	return w && function && w->kind <= PTAH_WATCH_RATE &&
	       ptah_symbol_matches(function, w->function) && is_file(path, w->file);
}

/* The watches that are of the function. */
static uint32_t find_watches(struct ptah_live *live, const struct tally_row *row, int32_t space,
			     uint64_t tsc)
{
	struct ptah_function_name name;
	uint32_t watches = 0;

	if (!ptah_functions_name(live->functions, space, row->function, tsc, &name) || !name.name)
		return 0;
	for (size_t i = 0; i < live->watch_count; i++)
		if (ptah_watch_is_of(&live->watches[i], name.name, name.path))
			watches |= UINT32_C(1) << i;
	return watches;
}

/* Calls of the function that are open were of other code, which had the address before. */
static void forget_open(struct live_runner *r, uint32_t watches, const struct tally_row *row)
{
	for (; r->open && watches; watches &= watches - 1) {
		struct live_open *o = &r->open[__builtin_ctz(watches)];
		size_t left = 0, late = 0;

		for (size_t i = 0; i < o->count; i++) {
			if (o->calls[i].mark.function == row->function &&
			    o->calls[i].mark.space == row->space)
				continue;
			late += i < o->late;
			o->calls[left++] = o->calls[i];
		}
		o->count = left;
		o->late = late;
	}
}

static void look_up(struct ptah_live *live, struct live_runner *r, struct tally_row *row,
		    int32_t space, uint64_t tsc)
{
	const uint32_t before = row->watches;
	bool changes;

	row->until = functions_until(live->functions, space, row->function, tsc, &changes);
	row->looked = changes ? live->session->jit_generation + 1 : UINT64_MAX;
	row->watches = find_watches(live, row, space, tsc);
	if (before & ~row->watches)
		forget_open(r, before & ~row->watches, row);
}

/* Whether the name of the function is to be looked up: of generated code it may be another now. */
static bool is_unknown(const struct ptah_live *live, const struct tally_row *row,
		       const struct ptah_call_mark *m)
{
	if (!row->looked || m->end)
		return !row->looked;
	return m->tsc >= row->until ||
	       (row->looked != UINT64_MAX && row->looked != live->session->jit_generation + 1);
}

/* Nanoseconds of so many ticks. */
static uint64_t to_time(const struct ptah_live *live, uint64_t ticks)
{
	const struct perfdata_clock *c = &live->session->clock;

	if (!live->session->has_clock)
		return ticks;
	return (ticks >> c->shift) * c->mult +
	       ((ticks & ((UINT64_C(1) << c->shift) - 1)) * c->mult >> c->shift);
}

static uint64_t calls_in(const struct live_rate *r, uint64_t part)
{
	return r->part[part % RATE_KEPT] == part ? r->calls[part % RATE_KEPT] : 0;
}

/* The most calls in a second that has this part in it. */
static uint64_t greatest_rate(const struct live_rate *r, uint64_t part)
{
	uint64_t sum = 0, most;

	for (uint64_t i = 0; i < RATE_PARTS && i <= part; i++)
		sum += calls_in(r, part - i);
	most = sum;
	for (uint64_t i = 1; i < RATE_PARTS && part + i <= r->newest; i++) {
		sum += calls_in(r, part + i);
		if (part + i >= RATE_PARTS)
			sum -= calls_in(r, part + i - RATE_PARTS);
		most = sum > most ? sum : most;
	}
	return most;
}

/* Whether a call less than a second earlier or later was reported. */
static bool was_hit(const struct live_rate *r, uint64_t part, uint64_t now)
{
	for (uint64_t i = 0; i <= 2 * RATE_PARTS; i++) {
		const uint64_t slot = (part + i - RATE_PARTS) % RATE_KEPT, hit = r->hits[slot];

		if (hit && (now > hit ? now - hit : hit - now) < SECOND)
			return true;
	}
	return false;
}

bool live_count_rate(struct live_rate *r, uint64_t limit, uint64_t now, uint64_t *calls)
{
	const uint64_t part = now / (SECOND / RATE_PARTS);
	const size_t slot = part % RATE_KEPT;

	*calls = 0;
	/* The slot may have newer calls, if this one comes seconds too late. */
	if (!now || r->part[slot] > part)
		return false;
	if (r->part[slot] < part) {
		r->part[slot] = part;
		r->calls[slot] = r->hits[slot] = 0;
	}
	r->calls[slot]++;
	r->newest = part > r->newest ? part : r->newest;
	*calls = greatest_rate(r, part);
	if (*calls <= limit || was_hit(r, part, now))
		return false;
	r->hits[slot] = now;
	return true;
}

#define PARTIAL (PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS)

static bool is_called(const struct ptah_call_mark *m)
{
	return !m->end && m->how != PTAH_CALL_RUNNING && m->how != PTAH_CALL_RESUMED;
}

/* How often trace was lost: of the thread, or of all processors that it may have run on. */
static uint64_t losses(const struct live_stream *ls)
{
	const struct ptah_live *live = ls->live;
	uint64_t n = 0;

	if (!ls->source)
		return ls->errors + ls->overflows;
	for (size_t i = 0; i < live->count; i++)
		n += live->streams[i]->errors + live->streams[i]->overflows;
	return n;
}

/* Fills in the hit and reports it. */
static int report_watch_hit(struct live_stream *ls, const struct ptah_live_thread *thread,
			    size_t watch, const struct ptah_call_mark *m, struct ptah_live_hit *hit)
{
	hit->size = sizeof(*hit);
	hit->watch = watch;
	hit->thread = thread;
	hit->mark = m;
	hit->space = m->space ? -1 - (int32_t)m->space : thread->space;
	return ls->live->config.on_hit(ls->live->config.context, hit);
}

/* Calls that are open, and may become too long */

void live_watch_free(const struct ptah_live *live, struct live_runner *r)
{
	for (size_t i = 0; r->open && i < live->watch_count; i++)
		free(r->open[i].calls);
	free(r->open);
	r->open = NULL;
}

/* Whether times of the stream's calls are estimates, which have bounds. */
static bool is_bounded(const struct live_stream *ls)
{
	return ls->calls && ls->times.used;
}

/* Between which times the mark was. */
static void bound_mark(struct live_stream *ls, const struct ptah_call_mark *m, uint64_t *low,
		       uint64_t *high)
{
	const struct ptah_session *session = ls->live->session;

	if (is_bounded(ls))
		stamps_bound(&ls->bounds, session, &session->streams[ls->index], m->offset, low,
			     high);
	else
		*low = *high = m->tsc;
}

/* The ticks that have certainly passed between two such times. */
static uint64_t certain_ticks(uint64_t began_by, uint64_t low)
{
	return low > began_by ? low - began_by : 0;
}

static int push_watched_call(struct live_stream *ls, struct live_runner *r, size_t watch,
			     const struct ptah_call_mark *m)
{
	uint64_t low, began_by;
	struct live_open *o;

	if (!r->open)
		r->open = calloc(ls->live->watch_count, sizeof(*r->open));
	if (!r->open)
		return PTAH_E_NOMEM;
	o = &r->open[watch];
	if (!LIST_ROOM(o->calls, o->count, o->capacity))
		return PTAH_E_NOMEM;
	bound_mark(ls, m, &low, &began_by);
	o->calls[o->count++] = (struct live_open_call){
	    .mark = *m, .began_by = began_by, .losses = losses(ls), .waited = r->waits.sum};
	return 0;
}

/* The call ends. Whether it has been reported. *call: its beginning; as it was if not known. */
static bool pop(struct live_runner *r, size_t watch, const struct ptah_call_mark *m,
		struct live_open_call *call)
{
	struct live_open *o = r->open ? &r->open[watch] : NULL;
	bool late;

	if (!o || !o->count || o->calls[o->count - 1].mark.id != m->id)
		return false;
	o->count--;
	*call = o->calls[o->count];
	late = o->late > o->count;
	if (late)
		o->late = o->count;
	return late;
}

/* For how long the call has been open. `low`: the time is at least that. */
static uint64_t length_so_far(const struct ptah_live *live, uint8_t kind,
			      const struct live_open_call *c, uint64_t low, uint64_t instructions)
{
	if (kind == PTAH_WATCH_INSTRUCTIONS)
		return instructions - c->mark.thread.instructions;
	return c->mark.tsc ? to_time(live, certain_ticks(c->began_by, low)) : 0;
}

/* A call ends, or is open, in which the thread has waited. */
static void measure_waits(const struct live_stream *ls, const struct live_runner *r,
			  const struct live_open_call *call, struct ptah_live_hit *hit)
{
	hit->value = to_time(ls->live, r->waits.sum - call->waited);
	hit->in_kernel = r->waits.no_switches;
	hit->at_least = !hit->in_kernel;
}

/* The outermost of the open calls of a watch is the longest: those up to `late` were reported. */
static int check_open(struct live_stream *ls, struct live_runner *r,
		      const struct ptah_live_thread *thread, size_t watch, uint64_t tsc,
		      uint64_t instructions)
{
	/* As far as the thread has been decoded, `tsc` is a stamp, or a lower bound. */
	const struct ptah_watch *w = &ls->live->watches[watch];
	struct live_open *o = &r->open[watch];
	int status = 0;

	while (o->late < o->count && status >= 0) {
		const struct live_open_call *c = &o->calls[o->late];
		struct ptah_live_hit hit = {.begin_tsc = c->mark.tsc,
					    .tsc = tsc,
					    .at_least =
						is_bounded(ls) && w->kind == PTAH_WATCH_TIME};

		if (w->kind == PTAH_WATCH_WAITS)
			measure_waits(ls, r, c, &hit);
		else
			hit.value = length_so_far(ls->live, w->kind, c, tsc, instructions);
		if (hit.value <= w->limit)
			break;
		o->late++;
		/* After a loss it is not known whether it is still the same call. */
		if (c->losses == losses(ls))
			status = report_watch_hit(ls, thread, watch, &c->mark, &hit);
	}
	return status;
}

/* Whether a call is open that has not been reported. */
static bool any_open(const struct ptah_live *live, const struct live_runner *r)
{
	for (size_t i = 0; i < live->watch_count; i++)
		if (r->open[i].late < r->open[i].count)
			return true;
	return false;
}

int live_watch_open(struct live_stream *ls, struct live_runner *r,
		    const struct ptah_live_thread *thread, uint64_t tsc, uint64_t instructions)
{
	int status = 0;

	for (size_t i = 0; r->open && i < ls->live->watch_count && status >= 0; i++)
		status = check_open(ls, r, thread, i, tsc, instructions);
	return status;
}

/* Marks */

/* Whether the mark is what the watch waits for; *value: the number that is reported. */
static bool is_hit(struct ptah_live *live, size_t watch, const struct ptah_call_mark *m,
		   uint64_t *value)
{
	const struct ptah_watch *w = &live->watches[watch];

	*value = 0;
	switch (w->kind) {
	case PTAH_WATCH_ENTER:
		return is_called(m);
	case PTAH_WATCH_RATE:
		return is_called(m) &&
		       live_count_rate(&live->rates[watch], w->limit, to_time(live, m->tsc), value);
	case PTAH_WATCH_INSTRUCTIONS:
		*value = m->total.instructions;
		return m->end && !(m->flags & PARTIAL) && *value > w->limit;
	default:
		*value = to_time(live, m->total.ticks);
		return m->end && !(m->flags & PARTIAL) && m->begin_tsc && *value > w->limit;
	}
}

/* The end of a call, of which times are bounded, and that had surely begun by then. */
static bool surely_took(struct live_stream *ls, const struct ptah_watch *w,
			const struct ptah_call_mark *m, uint64_t began_by,
			struct ptah_live_hit *hit)
{
	uint64_t low, high;

	bound_mark(ls, m, &low, &high);
	hit->at_least = true;
	hit->value = to_time(ls->live, certain_ticks(began_by, low));
	return !(m->flags & PARTIAL) && m->begin_tsc && hit->value > w->limit;
}

static bool has_waited(const struct live_stream *ls, const struct live_runner *r,
		       const struct ptah_watch *w, const struct ptah_call_mark *m,
		       const struct live_open_call *call, struct ptah_live_hit *hit)
{
	measure_waits(ls, r, call, hit);
	return m->end && !(m->flags & PARTIAL) && hit->value > w->limit;
}

static int check_watch(struct live_stream *ls, struct live_runner *r,
		       const struct ptah_live_thread *thread, size_t watch,
		       const struct ptah_call_mark *m)
{
	const uint8_t kind = ls->live->watches[watch].kind;
	const bool lasts = kind <= PTAH_WATCH_WAITS;
	struct ptah_live_hit hit = {.begin_tsc = m->end ? m->begin_tsc : m->tsc, .tsc = m->tsc};
	struct live_open_call call = {.began_by = UINT64_MAX, .waited = r->waits.sum};

	if (lasts && is_called(m))
		return push_watched_call(ls, r, watch, m);
	if (lasts && m->end && pop(r, watch, m, &call))
		return 0;
	if (kind == PTAH_WATCH_WAITS)
		return has_waited(ls, r, &ls->live->watches[watch], m, &call, &hit)
			   ? report_watch_hit(ls, thread, watch, m, &hit)
			   : 0;
	if (kind == PTAH_WATCH_TIME && m->end && is_bounded(ls))
		return surely_took(ls, &ls->live->watches[watch], m, call.began_by, &hit)
			   ? report_watch_hit(ls, thread, watch, m, &hit)
			   : 0;
	return is_hit(ls->live, watch, m, &hit.value) ? report_watch_hit(ls, thread, watch, m, &hit)
						      : 0;
}

static int check_watches(struct live_stream *ls, struct live_runner *r,
			 const struct ptah_live_thread *thread, const struct ptah_call_mark *m)
{
	struct tally_row *row = live_tally_find(&r->tally, m->space, m->function);
	int status = 0;

	if (!row)
		return 0;
	if (is_unknown(ls->live, row, m))
		look_up(ls->live, r, row, m->space ? -1 - (int32_t)m->space : thread->space,
			m->tsc);
	for (uint32_t left = row->watches; left && status >= 0; left &= left - 1)
		status = check_watch(ls, r, thread, (size_t)__builtin_ctz(left), m);
	return status;
}

int live_watch(struct live_stream *ls, struct live_runner *r, const struct ptah_live_thread *thread,
	       const struct ptah_call_mark *marks, size_t n)
{
	int status = 0;

	for (size_t i = 0; i < n && status >= 0; i++) {
		live_waits_pass(&r->waits, &marks[i]);
		status = check_watches(ls, r, thread, &marks[i]);
		if (status >= 0 && r->open && any_open(ls->live, r)) {
			uint64_t low, high;

			bound_mark(ls, &marks[i], &low, &high);
			status = live_watch_open(ls, r, thread, low, marks[i].thread.instructions);
		}
	}
	return status;
}
