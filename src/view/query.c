/* SPDX-License-Identifier: MIT */
/* Parses the page's questions, which come from a socket: any byte may be in them (query.h). */
#include "view/query.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Replaces each %XX by its byte, in place. */
static int decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		int high, low;

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		high = digit(from[1]);
		low = high < 0 ? -1 : digit(from[2]);
		if (low < 0 || !(high | low))
			return PTAH_E_INVAL;
		*to++ = (char)(high << 4 | low);
		from += 2;
	}
	*to = '\0';
	return 0;
}

static int add_parameter(struct view_query *q, char *text)
{
	char *value = strchr(text, '=');

	if (!*text)
		return 0;
	if (q->count == VIEW_QUERY_PARAMETERS)
		return PTAH_E_INVAL;
	if (value)
		*value++ = '\0';
	if (decode(text) < 0 || (value && decode(value) < 0) || view_query_text(q, text))
		return PTAH_E_INVAL;
	q->parameters[q->count++] = (struct view_parameter){text, value ? value : ""};
	return 0;
}

int view_query_parse(struct view_query *q, const char *text)
{
	const size_t n = strnlen(text, VIEW_QUERY_SIZE);
	char *parameters;
	int status;

	q->path = q->text;
	q->count = 0;
	q->text[0] = '\0';
	if (n == VIEW_QUERY_SIZE)
		return PTAH_E_INVAL;
	memcpy(q->text, text, n + 1);
	parameters = strchr(q->text, '?');
	if (parameters)
		*parameters++ = '\0';
	status = decode(q->text);
	while (parameters && status >= 0) {
		char *next = strchr(parameters, '&');

		if (next)
			*next++ = '\0';
		status = add_parameter(q, parameters);
		parameters = next;
	}
	return status;
}

const char *view_query_text(const struct view_query *q, const char *name)
{
	for (size_t i = 0; i < q->count; i++)
		if (!strcmp(q->parameters[i].name, name))
			return q->parameters[i].value;
	return NULL;
}

bool view_query_number(const struct view_query *q, const char *name, uint64_t most, uint64_t *value)
{
	const char *text = view_query_text(q, name);
	char *end;

	if (!text || !isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return !*end && !errno && *value <= most;
}

bool view_query_real(const struct view_query *q, const char *name, double *value)
{
	const char *text = view_query_text(q, name);
	char *end;

	/* strtod() also takes spaces, hexadecimal digits, "inf" and "nan". */
	if (!text || !*text || text[strspn(text, "0123456789+-.eE")])
		return false;
	*value = strtod(text, &end);
	return end > text && !*end && isfinite(*value);
}

int view_answer_refuse(struct view_answer *answer, unsigned status, const char *why)
{
	*answer = (struct view_answer){.status = status, .type = "text/plain; charset=utf-8"};
	answer->bytes = strdup(why);
	if (!answer->bytes)
		return PTAH_E_NOMEM;
	answer->size = strlen(why);
	return 0;
}
