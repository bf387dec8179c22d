# SPDX-License-Identifier: MIT
# Recordings that end while the program runs, in each way that there is: what was recorded of each
# thread decodes, and is what it ran up to there; and each ends soon.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build ends

kill_program()
{
	for pid in $program $other; do
		kill -9 "$pid" 2>/dev/null || :
	done
	program= other=
}

trap 'kill_program; [ -z "$recorder" ] || kill -9 $recorder 2>/dev/null || :' EXIT
program= other= recorder=

# begun PID: the program, or its recorder; its threads run, and their trace comes
begun()
{
	until [ -s begun.txt ]; do
		kill -0 "$1" 2>/dev/null || fail "$how: it did not begin: $(cat errors.txt)"
		sleep 0.02
	done
	read -r program other <begun.txt
}

# records OPTIONS...: begins, and has recorded something
records()
{
	rm -f perf.data perf.data.old
	[ -n "$program" ] || rm -f begun.txt
	"$ptah" record --recorder=native "$@" >>begun.txt 2>errors.txt &
	recorder=$!
	[ -n "$program" ] || begun $recorder
	until [ "$(cat perf.data 2>/dev/null | wc -c)" -gt 500000 ]; do sleep 0.02; done
}

# waited STATUS: the recorder ends
waited()
{
	status=0
	wait $recorder || status=$?
	recorder=
	[ $status = "$1" ] || fail "$how: status $status, not $1: $(cat errors.txt)"
}

# ended STATUS: it does, and its recording decodes
ended()
{
	waited "$1"
	kill_program
	decodes perf.data
}

decodes()
{
	"$PTAH" stat "$1" >stat.txt 2>&1 || fail "$how: it does not decode: $(cat stat.txt)"
	grep -q '^  errors  *0$' stat.txt || fail "$how: $(cat stat.txt)"
}

# is_what_ran: the decode of each thread whose truth is known; sets `verified` to how many these are
is_what_ran()
{
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || [ $? = 1 ] || fail "$how: $(cat verify.txt)"
	! grep -iE 'differ|overflow' verify.txt >&2 || fail "$how: the decode is not what ran"
	verified=$(grep -c ': equal$' verify.txt || :)
}

# With small chunks threads wait for the recorder all the time. On a busy machine a thread that runs may
# not come to an end of its own in time, and has no truth: then all is done again, until five had one.
for ptah in "$PTAH" "$PTAH_BUILD/tests/ptah-small"; do
	[ -x "$ptah" ] || continue
	for truth in '' --truth; do
		how="${ptah##*/} $truth: Ctrl-C twice"
		all=0 tries=0
		until [ $all -ge 5 ]; do
			tries=$((tries + 1))
			[ $tries -lt 20 ] || fail "$how: $all threads are verified"
			records $truth ./ends
			kill -INT $recorder
			kill -INT $recorder
			ended 130
			[ -z "$truth" ] || is_what_ran
			[ -n "$truth" ] || verified=5
			all=$((all + verified))
		done
	done
done
ptah=$PTAH

# The command ends by it, and another process runs on.
how=SIGTERM
records --truth ./ends
kill -TERM $recorder
ended 143
is_what_ran

# The command runs on.
rm -f control
mkfifo control
exec 7<>control
for how in --max-size=4M --control=fifo:control; do
	records --truth $how ./ends
	[ $how = --max-size=4M ] || echo stop >&7
	until grep -q 'the command goes on' errors.txt; do sleep 0.02; done
	kill -9 "$program"
	ended 137
	is_what_ran
done
exec 7>&-

# What ran already runs on.
for how in '-p, SIGINT' '-p, until another command ends'; do
	rm -f begun.txt
	./ends >begun.txt &
	begun $!
	case $how in
	*SIGINT)
		records --truth -p "$program"
		kill -INT $recorder
		;;
	*)
		rm -f recorded
		records --truth -p "$program" -- sh -c 'until [ -e recorded ]; do sleep 0.02; done'
		: >recorded
		;;
	esac
	waited 0
	kill -0 "$program" || fail "$how: the program does not run on"
	! grep -q memfd:ptah "/proc/$program/maps" || fail "$how: it is still recorded"
	kill_program
	decodes perf.data
	is_what_ran
	[ "$verified" -ge 4 ] || fail "$how: $verified threads are verified: $(cat verify.txt)"
done

# The last of each trace, where a process crashes and another runs on.
how=--on-crash
rm -f begun.txt
"$PTAH" record --recorder=native --on-crash=512K ./ends >begun.txt 2>errors.txt &
recorder=$!
begun $recorder
kill -SEGV "$program"
ended 139

# What is saved of a program that is ended then.
how='live --hits'
rm -f begun.txt
"$PTAH" live -q --recorder=native --watch='enter make_processes' --hits=1 --on-hit=save:hit.data -- \
	./ends >output.txt 2>&1 || fail "$how: $(cat output.txt)"
grep -E '^[0-9]+ [0-9]+$' output.txt >begun.txt || fail "$how: it did not begin: $(cat output.txt)"
begun $$
decodes hit.data
