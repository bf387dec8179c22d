#!/bin/sh
# SPDX-License-Identifier: MIT
# Calls that return, as compilers and linkers make them: with lazy binding and without, as a
# position-independent program, with retpolines, and between objects.
. "$PTAH_SOURCE/tests/calls/common.sh"

logged gcc plain plain.c -O1 -no-pie -Wl,-z,lazy
record_log -- ./plain
same_calls --mutate ./plain
as_perf

logged gcc optimized plain.c -O2 -fPIE -pie -Wl,-z,now -fcf-protection=none \
	-mindirect-branch=thunk -mfunction-return=thunk
record_log --no-retcomp -- ./optimized
same_calls ./optimized

logged gcc libone.so objects.c -O1 -fPIC -shared -DLIBRARY=1
# The other one calls its own functions, not those of the first, which is linked before it.
logged gcc libtwo.so objects.c -O1 -fPIC -shared -DLIBRARY=2 -Wl,-Bsymbolic
for binding in lazy now; do
	logged gcc "objects-$binding" objects.c -O1 -no-pie "-Wl,-z,$binding" -L. -lone "-Wl,-rpath,$PWD"
	record_log -- "./objects-$binding" ./libtwo.so
	same_calls "./objects-$binding" libone.so libtwo.so
	as_perf
done
