#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `ptah waits --list --format=tsv --limit=0` with what a program has logged of itself.

judge.py lock|queue|chain|kinds WAITS.tsv LOG PERF.DATA

The log has TSC values (programs/wait_log.h). They become perf's time by the conversion in the
recording's AUXTRACE_INFO, which is read here without Ptah.
"""
import csv
import struct
import sys
from collections import defaultdict

AUXTRACE_INFO, AUXTRACE = 70, 71
wrong = []


def clock_of(path):
    """shift, multiplier and zero: the first fields of AUXTRACE_INFO after the kind and the PMU."""
    data = open(path, "rb").read()
    at, size = struct.unpack_from("<QQ", data, 40)
    end = at + size
    while at < end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if kind == AUXTRACE_INFO:
            return struct.unpack_from("<3Q", data, at + 24)
        at += length + (struct.unpack_from("<Q", data, at + 8)[0] if kind == AUXTRACE else 0)
    sys.exit("no AUXTRACE_INFO")


def to_ns(clock, tsc):
    shift, mult, zero = clock
    return (zero + (tsc >> shift) * mult + ((tsc & ((1 << shift) - 1)) * mult >> shift)) % (1 << 64)


def ns(seconds):
    whole, fraction = seconds.split(".")
    return int(whole) * 10**9 + int(fraction)


def read_log(path, clock):
    """For each thread its lines (time, word, number), in order."""
    threads = defaultdict(list)
    for line in open(path):
        tid, tsc, rest = line.split(None, 2)
        word, number = rest.rsplit(None, 1)
        threads[int(tid)].append((to_ns(clock, int(tsc)), word, int(number)))
    return threads


def spans(lines, begin, end):
    """[(from, to)] between a line `begin` and the next line, which is `end`."""
    return [(a[0], b[0]) for a, b in zip(lines, lines[1:]) if a[1] == begin and b[1] == end]


def inside(rows, tid, span, cause):
    """The waits of a thread for a cause that lie in a span of its log, the first one first."""
    return [r for r in rows[tid] if span[0] <= r["begin"] <= span[1] and r["cause"] == cause]


def check(is_right, what, row):
    if not is_right:
        wrong.append("%s: %s" % (what, {k: row[k] for k in ("tid", "time_s", "ns", "waker", "holder")}))


def was_in(log, tid, moment, begin, end, slack):
    """Whether the thread was between such lines at a time."""
    return any(a - slack <= moment <= b for a, b in spans(log.get(tid, []), begin, end))


def judge_lock(rows, log):
    found = 0
    for tid in log:
        for span in spans(log[tid], "want", "got"):
            for row in inside(rows, tid, span, "mutex"):
                if row["end"] == "woken":
                    found += 1
                    check(was_in(log, int(row["waker"]), row["woken"], "giving", "gave", 0),
                          "the waker gave nothing back then", row)
                if row["holder"]:
                    # It has the mutex from before it logs so until it is in unlock().
                    lines = log[int(row["holder"])]
                    held = [(a[0], b[0]) for a, b in zip(lines, lines[3:])
                            if a[1] == "want" and b[1] == "gave"]
                    check(any(a <= row["begin"] <= b for a, b in held), "it had no lock", row)
    return found


def judge_queue(rows, log):
    found = 0
    for tid in log:
        for span in spans(log[tid], "wait", "woke"):
            for row in inside(rows, tid, span, "condition variable")[:1]:
                if row["end"] == "woken":
                    found += 1
                    # One that took the signal of another waiter wakes that one again (glibc's
                    # pthread_cond_wait before 2.41): it has waited itself then.
                    check(any(was_in(log, int(row["waker"]), row["woken"], *words, 0)
                              for words in (("signal", "signalled"), ("wait", "woke"))),
                          "the waker has not signalled then", row)
        for span in spans(log[tid], "semwait", "semgot"):
            for row in inside(rows, tid, span, "semaphore"):
                check(was_in(log, int(row["waker"]), row["woken"], "post", "posted", 0),
                      "the waker has not posted then", row)
    return found


def judge_chain(rows, log):
    role = {lines[0][1]: tid for tid, lines in log.items()}
    child = [l[2] for l in log[role["main"]] if l[1] == "child"][0]
    wakers = {"stage1": role["main"], "stage2": role["stage1"], "stage3": role["stage2"],
              "main": role["stage3"]}
    found = children = 0
    for name, tid in role.items():
        for row in rows[tid]:
            if row["cause"] in ("pipe", "socket", "eventfd", "poll") and row["end"] == "woken":
                found += 1
                check(int(row["waker"]) == wakers[name], "another thread wrote", row)
            if row["cause"] == "end of process":
                children += 1
                check(int(row["waker"]) == child, "another process ended", row)
    if children != 1:
        wrong.append("%d children were waited for" % children)
    return found


def judge_kinds(rows, log):
    """Each wait of the log is there, with its cause and with who ended it."""
    found = 0
    for tid, lines in log.items():
        for a, b, after in zip(lines, lines[1:], lines[2:] + [(0, "", 0)]):
            if not a[1].startswith("begin:"):
                continue
            cause = a[1][6:]
            here = [r for r in rows[tid] if a[0] <= r["begin"] <= b[0]
                    and r["cause"] not in ("processor", "page fault", "page fault or recorder")]
            if not any(r["cause"] == cause for r in here):
                wrong.append("no wait for %s; there are %s" % (cause, [r["cause"] for r in here]))
                continue
            found += 1
            row = [r for r in here if r["cause"] == cause][-1]
            check(row["waker"] == (str(b[2]) if b[2] else ""), "%s: %s ended it" % (cause, b[2]),
                  row)
            for r in here:
                check(r["cause"] == cause, "it waited for " + cause, r)
            if cause in ("timer", "sleep"):
                check(row["end"] == "time", "the time was over", row)
            if after[1] == "descriptor":
                check(row["object"] == "descriptor %d" % after[2],
                      "descriptor %d ended it, not %s" % (after[2], row["object"]), row)
    return found


def main():
    what, tsv, path, data = sys.argv[1:]
    log = read_log(path, clock_of(data))
    rows = defaultdict(list)
    for row in csv.DictReader(open(tsv), delimiter="\t", quoting=csv.QUOTE_NONE):
        row["begin"] = ns(row["time_s"])
        row["woken"] = ns(row["woken_s"]) if row["woken_s"] else 0
        rows[int(row["tid"])].append(row)
    found = {"lock": judge_lock, "queue": judge_queue, "chain": judge_chain,
             "kinds": judge_kinds}[what](rows, log)
    print("%s: %d waits compared, %d wrong" % (what, found, len(wrong)))
    for line in wrong[:10]:
        print("  " + line)
    sys.exit(bool(wrong) or found < 10)


if __name__ == "__main__":
    main()
