# SPDX-License-Identifier: MIT
# Decoding with several threads prints the same bytes as decoding with one.
. "$PTAH_SOURCE/tests/record/common.sh"

seq 1 50000 >numbers
record -- gzip -c numbers >/dev/null
[ "$(wc -c <perf.data)" -gt 2200000 ] || fail "the recording is too small to be cut"

# same COMMAND...: prints the same with three threads as with one
same() {
	"$PTAH" "$@" -q -j 1 >one.txt
	"$PTAH" "$@" -q -j 3 >three.txt
	[ -s one.txt ] || fail "$*: nothing"
	cmp one.txt three.txt || fail "$*: not the same with threads"
}

same verify --format=tsv
grep -q equal one.txt || fail "verify: not equal"
same report -n 0
same profile --by=blocks -n 0
same profile --by=edges -n 0 --format=tsv
same profile -n 0 --format=json
same cover
same script --calls --time
"$PTAH" script --blocks --no-symbols -j 1 | head -c 100000000 | md5sum >one.txt
"$PTAH" script --blocks --no-symbols -j 3 | head -c 100000000 | md5sum >three.txt
cmp one.txt three.txt || fail "script --blocks: not the same with threads"
"$PTAH" stat -q --per-thread -j 1 | grep -v decoded, >one.txt
"$PTAH" stat -q --per-thread -j 3 | grep -v decoded, >three.txt
cmp one.txt three.txt || fail "stat: not the same with threads"
