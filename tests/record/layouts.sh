# SPDX-License-Identifier: MIT
# perf's other layouts: recordings that are rewritten as `perf record -o -`, -z and --threads write
# them decode to the same, by the recorder's truth and by perf; and what perf itself writes in these
# ways is read as perf reads it.
. "$PTAH_SOURCE/tests/record/common.sh"

relayout=$PTAH_BUILD/tests/relayout
[ -x "$relayout" ] || skip "no relayout: the unit tests were not built"
head -c 2000 "$PTAH_SOURCE/README.md" >text

branches() # FILE: Ptah's branches, with the thread's id
{
	"$PTAH" script -q --branches --format=tsv "$1" |
		awk -F'\t' 'NR > 1 { sub(/^0x/, "", $3); sub(/^0x/, "", $4); print $1, $3, $4 }'
}

perf_branches() # FILE: perf's
{
	perf script -i "$1" --itrace=b 2>perf.err | awk '
		{ from = to = "?" }
		{ for (i = 1; i < NF; i++) {
			if ($i ~ /^branches/) from = $(i + 1)
			if ($i == "=>") to = $(i + 1)
		} }
		{ print $2, from, to }'
}

record -o a.data --clock=host gzip -c text >packed.gz
branches a.data >a.branches
[ "$(wc -l <a.branches)" -gt 1000 ] || fail "few branches: $(wc -l <a.branches)"
for kind in pipe packed packed2 packed-pipe folder; do
	"$relayout" "$kind" a.data "$kind.data"
	"$PTAH" verify --all "$kind.data" >verify.txt 2>notes.txt || fail "$kind: $(cat verify.txt notes.txt)"
	[ ! -s notes.txt ] || fail "$kind: $(cat notes.txt)"
	branches "$kind.data" >branches
	cmp a.branches branches || fail "$kind: other branches"
	# perf 6.1 supports neither COMPRESSED2 nor trace in its folders.
	case $kind in packed2 | folder) continue ;; esac
	command -v perf >/dev/null || continue
	perf_branches "$kind.data" >branches
	# From a pipe perf decodes only up to the last event, and warns about that.
	n=$(wc -l <branches)
	[ "$kind" = packed ] || head -n "$n" a.branches >same
	[ "$kind" = packed ] && cp a.branches same
	[ "$n" -gt "$(($(wc -l <a.branches) * 9 / 10))" ] && cmp same branches ||
		fail "$kind: perf has other branches: $(head -3 perf.err)"
done
"$PTAH" verify --all - <pipe.data >verify.txt 2>&1 || fail "standard input: $(cat verify.txt)"
# shellcheck disable=SC2002 # a pipe, and no file
cat packed-pipe.data | "$PTAH" verify --all -i - >verify.txt 2>&1 || fail "a pipe: $(cat verify.txt)"
mkfifo fifo
cat pipe.data >fifo &
"$PTAH" verify --all fifo >verify.txt 2>&1 || fail "a named pipe: $(cat verify.txt)"
wait
# A recording that was cut is reported as such.
head -c 9000 packed-pipe.data >cut.data
status=0
"$PTAH" stat cut.data >stat.txt 2>&1 || status=$?
[ "$status" = 1 ] || fail "cut: status $status"
grep -q 'cut' stat.txt || fail "cut: $(cat stat.txt)"

# Two processes on one CPU, one after the other.
record -o b.data --clock=host awk 'BEGIN { for (i = 0; i < 300; i++) x = x i % 7; print length(x) }' >/dev/null
branches b.data >b.branches
"$relayout" merge a.data b.data cpu.data
branches cpu.data >branches
cat a.branches b.branches | cmp - branches || fail "other branches on one CPU"
if command -v perf >/dev/null; then
	perf_branches cpu.data >perf-branches
	cmp branches perf-branches || fail "perf has other branches on one CPU: $(head -3 perf.err)"
