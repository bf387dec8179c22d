#!/bin/sh
# SPDX-License-Identifier: MIT
# Flame graphs of wall time: each thread's sum is its whole time, and each wait is in it once, below
# the function that waited, as the program's own log has it.
. "$PTAH_SOURCE/tests/waits/common.sh"

waiting lock
begin=$(python3 -c 'import time; print(time.monotonic_ns())')
record_calls ./lock log
end=$(python3 -c 'import time; print(time.monotonic_ns())')
"$PTAH" waits -q --list --limit=0 --format=tsv >waits.tsv || fail "waits: $?"
"$PTAH" export -q --to=folded --value=wall --by=thread -o wall.folded || fail "export: $?"
python3 "$PTAH_SOURCE/tests/waits/judge_wall.py" wall.folded waits.tsv log perf.data $((end - begin)) ||
	fail "the sums of wall time"

# Where the kernel does not tell its clock, the file's is CLOCK_MONOTONIC, as it says: perf_event_attr has
# it at byte 92 and as bit 25 of the flags at 40, and the feature 29 the time of day of a moment.
python3 - "$begin" "$end" <<'END' || fail "the file's clock is not the one that it names"
import csv, struct, sys, time
begin, end = map(int, sys.argv[1:])
data = open("perf.data", "rb").read()
attrs, data_at, data_size = (struct.unpack_from("<Q", data, at)[0] for at in (24, 40, 48))
named = struct.unpack_from("<Q", data, attrs + 40)[0] >> 25 & 1
assert named == data[72 + 3] >> 5 & 1, "the feature"
if named:
    assert struct.unpack_from("<I", data, attrs + 92)[0] == time.CLOCK_MONOTONIC
    place = bin(struct.unpack_from("<Q", data, 72)[0] & (1 << 29) - 1).count("1")
    section = struct.unpack_from("<Q", data, data_at + data_size + 16 * place)[0]
    version, clock, day, monotonic = struct.unpack_from("<IIQQ", data, section)
    now = time.time_ns() - time.monotonic_ns()
    assert (version, clock) == (1, time.CLOCK_MONOTONIC) and abs(day - monotonic - now) < 10**9, (day, monotonic)
    for wait in csv.DictReader(open("waits.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE):
        at = int(wait["time_s"].replace(".", ""))
        assert begin <= at and at + int(wait["ns"]) <= end, (begin, wait, end)
END

# The same sums in the others.
"$PTAH" export -q --to=speedscope --value=wall --by=thread -o wall.json || fail "speedscope: $?"
"$PTAH" report -q --value=wall --by=thread --format=json --limit=0 >report.json || fail "report: $?"
python3 - <<'END' || fail "speedscope and report differ from the folded stacks"
import collections, json
folded = collections.Counter()
for line in open("wall.folded"):
    path, ns = line.rsplit(" ", 1)
    folded[path.split(";")[0]] += int(ns)
scope = {p["name"]: p["endValue"] - p["startValue"] for p in json.load(open("wall.json"))["profiles"]}
assert scope == folded, (scope, folded)
report = json.load(open("report.json"))
assert report["value"] == "wall" and report["times"], report["value"]
assert abs(report["seconds"] * 1e9 - sum(folded.values())) < 1, report["seconds"]
END
"$PTAH" report -q -gcallee,0 --value=wall --limit=0 >callee.txt || fail "report -gcallee: $?"
grep -A3 '\[waits: mutex mutex (0x' callee.txt | grep -q pthread_mutex_lock ||
	fail "who waited for the mutex: $(cat callee.txt)"

# Where nothing says what was waited for, that is the answer.
"$PTAH" profile -q --calls --save=saved perf.data >/dev/null || fail "profile: $?"
"$PTAH" report -q --value=wall saved 2>err && fail "waits in saved counts"
grep -q 'know no waits' err || fail "saved counts: $(cat err)"
