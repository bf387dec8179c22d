#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""waits.py NAME LOG: compares NAME.json and NAME.tsv, of Ptah, with NAME.perf (perf script) and
NAME.timehist (perf sched timehist), for the threads that have lines in LOG."""
import csv
import json
import re
import sys
from collections import Counter, defaultdict

name, log = sys.argv[1:]
threads = {int(line.split()[0]) for line in open(log)}
wrong = []
CLOSE, SOON = 300000, 3000000  # nanoseconds


def ns(text):
    whole, fraction = text.split(".")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0"))


def perf_samples():
    """Samples of the threads: (tid, time, event, the numbers that perf prints)."""
    for line in open(name + ".perf"):
        match = re.match(r"\s*(\d+)\s+(\d+\.\d+):\s+([\w:-]+):(.*)", line)
        if match and int(match[1]) in threads:
            yield int(match[1]), ns(match[2]), match[3].rstrip(":"), match[4]


def compare_samples():
    """Names, threads and times of samples, and of switches and wake-ups the fields."""
    theirs, mine = Counter(), Counter()
    for tid, time, event, text in perf_samples():
        if event.startswith("raw_syscalls"):
            continue
        fields = tuple(re.findall(r"\b(?:prev_pid|next_pid|pid|target_cpu)=(\d+)", text))
        theirs[tid, time, event, tuple(map(int, fields))] += 1
    for row in json.load(open(name + ".json"))["calls"]:
        if "fields" not in row or row["tid"] not in threads:
            continue
        fields = tuple(v for k, v in row["fields"].items()
                       if k in ("prev_pid", "next_pid", "pid", "target_cpu"))
        mine[row["tid"], round(row["time_s"] * 10**9), row["event"], fields] += 1
    # A number of JSON has fewer digits than time_s.
    theirs = Counter((a, round(b, -3), c, d) for (a, b, c, d) in theirs.elements())
    mine = Counter((a, round(b, -3), c, d) for (a, b, c, d) in mine.elements())
    for sample in (theirs - mine) | (mine - theirs):
        wrong.append("sample %s: %d in perf, %d in Ptah" % (sample, theirs[sample], mine[sample]))
    print("%s: %d samples" % (name, sum(mine.values())))


def compare_system_calls():
    theirs = Counter()
    for tid, _, event, text in perf_samples():
        match = re.match(r"\s*NR (\d+) ", text)
        if event == "raw_syscalls:sys_enter" and match:
            theirs[tid, int(match[1])] += 1
    mine = Counter((r["tid"], r["number"]) for r in json.load(open(name + ".json"))["calls"]
                   if r.get("event") == "system call" and "arguments" in r and r["tid"] in threads)
    if theirs != mine:
        wrong.append("system calls: %s" % ((theirs - mine) | (mine - theirs)))
    print("%s: %d system calls" % (name, sum(mine.values())))


def came_back():
    """When threads ran again, as `perf sched timehist` has it: {tid: [(time, delay in ns)]}."""
    found = defaultdict(list)
    for line in open(name + ".timehist"):
        match = re.match(r"\s*(\d+\.\d+) \[\d+\]\s+.*?\[(\d+)(?:/\d+)?\]"
                         r"\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", line)
        if match and int(match[2]) in threads and float(match[3]) > 0:
            came = ns(match[1]) - int(float(match[5]) * 10**6)
            found[int(match[2])].append((came, int(float(match[4]) * 10**6)))
    return found


def compare_waits():
    """Each time that a thread was away lies in a wait; after most of them it ran again at its end,
    before it was away again, and after a delay that is not shorter.

    perf takes the times of sched_switch and sched_wakeup. Ptah takes those of the context switch
    records, which the kernel writes later, and of the calls that wake, which begin before. How much
    later depends on how fast the guest is, and whether the host has let it run meanwhile: half of
    them come soon. A thread may be away several times in one wait.
    """
    waits = defaultdict(list)
    for row in csv.DictReader(open(name + ".tsv"), delimiter="\t", quoting=csv.QUOTE_NONE):
        begin, again = ns(row["time_s"]), int(row["again_ns"])
        parts = waits[int(row["tid"])]
        parts.append((begin, begin + int(row["ns"]) - again, ns(row["ran_s"] or "0.0"),
                      ns(row["woken_s"] or "0.0")))
        if row["again_s"]:
            begin = ns(row["again_s"])
            parts.append((begin, begin + again, 0, 0))
    away, late = 0, []
    for tid, times in came_back().items():
        away += len(times)
        for (came, delay), (following, _) in zip(times, times[1:] + [(times[-1][0] + 10**9, 0)]):
            around = [w for w in waits[tid] if w[0] - CLOSE <= came <= w[1] + CLOSE]
            if not around:
                wrong.append("thread %d ran again at %d: Ptah has no wait there" % (tid, came))
            # On a fast machine it may be away again sooner than CLOSE.
            before = max(following - CLOSE, (came + following) // 2)
            for _, _, ran, woken in around:
                if came - CLOSE <= ran < before:
                    late.append(ran - came)
                    if woken and ran - woken + CLOSE < delay:
                        wrong.append("thread %d at %d: a delay of %d ns, and %d of Ptah" %
                                     (tid, came, delay, ran - woken))
                    break
    late.sort()
    print("%s: away %d times, after %d of them at the end of a wait" % (name, away, len(late)))
    if len(late) < 20 or 10 * len(late) < 8 * away:
        wrong.append("too few waits end when threads ran again")
    elif late[len(late) // 2] > SOON:
        wrong.append("half of the waits end %d ns later" % late[len(late) // 2])


compare_samples()
compare_system_calls()
compare_waits()
for line in wrong[:10]:
    print("  " + line)
sys.exit(bool(wrong))
