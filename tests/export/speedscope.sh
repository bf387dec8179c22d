#!/bin/sh
# SPDX-License-Identifier: MIT
# speedscope, in a browser, shows the calls that are in a timeline of trace events.
. "$PTAH_SOURCE/tests/calls/common.sh"
release=${PTAH_READERS:-$PTAH_SOURCE/build/readers}/speedscope/dist/release
[ -e "$release/index.html" ] || skip "no speedscope (tests/export/fetch downloads it)"

logged gcc threads threads.c -O1 -no-pie
record_log -- ./threads
"$PTAH" export -q --to=chrome --clock=instructions -o run.trace.json || fail "export: $?"
status=0
python3 "$PTAH_SOURCE/tests/export/speedscope.py" "$release" run.trace.json || status=$?
[ $status != 77 ] || exit 77
[ $status = 0 ] || fail "speedscope shows other calls"
