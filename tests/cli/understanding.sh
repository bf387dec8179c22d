#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/understanding.md: its commands print what it shows. Numbers may differ, because they depend
# on the compiler and on libc; so may the processor's extension in the name of a string function
# (__strlen_avx2, __strlen_evex), which libc chooses. A line "..." stands for any number of lines.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need python3

mkdir bin
ln -s "$PTAH" bin/ptah
PATH=$PWD/bin:$PATH
export PATH
cp "$PTAH_SOURCE/docs/understanding/orders.c" .
cat >run.py <<'END'
import os, re, subprocess, sys

def masked(line):
    line = re.sub(r"(/[^/ ]+)+/", "", line)
    line = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]*[0-9][0-9a-f]{4,}\b|\b[0-9a-f]{4,}[0-9][0-9a-f]*\b", "N", line)
    line = re.sub(r"[0-9]+([,.][0-9]+)*", "N", line)
    line = re.sub(r"[+-]N", "N", line)
    line = re.sub(r"_(sse[N_]+|avxN?|evexN?)(_rtm)?\b", "_VARIANT", line)
    return " ".join(line.split())

def fits(wanted, got):
    """Does `got` consist of the lines of `wanted`, in which "..." stands for any lines?"""
    rest = got
    skip = False
    for line in wanted:
        if line == "...":
            skip = True
            continue
        while rest and skip and rest[0] != line:
            rest = rest[1:]
        if not rest or rest[0] != line:
            return line
        rest, skip = rest[1:], False
    return None if skip or not rest else "the end"

# Programs of glibc walk through the environment when they begin: a large one would be on the list
# of what takes the most time.
environment = {k: v for k, v in os.environ.items()
               if re.fullmatch("PATH|HOME|TMPDIR|GLIBC_TUNABLES|[A-Z]*SAN_OPTIONS", k)}
text = open(sys.argv[1]).read()
count = bad = 0
for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = command[:-1] + more.lstrip("> ")
        done = subprocess.run(["sh", "-c", command], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace")
        got = [masked(l) for l in done.stdout.splitlines() if l.strip()]
        wanted = [masked(l) for l in output.splitlines() if l.strip()]
        missing = fits(wanted, got)
        count += 1
        if missing is not None:
            bad += 1
            print(f"$ {command}\nhas not: {missing}\n" + "\n".join(done.stdout.splitlines()[:25]))
print(f"{count} commands, {bad} with another output")
sys.exit(bad != 0 or count < 10)
END
python3 run.py "$PTAH_SOURCE/docs/understanding.md" >log 2>&1 || fail "$(cat log)"
