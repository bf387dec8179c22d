# SPDX-License-Identifier: MIT
# The recording has the executable mappings that the kernel would have made. The judges: the records
# that the kernel itself writes for the same program, without an emulator (any event of perf's), and
# llvm-profgen, which finds a program's code by the file offset in its record.
. "$PTAH_SOURCE/tests/record/common.sh"

command -v perf >/dev/null || skip "perf is not installed"

mappings() # FILE: size, file offset, protection and path of all executable mappings but [vdso]
{
	perf script -i "$1" --show-mmap-events 2>/dev/null |
		sed -n 's/.*PERF_RECORD_MMAP2 [^[]*\[0x[0-9a-f]*(\(0x[0-9a-f]*\)) @ \([0-9a-fx]*\) [^]]*\]: \(.*\)/\1 @\2 \3/p' |
		grep -v '\[vdso\]' | sort -u
}

as_the_kernel() # RECORDERS COMMAND...
{
	recorders=$1
	shift
	perf record -q -e cpu-clock:u -o native.data -- "$@" >native.txt 2>&1 ||
		skip "perf cannot record here: $(tail -1 native.txt)"
	mappings native.data >expected.txt
	grep -q " r-xp .*/${1##*/}\$" expected.txt || fail "the kernel did not map $1: $(cat expected.txt)"
	for recorder in $recorders; do
		record --recorder=$recorder -- "$@" >recorded.txt || fail "$*: status $?"
		exact
		mappings perf.data >maps.txt
		cmp -s expected.txt maps.txt ||
			fail "$* by $recorder: $(diff expected.txt maps.txt)"
	done
	echo "$*: $(wc -l <maps.txt) mappings, as the kernel's"
}

build mappings
as_the_kernel "qemu ptrace" ./mappings code
for options in -static -static-pie -no-pie; do
	# shellcheck disable=SC2086
	build mappings $options
	as_the_kernel qemu ./mappings code
done

# Where the first segment is the code, the kernel's record shows the room for all segments, but
# /proc/PID/maps the segment.
build mappings -Wl,-z,noseparate-code
./mappings code | grep 'r-xp.*/mappings$' >expected.txt
read -r range _ offset _ <expected.txt
expected=$(printf '0x%x @%d' $((0x${range#*-} - 0x${range%-*})) $((0x$offset)))
record ./mappings code >recorded.txt
exact
mappings perf.data | grep '/mappings$' >maps.txt
grep -q "^$expected r-xp " maps.txt || fail "$expected expected, recorded: $(cat maps.txt)"
echo "one segment: $expected"

for name in llvm-profgen llvm-profgen-14 llvm-profgen-15 llvm-profgen-16 llvm-profgen-19; do
	profgen=$(command -v $name) && break
done
[ -n "$profgen" ] || skip "llvm-profgen is not installed"
for options in "" -no-pie -static; do
	# shellcheck disable=SC2086
	build calls $options
	record ./calls >/dev/null
	perf script -i perf.data --itrace=i1000il16 -F ip,brstack --show-mmap-events >script.txt 2>/dev/null
	"$profgen" --format=text --perfscript=script.txt --binary=./calls --output=profile.txt 2>why.txt ||
		fail "llvm-profgen: $(cat why.txt)"
	grep -q '^tree:' profile.txt || fail "llvm-profgen found no tree() (calls $options): $(cat why.txt)"
done
echo "llvm-profgen: finds the code"
