#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah export --to=sqlite: databases of a program of which each call is known, read by SQL and by
# perf's viewer. f runs 2 n + 1 instructions for n = 1 to 100; g, which calls it for odd n, 2 more; r
# calls itself until it is 5 calls deep; t jumps to u. It runs twice, in two processes.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need qemu-x86_64
need "${CC:-cc}"
export PYTHONDONTWRITEBYTECODE=1

cat >program.s <<'END'
	.globl _start
	.type _start, @function
_start:	xor %ebx, %ebx
1:	inc %ebx
	mov %ebx, %ecx
	test $1, %bl
	jz 2f
	call g
	jmp 3f
2:	call f
3:	cmp $100, %ebx
	jb 1b
	mov $5, %ecx
	call r
	call t
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type f, @function
f:	dec %ecx
	jnz f
	ret
	.size f, . - f
	.type g, @function
g:	call f
	ret
	.size g, . - g
	.type r, @function
r:	dec %ecx
	jz 1f
	call r
1:	ret
	.size r, . - r
	.type u, @function
u:	nop
	ret
	.size u, . - u
	.type t, @function
t:	nop
	jmp u
	.size t, . - t
END
"${CC:-cc}" -nostdlib -static -no-pie -o program program.s
"$PTAH" record --recorder=qemu -e intel_pt/mtc=1,cyc=1/u -o c.data -- sh -c './program; ./program' 2>closing
recorded=$(sed -n 's/.* \([0-9]*\) instructions.*/\1/p' closing)

expect 0 "$PTAH" export -i c.data -o c.db
[ "$(echo c.db.*)" = "c.db.*" ] || fail "$(echo c.db.*) is left"
nm -S program | sed -n 's/^\([0-9a-f]*\) \([0-9a-f]*\) T _start$/\1 \2/p' >start-symbol
RECORDED=$recorded python3 - <<'END' || fail "the database"
import os, sqlite3
db = sqlite3.connect("c.db")
def check(what, statement, *wanted):
    got = db.execute(statement).fetchall()
    assert got == list(wanted), (what, got, wanted)
def one(statement):
    return db.execute(statement).fetchone()[0]

check("sound", "PRAGMA integrity_check", ("ok",))
check("all", "SELECT sum(self_insn) FROM functions", (int(os.environ["RECORDED"]),))
check("all", "SELECT sum(insn) FROM thread_totals", (int(os.environ["RECORDED"]),))
check("unknown", "SELECT count(*) FROM calls WHERE id = 0", (1,))

own = sum(2 * n + 1 for n in range(1, 101))
odd = sum(2 * n + 1 for n in range(1, 101, 2))
check("functions", """SELECT name, calls, partial, self_insn, insn, max_insn FROM functions
      WHERE dso = 'program' AND name IN ('f', 'g', 'r', 't', 'u') ORDER BY name""",
      ("f", 200, 0, 2 * own, 2 * own, 201), ("g", 100, 0, 200, 2 * (odd + 100), 201),
      # 4 instructions in each call but the innermost, which has 3
      ("r", 10, 0, 2 * 19, 2 * 19, 19), ("t", 2, 0, 4, 8, 4), ("u", 2, 0, 4, 4, 2))
check("callers", """SELECT callee, caller, calls FROM callers WHERE callee IN ('f', 'r', 'u')
      ORDER BY callee, caller""",
      ("f", "_start", 100), ("f", "g", 100), ("r", "_start", 2), ("r", "r", 8), ("u", "t", 2))
check("sites", """SELECT count(DISTINCT site), sum(calls) FROM call_sites WHERE callee = 'f'""",
      (2, 200))
check("slowest", """SELECT name, insn, caller FROM single_calls WHERE name = 'f' AND
      complete ORDER BY insn DESC, id LIMIT 3""", ("f", 201, "_start"),
      ("f", 201, "_start"), ("f", 199, "g"))
check("jumps", "SELECT DISTINCT begun, ended FROM single_calls WHERE name = 'u'",
      ("jump", "return"))
check("jumps", """SELECT DISTINCT flags FROM calls_view WHERE symbol IN ('f', 'u') ORDER BY 1""",
      ("",), ("jump",))

