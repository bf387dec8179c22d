#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares coverage files with what gcov counted. The readers here are written from the formats'
descriptions (geninfo(1), gcov's documentation)."""
import json
import os
import re
import sys
import xml.etree.ElementTree


class File:
    def __init__(self):
        self.lines, self.branches, self.functions, self.sums = {}, {}, {}, {}


def read_lcov(path, sums=True):
    """The files of an lcov tracefile. Those of geninfo have no sums."""
    files, f, name = {}, None, None
    for text in open(path, encoding="utf-8"):
        key, _, value = text.rstrip("\n").partition(":")
        if key == "SF":
            assert f is None and value not in files, "a file twice: " + value
            f = files[value] = File()
        elif key == "DA":
            line, count = map(int, value.split(","))
            assert line not in f.lines
            f.lines[line] = count
        elif key == "BRDA":
            line, block, branch, taken = value.split(",")
            f.branches.setdefault(int(line), []).append(0 if taken == "-" else int(taken))
        elif key == "FN":
            line, name = value.split(",", 1)
            f.functions[name] = [int(line), None]
        elif key == "FNDA":
            count, name = value.split(",", 1)
            f.functions[name][1] = int(count)
        elif key in ("LF", "LH", "FNF", "FNH", "BRF", "BRH"):
            f.sums[key] = int(value)
        elif key == "end_of_record":
            if sums:
                check_sums(f)
            f = None
        else:
            assert key == "TN", text
    assert f is None
    return files


def check_sums(f):
    ways = [count for counts in f.branches.values() for count in counts]
    calls = [count for _, count in f.functions.values()]
    for key, values in (("L", f.lines.values()), ("BR", ways), ("FN", calls)):
        assert f.sums[key + "F"] == len(list(values)), key
        assert f.sums[key + "H"] == sum(1 for v in values if v), key


def documents(path):
    """gcov writes one JSON document after the other."""
    text = open(path, encoding="utf-8").read().lstrip()
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:].lstrip()


def read_gcov(path):
    """The files of gcov's JSON documents, added up."""
    files = {}
    for document in documents(path):
        for source in document["files"]:
            f = files.setdefault(source["file"], File())
            for line in source["lines"]:
                number = line["line_number"]
                f.lines[number] = f.lines.get(number, 0) + line["count"]
                counts = [b["count"] for b in line["branches"] if not b["throw"]]
                if counts:
                    old = f.branches.get(number)
                    f.branches[number] = [a + b for a, b in zip(old, counts)] if old else counts
            for function in source["functions"]:
                name = function["name"]
                old = f.functions.get(name, [0, 0])
                f.functions[name] = [function["start_line"],
                                     old[1] + function["execution_count"]]
    return files


def read_cobertura(path):
    """The files of a Cobertura report. Branches are known by their percentages alone."""
    files, root = {}, xml.etree.ElementTree.parse(path).getroot()
    folder = root.find("sources/source").text
    ways = [0, 0]
    for source in root.iter("class"):
        f = files[os.path.join(folder, source.get("filename"))] = File()
        for line in source.findall("lines/line"):
            number = int(line.get("number"))
            f.lines[number] = int(line.get("hits"))
            assert (line.get("branch") == "true") == (line.find("conditions") is not None)
            if line.get("branch") == "true":
                percent, hit, all_ = map(int, re.fullmatch(
                    r"(\d+)% \((\d+)/(\d+)\)", line.get("condition-coverage")).groups())
                taken = [int(c.get("coverage").rstrip("%")) for c in line.iter("condition")]
                assert sum(taken) == 50 * hit and 2 * len(taken) == all_, number
                assert percent == 100 * hit // all_
                f.branches[number] = [hit, all_]
                ways = [ways[0] + hit, ways[1] + all_]
        for method in source.findall("methods/method"):
            lines = {int(x.get("number")): int(x.get("hits")) for x in method.iter("line")}
            assert all(f.lines[n] == hits for n, hits in lines.items())
            f.functions[method.get("signature")] = None
    hits = [hits for f in files.values() for hits in f.lines.values()]
    assert int(root.get("lines-valid")) == len(hits)
    assert int(root.get("lines-covered")) == sum(1 for h in hits if h)
    assert [int(root.get("branches-covered")), int(root.get("branches-valid"))] == ways
    assert abs(float(root.get("line-rate")) - sum(1 for h in hits if h) / len(hits)) < 1e-4
    return files


def same(path, other):
    """Has another file the figures of an lcov tracefile, as far as its format has them?"""
    ours = read_lcov(path)
    if other.endswith(".xml"):
        theirs = read_cobertura(other)
        for f in ours.values():
            f.branches = {n: [sum(1 for c in b if c), len(b)] for n, b in f.branches.items()}
            f.functions = dict.fromkeys(f.functions)
    else:
        theirs = read_gcov(other) if other.endswith(".json") else read_lcov(other, False)
    assert set(ours) == set(theirs), (set(ours), set(theirs))
    for name, f in ours.items():
        for what in ("lines", "branches", "functions"):
            a, b = getattr(f, what), getattr(theirs[name], what)
            if a != b:
                print(name, what, {k: (a.get(k), b.get(k)) for k in set(a) | set(b)
                                   if a.get(k) != b.get(k)})
                return False
    return True


def kind_of(what, text, ours, theirs):
    """Which kind of difference of docs/export.md it is; None: of none."""
    text = text.strip()
    if what == "line" and theirs is None:
        return "end of a function" if text == "}" else None
    if what == "line" and ours is None:
        return "label" if re.match(r"(case .*|default|\w+):$", text) else None
    if what == "branch" and text.startswith("switch"):
        return "switch"
    return None


def compare(ours, theirs, folder):
    ours, theirs = read_lcov(ours), read_gcov(theirs)
    kinds, bad, common = {}, 0, 0
    assert set(ours) == set(theirs), (set(ours), set(theirs))
    for name in sorted(ours):
        assert name.startswith(folder), name
        source = open(name, encoding="utf-8").read().split("\n")
        a, b = ours[name], theirs[name]
        common += len(set(a.lines) & set(b.lines))
        for what, x, y in (("line", a.lines, b.lines), ("branch", a.branches, b.branches),
                           ("function", a.functions, b.functions)):
            for key in sorted(set(x) | set(y)):
                p, q = x.get(key), y.get(key)
                if what == "branch":  # which is the first of the two, compilers decide
                    p, q = sorted(p or []), sorted(q or [])
                if p == q:
                    continue
                text = source[key - 1] if what != "function" else ""
                kind = kind_of(what, text, p, q)
                kinds[kind] = kinds.get(kind, 0) + 1
                if not kind:
                    bad += 1
                    print(f"{os.path.basename(name)}: {what} {key}: {p}, gcov has {q}: {text}")
    print("lines in common:", common)
    print("kinds:", kinds)
    return bad == 0


if __name__ == "__main__":
    sys.exit(not {"compare": compare, "same": same}[sys.argv[1]](*sys.argv[2:]))
