#!/bin/sh
# SPDX-License-Identifier: MIT
# A deadlock that Ctrl-C ends: both locks are named, and who has them.
. "$PTAH_SOURCE/tests/waits/common.sh"

# sleeping PID: do all three threads sleep? When the log is there, that is for a mutex, or in join.
sleeping()
{
	[ "$(cat /proc/"$1"/task/*/stat 2>/dev/null | grep -c ') S ')" -ge 3 ]
}

waiting deadlock
"$PTAH" record -q --recorder=native -- ./deadlock log &
recorder=$!
while [ ! -s log ]; do
	kill -0 "$recorder" 2>/dev/null || fail "the recorder has ended"
	sleep 0.05
done
pid=$(pgrep -P "$recorder" -x deadlock || pgrep -n -x deadlock)
until sleeping "$pid"; do
	kill -0 "$recorder" 2>/dev/null || fail "the recorder has ended"
	sleep 0.05
done
kill -INT "$recorder"
wait "$recorder" || :
has_calls || skip "this recorder writes no system calls"
"$PTAH" waits -q -i perf.data >waits.txt || fail "waits: $?"
first=$(awk '$3 == "first" { print $1 }' log)
second=$(awk '$3 == "second" { print $1 }' log)
# Each waits for what the other has.
grep -q "^  $first waits for mutex second (0x[0-9a-f]*) in transfer < debit; $second has it" waits.txt ||
	fail "the first thread's lock: $(cat waits.txt)"
grep -q "^  $second waits for mutex first (0x[0-9a-f]*) in transfer < credit; $first has it" waits.txt ||
	fail "the second thread's lock: $(cat waits.txt)"

# In the time of each thread these waits last until the end.
"$PTAH" export -q --to=folded --value=wall --by=thread -i perf.data -o wall.folded || fail "export: $?"
grep -q "/$first;.*;debit;transfer;.*;\[waits: mutex second (0x[0-9a-f]*)\] [0-9]*$" wall.folded &&
	grep -q "/$second;.*;credit;transfer;.*;\[waits: mutex first (0x[0-9a-f]*)\] [0-9]*$" wall.folded ||
	fail "the time of the threads: $(cat wall.folded)"

# So does the time of the calls; and a window in which a thread only waits has that wait.
python3 - "$PTAH" "$first" "$second" <<'END' || fail "times of calls and of a window differ from the waits"
import csv, subprocess, sys
ptah, *tids = sys.argv[1:]
def rows(*command):
    lines = subprocess.run([ptah, *command, "-q"], check=True, text=True, capture_output=True).stdout
    return list(csv.DictReader(lines.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
last = {tid: [r for r in rows("waits", "--list", "--limit=0", "--format=tsv")
              if r["tid"] == tid and r["end"] == "never"][0] for tid in tids}
begin = {tid: int(r["time_s"].replace(".", "")) for tid, r in last.items()}
end = {tid: begin[tid] + int(last[tid]["ns"]) for tid in tids}
calls = {r["function"]: int(r["total"]) for r in
         rows("calls", "--value=time", "--format=tsv", "debit", "credit", "transfer")}
for tid, function in zip(tids, ("debit", "credit")):
    assert calls[function] >= int(last[tid]["ns"]), (calls, last)
assert calls["transfer"] <= calls["debit"] + calls["credit"], calls
subprocess.run([ptah, "profile", "-q", "--calls", "--save=saved", "perf.data"], check=True, stdout=subprocess.DEVNULL)
times = [sum(float(r["seconds"]) for r in rows("report", "-g", "--format=tsv", recording)
             if r["function"] in ("debit", "credit")) for recording in ("perf.data", "saved")]
assert abs(times[0] - times[1]) < 1e-6 < times[0], times
since = (max(begin.values()) + min(end.values())) // 2
folded = subprocess.run([ptah, "export", "-q", "--to=folded", "--value=wall", "--by=thread", "-o", "-",
                         "--since=%d.%09d" % divmod(since, 10**9)], check=True, text=True,
                        capture_output=True).stdout
for tid in tids:
    lines = [l for l in folded.splitlines() if "/%s;" % tid in l]
    assert len(lines) == 1 and ";[waits: futex 0x" in lines[0], folded
    assert int(lines[0].split()[-1]) == end[tid] - since, (lines, end, since)
END
