#!/bin/sh
# SPDX-License-Identifier: MIT
# Records a program whose counts are known, and compares what every command shows.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need "${CC:-cc}"

# leaf is entered 1000 times by a call and 300 times by a jump from `tail`, which is
# itself called. It is assembly, so that no compiler changes that.
cat >program.s <<'END'
	.globl _start
	.type _start, @function
_start:	mov $1000, %ebx
1:	call leaf
	dec %ebx
	jnz 1b
	mov $300, %ebx
2:	call tail
	dec %ebx
	jnz 2b
	mov $231, %eax
	mov $7, %edi
	syscall
	.size _start, . - _start
	.type leaf, @function
leaf:	mov $5, %ecx
1:	dec %ecx
	jnz 1b
	ret
	.size leaf, . - leaf
	.type tail, @function
tail:	nop
	jmp leaf
	.size tail, . - tail
END
# leaf: 1 + 5 * 2 + 1 = 12 instructions, 1300 times; tail: 2, 300 times;
# _start: 1 + 1000 * 3 + 1 + 300 * 3 + 3.
leaf=15600 tail=600 start=3905 total=20105
"${CC:-cc}" -nostdlib -static -no-pie -o program program.s

need qemu-x86_64
status=0
"$PTAH" record --recorder=qemu -o r.data -- ./program 2>closing || status=$?
equal "exit status passed through" "$status" 7
grep -q " $total instructions, 1 thread " closing || fail "closing line: $(cat closing)"

expect 0 "$PTAH" verify --all r.data
tr -d , <out | grep -q "$total instructions.*: equal" || fail "verify: $(cat out)"
expect 0 "$PTAH" verify --all --format=json r.data
equal "verify" "$(json "d['equal'], d['threads'][0]['decoded']['instructions']")" "True $total"

expect 0 "$PTAH" report --limit=0 --format=json r.data
equal "functions" "$(json "sorted((f['function'], f['instructions'], f['calls']) for f in d['functions'])")" \
	"[('_start', $start, 1), ('leaf', $leaf, 1300), ('tail', $tail, 300)]"
equal "total" "$(json "d['instructions']")" "$total"
grep -q '"command": ".*\./program' out || fail "report does not tell what ran"
expect 0 "$PTAH" report r.data
grep -q '^ *77\.59% *15,600 *1,300 *program *leaf$' out || fail "report: $(cat out)"
expect 0 "$PTAH" report --limit=1 --sort=calls --format=tsv r.data
equal "rows" "$(wc -l <out)" 2
equal "most calls" "$(awk -F '\t' 'NR == 2 { print $5 }' out)" leaf
expect 0 "$PTAH" report --blocks --limit=0 --format=json r.data
equal "blocks add up" "$(json "sum(b['instructions'] for b in d['hottest_blocks'])")" "$total"
# The inner jnz is taken four times of five, so the block "dec; jnz" begins at dec.
equal "the loop" "$(json "[b['executions'] for b in d['hottest_blocks'] if b['symbol'] == 'leaf'
	and b['offset'] == 5]")" "[5200]"

expect 0 "$PTAH" stat --format=json r.data
equal "branches" "$(json "[d['branches'][k] for k in ('conditional', 'jump', 'call', 'return')]")" \
	"[7800, 300, 1300, 1300]"
equal "instructions" "$(json "d['instructions'], d['errors'], d['overflows']")" "$total 0 0"

expect 0 "$PTAH" script r.data
equal "lines" "$(wc -l <out)" "$total"
equal "first" "$(sed -n '1s/.*\t//p' out)" "mov ebx, 0x3e8"
equal "last" "$(sed -n '$s/.*\t//p' out)" "syscall"
# objdump decides which instruction is at which address.
if command -v objdump >/dev/null; then
	objdump -d program | sed -n 's/^ *\([0-9a-f]*\):\t.*/\1/p' | sort -u >wanted
	awk '{ print $3 }' out | sort -u >got
	diff wanted got || fail "addresses"
fi
expect 0 "$PTAH" script --format=json r.data
equal "in JSON" "$(json "len(d['instructions']), d['instructions'][1]['symbol']")" "$total _start+0x5"
expect 0 "$PTAH" script --format=tsv r.data
equal "in TSV" "$(awk -F '\t' 'NR > 1 && NF == 4' out | wc -l)" "$total"
expect 0 "$PTAH" script --branches r.data
# Taken: 4 of 5 inner jnz, all outer ones but the last, jumps, calls, returns; and the begin and end
# of tracing.
equal "branches taken" "$(wc -l <out)" $((1300 * 4 + 999 + 299 + 300 + 1300 + 1300 + 2))
expect 0 "$PTAH" script --blocks --format=json r.data
equal "blocks" "$(json "sum(b['instructions'] for b in d['blocks'])")" "$total"
expect 0 "$PTAH" script --calls r.data
how() { # WORD FUNCTION: how often a call of it began or ended so
	grep -c "^program [0-9]* $1 .* $2 (" out || :
}
equal "calls" "$(how call leaf) $(how call tail) $(how jump leaf)" "1000 300 300"
equal "returns" "$(how return leaf) $(how return tail) $(how tail tail)" "1300 0 300"
equal "the outermost call" "$(how call _start) $(how trace-end _start)" "1 1"
expect 0 "$PTAH" script --events --blocks r.data
grep -q '# enabled' out || fail "no events"
expect 0 "$PTAH" script --time r.data
grep -q '^program [0-9]* 0\.[0-9]\{9\}: ' out || fail "no time: $(head -1 out)"
expect 0 "$PTAH" script --no-symbols r.data
grep -q leaf out && fail "--no-symbols has symbols"

tid=$(sed -n '1s/^program \([0-9]*\) .*/\1/p' out)
expect 0 "$PTAH" stat --tid="$tid" --format=json r.data
equal "one thread" "$(json "d['instructions']")" "$total"
expect 1 "$PTAH" stat --tid=1 r.data
grep -q 'no stream of thread 1' err || fail "$(cat err)"

expect 0 "$PTAH" dump --format=json r.data
equal "dump" "$(json "d['streams'][0]['packets'][0]['packet']")" PSB
expect 0 "$PTAH" dump r.data
equal "no bad packets" "$(grep -c bad out)" 0

# A name that contains control characters neither moves the cursor nor adds a row.
odd=$(printf 'ab\t\033[2Jc')
cp program "$odd"
status=0
"$PTAH" record --recorder=qemu -o odd.data -- "./$odd" 2>/dev/null || status=$?
equal "exit status" "$status" 7
expect 0 "$PTAH" script odd.data
equal "lines" "$(wc -l <out)" "$total"
expect 0 "$PTAH" report --limit=0 --format=tsv odd.data
equal "rows" "$(wc -l <out)" 4
equal "cells" "$(awk -F '\t' 'NF != 6' out)" ""
for command in script report stat verify; do
	expect 0 "$PTAH" $command odd.data
	if grep -q "$(printf '\033')" out err; then
		fail "$command obeys a file's name"
	fi
done
