#!/bin/sh
# SPDX-License-Identifier: MIT
# Deadlocks that Ctrl-C ends, of two locks, and of a lock and the end of a thread: each is named, and
# who has it. Waits until the end last as long in every answer.
. "$PTAH_SOURCE/tests/waits/common.sh"

# sleeping PID: do all five threads sleep? When the log is there, that is for a mutex, or in join.
sleeping()
{
	[ "$(cat /proc/"$1"/task/*/stat 2>/dev/null | grep -c ') S ')" -ge 5 ]
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

third=$(awk '$3 == "third" { print $1 }' log)
spender=$(sed -n "s/^  $third waits for end of thread \\([0-9]*\\) in collect$/\\1/p" waits.txt)
[ "$spender" ] &&
	grep -q "^  $spender waits for mutex third (0x[0-9a-f]*) in descend_to[^;]*; $third has it" waits.txt ||
	fail "the lock and the thread's end: $(cat waits.txt)"
[ "$(grep -c '^deadlock:' waits.txt)" = 2 ] || fail "other deadlocks: $(cat waits.txt)"

# In the time of each thread these waits last until the end.
"$PTAH" export -q --to=folded --value=wall --by=thread -i perf.data -o wall.folded || fail "export: $?"
grep -q "/$first;.*;debit;transfer;.*;\[waits: mutex second (0x[0-9a-f]*)\] [0-9]*$" wall.folded &&
	grep -q "/$second;.*;credit;transfer;.*;\[waits: mutex first (0x[0-9a-f]*)\] [0-9]*$" wall.folded ||
	fail "the time of the threads: $(cat wall.folded)"

# The stacks of `ptah waits` have the same waits, however long they are.
"$PTAH" waits -q --folded -i perf.data >waits.folded || fail "waits --folded: $?"
python3 - <<'END' || fail "waits --folded and --value=wall differ"
import re
def waits(path):
    lines = [line.rsplit(" ", 1) for line in open(path)]
    return sum(int(ns) for stack, ns in lines if path == "waits.folded" or ";[waits: " in stack)
assert waits("waits.folded") == waits("wall.folded") > 0, (waits("waits.folded"), waits("wall.folded"))
assert max(map(len, open("waits.folded"))) > 1100, "no stack is long"
END

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

# Timelines and rows of a database have the calls in which they wait until the end, too.
"$PTAH" export -q --to=chrome -o timeline.json perf.data || fail "export --to=chrome: $?"
"$PTAH" export -q --to=sqlite -o calls.sqlite perf.data || fail "export --to=sqlite: $?"
"$PTAH" view -q -o view.html perf.data || fail "view: $?"
python3 - "$PTAH" <<'END' ||
import base64, csv, gzip, json, re, sqlite3, subprocess, sys
lines = subprocess.run([sys.argv[1], "waits", "-q", "--list", "--limit=0", "--format=tsv"], check=True,
                       text=True, capture_output=True).stdout.splitlines()
last = {int(r["tid"]): r for r in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if r["end"] == "never"}
assert len(last) == 5, last
end = {tid: int(r["time_s"].replace(".", "")) + int(r["ns"]) for tid, r in last.items()}
near = 2000  # of TSC to nanoseconds and back
timeline = json.load(open("timeline.json"))["traceEvents"]
for tid in last:
    closed = [e["ts"] * 1000 for e in timeline if e.get("tid") == tid and e["ph"] == "E"]
    assert abs(max(closed) - end[tid]) < near, (tid, max(closed), end[tid])
    assert any(e["name"] == "wait: " + last[tid]["cause"] for e in timeline
               if e.get("tid") == tid and e["ph"] == "B"), tid
rows = sqlite3.connect("calls.sqlite").execute("""
    SELECT t.tid, MAX(c.return_time) FROM calls c JOIN threads t ON t.id = c.thread_id
    WHERE t.tid > 0 GROUP BY t.tid""")
for tid, until in rows:
    assert abs(until - end[tid]) < near, (tid, until, end)
text = open("view.html", encoding="utf-8").read()
index = json.loads(re.search(r'id="ptah-index"[^>]*>(.*?)</script>', text, re.S)[1])
block = next(a["id"] for a in index["answers"] if a["query"] == "info")
info = json.loads(gzip.decompress(base64.b64decode(
    re.search(r'id="%s"[^>]*>(.*?)</script>' % block, text, re.S)[1])))
shown = {t["tid"]: info["begin"]["time"] + t["end"]["time"] for t in info["threads"]}
assert shown.keys() == end.keys() and all(abs(shown[t] - end[t]) < near for t in end), (shown, end)
END
	fail "timelines end before the waits do"
