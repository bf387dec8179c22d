#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah live: its last line has what is known of a program, and what other commands find in the
# recording that is written at the same time; input that is no recording; the screen and its keys.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need python3
passes=200000
loop_program $passes

recorders=qemu
"$PTAH" record --dry-run --recorder=native -- ./program >/dev/null 2>&1 && recorders="qemu native"

# final EXPRESSION: of the last line of out, which is JSON in each line; f(NAME) is a function's row.
final() {
	python3 - "$1" <<'END' || fail "not so: $1: $(tail -n 1 out | head -c 600)"
import json, sys
lines = [json.loads(line) for line in open("out")]
d = lines[-1]
def f(name):
    return [row for row in d["functions"] if row["function"] == name][0]
assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]
totals = [line["total_instructions"] for line in lines]
assert totals == sorted(totals)
assert d["instructions"] == d["total_instructions"] >= sum(l["instructions"] for l in lines[:-1])
assert eval(sys.argv[1])
END
}

# as_recorded FILE: the functions of the last line are those that ptah calls finds in the recording,
# and as many instructions ran as ptah report counts.
as_recorded() {
	"$PTAH" calls -i "$1" --stubs --limit=0 --format=tsv >calls.tsv 2>calls.err ||
		fail "calls $1: $(cat calls.err)"
	"$PTAH" report -i "$1" --format=json >report.json 2>report.err ||
		fail "report $1: $(cat report.err)"
	"$PTAH" verify --all "$1" >verify.out 2>&1 || fail "verify $1: $(tail -3 verify.out)"
	python3 - <<'END' || fail "$1 is not what was followed"
import collections, csv, json, sys
live = json.loads(open("out").readlines()[-1])
report = json.load(open("report.json"))
for key in "instructions", "threads", "errors":
    if live[key] != report[key]:
        sys.exit(f"{key}: {live[key]}, not {report[key]}")
def add_up(rows, name, calls, instructions):
    sums = collections.Counter()
    for row in rows:
        if row[name] and not row[name].startswith("0x"):
            sums[row["object"], row[name], "calls"] += int(row[calls])
            sums[row["object"], row[name], "instructions"] += int(row[instructions])
    return {key: n for key, n in sums.items() if n}
a = add_up(live["functions"], "function", "calls", "instructions")
b = add_up(csv.DictReader(open("calls.tsv"), delimiter="\t"), "function", "calls", "self")
if a != b or len(a) < 3:
    sys.exit(str([(k, a.get(k), b.get(k)) for k in a.keys() | b.keys() if a.get(k) != b.get(k)][:9]))
END
}

# A program whose counts are known.
for recorder in $recorders; do
	expect 0 "$PTAH" live --truth --recorder="$recorder" --format=json --limit=0 --every=20ms -o loop.data \
		-- ./program
	final "d['instructions'] == 5 * $passes + 5 and d['errors'] == 0 and d['threads'] == 1"
	final "f('leaf')['calls'] == $passes and f('leaf')['instructions'] == 2 * $passes"
	final "f('_start')['instructions'] == 3 * $passes + 5"
	as_recorded loop.data
done
# There are lines before the last one. Their sums and order are checked, too.
expect 0 "$PTAH" live --format=json --every=10ms --for=200ms -- sh -c 'while :; do :; done'
final "len(lines) >= 2 and d['instructions'] > 0"

# Threads and children.
cat >threads.c <<'END'
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long sum[4];
__attribute__((noinline)) static void work(unsigned i) { sum[i] += sum[i] / 3 + 1; }
static void *run(void *i)
{
	for (int k = 0; k < 20000; k++)
		work((unsigned)(unsigned long)i);
	return 0;
}
int main(void)
{
	pthread_t t[3];
	for (unsigned long i = 0; i < 3; i++)
		pthread_create(&t[i], 0, run, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	if (!fork()) {
		run((void *)3);
		_exit(0);
	}
	return wait(0) < 0;
}
END
"${CC:-cc}" -O1 -pthread -o threads threads.c || fail "no program"
for recorder in $recorders; do
	expect 0 "$PTAH" live --truth --recorder="$recorder" --format=json --limit=0 --every=50ms \
		-o threads.data --save=live.counts -- sh -c './threads && seq 500 | sort -n | tail -n 1'
	final "f('work')['calls'] == 80000 and d['processes'] >= 4"
	as_recorded threads.data
	grep -q '^500$' err || fail "the command's output is not on standard error: $(cat err)"
	"$PTAH" profile -q --save=file.counts -i threads.data >/dev/null
	cmp live.counts file.counts || fail "--save: other counts than those of the recording"
done

# Of many processes that have ended, a function of a file has one row for all.
echo 'i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i + 1)); done' >many.sh
expect 0 "$PTAH" live --truth --recorder="$recorder" --format=json --limit=0 -o many.data -- sh many.sh
final "d['processes'] == 41 and d['threads'] >= 41"
as_recorded many.data

# Text and TSV. The table at the end is that of ptah report.
expect 0 "$PTAH" live -q --every=10ms --limit=2 --command-output=said -- sh -c 'echo hello; ./program'
equal "the command's output" "$(cat said)" hello
grep -q '^percent .*instructions .*calls' out || fail "no table: $(cat out)"
grep -q ' 400,000 .* 200,000  *program *leaf$' out || fail "no row: $(cat out)"
expect 0 "$PTAH" live -q --every=50ms --for=1s --limit=1 -- sh -c 'while :; do :; done'
grep -q 'instructions/s .*lag .*%.* (' out || fail "no line for an interval: $(cat out)"
expect 0 "$PTAH" live -q --format=tsv --limit=0 --sort=calls -- ./program
awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i }
	$c["final"] == 1 && $c["function"] == "leaf" { found = $c["calls"] == 200000 }
	END { exit !found }' out || fail "TSV: $(tail -n 3 out)"

