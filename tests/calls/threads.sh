#!/bin/sh
# SPDX-License-Identifier: MIT
# The calls of threads and processes.
. "$PTAH_SOURCE/tests/calls/common.sh"

logged gcc threads threads.c -O1 -no-pie
record_log -- ./threads
same_calls ./threads
as_perf
record_log -- ./threads fork
same_calls ./threads
as_perf
