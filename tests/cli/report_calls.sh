#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah report by calls: trees, pairs and sums of a program whose calls are known by construction.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

# main calls outer(1) to outer(7) and fact(5) twice; a second thread calls outer(10).
cat >calls.c <<'END'
#include <pthread.h>
#define FUNCTION __attribute__((noinline, noclone))
#define STAY __asm__ volatile("" ::: "memory")
volatile unsigned sink;
FUNCTION static void leaf(void) { sink++; STAY; }
FUNCTION static void middle(void) { for (int i = 0; i < 3; i++) leaf(); STAY; }
FUNCTION static void outer(int n) { for (int i = 0; i < n; i++) middle(); leaf(); leaf(); STAY; }
FUNCTION static unsigned fact(unsigned n)
{
	unsigned r = n < 2 ? 1 : fact(n - 1) * n;

	STAY;
	return r;
}
FUNCTION static unsigned deep(unsigned n) { unsigned r = n ? deep(n - 1) + 1 : 0; STAY; return r; }
static void *thread(void *nothing) { outer(10); return nothing; }
int main(void)
{
	pthread_t other;

	for (int i = 1; i <= 7; i++)
		outer(i);
	sink += fact(5);
	sink += fact(5);
	sink += deep(2000);
	pthread_create(&other, 0, thread, 0);
	pthread_join(other, 0);
	return 0;
}
END
"$CC" -O1 -g -pthread -o calls calls.c
record data "$PWD/calls"

# rows FILE: the document's rows as "calls percent function caller"; a tree's as paths.
rows() {
	python3 - "$@" <<'END'
import json, sys
d = json.load(open('out'))
paths = {0: ''}
for n in d.get('nodes', []):
    paths[n['row']] = paths[n['parent']] + '/' + str(n['function'])
    print(n['calls'], n['instructions'], n['self_instructions'], paths[n['row']])
for n in d.get('rows', []):
    print(n['calls'], n['instructions'], n['self_instructions'], n.get('function'), n.get('caller', ''))
END
}
count() { awk -v f="$1" -v c="${2-}" '$4 == f && $5 == c { n += $1 } END { print n + 0 }' list; }

# By function: outer 7 + 1, middle 28 + 10, leaf 3 * 38 + 2 * 8.
expect 0 "$PTAH" report --sort=function --format=json data
rows >list
equal "instructions" "$(json 'd["instructions"]')" "$recorded"
equal "self instructions" "$(json 'sum(r["self_instructions"] for r in d["rows"])')" "$recorded"
for want in main:1 outer:8 middle:38 leaf:130 fact:10 deep:2001 thread:1; do
	equal "calls of ${want%:*}" "$(count "${want%:*}")" "${want#*:}"
done

expect 0 "$PTAH" report --sort=function --format=json --limit=3 data
equal "rows with a limit" "$(json 'len(d["rows"])')" 3

