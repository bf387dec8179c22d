#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions that end without a return to their callers: longjmp, signals, tail calls, several
# stacks in one thread, and gotos out of a function.
. "$PTAH_SOURCE/tests/calls/common.sh"

logged gcc jumps jumps.c -O1 -no-pie
record_log -- ./jumps
same_calls ./jumps
as_perf
record_log -- ./jumps alarms
same_calls --async=on_alarm ./jumps

logged gcc tails tails.c -O1 -no-pie
record_log -- ./tails
same_calls --also=loops ./tails
as_perf

logged gcc coroutines coroutines.c -O1 -no-pie
record_log -- ./coroutines
same_calls --stacks ./coroutines
as_perf

# perf has no code for what runs on the stack.
logged gcc nested nested.c -O1 -no-pie -Wl,-z,execstack
record_log -- ./nested
same_calls ./nested
