# SPDX-License-Identifier: MIT
# Pauses and -i: what ran meanwhile is not in the recording, all else is, and the program notices
# nothing: neither one that does what it is told, nor one that checks itself while it is paused again
# and again.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build attached
build told

trap '[ -z "$program" ] || kill -9 $program 2>/dev/null || :' EXIT
program=

# begin OPTIONS...: makes the fifos, and records; all descriptors are open before anybody waits
begin()
{
	rm -f perf.data perf.data.old control ack in out
	mkfifo control ack in out
	exec 4<>in 5<>out 7<>control 8<>ack
	"$PTAH" record -q --recorder=native --truth --control=fifo:control,ack "$@" \
		<in >out 2>errors.txt 4>&- 5>&- 7>&- 8>&- &
	recorder=$!
}

# commands WORD...: each is carried out
commands()
{
	for command; do
		echo "$command" >&7
		timeout 300 head -c 4 <&8 >answer.txt || fail "$command: no answer: $(cat errors.txt)"
	done
}

# told LETTERS: the program does it
told()
{
	printf '%s' "$1" >&4
	answer=$(timeout 300 head -c ${#1} <&5) || fail "$1: no answer: $(cat errors.txt)"
	[ "$answer" = "$1" ] || fail "told $1, it answered $answer"
}

# finished STATUS: the program's input ends, and with it the program
finished()
{
	# Whoever writes opens the fifo once more, so that its end is seen.
	exec 3>in 4>&- 3>&-
	status=0
	wait $recorder || status=$?
	exec 5>&- 7>&- 8>&-
	[ $status = "$1" ] || fail "status $status, not $1: $(cat errors.txt)"
}

# ended STATUS: the same, and what was recorded is what ran
ended()
{
	finished "$1"
	is_what_ran
}

is_what_ran()
{
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || [ $? = 1 ] || fail "$(cat verify.txt)"
	! grep -iE 'differ|overflow' verify.txt >&2 || fail "the decode is not what ran"
	grep -q 'decoded exactly what ran\|not verified' verify.txt || fail "$(cat verify.txt)"
}

# called N FUNCTION: `told` calls them a thousand times each
called()
{
	n=$(executions "$2")
	[ "$n" = $((1000 * $1)) ] || fail "$2: $n calls, not $1 times 1000"
}

# What is between is left out, however often.
begin -- ./told
told a
commands disable
# It waits for its input, and what it has done is in the file soon.
looks=0
until [ "$(executions alone)" = 1000 ]; do
	looks=$((looks + 1))
	[ $looks -lt 300 ] || fail "the trace before a pause is not in the file"
	sleep 0.1
done
commands enable
for i in 1 2 3; do
	commands disable
	told b
	commands enable
	told c
done
ended 6
perf_agrees
called 1 alone
called 0 between
called 3 after
grep -q '^1 thread: decoded exactly' verify.txt || fail "$(cat verify.txt)"

# A thread that makes no system calls pauses as well. Its context switches would make the file grow.
rm -f pid
begin -- sh -c 'echo $$ >pid; exec awk "BEGIN { for (;;) n++ }"'
until [ -s pid ]; do sleep 0.05; done
commands disable
# It is paused when the recording does not grow for a while, which is soon, unless it gets no processor.
still=0 looks=0
until [ $still = 5 ]; do
	size=$(wc -c <perf.data)
	commands ping
	still=$((still + 1)) looks=$((looks + 1))
	[ "$(wc -c <perf.data)" = "$size" ] || still=0
	[ $looks -lt 200 ] || fail "a thread without calls does not pause"
done
kill "$(cat pid)"
finished 143
is_what_ran

# Nothing is recorded before the first enable; the program may end in a pause.
begin -D -1 -- ./told
told b
commands enable
told ac
commands disable
told b
ended 6
called 1 alone
called 0 between
called 1 after
begin -D -1 -- ./told
told bfb
finished 6
"$PTAH" verify --all perf.data 2>errors.txt && fail "it was to record nothing"
grep -q 'holds no trace' errors.txt || fail "nothing: $(cat errors.txt)"

# Processes, threads and programs that begin in a pause, and what they begin.
for how in f t e fte; do
	begin -- ./told
	told a
	commands disable
	told "b${how}b"
	commands enable
	told cx
	commands disable
	told "${how}b"
	commands enable
	told cx
	ended 6
	perf_agrees
	called 9 alone
	called 0 between
	called 2 after
done

# With address filters. A stop range that is reached in a pause does not count; after one that does,
# nothing is left to pause.
begin --filter 'filter alone, filter after, stop between' -- ./told
told a
commands disable
told ab
commands enable
told cb
commands disable
told a
commands enable
told ac
ended 6
perf_agrees
called 1 alone
called 0 between
called 1 after
grep -q '^1 thread: decoded exactly' verify.txt || fail "filters: $(cat verify.txt)"

# -i: neither children nor threads, but the programs that the command becomes.
begin -i -- ./told
told axe
told axf
told ac
ended 6
called 2 alone
called 0 after
[ "$(grep -c '^note: children and threads of the command were left out' verify.txt)" = 1 ] ||
	fail "-i: $(cat verify.txt)"
grep -q '^2 threads: decoded exactly' verify.txt || fail "-i: $(cat verify.txt)"
record --recorder=native --truth -i -- sh -c 'ls / | wc -l; exec echo x' >output.txt
exact
grep -q '^2 threads: decoded exactly' verify.txt || fail "-i: sh: $(cat verify.txt)"

# pauses N: so many, with the program's answers to what it checks in the end
pauses()
{
	i=0
	while [ $i -lt "$1" ]; do
		commands disable enable
		i=$((i + 1))
	done
}

# The letters are read by nobody: `attached` ends with its input.
for jobs in 'sleeps polls epolls waits timers codes' 'answers asks signals' 'forks creates'; do
	# shellcheck disable=SC2086
	begin -- ./attached $jobs
	timeout 300 head -c 6 <&5 >begun.txt
	pauses 20
	exec 6<&5 # what it prints at its end
	ended 7
	timeout 300 head -c 11 <&6 >failures.txt
	exec 6<&-
	[ "$(cat failures.txt)" = '0 failures' ] || fail "$jobs: $(cat failures.txt)"
done

# A process that ran already, which runs on.
rm -f given taken
mkfifo given taken
exec 9<>given
./attached sleeps signals forks <given >taken.txt 9>&- &
program=$!
until grep -q begun taken.txt; do sleep 0.05; done
begin -p $program
commands enable
pauses 20
commands disable stop
wait $recorder || fail "-p: status $?: $(cat errors.txt)"
exec 4>&- 5>&- 7>&- 8>&-
! grep -q memfd:ptah /proc/$program/maps || fail "-p: the recorder's memory is still there"
is_what_ran
exec 3>given 9>&- 3>&-
status=0
wait $program || status=$?
program=
[ $status = 7 ] || fail "-p: status $status: $(cat taken.txt)"
grep -q '^0 failures' taken.txt || fail "-p: $(cat taken.txt)"
