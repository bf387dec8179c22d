/* SPDX-License-Identifier: MIT */
/* What the times of a recording are: measured, known at stamps, or simulated. */
#include "session/session.h"
#include "session/stamps.h"

#include "perfdata/format.h"

#include "base/compiler.h"

/*
 * Recorders of Ptah that count instructions relate a tick to a nanosecond, from 0 on. No kernel's
 * clock does. Their older recordings do not say in another way what they are.
 */
static bool counts_instructions(const struct ptah_session *s)
{
	const struct perfdata_clock *c = &s->clock;

	return s->time_source == PERFDATA_TIME_SIMULATED ||
	       (s->time_source == PERFDATA_TIME_NOT_SAID && c->mult == 1 && !c->shift && !c->zero);
}

static bool times_are_estimated(const struct ptah_session *s)
{
	const struct ptah_trace_config *trace = &s->flow.events.trace;

	return s->has_clock && trace->tsc && !trace->cyc;
}

bool times_at_stamps(const struct ptah_session *s)
{
	return times_are_estimated(s) && !s->flow.events.trace.mtc;
}

static enum ptah_time_kind kind_of_times(const struct ptah_session *s)
{
	if (!s->has_clock)
		return PTAH_TIME_NONE;
	if (counts_instructions(s))
		return PTAH_TIME_SIMULATED;
	if (s->time_source == PERFDATA_TIME_STAMPED || times_at_stamps(s))
		return PTAH_TIME_STAMPED;
	return PTAH_TIME_MEASURED;
}

/* For all streams together, once: a session that grows has not all of their trace any more. */
static enum session_looks find_looks(const struct ptah_session *s)
{
	size_t counts[LOOKS_MISSING + 1] = {0};
	enum session_looks looks = atomic_load(&s->looks);

	if (looks != SESSION_LOOKS_UNKNOWN || s->growth || s->time_source != PERFDATA_TIME_STAMPED)
		return looks;
	for (size_t i = 0; i < s->stream_count; i++)
		if (stamps_are_used(s, &s->streams[i]))
			counts[stamps_find_looks(s, &s->streams[i])]++;
	looks = !counts[LOOKS_MISSING] ? SESSION_LOOKS_ENOUGH
		: counts[LOOKS_FOUND]  ? SESSION_LOOKS_SOME
				       : SESSION_LOOKS_NONE;
	/* Others who ask at the same time find the same. */
	atomic_store(&((struct ptah_session *)s)->looks, looks);
	return looks;
}

static const char *text_of_stamps(const struct ptah_session *s)
{
	/* Only a processor can be told to write finer times. */
	if (s->time_source != PERFDATA_TIME_STAMPED)
		return "known at stamps, as where the kernel was entered or left; estimated in "
		       "between (~): -e intel_pt/mtc,cyc/u records finer ones";
	switch (find_looks(s)) {
	case SESSION_LOOKS_SOME:
		return "known at stamps, as where the kernel was entered or left; estimated in "
		       "between (~), which may be far off: some threads were never looked at "
		       "while they ran";
	case SESSION_LOOKS_NONE:
		return "known at stamps, as where the kernel was entered or left; estimated in "
		       "between (~), which may be far off: no thread was looked at while it ran";
	default:
		return "known at stamps, as where the kernel was entered or left; estimated in "
		       "between (~)";
	}
}

static const char *text_of_times(const struct ptah_session *s)
{
	switch (kind_of_times(s)) {
	case PTAH_TIME_MEASURED:
		/* Raw traces come without the registers that say which packets there are. */
		if (!s->flow.events.trace.tsc)
			return "measured by the processor; how finely is not said";
		return times_are_estimated(s)
			   ? "measured by the processor at MTC packets; in between they are "
			     "estimated "
			     "(~): -e intel_pt/mtc,cyc/u records finer ones"
			   : "measured by the processor";
	case PTAH_TIME_STAMPED:
		return text_of_stamps(s);
	case PTAH_TIME_SIMULATED:
		return "simulated: an instruction is a nanosecond";
	default:
		return "not known";
	}
}

struct ptah_times ptah_session_times(const struct ptah_session *s)
{
	static const char *const names[PTAH_TIME_KIND_MAX] = {"none", "measured", "stamped",
							      "simulated"};
	const enum ptah_time_kind kind = kind_of_times(s);

	return (struct ptah_times){kind, times_are_estimated(s),
				   kind == PTAH_TIME_STAMPED &&
				       find_looks(s) > SESSION_LOOKS_ENOUGH,
				   names[kind], text_of_times(s)};
}
