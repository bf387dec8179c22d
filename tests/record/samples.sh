# SPDX-License-Identifier: MIT
# Recordings as `perf record --aux-sample` makes them: the trace lies in samples, which overlap or
# leave something out between them. perf decodes the same.
. "$PTAH_SOURCE/tests/record/common.sh"

relayout=$PTAH_BUILD/tests/relayout
[ -x "$relayout" ] || skip "no relayout: the unit tests were not built"
head -c 4000 "$PTAH_SOURCE/README.md" >text

path() # FILE: the thread and the address of each instruction
{
	"$PTAH" script -q --no-symbols "$1" | awk '{ print $2, $3 }'
}

perf_path() # FILE: perf's
{
	perf script -i "$1" --itrace=i0ns -F tid,event,ip 2>perf.err |
		awk '$2 ~ /^instructions/ { print $1, $3 }'
}

record -o a.data --clock=host --psb-period=2048 gzip -c text >packed.gz
path a.data >a.path
[ "$(wc -l <a.path)" -gt 100000 ] || fail "few instructions: $(wc -l <a.path)"

# Each sample begins with what the one before ended with: together they are the whole trace.
"$relayout" samples a.data overlap.data 8000 6000
path overlap.data >overlap.path
cmp a.path overlap.path || fail "samples that overlap: another path"

# Between the samples a part is missing, and each begins and ends anywhere in a packet.
"$relayout" samples a.data gaps.data 6001 -3001
path gaps.data >gaps.path
n=$(wc -l <gaps.path)
[ "$n" -gt 10000 ] && [ "$n" -lt "$(wc -l <a.path)" ] || fail "samples with gaps: $n instructions"
"$PTAH" stat --format=json gaps.data >stat.json 2>&1 || fail "samples with gaps: $(cat stat.json)"

command -v perf >/dev/null || skip "no perf (Debian: linux-perf)"
# Of overlapping samples perf sometimes takes a part twice; there the whole recording is the judge.
perf_path gaps.data >perf.path
[ -s perf.path ] || fail "gaps: perf decoded nothing: $(head -3 perf.err)"
cmp gaps.path perf.path || fail "gaps: perf has another path"
echo "gaps: $(wc -l <perf.path) instructions are perf's"
