/* SPDX-License-Identifier: MIT */
/* Writes the records of an lcov tracefile, one source file after the other (lcov.h). */
#include "export/lcov.h"

#include <string.h>

/* lcov takes a comma for the end of a function's name. */
static void put_name(struct out *out, const char *name)
{
	for (size_t n; *name; name += n) {
		n = strcspn(name, ",");
		out_bytes(out, name, n);
		if (name[n]) {
			out_char(out, ';');
			n++;
		}
	}
	out_char(out, '\n');
}

static void put_number(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key);
	out_decimal(out, value);
	out_char(out, '\n');
}

static void put_functions(struct out *out, const struct source_file_coverage *file)
{
	for (size_t i = 0; i < file->function_count; i++) {
		out_text(out, "FN:");
		out_decimal(out, file->functions[i].first);
		out_char(out, ',');
		put_name(out, file->functions[i].name);
	}
	for (size_t i = 0; i < file->function_count; i++) {
		out_text(out, "FNDA:");
		out_decimal(out, file->functions[i].calls);
		out_char(out, ',');
		put_name(out, file->functions[i].name);
	}
	put_number(out, "FNF:", file->function_count);
	put_number(out, "FNH:", file->functions_hit);
}

static void put_branches(struct out *out, const struct source_file_coverage *file)
{
	for (size_t i = 0; i < file->branch_count; i++) {
		const struct source_branch *b = &file->branches[i];

		for (unsigned way = 0; way < 2; way++) {
			out_text(out, "BRDA:");
			out_decimal(out, b->line);
			out_char(out, ',');
			out_decimal(out, b->block);
			out_text(out, way ? ",1," : ",0,");
			if (b->executed)
				out_decimal(out, b->ways[way].count);
			else
				out_char(out, '-');
			out_char(out, '\n');
		}
	}
	put_number(out, "BRF:", 2 * file->branch_count);
	put_number(out, "BRH:", file->ways_hit);
}

static void put_lines(struct out *out, const struct source_file_coverage *file)
{
	for (size_t i = 0; i < file->line_count; i++) {
		out_text(out, "DA:");
		out_decimal(out, file->lines[i].line);
		out_char(out, ',');
		put_number(out, "", file->lines[i].count);
	}
	put_number(out, "LF:", file->line_count);
	put_number(out, "LH:", file->lines_hit);
}

int lcov_write(struct out *out, const struct source_coverage *coverage)
{
	for (size_t i = 0; i < coverage->file_count && !out_failed(out); i++) {
		const struct source_file_coverage *file = &coverage->files[i];

		out_text(out, "TN:\nSF:");
		out_text(out, file->name);
		out_char(out, '\n');
		put_functions(out, file);
		put_branches(out, file);
		put_lines(out, file);
		out_text(out, "end_of_record\n");
	}
	return 0;
}
