#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a flame graph of wall time with the waits, and with the log of programs/lock.c.

judge_wall.py FOLDED WAITS.tsv LOG PERF.DATA NANOSECONDS

FOLDED is of --by=thread; the whole program took at most NANOSECONDS.
"""
import csv
import re
import sys
from collections import Counter

from judge import clock_of, read_log, spans


def main():
    folded, tsv, path, data, most = sys.argv[1:]
    log = read_log(path, clock_of(data))
    wall, waited, mutex = Counter(), Counter(), Counter()
    for line in open(folded):
        frames, ns = line.rsplit(" ", 1)
        frames = frames.split(";")
        tid = int(re.search(r"/(\d+)$", frames[0]).group(1))
        wall[tid] += int(ns)
        if not frames[-1].startswith("[waits: "):
            continue
        waited[tid] += int(ns)
        if frames[-1].startswith("[waits: mutex"):
            assert "critical" in frames and "pthread_mutex_lock" in frames, line
            mutex[tid] += int(ns)
    listed = Counter()
    for row in csv.DictReader(open(tsv), delimiter="\t", quoting=csv.QUOTE_NONE):
        listed[int(row["tid"])] += int(row["ns"])
    assert waited == listed, (waited, listed)
    for tid, lines in log.items():
        assert lines[-1][0] - lines[0][0] <= wall[tid] <= int(most), (tid, wall[tid])
        assert mutex[tid] <= sum(b - a for a, b in spans(lines, "want", "got")), (tid, mutex[tid])
    assert sum(mutex.values()), "nobody waited"
    print("%d threads, %d ns for the mutex" % (len(log), sum(mutex.values())))


main()
