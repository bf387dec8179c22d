# SPDX-License-Identifier: MIT
# Calls and returns that do not pair, and code of libraries that are loaded and unloaded.
. "$PTAH_SOURCE/tests/record/common.sh"

build calls -fno-inline
exactly 0 ./calls
perf_agrees
ran 10 retpoline
ran 0 retpoline pause
echo "calls: $(tail -1 verify.txt)"

build libraries
"$CC" -std=c11 -O1 -fPIC -shared -DLIBRARY=6 -o one.so "$programs/libraries.c"
"$CC" -std=c11 -O1 -fPIC -shared -DLIBRARY=10 -o two.so "$programs/libraries.c"
exactly 0 ./libraries
perf_agrees
ran 10 value
echo "libraries: $(tail -1 verify.txt)"
