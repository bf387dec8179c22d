# SPDX-License-Identifier: MIT
# Functions for the tests of recorders. Each test runs in a folder of its own.
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

# build NAME [FLAGS]: makes ./NAME from programs/NAME.S (without libc, so that the test knows the
# number of all instructions) or programs/NAME.c
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

# record [OPTIONS] COMMAND...: records into ./perf.data, with qemu unless another recorder is named.
# With qemu and ptrace without system calls, whose samples perf would count among the instructions;
# native/calls_of_system.sh tests them.
record()
{
	rm -f perf.data perf.data.old
	case " $* " in
	*" --recorder=ptrace "*) record_steps "$@" ;;
	*" --recorder="* | *" -p "*) "$PTAH" record -q "$@" ;;
	*) "$PTAH" record -q --recorder=qemu --no-syscalls "$@" ;;
	esac
}

# record_steps [OPTIONS] COMMAND...: with PATH as the only variable of the environment. Before main()
# the C library compares each variable with the name of each of its tunables: usually this is most
# of what a small program executes, and a single step takes a hundred microseconds.
record_steps()
{
	env -i "PATH=$PATH" "$PTAH" record -q --no-syscalls "$@"
}

# exact: Ptah decodes what was executed, and nothing was lost
exact()
{
	"$PTAH" verify --all perf.data >verify.txt 2>notes.txt || {
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

# instructions N: the decoders of Ptah and perf count N instructions
instructions()
{
	"$PTAH" verify --all --format=tsv perf.data >verify.tsv 2>/dev/null || fail "not exact"
	decoded=$(awk -F'\t' 'NR > 1 { n += $4 } END { print n }' verify.tsv)
	[ "$decoded" = "$1" ] || fail "$decoded instructions decoded, $1 ran"
	if [ "${2-}" != no-perf ] && command -v perf >/dev/null; then
		perf script -i perf.data --itrace=i0ns -F ip >perf-insns.txt 2>perf-errors.txt
		decoded=$(wc -l <perf-insns.txt)
		[ "$decoded" = "$1" ] || fail "perf decodes $decoded instructions, $1 ran"
	fi
}

# exactly STATUS COMMAND...: records with every kind of packets and with both clocks; the command
# ends with that status, and Ptah decodes what was executed. Leaves the recording made with the
# usual options.
exactly()
{
	exactly_status=$1
	shift
	for exactly_options in "--no-retcomp --psb-period=2048" "--long-tnt --clock=host" ""; do
		status=0
		# shellcheck disable=SC2086
		record $exactly_options -- "$@" >output.txt 2>errors.txt || status=$?
		[ "$status" = "$exactly_status" ] ||
			fail "$* ($exactly_options): status $status, expected $exactly_status: $(cat errors.txt)"
		exact
	done
}

# executions FUNCTION [INSTRUCTION]: how often the instruction was executed in the function; without
# one, how often the function's first instruction was
executions()
{
	if [ $# = 1 ]; then
		executions_pattern=" $1+0x0 "
	else
		executions_pattern=" $1+0x[0-9a-f]* ([^)]*).$2"
	fi
	"$PTAH" script perf.data 2>/dev/null | grep -c "$executions_pattern" || :
}

# ran N FUNCTION [INSTRUCTION]: it was executed N times
ran()
{
	ran_expected=$1
	shift
	n=$(executions "$@")
	[ "$n" = "$ran_expected" ] || fail "$* ran $n times, expected $ran_expected"
}
