#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the calls that programs logged (programs/call_log.h) with those that Ptah lists.

compare.py [OPTION...] CALLS.tsv OBJECT... -- LOG...

CALLS.tsv is what `ptah script --calls --format=tsv` prints. Compared are, for each thread, the
beginnings and ends of the functions of OBJECT... that log themselves, in their order. All other
functions (libc, the log, the dynamic linker) are left out on both sides. Of the whole list, what
every list of calls must be is checked: calls nest, depths are those of the nesting, and every
beginning has one end.

--async=NAME  signals come at any instruction, also in the middle of the log: the calls of this
              handler are compared apart from the others
--stacks      threads change stacks: which calls are suspended, and where they are resumed, is not
              compared, but that each begins and ends once
--only=NAMES  only these functions are in the trace
--suffix      the trace begins in the middle
--prefix      the trace ends in the middle
--also=NAMES  functions whose callers log for them
--mutate      puts 40 mistakes into the log, one after the other, and fails unless each is noticed
"""
import argparse
import bisect
import functools
import re
import struct
import subprocess
import sys

ENTER, EXIT, TAIL, UNWIND, SWITCH, FORKED, EXEC = range(7)
BEGIN, END = "+", "-"
# The functions of the log itself, and a call of one of them.
LOG = re.compile(r"^(main\.)?(__cyg_profile_func|calls)_")
ENTERS = re.compile(r"<(main\.)?(__cyg_profile_func|calls)_enter")
# Functions of this name are signal handlers.
HANDLER = re.compile(r"(_ZL?\d+)?on_")


def fail(text):
    sys.exit("FAIL: " + text)


class Objects:
    """The functions of objects, and which of them have a log."""

    def __init__(self, paths, also):
        self.symbols = {}  # name of the object: [(address, name)] by addresses
        self.logged = {}  # name of the object: {address: name}
        self.bases = {}  # base: name of the object
        for path in paths:
            self.read(path, path.rsplit("/", 1)[-1], also)

    def read(self, path, name, also):
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True,
                              stdout=subprocess.PIPE, encoding="utf-8").stdout
        symbols = self.symbols[name] = []
        logged = set()
        for line in text.splitlines():
            if line.endswith(">:"):
                head = re.match(r"([0-9a-f]+) <(.*)>:$", line)
                symbols.append((int(head[1], 16), head[2]))
            elif ENTERS.search(line):
                logged.add(symbols[-1][1].removesuffix(".cold"))
        logged.update(also)
        self.logged[name] = {a: function for a, function in symbols
                             if function in logged and not LOG.search(function)}

    def find(self, address):
        """The address where the function that holds this one begins."""
        base = max((base for base in self.bases if base <= address), default=None)
        symbols = self.symbols.get(self.bases.get(base), ())
        at = bisect.bisect_right(symbols, (address - (base or 0), "\xff")) - 1
        return base + symbols[at][0] if at >= 0 else address

    def add_logged(self, address):
        """A function of which it shows in the log only that it has one."""
        base = max((base for base in self.bases if base <= address), default=0)
        name = self.bases.get(base)
        self.logged.setdefault(name, {}).setdefault(
            address - base, dict(self.symbols.get(name, ())).get(address - base, hex(address)))

    def names(self):
        """{address: name} of the functions with a log"""
        return {base + address: name for base, path in self.bases.items()
                for address, name in self.logged.get(path, {}).items()}


def read_logs(paths, objects, program):
    """{thread: entries}; and where the objects were."""
    threads = {}
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                words = line.decode().rstrip("\n").split(" ", 2)
                if words[0] == "object":
                    # The program has no name there.
                    objects.bases[int(words[1], 0)] = words[2].rsplit("/", 1)[-1] or program
                else:
                    count = int(words[2])
                    threads.setdefault(int(words[1]), []).extend(
                        struct.unpack("<%dQ" % count, file.read(8 * count)))
    return threads


class Thread:
    """The calls of a thread by its log: `marks` has (BEGIN or END, function, how or None)."""

    def __init__(self, entries, find, stacks):
        self.find = find
        self.marks = []
        self.stacks = {0: []}
        self.stack = self.stacks[0]
        self.hidden = []  # functions that were called before the trace began
        self.resumed = not stacks
        for index, entry in enumerate(entries):
            self.take(index, entry >> 56, entry & (1 << 56) - 1)
        # On other stacks calls may be left that do not run again.
        while self.stack and self.resumed:
            self.end(None)

    def end(self, how):
        self.marks.append((END, self.stack.pop()[0], how))

    def begin(self, index, function, how):
        self.marks.append((BEGIN, function, how))
        self.stack.append([function, index, False])

    def show_hidden(self, index):
        if self.hidden and not self.stack:
            self.begin(index, self.hidden.pop(), "running")

    def chain(self):
        """The functions that have left by jumps, one to the next."""
        count = 0
        while count < len(self.stack) and self.stack[-1 - count][2]:
            count += 1
        return [call[0] for call in self.stack[len(self.stack) - count:]]

    def end_chain(self):
        for _ in self.chain():
            self.end("tail")

    def leave(self, index, how):
        """The innermost function ends, and those that had left by a jump to it."""
        self.end(how)
        self.end_chain()
        self.show_hidden(index)

    def take(self, index, kind, value):
        if kind in (ENTER, EXIT):
            value = self.find(value)
        if kind == ENTER:
            jumped = self.stack and self.stack[-1][2]
            if jumped and value in self.chain():
                self.end_chain()
            self.begin(index, value, "jump" if jumped else None)
        elif kind == EXIT:
            if not self.stack or self.stack[-1][0] != value:
                fail("the log ends %#x, which is not the innermost function" % value)
            self.leave(index, None)
        elif kind == TAIL:
            self.stack[-1][2] = True
        elif kind == UNWIND:
            while self.stack and self.stack[-1][1] >= value:
                self.end("unwound")
        elif kind == SWITCH:
            for call in reversed(self.stack) if self.resumed else ():
                self.marks.append((END, call[0], "suspended"))
            self.stack = self.stacks.setdefault(value, [])
            for call in self.stack if self.resumed else ():
                self.marks.append((BEGIN, call[0], "resumed"))
        elif kind == FORKED:
            self.marks = []
            # A function without a log that called fork() does not return.
            self.hidden = [call[0] for call in self.stack] if value else []
            self.stack.clear()
            self.show_hidden(index)
        elif kind == EXEC:
            while self.stack:
                self.end("exec")
            self.hidden = []


def read_calls(path, stacks):
    """{thread: marks}, from Ptah's list, of which the whole is checked."""
    threads, open_calls, cut_off = {}, {}, {}
    with open(path, encoding="utf-8") as file:
        columns = file.readline().rstrip("\n").split("\t")
        tid, mark, how, depth, call, ip = (columns.index(name) for name in
                                           ("tid", "mark", "how", "depth", "call", "ip"))
        for number, line in enumerate(file, 2):
            row = line.rstrip("\n").split("\t")
            thread = int(row[tid])
            marks = threads.setdefault(thread, [])
            stack = open_calls.setdefault(thread, [])
            function = int(row[ip], 16)
            where = "%s:%d: " % (path, number)
            if row[mark] == "begin":
                if int(row[depth]) != len(stack):
                    fail(where + "depth %s with %d calls open" % (row[depth], len(stack)))
                if row[how] == "resumed":
                    if row[call] not in cut_off.get(thread, ()):
                        fail(where + "call %s is resumed, and was not suspended" % row[call])
                    cut_off[thread].remove(row[call])
                stack.append((row[call], function))
                if stacks and row[how] == "resumed":
                    continue
                marks.append((BEGIN, function, row[how]))
            else:
                if not stack:
                    fail(where + "an end without a beginning")
                if stack.pop() != (row[call], function):
                    fail(where + "an end that is not the innermost call's")
                if int(row[depth]) != len(stack):
                    fail(where + "depth %s with %d calls open" % (row[depth], len(stack)))
                if row[how] in ("suspended", "unwound"):
                    cut_off.setdefault(thread, set()).add(row[call])
                if stacks and row[how] in ("suspended", "unwound", "trace-end"):
                    continue
                marks.append((END, function, row[how]))
    for thread, stack in open_calls.items():
        if stack:
            fail("thread %d: %d calls have no end" % (thread, len(stack)))
    return threads