cat >endless.c <<'END'
#include <stdio.h>
volatile unsigned long n;
__attribute__((noinline)) void often(void) { n++; }
__attribute__((noinline)) void much(void) { for (int i = 0; i < 1000; i++) n += n / 3; }
int main(void)
{
	puts("this would disturb the screen");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 50; i++)
			often();
		much();
	}
}
END
"${CC:-cc}" -O1 -o endless endless.c || fail "no program"

# The exit status is the command's; --for ends the command, and so does a reader who leaves.
expect 3 "$PTAH" live -q -- sh -c 'exit 3'
expect 137 "$PTAH" live -q -- sh -c 'kill -9 $$'
expect 0 "$PTAH" live -q --for=300ms -- sleep 1000
"$PTAH" live -q --every=10ms --format=json -- sh -c 'while :; do :; done' 2>err | head -n 1 >out
[ -s out ] || fail "no line: $(cat err)"
# Lines that cannot be written are a failure.
for format in text json tsv; do
	status=0
	"$PTAH" live -q --every=10ms --format=$format -- sh -c 'while :; do :; done' >/dev/full 2>err ||
		status=$?
	equal "status of what cannot be written" "$status" 1
	grep -q '^ptah live: standard output: cannot write: No space left' err || fail "$(cat err)"
done
./endless >/dev/null &
pid=$!
if "$PTAH" record --dry-run --recorder=native -p $pid >/dev/null 2>&1; then
	expect 0 "$PTAH" live -q --recorder=native --format=json --for=500ms -p $pid
	final "f('often')['calls'] > 0"
	kill -0 $pid || fail "the process has ended"
fi
kill $pid

# A program whose threads run until exit() leaves more trace than a round takes: it has ended all the
# same.
cat >burst.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long sum[8];
static void *run(void *p)
{
	volatile unsigned long *s = p;
	for (;;)
		if (*s += 1, *s % 3)
			*s += 1;
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 8; i++)
		pthread_create(&t, 0, run, (void *)&sum[i]);
	usleep(50000);
	exit(0);
}
END
"${CC:-cc}" -O1 -pthread -o burst burst.c || fail "no program"
for i in 1 2 3; do
	expect 0 "$PTAH" live --format=json -- ./burst
	! grep 'still ran' err || fail "it did not run any more"
done

# Recordings that come through a pipe.
mkfifo fifo
"$PTAH" record -q -o fifo -- ./program &
expect 0 "$PTAH" live --format=json --limit=0 -i fifo
wait
final "f('leaf')['calls'] == $passes and d['instructions'] == 5 * $passes + 5"
status=0
"$PTAH" live --format=json --limit=0 -i - <loop.data >out 2>err || status=$?
equal "status of -i -" "$status" 0
final "f('leaf')['calls'] == $passes"

# A recording that does not begin leaves no file, and one that was there as it was.
expect 1 "$PTAH" live -q -o none.data -- ./nothing
[ ! -e none.data ] || fail "a file is left"
echo kept >none.data
expect 1 "$PTAH" live -q -o none.data -- ./nothing
equal "the file that was there" "$(cat none.data)" kept

# What is no recording, and what makes no sense.
says() { # STATUS WORDS ARGUMENTS...
	wanted=$1
	words=$2
	shift 2
	expect "$wanted" "$PTAH" live "$@"
	grep -q -e "$words" err || fail "$*: $(cat err)"
}
says 1 'does not begin with' -i /dev/zero
head -c 100000 /dev/urandom >garbage
says 1 'does not begin with' -i garbage
(head -c 16 loop.data && cat garbage) >headed
says 1 '^ptah live: ' -i headed
says 1 '^ptah live: ' -i /dev/null
# Where it makes no sense is said: at the first record, or after all others.
(head -c 16 loop.data && head -c 100 /dev/zero) >headed
says 1 '^ptah live: headed: a record smaller than its header, at offset 16$' -i headed
(cat loop.data && head -c 100 /dev/zero) >headed
says 1 "^ptah live: headed: a record smaller than its header, at offset $(wc -c <loop.data)\$" -i headed
says 1 'No such file' -i absent
record whole.data ./program
says 1 "'ptah report'" -i whole.data
size=$(wc -c <loop.data)
for part in 1 2 3; do
	head -c $((size * part / 4)) loop.data >cut.data
	status=0
	"$PTAH" live --format=json -i cut.data >out 2>err || status=$?
	[ "$status" -le 1 ] && [ -s err ] || fail "cut after $part quarters: $status, $(cat err)"
