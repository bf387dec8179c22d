#!/bin/sh
# SPDX-License-Identifier: MIT
# Where the kernel says when threads are on a processor, the recorder native writes it into the
# recording: threads that sleep and compute know how long they ran, and perf reads the records.
. "$PTAH_SOURCE/tests/record/common.sh"
"$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1 || skip "no recorder native"

"$CC" -D_GNU_SOURCE -O1 -pthread -o sleepers \
	"$PTAH_SOURCE/tests/record/programs/sleepers.c"

# judged WHAT: five threads of two processes
judged()
{
	status=0
	"$PTAH_BUILD/tests/judge_off" data log >out || status=$?
	[ "$status" != 77 ] || skip "the kernel does not say when threads run"
	[ "$status" = 0 ] && [ "$(grep -c ^thread out)" = 5 ] || fail "$1: $(cat out)"
}

"$PTAH" record -q --recorder=native -o data -- ./sleepers log || fail "recording: $?"
judged started
"$PTAH" repack -i data -o repacked >/dev/null
mv repacked data
judged repacked

# A thread that has left comes back before it leaves again.
if command -v perf >/dev/null; then
	perf script -i data --no-itrace --show-switch-events 2>/dev/null |
		awk '/PERF_RECORD_SWITCH/ { out = / OUT/
			if ($2 in was && was[$2] == out) wrong++
			was[$2] = out; n++ }
			END { exit !(n > 100 && wrong < n / 20) }' || fail "perf reads other switches"
fi

# Of processes that run already; without time stamps nobody asks for them.
rm log
./sleepers log go &
pid=$!
"$PTAH" record -q --recorder=native -o data -p "$pid" -- \
	sh -c ': >go; until [ "$(grep -c . log)" = 5 ]; do sleep 0.05; done' 2>err ||
	fail "attaching: $(cat err)"
wait "$pid"
judged attached
rm log
"$PTAH" record -q --recorder=native --time-resolution=off -o data -- ./sleepers log || fail "off: $?"
"$PTAH_BUILD/tests/judge_off" data log >out && fail "switches without times"
grep -q '^no switches' out || fail "$(cat out)"
