# SPDX-License-Identifier: MIT
"""All commands agree on how often each function was called, and with the program's own counters.

	agreement.py PTAH FIRST LAST
	agreement.py PTAH RECORDING

Makes one program of the random seeds from FIRST up to LAST (random_program.py), records it in the
current folder, and compares the calls of each function in report, profile, calls, report -g,
callgrind's arcs, lcov, the view and the callers' tables, saved counts and windows among them.
Of a recording of any program it compares all functions of all commands with the report's.
"""

import collections
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import random_program

FLAGS = [["gcc", "-O2"], ["gcc", "-O0"], ["clang", "-Oz"], ["gcc", "-Os"],
         ["gcc", "-O2", "-mindirect-branch=thunk", "-fcf-protection=none"], ["clang", "-O2"]]
LINK = ["-no-pie", "-pthread"]


def build(first, last):
    compilers = [f for f in FLAGS if shutil.which(f[0])]
    names = random_program.write(first, last, len(compilers), ".")
    units = [(f, f"unit{i}") for i, f in enumerate(compilers)] + [(["gcc", "-O1"], "main")]
    running = [subprocess.Popen(f + ["-g", "-w", "-fno-pie", "-D_GNU_SOURCE", "-c", "-o", u + ".o", u + ".c"])
               for f, u in units]
    assert not any(p.wait() for p in running), "a unit does not compile"
    subprocess.run(["gcc"] + LINK + ["-o", "program"] + [u + ".o" for _, u in units], check=True)
    return names


class Judge:
    def __init__(self, ptah, names):
        self.ptah = ptah
        self.names = set(names)
        self.wrong = []

    def run(self, *arguments):
        return subprocess.run([self.ptah, *arguments], stdout=subprocess.PIPE, check=True).stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--format=json"))

    def sums(self, rows, count="calls"):
        """The calls of the program's functions."""
        total = collections.Counter({name: 0 for name in self.names})
        for row in rows:
            if row["function"] in self.names and "program" in (row["object"] or ""):
                total[row["function"]] += row[count]
        return total

    def agree(self, what, found, expected, names=None):
        for name in sorted(names or self.names):
            if found[name] != expected[name]:
                self.wrong.append(f"{what}: {name}: {found[name]}, not {expected[name]}")


def lcov(text):
    found = collections.Counter()
    for line in text.splitlines():
        if line.startswith("FNDA:"):
            calls, name = line[5:].split(",", 1)
            found[name] += int(calls)
    return found


def callgrind(text):
    """Calls by callee, of all arcs; and what ran by function."""
    names, arcs, own = {}, collections.Counter(), collections.Counter()
    callee = function = None
    skip = False

    def name_of(value):
        number, _, name = value.partition(" ")
        if name:
            names[number] = name
        return names[number]

    for line in text.splitlines():
        if line.startswith("fn="):
            function = name_of(line[3:])
        elif line.startswith("cfn="):
            callee = name_of(line[4:])
        elif line.startswith("calls="):
            arcs[callee] += int(line[6:].split()[0])
            skip = True
        elif line.startswith("0x"):
            own[function] += 0 if skip else int(line.split()[2])
            skip = False
    return arcs, own


