#!/bin/sh
# SPDX-License-Identifier: MIT
# C++ exceptions.
. "$PTAH_SOURCE/tests/calls/common.sh"
command -v g++ >/dev/null || skip "no g++"

logged g++ exceptions exceptions.cc -std=c++17 -O2 -no-pie
record_log -- ./exceptions
same_calls ./exceptions
