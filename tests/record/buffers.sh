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
	"$PTAH" verify --all >verify.txt 2>&1 && fail "verify: a part cannot be verified"
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

# The recorder native keeps the same in its own way: PSBs are 128 KiB apart, and what a thread has
# not published is part of a snapshot. Where the stack is random, so is the way through functions of
# strings before main().
native="--recorder=native"
setarch -R true 2>/dev/null || exit 0
fixed() # OPTIONS COMMAND
{
	rm -f perf.data perf.data.old
	setarch -R "$PTAH" record -q $native "$@"
}
"$PTAH" record --dry-run -q $native true 2>/dev/null || exit 0
fixed --truth -- ./filter 60000 >/dev/null
exact
listing >all.txt
for size in 512K; do
	fixed --truth --snapshot $size -- ./filter 60000 >/dev/null
	"$PTAH" verify --all >verify.txt 2>&1 && fail "native: verify: a part cannot be verified"
	"$PTAH" report 2>&1 | grep -q "snapshot: the last ${size%K}" && fail "native: size in bytes"
	"$PTAH" report 2>&1 | grep -q 'snapshot: the last' || fail "native: no note"
	listing >part.txt
	n=$(wc -l <part.txt)
	[ "$n" -gt 1000000 ] || fail "native, --snapshot $size: $n instructions"
	tail -n "$n" all.txt | cmp -s - part.txt ||
		fail "native, --snapshot $size: not the end of what ran"
done
fixed --truth --snapshot 8M -- ./filter 1000 >/dev/null
exact
fixed --stop-when-full --buffer 64K -- ./filter 60000 >/dev/null
listing >part.txt
n=$(wc -l <part.txt)
[ "$n" -gt 100000 ] || fail "native, --stop-when-full: $n instructions"
head -n "$n" all.txt | cmp -s - part.txt || fail "native: not the beginning of what ran"
"$PTAH" report 2>&1 | grep -q 'was full' || fail "native: no note"
[ "$(wc -c <perf.data)" -lt 100000 ] || fail "native, --stop-when-full kept more"
fixed --truth --stop-when-full --buffer 4M -- ./filter 1000 >/dev/null
exact

# Snapshots while it runs begin and end with whole packets, and are joined where they overlap.
rm -f perf.data perf.data.old
mkfifo control ack
exec 7<>control 8<>ack
"$PTAH" record -q $native --snapshot 512K --control=fifo:control,ack -- \
	sh -c ': >begun; while [ ! -e end ]; do :; done' &
recorder=$!
until [ -e begun ]; do kill -0 $recorder || fail "native: ended"; done
for i in 1 2 3 4; do
	echo snapshot >&7
	timeout 300 head -c 4 <&8 | grep -q ack || fail "native: snapshot $i"
done
: >end
wait $recorder || fail "native: snapshots: status $?"
exec 7>&- 8>&-
perf_agrees
"$PTAH" stat >stat.txt 2>notes.txt || fail "native: snapshots: $(cat notes.txt)"
grep -q 'errors *0$' stat.txt || fail "native: snapshots: $(grep errors stat.txt)"
"$PTAH" script --last=1 2>&1 | grep -q '_exit+0x.*syscall' || fail "native: snapshots: the end is missing"
