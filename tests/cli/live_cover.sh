#!/bin/sh
# SPDX-License-Identifier: MIT
# Coverage of ptah live: figures of programs whose blocks and edges are known, files that equal those
# of a recording of the same run, and a table that says which process reached which line.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need python3
loop_program 1000

recorders=qemu
"$PTAH" record --dry-run --recorder=native -- ./program >/dev/null 2>&1 && recorders="qemu native"

# final EXPRESSION: of the coverage in the last line of out, which is JSON in each line.
final() {
	python3 - "$1" <<'END' || fail "not so: $1: $(tail -n 1 out | head -c 900)"
import json, sys
lines = [json.loads(line)["coverage"] for line in open("out")]
c = lines[-1]
for what in "blocks", "edges", "functions":
    all = [line[what] for line in lines]
    assert all == sorted(all) and c["new_" + what] == c[what]
    new = [line["new_" + what] for line in lines[:-1]]
    assert [sum(new[:i + 1]) for i in range(len(new))] == all[:-1], (new, all)
assert eval(sys.argv[1])
END
}

# The loop: its branches are call, ret, jnz and syscall; what the trace decides are the two ways of
# jnz, and ret.
for recorder in $recorders; do
	expect 0 "$PTAH" live -q --recorder="$recorder" --format=json --cover=loop.edges -- ./program
	final 'c["blocks"] == 4 and c["edges"] == 3 and c["functions"] == 2'
	cut -f 3,5- loop.edges | cut -f 1,3 | sort >got
	printf '%s\t%s\n' 1 conditional 1000 return 999 conditional count class | sort >wanted
	cut -f 3,5 loop.edges | sort | diff wanted - || fail "edges: $(cat loop.edges)"
done

# Which lines run in which case is written beside them.
cat >t.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int x;
__attribute__((noinline)) void first(void)
{
	x += 1; /* a: 3 */
}
__attribute__((noinline)) void second(int n)
{
	if (n == 4)
		x += 2; /* b: 1 */
	x += 3;		/* b: 5, c: 2 */
}
__attribute__((noinline)) void never(void)
{
	x += 4;
}
int main(int count, char **words)
{
	int n = atoi(words[2]);
	if (n > 100)
		never();
	if (!strcmp(words[1], "--case=fork")) {
		if (!fork()) {
			second(4);
			_exit(9);
		}
		first();
		return wait(0) < 0;
	}
	for (int i = 0; i < n; i++) {
		if (!strcmp(words[1], "--case=a"))
			first();
		else
			second(i);
	}
	return n;
}
END
# It runs the tests: STATUS [CASE N]...
cat >driver.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
	for (int i = 2; i + 1 < count; i += 2) {
		char word[64];
		snprintf(word, sizeof(word), "--case=%s", words[i]);
		if (!fork()) {
			execl("./t", "./t", word, words[i + 1], (char *)0);
			_exit(127);
		}
		wait(0);
	}
	return atoi(words[1]);
}
END
# Linked statically, they run no library whose debug information takes seconds to read.
"${CC:-cc}" -g -O0 -static -o t t.c && "${CC:-cc}" -g -O0 -static -o driver driver.c ||
	skip "no program, or no static library"
tests='./driver 6 a 3 b 5 c 2 fork 1'
line() { grep -n "$1" t.c | head -n 1 | cut -d : -f 1; }
# reached WANTED PLACE...: the rows of a table, without pids. What a process is called and how it
# ended is asked while it exists: with qemu, and of a process that executes no program, too late at
# times.
reached() {
	wanted_rows=$1
	shift
	for place; do
		expect 0 "$PTAH" cover --reached="$place" tests.db
		python3 - "$recorder" "$wanted_rows" <<'END' || fail "$place: $(cat out)"
import sys
head, *rows = [line.rstrip("\n").split("\t") for line in open("out")]
assert head == ["count", "pid", "status", "signal", "comm", "command"], head
wanted = [row.split("\t") for row in sys.argv[2].splitlines()]
for count, pid, status, signal, comm, command in rows:
    late = sys.argv[1] == "qemu"
    fits = [w for w in wanted if w[0] == count and w[2] == comm and signal == "" and
            (status == w[1] or status == "" and (late or w[1] == "9")) and
            (command == w[3] or command == "" and late)]
    if not fits:
        sys.exit("not wanted: %s %s %s" % (count, status, command))
    wanted.remove(fits[0])
sys.exit("missing: %s" % wanted if wanted else 0)
END
	done
}

