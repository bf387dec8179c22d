#!/bin/sh
# SPDX-License-Identifier: MIT
# Code that changed while it ran: what was counted belongs to the code as it was then, and all
# commands agree on it. How often each function was called is known from versions.c.
. "$PTAH_SOURCE/tests/cli/common.sh"

need qemu-x86_64
need python3
${CC:-cc} -O1 -o versions "$PTAH_SOURCE/tests/cli/versions.c"
for name in one two; do
	cat >$name.s <<END
	.globl $name
	.type $name, @function
$name:	call inner_$name
	call inner_$name
	ret
	.size $name, .-$name
	.type inner_$name, @function
inner_$name: nop
	ret
	.size inner_$name, .-inner_$name
	.section .note.GNU-stack,"",@progbits
END
	${CC:-cc} -shared -nostdlib -o $name.so $name.s
done
offset_of() { nm "$1.so" | awk -v f="$1" '$3 == f { print $1 }'; }

# calls_of FILE...: "FUNCTION CALLS" for each function of the program, as saved counts, a merge of
# them, or a recording have it.
of_counts() {
	"$PTAH" profile -q --by=functions --limit=0 --format=tsv "$@" | cut -f 3,5 |
		awk -F '\t' '{ print $2, $1 }'
}
of_report() {
	"$PTAH" report -q --limit=0 --format=tsv "$@" | cut -f 3,5 | awk -F '\t' '{ print $2, $1 }'
}
# Indirect calls, and what the direct calls of blocks went to.
of_edges() {
	"$PTAH" profile -q --by=edges --limit=0 --format=json "$@" >out
	python3 - <<'END'
import collections, json
calls = collections.Counter()
for e in json.load(open("out"))["edges"]:
    if e["class"] == "indirect-call" and "+" not in e["to_symbol"]:
        calls[e["to_symbol"]] += e["count"]
for name, n in calls.items():
    print(name, n)
END
}
of_callgrind() {
	"$PTAH" export -q --to=callgrind -o out.callgrind "$@"
	python3 - <<'END'
import collections, re
names, calls, name = {}, collections.Counter(), None
for line in open("out.callgrind"):
    m = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
    if m and m.group(2):
        names[m.group(1)] = m.group(2).strip()
    if line.startswith("cfn="):
        name = names[m.group(1)]
    elif line.startswith("calls="):
        calls[name] += int(line[6:].split()[0])
for name, n in calls.items():
    print(name, n)
END
}
# check WHAT GOT FUNCTION:CALLS...
check() {
	what=$1
	got=$2
	shift 2
	for f; do
		equal "$what: calls of ${f%:*}" \
			"$(awk -v f="${f%:*}" '$1 == f { n += $2 } END { print n + 0 }' "$got")" "${f#*:}"
	done
}

# A stub whose call was patched twice.
record patch.data ./versions
pid=$(sed -n 1p recorded-out)
rm -f "/tmp/perf-$pid.map"
set -- stub:523 target_a:23 target_b:500 caller:9 called:9
of_report patch.data >got
check report got "$@"
of_counts patch.data >got
check profile got "$@"
"$PTAH" calls -q -i patch.data --limit=0 --format=json >out
python3 - >got <<'END'
import json
for f in json.load(open("out"))["functions"]:
    print(f["function"], f["calls"])
END
check calls got "$@"
of_callgrind -i patch.data >got
check callgrind got "$@"
of_edges patch.data >got
check "profile by edges" got stub:523 caller:9 called:9
"$PTAH" profile -q --save=patch.counts patch.data >/dev/null
of_counts patch.counts >got
check "saved counts" got "$@"

# Each version has its own instructions and counts: the call went to where it goes in that version.
"$PTAH" annotate -q -i patch.data stub >out
equal "counts of the versions' calls" "$(awk '/call / { print $1 == "*" ? $2 : $1, $NF }' out |
	sort | paste -sd ' ')" "20 <target_a> 3 <target_a> 500 <target_b>"
equal "versions that were replaced" "$(grep -c '^stub.*until' out)" 2
equal "versions that replaced others" "$(grep -c '^stub.*since' out)" 2

# Calls from generated code stay when runs are added up, and double when they are added twice.
"$PTAH" merge -q -o merged.counts patch.counts
of_counts merged.counts >got
check "merged counts" got called:9 target_a:23 target_b:500
"$PTAH" merge -q -o merged.counts patch.counts patch.counts
of_counts merged.counts >got
check "counts merged twice" got called:18 target_a:46 target_b:1000

# Two libraries, one after the other at one address.
record libraries.data ./versions "$(offset_of one)" "$(offset_of two)"
set -- one:17 two:1000 inner_one:34 inner_two:2000
of_report libraries.data >got
check "report of libraries" got "$@"
"$PTAH" profile -q --save=libraries.counts libraries.data >/dev/null
of_counts libraries.counts >got
check "saved counts of libraries" got "$@"
"$PTAH" merge -q -o merged.counts libraries.counts libraries.counts
of_counts merged.counts >got
check "merged counts of libraries" got one:34 two:2000 inner_one:68 inner_two:4000

# The calls of the libraries, as all that counts calls has them: functions that were at one address
# in turn are different functions, and each is called by what it was called by.
of_calls() {
	"$PTAH" calls -q --limit=0 --format=json "$@" >out
	python3 - <<'END'
import json
for f in json.load(open("out"))["functions"]:
    print(f["function"], f["calls"])
END
}
# The instructions that ran below each path that ends with a function, of folded stacks.
of_folded() {
	"$PTAH" export -q --to=folded -o out "$@"
	awk '{ n = split($1, path, ";"); sum[path[n]] += $2 } END { for (f in sum) print f, sum[f] }' out
}
set -- one:17 two:1000 inner_one:34 inner_two:2000
of_calls -i libraries.data >got
check "calls of libraries" got "$@"
of_calls -i libraries.data --jobs=2 >got
check "calls of libraries with two jobs" got "$@"
of_callgrind -i libraries.data >got
check "callgrind of libraries" got "$@"
# "call; call; ret" is 3 instructions, "nop; ret" 2.
of_folded -i libraries.data >got
check "folded stacks of libraries" got one:51 two:3000 inner_one:68 inner_two:4000
equal "the callers of inner_one" "$("$PTAH" calls -q -i libraries.data --callers=inner_one \
	--limit=0 --format=tsv | sed 1d | cut -f 2,6)" "34	one"
equal "a call of --of" "$("$PTAH" calls -q -i libraries.data --of=one --slowest=1 --format=tsv |
	grep -c two)" 0

# Calls that were saved, and added up with themselves.
of_saved_calls() {
	"$PTAH" report -q -g --sort=sym --limit=0 --format=tsv -i "$1" | awk -F '\t' '{ print $12, $6 }'
}
"$PTAH" profile -q --save=calls.counts --calls libraries.data >/dev/null
of_saved_calls calls.counts >got
check "saved calls of libraries" got "$@"
"$PTAH" merge -q -o merged.counts calls.counts calls.counts
of_saved_calls merged.counts >got
check "saved calls twice" got one:34 two:2000 inner_one:68 inner_two:4000
