/* SPDX-License-Identifier: MIT */
/* Writes gcov's JSON, one source file after the other (gcov_json.h). */
#include "export/gcov_json.h"

#include "output/json.h"

#include <ptah/base.h>

static void put_function(struct json *j, const struct source_function *f)
{
	json_object(j, NULL, true);
	json_string(j, "name", f->name);
	json_string(j, "demangled_name", f->shown);
	json_number(j, "start_line", f->first);
	json_number(j, "start_column", 0); /* unknown */
	json_number(j, "end_line", f->last);
	json_number(j, "end_column", 0);
	json_number(j, "blocks", f->blocks);
	json_number(j, "blocks_executed", f->blocks_executed);
	json_number(j, "execution_count", f->calls);
	json_number(j, "lineno", f->first); /* for gcovr */
	json_end_object(j);
}

static void put_branch(struct json *j, const struct source_branch *branch)
{
	for (unsigned way = 0; way < 2; way++) {
		json_object(j, NULL, true);
		json_number(j, "count", branch->ways[way].count);
		json_bool(j, "throw", false);
		json_bool(j, "fallthrough", branch->ways[way].fall_through);
		json_end_object(j);
	}
}

/* Writes a line with its branches, which begin with number *branch of the file. */
static void put_line(struct json *j, const struct source_file_coverage *file,
		     const struct source_line *line, size_t *branch)
{
	json_object(j, NULL, true);
	json_number(j, "line_number", line->line);
	json_number(j, "count", line->count);
	json_bool(j, "unexecuted_block", line->has_unexecuted);
	if (line->function != SOURCE_NO_FUNCTION)
		json_string(j, "function_name", file->functions[line->function].name);
	json_bool(j, "gcovr/noncode", false);
	json_bool(j, "gcovr/excluded", false);
	json_array(j, "branches");
	while (*branch < file->branch_count && file->branches[*branch].line < line->line)
		++*branch;
	while (*branch < file->branch_count && file->branches[*branch].line == line->line)
		put_branch(j, &file->branches[(*branch)++]);
	json_end_array(j);
	json_end_object(j);
}

static void put_file(struct json *j, const struct source_file_coverage *file)
{
	size_t branch = 0;

	json_object(j, NULL, false);
	json_string(j, "file", file->name);
	json_array(j, "functions");
	for (size_t i = 0; i < file->function_count; i++)
		put_function(j, &file->functions[i]);
	json_end_array(j);
	json_array(j, "lines");
	for (size_t i = 0; i < file->line_count; i++)
		put_line(j, file, &file->lines[i], &branch);
	json_end_array(j);
	json_end_object(j);
}

int gcov_json_write(struct out *out, const struct source_coverage *coverage)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL, false);
	json_string(&j, "format_version", "1");
	json_string(&j, "gcc_version", "ptah " PTAH_VERSION_STRING);
	json_string(&j, "gcovr/format_version", "0.3");
	json_string(&j, "current_working_directory", "/");
	json_string(&j, "data_file", "");
	json_array(&j, "files");
	for (size_t i = 0; i < coverage->file_count && !out_failed(out); i++)
		put_file(&j, &coverage->files[i]);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
	return 0;
}
