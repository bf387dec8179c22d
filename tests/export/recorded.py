#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at timelines of recorded traces.

recorded.py ends-at FILE.fxt N        the last call ends after N instructions
recorded.py as-perf FILE.fxt CALLS    the calls of worker threads are those of `perf script`, and the
                                      system calls and interrupts of all threads
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from timeline_readers import BEGIN, END, read_fxt  # noqa: E402


def ends_at(path, wanted):
    last = max(event.ns for event in read_fxt(path) if event.kind == END)
    if last != int(wanted):
        sys.exit("the timeline ends at %d, not at %s" % (last, wanted))


def away_as_perf(events, lines):
    """Where tracing stops and begins again is in packets, so that the times are the same."""
    perf, mine, since = {}, {}, {}
    for line in lines:
        row = re.match(r"\s*(\d+)\s+(\d+)\.(\d{9}):\s+tr (end|strt)\s+(async)?", line)
        if row and row[4] == "end":
            since[row[1]] = int(row[2] + row[3]), "interrupt" if row[5] else "system call"
        elif row and row[1] in since:
            begin, kind = since.pop(row[1])
            perf.setdefault(int(row[1]), []).append((kind, begin, int(row[2] + row[3])))
    for event in events:
        if event.category == "event" and event.kind == BEGIN:
            since[event.tid] = event.ns
        elif event.category == "event" and event.kind == END and event.ns > since[event.tid]:
            mine.setdefault(event.tid, []).append((event.name, since[event.tid], event.ns))
    for tid, slices in perf.items():
        if slices != mine[tid]:
            sys.exit("thread %d leaves at other times than perf lists" % tid)
    if sum(map(len, perf.values())) < 100:
        sys.exit("perf lists next to nothing")


def as_perf(path, listed):
    perf, mine = {}, {}
    events = read_fxt(path)
    with open(listed, encoding="utf-8") as file:
        lines = file.readlines()
        away_as_perf(events, lines)
        for line in lines:
            row = re.match(r"\s*(\d+)\s+(\d+)\.(\d{9}):\s+call\s.*=>\s+[0-9a-f]+ (\S+)", line)
            if row:
                perf.setdefault(int(row[1]), []).append((row[4], int(row[2] + row[3])))
    for event in events:
        if event.kind == BEGIN and "begin" not in event.details and event.category != "event":
            mine.setdefault(event.tid, []).append((event.name, event.ns))
    # The first thread enters functions of libc by jumps, too, which perf does not list as calls.
    workers = [tid for tid in perf if tid != min(perf)]
    if len(workers) != 4 or mine.keys() != perf.keys():
        sys.exit("threads: %s, %s" % (sorted(perf), sorted(mine)))
    for tid in workers:
        if [name for name, _ in mine[tid]] != [name for name, _ in perf[tid]]:
            sys.exit("thread %d has other calls than perf lists" % tid)
        # Between time packets both estimate.
        off = sorted(abs(a[1] - b[1]) for a, b in zip(mine[tid], perf[tid]))
        if off[len(off) // 2] > 0 or off[len(off) * 9 // 10] > 1000:
            sys.exit("thread %d: half of the times differ from perf's by up to %d ns, 90 %% by %d" %
                     (tid, off[len(off) // 2], off[len(off) * 9 // 10]))


if __name__ == "__main__":
    {"ends-at": ends_at, "as-perf": as_perf}[sys.argv[1]](*sys.argv[2:])
