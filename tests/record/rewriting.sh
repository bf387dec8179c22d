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

# Code that is written through a second mapping: QEMU runs old code, and a note says that it can.
build aliases
for how in writable-first executable-first protected; do
	record --truth -- ./aliases $how >output.txt 2>&1
	exact
	grep -q '^note: .*second mapping of the same memory' verify.txt notes.txt || fail "$how: no note"
done
record --truth -- ./aliases apart >output.txt 2>&1
exact
[ "$(cat output.txt)" = right ] || fail "apart: $(cat output.txt)"
! grep -q 'second mapping' verify.txt notes.txt || fail "apart: $(cat verify.txt notes.txt)"
