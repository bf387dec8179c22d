#!/bin/sh
# SPDX-License-Identifier: MIT
# The system calls of a program are those that strace lists, with the same results.
. "$PTAH_SOURCE/tests/waits/common.sh"
command -v strace >/dev/null || skip "no strace"
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

# A single thread, so that the order is always the same. Its folder does not change meanwhile.
mkdir folder
: >folder/file
record_calls /bin/ls -l folder >out
"$PTAH" script -q --calls --events --format=json perf.data >calls.json || fail "script: $?"
strace -o strace.txt /bin/ls -l folder >out
python3 "$PTAH_SOURCE/tests/waits/same_calls.py" calls.json strace.txt ||
	fail "strace lists other calls"
