/* SPDX-License-Identifier: MIT */
#include "event.h"

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
	TERM_KERNEL_ONLY, /* what user code under emulation has no use for */
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
    {"ptw", TERM_KERNEL_ONLY, 1},
    {"fup_on_ptw", TERM_KERNEL_ONLY, 1},
    {"pwr_evt", TERM_KERNEL_ONLY, 1},
    {"event", TERM_KERNEL_ONLY, 1},
    {"notnt", TERM_KERNEL_ONLY, 1},
};

static int complain(const struct command *command, const char *text, const char *what)
{
	fail(command, "-e %s: %s", text, what);
	return EXIT_USAGE;
}

/* What the recorder cannot switch off, or not on. */
static const char *refusal(enum term term, uint64_t value)
{
	switch (term) {
	case TERM_PT:
	case TERM_BRANCH:
		return value ? NULL : "without branch packets nothing could be decoded";
	case TERM_TSC:
		return value ? NULL
			     : "TSC packets cannot be left out: they tell when code was mapped";
	case TERM_KERNEL_ONLY:
		return value ? "the recorder that emulates has no such packets (ptw, fup_on_ptw, "
			       "pwr_evt, event, notnt)"
			     : NULL;
	default:
		return NULL;
	}
}

static void set(struct ptah_record_config *config, enum term term, uint64_t value)
{
	switch (term) {
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
	default:
		break;
	}
}

/* "name" or "name=value", n bytes at `at`. */
static int take_term(const struct command *command, const char *text, const char *at, size_t n,
		     struct ptah_record_config *config)
{
	size_t name = strcspn(at, "=,/");
	const char *why;
	uint64_t value = 1;
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(terms); i++) {
		if (strlen(terms[i].name) != name || strncmp(terms[i].name, at, name) != 0)
			continue;
		if (name < n) {
			errno = 0;
			value = strtoull(at + name + 1, &end, 0);
			if (end != at + n || end == at + name + 1 || errno || value > terms[i].max)
				return fail(command, "-e %s: %s takes 0 to %" PRIu64, text,
					    terms[i].name, terms[i].max),
				       EXIT_USAGE;
		}
		why = refusal(terms[i].term, value);
		if (why)
			return complain(command, text, why);
		set(config, terms[i].term, value);
		return EXIT_OK;
	}
	return complain(command, text,
			"known terms are tsc, noretcomp, mtc, mtc_period, cyc, cyc_thresh and "
			"psb_period");
}

static int take_modifiers(const struct command *command, const char *text, const char *at)
{
	if (strspn(at, "uk") != strlen(at))
		return complain(command, text, "the only modifier is u (user code)");
	if (strchr(at, 'k'))
		return complain(command, text,
				"the kernel cannot be traced: the program runs under user mode "
				"emulation (u is what there is)");
	return EXIT_OK;
}

int event_parse(const struct command *command, const char *text, struct ptah_record_config *config)
{
	const char *at = text + strcspn(text, "/:");
	int status = EXIT_OK;

	if (at - text != 8 || strncmp(text, "intel_pt", 8) != 0)
		return complain(command, text, "the event is intel_pt/TERMS/");
	if (*at == '/') {
		at++;
		while (status == EXIT_OK && *at && *at != '/') {
			size_t n = strcspn(at, ",/");

			status = take_term(command, text, at, n, config);
			at += n;
			at += *at == ',';
		}
		if (status == EXIT_OK && !*at)
			return complain(command, text, "a slash is missing behind the terms");
	}
	return status != EXIT_OK || !*at ? status : take_modifiers(command, text, at + 1);
}
