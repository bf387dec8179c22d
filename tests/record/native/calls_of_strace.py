#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calls_of_strace.py SYSCALLS.DEF STRACE PERF-SCRIPT [emulated]: whether a recording has the same system calls
as strace has seen in another run of the same program: thread by thread, in their order, with names,
results and paths. docs/perf-data.md says where the two differ on purpose. emulated: what the loader does before main()
depends on the addresses and the processor that it sees, and what posix_spawn() does in the child on
the signals that there are; both are left out."""
import errno
import re
import sys

LIMIT = 1 << 20  # larger results are addresses


class Call:
    def __init__(self, name, result="?", data=None):
        self.name, self.result, self.data = name, result, data

    def __repr__(self):
        return "%s = %s %s" % (self.name, self.result, self.data or "")


def unescape(text):
    return text.encode().decode("unicode_escape")


def read_strace(path):
    """{thread: [Call]} in the order in which threads begin."""
    threads, open_calls = {}, {}
    for line in open(path):
        tid, _, what = re.match(r"(\d+) +([\d.]+) (.*)", line).groups()
        calls = threads.setdefault(int(tid), [])
        if what.startswith(("---", "+++", "???", "<... ???")):
            continue  # a signal, an end; a call that strace does not know, in which a thread ends
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", what)
        if resumed:
            call, rest = open_calls.pop(tid), resumed.group(1)
        else:
            name, rest = re.match(r"(\w+)\((.*)", what).groups()
            call = Call(name)
            calls.append(call)
            path_at = re.match(r'(?:AT_FDCWD, |-?\d+, )?"((?:[^"\\]|\\.)*)"', rest)
            if path_at:
                call.data = unescape(path_at.group(1))
            if rest.endswith("<unfinished ...>"):
                open_calls[tid] = call
                continue
        result = re.search(r"\) += (\?|-?\w+)(?: (E\w+))?", rest)
        if result and result.group(2) and result.group(2).startswith("ERESTART"):
            call.result = result.group(2)
        elif result and result.group(2):
            call.result = -getattr(errno, result.group(2))
        elif result and result.group(1) != "?":
            call.result = int(result.group(1), 0)
    return threads


def read_perf(path, names):
    """The same of what perf script prints of the samples; times do not go back."""
    threads, waiting, last, before = {}, {}, {}, None
    for line in open(path):
        tid, time, event, what = re.match(r" *(\d+) +([\d.]+): +(\w+:\w+): (.*)", line).groups()
        tid = int(tid)
        calls = threads.setdefault(tid, [])
        if float(time) < last.get(tid, 0):
            sys.exit("FAIL: times go back: " + line)
        last[tid] = float(time)
        number = int(re.match(r"NR (-?\d+)", what).group(1))
        name = names.get(number, "syscall_0x%x" % number)
        if event == "raw_syscalls:sys_enter":
            waiting[tid] = Call(name)
            calls.append(waiting[tid])
        elif event == "raw_syscalls:sys_exit":
            result = int(what.split("= ")[1])
            if tid not in waiting and name == "execve":
                calls.append(Call(name, result, UNKNOWN))  # the recorder has started it
            elif tid in waiting:
                call = waiting.pop(tid)
                if call.name != name:
                    sys.exit("FAIL: %s returned as %s" % (call.name, name))
                call.result = result
            elif calls or name not in ("clone", "clone3", "fork") or result:
                sys.exit("FAIL: returned without being called: " + line)
        elif event == "ptah:sys_data":
            call = calls[-1]
            if before != (tid, time) or call.name != name:
                sys.exit("FAIL: data of no call: " + line)
            text = re.search(r"arg \d (?:before|after) ?(.*)", what).group(1)
            call.data = text
        before = (tid, time)
    return threads


UNKNOWN = object()
RESTARTS = {"ERESTARTSYS": -512, "ERESTARTNOINTR": -513, "ERESTARTNOHAND": -514,
            "ERESTART_RESTARTBLOCK": -516}
PATHS = {"open", "openat", "access", "execve", "newfstatat", "stat", "unlink", "readlink"}


def result_of(call, threads):
    """What can be compared: threads by their order, addresses not at all."""
    if call.name == "rt_sigreturn":
        return "?"  # returns, but not from a call that the program has made there
    if isinstance(call.result, int):
        if call.result in threads and call.result:
            return "thread %d" % threads.index(call.result)
        if call.name == "getppid" and call.result > 0:
            return "a process that is not recorded"
        if call.result >= LIMIT or call.result < -4095:
            return "address"
    return call.result


def is_same(judge, judges, ours, others):
    if judge.name != ours.name:
        return False
    if judge.name in PATHS and judge.data is not None and ours.data is not UNKNOWN:
        if (judge.data or None) != (ours.data or None):
            return False
    a, b = result_of(judge, judges), result_of(ours, others)
    # The kernel's own results of calls that a signal has interrupted; the program gets EINTR.
    if isinstance(a, str) and a.startswith("ERESTART"):
        return b == -errno.EINTR or b == RESTARTS.get(a)
    return a == b


def from_execve(calls):
    return calls[[c.name for c in calls].index("execve"):]


def without_loader(calls):
    """From each execve the loader's calls go up to set_tid_address of the C library."""
    kept, loads = [], False
    for call in calls:
        loads = loads and call.name != "set_tid_address"
        if not loads:
            kept.append(call)
        loads = loads or (call.name == "execve" and call.result == 0)
    return kept


def main():
    names = {}
    for line in open(sys.argv[1]):
        row = re.match(r"SYSCALL\((\d+), (\w+),", line)
        if row:
            names[int(row.group(1))] = row.group(2)
    judge, ours = read_strace(sys.argv[2]), read_perf(sys.argv[3], names)
    if len(judge) != len(ours):
        sys.exit("FAIL: strace has %d threads, the recording %d" % (len(judge), len(ours)))
    count = 0
    for (a, calls), (b, own) in zip(sorted(judge.items()), sorted(ours.items())):
        if sys.argv[4:] == ["emulated"]:
            calls, own = without_loader(calls), without_loader(own)
            own = from_execve(own) if any(c.name == "execve" for c in calls) else own
        # A child of vfork() is recorded from its execve on.
        if own[0].name == "execve":
            calls = from_execve(calls)
        # Where the kernel ends a thread, it may be in the last of these calls, or not there yet. strace
        # shows such a thread's call by what is in its registers then: the exit_group of another one.
        if any(l[-1].name not in ("exit", "exit_group") for l in (calls, own)):
            least = min(len(calls), len(own)) - 1
            calls, own = calls[:least], own[:least]
        for i in range(max(len(calls), len(own))):
            x = calls[i] if i < len(calls) else None
            y = own[i] if i < len(own) else None
            if not x or not y or not is_same(x, sorted(judge), y, sorted(ours)):
                sys.exit("FAIL: thread %d, call %d: strace has %r, the recording %r\n%r\n%r"
                         % (sorted(judge).index(a), i, x, y, calls[max(i - 3, 0):i + 4], own[max(i - 3, 0):i + 4]))
        count += len(calls)
    print("%d threads, %d calls" % (len(judge), count))


main()
