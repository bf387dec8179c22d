#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah calls: a program of which each call's instructions are known. f runs 2 n + 1 instructions for
# n = 1 to 1000, and g, which calls it for odd n, 2 more.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need qemu-x86_64
need "${CC:-cc}"

cat >program.s <<'END'
	.globl _start
	.type _start, @function
_start:	xor %ebx, %ebx
1:	inc %ebx
	mov %ebx, %ecx
	test $1, %bl
	jz 2f
	call g
	jmp 3f
2:	call f
3:	cmp $1000, %ebx
	jb 1b
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type f, @function
f:	dec %ecx
	jnz f
	ret
	.size f, . - f
	.type g, @function
g:	call f
	ret
	.size g, . - g
END
"${CC:-cc}" -nostdlib -static -no-pie -o program program.s
"$PTAH" record --recorder=qemu -e intel_pt/mtc=1,cyc=1/u -o c.data -- ./program 2>/dev/null

# row FUNCTION: what the table has of it, without object and address
row() {
	awk -F '\t' -v f="$1" '$11 == f' out | cut -f 1-9 | tr '\t' ' '
}
expect 0 "$PTAH" calls -i c.data --format=tsv
equal "columns" "$(head -1 out | tr '\t' ' ')" \
	"calls partial total self min p50 p90 p99 max object function ip"
python3 - <<'END' || fail "$(cat out)"
rows = [line.rstrip("\n").split("\t") for line in open("out")][1:]
rows = {r[10]: r for r in rows}
def check(name, totals, own):
    r = rows[name]
    assert r[0] == str(len(totals)) and r[1] == "0", r
    assert int(r[2]) == sum(totals) and int(r[3]) == own, r
    assert int(r[4]) == min(totals) and int(r[8]) == max(totals), r
    for column, q in ((5, 0.5), (6, 0.9), (7, 0.99)):
        exact = sorted(totals)[round(q * len(totals)) - 1]
        assert abs(int(r[column]) - exact) <= 0.01 * exact + 1, (name, q, r, exact)
f = [2 * n + 1 for n in range(1, 1001)]
check("f", f, sum(f))
check("g", [x + 2 for x in f[::2]], 1000)
s = rows["_start"]
# It begins with its first instruction, and does not end in the trace.
assert s[0] == "1" and s[1] == "1" and s[4] == "", s
END
expect 0 "$PTAH" calls -i c.data --format=json g
equal "g alone" "$(json '[f["function"] for f in d["functions"]]')" "['g']"
expect 0 "$PTAH" calls -i c.data --sort=calls -n 1 --format=tsv
equal "sorted by calls" "$(tail -1 out | cut -f 1,11 | tr '\t' ' ')" "1000 f"

# f has two callers; what they had of it.
expect 0 "$PTAH" calls -i c.data --callers=f --format=tsv
equal "callers" "$(tail -n +2 out | cut -f 2-4,6 | tr '\t\n' ' ;')" \
	"500 501500 501500 _start;500 500500 500500 g;"
expect 0 "$PTAH" calls -i c.data --callees=g --format=tsv
equal "callees" "$(tail -n +2 out | cut -f 2-4,6 | tr '\t\n' ' ;')" "500 500500 500500 f;"

# Single calls: the longest of g is that of n = 999.
expect 0 "$PTAH" calls -i c.data --of=g --slowest=3 --format=json
equal "slowest" "$(json '[(c["total"], c["self"], c["callees"][0]["function"],
	c["callees"][0]["total"]) for c in d["calls"]]')" \
	"[(2001, 2, 'f', 1999), (1997, 2, 'f', 1995), (1993, 2, 'f', 1991)]"
equal "of so many" "$(json 'd["count"], d["partial"]')" "500 0"
expect 0 "$PTAH" calls -i c.data --of=f --slowest=2 --format=tsv
equal "caller" "$(tail -n +2 out | cut -f 5-7 | tr '\t\n' ' ;')" \
	"2001 2001 _start+0x12;1999 1999 g;"
# An instruction takes a nanosecond of the recorder's clock.
expect 0 "$PTAH" calls -i c.data --of=f --slowest=1 --value=time --format=json
json '1980 <= d["calls"][0]["total"] <= 2020' | grep -q True || fail "time: $(cat out)"
json '0.0009 < d["calls"][0]["time_s"] < 0.0011' | grep -q True || fail "begin: $(cat out)"
expect 0 "$PTAH" calls -i c.data --value=time --format=tsv f
awk -F '\t' 'NR == 2 { exit !($3 > 980000 && $3 < 1020000) }' out || fail "time of f: $(cat out)"

# A call that has not ended is shown with what it took so far: here the whole program.
expect 0 "$PTAH" calls -i c.data --format=json _start
whole=$(json 'd["functions"][0]["total"]')
expect 0 "$PTAH" calls -i c.data --of=_start --format=json
equal "not ended" "$(json 'd["count"], d["partial"], [(c["total"], c["ended"]) for c in d["calls"]]')" \
	"1 1 [($whole, False)]"
expect 0 "$PTAH" calls -i c.data --of=_start
grep -q '^[0-9,]* instructions .*, has not ended$' out || fail "not ended: $(cat out)"
expect 0 "$PTAH" calls -i c.data --of=g --slowest=1 --format=json
equal "ended" "$(json 'd["calls"][0]["ended"]')" True

