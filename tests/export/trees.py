#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `ptah export` of call trees with the calls that a program logged.

trees.py BASE HOSTILE STAT.json PROGRAM LOG...

BASE.folded, BASE.svg, BASE.speedscope and BASE.pprof are what Ptah wrote; raw.txt, if it is there, is
what `go tool pprof -raw` reads from the last. PROGRAM has its functions' original names; in the
program that ran, HOSTILE was the name of the function `strange`.
"""
import gzip
import json
import os
import re
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.environ["PTAH_SOURCE"], "tests/calls"))
import compare  # noqa: E402


def fail(text):
    sys.exit("FAIL: " + text)


def same(what, found, expected):
    for key in sorted(set(found) | set(expected), key=str):
        if found.get(key, 0) != expected.get(key, 0):
            fail("%s: %r: found %r, expected %r"
                 % (what, key, found.get(key, 0), expected.get(key, 0)))


def logged_paths(program, logs):
    """{path of addresses: calls}, {address: name}"""
    objects = compare.Objects([program], [])
    paths = {}
    for entries in compare.read_logs(logs, objects, os.path.basename(program)).values():
        stack = []
        for mark, function, _ in compare.Thread(entries, objects.find, False).marks:
            if mark == compare.END:
                stack.pop()
                continue
            stack.append(function)
            paths[tuple(stack)] = paths.get(tuple(stack), 0) + 1
    return paths, objects.names()


def add(paths, path, value):
    paths[path] = paths.get(path, 0) + value


def only(stack, wanted):
    return tuple(function for function in stack if function in wanted)


def read_folded(path):
    """{stack of names: value}"""
    stacks = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            stack, value = line.rstrip("\n").rsplit(" ", 1)
            stack = tuple(stack.split(";"))
            if stack in stacks:
                fail("two lines of " + ";".join(stack))
            stacks[stack] = int(value)
    return stacks


def read_speedscope(path):
    """The same, from events that have to nest."""
    stacks = {}
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    frames = [frame["name"] for frame in profile["shared"]["frames"]]
    for part in profile["profiles"]:
        stack, at = [], part["startValue"]
        for event in part["events"]:
            if event["at"] < at:
                fail("speedscope: %d after %d" % (event["at"], at))
            if event["at"] > at and stack:
                add(stacks, tuple(stack), event["at"] - at)
            at = event["at"]
            if event["type"] == "O":
                stack.append(frames[event["frame"]])
            elif frames[event["frame"]] != stack.pop():
                fail("speedscope: calls do not nest")
        if stack or at != part["endValue"]:
            fail("speedscope: calls are open at the end")
    return stacks


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The fields of a message of protocol buffers: (number, value or bytes)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value = data[at:at + size]
            if len(value) != size:
                fail("pprof: a field is cut")
            at += size
        else:
            fail("pprof: wire type %d" % (key & 7))
        yield key >> 3, value


def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def read_pprof(path):
    """({type: {stack of addresses: value}}, {address: name})"""
    with gzip.open(path) as file:
        profile = {}
        for number, value in fields(file.read()):
            profile.setdefault(number, []).append(value)
    strings = [text.decode() for text in profile[6]]
    types = [strings[dict(fields(entry))[1]] for entry in profile[1]]
    functions = {dict(fields(entry))[1]: strings[dict(fields(entry))[2]] for entry in profile[5]}
    addresses, names = {}, {}
    for entry in profile[4]:
        location = dict(fields(entry))
        addresses[location[1]] = location[3]
        names[location[3]] = functions[dict(fields(location[4]))[1]]
    stacks = {name: {} for name in types}
    for entry in profile[2]:
        sample = dict(fields(entry))
        stack = tuple(addresses[i] for i in reversed(packed(sample[1])))
        for name, value in zip(types, packed(sample[2])):
            add(stacks[name], stack, value)
    return stacks, names


def read_raw(path):
    """The calls in what `go tool pprof -raw` prints: {stack of addresses: calls}"""
    stacks, samples, addresses = {}, [], {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(r"\s+([\d ]+): ([\d ]+) $", line)
            if match:
                samples.append((match[1].split(), match[2].split()))
            match = re.match(r"\s+(\d+): (0x[0-9a-f]+) M=", line)
            if match:
                addresses[match[1]] = int(match[2], 16)
    for values, stack in samples:
        add(stacks, tuple(addresses[i] for i in reversed(stack)), int(values[0]))
    return stacks


def check_svg(path, paths, names, total):
    """Frames have the names and calls of the log, and lie on those that called them."""
    space = "{http://www.w3.org/2000/svg}"
    frames = []
    for group in xml.etree.ElementTree.parse(path).getroot().iter(space + "g"):
        rect = group.find(space + "rect")
        title, figures = group.find(space + "title").text.rsplit("\n", 1)
        calls = re.search(r"; ([\d,]+) calls?$", figures)
        value = int(re.match(r"[\d,]+", figures)[0].replace(",", ""))
        frames.append((float(rect.get("x")), float(rect.get("width")), int(rect.get("y")),
                       re.sub(r" \([^()]*\)$", "", title), value,
                       int(calls[1].replace(",", "")) if calls else 0))
    rows = sorted({frame[2] for frame in frames}, reverse=True)
    if frames[0][4] != total:
        fail("svg: the lowest frame has %d of %d" % (frames[0][4], total))
    stacks = {}
    below = {}
    for x, width, y, name, value, calls in frames:
        if abs(width - value * frames[0][1] / total) > 0.02:
            fail("svg: %s has %d, and is %f wide" % (name, value, width))
        row = rows.index(y)
        callers = below.get(row - 1, [])
        caller = [c for c in callers if c[0] - 0.02 <= x and x + width <= c[0] + c[1] + 0.02]
        if row and len(caller) != 1:
            fail("svg: %s does not lie on one caller" % name)
        stack = caller[0][2] + (name,) if row else ()
        below.setdefault(row, []).append((x, width, stack))
        path = only(stack, names)
        if calls and path and stack[-1] in names:
            add(stacks, path, calls)
    same("svg", stacks, paths)


def main():
    base, hostile, stat, program, *logs = sys.argv[1:]
    paths, names = logged_paths(program, logs)
    with open(stat, encoding="utf-8") as file:
        total = sum(stream["instructions"] for stream in json.load(file)["streams"])

    pprof, shown = read_pprof(base + ".pprof")
    found = {}
    for stack, calls in pprof["calls"].items():
        if calls and stack[-1] in names:
            add(found, only(stack, names), calls)
    same("pprof", found, paths)
    if os.path.exists("raw.txt"):
        same("go tool pprof", {s: n for s, n in read_raw("raw.txt").items() if n},
             {s: n for s, n in pprof["calls"].items() if n})
    # What a terminal would obey is "?" in all of Ptah's names.
    hostile = hostile.replace("\n", "?")
    names = {a: name if name != "strange" else hostile for a, name in names.items()}
    same("pprof's names", {a: shown.get(a) for a in names}, names)
    if sum(pprof["instructions"].values()) != total:
        fail("pprof: %d instructions of %d" % (sum(pprof["instructions"].values()), total))

    def by_name(change):
        expected = {}
        for path, calls in paths.items():
            add(expected, tuple(change(names[a]) for a in path), calls)
        return expected

    for kind, read, change in (
            ("folded", read_folded, lambda name: name.replace(";", ":")),
            ("speedscope", read_speedscope, lambda name: name)):
        stacks = read(base + "." + kind)
        if sum(stacks.values()) != total:
            fail("%s: %d instructions of %d" % (kind, sum(stacks.values()), total))
        expected = by_name(change)
        wanted = {name for path in expected for name in path}
        same(kind, {only(s, wanted): 1 for s in stacks if s[-1] in wanted},
             dict.fromkeys(expected, 1))
        # The paths are those of pprof, with the same figures.
        found = {}
        for stack, value in pprof["instructions"].items():
            if value:
                add(found, tuple(change(shown[a]) for a in stack), value)
        same(kind + " and pprof", stacks, found)
    expected = by_name(lambda name: name)
    check_svg(base + ".svg", expected, {name for path in expected for name in path}, total)


main()
