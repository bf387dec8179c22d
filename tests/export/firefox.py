#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""firefox.py PROFILER-CLI.js FILE.fxt: compares the profile that the Firefox Profiler's command has
loaded with a timeline of the same recording and clock."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from timeline_readers import BEGIN, INSTANT, read_fxt  # noqa: E402


def ask(command, *words):
    return json.loads(subprocess.run(["node", command, *words, "--json"], check=True,
                                     stdout=subprocess.PIPE, timeout=600).stdout)


class Thread:
    """The time of each function by the slices, and the instants."""

    def __init__(self):
        self.own, self.all, self.instants = {}, {}, 0
        self.stack, self.since = [], 0

    def take(self, event):
        if event.kind == INSTANT:
            self.instants += 1
            return
        passed, self.since = event.ns - self.since, event.ns
        if self.stack:
            self.own[self.stack[-1]] = self.own.get(self.stack[-1], 0) + passed
        for function in set(self.stack):
            self.all[function] = self.all.get(function, 0) + passed
        if event.kind == BEGIN:
            self.stack.append((event.name, event.category))
        else:
            self.stack.pop()


def ns(ms):
    return round(ms * 1e6)


def main():
    command, path = sys.argv[1:]
    threads = {}
    for event in read_fxt(path):
        threads.setdefault(event.tid, Thread()).take(event)
    found = ask(command, "thread", "list")["threads"]
    if {thread["tid"] for thread in found} != threads.keys():
        sys.exit("threads: %s" % [thread["tid"] for thread in found])
    count = 0
    for thread in found:
        mine, tid = threads[thread["tid"]], thread["tid"]
        # Calls that are not whole have markers besides.
        if thread["markerCount"] < mine.instants:
            sys.exit("thread %d: %d markers, %d instants" %
                     (tid, thread["markerCount"], mine.instants))
        functions = ask(command, "thread", "functions", "--thread", thread["threadHandle"],
                        "--limit", "0")["functions"]
        own, total = {}, {}
        for function in functions:
            # Functions of one name are added up here, as they are in the timeline.
            # An object with the name of the function is left out.
            key = function["name"], function.get("library", function["name"])
            own[key] = own.get(key, 0) + ns(function["selfSamples"])
            total[key] = total.get(key, 0) + ns(function["totalSamples"])
        for got, wanted, what in (own, mine.own, "itself"), (total, mine.all, "in all"):
            got = {key: value for key, value in got.items() if value}
            wanted = {key: value for key, value in wanted.items() if value}
            if got != wanted:
                key = next(key for key in got.keys() | wanted.keys()
                           if got.get(key) != wanted.get(key))
                sys.exit("thread %d: %s has %s %s, not %s" %
                         (tid, key, got.get(key), what, wanted.get(key)))
            count += len(wanted)
    print("%d threads, %d figures" % (len(threads), count))
    if count < 100:
        sys.exit("next to nothing is compared")


if __name__ == "__main__":
    main()
