#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares timelines with the calls that a program logged of itself (tests/calls).

timelines.py [OPTION] OBJECT... -- LOG... -- FORMAT=FILE...

For each thread, the slices of functions with a log have to be those of the log, in order. All files
have the same events at the same times.

--recorded=VERIFY.json  the clock is instructions; each thread ends with as many as the recorder
                        counted while it ran (`ptah verify --format=json`)
--folded=FULL.fxt       the first file has the slices of that one that have less than 500 callers
--damaged               the trace is: slices nest all the same, and what is missing is said
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "calls"))
import compare  # noqa: E402
from timeline_readers import BEGIN, END, INSTANT, READERS  # noqa: E402


def fail(text):
    sys.exit("FAIL: " + text)


def split(arguments):
    parts = [[]]
    for argument in arguments:
        if argument == "--":
            parts.append([])
        else:
            parts[-1].append(argument)
    return parts


def slices(events):
    """{tid: [(kind, name, object, time)]}; slices nest, and all end; without time off"""
    threads, open_slices = {}, {}
    for event in events:
        if event.kind == INSTANT:
            continue
        if event.category == "event":
            if event.kind == BEGIN and open_slices.get(event.tid, [None])[-1] == "off":
                fail("thread %d: time off in time off" % event.tid)
            if event.kind == BEGIN:
                open_slices.setdefault(event.tid, []).append("off")
            elif open_slices[event.tid].pop() != "off":
                fail("thread %d: something begins in time off" % event.tid)
            continue
        marks = threads.setdefault(event.tid, [])
        stack = open_slices.setdefault(event.tid, [])
        if marks and event.ns < marks[-1][3]:
            fail("thread %d goes back in time" % event.tid)
        if event.kind == BEGIN:
            stack.append((event.name, event.category))
        elif not stack or stack.pop() != (event.name, event.category):
            fail("thread %d: the end of %s is not that of the innermost slice" %
                 (event.tid, event.name))
        marks.append((event.kind, event.name, event.category, event.ns))
    for tid, stack in open_slices.items():
        if stack:
            fail("thread %d: %d slices do not end" % (tid, len(stack)))
    return threads


def instants_of(events):
    """(tid, time, name, end of the time off or None), of the Firefox Profiler's markers and others'
    slices"""
    since = {}
    for e in events:
        if e.kind == BEGIN and e.category == "event":
            since[e.tid] = e.ns
        elif e.kind == END and e.category == "event":
            yield e.tid, since.pop(e.tid), e.name, e.ns
        elif e.kind == INSTANT and e.name != "incomplete call":
            yield e.tid, e.ns, e.name, -1 if e.category == "event" else e.category


def logged_marks(objects, logs):
    """{tid: [(kind, name, object)]}"""
    known = compare.Objects(objects, [])
    program = objects[0].rsplit("/", 1)[-1]
    threads = compare.read_logs(logs, known, program)
    names = known.names()
    result = {}
    for tid, entries in threads.items():
        result[tid] = []
        for kind, address, _ in compare.Thread(entries, known.find, False).marks:
            base = max(base for base in known.bases if base <= address)
            result[tid].append((kind, names[address], known.bases[base]))
    return result


def only_logged(marks, wanted):
    logged = {mark[1:] for marks in wanted.values() for mark in marks}
    return {tid: [mark[:3] for mark in list_ if mark[1:3] in logged]
            for tid, list_ in marks.items()}


def check_recorded(marks, path):
    with open(path, encoding="utf-8") as file:
        for thread in json.load(file)["threads"]:
            last = marks[thread["tid"]][-1][3]
            if last != thread["recorded"]["instructions"]:
                fail("thread %d ends at %d, after %d instructions" %
                     (thread["tid"], last, thread["recorded"]["instructions"]))


def check_damaged(name, events):
    """Losses are events, and calls with them say so: in details, or as events."""
    if not any(e.kind == INSTANT and e.name == "error" for e in events):
        fail(name + ": the damage is no event")
    noted = sum(e.name == "incomplete call" if name in ("chrome", "firefox") else
                "loss" in e.details or "trace" in str(e.details.get("begin")) or
                "trace" in str(e.details.get("end")) for e in events)
    if not noted:
        fail(name + ": no call says that something is missing")


def check_folded(name, events, full):
    """Calls that are too deep are left out, and the caller of each says so."""
    def cut(events):
        depth, kept = {}, []
        for e in events:
            if e.category == "event":
                continue
            if e.kind == END:
                depth[e.tid] -= 1
            if depth.setdefault(e.tid, 0) < 500:
                kept.append((e.kind, e.tid, e.ns, e.name))
            if e.kind == BEGIN:
                depth[e.tid] += 1
        return kept

    whole = READERS["fxt"](full)
    events = [e for e in events if e.category != "event"]
    if cut(whole) != [(e.kind, e.tid, e.ns, e.name) for e in events]:
        fail(name + ": other calls than the deep ones are left out")
    if len(cut(whole)) == len([e for e in whole if e.category != "event"]):
        fail("no calls are that deep")
    if not any("folded" in e.details for e in events if e.kind == END):
        fail(name + " does not say that calls are left out")


def compare_with_log(name, marks, wanted):
    got = only_logged(marks, wanted)
    for tid in wanted:
        mine = got.get(tid, [])
        if mine != wanted[tid]:
            i = next((i for i, pair in enumerate(zip(mine, wanted[tid])) if pair[0] != pair[1]),
                     min(len(mine), len(wanted[tid])))
            fail("%s, thread %d: slice %d is %s, the log has %s" %
                 (name, tid, i, mine[i:i + 1], wanted[tid][i:i + 1]))


def main():
    objects, logs, files = split(sys.argv[1:])
    option = objects.pop(0) if objects[0].startswith("--") else ""
    wanted = logged_marks(objects, logs)
    if sum(map(len, wanted.values())) < 50:
        fail("the log has next to nothing")
    first = first_name = None
    for argument in files:
        name, _, path = argument.partition("=")
        events = READERS[name](path)
        if events is None:
            print("%s is not read: no protoc or no python3-protobuf" % name)
            continue
        marks = slices(events)
        if option.startswith("--folded="):
            check_folded(name, events, option[9:])
            return
        if option == "--damaged":
            check_damaged(name, events)
        else:
            compare_with_log(name, marks, wanted)
        if option.startswith("--recorded="):
            check_recorded(marks, option[11:])
        # What some formats say in details is an event in the others.
        instants = sorted(instants_of(events))
        if first is None:
            first, first_name = (marks, instants), name
        elif (marks, instants) != first:
            fail("%s has other events than %s" % (name, first_name))
    print("%d threads, %d marks of the log, %d of the timeline" %
          (len(wanted), sum(map(len, wanted.values())), sum(map(len, first[0].values()))))


if __name__ == "__main__":
    main()
