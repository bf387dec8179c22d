#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares Ptah's calls and returns with those of perf, line by line.

perf_calls.py PERF.txt CALLS.tsv

PERF.txt is what `perf script --itrace=cr -F +flags` prints: each call instruction and each return
instruction with the address that it went to. CALLS.tsv is what `ptah script --calls --format=tsv`
prints: what these instructions meant. The lists are made comparable by these rules, and must then be
equal for each thread, in order:

 - perf's other lines (where tracing begins and ends) are no calls.
 - Of Ptah's, calls and returns count; and functions that begin or continue by `jump` or `resumed`,
   where the instruction is a return: a retpoline, lazy binding, a switch of stacks. Where it is a
   jump, perf has no line; nor where a function returns by a jump, as a switch of stacks may.
 - Functions that end as `unwound` or `suspended` by a return instruction are one return, together
   with the function that returns then. What ends because of another call's end was no instruction.
   What a signal handler returns to, __restore_rt, ends by a system call.
 - A call into the function itself, behind its beginning, is none for Ptah (a call to the next
   instruction, which gets the address; the inner call of a retpoline). Neither is the return from
   it.
"""
import re
import sys

LINE = re.compile(r"^\s*(?P<comm>.*?)\s+(?P<tid>\d+)\s+(?:\[\d+\]\s+)?[\d.]*:?\s*\d*\s*"
                  r"branches(?::\w*)?:\s+(?P<flags>.*?)\s+(?P<source>[0-9a-f]+) "
                  r"(?P<from>.*?) \(.*\) => +(?P<target>[0-9a-f]+) (?P<to>.*?) \(.*?\)$")


def fail(text):
    sys.exit("FAIL: " + text)


def read_perf(path):
    """{thread: [(what, from, to, is the call a local one)]}"""
    threads = {}
    returns = set()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = LINE.match(line)
            if not match:
                if "branches" in line or "error" in line:
                    fail("perf: " + line)
                continue
            source, target = int(match["source"], 16), int(match["target"], 16)
            name, _, offset = match["to"].rpartition("+")
            local = offset not in ("", "0x0") and match["from"].rpartition("+")[0] == name
            words = match["flags"].split()
            if words == ["return"]:
                returns.add(source)
            elif words != ["call"]:
                continue
            threads.setdefault(int(match["tid"]), []).append((words[0], source, target, local))
    return threads, returns


class Calls:
    """The lines of Ptah's list that stand for instructions: [(what, from, to or None)]."""

    def __init__(self):
        self.events = []
        self.returned = None  # the return instruction by which the lines before this one ended
        self.cut = None  # the one by which they were cut off

    def add(self, what, source, target=None):
        self.events.append((what, source, target))

    def take(self, begins, how, source, target, is_return):
        """A line, where its instruction is known; is that one that returns?"""
        returned, cut = self.returned, self.cut
        self.returned = self.cut = None
        if begins and how == "call":
            self.add("call", source, target)
        elif begins and how in ("jump", "resumed") and is_return:
            if returned != source:
                self.add("return", source)
        elif not begins and how in ("unwound", "suspended") and is_return:
            if cut != source:
                self.add("return", source)
            self.returned = self.cut = source
        elif not begins and how == "return" and is_return:
            if cut != source:
                self.add("return", source)
            self.returned = source


def read_ptah(path, returns):
    """{thread: Calls}"""
    threads = {}
    with open(path, encoding="utf-8") as file:
        columns = file.readline().rstrip("\n").split("\t")
        tid, mark, how, ip, site, symbol = (
            columns.index(name) for name in ("tid", "mark", "how", "ip", "site", "symbol"))
        for line in file:
            row = line.rstrip("\n").split("\t")
            if not row[site] or row[symbol] == "__restore_rt" and row[mark] == "end":
                continue
            source = int(row[site], 16)
            threads.setdefault(int(row[tid]), Calls()).take(
                row[mark] == "begin", row[how], source, int(row[ip], 16), source in returns)
    return threads


def compare(thread, perf, ptah):
    """Returns how many lines of perf are local calls and returns from these."""
    k = local = 0
    pending = []  # local calls, where their returns may go to
    for i, (what, source, target, is_local) in enumerate(perf):
        mine = ptah[k] if k < len(ptah) else None
        if mine and mine[:2] == (what, source) and mine[2] in (None, target):
            k += 1
            continue
        if what == "call" and is_local:
            pending.append(source)
            local += 1
            continue
        if what == "return" and any(call < target <= call + 8 for call in pending):
            while not pending[-1] < target <= pending[-1] + 8:
                pending.pop()
            pending.pop()
            local += 1
            continue
        around = ["    both: %s %#x %#x" % line[:3] for line in perf[max(0, i - 5):i]]
        around += ["    perf: %s %#x %#x" % line[:3] for line in perf[i:i + 5]]
        around += ["    Ptah: %s %#x %#x" % (line[0], line[1], line[2] or 0)
                   for line in ptah[k:k + 5]]
        fail("thread %d, line %d of %d\n%s" % (thread, i, len(perf), "\n".join(around)))
    if k < len(ptah):
        fail("thread %d: Ptah has more: %s" % (thread, ptah[k:k + 5]))
    return local


def main():
    perf, returns = read_perf(sys.argv[1])
    ptah = read_ptah(sys.argv[2], returns)
    if not perf:
        fail("perf lists no calls")
    if perf.keys() != ptah.keys():
        fail("threads of perf %s, of Ptah %s" % (sorted(perf), sorted(ptah)))
    local = sum(compare(thread, perf[thread], ptah[thread].events) for thread in sorted(perf))
    print("%d threads, %d calls and returns are equal, %d are local" %
          (len(perf), sum(map(len, perf.values())) - local, local))


if __name__ == "__main__":
    main()
