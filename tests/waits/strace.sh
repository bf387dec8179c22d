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

# As text between the instructions, in the same order and as strace writes them; and counted.
"$PTAH" script -q --events perf.data | sed -n 's/^[^#]* # \([a-z_0-9]*(.*) *= .*\)$/\1/p' >events.txt ||
	fail "script --events: $?"
"$PTAH" stat -q --format=json perf.data >stat.json || fail "stat: $?"
python3 - <<'END' || fail "script --events or stat differ from strace"
import collections, json, re
changed = {"rseq", "clone3"} # see same_calls.py
def calls(path):
    found = (re.match(r"(\w+)\(", line) for line in open(path))
    return [m[1] for m in found if m and m[1] not in changed]
theirs = [n for n in calls("strace.txt") if n != "exit_group"]
mine = [n for n in calls("events.txt") if n != "exit_group"]
assert mine == theirs, (mine, theirs)
openat = re.compile(r'openat\(AT_FDCWD, "folder"')
assert len([l for l in open("events.txt") if openat.match(l)]) == len(
    [l for l in open("strace.txt") if openat.match(l)]) > 0
counts = {row["name"]: row["calls"] for row in json.load(open("stat.json"))["system_calls"]}
want = collections.Counter(calls("strace.txt"))
assert {n: c for n, c in counts.items() if n not in changed} == want, (counts, want)
END
