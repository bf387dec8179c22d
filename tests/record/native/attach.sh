# SPDX-License-Identifier: MIT
# Attaching to programs that run, and detaching from them: the programs do not notice, what was
# recorded is what ran, and afterwards nothing is left in them.
. "$PTAH_SOURCE/tests/record/common.sh"

programs=$PTAH_SOURCE/tests/record/native/programs
build attached

process=
limit= # of the program's memory
trap '[ -z "$process" ] || kill -9 $process 2>/dev/null || :' EXIT

# begin JOBS...: starts ./attached, which runs until descriptor 3 is closed
begin()
{
	rm -f in
	mkfifo in
	(
		[ -z "$limit" ] || ulimit -v "$limit"
		exec ./attached "$@" <in >out.txt 2>&1
	) &
	process=$!
	exec 3>in
	until grep -q begun out.txt; do sleep 0.05; done
}

# end JOBS...: it has found nothing wrong
end()
{
	exec 3>&-
	status=0
	wait $process || status=$?
	process=
	[ $status = 7 ] || fail "$*: status $status, not 7: $(cat out.txt errors.txt)"
	printf 'begun\n0 failures\n' | diff - out.txt >&2 || fail "$*: it has noticed something"
}

# attach OPTIONS...
attach()
{
	rm -f perf.data perf.data.old
	timeout 300 "$PTAH" record -q --recorder=native -p $process "$@" 2>errors.txt 3>&- ||
		fail "record -p $*: status $?: $(cat errors.txt out.txt)"
}

# No memory of the recorder is in the process any more.
is_clean()
{
	! grep -q 'memfd:ptah' /proc/$process/maps || fail "$*: the recorder's memory is still there"
}

# Nothing of it is undecodable, and of the threads that were let go the decode is what ran.
decodes()
{
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || [ $? = 1 ] || fail "$*: $(cat verify.txt)"
	! grep -iE 'differ|overflow' verify.txt >&2 || fail "$*: the decode is not what ran"
	grep -q 'decoded exactly what ran' verify.txt || fail "$*: $(cat verify.txt)"
}

begin compute
"$PTAH" record -q --dry-run --recorder=native -p $process >dry.txt 2>&1 || {
	end compute
	skip "$(cat dry.txt)"
}
# The command says how long.
timer='seq 1 100000'
attach --truth -- $timer >seq.txt
is_clean compute
decodes compute
end compute

# In system calls, with handlers, timers, children, code that changes; again and again.
for jobs in sleeps polls epolls waits 'answers asks' signals timers forks creates codes; do
	begin $jobs
	for i in 1 2; do
		attach --truth -- $timer >seq.txt
		is_clean "$jobs"
	done
	decodes "$jobs"
	end "$jobs"
done
begin
for i in 1 2 3; do
	attach -- $timer >seq.txt
	is_clean all
done
end all

# Until the process ends, and until Ctrl-C.
begin floats
timeout 300 "$PTAH" record -q --recorder=native --truth -p $process 2>errors.txt 3>&- &
recorder=$!
until grep -q memfd:ptah /proc/$process/maps; do kill -0 $recorder; sleep 0.05; done
end floats
wait $recorder || fail "until the end: status $?: $(cat errors.txt)"
decodes floats
begin floats
timeout 300 "$PTAH" record -q --recorder=native --truth -p $process 2>errors.txt 3>&- &
recorder=$!
until grep -q memfd:ptah /proc/$process/maps; do kill -0 $recorder; sleep 0.05; done
kill -TERM $recorder
wait $recorder || fail "SIGTERM: status $?: $(cat errors.txt)"
is_clean SIGTERM
decodes SIGTERM
end floats

# refused TEXT OPTIONS...
refused()
{
	text=$1
	shift
	status=0
	timeout 300 "$PTAH" record --recorder=native "$@" 2>errors.txt || status=$?
	[ $status = 1 ] || fail "$*: status $status, not 1"
	grep -q "$text" errors.txt || fail "$*: $(cat errors.txt)"
}

refused 'there is no process' -p 2147483647
begin floats
refused 'name it with -p' -t $process
end floats
limit=4000000
begin floats
refused 'memory of process .* is limited' -p $process
end floats