# By caller. A pair's inclusive instructions are without nested calls of the function.
expect 0 "$PTAH" report --sort=function,caller --format=json data
rows >list
for want in leaf:middle:114 leaf:outer:16 middle:outer:38 outer:main:7 outer:thread:1 fact:fact:8 \
	fact:main:2 deep:main:1; do
	pair=${want%:*}
	equal "calls of ${pair%:*} by ${pair#*:}" "$(count "${pair%:*}" "${pair#*:}")" "${want##*:}"
done
equal "fact in fact" "$(awk '$4 == "fact" && $5 == "fact" { print $2 }' list)" 0
equal "self instructions of pairs" \
	"$(json 'sum(r["self_instructions"] for r in d["rows"])')" "$recorded"

# A call through the PLT is one of the function itself, unless stubs are to be shown.
equal "pthread_create by main" "$(awk '$4 ~ /^_*pthread_create/ { print $5 }' list)" main
expect 0 "$PTAH" report --stubs --sort=function,caller --format=json data
rows >list
equal "its stub by main" "$(awk '$4 ~ /^_*pthread_create.*@plt/ { print $5 }' list)" main

# The tree: each path's calls, and what ran is what its functions and those below it ran.
expect 0 "$PTAH" report -g --format=json data
rows >list
tree=$(awk '$4 ~ /\/main\/outer\/middle\/leaf$/ { print $1 }' list)
equal "leaf in middle in outer in main" "$tree" 84
equal "leaf in outer in thread" "$(awk '$4 ~ /\/thread\/outer\/leaf$/ { print $1 }' list)" 2
equal "fact four levels deep" "$(awk '$4 ~ /main\/fact\/fact\/fact\/fact$/ { print $1 }' list)" 2
equal "the deepest" "$(awk '{ n = gsub(/\/deep/, "") } n > most { most = n } END { print most }' list)" 2001
equal "self instructions of the tree" "$(json 'sum(n["self_instructions"] for n in d["nodes"])')" \
	"$recorded"
json 'all(n["instructions"] == n["self_instructions"] + sum(m["instructions"] for m in kids.get(n["row"], [])) for kids in [{}] for x in [[kids.setdefault(m["parent"], []).append(m) for m in d["nodes"]]] for n in d["nodes"])' >sums
equal "sums of the tree" "$(cat sums)" True

# From a function to its callers, by what ran in the function.
expect 0 "$PTAH" report -gcallee --format=json data
rows >list
equal "leaf from middle" "$(awk '$4 == "/leaf/middle" { print $1 }' list)" 114
equal "leaf from outer in thread" "$(awk '$4 == "/leaf/outer/thread" { print $1 }' list)" 2
equal "self instructions upward" "$(json 'sum(n["self_instructions"] for n in d["nodes"])')" \
	"$recorded"

# As text: a percentage hides what is rarer, in one line with its sum, and calls of one function
# stand below each other, however deep.
expect 0 "$PTAH" report -gcaller,20 data
grep -q '^ *[0-9.]*% .*--_start' out || fail "no root: $(cat out)"
grep -q '^ *[0-9.]*% .*[a-z_].*  \[[0-9]* more: [0-9.]*%\]$' out || fail "nothing is hidden: $(cat out)"
grep -q '^ *[0-9.]*% .*`--\[[0-9]* more\]$' out || fail "no line for what is hidden: $(cat out)"
! grep -q 'leaf' out || fail "leaf has 20 %: $(cat out)"
expect 0 "$PTAH" report -g --percent-limit=0 data
equal "lines of deep" "$(grep -c ' deep$\|--deep$' out)" 2001
[ "$(wc -L <out)" -lt 300 ] || fail "recursion moves to the right: $(wc -L <out) columns"
expect 0 "$PTAH" report -gcallee --limit=2 data
equal "functions of two" "$(grep -c '^ *[0-9.]*% .*[0-9]  |--[a-z_]' out)" 2

# The value may stand alone, with perf's words; a file of that name is a file.
expect 0 "$PTAH" report -g --percent-limit=1 data
mv out wanted
expect 0 "$PTAH" report -g graph,1,caller data
cmp wanted out || fail "-g graph,1,caller"
expect 0 "$PTAH" report -gcallee data
mv out wanted
expect 0 "$PTAH" report -g callee data
cmp wanted out || fail "-g callee"
cp data callee
expect 0 "$PTAH" report -g callee
grep -q 'calls  function$' out || fail "a file named callee: $(head -3 out)"

# By thread: what the second one did is its own.
expect 0 "$PTAH" report --by=thread --sort=function --format=json data
equal "outer by thread" "$(json 'sorted(r["calls"] for r in d["rows"] if r["function"] == "outer")')" \
	'[1, 7]'
expect 0 "$PTAH" report --by=process -g data
equal "processes" "$(grep -c '^# process' out)" 1

# By CPU: two raw traces, in which a function at 0x401000 calls the one at 0x401010 n times and
# returns: CALL; DEC ECX; JNZ; RET. Each round executes the call, RET, DEC and JNZ.
printf '\350\013\000\000\000\377\311\165\367\303\220\220\220\220\220\220\303' >code
make_trace() { # NAME ROUNDS
	{
		printf 'PSB\nMODE.Exec 64-bit\nPSBEND\nTIP.PGE 0x401000\n'
		i=1
		while [ $i -lt "$2" ]; do
			printf 'TNT TT\n'
			i=$((i + 1))
		done
		printf 'TNT TN\nFUP 0x401009\nTIP.PGD\n'
	} >text
	expect 0 "$PTAH" asm -o "$1" text
}
make_trace five 5
make_trace three 3
expect 0 "$PTAH" report --by=cpu --sort=function --format=json --pt=five,cpu=0 --pt=three,cpu=2 \
	--raw=code:401000
equal "calls by CPU" "$(json '[(r["cpu"], r["calls"]) for r in d["rows"] if r["ip"] == "0x401010"]')" \
	'[(0, 5), (2, 3)]'
equal "instructions by CPU" \
	"$(json '[sum(r["self_instructions"] for r in d["rows"] if r["cpu"] == c) for c in (0, 2)]')" \
	'[20, 12]'
expect 2 "$PTAH" report --by=cpu data

# By object: the sum is that of all.
expect 0 "$PTAH" report --sort=object --format=json data
equal "self instructions of objects" \
	"$(json 'sum(r["self_instructions"] for r in d["rows"])')" "$recorded"
equal "objects" "$(json 'sorted(r["object"].split("/")[-1].split(".")[0].split("-")[0] for r in d["rows"])')" \
	"['calls', 'ld', 'libc']"

# By source file and line: that of a function is where the source declares it.
expect 0 "$PTAH" report --sort=function,line --format=json data
for function in leaf middle outer fact deep main; do
	line=$(grep -n "^FUNCTION static [a-z]* $function(\|^int $function(" calls.c | cut -d: -f1)
	equal "line of $function" "$line" \
		"$(json "[str(r['line']) for r in d['rows'] if r['function'] == '$function'][0]")"
done
expect 0 "$PTAH" report --sort=file --format=json data
equal "self instructions of files" \
	"$(json 'sum(r["self_instructions"] for r in d["rows"])')" "$recorded"
equal "files" "$(json 'sum(str(r["file"]).endswith("/calls.c") for r in d["rows"])')" 1
expect 0 "$PTAH" report --sort=line data
grep -q '/calls\.c:[0-9]*$' out || fail "no line: $(cat out)"

# Saved calls give the same tree, with the kind of its times, and twice the same twice as much; other
# counts have none.
expect 0 "$PTAH" profile --save=saved --calls data
expect 0 "$PTAH" report -g --format=tsv data
head -1 out | grep -q '	times$' || fail "no kind of times: $(head -1 out)"
cp out wanted
expect 0 "$PTAH" report -g --format=tsv saved
cmp wanted out || fail "saved calls differ"
expect 0 "$PTAH" report --sort=function,caller --format=json saved saved
rows >list
equal "leaf by middle, twice" "$(count leaf middle)" 228
expect 0 "$PTAH" profile --save=counts data
expect 1 "$PTAH" report -g counts
grep -q 'profile --save=FILE --calls' err || fail "counts without calls: $(cat err)"
expect 2 "$PTAH" report --by=thread saved
expect 2 "$PTAH" profile --calls data

# Saved calls keep what kind their times are, also when they are merged.
expect 0 "$PTAH" merge -o merged saved saved
for file in saved merged; do
	expect 0 "$PTAH" report --value=time --sort=function $file
	grep -q '^# times: simulated' out || fail "$file: no kind of time: $(head -5 out)"
	expect 0 "$PTAH" report --value=time --sort=function --format=json $file
	json 'd["times"]' >kind
	equal "$file: kind of time" "$(cat kind)" simulated
done

# What the recording has not is said, with the option that records it.
expect 1 "$PTAH" report --value=cycles data
grep -q 'intel_pt/cyc/' err || fail "no cycles: $(cat err)"
expect 0 "$PTAH" report --value=time data
grep -q 'note: the times are simulated' err || fail "simulated times: $(cat err)"

# The recorder's clock counts instructions: time is in proportion to them, where it is fine.
"$PTAH" record --recorder=qemu -e intel_pt/cyc,mtc/u -o timed -- "$PWD/calls" 2>closing >recorded-out
expect 0 "$PTAH" report --value=time --sort=function --format=json timed
grep -q 'note: the times are simulated' err || fail "simulated times: $(cat err)"
json 'd["times"]' >kind
equal "kind of time" "$(cat kind)" simulated
json '[r["seconds"] / r["instructions"] * d["instructions"] / d["seconds"] for r in d["rows"] if r["function"] == "deep"][0]' >ratio
awk '{ exit !($1 > 0.95 && $1 < 1.05) }' ratio || fail "time of deep to its instructions: $(cat ratio)"

! "$PTAH" calls -q --value=time -i timed | grep -q '~' || fail "times with CYC packets are no estimates"

# With MTC packets alone a call that lies between two of them has an estimated time.
"$PTAH" record --recorder=qemu -e intel_pt/mtc/u -o rough -- "$PWD/calls" 2>closing >recorded-out
"$PTAH" calls -q --value=time -i rough | grep -q '~.*_dl_start' || fail "no mark with MTC packets alone"

# Senseless command lines.
expect 2 "$PTAH" report -gup data
expect 2 "$PTAH" report -gcaller,101 data
expect 2 "$PTAH" report --sort=nothing data
expect 2 "$PTAH" report -g --blocks data
expect 2 "$PTAH" report -g --percent-limit=x data
for words in fractal folded,0.5,callee none; do # of perf's, and no files
	expect 2 "$PTAH" report -g $words data
	grep -q -- "--call-graph=$words: it takes caller .*or callee " err || fail "$(cat err)"
done
expect 2 "$PTAH" report --percent-limit=1 data

# One function: of calls with what it called, elsewhere what ran in it.
expect 0 "$PTAH" report -g --function=outer --format=json data
rows >list
equal "paths below outer" "$(awk '$4 ~ /^\/outer/ { n += $1 } END { print n }' list)" $((8 + 38 + 114 + 16))
equal "other paths" "$(awk '$4 !~ /^\/outer/ && $4 != ""' list)" ""
equal "partial calls of outer" "$(json 'd["partial_calls"]')" 0
equal "instructions of outer" "$(json 'd["instructions"]')" \
	"$(awk '$4 ~ /^\/outer/ { n += $3 } END { print n }' list)"
expect 0 "$PTAH" report --function=leaf --format=tsv data
equal "leaf alone" "$(awk -F '\t' 'NR > 1 { print $3, $5 }' out)" "130 leaf"
expect 0 "$PTAH" profile --function=outer --format=tsv data
equal "branches elsewhere" "$(awk -F '\t' 'NR > 1 && $7 !~ /^outer/' out)" ""
# The loop's last branch: once each round, not taken at the end of each call.
awk -F '\t' 'NR > 1 && $4 == 38 && $5 == 30 { found = 1 } END { exit !found }' out ||
	fail "branches of outer: $(cat out)"
expect 0 "$PTAH" cover --function=outer data
equal "edges elsewhere" "$(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "symbol") s = i }
	NR > 1 && $s !~ /^outer/' out)" ""
[ "$(wc -l <out)" -gt 2 ] || fail "cover --function: $(cat out)"
for command in "report -g" report profile cover; do
	# shellcheck disable=SC2086 # two words
	expect 1 "$PTAH" $command --function=nobody data
	grep -q 'no function "nobody" ran' err || fail "$command: $(cat err)"
done

# Symbols that are none of code, absolute ones and those of other sections (as LTO leaves), do not cut
# a function whose addresses their values look like.
middle=$((0x$(nm calls | sed -n 's/ t deep$//p') + 4))
objcopy --add-symbol "of_comment=.comment:$middle,weak" calls other_section
"$CC" -O1 -g -pthread -Wl,--defsym="absolute=$middle" -o absolute calls.c
rows_of_deep() {
	"$PTAH" report --limit=0 --format=tsv "$1" | awk -F '\t' '$5 == "deep" || $5 ~ /absolute|of_comment/ { print $2, $3, $5 }'
}
for program in absolute other_section; do
	nm $program | grep -qiE " [awv] (absolute|of_comment)$" || fail "$program has no such symbol: $(nm $program)"
	record $program.data "$PWD/$program"
	equal "deep in $program" "$(rows_of_deep $program.data)" "$(rows_of_deep data)"
done