def split(marks, handler):
    """The marks without those of the handler's calls; and these."""
    others, inside = [], []
    depth = 0
    for mark in marks:
        if mark[1] == handler and mark[0] == BEGIN or depth:
            depth += 1 if mark[0] == BEGIN else -1
            inside.append(mark)
        else:
            others.append(mark)
    return others, inside


class Difference(Exception):
    pass


def same(log, mine, names):
    if log[:2] != mine[:2] or log[2] not in (None, mine[2]):
        return False
    if mine[0] == BEGIN and HANDLER.match(names.get(mine[1], "")):
        return mine[2] == "signal"
    return mine[2] != "signal"


def compare_lists(thread, wanted, got, names):
    """Raises Difference at the first mark that is not the same."""
    def show(mark):
        return "%s %s (%s)" % (mark[0], names.get(mark[1], hex(mark[1])), mark[2])

    for i in range(max(len(wanted), len(got))):
        mine = got[i] if i < len(got) else None
        log = wanted[i] if i < len(wanted) else None
        if mine and log and same(log, mine, names):
            continue
        lines = ["thread %d: mark %d of %d differs (%d marks in Ptah's list)" %
                 (thread, i, len(wanted), len(got))]
        lines += ["    both: " + show(m) for m in wanted[max(0, i - 6):i]]
        lines += ["  logged: " + show(m) for m in wanted[i:i + 4]]
        lines += ["    Ptah: " + show(m) for m in got[i:i + 4]]
        raise Difference("\n".join(lines))


