# SPDX-License-Identifier: MIT
# Programs that want much of the address space for themselves: those of sanitizers, as gcc and clang
# make them, and one that maps nearly all of it. Recorded, they behave as alone, and their threads
# decode as what ran.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs

# same REASON COMMAND...: it leaves, if at all, for that reason
same()
{
	reason=$1
	shift
	wanted=0
	"$@" >alone.txt 2>&1 || wanted=$?
	status=0
	record --recorder=native --truth "$@" >recorded.txt 2>&1 || status=$?
	[ "$status" = "$wanted" ] || fail "$*: status $status, alone $wanted: $(cat recorded.txt)"
	diff alone.txt recorded.txt >&2 || fail "$*: recorded, it behaves differently"
	"$PTAH" stat perf.data >stat.txt 2>&1 || fail "$*: $(cat stat.txt)"
	! grep -E 'untraced|not recorded|missing' stat.txt | grep -v "$reason" >&2 || fail "$*: it left"
	"$PTAH" verify perf.data >verify.txt 2>&1 || fail "$*: $(cat verify.txt)"
	# A thread of the sanitizer's that was killed when its process ended may have no truth.
	grep -Eq '^[0-9]+ threads?: (decoded exactly what ran|equal)' verify.txt ||
		fail "$*: $(cat verify.txt)"
}

# The leak check of AddressSanitizer is at a program's end, by a process that shares its memory.
export TSAN_OPTIONS=die_after_fork=0
for compiler in gcc clang; do
	for sanitizer in thread address,undefined memory; do
		for kind in "-fPIE -pie" "-fno-pie -no-pie"; do
			# shellcheck disable=SC2086
			"$compiler" -O1 -g -pthread "-fsanitize=$sanitizer" $kind -o sanitized \
				"$programs/sanitized.c" >made.txt 2>&1 || continue
			# What does not run here alone is not for this test.
			./sanitized >alone.txt 2>&1 || continue
			same 'shares its memory' ./sanitized
			echo "$compiler -fsanitize=$sanitizer $kind"
		done
	done
done

build reserves -fno-pie -no-pie
same none ./reserves
