# SPDX-License-Identifier: MIT
# System calls of a program that is recorded from inside: its output, its exit status and what it
# leaves behind are those that it has alone. The programs print results that do not depend on
# addresses or process numbers. What is decoded is what ran, also where code changes.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

programs=$PTAH_SOURCE/tests/record/native/programs
: "${CC:=cc}"

# run OUT COMMAND...: its output and exit status, in OUT
run()
{
	out=$1
	shift
	status=0
	"$@" >"$out" 2>&1 </dev/null || status=$?
	echo "status $status" >>"$out"
}

native=
"$PTAH" record --help | grep qemu | grep -q native && native=yes

for name in memory registers processes; do
	for how in -static -pie; do
		"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "$how" -fPIE -o "$name" \
			"$programs/$name.c"
		run alone.txt "./$name"
		run again.txt "./$name"
		cmp alone.txt again.txt || fail "$name $how: runs differ without a recorder"
		[ "$native" ] || continue
		run recorded.txt "$PTAH" record -q --truth --recorder=native \
			-o perf.data "./$name"
		diff alone.txt recorded.txt >&2 || fail "$name $how: recorded, it behaves differently"
		# A process that was killed has no truth.
		"$PTAH" verify --all perf.data >verify.txt 2>&1 || ! grep -q DIFFERS verify.txt ||
			fail "$name $how: the decode is not what ran: $(cat verify.txt)"
		grep -q ': equal' verify.txt || fail "$name $how: nothing was verified"
		"$PTAH" stat perf.data >stat.txt || fail "$name $how: the recording cannot be read"
		# Otherwise it passes because nothing was recorded.
		! grep -E 'untraced|recorded by qemu|not recorded' stat.txt >&2 ||
			fail "$name $how: the recorder gave up"
	done
done
[ "$native" ] || { echo "SKIP: no recorder inside the program yet"; exit 77; }
