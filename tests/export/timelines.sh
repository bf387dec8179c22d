#!/bin/sh
# SPDX-License-Identifier: MIT
# Timelines have the calls that a program logged of itself, in every format, as independent readers
# read them (timeline_readers.py).
. "$PTAH_SOURCE/tests/calls/common.sh"

# Debian's Python has Debian's python3-protobuf.
python=python3
! /usr/bin/python3 -c "import google.protobuf" 2>/dev/null || python=/usr/bin/python3

# export_as FORMATS [OPTIONS]: writes run.FORMAT; the exit status is 0 or $expected
expected=0
export_as()
{
	formats=$1
	shift
	for format in $formats; do
		"$PTAH" export -q --to="$format" "$@" -o "run.$format" 2>err || [ $? = "$expected" ] ||
			fail "--to=$format: $(cat err)"
	done
}

# same_timelines [OPTION] OBJECTS: the formats that were exported last, of perf.data and log.*
same_timelines()
{
	# shellcheck disable=SC2046 # words
	"$python" "$PTAH_SOURCE/tests/export/timelines.py" "$@" -- log.* -- \
		$(for format in $formats; do echo "$format=run.$format"; done) || fail "$*"
}

logged gcc threads threads.c -O1 -no-pie
record_log -- ./threads
export_as "fxt perfetto chrome firefox"
same_timelines ./threads
export_as "fxt perfetto chrome firefox" --clock=instructions
"$PTAH" verify --all -q --format=json >verify.json || fail "verify: $?"
same_timelines --recorded=verify.json ./threads

logged gcc plain plain.c -O1 -no-pie
record_log -- ./plain
export_as fxt --max-stack=1000000
same_timelines ./plain
mv run.fxt full.fxt
export_as fxt
same_timelines --folded=full.fxt ./plain

# No packet begins with the byte 0xff.
python3 -c '
with open("perf.data", "r+b") as file:
    file.seek(file.seek(0, 2) // 2)
    file.write(b"\xff" * 32)'
expected=1
export_as "fxt chrome" --max-stack=1000000
same_timelines --damaged ./plain
