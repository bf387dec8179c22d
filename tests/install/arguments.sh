#!/bin/sh
# SPDX-License-Identifier: MIT
# Rules of docs/api.md, for every function that the headers declare: what returns a status takes
# NULL for every argument without a crash, and what destroys an object does nothing for NULL.
set -eu
command -v python3 >/dev/null || { echo "SKIP: no python3"; exit 77; }
[ -z "${PTAH_SANITIZE:-}" ] || { echo "SKIP: python3 has no sanitizer's runtime"; exit 77; }
. "$PTAH_SOURCE/tests/install/common.sh"

# Functions that return an int. Those of packets, of the simulated processor, and of the engine's
# interrupt check nothing: they are called too often, or where no error can be reported.
for header in root/usr/include/ptah/*.h; do
	tr '\n' ' ' <"$header"
	echo
done | sed 's/PTAH_API/\n&/g' |
	sed -nE 's/^PTAH_API (int ptah_[a-z_0-9]*)\(.*/\1/p
		s/^PTAH_API (void ptah_[a-z_]*_(free|close))\(.*/\1/p' |
	grep -vE '^int ptah_(packet_|model_|machine_|engine_pmi$)' | cut -d ' ' -f 2 >functions

cat >call.py <<'END'
import ctypes
import os
import sys

library = ctypes.CDLL(sys.argv[1])
bad = 0
for name in sys.stdin.read().split():
    child = os.fork()
    if not child:
        getattr(library, name)(*[ctypes.c_void_p(0)] * 8)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name + ": crashes when its arguments are NULL")
        bad += 1
sys.exit(bad > 0)
END
[ "$(wc -l <functions)" -gt 100 ] || { echo "only $(wc -l <functions) functions"; exit 1; }
python3 call.py "$libdir/libptah.so" <functions