def view(path):
    """The functions of the page that ptah view writes."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location("view_numbers", here + "/../view/numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answers = module.answers(path)
    key = next(k for k in answers if re.match(r"functions\b", k))
    d = json.loads(answers[key])
    return [{"function": name, "object": d["objects"][d["object"][i]], "calls": d["count"][i]}
            for i, name in enumerate(d["name"])]


def check(judge, counters):
    calls = judge.json("calls", "-n0", "--stubs")["functions"]
    report = judge.json("report", "-n0")
    judge.agree("calls", judge.sums(calls), counters)
    judge.agree("report", judge.sums(report["functions"]), counters)
    judge.agree("profile", judge.sums(judge.json("profile", "--by=functions", "-n0")["functions"]), counters)
    judge.run("profile", "--save=saved", "--calls", "-q")
    judge.agree("saved counts", judge.sums(judge.json("profile", "--by=functions", "-n0", "-i", "saved")["functions"]), counters)
    for option in ([], ["--stubs"]):
        nodes = judge.json("report", "-g", "-n0", *option)["nodes"]
        judge.agree("report -g", judge.sums(nodes), counters)
    judge.run("view", "-q", "-o", "view.html")
    judge.agree("view", judge.sums(view("view.html")), counters)
    found = lcov(judge.run("export", "-q", "--to=lcov").decode())
    judge.agree("lcov", found, counters, set(found) & judge.names)
    assert len(set(found) & judge.names) > 6, found
    arcs, own = callgrind(judge.run("export", "-q", "--to=callgrind").decode())
    judge.agree("callgrind", arcs, counters)
    # Instructions: of code by where it lies, and of calls by what ran in them.
    ran = judge.sums(report["functions"], "instructions")
    judge.agree("callgrind's instructions", own, ran)
    judge.agree("self instructions of calls", judge.sums(calls, "self"), ran)
    for name in sorted(judge.names)[::max(1, len(judge.names) // 8)]:
        if counters[name]:
            rows = judge.json("calls", "-n0", "--callers=" + name)["callers"]
            judge.agree("callers", {name: sum(r["calls"] for r in rows)}, counters, {name})
    return report["instructions"]


def check_generated(judge):
    """Generated code: of 9 passes 6 call the first function, which calls the second as 3 do."""
    rows = {"report": judge.json("report", "-n0")["functions"],
            "calls": judge.json("calls", "-n0")["functions"],
            "report -g": judge.json("report", "-g", "-n0")["nodes"]}
    for what, found in rows.items():
        sums = collections.defaultdict(lambda: [0, 0])
        for row in found:
            if row["object"] in ("[code]", "//anon", "[anon]"):
                key = next(k for k in ("self_instructions", "self", "instructions") if k in row)
                sums[row["function"]][0] += row["calls"]
                sums[row["function"]][1] += row[key]
        if sorted(sums.values()) != [[6, 18], [9, 27]]:
            judge.wrong.append(f"{what}: generated code: {dict(sums)}")


def check_windows(judge, counters, instructions):
    """Parts of the recording add up to the whole."""
    bounds = [0] + [instructions * k // 4 + 17 * k for k in (1, 2, 3)] + [None]
    for command in ("report", "calls"):
        total = collections.Counter()
        for begin, end in zip(bounds, bounds[1:]):
            window = [f"--since=@{begin}"] if begin else []
            window += [f"--until=@{end - 1}"] if end else []
            total.update(judge.sums(judge.json(command, "-n0", *window)["functions"]))
        judge.agree(command + " in windows", total, counters)


def check_recording(ptah, path):
    """What no counter of the program says: whatever ran, the commands say the same of it."""
    judge = Judge(ptah, [])

    def sums(rows):
        found = collections.Counter()
        for row in rows:
            found[f"{row['function']} in {os.path.basename(row['object'] or '')}"] += row["calls"]
        return found

    report = sums(judge.json("report", "-n0", "-i", path)["functions"])
    judge.run("view", "-q", "-o", "view.html", path)
    others = {"calls": judge.json("calls", "-n0", "--stubs", "-i", path)["functions"],
              "profile": judge.json("profile", "--by=functions", "-n0", "-i", path)["functions"],
              "report -g": judge.json("report", "-g", "-n0", "--stubs", "-i", path)["nodes"]}
    for what, rows in others.items():
        judge.agree(f"{path}: {what}", sums(rows), report, set(report) | set(sums(rows)))
    # The view leaves stubs out, as calls and report -g do without --stubs.
    shown = sums(view("view.html"))
    judge.agree(f"{path}: view", shown, report, set(shown))
    judge.agree(f"{path}: view", shown,
                sums(judge.json("calls", "-n0", "-i", path)["functions"]), set(report))
    for line in judge.wrong[:40]:
        print(line)
    assert report and not judge.wrong, f"{len(judge.wrong)} differ in {path}"


def main():
    if len(sys.argv) == 3:
        check_recording(sys.argv[1], sys.argv[2])
        return
    ptah, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    names = build(first, last)
    subprocess.run([ptah, "record", "-q", "--",
                    "./program", "counts"], check=True)
    counters = collections.Counter(dict(zip(names, map(int, open("counts", encoding="utf-8")))))
    judge = Judge(ptah, names)
    check_generated(judge)
    check_windows(judge, counters, check(judge, counters))
    for line in judge.wrong[:40]:
        print(line)
    assert not judge.wrong, f"{len(judge.wrong)} differ (seeds {first} to {last})"
    print(f"{len(names)} functions, {sum(counters.values())} calls: all agree")


if __name__ == "__main__":
    main()
