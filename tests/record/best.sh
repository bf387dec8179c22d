#!/bin/sh
# SPDX-License-Identifier: MIT
# The recorder that is taken when none is named: native where it can do what is asked, and otherwise
# qemu, with native's reason; also when a program turns out to be one that it cannot follow.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"

# takes RECORDER REASON OPTIONS...
takes()
{
	recorder=$1
	reason=$2
	shift 2
	"$PTAH" record --dry-run "$@" -- ./threads >said.txt 2>&1 || fail "$*: $(cat said.txt)"
	grep -q "with the recorder $recorder: .*$reason" said.txt || fail "$*: $(cat said.txt)"
	if [ "$recorder" = native ] && grep -q '; ' said.txt; then
		fail "$*: $(cat said.txt)"
	fi
}

if "$PTAH" record -q --dry-run --recorder=hardware true 2>/dev/null; then
	skip "this machine has Intel PT, which is better"
fi
build threads
takes native 'no Intel PT\|intel_pt'
takes native '' --truth
takes native '' --clock=host
takes native '' --no-inherit
takes native '' -D 100
takes native '' --max-size=1M
takes native '' --snapshot 1M
takes native '' --stop-when-full --buffer 64K
takes qemu 'cannot count instructions as time' --clock=insn
takes qemu 'MTC' -e intel_pt/mtc,mtc_period=3/u
takes qemu 'CYC' -e intel_pt/cyc/u
takes qemu 'PSBs' --psb-period=2048
takes native '' --psb-period=16384
takes qemu 'long TNT' --long-tnt
takes qemu 'marks loops' --mark-loops
# 128 MB per file, or 256 where the shell counts kilobytes: native shares more memory with programs.
rm -f perf.data
(ulimit -f 262144 && takes qemu 'ulimit -f' && "$PTAH" record -q -- ./threads >recorded.txt 2>said.txt) ||
	fail "a limit of files: $(cat said.txt)"
exact

# Threads and children, recorded without naming a recorder.
rm -f perf.data
"$PTAH" record --truth -- ./threads >recorded.txt 2>said.txt || fail "threads: $(cat said.txt)"
grep -q 'with the recorder native' said.txt || fail "threads: $(cat said.txt)"
exact
perf_agrees
rm -f perf.data perf.data.old
"$PTAH" record -q --truth -- sh -c 'echo a | tr a b | cat; exit 6' >recorded.txt 2>said.txt && fail "status"
[ "$(cat recorded.txt)" = b ] || fail "$(cat recorded.txt)"
exact
[ "$(grep -c equal verify.txt)" -ge 3 ] || fail "children: $(cat verify.txt)"

# Without --truth there is nothing to compare with, and verify says what brings it.
rm -f perf.data perf.data.old
"$PTAH" record -q -- true
"$PTAH" verify --all >verify.txt 2>&1 && fail "verified without a truth"
grep -q 'no ground truth' verify.txt && grep -q 'ptah record.*--truth' verify.txt ||
	fail "$(cat verify.txt)"
# With it, a part of the trace has none either: the recording says so, and verify does not advise
# what was done already.
for recorder in native qemu; do
	rm -f perf.data perf.data.old
	"$PTAH" record --truth --recorder=$recorder --stop-when-full --buffer 64K -- \
		awk 'BEGIN { for (i = 0; i < 100000; i++) n += i % 7 }' 2>said.txt || fail "$(cat said.txt)"
	grep -q 'note: no ground truth of 1 of 1 threads' said.txt || fail "$recorder: $(cat said.txt)"
	"$PTAH" verify --all >verify.txt 2>&1 && fail "$recorder: a part was verified"
	grep -q 'no ground truth of 1 of 1 threads' verify.txt || fail "$recorder: $(cat verify.txt)"
	! grep -e 'ptah record' -e '--truth' verify.txt || fail "$recorder: advice that was followed"
done

# A program that it cannot follow is recorded by qemu from its beginning, unless QEMU cannot run it
# either, or would need the machine's memory for it: then it goes on untraced.
"$CC" -std=c11 -D_GNU_SOURCE -O1 -pthread -o leaves "$programs/../native/programs/leaves.c" ||
	fail "leaves.c"
# leaves STATUS NOTE ARGUMENTS...
leaves()
{
	expected=$1
	note=$2
	shift 2
	rm -f perf.data perf.data.old
	status=0
	"$PTAH" record --truth -- "$@" >recorded.txt 2>said.txt || status=$?
	[ $status = "$expected" ] || fail "$*: status $status: $(cat said.txt)"
	"$PTAH" stat >stat.txt 2>&1 || fail "$*: $(cat stat.txt)"
	grep -q "^note: .*$note" stat.txt || fail "$*: $(cat stat.txt said.txt)"
	exact
}
leaves 5 'recorded by qemu, not by native: .*GS' ./leaves gs
leaves 5 'recorded by qemu, not by native: .*GS' ./leaves threads
leaves 5 'runs on untraced: .*ptrace' ./leaves ptrace
leaves 5 'runs on untraced: .*GS' ./leaves reserved

# A program that writes its code through a second mapping is never recorded by qemu, which would run
# old code: native goes on, or lets it go on untraced.
build aliases
for how in writable-first executable-first protected refused; do
	rm -f perf.data perf.data.old
	"$PTAH" record --truth -- ./aliases $how >recorded.txt 2>said.txt || fail "$how: $(cat said.txt)"
	[ "$(cat recorded.txt)" = right ] || fail "$how: $(cat recorded.txt said.txt)"
	exact
	! grep -q qemu said.txt || fail "$how: $(cat said.txt)"
done

# Natively there is a PSB as often as was asked for, at least.
rm -f perf.data
"$PTAH" record --truth --psb-period=4096 -- awk 'BEGIN { for (i = 0; i < 99999; i++) s += i % 7; print s }' \
	>recorded.txt 2>said.txt || fail "PSBs: $(cat said.txt)"
exact
"$PTAH" stat --format=json perf.data >stat.json
python3 - <<'END' || fail "PSBs: $(cat stat.json)"
import json
stat = json.load(open("stat.json"))
assert stat["bytes"] > 16384 and stat["packets"]["psb"] >= stat["bytes"] // 4096, stat
END
