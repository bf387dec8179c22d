# SPDX-License-Identifier: MIT
# Instructions that decoders did not know: every recorder follows them, whether they fault or not. Of
# one that cannot be decoded or translated, every recorder names bytes and address.
. "$PTAH_SOURCE/tests/record/common.sh"

build unknown
faults=0
./unknown >alone.txt || faults=$?
[ "$faults" -ge 4 ] || fail "alone, $faults instructions fault"

recorders="qemu ptrace"
if "$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1; then
	recorders="native $recorders"
fi
for recorder in $recorders; do
	status=0
	record --recorder=$recorder --truth -- ./unknown >output.txt 2>errors.txt || status=$?
	# QEMU emulates a processor that may have fewer instructions.
	[ "$status" = "$faults" ] || { [ $recorder = qemu ] && [ "$status" -ge "$faults" ]; } ||
		fail "$recorder: $status instructions fault, alone $faults: $(cat errors.txt)"
	exact
	! grep -q '^note:' notes.txt || fail "$recorder: $(cat notes.txt)"
	ran 100 nops
	ran "$status" handler
done

# place FUNCTION OFFSET: the address in the program
place()
{
	printf '0x%x' $((0x$(nm unknown | awk -v name="$1" '$3 == name { print $1 }') + $2))
}

# The architecture has no such form, but QEMU carries it out.
record --recorder=qemu --truth -- ./unknown f >output.txt 2>errors.txt || :
"$PTAH" verify --all perf.data >verify.txt 2>notes.txt || :
if grep -q overflow verify.txt; then
	grep -q "the instruction c6 c8 05 at $(place form 11) cannot be decoded" notes.txt ||
		fail "qemu does not name what it lost: $(cat notes.txt)"
else
	exact
fi

case $recorders in
native*)
	record --recorder=native --truth -- ./unknown in >output.txt 2>errors.txt || :
	"$PTAH" verify --all perf.data >verify.txt 2>notes.txt || fail "$(cat verify.txt notes.txt)"
	grep -q "untraced: the instruction f3 48 0f ae e8 at $(place shadow 6) cannot be translated" notes.txt ||
		fail "native does not name what it left at: $(cat notes.txt)"
	;;
esac
