#!/bin/sh
# SPDX-License-Identifier: MIT
# What Node.js and Python generate has the names that they list for perf: every function in the
# report is a line of the map, with the same address, and calls are counted as the programs make them.
. "$PTAH_SOURCE/tests/cli/common.sh"

need qemu-x86_64
map=
trap 'rm -f "$map"' EXIT

# rows FILE: the generated functions of a recording; its map, whose program is the only one.
rows() {
	"$PTAH" report --limit=0 --format=tsv "$1" 2>/dev/null >all
	grep '	\[JIT\] tid ' all >rows || fail "$1: no generated function: $(head -3 all)"
	map=/tmp/perf-$(sed 's/.*\[JIT\] tid \([0-9]*\).*/\1/; q' rows).map
	awk -F '\t' '{ sub("^0x", "", $6); print $6 " " $5 }' rows | sort >got
	sed 's/^0x0*//; s/ [^ ]* / /' "$map" | sort >listed
	comm -23 got listed >other
	[ ! -s other ] || fail "$1: not in the map: $(head -3 other)"
}

checked=
if command -v node >/dev/null; then
	cat >hot.js <<'END'
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s += i * i % 7; return s; }
let t = 0;
for (let k = 0; k < 300; k++) t += hot(300);
console.log(t);
END
	record node.data node --perf-basic-prof --single-threaded --no-compact-code-space hot.js
	rows node.data
	cut -f 5 rows | grep -q '^[A-Za-z]*:\*hot .*hot.js:1:' || fail "node: $(head -3 rows)"
	rm -f "$map"
	checked="$checked node"
fi
for python in python3.14 python3.13 python3.12 python3; do
	"$python" -X perf -c 'import sys; sys.exit(not sys.is_stack_trampoline_active())' \
		>/dev/null 2>&1 || continue
	cat >calls.py <<'END'
def inner(n):
    return n + 1


def outer():
    return sum(inner(n) for n in range(23))


outer()
END
	record python.data "$python" -S -X perf calls.py
	rows python.data
	equal "calls of inner()" "$(awk -F '\t' '$5 ~ /^py::inner:/ { print $3 }' rows)" 23
	checked="$checked python"
	break
done
[ -n "$checked" ] || skip "neither node nor a python3 with -X perf"
echo "checked:$checked"
