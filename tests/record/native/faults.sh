#!/bin/sh
# SPDX-License-Identifier: MIT
# Branches that fault: a handler sees the registers that it sees without a recorder.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

: "${CC:=cc}"
"$PTAH" record --help | grep qemu | grep -q native ||
	{ echo "SKIP: no recorder inside the program yet"; exit 77; }
for how in -static -pie; do
	"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "$how" -fPIE -o faults \
		"$PTAH_SOURCE/tests/record/native/programs/faults.c"
	for n in 0 1 2 3 4 5 6 7 8; do
		./faults "$n" >alone.txt || fail "case $n $how: fails without a recorder"
		grep -q '^signal 11' alone.txt || fail "case $n $how: does not fault"
		"$PTAH" record -q --recorder=native --truth -o perf.data ./faults "$n" \
			>recorded.txt || fail "case $n $how: fails"
		diff alone.txt recorded.txt >&2 || fail "case $n $how: other registers"
		"$PTAH" stat perf.data >stat.txt || fail "case $n $how: the recording cannot be read"
		"$PTAH" verify --all -i perf.data >verify.txt 2>&1 ||
			fail "case $n $how: not what ran: $(tail -3 verify.txt)"
		grep -q 'decoded exactly what ran' verify.txt || fail "$(cat verify.txt)"
		# Otherwise it passes because nothing was recorded.
		! grep -E 'untraced|recorded by qemu|not recorded' stat.txt >&2 ||
			fail "case $n $how: the recorder gave up"
	done
done
