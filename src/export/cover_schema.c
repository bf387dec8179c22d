/* SPDX-License-Identifier: MIT */
/* Tables and views of a table of coverage (cover_table.h). docs/live.md describes them. */
#include "export/cover_table.h"
#include "export/sqlite_file.h"

#define ID "id integer NOT NULL PRIMARY KEY, "

static const struct sqlite_table_def tables[COVER_TABLE_MAX] = {
    [COVER_TABLE_INFO] = {"info", "name text, value text", 2},
    [COVER_TABLE_PROCESSES] = {"processes",
			       ID "pid integer, comm text, command text, exit_status integer, "
				  "exit_signal integer, instructions integer, errors integer",
			       8},
    [COVER_TABLE_OBJECTS] = {"objects", ID "path text, build_id text", 3},
    [COVER_TABLE_FUNCTIONS] = {"functions",
			       ID "object_id integer, at integer, name text, mangled text", 5},
    [COVER_TABLE_BLOCKS] = {"blocks",
			    ID "object_id integer, function_id integer, at integer, end integer, "
			       "set_id integer",
			    6},
    /* The numbers of the processes in JSON: [1,5,9]. */
    [COVER_TABLE_SETS] = {"sets", ID "processes text", 2},
    [COVER_TABLE_SOURCES] = {"sources", ID "path text", 2},
    [COVER_TABLE_LINES] = {"lines", ID "source_id integer, line integer", 3},
    [COVER_TABLE_LINE_BLOCKS] = {"line_blocks", "line_id integer, block_id integer, at integer", 3},
    [COVER_TABLE_COUNTS] = {"counts", "process_id integer, reached blob", 2},
};

static const char *const indexes[] = {
    "CREATE INDEX functions_name ON functions (name)",
    "CREATE INDEX functions_mangled ON functions (mangled)",
    "CREATE INDEX blocks_function ON blocks (function_id)",
    "CREATE INDEX lines_source ON lines (source_id, line)",
    "CREATE INDEX line_blocks_line ON line_blocks (line_id)",
    "CREATE INDEX line_blocks_block ON line_blocks (block_id)",
    "CREATE INDEX counts_process ON counts (process_id)",
    NULL,
};

#define PROCESS                                                                                    \
	"p.id AS process_id, p.pid AS pid, p.comm AS comm, p.command AS command, "                 \
	"p.exit_status AS exit_status, p.exit_signal AS exit_signal"
#define LINE_SETS                                                                                  \
	"FROM lines l JOIN sources o ON o.id = l.source_id "                                       \
	"JOIN line_blocks k ON k.line_id = l.id JOIN blocks b ON b.id = k.block_id "               \
	"JOIN sets s ON s.id = b.set_id JOIN json_each(s.processes) j "

static const char *const views[] = {
    "CREATE VIEW line_processes AS "
    "SELECT DISTINCT o.path AS source, l.line AS line, " PROCESS " " LINE_SETS
    "JOIN processes p ON p.id = j.value",
    "CREATE VIEW function_processes AS "
    "SELECT DISTINCT f.name AS function, o.path AS object, " PROCESS " "
    "FROM functions f JOIN objects o ON o.id = f.object_id "
    "JOIN blocks b ON b.function_id = f.id JOIN sets s ON s.id = b.set_id "
    "JOIN json_each(s.processes) j JOIN processes p ON p.id = j.value",
    /* How many processes reached each line that has code; 0 as well. */
    "CREATE VIEW line_coverage AS "
    "SELECT o.path AS source, l.line AS line, count(DISTINCT j.value) AS processes "
    "FROM lines l JOIN sources o ON o.id = l.source_id "
    "LEFT JOIN line_blocks k ON k.line_id = l.id LEFT JOIN blocks b ON b.id = k.block_id "
    "LEFT JOIN sets s ON s.id = b.set_id LEFT JOIN json_each(s.processes) j GROUP BY l.id",
    NULL,
};

const struct sqlite_schema cover_schema = {
    .tables = tables,
    .count = COVER_TABLE_MAX,
    .indexes = indexes,
    .views = views,
};