done
says 2 'unknown option' --no-such-option
says 2 'no command'
says 2 'at least 10ms' --every=0 -- true
says 2 'it is a time' --for=soon -- true
says 2 'goes with no command' -i - -p 1
"$PTAH" record -q --dry-run -a >/dev/null 2>&1 || says 1 'Intel PT' -a
says 2 'name a file' -o - -- true
says 1 'no such program' -- ./absent
says 1 'absent/file' -o absent/file -- true

# The screen: functions, orders, filter, details, threads, help, another size, and the end.
on_screen() {
	status=0
	python3 "$PTAH_SOURCE/tests/cli/on_screen.py" "$@" >out 2>&1 || status=$?
}
cat >session.sh <<'END'
trap : INT
stty -g >before
"$PTAH" live --every=50ms "$@"
echo "status $?"
stty -g >after
END
on_screen 120 24 '\n *[0-9.]+% .* much  endless' s 'sorted by total' s \
	'sorted by calls[^=]*function\n.* often ' / 'filter: _' 'much\n' \
	'filter: much  (?![^=]* often )[^=]* much  endless' '\n' 'of single calls' '\n' \
	'sorted by calls[^=]*calls/s' t 'instructions/s  .*thread\n.* endless' t 'calls/s  ' h \
	'this help' h 'calls/s  ' size=70x12 '^(.*\n){4}.*calls/s (.*\n){7}q quit' ' ' PAUSED q \
	-- sh session.sh ./endless
equal "status of the screen's program: $(tail -n 30 out)" "$status" 0
cmp before after || fail "the terminal is not as it was"
grep -q 'status 0' out || fail "q: $(tail -n 5 out)"
! grep -q 'disturb' out || fail "the command's output is on the screen: $(cat out)"

# Colours, and the other screen of terminals that have two.
esc=$(printf '\033')
TERM=xterm python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 100 much q -- \
	"$PTAH" live --every=50ms ./endless >out || fail "on a terminal: $(tail -n 5 out)"
grep -q "$esc\\[?1049h" out && grep -q "$esc\\[?1049l" out || fail "the screen stays"
grep -q "$esc\\[3[0-9]m" out || fail "no colours: $(cat -v out | head -n 20)"
NO_COLOR=1 TERM=xterm python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 100 much q -- \
	"$PTAH" live --every=50ms ./endless >out || fail "on a terminal: $(tail -n 5 out)"
! grep -q "$esc\\[3[0-9]m" out || fail "colours with NO_COLOR"

# Ctrl-C is the command's first; the second one ends the recording.
cat >stubborn.c <<'END'
#include <signal.h>
#include <unistd.h>
volatile unsigned long n;
__attribute__((noinline)) void spin(void) { for (int i = 0; i < 1000; i++) n += n / 3; }
static void end(int signal) { _exit(signal + 3); }
int main(void)
{
	signal(SIGINT, end);
	for (;;)
		spin();
}
END
"${CC:-cc}" -O1 -g -o stubborn stubborn.c || fail "no program"
# The code of a function, with how often it ran.
on_screen 110 40 ' spin' / 'filter: _' 'spin\n' 'filter: spin' '\n' \
	'n \+= n / 3[^=]*[0-9],[0-9]{3} +[0-9.]+% .* mov ' '\n' 'calls/s  ' q -- sh session.sh ./stubborn
equal "status of the screen's program: $(tail -n 40 out)" "$status" 0
on_screen 100 24 ' spin' '\003' -- sh session.sh ./stubborn
grep -q 'status 5' out || fail "Ctrl-C is not left to the command: $(tail -n 30 out)"

# Where no screen is possible there are lines.
TERM=dumb python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 200 -- "$PTAH" live --every=10ms --for=100ms \
	./endless >out || fail "dumb terminal: $(cat out)"
grep -q 'instructions/s' out || fail "dumb terminal: $(cat out)"
# The command's output is not lost there. Ctrl-C ends it when it has been seen.
status=0
TERM=no-such python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 200 'this would disturb' '' \
	'instructions/s' '\003' -- "$PTAH" live --every=10ms ./endless >out || status=$?
equal "status on an unknown terminal: $(tail -n 5 out)" "$status" 130
