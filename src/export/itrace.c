/* SPDX-License-Identifier: MIT */
/* Parses the letters of --itrace, each of which a number, a unit or flags may follow. */
#include "export/itrace.h"

#include "base/compiler.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int refuse_itrace(struct ptah_message *why, const char *format, ...) PRINTF_LIKE(2, 3);

static int refuse_itrace(struct ptah_message *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return PTAH_E_INVAL;
}

/* Reads a decimal number; false: there is none, or it is too large (*overflow). */
static bool read_number(const char **text, uint64_t *value, bool *overflow)
{
	const char *p = *text;
	uint64_t n = 0;

	*overflow = false;
	for (; *p >= '0' && *p <= '9'; p++) {
		const uint64_t digit = (uint64_t)(*p - '0');

		if (n > (UINT64_MAX - digit) / 10) {
			*overflow = true;
			return false;
		}
		n = 10 * n + digit;
	}
	if (p == *text)
		return false;
	*text = p;
	*value = n;
	return true;
}

/* The unit after a period: nanoseconds if none is there. */
static bool read_unit(const char **text, struct itrace *t)
{
	static const struct {
		const char *name;
		enum itrace_unit unit;
		uint32_t factor;
	} units[] = {
	    {"ms", ITRACE_NANOSECONDS, 1000000},
	    {"us", ITRACE_NANOSECONDS, 1000},
	    {"ns", ITRACE_NANOSECONDS, 1},
	    {"i", ITRACE_INSTRUCTIONS, 1},
	    {"t", ITRACE_TICKS, 1},
	};

	t->unit = ITRACE_NANOSECONDS;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const size_t n = strlen(units[i].name);

		if (strncmp(*text, units[i].name, n) != 0)
			continue;
		*text += n;
		t->unit = units[i].unit;
		return !__builtin_mul_overflow(t->period, units[i].factor, &t->period);
	}
	return true;
}

static int read_period(const char **text, struct itrace *t, struct ptah_message *why)
{
	bool overflow;

	t->instructions = true;
	t->period = ITRACE_PERIOD;
	t->unit = ITRACE_NANOSECONDS;
	if (read_number(text, &t->period, &overflow))
		overflow = !read_unit(text, t);
	return overflow ? refuse_itrace(why, "--itrace: the period after \"i\" is too large") : 0;
}

/* The number of entries after g or l. */
static int read_entries(const char **text, char letter, unsigned normal, unsigned *entries,
			struct ptah_message *why)
{
	uint64_t n = normal;
	bool overflow;

	if ((!read_number(text, &n, &overflow) && overflow) || !n || n > ITRACE_MOST_ENTRIES)
		return refuse_itrace(why, "--itrace: \"%c\" is followed by a number from 1 to %d",
				     letter, ITRACE_MOST_ENTRIES);
	*entries = (unsigned)n;
	return 0;
}

/* Flags of e: +o, -o, +l, -l. */
static int read_error_flags(const char **text, struct itrace *t, struct ptah_message *why)
{
	t->errors = true;
	while (**text == '+' || **text == '-') {
		const bool without = **text == '-';
		const char flag = (*text)[1];

		if (flag != 'o' && flag != 'l')
			return refuse_itrace(
			    why, "--itrace: the flags of \"e\" are o and l, as in e-o-l");
		*(flag == 'o' ? &t->no_overflows : &t->no_losses) = without;
		*text += 2;
	}
	return 0;
}

static void leave_out(struct itrace *t, char letter)
{
	const size_t n = strlen(t->left_out);

	if (!strchr(t->left_out, letter) && n + 1 < sizeof(t->left_out))
		t->left_out[n] = letter;
}

/* Takes one letter and what belongs to it. */
static int read_letter(const char **text, struct itrace *t, struct ptah_message *why)
{
	const char letter = *(*text)++;
	bool overflow;

	switch (letter) {
	case 'i':
		return read_period(text, t, why);
	case 'b':
		t->branches = true;
		return 0;
	case 'c':
		t->calls = true;
		return 0;
	case 'r':
		t->returns = true;
		return 0;
	case 'e':
		return read_error_flags(text, t, why);
	case 'g':
		return read_entries(text, letter, ITRACE_CALL_CHAIN, &t->call_chain, why);
	case 'l':
		return read_entries(text, letter, ITRACE_BRANCH_STACK, &t->branch_stack, why);
	case 's':
		return read_number(text, &t->skip, &overflow)
			   ? 0
			   : refuse_itrace(
				 why, "--itrace: \"s\" is followed by the number of samples to "
				      "leave out");
	case 'x':
	case 'w':
	case 'p':
	case 'o':
	case 'I':
		leave_out(t, letter);
		return 0;
	case ' ':
	case ',':
		return 0;
	default:
		if (letter > ' ' && letter < 127)
			return refuse_itrace(
			    why,
			    "--itrace: \"%c\" is not made by ptah inject; i, b, c, "
			    "r, e, g, l and s are",
			    letter);
		return refuse_itrace(why, "--itrace: the byte 0x%02x is no letter of it",
				     (unsigned char)letter);
	}
}

int itrace_parse(const char *text, struct itrace *t, struct ptah_message *why)
{
	int status = 0;

	*t = (struct itrace){.period = ITRACE_PERIOD, .unit = ITRACE_NANOSECONDS};
	if (!*text)
		text = ITRACE_EVERYTHING;
	while (*text && status >= 0)
		status = read_letter(&text, t, why);
	if (status >= 0 && !t->instructions && !t->branches && !t->calls && !t->returns &&
	    !t->errors)
		return refuse_itrace(why, "--itrace: no samples are asked for: i, b, c or r");
	return status;
}
