/* SPDX-License-Identifier: MIT */
/* Reads the plugin's arguments (arguments.h). */
#include "record/system/arguments.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MODEL "skylake"
#define DEFAULT_MHZ   100
#define MAX_MHZ	      10000

static void list_models(char *text, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; ptah_model_named(i) && used < n; i++)
		used += (size_t)snprintf(text + used, n - used, "%s%s", i ? ", " : "",
					 ptah_model_named(i)->name);
}

static bool set_model(struct system_arguments *a, const char *name, char *error, size_t n)
{
	char models[512] = "";

	a->processor = ptah_model_find(name);
	if (a->processor)
		return true;
	list_models(models, sizeof(models));
	snprintf(error, n, "model=%s: there is no such processor; the names are %s", name, models);
	return false;
}

static bool set_switch(bool *on, const char *name, const char *word, char *error, size_t n)
{
	*on = !strcmp(word, "on");
	if (*on || !strcmp(word, "off"))
		return true;
	snprintf(error, n, "%s=%s: must be %s=on or %s=off", name, word, name, name);
	return false;
}

static bool set_verbose(struct system_arguments *a, const char *word, char *error, size_t n)
{
	return set_switch(&a->verbose, "verbose", word, error, n);
}

static bool set_xsaves(struct system_arguments *a, const char *word, char *error, size_t n)
{
	return set_switch(&a->xsaves, "xsaves", word, error, n);
}

static bool set_truth(struct system_arguments *a, const char *file, char *error, size_t n)
{
	a->truth = file;
	if (*file)
		return true;
	snprintf(error, n, "truth=: the name of the file is missing");
	return false;
}

static bool set_tsc(struct system_arguments *a, const char *word, char *error, size_t n)
{
	char *end;
	const unsigned long mhz = strtoul(word, &end, 10);

	a->tsc_mhz = (unsigned)mhz;
	if (!strcmp(word, "host") || (*word >= '1' && *word <= '9' && !*end && mhz <= MAX_MHZ))
		return true;
	snprintf(error, n, "tsc=%s: must be the frequency of the TSC in MHz, from 1 to %d, or host",
		 word, MAX_MHZ);
	return false;
}

static bool set_record(struct system_arguments *a, const char *text, char *error, size_t n)
{
	char *end;
	const long number = strtol(text, &end, 10);

	a->records = *text && !*end && number >= 0 && number <= INT_MAX;
	a->recorder = (int)number;
	if (!a->records)
		snprintf(error, n, "record=%s: must be the number of an open socket", text);
	return a->records;
}

static const struct option {
	const char *name;
	bool (*set)(struct system_arguments *a, const char *value, char *error, size_t n);
} options[] = {
    {"model=", set_model}, {"record=", set_record}, {"truth=", set_truth},
    {"tsc=", set_tsc},	   {"xsaves=", set_xsaves}, {"verbose=", set_verbose},
};

static bool read_one(struct system_arguments *a, const char *text, char *error, size_t n)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const size_t length = strlen(options[i].name);

		if (!strncmp(text, options[i].name, length))
			return options[i].set(a, text + length, error, n);
	}
	snprintf(error, n,
		 "unknown argument \"%s\"; there are model=NAME, truth=FILE, tsc=MHZ, xsaves=on "
		 "and verbose=on",
		 text);
	return false;
}

bool system_arguments(struct system_arguments *a, int count, char **values, char *error, size_t n)
{
	memset(a, 0, sizeof(*a));
	a->processor = ptah_model_find(DEFAULT_MODEL);
	a->tsc_mhz = DEFAULT_MHZ;
	for (int i = 0; i < count; i++)
		if (!read_one(a, values[i], error, n))
			return false;
	return true;
}
