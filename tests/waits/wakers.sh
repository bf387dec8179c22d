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

# Of the last one: the sums say who sent the signals, and where nobody did who is recorded.
"$PTAH" waits -q --limit=0 >sums || fail "waits: $?"
grep -q 'wait_for_signal < main .* send_to_thread < help' sums || fail "no sender: $(cat sums)"
grep -q 'wait_for_signalfd < main .* send_signal < help' sums || fail "no sender: $(cat sums)"
grep -q 'wait_for_change < main .* not recorded' sums || fail "inotify's waker: $(cat sums)"
"$PTAH" waits -q --list --limit=0 | grep -q 'until a signal of .* came, sent in send_to_thread' ||
	fail "no sender in the list"
