# SPDX-License-Identifier: MIT
# What few programs do, recorded from inside: closing all descriptors, becoming a daemon, bombs of
# processes, traps of all kinds, contexts that are switched and vectors of AVX-512 under a storm of
# signals, C++ exceptions through signal frames. All behave as alone and are decoded as what ran.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build odd

# same COMMAND...
same()
{
	wanted=0
	"$@" >alone.txt || wanted=$?
	if [ "$wanted" = 77 ]; then
		# Only a processor without AVX-512 leaves a case out, and only this one.
		[ "$*" = "./odd vectors" ] && ! grep -qw avx512f /proc/cpuinfo || fail "$*: left out"
		return 0
	fi
	status=0
	record --recorder=native --truth -- "$@" >output.txt 2>errors.txt || status=$?
	[ "$status" = "$wanted" ] || fail "$*: status $status, alone $wanted: $(cat errors.txt)"
	diff alone.txt output.txt >&2 || fail "$*: recorded, it behaves differently"
	exact
	! grep -q '^note:' verify.txt notes.txt || fail "$*: $(cat verify.txt notes.txt)"
	grep -q 'decoded exactly what ran' verify.txt || fail "$*: $(cat verify.txt)"
}

for case in close_range close descriptors three daemon forks traps contexts vectors; do
	same ./odd $case
done
if command -v c++ >/dev/null; then
	c++ -O1 -fnon-call-exceptions -o exceptions "$programs/exceptions.cc"
	same ./exceptions
fi

# Where there is no /proc.
mkdir root
"$CC" -std=c11 -D_GNU_SOURCE -O1 -static -o root/odd "$programs/odd.c" 2>/dev/null &&
	chroot root /odd count >alone.txt 2>/dev/null || alone=$?
[ "${alone-}" != 6 ] || same chroot root /odd forks

# A 32-bit program is not followed, which a note says, and runs as alone.
printf '.globl _start\n_start: mov $1, %%eax\n mov $3, %%ebx\n int $0x80\n' >small.s
status=0
as --32 -o small.o small.s 2>/dev/null && ld -m elf_i386 -o small small.o 2>/dev/null &&
	{ ./small || status=$?; }
if [ $status = 3 ]; then
	record --recorder=native --truth -- sh -c './small; exit $(($? + 1))' >output.txt 2>errors.txt ||
		status=$?
	[ $status = 4 ] || fail "32 bits: status $status: $(cat errors.txt)"
	exact
	grep -q '^note: .*(small) is not recorded: .*32-bit' notes.txt || fail "32 bits: $(cat notes.txt)"
fi
