/* SPDX-License-Identifier: MIT */
/* The one parser of perf's text of address filters (session.h). */
#include <ptah/session.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char **problem, const char *what)
{
	if (problem)
		*problem = what;
	return PTAH_E_INVAL;
}

static void skip_spaces(const char **at)
{
	while (isspace((unsigned char)**at))
		(*at)++;
}

/* Up to a separator, or a quoted string. false: too long, or a quote is not closed. */
static bool take_word(const char **at, const char *separators, char *word, size_t room)
{
	size_t n = 0;
	char quote = 0;

	skip_spaces(at);
	if (**at == '"' || **at == '\'')
		quote = *(*at)++;
	while (**at && (quote ? **at != quote
			      : !isspace((unsigned char)**at) && !strchr(separators, **at))) {
		if (n + 1 >= room)
			return false;
		word[n++] = *(*at)++;
	}
	word[n] = '\0';
	if (!quote)
		return true;
	return **at && (*at)++;
}

static int take_filter_text_action(const char **at, struct ptah_filter *filter,
				   const char **problem)
{
	const char *begin;
	char word[16];

	skip_spaces(at);
	begin = *at;
	if (!take_word(at, ",/@", word, sizeof(word)))
		return fail(problem, "what is to be done?");
	if (!strcmp(word, "filter"))
		filter->mode = PTAH_RANGE_FILTER;
	else if (!strcmp(word, "stop") || !strcmp(word, "tracestop"))
		filter->mode = PTAH_RANGE_STOP;
	if (filter->mode)
		return 0;
	*at = begin;
	if (!strcmp(word, "start"))
		return fail(problem, "Intel PT cannot start at an address; use 'filter'");
	return fail(problem, "the action must be 'filter' or 'stop'");
}

static int take_filter_text_place(const char **at, struct ptah_filter_place *place,
				  const char **problem)
{
	char *end, *number;

	place->number = 0;
	if (!take_word(at, ",/@", place->name, sizeof(place->name)) || !*place->name)
		return fail(problem, "an address or a symbol is missing");
	if (isdigit((unsigned char)*place->name)) {
		errno = 0;
		place->number = strtoull(place->name, &end, 0);
		if (*end || errno)
			return fail(problem, "this is no number");
		*place->name = '\0';
		return 0;
	}
	number = strrchr(place->name, '#');
	if (!number || number == place->name)
		return 0;
	errno = 0;
	place->number = strtoull(number + 1, &end, 10);
	if (*end || errno || !place->number || place->number > UINT_MAX)
		return fail(problem, "behind '#' stands which symbol of that name, from 1");
	*number = '\0';
	return 0;
}

int ptah_filter_parse(const char **at, struct ptah_filter *filter, const char **problem)
{
	int status;

	if (!at || !*at || !filter)
		return PTAH_E_INVAL;
	memset(filter, 0, sizeof(*filter));
	status = take_filter_text_action(at, filter, problem);
	if (status >= 0)
		status = take_filter_text_place(at, &filter->start, problem);
	if (status < 0)
		return status;
	skip_spaces(at);
	if (**at == '/') {
		(*at)++;
		filter->has_end = true;
		status = take_filter_text_place(at, &filter->end, problem);
		if (status < 0)
			return status;
		skip_spaces(at);
	}
	if (**at != '@')
		return 0;
	(*at)++;
	if (!take_word(at, ",", filter->file, sizeof(filter->file)) || !*filter->file)
		return fail(problem, "a file is missing behind '@'");
	return 0;
}
