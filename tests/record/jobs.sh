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
# script: each job prints a part of the stream. With sanitizers, what is printed first is enough: the
# release build compares more.
most=60000000
[ -z "$PTAH_SANITIZE" ] || most=8000000
same_script() {
	for jobs in 1 2 5; do
		"$PTAH" script "$@" -q -j "$jobs" | head -c $most | md5sum >"$jobs.txt"
	done
	cmp 1.txt 2.txt && cmp 1.txt 5.txt || fail "script $*: not the same with threads"
}

same_script --blocks --no-symbols
same_script --branches --time --events
same_script --format=json --events --time
same_script --format=tsv --srcline --function=deflate
"$PTAH" stat -q --per-thread -j 1 | grep -v decoded, >one.txt
"$PTAH" stat -q --per-thread -j 3 | grep -v decoded, >three.txt
cmp one.txt three.txt || fail "stat: not the same with threads"
