# SPDX-License-Identifier: MIT
# Signals of a program that is recorded from inside, at any instruction: it ends as it does alone, and
# the decoder finds its way through the whole trace. An outcome too much or too few is an error there.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record --help | grep qemu | grep -q native || {
	echo "SKIP: no recorder native"
	exit 77
}
grep -qw fsgsbase /proc/cpuinfo || {
	echo "SKIP: the processor has no FSGSBASE"
	exit 77
}

# recorded COMMAND...: exit status 0, and no decoding error
recorded()
{
	record --recorder=native -- "$@" >output.txt 2>errors.txt ||
		fail "$*: status $?: $(cat errors.txt)"
	! grep -q 'recorded by qemu' errors.txt || fail "$*: $(cat errors.txt)"
	"$PTAH" stat perf.data >stat.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
	grep -Eq '^ *errors +0$' stat.txt || fail "$*: $(cat errors.txt)"
}

build moments -fno-inline
build signals

for moment in tight self nested jumping other_stack left asynchronous skipped jumped repeated traps \
	nowhere called; do
	recorded ./moments $moment
	echo "$moment: $(grep -m 1 instructions stat.txt)"
done
# Some 600 signals interrupt a computation; two of them at once.
recorded ./signals

# Signals that end it: the exit status, and the instruction pointer of a core dump.
build death
build fatal -static -no-pie -ffunction-sections
for how in undefined breakpoint divide read write bus null jump return privileged walk; do
	alone=$(./death ./fatal $how) || fail "$how: no core dump that fits"
	status=0
	record --recorder=native ./fatal $how >output.txt 2>errors.txt || status=$?
	[ $status = $((128 + ${alone% *})) ] || fail "$how: status $status: $(cat errors.txt)"
	"$PTAH" stat perf.data >stat.txt 2>notes.txt || fail "$how: $(cat notes.txt)"
	grep -Eq '^ *errors +0$' stat.txt || fail "$how: $(cat notes.txt)"
	grep -q "ended process .* at ${alone#* }\$" stat.txt notes.txt ||
		fail "$how: no note with ${alone#* }: $(cat stat.txt notes.txt)"
done
