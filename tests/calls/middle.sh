#!/bin/sh
# SPDX-License-Identifier: MIT
# Tracing that begins or ends in the middle: the calls that the trace shows are those of that part.
. "$PTAH_SOURCE/tests/calls/common.sh"

logged gcc plain plain.c -O1 -no-pie
large=-eintel_pt/cyc,noretcomp/u
record_log "$large" -S64K -- ./plain
same_calls --suffix ./plain
record_log "$large" --stop-when-full --buffer=64K -- ./plain
same_calls --prefix ./plain

# Code outside of the range ends the tracing: the functions there are not seen.
for function in deep tree even; do
	record_log "--filter=filter $function" -- ./plain
	same_calls "--only=$function" ./plain
done
