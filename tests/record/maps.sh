# SPDX-License-Identifier: MIT
# A file that is mapped while the program runs has a record with the time of the mapping, and many
# mappings cost what they are.
. "$PTAH_SOURCE/tests/record/common.sh"

# 20,000 mappings: the list of all is not read for each, which took minutes of a processor's time.
build many_maps
for recorder in qemu native; do
	"$PTAH" record -q --dry-run --recorder=$recorder true 2>/dev/null || continue
	(ulimit -t 20 && record --recorder=$recorder ./many_maps 20000) >output.txt 2>errors.txt ||
		fail "$recorder, many mappings: $(cat errors.txt)"
	[ "$(cat output.txt)" = 20000 ] || fail "$recorder: $(cat output.txt) mappings"
	"$PTAH" stat perf.data >stat.txt 2>&1 || fail "$recorder: $(cat stat.txt)"
done

build late_map
record ./late_map || fail "late_map ended with status $?"
exact
instructions 200022
perf_agrees
command -v perf >/dev/null || skip "perf is not installed: the times were not looked at"
# A TSC tick is an instruction, and perf shows it as a nanosecond.
perf script -i perf.data --show-mmap-events -F comm,time,event,ip --ns 2>/dev/null |
	sed -n 's/.* \([0-9]*\)\.\([0-9]*\): PERF_RECORD_MMAP2 .*late_map$/\1\2/p' | sort -n >times
[ "$(wc -l <times)" = 2 ] || fail "not two maps of late_map: $(cat times)"
late=$(tail -1 times | sed 's/^0*//')
[ "$late" -ge 200014 ] && [ "$late" -le 200022 ] ||
	fail "mapped after 200014 instructions, told with time $late"
echo "mapped at $late"

# jit.c and libraries.c (programs.sh) test files that are deleted when their code runs, or that
# replace others.

# The random bytes that a program gets from the system are the same each time, also after an execve.
build random
record -o one.data -- sh -c './random; ./random; exit 0'
record -o two.data -- sh -c './random; ./random; exit 0'
for i in one two; do
	"$PTAH" verify --all -i $i.data | sed -n 's/^random .*path \([0-9a-f]*\):.*/\1/p' >$i.paths
	[ "$(wc -l <$i.paths)" = 2 ] || fail "not two runs of random: $(cat $i.paths)"
done
cmp one.paths two.paths || fail "two recordings of random differ"
record --clock=host ./random && fail "random ended with status 0"
exact

# With the same process id, two recordings of a program are the same, to the byte; samples of system
# calls stand where the recorder has come to them.
seq 1 2000 >numbers
cat >twice.sh <<'X'
"$PTAH" record --recorder=qemu -q --no-syscalls -o "$1" -- gzip -c numbers >/dev/null && "$PTAH" record --recorder=qemu -q --no-syscalls -o "$1.asm" -- ./late_map
X
if ! unshare -fp --mount-proc sh twice.sh one.data 2>/dev/null; then
	echo "process ids cannot be had twice here: recordings not compared"
	exit 0
fi
unshare -fp --mount-proc sh twice.sh two.data
cmp one.data two.data || fail "two recordings of gzip differ"
cmp one.data.asm two.data.asm || fail "two recordings of late_map differ"
"$PTAH" verify --all -q one.data >/dev/null || fail "one.data is not exact"
