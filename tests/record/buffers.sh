#!/bin/sh
# SPDX-License-Identifier: MIT
# What a buffer keeps: everything, the end, or the beginning. The judge is a recording of the same
# program that keeps everything.
. "$PTAH_SOURCE/tests/record/common.sh"

build filter -static -no-pie

listing()
{
	"$PTAH" script --no-symbols --format=tsv | awk -F'\t' 'NR > 1 { print $2 }'
}

record -- ./filter 80000 >/dev/null
exact
listing >all.txt
bytes=$("$PTAH" stat --format=json | grep -o '"bytes": *[0-9]*' | head -1 | grep -o '[0-9]*')
[ "$bytes" -gt 300000 ] || fail "too short for this test: $bytes bytes"

# With any size of buffer nothing is lost, however often it wraps.
for size in 64K 128K 192K 1M; do
	record --buffer $size -- ./filter 80000 >/dev/null
	exact
	# The path hash proves each recording; for one size the instructions are listed as well.
	[ $size = 192K ] || continue
	perf_agrees
	listing >part.txt
	cmp -s all.txt part.txt || fail "--buffer $size: not what ran"
done

# Keeping the end.
for size in 64K 192K; do
	record --snapshot $size -- ./filter 80000 >/dev/null
	"$PTAH" verify >verify.txt 2>&1 && fail "verify: a part cannot be verified"
	grep -q 'no ground truth' verify.txt || fail "verify: $(cat verify.txt)"
	listing >part.txt
	n=$(wc -l <part.txt)
	[ "$n" -gt 100000 ] || fail "--snapshot $size: $n instructions"
	tail -n "$n" all.txt >expected.txt
	cmp -s expected.txt part.txt || fail "--snapshot $size: not the end of what ran"
	"$PTAH" report 2>&1 | grep -q 'snapshot: the last' || fail "no note"
done
# The trace of a program that fits is complete.
record --snapshot 4M -- ./filter 1000 >/dev/null
exact

# Keeping the beginning.
for size in 64K 256K; do
	record --stop-when-full --buffer $size -- ./filter 80000 >/dev/null
	listing >part.txt
	n=$(wc -l <part.txt)
	[ "$n" -gt 100000 ] || fail "--stop-when-full $size: $n instructions"
	head -n "$n" all.txt >expected.txt
	cmp -s expected.txt part.txt || fail "--stop-when-full $size: not the beginning of what ran"
	"$PTAH" report 2>&1 | grep -q 'was full' || fail "no note"
	[ "$(wc -c <perf.data)" -lt 400000 ] || fail "--stop-when-full $size kept more"
done
record --stop-when-full --buffer 4M -- ./filter 1000 >/dev/null
exact

# Each thread has a buffer.
build threads
record --buffer 64K -- ./threads >/dev/null
exact
