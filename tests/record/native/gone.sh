# SPDX-License-Identifier: MIT
# Code of files that are gone, or never had a name, when the recording is read: it is in the
# recording. What was built meanwhile has its names all the same.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build gone -ldl
cat >library.c <<'END'
long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i % 7; return s; }
END
"$CC" -O1 -shared -fPIC -o library.so library.c || fail "no library"

# same ARGUMENTS...
same()
{
	./gone "$@" >alone.txt || fail "$*: $? alone"
	record --recorder=native --truth ./gone "$@" >recorded.txt 2>errors.txt ||
		fail "$*: $? $(cat errors.txt)"
	diff alone.txt recorded.txt >&2 || fail "$*: recorded, it behaves differently"
	exact
}

same file ./library.so
same memory ./library.so
same exec
same shared
same kept ./library.so
[ "$(executions work)" = 1 ] || fail "work ran once, not $(executions work) times"

# The recorder reads a part of it.
same large
grep -q "more code that is in no file than is read" notes.txt || fail "$(cat notes.txt)"
