# SPDX-License-Identifier: MIT
# Sudden ends: of the command at any moment, of the recorder, and of threads that still run when the
# process exits.
. "$PTAH_SOURCE/tests/record/common.sh"

build spin

child_of() # PID: the pid of the command that it records
{
	while kill -0 "$1" 2>/dev/null; do
		child=$(cat "/proc/$1/task/$1/children" 2>/dev/null | tr -d ' ')
		[ -z "$child" ] || return 0
		sleep 0.05
	done
	fail "the recorder started nothing"
}

wait_for_trace() # until the file has some
{
	while kill -0 $recorder 2>/dev/null; do
		[ -e perf.data ] && [ "$(wc -c <perf.data)" -gt 200000 ] && return 0
		sleep 0.05
	done
	fail "no trace is written"
}

# Threads that run when the process exits.
record ./spin 1 done 3 || fail "spin: status $?"
exact
grep -q '^3 threads: ' verify.txt || fail "not 3 threads: $(cat verify.txt)"
echo "exit: $(tail -1 verify.txt)"

# SIGKILL, at several moments, one thread and three.
for pause in 0 0.15; do # from the first trace on
	for threads in 1 3; do
		rm -f perf.data done
		"$PTAH" record --recorder=qemu -q ./spin 1000 done $threads &
		recorder=$!
		child_of $recorder
		wait_for_trace
		sleep $pause
		kill -KILL "$child"
		status=0
		wait $recorder || status=$?
		[ $status = 137 ] || fail "killed command: status $status"
		exact
	done
done
echo "SIGKILL: $(tail -1 verify.txt)"

# With packets about time, during which it often is.
for i in 1 2 3 4 5 6; do
	rm -f perf.data done
	"$PTAH" record --recorder=qemu -q --clock=host -e intel_pt/mtc,cyc/u ./spin 1000 done &
	recorder=$!
	child_of $recorder
	wait_for_trace
	kill -KILL "$child"
	wait $recorder || :
	exact
done
echo "SIGKILL, with time: $(tail -1 verify.txt)"

# The recorder passes SIGTERM on to the command.
rm -f perf.data
"$PTAH" record --recorder=qemu -q ./spin 1000 done &
recorder=$!
child_of $recorder
wait_for_trace
kill -TERM $recorder
status=0
wait $recorder || status=$?
[ $status = 6 ] || fail "SIGTERM: status $status, expected the command's 6"
exact
echo "SIGTERM: $(tail -1 verify.txt)"

# The recorder is killed: the command runs to its end, and what was written can be read.
rm -f perf.data done end
"$PTAH" record --recorder=qemu -q sh -c 'while [ ! -e end ]; do :; done; echo done >done' &
recorder=$!
trap ': >end' EXIT # the command ends with the test
child_of $recorder
# The trace counts once the file's header has its size, which is written every tenth of a second.
until "$PTAH" stat perf.data >stat.txt 2>errors.txt; do
	kill -0 $recorder 2>/dev/null || fail "nothing that can be read: $(cat errors.txt)"
	sleep 0.1
done
kill -KILL $recorder
wait $recorder 2>/dev/null || :
"$PTAH" stat --format=json perf.data >stat.json 2>errors.txt || fail "stat: $(cat errors.txt stat.json)"
grep -q '"errors": *0' stat.json || fail "the rest does not decode: $(cat stat.json)"
: >end
while [ ! -s done ] && kill -0 "$child" 2>/dev/null; do
	sleep 0.1
done
[ "$(cat done 2>/dev/null)" = done ] || fail "the command died with its recorder"
echo "recorder killed: decodes up to the last flush"
