#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dump_memory.py DUMP WORD QEMU...: runs a machine until a line of its serial output (stdio) begins
with WORD, writes its memory to DUMP as QEMU does for crash tools, and ends it. Prints the output."""
import json
import os
import socket
import subprocess
import sys

dump, word, command = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]


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


# The socket exists before the machine runs.
machine = subprocess.Popen(
    command + ["-serial", "stdio", "-qmp", "unix:monitor,server=on,wait=off"],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
found = False
for line in machine.stdout:
    print(line.rstrip())
    found = line.startswith(word)
    if found:
        break
if not found:
    sys.exit(f"the machine ended without a line {word!r}")
with socket.socket(socket.AF_UNIX) as monitor:
    monitor.connect("monitor")
    stream = monitor.makefile("rw")
    stream.readline()
    execute(stream, "qmp_capabilities")
    execute(stream, "stop")
    execute(stream, "dump-guest-memory", paging=False, protocol="file:" + dump)
    execute(stream, "quit")
machine.wait()