cat >dump.py <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
names = "select pid, comm, instructions, errors from processes"
for question in [names] + ["select * from (%s)" % q for q in (
        "select source, line, pid, comm from line_processes",
        "select function, object, pid, comm from function_processes",
        "select source, line, processes from line_coverage",
        "select o.path, o.build_id, f.name, f.at, b.at, b.end, p.pid, p.comm from blocks b "
        "join objects o on o.id = b.object_id left join functions f on f.id = b.function_id "
        "join sets s on s.id = b.set_id join json_each(s.processes) j join processes p on p.id = j.value")]:
    for row in sorted(map(str, db.execute(question))):
        print(row)
END

for recorder in $recorders; do
	# shellcheck disable=SC2086 # words
	expect 6 "$PTAH" live -q --recorder="$recorder" --format=json --every=50ms -o tests.data \
		--per-process --cover=tests.db -- $tests
	final 'c["functions"] > 5'
	[ "$(echo tests.db.*)" = 'tests.db.*' ] || fail "the temporary file is left"
	reached '3	3	t	./t --case=a 3
1	0	t	./t --case=fork 1
' first "t.c:$(line 'x += 1')"
	reached '1	5	t	./t --case=b 5
1	9	t	./t --case=fork 1
' "t.c:$(line 'x += 2')"
	reached '5	5	t	./t --case=b 5
2	2	t	./t --case=c 2
1	9	t	./t --case=fork 1
' second "$(pwd)/t.c:$(line 'x += 3')"
	# The line with the function's name, and several places at once.
	reached '6	3	t	./t --case=a 3
2	0	t	./t --case=fork 1
' "t.c:$(line 'void first'),first" "t.c:$(line 'x += 1')-$(($(line 'x += 1') + 1))"
	reached '' "t.c:$(line 'x += 4')"
	printf '%s\n' first t.c:"$(line 'x += 2')" | "$PTAH" cover --reached=- tests.db >got ||
		fail "places from standard input"
	equal "processes of two places" "$(sed 1d got | wc -l)" 4
	expect 1 "$PTAH" cover --reached=t.c:1 tests.db
	grep -q 'no code' err || fail "a line without code: $(cat err)"
	expect 1 "$PTAH" cover --reached=no_such_function tests.db
	# What is asked by SQL is the same.
	expect 0 "$PTAH" cover --reached=second tests.db
	sed 1d out | cut -f 2 | sort >wanted
	python3 - "$(line 'x += 3')" <<'END' | sort | diff wanted - || fail "SQL"
import sqlite3, sys
for row in sqlite3.connect("tests.db").execute("select pid from line_processes "
        "where source like '%/t.c' and line = ?", sys.argv[1:]):
    print(*row)
END
	# The table of the recording is the same, but for what is in no recording.
	expect 0 "$PTAH" cover --format=processes -o recorded.db tests.data
	python3 dump.py tests.db >live.dump
	python3 dump.py recorded.db >recorded.dump
	cmp live.dump recorded.dump || fail "other than that of the recording"
	[ "$(wc -l <live.dump)" -gt 500 ] || fail "too little: $(cat live.dump)"
	# A process's lines are those of its coverage in the recording.
	python3 - "$PTAH" <<'END' || fail "other lines than lcov's"
import sqlite3, subprocess, sys
db = sqlite3.connect("tests.db")
for id, pid in db.execute("select id, pid from processes where comm = 't'").fetchall():
    subprocess.run([sys.argv[1], "export", "-q", "--pid=%d" % pid, "-o", "one.info", "tests.data"],
                   check=True)
    info = open("one.info").read().split("/t.c\n")[1].split("end_of_record")[0]
    hit = {int(l[3:].split(",")[0]) for l in info.split() if l[:3] == "DA:" and l[-2:] != ",0"}
    mine = {l for l, in db.execute("select line from line_processes where source like '%/t.c' "
                                   "and process_id = ?", (id,))}
    # lcov's line of a function that begins is that of its name alone, not also of the brace.
    braces = {i for i, l in enumerate(open("t.c"), 1) if l == "{\n"}
    assert hit and mine - braces == hit - braces, (pid, sorted(mine), sorted(hit))
END

	# The other formats, beside the recording that is written at the same time.
	formats='info xml gcov.json drcov edges blocks bitmap'
	[ "$recorders/$recorder" != "qemu native/qemu" ] || formats='info edges'
	for format in $formats; do
		# shellcheck disable=SC2086 # words
		expect 6 "$PTAH" live -q --recorder="$recorder" --format=json -o run.data \
			--cover="live.$format" -- $tests
		case $format in
		edges | blocks | bitmap)
			expect 0 "$PTAH" cover -q --format=$format -o "wanted.$format" run.data
			;;
		*)
			expect 0 "$PTAH" export -q -o "wanted.$format" run.data
			;;
		esac
		for file in "live.$format" "wanted.$format"; do
			sed 's/timestamp="[0-9]*"//' "$file" >"$file.timeless"
		done
		cmp "live.$format.timeless" "wanted.$format.timeless" || fail "$recorder: $format"
	done
