#!/bin/sh
# SPDX-License-Identifier: MIT
# Costs by instruction: those that valgrind's callgrind counts in the same program, and calls by
# call site that the program logged itself.
. "$PTAH_SOURCE/tests/calls/common.sh"

here=$PTAH_SOURCE/tests/export
build_log
programs=$here
logged gcc paths paths.c -O1 -no-pie -fno-optimize-sibling-calls -I"$PTAH_SOURCE/tests/calls/programs"
record_log -- ./paths
"$PTAH" export -q -o paths.callgrind perf.data || fail "export: $?"
"$PTAH" stat -q --format=json perf.data >stat.json
python3 "$here/costs.py" logged paths.callgrind stat.json paths log.* || fail "see above"

gcc -nostdlib -static -no-pie -g -O1 -fno-optimize-sibling-calls -fno-stack-protector -o costs "$here/costs.c"
"$PTAH" record -q -o costs.data ./costs
"$PTAH" export -q -o costs.callgrind costs.data || fail "export: $?"
python3 "$here/costs.py" lines costs.callgrind costs || fail "see above"
# Signals cut the blocks of the vdso, whose code is not in a file. The recorder counted each step.
gcc -static -O1 -o clock "$here/clock.c"
env -i "PATH=$PATH" "$PTAH" record --recorder=ptrace -o clock.data ./clock 2>record.log
steps=$(sed -n 's/.* of trace, \([0-9]*\) instructions.*/\1/p' record.log)
"$PTAH" export -q -o clock.callgrind clock.data || fail "export: $?"
grep -q "^totals: ${steps:?}\$" clock.callgrind || fail "$steps: $(tail -n 1 clock.callgrind)"

if command -v valgrind >/dev/null; then
	valgrind -q --tool=callgrind --dump-instr=yes --callgrind-out-file=valgrind.out ./costs ||
		fail "valgrind: $?"
	# What follows the last call, up to the system call.
	end=$(objdump -d --no-show-raw-insn costs | awk '
		$2 == "call" { first = "" }
		$2 ~ /^[a-z]+$/ && $2 != "call" && !first { first = $1 }
		$2 == "syscall" { sub(":", "", first); sub(":", "", $1); print first, $1; exit }')
	# shellcheck disable=SC2086 # two words
	python3 "$here/costs.py" same costs.callgrind valgrind.out $end || fail "see above"
	callgrind_annotate --auto=no --threshold=100 paths.callgrind >annotated.txt ||
		fail "callgrind_annotate: $?"
	python3 "$here/costs.py" annotated paths.callgrind annotated.txt || fail "see above"
else
	echo "no valgrind: not compared with callgrind"
fi
