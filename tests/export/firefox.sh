#!/bin/sh
# SPDX-License-Identifier: MIT
# The Firefox Profiler's own code reads what is written for it: each function of each thread has the
# time, inclusive and self, and each thread the markers that are in the timeline of another format.
. "$PTAH_SOURCE/tests/calls/common.sh"
command=${PTAH_READERS:-$PTAH_SOURCE/build/readers}/firefox/dist/profiler-cli.js
[ -e "$command" ] || skip "no command of the Firefox Profiler (tests/export/fetch downloads it)"
command -v node >/dev/null || skip "no node, which runs it"

logged gcc threads threads.c -O1 -no-pie
record_log -- ./threads
for format in fxt firefox; do
	"$PTAH" export -q --to=$format --clock=instructions -o run.$format || fail "$format: $?"
done
mv run.firefox run.json
# It keeps a server running until it is stopped. On a busy machine it may find that its server takes
# too long to start (half a second).
export HOME="$PWD"
trap 'node "$command" stop --all >stop.txt 2>&1' EXIT
tries=0
until node "$command" load run.json >load.txt 2>&1; do
	tries=$((tries + 1))
	grep -q 'did not become ready' load.txt && [ $tries -lt 20 ] || fail "load: $(cat load.txt)"
	node "$command" stop --all >stop.txt 2>&1 || :
done
python3 "$PTAH_SOURCE/tests/export/firefox.py" "$command" run.fxt || fail "the Firefox Profiler"
