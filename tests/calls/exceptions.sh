#!/bin/sh
# SPDX-License-Identifier: MIT
# C++ exceptions.
. "$PTAH_SOURCE/tests/calls/common.sh"
command -v g++ >/dev/null || skip "no g++"

logged g++ exceptions exceptions.cc -std=c++17 -O2 -no-pie
record_log -- ./exceptions
same_calls ./exceptions

# After 300 exceptions the program ends where it would without them.
open=$(awk -F '\t' '$3 == "trace-end"' calls.tsv | wc -l)
[ "$open" -lt 15 ] || fail "$open calls are open at the end"
echo "$open calls are open at the end"
