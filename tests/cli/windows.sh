#!/bin/sh
# SPDX-License-Identifier: MIT
# --since, --until and --around: a window shows the same lines as that part of the whole, and the
# counts of a window are the sums of its lines. Instruction N of a known program is a known one.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need "${CC:-cc}"

loop_program 20000
"$PTAH" record --recorder=qemu -e intel_pt/mtc=1,cyc=1/u -o fine.data -- ./program 2>/dev/null
"$PTAH" record --recorder=qemu --psb-period=2048 -o coarse.data -- ./program 2>/dev/null
# Code that is rewritten while it runs, so that it matters which one the window has: 60 functions
# after each other at one address, each with one nop more.
cat >code.c <<'END'
#include <string.h>
#include <sys/mman.h>
int main(void)
{
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int n = 0; n < 60; n++) {
		memset(code, 0x90, 100);
		code[n] = 0xc3;
		for (int i = 0; i < 30; i++)
			((void (*)(void))code)();
	}
	return 0;
}
END
"${CC:-cc}" -O1 -o code code.c
"$PTAH" record --recorder=qemu -e intel_pt/mtc=1,cyc=1/u --psb-period=2048 -o code.data -- ./code >/dev/null 2>&1

# same FILE OPTIONS FROM TO: the window that the options choose has the lines of that time.
same() {
	for mode in '' --blocks; do
		# shellcheck disable=SC2086 # a mode or none
		"$PTAH" script --time --format=tsv $mode "$1" >whole 2>err
		awk -F '\t' -v from="$3" -v to="$4" 'NR > 1 && $2 >= from && $2 <= to' whole >wanted
		# shellcheck disable=SC2086
		expect 0 "$PTAH" script --time --format=tsv $mode $2 "$1"
		tail -n +2 out >got
		cmp -s got wanted || fail "$1 $2 $mode: $(diff got wanted | head -5)"
		[ -s wanted ] || fail "$1 $2 $mode: nothing to compare"
	done
}
same fine.data '--since=0.000020 --until=0.000060' 0.000020000 0.000060000
same fine.data '--around=0.000050,2us' 0.000049000 0.000051000
same code.data '--since=0.000140' 0.000140000 9
same code.data '--since=0.000130 --until=0.000135' 0.000130000 0.000135000

# Counts add up.
"$PTAH" script --time --blocks --format=tsv fine.data --since=30us 2>/dev/null && fail "a time with a unit"
expect 0 "$PTAH" script --time --blocks --format=tsv fine.data --since=0.00003
sum=$(awk -F '\t' 'NR > 1 { n += $5 } END { print n }' out)
expect 0 "$PTAH" report --format=tsv --limit=0 fine.data --since=0.00003
equal "instructions of the window" "$(awk -F '\t' 'NR > 1 { n += $2 } END { print n }' out)" "$sum"

expect 0 "$PTAH" stat --format=tsv fine.data --since=0.00003
equal "stat" "$(tail -1 out | cut -f 4,6)" "$(printf '\t%s' "$sum")"
expect 0 "$PTAH" annotate --no-source --format=tsv -i fine.data --since=0.00003
expect 0 "$PTAH" stat fine.data --since=0.00003
grep -e bytes -e packets -e bits out && fail "stat has bytes of a window"

# Instructions by number: number 2 + 5 k is the call.
expect 0 "$PTAH" script --no-symbols --format=tsv coarse.data --since=@50002 --until=@50006
equal "instructions" "$(cut -f 4 out | tail -n +2 | cut -d ' ' -f 1 | tr '\n' ' ')" \
	"call nop ret dec jnz "
expect 0 "$PTAH" report --format=tsv --limit=0 coarse.data --since=@7 --until=@50006
equal "50,000 instructions" "$(awk -F '\t' 'NR > 1 { n += $2 } END { print n }' out)" 50000
equal "of 10,000 calls" "$(awk -F "\t" "\$5 == \"leaf\"" out | cut -f 2,3)" "$(printf "20000\t10000")"
expect 0 "$PTAH" script --blocks coarse.data --around=@50002,4
grep -q leaf out || fail "around: $(cat out)"

# What there is not, is an error or a remark.
expect 1 "$PTAH" report fine.data --since=5
grep -q 'nothing was traced then; the times of the trace are from 0.000000' err || fail "$(cat err)"
expect 1 "$PTAH" report fine.data --since=0.00005 --until=0.00004
expect 0 "$PTAH" report fine.data --since=0.00005 --until=5
grep -q 'the last time in the trace is 0.000' err || fail "$(cat err)"
expect 2 "$PTAH" report fine.data --since=soon
expect 2 "$PTAH" report fine.data --since=@1 --until=0.5
expect 2 "$PTAH" report fine.data --since=0.1 --around=0.5
printf 'psb\npsbend\n' | "$PTAH" asm -o raw.pt -
expect 1 "$PTAH" report --pt=raw.pt --elf=program --since=0.00001
grep -q "does not relate TSC to perf's clock" err || fail "$(cat err)"
expect 0 "$PTAH" report --pt=raw.pt --elf=program --since=@50000