# Every call lies within its caller, in the order of the numbers.
check("nested", """SELECT count(*) FROM calls c JOIN calls p ON p.id = c.parent_id WHERE p.id > 0
      AND (c.call_time < p.call_time OR c.return_time > p.return_time OR c.id <= p.id
           OR c.thread_id <> p.thread_id OR c.parent_call_path_id <> p.call_path_id
           OR c.insn_count > p.insn_count)""", (0,))
check("order", """SELECT count(*) FROM (SELECT call_time, lag(call_time) OVER
      (PARTITION BY comm_id ORDER BY id) AS before FROM calls) WHERE call_time < before""", (0,))
check("sums", """SELECT count(*) FROM calls c WHERE c.id > 0 AND c.insn_count <> c.self_insn_count +
      (SELECT ifnull(sum(d.insn_count), 0) FROM calls d WHERE d.parent_id = c.id)""", (0,))
check("references", """SELECT count(*) FROM calls c LEFT JOIN call_paths p ON p.id = c.call_path_id
      LEFT JOIN symbols s ON s.id = p.symbol_id LEFT JOIN dsos d ON d.id = s.dso_id
      LEFT JOIN threads t ON t.id = c.thread_id LEFT JOIN comms m ON m.id = c.comm_id
      WHERE d.id IS NULL OR t.id IS NULL OR m.id IS NULL""", (0,))
assert one("SELECT max(cyc_count) FROM calls") > 0
assert one("SELECT max(return_time) FROM calls") > 0

# A shell forks twice, and each child becomes the program: two runs of both pids.
check("threads", "SELECT count(*), count(DISTINCT process_id) FROM threads WHERE id > 0", (3, 3))
check("execs", "SELECT comm, exec_flag, has_calls FROM comms WHERE comm = 'program'",
      ("program", 1, 1), ("program", 1, 1))
start, size = (int(x, 16) for x in open("start-symbol").read().split())
check("symbol", """SELECT sym_end - sym_start, sym_start % 4096 FROM symbols_view
      WHERE name = '_start' AND dso = 'program'""", (size, start % 4096))
for view, in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
    db.execute("SELECT * FROM " + view).fetchall()
check("recording", "SELECT value FROM recording WHERE name = 'errors'", ("0",))
END

# Branches as rows: calls and returns of the program as often as they ran, and every instruction
# before one of them, but for those after the last one of a thread.
expect 0 "$PTAH" export -i c.data -o b.db --branches=calls
expect 0 "$PTAH" export -i c.data -o a.db --branches=all
RECORDED=$recorded python3 - <<'END' || fail "branches"
import os, sqlite3
calls = sqlite3.connect("b.db").execute("""SELECT branch_type_name, to_symbol, count(*)
    FROM samples_view WHERE to_symbol IN ('f', 'g', 'u') AND to_dso_short_name = 'program' AND
    to_sym_offset = 0 GROUP BY 1, 2 ORDER BY 1, 2""").fetchall()
assert calls == [("call", "f", 200), ("call", "g", 100)], calls
db = sqlite3.connect("a.db")
back = db.execute("""SELECT count(*) FROM samples_view WHERE symbol = 'f' AND to_symbol = 'f'
    AND dso_short_name = 'program' AND branch_type_name = 'conditional jump'""").fetchone()[0]
assert back == 2 * sum(n - 1 for n in range(1, 101)), back
ran = db.execute("SELECT sum(insn_count) FROM samples").fetchone()[0]
assert 0 <= int(os.environ["RECORDED"]) - ran < 100, ran
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
END

# Names that are no text: bytes that are not UTF-8, and those that a terminal would obey.
objcopy --redefine-sym f="$(printf 'f\377\033[2J')" program odd
program=$(printf 'odd\303 program')
cp odd "$program"
"$PTAH" record --recorder=qemu -o odd.data -- "./$program" 2>closing
expect 0 "$PTAH" export -i odd.data -o odd.db
python3 - <<'END' || fail "odd names"
import sqlite3
db = sqlite3.connect("odd.db")
for table in "comms", "recording":
    assert "odd\ufffd program" in str(db.execute("SELECT * FROM " + table).fetchall()), table
names = db.execute("SELECT name, calls FROM functions").fetchall()
assert ("f??[2J", 100) in names, names
END

