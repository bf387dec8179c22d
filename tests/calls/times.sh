#!/bin/sh
# SPDX-License-Identifier: MIT
# Times of calls, with the program's own log as the judge: every call began and ended within its
# bounds, whatever else the machine does. The looks of the recorder are packets that other decoders
# read, and the recording is exactly what ran.
. "$PTAH_SOURCE/tests/record/common.sh"
"$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1 || skip "no recorder native"

for program in timed_calls timed_kinds; do
	"$CC" -D_GNU_SOURCE -O1 -g -fno-inline -Wall -Wextra -Werror -pthread -o "$program" \
		"$PTAH_SOURCE/tests/calls/programs/$program.c"
done

# judged THREADS CALLS OPTIONS...
judged()
{
	judged_threads=$1 judged_calls=$2
	shift 2
	"$PTAH" record -q --recorder=native --truth "$@" -o data -- \
		./timed_calls "$judged_threads" "$judged_calls" log || fail "recording: $?"
	"$PTAH" verify --all data >out || fail "verify $*: $(cat out)"
	"$PTAH_BUILD/tests/judge_times" data log >out || fail "$*: $(cat out)"
}

judged 1 4000
judged 4 1000 --time-resolution=50us
judged 1 1000 --time-resolution=off

# A look is a TSC packet between packets of branches; without the watcher there are none.
looks()
{
	"$PTAH" dump data | awk '$2 ~ /^(TNT|TIP$)/ && tsc == 1 { n++ }
		$2 == "TSC" { tsc = branch; branch = 0; next }
		{ tsc = 0; branch = $2 ~ /^(TNT|TIP$)/ } END { print n + 0 }'
}
[ "$(looks)" = 0 ] || fail "looks without a watcher"
"$PTAH" calls -q -i data --value=time >out
grep -q '^# times:.*: no thread was looked at' out || fail "missing looks: $(head -3 out)"
"$PTAH" calls -q -i data --value=time --format=json >out
grep -q '"unlooked": true' out || fail "missing looks: $(head -5 out)"
judged 1 4000 --time-resolution=20us
[ "$(looks)" -gt 20 ] || fail "$(looks) looks"

# What the times are stands in the output.
"$PTAH" calls -q -i data --value=time >out
grep -q '^# times: known at stamps' out || fail "$(head -3 out)"
! grep -q ' 0 ns' out || fail "a time that was not measured to be 0: $(grep ' 0 ns' out)"
[ "$("$PTAH" calls -q -i data --value=time --format=json | grep -c '"times": "stamped"')" = 1 ] ||
	fail "no kind of time in JSON"
for jobs in 2 4; do
	"$PTAH" calls -q -j "$jobs" -i data --value=time >out2
	cmp -s out out2 || fail "other times with $jobs jobs"
done
"$PTAH" repack -i data -o repacked >/dev/null
"$PTAH_BUILD/tests/judge_times" repacked log >out || fail "repacked: $(cat out)"

"$PTAH" record -q --recorder=native --time-resolution=50us -o data -- ./timed_kinds log ||
	fail "kinds: $?"
"$PTAH_BUILD/tests/judge_times" data log >out || fail "kinds: $(cat out)"

# Processes that fork, and programs that are executed.
"$PTAH" record -q --recorder=native -o data -- sh -c './timed_calls -3 500 one; ./timed_calls 2 500 two' ||
	fail "processes: $?"
cat one one.1 one.2 two >log
"$PTAH_BUILD/tests/judge_times" data log >out || fail "processes: $(cat out)"

# A process that runs already. It goes on when the recorder is attached.
rm -f log go
./timed_calls 3 500 log go &
pid=$!
"$PTAH" record -q --recorder=native -o data -p "$pid" -- \
	sh -c ': >go; until [ "$(grep -c . log 2>/dev/null)" = 3000 ]; do sleep 0.05; done' ||
	fail "attaching: $?"
wait "$pid"
"$PTAH_BUILD/tests/judge_times" data log >out || fail "attached: $(cat out)"

# While it is recorded: no watch hits for a call that did not take so long.
calls=20000
[ -z "${PTAH_NIGHTLY:-}" ] || calls=200000
"$PTAH" live -q --recorder=native --watch='time_short > 50us' --watch='time_lock > 200us' -o data \
	-- ./timed_calls 1 $calls log >live.txt 2>&1 || fail "live: $(cat live.txt)"
for watch in "time_short 50" "time_lock 200"; do
	# shellcheck disable=SC2086 # a function and its microseconds
	set -- $watch
	hits=$(grep -c "^hit [0-9]*: $1 > $2us" live.txt) || :
	"$PTAH_BUILD/tests/judge_times" data log "$1" "${2}000" "$hits" >out || fail "live: $(cat out)"
done

# perf's decoder takes the same branches, each at the time of the same stamp; the branches of a packet
# beside a stamp, 47 at most, may have the one before or behind.
if command -v perf >/dev/null; then
	judged 1 30
	# The other lines are system calls.
	perf script -i data --itrace=e -F comm 2>/dev/null | grep 'instruction trace error' >errors || :
	[ ! -s errors ] || fail "perf: $(head -3 errors)"
	perf script -i data --itrace=b --ns -F time,event,ip 2>/dev/null |
		awk '$2 ~ /^branches/ { sub(":", "", $1); print $1, $3 }' >perf.txt
	"$PTAH" script -q -i data --branches --time --format=tsv |
		awk 'NR > 1 { print $2, substr($4, 3) }' >ptah.txt
	paste -d ' ' perf.txt ptah.txt | awk '
		NF != 4 || $2 != $4 { print "other branches: " $0; exit }
		{ perf[NR] = $1; ptah[NR] = $3; differ += $1 != $3 }
		END {
			for (i = 48; i <= NR - 47; i++)
				if (perf[i] < ptah[i - 47] || perf[i] > ptah[i + 47])
					print "other times, branch " i ": " perf[i], ptah[i]
			if (NR < 1000 || differ > NR / 100)
				print NR " branches, " differ " with other times"
		}' >different
	[ ! -s different ] || fail "perf: $(cat different)"
fi
