# SPDX-License-Identifier: MIT
# Code that is rewritten: while it runs, between two calls, by mprotect, mmap and mremap, by another
# thread with and without a system call in between.
. "$PTAH_SOURCE/tests/record/common.sh"

build rewriting -fno-inline
exactly 0 ./rewriting
echo "rewriting: $(tail -1 verify.txt)"

build racing
for i in 1 2 3; do
	exactly 0 ./racing
	exactly 0 ./racing with-signals
done
echo "racing: $(tail -1 verify.txt)"
