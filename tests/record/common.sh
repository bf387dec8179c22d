# SPDX-License-Identifier: MIT
# Sourced by the tests of the recorder. Each runs in a folder of its own.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

skip()
{
	echo "SKIP: $*"
	exit 77
}

command -v qemu-x86_64 >/dev/null || skip "qemu-x86_64 is not installed (Debian: qemu-user)"
programs=$PTAH_SOURCE/tests/record/programs
: "${CC:=cc}"

# build NAME [FLAGS]: ./NAME from programs/NAME.S (no libc: every instruction is
# ours, so that the test knows how many run) or programs/NAME.c
build()
{
	name=$1
	shift
	if [ -f "$programs/$name.S" ]; then
		"$CC" -nostdlib -static -o "$name" "$programs/$name.S" "$@"
	else
		"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread -o "$name" \
			"$programs/$name.c" "$@"
	fi
}

# record [OPTIONS] COMMAND...: into ./perf.data
record()
{
	rm -f perf.data perf.data.old
	"$PTAH" record -q "$@"
}

# exact: Ptah decodes what ran, and nothing was lost
exact()
{
	"$PTAH" verify perf.data >verify.txt 2>notes.txt || {
		cat verify.txt notes.txt >&2
		fail "the decode is not what ran"
	}
	! grep -q overflow verify.txt || fail "trace was lost: $(cat verify.txt)"
}

# perf_agrees: perf decodes without an error
perf_agrees()
{
	command -v perf >/dev/null || return 0
	perf script -i perf.data --itrace=e >perf.txt 2>&1 || fail "perf script: $(tail -3 perf.txt)"
	! grep -q 'instruction trace error' perf.txt || fail "perf: $(grep -m 3 error perf.txt)"
}

# instructions N: as many ran, says Ptah's decoder; and perf's
instructions()
{
	"$PTAH" verify --format=tsv perf.data >verify.tsv 2>/dev/null || fail "not exact"
	decoded=$(awk -F'\t' 'NR > 1 { n += $4 } END { print n }' verify.tsv)
	[ "$decoded" = "$1" ] || fail "$decoded instructions decoded, $1 ran"
	if [ "${2-}" != no-perf ] && command -v perf >/dev/null; then
		perf script -i perf.data --itrace=i0ns -F ip >perf-insns.txt 2>perf-errors.txt
		decoded=$(wc -l <perf-insns.txt)
		[ "$decoded" = "$1" ] || fail "perf decodes $decoded instructions, $1 ran"
	fi
}
