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
	called; do
	recorded ./moments $moment
	echo "$moment: $(grep -m 1 instructions stat.txt)"
done
# Some 600 signals interrupt a computation; two of them at once.
recorded ./signals