# Losses are rows.
head -c $(($(wc -c <c.data) / 2)) c.data >cut.data
status=0
"$PTAH" export -i cut.data -o cut.db 2>err || status=$?
[ -e cut.db ] || fail "no database of a recording that was cut: $(cat err)"
equal "its errors" "$(python3 -c "
import sqlite3
db = sqlite3.connect('cut.db')
print(db.execute('''SELECT count(*) FROM losses WHERE kind = 'error' ''').fetchone()[0] ==
      int(db.execute('''SELECT value FROM recording WHERE name = 'errors' ''').fetchone()[0]))")" True

# What cannot be written leaves nothing.
expect 2 "$PTAH" export -i c.data --to=sqlite
expect 2 "$PTAH" export -i c.data --to=sqlite -o f.db --function=f
expect 1 "$PTAH" export -i c.data --to=sqlite -o /dev/null
expect 1 "$PTAH" export -i c.data -o missing/c.db
grep -q "missing/c.db: cannot write" err || fail "$(cat err)"
(ulimit -f 32 && trap '' XFSZ && expect 1 "$PTAH" export -i c.data -o big.db) || exit 1
[ ! -e big.db ] && [ "$(echo big.db.*)" = "big.db.*" ] || fail "an incomplete database is left"

# perf's viewer, and what perf itself makes of the recording.
[ -z "${PTAH_SANITIZE:-}" ] || exit 0
scripts=$(perf --exec-path 2>/dev/null)/scripts/python
[ -e "$scripts/exported-sql-viewer.py" ] || {
	echo "no exported-sql-viewer.py of perf: only SQL was tested"
	exit 0
}
here=$PTAH_SOURCE/tests/export
python3 "$here/perf_viewer.py" "$scripts" c.db >viewer || fail "perf's viewer"
# sums over both runs: paths of the program below _start, with calls and instructions
graph() {
	awk -F '\t' '$1 == "graph" { name[$2] = $3; object[$2] = $4; path = ""
		for (i = 3; i <= $2; i++) if (object[i] == "program") path = path " " name[i]
		if (path && object[$2] == "program") { n[path] += $5; insn[path] += $8 } }
		END { for (p in n) print p, n[p], insn[p] }' "$1" | sort
}
odd=$(python3 -c "print(2 * sum(2 * n + 1 for n in range(1, 101, 2)))")
even=$(python3 -c "print(2 * sum(2 * n + 1 for n in range(2, 101, 2)))")
graph viewer >got
grep -v '^ _start [0-9]' got >below || fail "$(cat got)"
cat >wanted <<END
 _start f 100 $even
 _start g 100 $((odd + 200))
 _start g f 100 $odd
 _start r 2 38
 _start r r 2 30
 _start r r r 2 22
 _start r r r r 2 14
 _start r r r r r 2 6
 _start t 2 8
 _start t u 2 4
END
sort wanted | diff - below || fail "the call graph of perf's viewer"
equal "calls of f in the call tree" "$(awk -F '\t' '$1 == "tree" && $3 == "f"' viewer | wc -l)" 200
equal "top calls" "$(grep -c '^top' viewer)" \
	"$(python3 -c "import sqlite3
print(sqlite3.connect('c.db').execute('SELECT count(*) FROM calls').fetchone()[0])")"
PYTHONPATH=$here/qt perf script -i c.data --comm program --itrace=bep -s "$scripts/export-to-sqlite.py" perf.db \
	branches calls >perf-out 2>&1 || {
	echo "perf has no Python: its own export was not compared"
	exit 0
}
python3 "$here/perf_viewer.py" "$scripts" perf.db >perf-viewer || fail "perf's viewer"
graph perf-viewer | sed 's/ [0-9]*$//' >perf-graph
# its branches, thread by thread: all but times and processors
expect 0 "$PTAH" export -i c.data --comm=program -o of-program.db --branches=all
python3 "$here/perf_viewer.py" "$scripts" of-program.db >viewer || fail "perf's viewer, of branches"
for of in viewer perf-viewer; do
	grep '^branch' $of | cut -f 3-6,8-15 | LC_ALL=C sort -s -k 3,3 >$of-branches
done
cmp viewer-branches perf-viewer-branches || fail "perf's export has other branches"
sed 's/ [0-9]*$//' got | diff perf-graph - || fail "perf's export has other calls"
