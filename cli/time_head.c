/* SPDX-License-Identifier: MIT */
/* See time_head.h. */
#include "time_head.h"

#include "base/compiler.h"
#include "output/pretty.h"

#include <ptah/counts.h>

/* How long all threads were off their processors, in nanoseconds. False: it is not known. */
static bool measure_off(const struct ptah_session *session, uint64_t *off, uint64_t *preempted)
{
	uint32_t mult, shift;

	if (ptah_session_time_off(session, -1, 0, UINT64_MAX, off, preempted) < 0 ||
	    !ptah_session_time_scale(session, &mult, &shift))
		return false;
	*off = (uint64_t)((unsigned __int128)*off * mult >> shift);
	*preempted = (uint64_t)((unsigned __int128)*preempted * mult >> shift);
	return true;
}

void time_head_put_kind(struct out *out, const struct ptah_session *session)
{
	if (ptah_session_times(session).kind != PTAH_TIME_NONE)
		pretty_head(out, "# times: %s\n", ptah_session_times(session).text);
}

void time_head_put(struct out *out, const struct ptah_session *session)
{
	uint64_t off, preempted;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	time_head_put_kind(out, session);
	if (measure_off(session, &off, &preempted))
		pretty_head(out,
			    "# off the processor: all threads together %s, of which they could "
			    "have run %s\n",
			    pretty_time(off, a), pretty_time(preempted, b));
	else if (ptah_session_times(session).kind == PTAH_TIME_STAMPED)
		pretty_head(out, "# off the processor: not known, times include it\n");
}

const char *time_head_saved_kind(unsigned times)
{
	switch (times & ~(unsigned)PTAH_COUNTS_ESTIMATED) {
	case 0:
		return NULL;
	case PTAH_COUNTS_MEASURED:
		return "measured";
	case PTAH_COUNTS_STAMPED:
		return "stamped";
	case PTAH_COUNTS_SIMULATED:
		return "simulated";
	default:
		return "mixed";
	}
}

void time_head_put_saved(struct out *out, unsigned times)
{
	static const char *const kinds[] = {"measured by a processor", "known at stamps",
					    "simulated: an instruction is a nanosecond"};
	bool more = false;

	if (!time_head_saved_kind(times))
		return;
	pretty_head(out, "# times: ");
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!(times >> i & 1))
			continue;
		pretty_head(out, "%s%s", more ? ", or " : "", kinds[i]);
		more = true;
	}
	pretty_head(out, "%s\n", times & PTAH_COUNTS_ESTIMATED ? "; estimated in between (~)" : "");
}

void time_head_put_json(struct json *json, const struct ptah_session *session)
{
	uint64_t off, preempted;

	json_string(json, "times", ptah_session_times(session).name);
	if (ptah_session_times(session).unlooked)
		json_bool(json, "unlooked", true);
	if (!measure_off(session, &off, &preempted))
		return;
	json_number(json, "off_ns", off);
	json_number(json, "preempted_ns", preempted);
}
