#!/bin/sh
# SPDX-License-Identifier: MIT
# Names of functions that mean something to formats and terminals, are no text at all, or are very
# long, are the same names in timelines.
. "$PTAH_SOURCE/tests/calls/common.sh"
command -v objcopy >/dev/null || skip "no objcopy (Debian: binutils)"
python=python3
! /usr/bin/python3 -c "import google.protobuf" 2>/dev/null || python=/usr/bin/python3

cat >hostile.c <<'END'
#define F(n) __attribute__((noinline)) int f##n(int x) { __asm__ volatile("" : "+r"(x)); return x + n; }
F(1) F(2) F(3)
int main(void) { return f1(1) + f2(2) + f3(3) ? 0 : 1; }
END
gcc -O1 -o hostile hostile.c || fail "gcc: $?"
"$python" - <<'END' || fail "objcopy"
import subprocess
names = [b'a "quote\\" \'<\/script> \x1b[31m\t\n, {"ph":"E"}', b"\xff\xfe caf\xe9 \xed\xa0\x80",
         b"x" * 10000]
for i, name in enumerate(names, 1):
    subprocess.run([b"objcopy", b"--redefine-sym", b"f%d=%s" % (i, name), b"hostile"], check=True)
with open("names", "wb") as file:
    file.write(b"\0".join(names))
END
record -- ./hostile || fail "record: $?"
for format in fxt perfetto chrome firefox; do
	"$PTAH" export -q --to=$format -o run.$format || fail "--to=$format: $?"
done
"$python" - "$PTAH_SOURCE/tests/export" <<'END' || fail "names"
import sys
sys.path.insert(0, sys.argv[1])
from timeline_readers import BEGIN, READERS
with open("names", "rb") as file:
    # As in every command, what a terminal would obey and what is no UTF-8 is a question mark, and
    # of a name 1023 bytes are kept (SYMBOL_NAME_MAX).
    wanted = ["".join("?" if c < " " or c == "\ufffd" else c for c in name)[:1023]
              for name in file.read().decode(errors="replace").split("\0")]
for name, read in READERS.items():
    events = read("run." + name)
    if events is None:
        continue
    got = [e.name for e in events if e.kind == BEGIN and e.category == "hostile"]
    if [n for n in got if n in wanted] != wanted:
        sys.exit("%s has %s" % (name, [n[:60] for n in got]))
END