done

# Many processes: those of one program are added up, and the lines are the same.
many=
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13; do
	many="$many b 5 b 4 b 3 a 1 c $i"
done
last=${recorders##* }
# shellcheck disable=SC2086 # words
expect 0 "$PTAH" live -q --recorder="$last" --format=json -o many.data --cover=many.info -- \
	./driver 0 $many
expect 0 "$PTAH" export -q -o wanted.info many.data
grep -v '^BRDA' many.info >got
grep -v '^BRDA' wanted.info | cmp - got || fail "many processes"

# A recording that comes through a pipe; the counts are saved, too.
expect 0 "$PTAH" live -q --format=json --cover=piped.info --save=piped.counts -i run.data
cmp piped.info wanted.info >/dev/null 2>&1 && fail "the test would not notice another recording"
expect 0 "$PTAH" export -q -o wanted.info run.data
cmp piped.info wanted.info || fail "-i"
expect 0 "$PTAH" profile -q --save=file.counts -i run.data
cmp piped.counts file.counts || fail "--save with --cover"

# The trace of processors, which processes share.
for seed in 1 2; do
	"$PTAH_BUILD/tests/make_processors" $seed xt >processors.data 2>truth || fail "make_processors"
	expect 0 "$PTAH" live -q --format=json --cover=live.db -i processors.data
	expect 0 "$PTAH" cover --format=processes -o recorded.db processors.data
	python3 dump.py live.db >live.dump
	python3 dump.py recorded.db | cmp - live.dump || fail "processors: other than the recording's"
	expect 0 "$PTAH" live -q --format=json --cover=live.edges -i processors.data
	expect 0 "$PTAH" cover --format=edges -o wanted.edges processors.data
	cmp live.edges wanted.edges || fail "processors: edges"
	[ "$(wc -l <live.edges)" -gt 5 ] || fail "processors: $(cat live.edges)"
done

# It ends when nothing new is reached, and the command with it; a command that ends earlier is left
# alone. Text has the figures, too. Where the machine itself stands still for so long, the recording
# ends before all is reached: then it takes more time.
for stable in 300ms 3s 30s; do
	rm -f stable.db
	expect 0 "$PTAH" live -q --format=json --every=50ms --until=stable:$stable --cover=stable.db -- \
		sh -c 'while ./t --case=b 5; [ $? = 5 ]; do :; done'
	! "$PTAH" cover --reached=second stable.db >got 2>err || [ "$(wc -l <got)" -lt 3 ] || break
done
final 'c["blocks"] > 100 and [l["new_blocks"] + l["new_edges"] for l in lines][-2] == 0'
final 'lines[-2]["nothing_new_for"] >= 0.3'
expect 0 "$PTAH" cover --reached=second stable.db
[ "$(sed 1d out | cut -f 5 | sort -u)" = t ] || fail "no such processes: $(cat out)"
# shellcheck disable=SC2086 # words
expect 6 "$PTAH" live -q --until=stable:1h --every=10ms -- $tests
grep -q 'blocks (+[1-9][0-9,]*) .* edges (+' out || fail "no figures in lines: $(cat out)"
grep -q '^# reached: [0-9,]* blocks, [0-9,]* edges, [0-9,]* functions' out || fail "no sums: $(cat out)"

# The screen has the figures.
python3 "$PTAH_SOURCE/tests/cli/on_screen.py" 140 24 'reached: [1-9][0-9]* blocks \([+]' q -- \
	"$PTAH" live --every=50ms --cover=screen.bitmap -- sh -c 'while ./t --case=b 5; [ $? = 5 ]; do :; done' \
	>out 2>&1 || fail "the screen: $(tail -n 30 out)"
[ "$(wc -c <screen.bitmap)" = 65536 ] || fail "no file after the screen"

# The recipe of docs/ci.md: which tests a change needs. The line of "x += 2" changes; after "x += 1"
# one is inserted, so that both lines around it are asked for; a comment has no code.
sed -n '/^git diff -U0/,/^```/p' "$PTAH_SOURCE/docs/ci.md" | sed '/^```/d' >recipe
grep -q reached recipe || fail "no recipe in docs/ci.md"
mkdir bin
cat >bin/git <<'END'
#!/bin/sh
cat change
END
chmod +x bin/git
ln -sf "$PTAH" bin/ptah
: >tests.commit
chosen() { PATH=$(pwd)/bin:$PATH sh recipe 2>&1; }
printf '%s\n' '--- a/t.c' '+++ b/t.c' "@@ -$(line 'x += 2') +$(line 'x += 2') @@" >change
chosen >got || fail "recipe: $(cat got)"
"$PTAH" cover --reached="t.c:$(line 'x += 2')" tests.db | sed 1d | cut -f 6 | sort -u | diff - got ||
	fail "recipe: $(cat got)"
printf '%s\n' '--- a/t.c' '+++ b/t.c' "@@ -$(line 'x += 1'),0 +$(line 'x += 1') @@" '@@ -1 +1 @@' >change
chosen >got || fail "recipe: $(cat got)"
"$PTAH" cover --reached=first tests.db | sed 1d | cut -f 6 | sort -u | diff - got ||
	fail "recipe with an insertion: $(cat got)"

# What makes no sense, and what cannot be written. No file is left.
says() { # STATUS WORDS ARGUMENTS...
	wanted=$1
	words=$2
	shift 2
	expect "$wanted" "$PTAH" live "$@"
	grep -q -e "$words" err || fail "$*: $(cat err)"
}
says 2 'does not say the format' --cover=file -- true
says 2 'name a file' --cover=- -- true
says 2 'writes a table' --cover=x.info --per-process -- true
says 2 'need --cover' --per-process -- true
says 2 'need --cover' --cover-format=edges -- true
says 2 'stable: and a time' --until=5s -- true
says 2 'stable: and a time' --until=stable:soon -- true
says 1 'absent/x' --cover=absent/x.info -- true
says 1 'absent/x' --cover=absent/x.db -- true
says 1 'regular file' --cover=/dev/null --per-process -- true
for format in db info bitmap; do
	says 1 '^ptah live: ' --cover=none.$format -i /dev/null
	says 1 'no such program' --cover=none.$format -- ./absent
done
says 1 'debug information with lines' --cover=none.info --recorder=qemu -- ./program
[ "$(echo none.*)" = 'none.*' ] || fail "left: $(echo none.*)"
expect 0 "$PTAH" live -q --cover=table --per-process -- ./program
expect 0 "$PTAH" cover --reached=leaf table
equal "calls of leaf" "$(sed 1d out | cut -f 1)" 1000

# Tables of strangers: another file, other tables, and damage are refused, or answered somehow.
expect 2 "$PTAH" cover --reached=main
expect 2 "$PTAH" cover --format=processes run.data
expect 1 "$PTAH" cover --reached=main absent.db
[ ! -e absent.db ] || fail "asking has made a file"
expect 1 "$PTAH" cover --reached=main run.data
grep -q 'no table of coverage' err || fail "a recording: $(cat err)"
python3 - <<'END'
import shutil, sqlite3
db = sqlite3.connect("other.db")
db.execute("create table t (i)")
db.commit()
shutil.copy("tests.db", "endless.db")
db = sqlite3.connect("endless.db")
db.executescript("alter table sets rename to s; create view sets as with recursive "
    "n(i) as (select 1 union all select i + 1 from n) select i as id, '[1]' as processes from n;")
db.commit()
for name, change in (("blob", "update counts set reached = x'28b52ffd2001090000ff'"),
                     ("missing", "delete from processes"),
                     ("numbers", "update line_blocks set block_id = -1; update blocks set "
                      "id = id + 5000000000, end = -5, set_id = 1")):
    shutil.copy("tests.db", name + ".db")
    db = sqlite3.connect(name + ".db")
    db.executescript(change)
    db.commit()
bytes = open("tests.db", "rb").read()
for i in range(20):
    damaged = bytearray(bytes)
    for k in range(1 + i):
        at = (i * 7919 + k * 104729) % len(bytes)
        if i < 2 or at >= 8192: # the description of the tables comes first
            damaged[at] ^= 1 << (i + k) % 8
    open("damaged%d.db" % i, "wb").write(damaged)
END
for table in other endless blob missing numbers; do
	expect 1 "$PTAH" cover --reached=second $table.db
	[ -s err ] || fail "$table.db: no sentence"
done
for table in damaged*.db; do
	status=0
	timeout 600 "$PTAH" cover -q --reached="first,t.c:1-50" "$table" >out 2>err || status=$?
	[ "$status" -le 1 ] || fail "$table: $status"
done
