# SPDX-License-Identifier: MIT
# Instructions of every length across the end of a page, blocks that end exactly there or become too
# long, and string instructions that fault in the middle.
. "$PTAH_SOURCE/tests/record/common.sh"

build page_end -fno-inline
exactly 0 ./page_end
ran 2 long_run
ran $((2 * (4096 + 4091))) long_run nop
echo "page_end: $(tail -1 verify.txt)"

build strings -fno-inline
exactly 0 ./strings
# Once for each of five counts, and once with a fault in the middle.
ran 6 copy "rep movsb"
ran 6 fill "rep stosb"
ran 10 twice "rep stosb"
ran 2 unlock
perf_agrees
echo "strings: $(tail -1 verify.txt)"
