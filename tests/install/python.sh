#!/bin/sh
# SPDX-License-Identifier: MIT
# The Python module in examples/ reads a recording through the installed library: its report has
# the counts of `ptah report`, its items add up to the same, and its structs are those of the
# headers.
set -eu
command -v python3 >/dev/null || { echo "SKIP: no python3"; exit 77; }
[ -z "${PTAH_SANITIZE:-}" ] || { echo "SKIP: python3 has no sanitizer's runtime"; exit 77; }
. "$PTAH_SOURCE/tests/install/common.sh"
PTAH_LIBRARY=$libdir/libptah.so.1
PYTHONPATH=$PTAH_SOURCE/examples
PYTHONDONTWRITEBYTECODE=1
export PTAH_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE

# A C program prints the size of every struct that the module has, and the offset and size of
# every member; the module's have to be the same.
cat >layouts.py <<'END'
import ctypes
import re
import sys

import ptah


def members(kind):
    for name, member in kind._fields_:
        if name in getattr(kind, "_anonymous_", ()):
            yield from (inner for inner, _ in member._fields_)
        else:
            yield name


structs = [kind for kind in vars(ptah).values() if isinstance(kind, type)
           and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure]
source = open("layouts.c", "w")
source.write("#include <ptah/ptah.h>\n#include <stdio.h>\nint main(void)\n{\n")
for kind in structs:
    name = "ptah" + re.sub("([A-Z])", r"_\1", kind.__name__).lower()
    print(name, ctypes.sizeof(kind))
    source.write('\tprintf("%s %%zu\\n", sizeof(struct %s));\n' % (name, name))
    for member in members(kind):
        field = getattr(kind, member)
        print(name, member, field.offset, field.size)
        source.write('\tprintf("%s %s %%zu %%zu\\n", offsetof(struct %s, %s), '
                     'sizeof(((struct %s *)0)->%s));\n' % ((name, member) * 3))
source.write("\treturn 0;\n}\n")
END
python3 layouts.py >module
# shellcheck disable=SC2046
"$CC" -std=c11 -Wall -Wextra -Werror -o layouts layouts.c $(pkg-config --cflags --libs ptah)
./layouts >headers
diff headers module || { echo "the headers' structs (<) and the module's (>) differ"; exit 1; }
[ "$(grep -c '^ptah_item ' module)" -gt 30 ]

# A failure is an exception with the library's message, and the program's exit status is 1.
status=0
python3 "$PYTHONPATH/ptah.py" no-such-file 2>said || status=$?
[ "$status" = 1 ] && grep -q '^ptah.py: no-such-file: ' said || { cat said; exit 1; }

command -v qemu-x86_64 >/dev/null || { echo "SKIP: no qemu-x86_64 to record with"; exit 77; }
# Several processes, one of them without symbols: the rows are the same, in the same order.
root/usr/bin/ptah record --truth -o sh.data -- sh -c 'true; ls / | wc -l' >output
root/usr/bin/ptah report --limit=0 --format=tsv sh.data | cut -f 2,4- >expected
python3 "$PYTHONPATH/ptah.py" sh.data >said
cmp expected said || { diff expected said | head; exit 1; }
[ "$(wc -l <said)" -gt 100 ]

# Item by item it is what the recorder counted.
python3 - <<'END'
import ptah

with ptah.Session("sh.data") as session:
    streams = session.streams()
    assert len(streams) > 2, len(streams)
    for stream in streams:
        blocks = [i for i in stream.items() if i.type == ptah.ITEM_TYPES["block"]]
        assert stream.info.has_truth
        assert sum(b.ninsn for b in blocks) == stream.info.truth.instructions > 0
        assert all(b.ip < b.end and b.end - b.ip <= 15 * b.ninsn for b in blocks)
END