fi
"$PTAH" script -q --jobs=2 --cpu=0 --branches --format=tsv cpu.data >jobs.branches
[ "$(wc -l <jobs.branches)" -eq "$(($(wc -l <branches) + 1))" ] || fail "other branches with jobs"
for jobs in 1 2; do
	for by in blocks edges branches; do
		for file in a b cpu; do
			"$PTAH" profile -q --jobs=$jobs --by=$by --limit=0 --format=tsv $file.data |
				tail -n +2 | cut -f 1-6 | sort >$file.counts
		done
		[ -s cpu.counts ] || fail "no $by counted"
		sort a.counts b.counts | cmp - cpu.counts || fail "$by: other counts"
	done
done
"$PTAH" report -q --limit=0 --format=tsv a.data >a.report
"$PTAH" report -q --limit=0 --format=tsv b.data >b.report
"$PTAH" report -q --limit=0 --format=tsv cpu.data >cpu.report
sum() { awk -F'\t' 'FNR > 1 { n += $2 } END { print n }' "$@"; }
[ "$(sum cpu.report)" = "$(sum a.report b.report)" ] || fail "report: other sums"

"$PTAH" stat -q cpu.data | tr -d , >cpu.stat
for file in a b; do
	"$PTAH" verify --all --format=tsv $file.data 2>/dev/null |
		awk -F'\t' 'NR > 1 { print "process", $1, $4, "instructions" }'
done >expected
awk '/process/ { print $1, $2, $3, $4 }' cpu.stat | sort | diff - expected >/dev/null ||
	fail "stat: $(grep process cpu.stat) and not $(cat expected)"

command -v perf >/dev/null || skip "no perf (Debian: linux-perf) to write recordings; the rest is as it should be"
perf record -e dummy -o own.data true >perf.err 2>&1 ||
	skip "perf records nothing here: $(tail -1 perf.err); the rest is as it should be"

# The text that perf prints for records, without those that the reader leaves out.
perf_records()
{
	perf script -i "$1" --show-task-events --show-mmap-events --show-switch-events 2>perf.err |
		grep -o 'PERF_RECORD_.*' |
		sed -E 's/(MMAP2? .* @ (0x)?[0-9a-f]+).*\]: [rwxps-]+ /\1 /
			s/(MMAP .* @ (0x)?[0-9a-f]+)\]: [rwxps-]+ /\1 /
			s/(MMAP2 .* @ (0x)?[0-9a-f]+) .*: [rwxps-]{4} /\1 /
			s/ +(next|prev) pid\/tid: */ /; s/OUT preempt/OUT/; s/ +$//' | sort
}

own() # WHAT OPTIONS: perf's recording, which is not of Intel PT
{
	what=$1
	shift
	rm -rf own.data
	if [ "$what" = pipe ]; then
		perf record "$@" -o - sh -c 'ls >/dev/null; true' >own.data 2>perf.err
	else
		perf record "$@" -o own.data sh -c 'ls >/dev/null; true' >perf.err 2>&1
	fi || {
		echo "not tried: perf record $*: $(tail -1 perf.err)"
		return 0
	}
	perf_records own.data >expected
	[ -s expected ] || {
		echo "not tried: perf does not read what perf record $* wrote"
		return 0
	}
	"$relayout" records own.data >found || fail "perf record $*"
	sort found | cmp - expected || fail "perf record $*: $(sort found | diff - expected | head -5)"
	status=0
	"$PTAH" stat own.data >stat.txt 2>&1 || status=$?
	[ "$status" = 1 ] && grep -q 'not a recording of Intel PT' stat.txt ||
		fail "perf record $*: status $status: $(cat stat.txt)"
	echo "perf record $*: $(wc -l <expected) records are equal"
}

own file -e dummy --switch-events
own file -e dummy --switch-events -z
own file -e dummy -e cpu-clock --switch-events -z
own pipe -e dummy --switch-events
own pipe -e dummy --switch-events -z
own pipe -e cpu-clock -e dummy
own file -e dummy --switch-events -a
own file -e dummy --switch-events -a --threads
own file -e cpu-clock -e dummy --switch-events -z -a --threads
own file -e dummy --kcore
echo "layouts: equal"
