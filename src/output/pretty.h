/* SPDX-License-Identifier: MIT */
/*
 * Text for people: colours, names that fit the terminal, and numbers with separators and units.
 *
 * All of it depends on the output's look (out.h), which the command sets: in a file or a pipe there
 * are no colours and names have their full length, so that the text can be searched and compared.
 * TSV and JSON are for programs and use nothing of this.
 */
#ifndef PTAH_OUTPUT_PRETTY_H
#define PTAH_OUTPUT_PRETTY_H

#include "output/out.h"

enum pretty_style {
	PRETTY_PLAIN,
	PRETTY_HEAD,  /* the heading of a table */
	PRETTY_FAINT, /* what is seldom read */
	PRETTY_HOT,   /* much of the whole */
	PRETTY_WARM,  /* some of it */
	PRETTY_GOOD,
	PRETTY_BAD,    /* an error, a loss */
	PRETTY_SOURCE, /* a line of source code, beside assembly */
	PRETTY_MAX
};

/* What is written from now on has this style. It ends with the next one, at the latest with
 * PRETTY_PLAIN, which is written before the end of the line. */
void pretty_style(struct out *out, enum pretty_style style);

/* Writes text in a style, cleaned as out_clean() does. */
void pretty_text(struct out *out, enum pretty_style style, const char *text);

/* Writes a line in the style of a heading. It may have no newline. */
void pretty_head(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* The style of a share: hot from 5 percent on, warm from 0.5 on, as perf has it. */
enum pretty_style pretty_heat(double percent);

/* Writes a share as " 12.34%": 7 columns, in the style of its heat. */
void pretty_percent(struct out *out, uint64_t part, uint64_t whole);

/* The columns of a terminal that text takes: 0 for what combines with the character before it, 2
 * for wide characters of East Asia. */
unsigned pretty_columns(const char *text);

/*
 * How many columns are left on the terminal's line after `used`: at least 16, so that something can
 * be read of every name. 0: there is no limit, because the output is no terminal.
 */
unsigned pretty_rest(const struct out *out, unsigned used);

/*
 * Writes a name from an untrusted file, as out_clean() does. If it takes more than `columns` its
 * middle becomes "...": both ends of a name and of a path say most. `columns` 0: there is no limit.
 * Returns how many columns it took.
 */
unsigned pretty_name(struct out *out, const char *name, unsigned columns);

/* The same, followed by blanks up to `columns`. */
void pretty_column(struct out *out, const char *name, unsigned columns);

/*
 * Numbers as text. Each returns `text`. The separator is a comma in every locale.
 *	pretty_number	12,345,678
 *	pretty_time	345 ns, 1.23 us, 12.3 ms, 123 ms, 1.23 s, 1234 s
 *	pretty_estimate	~345 ns, ~1.23 us, <1 us for 0, which was not measured to be 0
 *	pretty_bytes	123 B, 1.23 kB, 12.3 MB, 123 GB (powers of 1000)
 */
#define PRETTY_NUMBER 32
const char *pretty_number(uint64_t value, char text[PRETTY_NUMBER]);
const char *pretty_time(uint64_t nanoseconds, char text[PRETTY_NUMBER]);
const char *pretty_estimate(uint64_t nanoseconds, char text[PRETTY_NUMBER]);
const char *pretty_bytes(uint64_t bytes, char text[PRETTY_NUMBER]);

#endif