def compare(logged, listed, names, handler):
    """Compares {thread: marks}. Returns how many marks there are."""
    count = 0
    for thread in sorted(logged.keys() | listed.keys()):
        parts = [logged.get(thread, []), listed.get(thread, [])]
        if handler is None:
            compare_lists(thread, *parts, names)
        else:
            (mine, inside), (theirs, theirs_inside) = (split(part, handler) for part in parts)
            compare_lists(thread, mine, theirs, names)
            compare_lists(thread, inside, theirs_inside, names)
        count += len(parts[0])
    return count


def cut(logged, listed, suffix):
    """The part of the log that the trace shows; without the marks that its begin or end cause."""
    part = {}
    for thread in listed:
        marks = listed[thread] = [mark for mark in listed[thread]
                                  if mark[2] != ("running" if suffix else "trace-end")]
        if not 100 < len(marks) < len(logged[thread]) - 100:
            fail("thread %d: %d of %d marks are no part of them" %
                 (thread, len(marks), len(logged[thread])))
        part[thread] = logged[thread][-len(marks):] if suffix else logged[thread][:len(marks)]
    return part, listed


def mutate(logged, listed, names, handler):
    """Is every mistake in the log noticed?"""
    thread = max(logged, key=lambda t: len(logged[t]))
    marks = logged[thread]
    for k in range(40):
        i = (k * 7919 + 13) % (len(marks) - 1)
        wrong = list(marks)
        if k % 4 == 0:
            del wrong[i]
        elif k % 4 == 1:
            wrong.insert(i, wrong[i])
        elif k % 4 == 2:
            wrong[i] = (wrong[i][0], wrong[i][1] + 1, wrong[i][2])
        else:
            wrong[i] = (BEGIN if wrong[i][0] == END else END, *wrong[i][1:])
        try:
            compare({**logged, thread: wrong}, listed, names, handler)
        except Difference:
            continue
        fail("mistake %d at mark %d of the log is not noticed" % (k, i))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--async", dest="handler")
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--mutate", action="store_true")
    parser.add_argument("--also", default="")
    parser.add_argument("--only")
    parser.add_argument("--suffix", action="store_true")
    parser.add_argument("--prefix", action="store_true")
    parser.add_argument("calls")
    parser.add_argument("files", nargs="+")
    words = sys.argv[1:]
    options = parser.parse_args(words[:words.index("--")])
    objects = Objects(options.files, options.also.split(","))
    entries = read_logs(words[words.index("--") + 1:], objects,
                        options.files[0].rsplit("/", 1)[-1])
    find = functools.cache(objects.find)
    logged = {thread: Thread(list_, find, options.stacks).marks
              for thread, list_ in entries.items()}
    for address in {mark[1] for marks in logged.values() for mark in marks}:
        objects.add_logged(address)
    names = objects.names()
    if not names:
        fail("no function has a log")
    listed = {thread: [mark for mark in marks if mark[1] in names]
              for thread, marks in read_calls(options.calls, options.stacks).items()}
    if options.only:
        only = options.only.split(",")
        logged, listed = ({thread: [mark for mark in marks if names[mark[1]] in only]
                           for thread, marks in all_.items()} for all_ in (logged, listed))
    if options.suffix or options.prefix:
        logged, listed = cut(logged, listed, options.suffix)
    handler = None
    if options.handler:
        handler = next(address for address, name in names.items() if name == options.handler)
    try:
        count = compare(logged, listed, names, handler)
    except Difference as difference:
        fail(str(difference))
    if not count:
        fail("nothing is logged")
    if options.mutate:
        mutate(logged, listed, names, handler)
    print("%d threads, %d begins and ends are equal" % (len(logged), count))


if __name__ == "__main__":
    main()
