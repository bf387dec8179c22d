#!/bin/sh
# SPDX-License-Identifier: MIT
# Who ended the waits, and who had the lock: as the programs' own logs have it.
. "$PTAH_SOURCE/tests/waits/common.sh"

for program in lock queue chain kinds; do
	waiting "$program"
	record_calls "./$program" log
	"$PTAH" waits -q --list --limit=0 --format=tsv -i perf.data >waits.tsv || fail "waits: $?"
	python3 "$PTAH_SOURCE/tests/waits/judge.py" "$program" waits.tsv log perf.data ||
		fail "$program: these waits ended otherwise"
done
