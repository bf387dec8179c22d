/* SPDX-License-Identifier: MIT */
/*
 * Tables and views of an SQLite export. Tables begin with the columns of perf's
 * export-to-sqlite.py, which exported-sql-viewer.py reads; what Ptah knows beyond them follows in
 * columns and tables of their own. docs/export.md describes them.
 */
#include "export/sqlite_file.h"

#define ID "id integer NOT NULL PRIMARY KEY, "

static const struct sqlite_table_def tables[SQLITE_TABLES] = {
    [SQLITE_SELECTED_EVENTS] = {"selected_events", ID "name varchar(80)", 2},
    [SQLITE_MACHINES] = {"machines", ID "pid integer, root_dir varchar(4096)", 3},
    [SQLITE_THREADS] = {"threads",
			ID "machine_id bigint, process_id bigint, pid integer, "
			   "tid integer",
			5},
    [SQLITE_COMMS] = {"comms",
		      ID "comm varchar(16), c_thread_id bigint, c_time bigint, "
			 "exec_flag boolean, has_calls boolean",
		      6},
    [SQLITE_COMM_THREADS] = {"comm_threads", ID "comm_id bigint, thread_id bigint", 3},
    [SQLITE_DSOS] = {"dsos",
		     ID "machine_id bigint, short_name varchar(256), "
			"long_name varchar(4096), build_id varchar(64)",
		     5},
    [SQLITE_SYMBOLS] = {"symbols",
			ID "dso_id bigint, sym_start bigint, sym_end bigint, "
			   "binding integer, name varchar(2048)",
			6},
    [SQLITE_BRANCH_TYPES] = {"branch_types", ID "name varchar(80)", 2},
    [SQLITE_SAMPLES] = {"samples",
			ID "evsel_id bigint, machine_id bigint, thread_id bigint, comm_id bigint, "
			   "dso_id bigint, symbol_id bigint, sym_offset bigint, ip bigint, "
			   "time bigint, cpu integer, to_dso_id bigint, to_symbol_id bigint, "
			   "to_sym_offset bigint, to_ip bigint, branch_type integer, "
			   "in_tx boolean, call_path_id bigint, insn_count bigint, "
			   "cyc_count bigint, flags integer",
			21},
    [SQLITE_CALL_PATHS] = {"call_paths", ID "parent_id bigint, symbol_id bigint, ip bigint", 4},
    [SQLITE_CALLS] = {"calls",
		      ID "thread_id bigint, comm_id bigint, call_path_id bigint, "
			 "call_time bigint, return_time bigint, branch_count bigint, "
			 "call_id bigint, return_id bigint, parent_call_path_id bigint, "
			 "flags integer, parent_id bigint, insn_count bigint, cyc_count bigint, "
			 "self_insn_count bigint, self_cyc_count bigint, self_time bigint, "
			 "off_time bigint, call_ip bigint, begun integer, ended integer, "
			 "complete boolean, recursive boolean, stub boolean, loss boolean",
		      25},
    [SQLITE_CALL_BEGINS] = {"call_begins", ID "name varchar(16)", 2},
    [SQLITE_CALL_ENDS] = {"call_ends", ID "name varchar(16)", 2},
    [SQLITE_LOSSES] = {"losses",
		       ID "thread_id bigint, comm_id bigint, time bigint, kind varchar(16), "
			  "reason varchar(256), stream bigint, offset bigint",
		       8},
    [SQLITE_RECORDING] = {"recording", ID "name varchar(32), value text", 3},
};

#define HEX(column) "printf('%x', " column ")"
/* Instructions per cycle, as perf's views have it. */
#define IPC                                                                                        \
	"CASE WHEN cyc_count = 0 THEN 0.0 "                                                        \
	"ELSE round(CAST(insn_count AS FLOAT) / cyc_count, 2) END AS IPC"

