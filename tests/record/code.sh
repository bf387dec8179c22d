# SPDX-License-Identifier: MIT
# QEMU runs code in another way than a processor: rep instructions one iteration per block, blocks
# cut at page ends and by size, far transfers as exceptions, code that is rewritten translated
# again. The programs are a few instructions of assembly, so that the number of executed
# instructions is known.
. "$PTAH_SOURCE/tests/record/common.sh"

check() # NAME INSTRUCTIONS [no-perf]
{
	build "$1"
	for options in "" "--no-retcomp" "--long-tnt --psb-period=2048"; do
		# shellcheck disable=SC2086
		record $options "./$1" || fail "$1 ended with status $?"
		exact
		instructions "$2" "${3-}"
	done
	[ "${3-}" = no-perf ] || perf_agrees
	echo "$1: $2 instructions"
}

check rep 17004
check split 1007507
check far 1704
check vsyscall 704
# perf reads the jump in the file, and cannot know what it was changed to.
check self_modify 3606 no-perf
