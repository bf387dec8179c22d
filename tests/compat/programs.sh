# SPDX-License-Identifier: MIT
# The programs of this project that use libipt give the same results with this library as with Debian's.
. "$PTAH_SOURCE/tests/compat/common.sh"

case $PTAH_SANITIZE in ?*) skip "the sanitizers' runtime comes first" ;; esac

# uses COMMAND...: checks that the program loads this library from LD_LIBRARY_PATH
uses()
{
	LD_LIBRARY_PATH=$ours ldd "$1" | grep -q "$ours/libipt" || fail "$1 takes another libipt"
	ldd "$1" | grep 'libipt' | grep -qv "$ours" || fail "$1 takes this libipt in any case"
}

# alike COMMAND...: the same output and exit status with both libraries
alike()
{
	uses "$1"
	theirs=0
	"$@" >theirs.txt 2>&1 || theirs=$?
	mine=0
	LD_LIBRARY_PATH=$ours "$@" >mine.txt 2>&1 || mine=$?
	# Times, and the library's own version, are not compared.
	sed -i -e 's/[0-9.][0-9.]* *m\?s\b//g' -e 's/libipt [0-9.a-z]*/libipt/' theirs.txt mine.txt
	diff theirs.txt mine.txt || fail "$*: says something else"
	[ $theirs = $mine ] || fail "$*: ends with $mine instead of $theirs"
	[ $theirs = 0 ] || [ $theirs = 77 ] || fail "$*: ends with $theirs"
	echo "$1: $(wc -l <mine.txt) lines"
}

# The tests that compare with libipt: they allow for Ptah following the SDM where libipt does not.
for test in packet event model; do
	test=$PTAH_BUILD/tests/$test-test_libipt
	[ ! -x "$test" ] || alike "$test"
done

bench=$PTAH_BUILD/bin/ptah-bench
[ -x "$bench" ] || exit 0
for pt in "$PTAH_SHARED"/traces/*.pt; do
	[ -e "$pt" ] || { echo "no traces of real processors here"; break; }
	alike "$bench" equal "$(basename "$pt" .pt)" "$pt" "${pt%.pt}"
done
command -v qemu-x86_64 >/dev/null || exit 0
"$bench" text 100000 >text
"$PTAH" record --recorder=qemu -q -- gzip -c text >/dev/null
alike "$bench" equal gzip perf.data
