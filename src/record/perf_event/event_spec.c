/* SPDX-License-Identifier: MIT */
/* Parses the event of `-e intel_pt/TERMS/u`, as perf record does, into a configuration. */
#include "record/perf_event/event_spec.h"

#include "base/compiler.h"
#include "perfdata/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMATS "/sys/bus/event_source/devices/intel_pt/format"

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
	case TERM_PT: /* always set: without it there are no packets at all */
		break;
	case TERM_BRANCH:
		config->trace.branch = value;
		break;
	case TERM_TSC:
		config->trace.tsc = value;
		break;
	case TERM_NORETCOMP:
		config->trace.no_retcomp = value;
		break;
	case TERM_MTC:
		config->trace.mtc = value;
		if (value && config->trace.mtc_period == PTAH_RECORD_CHOOSE)
			config->trace.mtc_period = 0;
		break;
	case TERM_MTC_PERIOD:
		/* Without mtc=1 a period of 0 leaves the choice to the recorder, as perf does. */
		if (value || config->trace.mtc_period != PTAH_RECORD_CHOOSE)
			config->trace.mtc_period = (uint8_t)value;
		break;
	case TERM_CYC:
		config->trace.cyc = value;
		break;
	case TERM_CYC_THRESH:
		config->trace.cyc_threshold = (uint8_t)value;
		break;
	case TERM_PSB_PERIOD:
		config->trace.psb_period = (uint8_t)value;
		break;
	case TERM_PTW:
		config->trace.ptwrite = value;
		break;
	case TERM_FUP_ON_PTW:
		config->trace.fup_on_ptwrite = value;
		break;
	case TERM_PWR_EVT:
		config->trace.power_events = value;
		break;
	case TERM_EVENT:
		config->trace.event_trace = value;
		break;
	case TERM_NOTNT:
		config->trace.no_tnt = value;
		break;
	}
}

static const char unknown_term[] =
    "known terms are pt, branch, tsc, noretcomp, mtc, mtc_period, cyc, cyc_thresh, psb_period, "
    "ptw, fup_on_ptw, pwr_evt, event, notnt, and those of the driver's format files";

/*
 * Puts the bits of a value at the places that a format file names, lowest first: "config:13",
 * "config:14-17", "config:0,5-7" (Documentation/ABI/testing/sysfs-bus-event_source-devices-format).
 * False: the file says something else, or names fewer bits than the value has.
 */
static bool put_event_spec_bits(const char *format, uint64_t value, uint64_t *config)
{
	const char *at = format;

	if (strncmp(at, "config:", 7) != 0)
		return false;
	at += 6;
	do {
		char *end;
		unsigned long first = strtoul(at + 1, &end, 10), last = first;

		if (end == at + 1)
			return false;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last > 63)
			return false;
		for (; first <= last; first++, value >>= 1)
			*config = (*config & ~(UINT64_C(1) << first)) | (value & 1) << first;
		at = end;
	} while (*at == ',');
	return (!*at || *at == '\n') && !value;
}

/* A term that only this machine's driver knows: it has a format file of that name. */
static int take_driver_term(const char *text, const char *formats, const char *name, size_t n,
			    uint64_t value, struct ptah_record_config *config,
			    struct ptah_message *why)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	char path[4096], line[128] = "";
	uint64_t bits = config->backend.pmu_config;
	FILE *f;

	if (!n || strspn(name, letters) < n ||
	    snprintf(path, sizeof(path), "%s/%.*s", formats, (int)n, name) >= (int)sizeof(path))
		return complain(why, text, unknown_term);
	f = fopen(path, "re");
	if (!f)
		return complain(why, text, unknown_term);
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	if (!put_event_spec_bits(line, value, &bits))
		return perfdata_message(why, PTAH_E_INVAL, "-e %s: %.*s=%" PRIu64 ": %s has %s",
					text, (int)n, name, value, path,
					*line ? "not as many bits, or not in config" : "no text");
	config->backend.pmu_config = bits;
	return 0;
}

#define AUX_ACTION "aux-action="

/* The other actions are those of the events beside Intel PT. */
static int take_action(const char *text, const char *at, size_t n,
		       struct ptah_record_config *config, struct ptah_message *why)
{
	static const char start_paused[] = AUX_ACTION "start-paused";

	if (n != strlen(start_paused) || strncmp(at, start_paused, n) != 0)
		return complain(why, text, "the aux-action of Intel PT is start-paused");
	config->triggers.start_paused = true;
	return 0;
}

/* Takes "name" or "name=value", the n bytes at `at`. */
static int take_term(const char *text, const char *formats, const char *at, size_t n,
		     struct ptah_record_config *config, struct ptah_message *why)
{
	size_t name = strcspn(at, "=,/");
	uint64_t value = 1;
	char *end;

	if (n > strlen(AUX_ACTION) && !strncmp(at, AUX_ACTION, strlen(AUX_ACTION)))
		return take_action(text, at, n, config, why);
	if (name < n) {
		errno = 0;
		value = strtoull(at + name + 1, &end, 0);
		if (end != at + n || at[name + 1] < '0' || at[name + 1] > '9' || errno)
			return perfdata_message(why, PTAH_E_INVAL,
						"-e %s: behind %.*s= stands a number", text,
						(int)name, at);
	}
	for (size_t i = 0; i < ARRAY_SIZE(terms); i++) {
		if (strlen(terms[i].name) != name || strncmp(terms[i].name, at, name) != 0)
			continue;
		if (value > terms[i].max)
			return perfdata_message(why, PTAH_E_INVAL, "-e %s: %s takes 0 to %" PRIu64,
						text, terms[i].name, terms[i].max);
		if (terms[i].term == TERM_PT && !value)
			return complain(why, text, "without pt nothing is traced");
		set(config, terms[i].term, value);
		return 0;
	}
	return take_driver_term(text, formats, at, name, value, config, why);
}

static int take_modifiers(const char *text, const char *at, struct ptah_record_config *config,
			  struct ptah_message *why)
{
	if (strspn(at, "uk") != strlen(at))
		return complain(why, text, "the modifiers are u (user code) and k (the kernel)");
	config->trace.user = strchr(at, 'u') != NULL;
	config->trace.os = strchr(at, 'k') != NULL;
	return 0;
}

int event_parse(const char *text, const char *formats, struct ptah_record_config *config,
		struct ptah_message *why)
{
	const char *at;
	int status = 0;

	if (!config->trace.size)
		ptah_record_trace_default(&config->trace);
	at = text + strcspn(text, "/:");
	if (at - text != 8 || strncmp(text, "intel_pt", 8) != 0)
		return complain(why, text, "the event is intel_pt/TERMS/");
	if (*at == '/') {
		at++;
		while (status >= 0 && *at && *at != '/') {
			size_t n = strcspn(at, ",/");

			status = take_term(text, formats, at, n, config, why);
			at += n;
			at += *at == ',';
		}
		if (status >= 0 && !*at)
			return complain(why, text, "a slash is missing behind the terms");
	}
	return status < 0 || !*at ? status : take_modifiers(text, at + 1, config, why);
}

static int parse_record_event(const char *text, struct ptah_record_config *config,
			      struct ptah_message *why)
{
	return text && config ? event_parse(text, FORMATS, config, why) : PTAH_E_INVAL;
}

int ptah_record_parse_event(const char *text, struct ptah_record_config *config,
			    struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, parse_record_event(text, config, why));
}
