#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/limit ends a test that hangs, with the processes that it has begun, and shows where they are.
# A test that ends is left alone.
set -eu
limit=$PTAH_SOURCE/tests/limit

status=0
sh "$limit" ends sh -c 'exit 77' || status=$?
[ "$status" = 77 ]

cat >hangs <<'END'
setsid sleep 10001 &
echo $! >others
exec sleep 10002
END
! PTAH_TEST_LIMIT=1 sh "$limit" hangs sh hangs >said 2>&1
for process in 10001 10002; do
	grep -q "^limit: process [0-9]*: sleep $process" said || { cat said; exit 1; }
done
grep -q '^thread .* in the kernel: .*nanosleep' said || { cat said; exit 1; }
# Killed, although nobody may have asked for its status yet.
others=$(cat others)
while kill -0 "$others" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$others/status"; do sleep 0.05; done
