/* SPDX-License-Identifier: MIT */
/* Writes text for people: colours, names cut to the terminal's width, numbers with units. */
#include "output/pretty.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* SGR sequences (ECMA-48). Colours are those of the terminal's own palette. */
static const char *const sequences[PRETTY_MAX] = {
    [PRETTY_PLAIN] = "\033[m",	 [PRETTY_HEAD] = "\033[1m",    [PRETTY_FAINT] = "\033[2m",
    [PRETTY_HOT] = "\033[1;31m", [PRETTY_WARM] = "\033[32m",   [PRETTY_GOOD] = "\033[32m",
    [PRETTY_BAD] = "\033[1;31m", [PRETTY_SOURCE] = "\033[36m",
};

void pretty_style(struct out *out, enum pretty_style style)
{
	if (out_look(out)->color)
		out_text(out, sequences[style]);
}

void pretty_text(struct out *out, enum pretty_style style, const char *text)
{
	if (style == PRETTY_PLAIN) {
		out_clean(out, text);
		return;
	}
	pretty_style(out, style);
	out_clean(out, text);
	pretty_style(out, PRETTY_PLAIN);
}

void pretty_head(struct out *out, const char *format, ...)
{
	char text[512];
	va_list args;
	size_t n;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* The style ends before the newline: some terminals would colour the next line too. */
	n = strcspn(text, "\n");
	pretty_style(out, PRETTY_HEAD);
	out_bytes(out, text, n);
	pretty_style(out, PRETTY_PLAIN);
	out_text(out, text + n);
}

enum pretty_style pretty_heat(double percent)
{
	return percent >= 5 ? PRETTY_HOT : percent >= 0.5 ? PRETTY_WARM : PRETTY_PLAIN;
}

void pretty_percent(struct out *out, uint64_t part, uint64_t whole)
{
	const double percent = whole ? 100.0 * (double)part / (double)whole : 0;
	char text[32];

	snprintf(text, sizeof(text), "%6.2f%%", percent);
	pretty_text(out, pretty_heat(percent), text);
}

/* Widths of characters */

struct range {
	uint32_t first, last;
};

/* The blocks of Unicode that hold combining marks and characters without a width. */
static const struct range zero[] = {
    {0x300, 0x36f},   {0x483, 0x489},	{0x591, 0x5bd},	  {0x64b, 0x65f},   {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

/* East Asian Wide and Fullwidth (UAX #11), by whole blocks. */
static const struct range wide[] = {
    {0x1100, 0x115f}, {0x2e80, 0x303e},	  {0x3041, 0xa4cf},   {0xa960, 0xa97c},
    {0xac00, 0xd7a3}, {0xf900, 0xfaff},	  {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static bool is_in(uint32_t c, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

/* A harmful character is shown as "?". */
static unsigned width_of(uint32_t c)
{
	if (c < 0x300 || text_is_harmful(c))
		return 1;
	if (is_in(c, zero, sizeof(zero) / sizeof(*zero)))
		return 0;
	return is_in(c, wide, sizeof(wide) / sizeof(*wide)) ? 2 : 1;
}

unsigned pretty_columns(const char *text)
{
	unsigned columns = 0;
	size_t n;

	for (; *text; text += n)
		columns += width_of(text_character(text, &n));
	return columns;
}

/* A name is cut to this width at least. */
#define NARROWEST 16

unsigned pretty_rest(const struct out *out, unsigned used)
{
	const unsigned columns = out_look(out)->columns;

	if (!columns)
		return 0;
	return columns > used + NARROWEST ? columns - used : NARROWEST;
}

/* Writes the characters of `name` whose columns lie in [from, to). Returns how many these are. */
static unsigned put_part(struct out *out, const char *name, unsigned from, unsigned to)
{
	unsigned at = 0, written = 0;
	size_t n;

	for (; *name; name += n) {
		const uint32_t c = text_character(name, &n);
		const unsigned width = width_of(c);

		if (at >= from && at + width <= to) {
			if (text_is_harmful(c))
				out_char(out, '?');
			else
				out_bytes(out, name, n);
			written += width;
		}
		at += width;
	}
	return written;
}

unsigned pretty_name(struct out *out, const char *name, unsigned columns)
{
	static const char mark[] = "...";
	const unsigned length = pretty_columns(name), width = sizeof(mark) - 1;
	unsigned head, written;

	if (!columns || length <= columns || columns <= width) {
		out_clean(out, name);
		return length;
	}
	head = (columns - width) / 2;
	written = put_part(out, name, 0, head);
	out_text(out, mark);
	return written + width + put_part(out, name, length - (columns - width - head), length);
}

void pretty_column(struct out *out, const char *name, unsigned columns)
{
	for (unsigned k = pretty_name(out, name, out_look(out)->columns ? columns : 0); k < columns;
	     k++)
		out_char(out, ' ');
}

/* Numbers */

const char *pretty_number(uint64_t value, char text[PRETTY_NUMBER])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value), k = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			text[k++] = ',';
		text[k++] = digits[i];
	}
	text[k] = '\0';
	return text;
}

/* Writes a value with three digits and the largest of the units that leaves at least 1. The bounds
 * are those of rounding: 999,600 ns are 1.00 ms, not 1000 us. */
static const char *with_unit(uint64_t value, const char *const *units, unsigned last,
			     char text[PRETTY_NUMBER])
{
	double v = (double)value;
	unsigned unit = 0;
	int decimals;

	for (; v >= 999.5 && unit < last; unit++)
		v /= 1000;
	decimals = !unit ? 0 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
	snprintf(text, PRETTY_NUMBER, "%.*f %s", decimals, v, units[unit]);
	return text;
}

const char *pretty_time(uint64_t nanoseconds, char text[PRETTY_NUMBER])
{
	static const char *const units[] = {"ns", "us", "ms", "s"};

	return with_unit(nanoseconds, units, 3, text);
}

const char *pretty_estimate(uint64_t nanoseconds, char text[PRETTY_NUMBER])
{
	char time[PRETTY_NUMBER];

	if (!nanoseconds)
		return strcpy(text, "<1 us");
	snprintf(text, PRETTY_NUMBER, "~%.30s", pretty_time(nanoseconds, time));
	return text;
}

const char *pretty_bytes(uint64_t bytes, char text[PRETTY_NUMBER])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};

	return with_unit(bytes, units, 4, text);
}