# script --function: what ran in it, and with --calls below it. f leaves by a taken jump n - 1 times
# and by its return.
for mode in '' --branches --calls; do
	# shellcheck disable=SC2086 # a mode or none
	expect 0 "$PTAH" script -q c.data --function=g --format=tsv $mode
	equal "rows of g $mode" "$(tail -n +2 out | wc -l)" "$([ "$mode" = --calls ] && echo 2000 || echo 1000)"
done
expect 0 "$PTAH" script -q c.data --function=f --format=tsv --branches
equal "branches of f" "$(tail -n +2 out | wc -l)" 500500
expect 1 "$PTAH" script -q c.data --function=absent --blocks

# A window: the call that runs where it begins has no beginning, and is in no percentile.
expect 0 "$PTAH" calls -i c.data --since=@1000000 --format=tsv g
equal "partial" "$(tail -1 out | cut -f 1-3 | tr '\t' ' ' | sed 's/ [0-9]*$//')" "2 1"

expect 1 "$PTAH" calls -i c.data absent
grep -q 'no function "absent" ran' err || fail "$(cat err)"
expect 2 "$PTAH" calls -i c.data --of=f --callers=g
expect 2 "$PTAH" calls -i c.data --slowest=3
"$PTAH" record --recorder=qemu -o plain.data -- ./program 2>/dev/null
expect 1 "$PTAH" calls -i plain.data --value=cycles
grep -q 'intel_pt/cyc' err || fail "$(cat err)"

# Two functions of one name in one program (static ones of two files) have a row each.
cat >one.s <<'EOF'
	.globl _start
_start:	call twin
	call twin
	call two
	mov $60, %eax
	xor %edi, %edi
	syscall
	.type twin, @function
twin:	ret
	.size twin, . - twin
EOF
cat >two.s <<'EOF'
	.globl two
	.type two, @function
two:	call twin
	ret
	.size two, . - two
	.type twin, @function
twin:	nop
	ret
	.size twin, . - twin
EOF
"${CC:-cc}" -nostdlib -static -no-pie -o twins one.s two.s
"$PTAH" record --recorder=qemu -o twins.data -- ./twins 2>/dev/null
expect 0 "$PTAH" calls -i twins.data --format=tsv --sort=calls twin
equal "functions of one name" "$(tail -n +2 out | cut -f 1,3,11 | tr '\t\n' ' ;')" \
	"2 2 twin;1 2 twin;"
equal "the program as its path" "$(tail -n +2 out | cut -f 10 | sort -u)" "$PWD/twins"

# A recording in the place of a function is named as such.
expect 2 "$PTAH" calls twins.data
grep -q '\-i twins.data' err || fail "$(cat err)"
expect 1 "$PTAH" calls -i twins.data c.data
grep -q '\-i c.data' err || fail "$(cat err)"

# A function is found by each of the names that it has in its file.
cat >three.s <<'EOF'
	.globl _start, _fork, fork
_start:	call _fork
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type _fork, @function
	.type fork, @function
_fork:
fork:	nop
	ret
	.size _fork, . - _fork
	.size fork, . - fork
EOF
"${CC:-cc}" -nostdlib -static -no-pie -o aliases three.s
"$PTAH" record --recorder=qemu -o aliases.data -- ./aliases 2>/dev/null
for name in fork _fork; do
	expect 0 "$PTAH" calls -i aliases.data --format=tsv $name
	equal "calls of $name" "$(tail -n +2 out | cut -f 1,3 | tr '\t\n' ' ;')" "1 2;"
	expect 0 "$PTAH" calls -i aliases.data --callers=$name --format=tsv
	equal "callers of $name" "$(tail -n +2 out | cut -f 2,6 | tr '\t\n' ' ;')" "1 _start;"
	expect 0 "$PTAH" annotate --no-source -i aliases.data --format=tsv $name
	equal "instructions of $name" "$(tail -n +2 out | wc -l)" 2
	for command in report 'report -g' 'profile --by=functions' script; do
		# shellcheck disable=SC2086 # a command with its options
		expect 0 "$PTAH" $command --function=$name --format=tsv aliases.data
		equal "$command of $name" "$(tail -n +2 out | wc -l)" \
			"$([ "$command" = script ] && echo 2 || echo 1)"
	done
done

# On a terminal of 80 columns, the table fits, and holds the same as elsewhere.
python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 80 -- "$PTAH" calls --no-pager --color=never \
	-i c.data >terminal || fail "terminal: $(cat terminal)"
expect 0 "$PTAH" calls -i c.data
equal "longest line" "$(awk '!/^#/ && length > 80' terminal)" ""
equal "table" "$(tr -d '\r' <terminal | tr -s ' ' | sed 's/^ //')" "$(tr -s ' ' <out | sed 's/^ //')"

# Recursion that is deeper than calls are followed is said: its calls are not all counted.
cat >deep.s <<'END'
	.globl _start
	.type _start, @function
_start:	mov $135000, %ebx
	call deep
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type deep, @function
deep:	dec %ebx
	jz 1f
	call deep
1:	ret
	.size deep, . - deep
END
"${CC:-cc}" -nostdlib -static -o deep deep.s
record deep.data ./deep
for options in deep --of=deep; do
	expect 0 "$PTAH" calls -i deep.data $options
	grep -q '^note: calls with more than 131072 callers were not followed' err || fail "$options: $(cat err)"
done
