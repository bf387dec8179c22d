/* SPDX-License-Identifier: MIT */
/* -e as perf record has it: the options of the PT processor. */
#include "base/compiler.h"
#include "perfdata/message.h"

#include <ptah/record.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum term {
	TERM_PT,
	TERM_BRANCH,
	TERM_TSC,
	TERM_NORETCOMP,
	TERM_MTC,
	TERM_MTC_PERIOD,
	TERM_CYC,
	TERM_CYC_THRESH,
	TERM_PSB_PERIOD,
	TERM_PTW,
	TERM_FUP_ON_PTW,
	TERM_PWR_EVT,
	TERM_EVENT,
	TERM_NOTNT,
};

/* The format folder of the intel_pt PMU (perf-intel-pt(1)). */
static const struct term_def {
	const char *name;
	enum term term;
	uint64_t max;
} terms[] = {
    {"pt", TERM_PT, 1},
    {"branch", TERM_BRANCH, 1},
    {"tsc", TERM_TSC, 1},
    {"noretcomp", TERM_NORETCOMP, 1},
    {"mtc", TERM_MTC, 1},
    {"mtc_period", TERM_MTC_PERIOD, 15},
    {"cyc", TERM_CYC, 1},
    {"cyc_thresh", TERM_CYC_THRESH, 15},
    {"psb_period", TERM_PSB_PERIOD, 15},
    {"ptw", TERM_PTW, 1},
    {"fup_on_ptw", TERM_FUP_ON_PTW, 1},
    {"pwr_evt", TERM_PWR_EVT, 1},
    {"event", TERM_EVENT, 1},
    {"notnt", TERM_NOTNT, 1},
};

static int complain(struct ptah_message *why, const char *text, const char *what)
{
	return perfdata_message(why, PTAH_E_INVAL, "-e %s: %s", text, what);
}

static void set(struct ptah_record_config *config, enum term term, uint64_t value)
{
	switch (term) {
	case TERM_PT: /* without, there are no packets at all: the bit is always set */
		break;
	case TERM_BRANCH:
		config->no_branch = !value;
		break;
	case TERM_TSC:
		config->no_tsc = !value;
		break;
	case TERM_NORETCOMP:
		config->no_retcomp = value;
		break;
	case TERM_MTC:
		config->mtc = value;
		break;
	case TERM_MTC_PERIOD:
		config->mtc_period = (uint8_t)value;
		break;
	case TERM_CYC:
		config->cyc = value;
		break;
	case TERM_CYC_THRESH:
		config->cyc_threshold = (uint8_t)value;
		break;
	case TERM_PSB_PERIOD:
		config->psb_period = 2048u << value;
		break;
	case TERM_PTW:
		config->ptw = value;
		break;
	case TERM_FUP_ON_PTW:
		config->fup_on_ptw = value;
		break;
	case TERM_PWR_EVT:
		config->pwr_evt = value;
		break;
	case TERM_EVENT:
		config->event_trace = value;
		break;
	case TERM_NOTNT:
		config->no_tnt = value;
		break;
	}
}

/* "name" or "name=value", n bytes at `at`. */
static int take_term(const char *text, const char *at, size_t n, struct ptah_record_config *config,
		     struct ptah_message *why)
{
	size_t name = strcspn(at, "=,/");
	uint64_t value = 1;
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(terms); i++) {
		if (strlen(terms[i].name) != name || strncmp(terms[i].name, at, name) != 0)
			continue;
		if (name < n) {
			errno = 0;
			value = strtoull(at + name + 1, &end, 0);
			if (end != at + n || end == at + name + 1 || errno || value > terms[i].max)
				return perfdata_message(why, PTAH_E_INVAL,
							"-e %s: %s takes 0 to %" PRIu64, text,
							terms[i].name, terms[i].max);
		}
		if (terms[i].term == TERM_PT && !value)
			return complain(why, text, "without pt nothing is traced");
		set(config, terms[i].term, value);
		return 0;
	}
	return complain(why, text,
			"known terms are pt, branch, tsc, noretcomp, mtc, mtc_period, cyc, "
			"cyc_thresh, psb_period, ptw, fup_on_ptw, pwr_evt, event and notnt");
}

static int take_modifiers(const char *text, const char *at, struct ptah_record_config *config,
			  struct ptah_message *why)
{
	if (strspn(at, "uk") != strlen(at))
		return complain(why, text, "the modifiers are u (user code) and k (the kernel)");
	config->user = strchr(at, 'u') != NULL;
	config->kernel = strchr(at, 'k') != NULL;
	return 0;
}

int ptah_record_parse_event(const char *text, struct ptah_record_config *config,
			    struct ptah_message *why)
{
	const char *at;
	int status = 0;

	if (!text || !config)
		return PTAH_E_INVAL;
	at = text + strcspn(text, "/:");
	if (at - text != 8 || strncmp(text, "intel_pt", 8) != 0)
		return complain(why, text, "the event is intel_pt/TERMS/");
	if (*at == '/') {
		at++;
		while (status >= 0 && *at && *at != '/') {
			size_t n = strcspn(at, ",/");

			status = take_term(text, at, n, config, why);
			at += n;
			at += *at == ',';
		}
		if (status >= 0 && !*at)
			return complain(why, text, "a slash is missing behind the terms");
	}
	return status < 0 || !*at ? status : take_modifiers(text, at + 1, config, why);
}
