#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""same_calls.py CALLS.json STRACE.txt: are the system calls in both the same, one by one?

Compared are their names and their results; of those that return an address or a number of this run,
whether they failed.
"""
import json
import re
import sys

# Results that differ from run to run: addresses, and numbers of threads.
OF_THIS_RUN = {"brk", "mmap", "mremap", "set_tid_address", "getpid", "gettid", "getppid",
               "getpgrp", "getpgid", "getrandom"}
# The recorder keeps these from the program, and the C library does without them.
CHANGED = {"rseq", "clone3"}


def of_ptah(path):
    # execve returns in the new program; it has no beginning in the trace.
    for row in json.load(open(path))["calls"]:
        if row.get("event") == "system call":
            yield row["name"], row.get("result")


def of_strace(path):
    for line in open(path):
        match = re.match(r"(\w+)\(.*\)\s+= (\?|-?\w+)", line)
        if match:
            name, result = match.groups()
            errors = re.search(r"= -1 (E\w+|\(errno (\d+)\))", line)
            if errors:
                yield name, errors.group(1)
            else:
                octal = re.match(r"0\d", result) # of umask
                yield name, None if result == "?" else int(result, 8 if octal else 0)


def simple(name, result):
    if name in OF_THIS_RUN and isinstance(result, int) and not -4096 < result < 0:
        return name, "ok"
    return name, "failed" if isinstance(result, str) or (result or 0) < 0 else result


def main():
    mine = [simple(*c) for c in of_ptah(sys.argv[1]) if c[0] not in CHANGED]
    theirs = [simple(*c) for c in of_strace(sys.argv[2]) if c[0] not in CHANGED]
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a != b:
            sys.exit("call %d: %s, and %s of strace" % (i, a, b))
    if len(mine) != len(theirs):
        sys.exit("%d calls, and %d of strace" % (len(mine), len(theirs)))
    print("%d calls" % len(mine))


main()
