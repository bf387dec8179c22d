#!/bin/sh
# SPDX-License-Identifier: MIT
# A recording by Linux' own driver of a program with several threads on two CPUs: one buffer for
# each CPU, in which the threads follow each other. perf is the judge.
. "$PTAH_SOURCE/tests/cli/common.sh"
need xz
need python3
traces=${PTAH_SHARED:-}/traces/guest
[ -e "$traces/u.data.xz" ] || skip "no recording by Linux' driver (PTAH_SHARED)"
mkdir -p fs/bin
xz -dc "$traces/u.data.xz" >u.data
xz -dc "$traces/thr.xz" >fs/bin/thr
chmod +x fs/bin/thr

# perf 6.1 decodes as many, without an error, of five threads: perf script -F comm,tid.
expect 0 "$PTAH" stat --symfs=fs --format=json u.data
equal "instructions" "$(json "sum(s['instructions'] for s in d['streams'])")" 2730395
equal "errors" "$(json "sum(s['errors'] for s in d['streams'])")" 0
expect 0 "$PTAH" stat --per-thread --symfs=fs u.data
grep -q '^thr [0-9]*, CPU 0$' out || fail "the stream of CPU 0 has no name: $(head -3 out)"
expect 0 "$PTAH" report --symfs=fs --format=json u.data
equal "threads" "$(json "d['threads']")" 5
equal "threads by program" "$(json "[(p['comm'], p['threads']) for p in d['programs']]")" "[('thr', 5)]"

need perf
perf script -i u.data --symfs fs --itrace=i0ns -F tid,cpu,ip 2>perf.err | awk '
	NF { sub(/^\[0*/, "", $2); sub(/\]$/, "", $2)
	     print $1, $3 >("perf." ($2 == "" ? 0 : $2)) }'
[ -s perf.0 ] && [ -s perf.1 ] || skip "perf decoded nothing: $(cat perf.err)"
for cpu in 0 1; do
	"$PTAH" script -q --no-symbols --symfs=fs --cpu=$cpu u.data | awk '{ print $2, $3 }' >ptah.$cpu
	cmp ptah.$cpu perf.$cpu || fail "CPU $cpu: the threads or the instructions differ"
done
echo "$(cat perf.0 perf.1 | wc -l) instructions of $(awk '{ print $1 }' perf.0 perf.1 | sort -u |
	wc -l) threads are equal"
threads=$(cat perf.0 perf.1 | awk '{ print $1 }' | sort -u | wc -l)
equal "threads in perf" "$threads" 5
rm -f perf.? ptah.?