# A recording without times between its system calls says so once where a window has times.
expect 0 "$PTAH" calls --value=time -i coarse.data --since=0.00003
equal "remarks on its times" "$(grep -c 'note: the times are' err)" 1
expect 0 "$PTAH" report coarse.data --since=@50
equal "remarks on no times" "$(grep -c 'mtc,cyc' err)" 0

# Packets: those from the last PSB whose TSC is before the window up to the first one after it. The
# TSC counts instructions, 100005 of them, and is perf's time in nanoseconds.
"$PTAH" dump --format=tsv coarse.data | tail -n +2 >whole
for window in 0:100 25000:50000 30138:30138 60000:100005 80000:80500; do
	since=${window%:*}
	until=${window#*:}
	# shellcheck disable=SC2046 # two numbers
	set -- $("$PTAH" dump --packets=psb,tsc --format=json coarse.data | python3 -c "
import json, sys
first, last, psb = 0, 1 << 62, None
for p in json.load(sys.stdin)['streams'][0]['packets']:
    if p['packet'] == 'PSB':
        psb = p['offset']
    elif psb is not None:
        if int(p['payload'], 0) < $since: first = psb
        if int(p['payload'], 0) > $until: last = min(last, psb)
        psb = None
print(first, last)")
	awk -F '\t' -v from="$1" -v to="$2" '$1 >= from && $1 < to' whole >wanted
	"$PTAH" dump -q --format=tsv --since="0.$(printf %09d "$since")" \
		--until="0.$(printf %09d "$until")" coarse.data | tail -n +2 >got
	cmp -s wanted got || fail "packets of $window: $(diff wanted got | head -5)"
	[ -s got ] || fail "no packets of $window"
done
expect 2 "$PTAH" dump --since=@5 coarse.data
expect 1 "$PTAH" dump --since=7 coarse.data

# Windows add up to the whole in each command that counts, also beyond the first places from which
# numbers are counted (every 128 KiB of trace) and in the middle of blocks.
loop_program 900000
record long.data ./program
third=$((recorded / 3))
sum=0 costs=0 self=0
for window in "--until=@$((third - 1))" "--since=@$third --until=@$((2 * third + 1))" "--since=@$((2 * third + 2))"; do
	# shellcheck disable=SC2086 # words
	{
		expect 0 "$PTAH" report --format=tsv --limit=0 long.data $window
		sum=$((sum + $(awk -F '\t' 'NR > 1 { n += $2 } END { print n }' out)))
		expect 0 "$PTAH" calls --format=tsv --limit=0 -i long.data $window
		self=$((self + $(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "self") k = i; next } { n += $k } END { print n }' out)))
		expect 0 "$PTAH" export --to=callgrind -o out.callgrind long.data $window
		costs=$((costs + $(sed -n 's/^totals: //p' out.callgrind)))
		for command in stat profile "annotate --no-source" cover "export --to=drcov -o x.drcov" "export --to=bolt -o x.bolt"; do
			expect 0 "$PTAH" $command -i long.data $window
		done
	}
done
equal "report's windows" "$sum" "$recorded"
equal "calls' windows" "$self" "$recorded"
equal "callgrind's windows" "$costs" "$recorded"

# A window that begins in a stub of a linkage table knows who called that: what the stub ran counts
# for the caller, as in the whole.
"$PTAH" script -q code.data >lines
border=$(awk '/@plt\+0x0 / { n = NR - 1 } END { print n }' lines)
[ -n "$border" ] || fail "no stub ran"
# selves WINDOW: what each function ran itself, by `calls` and by `report -g`.
selves() {
	"$PTAH" calls -n0 --format=json -i code.data "$1" >calls.json
	"$PTAH" report -g -n0 --format=json -i code.data "$1" >graph.json
	python3 -c "
import collections, json, sys
for path, rows, key in ('calls.json', 'functions', 'self'), ('graph.json', 'nodes', 'self_instructions'):
    sums = collections.Counter()
    for row in json.load(open(path))[rows]:
        sums[row['function'], row['ip']] += row[key]
    for (function, ip), n in sums.items():
        if n: print(path, function, ip, n)"
}
# add_up BORDER WHERE
add_up() {
	for window in "--until=@$(($1 - 1))" "--since=@$1"; do
		selves "$window"
	done | awk '{ n[$1 " " $2 " " $3] += $4 } END { for (k in n) print k, n[k] }' | sort >parts
	cmp -s whole parts || fail "windows $2: $(diff whole parts | head -5)"
}
selves --since=@0 | sort >whole
add_up "$border" "at a stub"
# The resolver has called _dl_fixup(), and returns to the stub's caller by the function that it found.
border=$(awk '/_dl_fixup\+0x0 / { n = NR + 20 } END { print n }' lines)
[ -n "$border" ] || fail "nothing was bound lazily"
add_up "$border" "below the resolver"
add_up "$(awk -v n="$border" 'NR > n && /_dl_runtime_resolve/ { print NR; exit }' lines)" "in the resolver"
