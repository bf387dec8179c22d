#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads callgrind's format, as https://valgrind.org/docs/manual/cl-format.html has it.

costs.py logged FILE STAT.json PROGRAM LOG...   the calls that the program logged
costs.py same FILE OTHER FIRST LAST     two files: the same costs and calls, by address, but for
                                        the instructions from FIRST to LAST
costs.py lines FILE PROGRAM             the lines of a program at fixed addresses are addr2line's
costs.py annotated FILE LIST            what callgrind_annotate lists of it
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["PTAH_SOURCE"], "tests/calls"))
import compare  # noqa: E402


def fail(text):
    sys.exit("FAIL: " + text)


class Profile:
    def __init__(self, path):
        self.costs = {}  # {(function, address, line): instructions}
        self.calls = {}  # {(caller, callee, site, target): [calls, instructions]}
        self.total = None
        self.names = {}
        with open(path, encoding="utf-8") as file:
            self.read(path, file)

    def name(self, kind, text):
        match = re.fullmatch(r"\((\d+)\)(?: (.*))?", text)
        if not match:
            return text
        key = kind, match[1]
        if match[2] is not None:
            if self.names.setdefault(key, match[2]) != match[2]:
                fail("%s %s has two names" % key)
        return self.names[key]

    def position(self, words):
        result = []
        for i, word in enumerate(words):
            if word == "*":
                value = self.last[i]
            elif word[0] in "+-":
                value = self.last[i] + int(word, 0)
            else:
                value = int(word, 0)
            result.append(value)
        self.last = result
        return result

    def read(self, path, file):
        self.last = [0, 0]
        function = callee = calls = None
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            match = re.match(r"([a-z]+)=(.*)$", line)
            if match and match[1] in ("ob", "cob"):
                self.name("ob", match[2])
            elif match and match[1] in ("fl", "fi", "fe", "cfi", "cfl"):
                self.name("fl", match[2])
            elif match and match[1] == "fn":
                function = self.name("fn", match[2])
            elif match and match[1] == "cfn":
                callee = self.name("fn", match[2])
            elif match and match[1] == "calls":
                words = match[2].split()
                calls = int(words[0])
                # Relative to the last cost, which it does not change.
                before = self.last
                target = self.position(words[1:3])[0]
                self.last = before
            elif match and match[1] in ("jump", "jcnd"):
                calls = -1
            elif line.startswith(("totals: ", "summary: ")):
                self.total = int(line.split()[1])
            elif re.match(r"[0-9+*-]", line):
                words = line.split()
                address, where = self.position(words[:2])
                cost = int(words[2]) if len(words) > 2 else 0
                if calls is None:
                    key = function, address, where
                    self.costs[key] = self.costs.get(key, 0) + cost
                elif calls >= 0:
                    entry = self.calls.setdefault((function, callee, address, target), [0, 0])
                    entry[0] += calls
                    entry[1] += cost
                calls = None
            elif line and not re.match(r"#|[a-z]+: ", line):
                fail("%s:%d: %r" % (path, number, line))
        if sum(self.costs.values()) != self.total:
            fail("%s: %d instructions, and totals: %r"
                 % (path, sum(self.costs.values()), self.total))


def same(what, found, expected):
    for key in sorted(set(found) | set(expected)):
        if found.get(key) != expected.get(key):
            fail("%s: %s: found %r, expected %r"
                 % (what, key, found.get(key), expected.get(key)))


def logged(path, stat, program, *logs):
    profile = Profile(path)
    with open(stat, encoding="utf-8") as file:
        total = sum(stream["instructions"] for stream in json.load(file)["streams"])
    if profile.total != total:
        fail("%d instructions of %d" % (profile.total, total))
    objects = compare.Objects([program], [])
    expected = {}
    for entries in compare.read_logs(logs, objects, os.path.basename(program)).values():
        stack = []
        for mark, function, _ in compare.Thread(entries, objects.find, False).marks:
            if mark == compare.END:
                stack.pop()
                continue
            function = objects.names()[function]
            # libc calls these.
            if stack and function not in ("compare", "run"):
                key = stack[-1], function
                expected[key] = expected.get(key, 0) + 1
            stack.append(function)
    wanted = {name for pair in expected for name in pair}
    found = {}
    for (caller, callee, _, _), (calls, _) in profile.calls.items():
        if caller in wanted and callee in wanted:
            found[caller, callee] = found.get((caller, callee), 0) + calls
    same("calls", found, expected)


def by_address(profile, end):
    costs, calls = {}, {}
    for (_, address, _), cost in profile.costs.items():
        if not end[0] <= address <= end[1]:
            costs[address] = costs.get(address, 0) + cost
    for (_, _, site, target), (count, cost) in profile.calls.items():
        if count:  # not the first function, which nothing called
            entry = calls.setdefault((site, target), [0, 0])
            entry[0] += count
            entry[1] += cost
    return costs, calls


def lines(path, program):
    found = {address: line for (_, address, line) in Profile(path).costs}
    text = subprocess.run(["addr2line", "-e", program] + ["%#x" % a for a in found],
                          check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    expected = {}
    for address, line in zip(found, text.splitlines()):
        number = line.rsplit(":", 1)[1].split()[0]
        expected[address] = int(number) if number.isdigit() else 0
    same("lines", found, expected)


def annotated(path, list_path):
    expected, found = {}, {}
    for (function, _, _), cost in Profile(path).costs.items():
        expected[function] = expected.get(function, 0) + cost
    with open(list_path, encoding="utf-8") as file:
        for line in file:
            match = re.match(r" *([\d,]+) \( *[\d.]+%\)  .*?:([^:]*?)(?: \[[^]]*\])?$", line)
            if match:
                found[match[2]] = found.get(match[2], 0) + int(match[1].replace(",", ""))
    same("callgrind_annotate", found, expected)


def main():
    if sys.argv[1] == "same":
        # callgrind does not count the block whose system call ends the program.
        end = [int(address, 16) for address in sys.argv[4:6]]
        one, two = (by_address(Profile(path), end) for path in sys.argv[2:4])
        same("costs", one[0], two[0])
        # What it does not count is missing in the call that is open then, too.
        left = Profile(sys.argv[2]).total - sum(one[0].values())
        last = max(target for _, target in two[1] if target <= end[0])
        for (_, target), entry in two[1].items():
            entry[1] += left if target == last else 0
        same("calls", one[1], two[1])
    else:
        {"logged": logged, "lines": lines, "annotated": annotated}[sys.argv[1]](*sys.argv[2:])


main()
