#!/bin/sh
# SPDX-License-Identifier: MIT
# Names of C++ and Rust are shown as c++filt makes them of what nm lists, or with --no-demangle as
# they are; functions of one readable name stay apart, and may be given by it.
. "$PTAH_SOURCE/tests/cli/common.sh"
need c++filt

cat >program.S <<'END'
.macro function name
	.type \name, @function
\name:
	nop
	ret
	.size \name, . - \name
.endm
	.globl _start
	.type _start, @function
_start:
	call _ZN1n1fEi
	call _ZN1n1fEc
	call _ZN3std2rt10lang_start17hfedcba9876543210E
	call plain
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	function _ZN1n1fEi
	function _ZN1n1fEc
	function _ZN3std2rt10lang_start17hfedcba9876543210E
	function plain
END
"${CC:-cc}" -nostdlib -static -o program program.S
record perf.data ./program

nm program | awk '$2 == "t" { print $3 }' | sort >mangled
c++filt -p -i <mangled | sort >demangled
[ "$(wc -l <mangled)" = 4 ] || fail "nm: $(cat mangled)"
[ "$(sort -u demangled | wc -l)" = 3 ] || fail "c++filt: $(cat demangled)"

# shown NAMES [OPTION]: do report, profile and script show these names?
shown() {
	expect 0 "$PTAH" report --format=tsv --limit=0 ${2:+"$2"} perf.data
	awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "function") at = i }
		NR > 1 && $at != "_start" { print $at }' out | sort | cmp - "$1" ||
		fail "report $*: $(cat out)"
	expect 0 "$PTAH" script -q --blocks ${2:+"$2"} perf.data
	awk '{ print $6 }' out | grep -v '^_start' | sort | cmp - "$1" ||
		fail "script $*: $(cat out)"
	expect 0 "$PTAH" profile --by=functions --format=json ${2:+"$2"} perf.data
	while read -r name; do
		grep -q "\"$name\"" out || fail "profile $*: no $name in $(cat out)"
	done <"$1"
}

shown demangled
shown mangled --no-demangle

# Given by the readable name: both functions of that name, one of them, or the one with parameters.
expect 1 "$PTAH" record --recorder=qemu -o none --filter 'filter n::f@program' -- ./program
grep -q "2 functions 'n::f'" err || fail "which n::f is not asked: $(cat err)"
for name in 'n::f#2' 'n::f(char)' '_ZN1n1fEc'; do
	"$PTAH" record --recorder=qemu -q -o filtered --filter "filter $name@program" -- ./program || fail "--filter $name"
	expect 0 "$PTAH" script -q --no-demangle filtered
	awk '{ print $4 }' out | sort -u >found
	[ "$(cat found)" = "_ZN1n1fEc+0x0
_ZN1n1fEc+0x1" ] || fail "$name recorded $(cat found)"
done
