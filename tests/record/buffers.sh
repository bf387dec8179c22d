#!/bin/sh
# SPDX-License-Identifier: MIT
# What a buffer keeps: all, the end, or the beginning. The judge is a recording of
# the same program that keeps everything.
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

# Any size of buffer loses nothing, however often it goes round.
for size in 64K 128K 192K 1M; do
	record --buffer $size -- ./filter 80000 >/dev/null
	exact
	# That is what ran, by its hash: one size is listed as well, for all of them.
	[ $size = 192K ] || continue
	perf_agrees
	listing >part.txt
	cmp -s all.txt part.txt || fail "--buffer $size: not what ran"
done

# The end.
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
# A program that fits is whole.
record --snapshot 4M -- ./filter 1000 >/dev/null
exact

# The beginning.
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

# Threads have a buffer each.
build threads
record --buffer 64K -- ./threads >/dev/null
exact
