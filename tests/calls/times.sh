#!/bin/sh
# SPDX-License-Identifier: MIT
# Times of calls, with the program's own log as the judge: every call began and ended within its
# bounds, whatever else the machine does. The looks of the recorder are packets that other decoders
# read, and the recording is exactly what ran.
. "$PTAH_SOURCE/tests/record/common.sh"
"$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1 || skip "no recorder native"

"$CC" -D_GNU_SOURCE -O1 -g -fno-inline -Wall -Wextra -Werror -pthread -o timed_calls \
	"$PTAH_SOURCE/tests/calls/programs/timed_calls.c"

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

# perf's decoder takes the same branches at the same times.
if command -v perf >/dev/null; then
	judged 1 30
	# The other lines are system calls.
	perf script -i data --itrace=e -F comm 2>/dev/null | grep 'instruction trace error' >errors || :
	[ ! -s errors ] || fail "perf: $(head -3 errors)"
fi
