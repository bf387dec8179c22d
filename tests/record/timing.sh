#!/bin/sh
# SPDX-License-Identifier: MIT
# Timing packets: the path stays exact, and the decoded time is that of the clock.
. "$PTAH_SOURCE/tests/record/common.sh"

counted() # PACKET: how many the trace holds
{
	"$PTAH" stat | tr -d , | awk -v name="$1" '$1 == name { print $2 }'
}

some()
{
	for packet in "$@"; do
		n=$(counted "$packet")
		[ "${n:-0}" -gt 20 ] || fail "only ${n:-0} $packet packets"
	done
}

none()
{
	n=$(counted "$1")
	[ "${n:-0}" = 0 ] || fail "$n $1 packets"
}

for name in filter jit threads; do
	build $name
	for clock in insn host; do
		record --clock=$clock -e intel_pt/mtc=1,cyc=1,mtc_period=3/u -- "./$name" >/dev/null
		exact
		[ $name = jit ] || perf_agrees # perf cannot know code that is in no file
	done
done

record -e intel_pt/mtc=1,mtc_period=0,psb_period=1/u -- ./filter 20000 >/dev/null
exact
some MTC TMA
none CYC
record -e intel_pt/cyc=1,cyc_thresh=4,noretcomp/u -- ./filter 20000 >/dev/null
exact
some CYC
none MTC

# An instruction takes a tick: at the end as many ticks have passed as instructions were executed.
record -e intel_pt/mtc=1,cyc=1/u -- ./filter 20000 >/dev/null
ran=$("$PTAH" verify --all --format=tsv | awk -F'\t' 'NR == 2 { print $4 }')
told=$("$PTAH" script --events --no-symbols | sed -n 's/.* # .*tsc \([0-9]*\) .*/\1/p' | tail -1)
[ $((told > ran - ran / 100 && told < ran + ran / 100)) = 1 ] ||
	fail "$told ticks at the end, $ran instructions ran"

# A thread that sleeps does not fill the trace.
record --clock=host -e intel_pt/mtc=1,mtc_period=0/u -- sleep 1
exact
[ "$(wc -c <perf.data)" -lt 4000000 ] || fail "asleep: $(wc -c <perf.data) bytes"