static const char *const views[] = {
    /* Those of perf, by name and columns. */
    "CREATE VIEW machines_view AS SELECT id, pid, root_dir, CASE WHEN id = 0 THEN 'unknown' "
    "WHEN pid = -1 THEN 'host' ELSE 'guest' END AS host_or_guest FROM machines",

    "CREATE VIEW dsos_view AS SELECT d.id, d.machine_id, m.host_or_guest, d.short_name, "
    "d.long_name, d.build_id FROM dsos d JOIN machines_view m ON m.id = d.machine_id",

    "CREATE VIEW symbols_view AS SELECT s.id, s.name, d.short_name AS dso, s.dso_id, s.sym_start, "
    "s.sym_end, CASE s.binding WHEN 0 THEN 'local' WHEN 1 THEN 'global' WHEN 2 THEN 'weak' END "
    "AS binding FROM symbols s JOIN dsos d ON d.id = s.dso_id",

    "CREATE VIEW threads_view AS SELECT t.id, t.machine_id, m.host_or_guest, t.process_id, t.pid, "
    "t.tid FROM threads t JOIN machines_view m ON m.id = t.machine_id",

    "CREATE VIEW comm_threads_view AS SELECT ct.comm_id, c.comm AS command, ct.thread_id, t.pid, "
    "t.tid FROM comm_threads ct JOIN comms c ON c.id = ct.comm_id "
    "JOIN threads t ON t.id = ct.thread_id",

    "CREATE VIEW call_paths_view AS SELECT c.id, " HEX(
	"c.ip") " AS ip, c.symbol_id, "
		"s.name AS symbol, s.dso_id, d.short_name AS dso_short_name, c.parent_id, " HEX(
		    "p.ip") " AS parent_ip, p.symbol_id AS parent_symbol_id, ps.name AS "
			    "parent_symbol, "
			    "ps.dso_id AS parent_dso_id, pd.short_name AS parent_dso_short_name "
			    "FROM call_paths c "
			    "JOIN call_paths p ON p.id = c.parent_id JOIN symbols s ON s.id = "
			    "c.symbol_id "
			    "JOIN dsos d ON d.id = s.dso_id JOIN symbols ps ON ps.id = p.symbol_id "
			    "JOIN dsos pd ON pd.id = ps.dso_id",

    "CREATE VIEW calls_view AS SELECT c.id, c.thread_id, t.pid, t.tid, m.comm AS command, "
    "c.call_path_id, " HEX(
	"p.ip") " AS ip, p.symbol_id, s.name AS symbol, c.call_time, "
		"c.return_time, c.return_time - c.call_time AS elapsed_time, c.branch_count, "
		"c.insn_count, "
		"c.cyc_count, " IPC ", c.call_id, c.return_id, CASE c.flags WHEN 0 THEN '' "
		"WHEN 1 THEN 'no call' WHEN 2 THEN 'no return' WHEN 3 THEN 'no call/return' "
		"WHEN 6 THEN 'jump' ELSE c.flags END AS flags, c.parent_call_path_id, c.parent_id "
		"FROM calls c JOIN call_paths p ON p.id = c.call_path_id JOIN symbols s ON s.id = "
		"p.symbol_id "
		"JOIN threads t ON t.id = c.thread_id JOIN comms m ON m.id = c.comm_id",

    "CREATE VIEW samples_view AS SELECT a.id, a.time, a.cpu, t.pid, t.tid, m.comm AS command, "
    "e.name AS event, " HEX(
	"a.ip") " AS ip_hex, s.name AS symbol, a.sym_offset, "
		"d.short_name AS dso_short_name, " HEX(
		    "a.to_ip") " AS to_ip_hex, ts.name AS to_symbol, "
			       "a.to_sym_offset, td.short_name AS to_dso_short_name, b.name AS "
			       "branch_type_name, a.in_tx, "
			       "a.insn_count, a.cyc_count, " IPC ", a.flags FROM samples a "
			       "LEFT JOIN threads t ON t.id = a.thread_id LEFT JOIN comms m ON "
			       "m.id = a.comm_id "
			       "LEFT JOIN selected_events e ON e.id = a.evsel_id LEFT JOIN symbols "
			       "s ON s.id = a.symbol_id "
			       "LEFT JOIN dsos d ON d.id = a.dso_id LEFT JOIN symbols ts ON ts.id "
			       "= a.to_symbol_id "
			       "LEFT JOIN dsos td ON td.id = a.to_dso_id "
			       "LEFT JOIN branch_types b ON b.id = a.branch_type",

    /* Answers to questions. Calls that began before the trace, or continue, are no calls here. */
    "CREATE VIEW functions AS SELECT s.id, s.name, d.short_name AS dso, "
    "sum(c.begun < 5) AS calls, sum(NOT c.complete) AS partial, "
    "sum(c.self_insn_count) AS self_insn, "
    "sum(CASE WHEN c.recursive THEN 0 ELSE c.insn_count END) AS insn, "
    "sum(c.self_cyc_count) AS self_cyc, "
    "sum(CASE WHEN c.recursive THEN 0 ELSE c.cyc_count END) AS cyc, "
    "sum(c.self_time) AS self_time, "
    "sum(CASE WHEN c.recursive THEN 0 ELSE c.return_time - c.call_time END) AS time, "
    "max(c.insn_count) AS max_insn, max(c.return_time - c.call_time) AS max_time "
    "FROM calls c JOIN call_paths p ON p.id = c.call_path_id "
    "JOIN symbols s ON s.id = p.symbol_id JOIN dsos d ON d.id = s.dso_id "
    "WHERE c.id > 0 GROUP BY s.id",

    /* A stub of the PLT is no caller: the function that called it is. */
    "CREATE VIEW calls_with_caller AS SELECT c.*, p.symbol_id, CASE WHEN up.stub "
    "THEN upper.symbol_id ELSE above.symbol_id END AS caller_symbol_id, CASE WHEN up.stub "
    "THEN up.call_ip ELSE c.call_ip END AS site FROM calls c "
    "JOIN call_paths p ON p.id = c.call_path_id JOIN calls up ON up.id = c.parent_id "
    "JOIN call_paths above ON above.id = c.parent_call_path_id "
    "JOIN call_paths upper ON upper.id = above.parent_id WHERE c.id > 0 AND NOT c.stub",

    "CREATE VIEW callers AS SELECT s.name AS callee, f.name AS caller, sum(c.begun < 5) AS calls, "
    "sum(c.insn_count) AS insn, sum(c.cyc_count) AS cyc, "
    "sum(c.return_time - c.call_time) AS time, s.id AS callee_id, f.id AS caller_id "
    "FROM calls_with_caller c JOIN symbols s ON s.id = c.symbol_id "
    "JOIN symbols f ON f.id = c.caller_symbol_id GROUP BY s.id, f.id",

    "CREATE VIEW call_sites AS SELECT s.name AS callee, f.name AS caller, " HEX(
	"c.site") " AS site, t.pid, sum(c.begun < 5) AS calls, sum(c.insn_count) AS insn, "
		  "sum(c.return_time - c.call_time) AS time FROM calls_with_caller c "
		  "JOIN symbols s ON s.id = c.symbol_id JOIN symbols f ON f.id = "
		  "c.caller_symbol_id "
		  "JOIN threads t ON t.id = c.thread_id WHERE c.site <> 0 GROUP BY s.id, f.id, "
		  "t.pid, c.site",

    "CREATE VIEW single_calls AS SELECT c.id, s.name, d.short_name AS dso, f.name AS caller, "
    "m.comm, t.pid, t.tid, c.call_time, c.return_time - c.call_time AS time, c.self_time, "
    "c.off_time, c.insn_count AS insn, c.self_insn_count AS self_insn, c.cyc_count AS cyc, "
    "b.name AS begun, e.name AS ended, c.complete, c.loss FROM calls_with_caller c "
    "JOIN symbols s ON s.id = c.symbol_id JOIN dsos d ON d.id = s.dso_id "
    "JOIN symbols f ON f.id = c.caller_symbol_id JOIN comms m ON m.id = c.comm_id "
    "JOIN threads t ON t.id = c.thread_id JOIN call_begins b ON b.id = c.begun "
    "JOIN call_ends e ON e.id = c.ended",

    "CREATE VIEW thread_totals AS SELECT c.comm_id AS id, m.comm, t.pid, t.tid, "
    "sum(c.begun < 5) AS calls, sum(c.self_insn_count) AS insn, sum(c.self_cyc_count) AS cyc, "
    "sum(c.self_time) AS time, min(c.call_time) AS begin_time, max(c.return_time) AS end_time, "
    "(SELECT count(*) FROM losses l WHERE l.comm_id = c.comm_id) AS losses FROM calls c "
    "JOIN comms m ON m.id = c.comm_id JOIN threads t ON t.id = c.thread_id "
    "WHERE c.id > 0 GROUP BY c.comm_id",
    NULL,
};

static const char *const indexes[] = {
    "CREATE INDEX pcpid_idx ON calls (parent_call_path_id)",
    "CREATE INDEX pid_idx ON calls (parent_id)",
    "UPDATE comms SET has_calls = 1 WHERE id IN (SELECT DISTINCT comm_id FROM calls)",
    NULL,
};

const struct sqlite_schema sqlite_schema = {
    .tables = tables,
    .count = SQLITE_TABLES,
    .indexes = indexes,
    .views = views,
};
