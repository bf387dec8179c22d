#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the memory of a machine of QEMU to a file, as for crash tools, and ends the machine.

dump_memory.py DUMP MONITOR: of the machine whose monitor (QMP) is at this socket.
dump_memory.py DUMP WORD QEMU...: runs one until a line of its serial output (stdio) begins with WORD,
and prints the output."""
import json
import os
import socket
import subprocess
import sys

def execute(stream, name, **arguments):
    stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
    stream.flush()
    for line in stream:
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"{name}: {answer['error']['desc']}")
        if "return" in answer:
            return
    sys.exit(f"{name}: no answer")


def write_dump(dump, path):
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.connect(path)
        stream = monitor.makefile("rw")
        stream.readline()
        execute(stream, "qmp_capabilities")
        execute(stream, "stop")
        execute(stream, "dump-guest-memory", paging=False, protocol="file:" + os.path.abspath(dump))
        execute(stream, "quit")


def run_until(word, command):
    # The socket exists before the machine runs.
    machine = subprocess.Popen(
        command + ["-serial", "stdio", "-qmp", "unix:monitor,server=on,wait=off"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in machine.stdout:
        print(line.rstrip())
        if line.startswith(word):
            return machine
    sys.exit(f"the machine ended without a line {word!r}")


if len(sys.argv) == 3:
    write_dump(sys.argv[1], sys.argv[2])
else:
    machine = run_until(sys.argv[2], sys.argv[3:])
    write_dump(sys.argv[1], "monitor")
    machine.wait()
