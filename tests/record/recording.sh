# SPDX-License-Identifier: MIT
# What a companion of the engine writes through <ptah/recording.h>, from simulated processors: Ptah
# and perf decode exactly what ran. write_recording.c has the scenarios.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

write=$PTAH_BUILD/tests/write_recording

# decoded FILE: how many instructions Ptah decodes
decoded()
{
	"$PTAH" stat "$1" 2>errors.txt >stat.txt || fail "$1: $(cat errors.txt)"
	tr -d , <stat.txt | awk '$1 == "instructions" { print $2 }'
}

# perf_decodes FILE INSTRUCTIONS: perf finds as many, between the two times, and reports no error
perf_decodes()
{
	command -v perf >/dev/null || return 0
	perf script -i "$1" --itrace=i0nse --ns -F time,ip >perf.txt 2>perf-errors.txt ||
		fail "$1: perf: $(tail -3 perf-errors.txt)"
	[ ! -s perf-errors.txt ] || fail "$1: perf: $(head -3 perf-errors.txt)"
	! grep -q error perf.txt || fail "$1: perf: $(grep -m 3 error perf.txt)"
	[ "$(wc -l <perf.txt)" = "$2" ] || fail "$1: perf decodes $(wc -l <perf.txt), $2 ran"
	# The time of an instruction is estimated: up to an MTC period, 8 ticks of 24 MHz, too late.
	# The factor from TSC to ns has 29 bits and more.
	awk -v begin="$begin" -v end="$end" '
		BEGIN { slack = 16 + begin / 2 ^ 29 }
		{ t = substr($1, 1, length($1) - 1) * 1e9 }
		t < begin - slack || t > end + 333 + slack { print "time " $1; exit 1 }' perf.txt ||
		fail "$1: perf's times are not between $begin and $end ns"
}

# written SCENARIO: writes it, and sets what ran
written()
{
	"$write" "$1" code.bin "$1.data" 2>ran.txt || fail "$1: $(cat ran.txt)"
	ran=$(awk '/^stream/ { n += $3 } END { print n }' ran.txt)
	begin=$(awk '/^time/ { print $2 }' ran.txt)
	end=$(awk '/^time/ { print $3 }' ran.txt)
}

for scenario in threads processors kernel exec uptime generated; do
	written "$scenario"
	"$PTAH" verify --all "$scenario.data" >verify.txt 2>&1 || fail "$scenario: $(cat verify.txt)"
	[ "$(decoded "$scenario.data")" = "$ran" ] || fail "$scenario: $(cat stat.txt)"
	# perf knows no code that is in no file.
	[ "$scenario" = generated ] || perf_decodes "$scenario.data" "$ran"
	[ ! -e "$scenario.data.tmp" ] && [ ! -e "$scenario.data.old" ] || fail "$scenario: leftovers"
done

# names SCENARIO COUNTS...: how many instructions ran under each name; also for perf
names()
{
	recording=$1.data
	shift
	printf '%s\n' "$@" >expected.txt
	"$PTAH" script "$recording" 2>/dev/null | awk '{ n[$1]++ } END { for (i in n) print n[i], i }' |
		LC_ALL=C sort -k 2 | cmp - expected.txt
	command -v perf >/dev/null || return 0
	perf script -i "$recording" --itrace=i0ns -F comm 2>/dev/null |
		awk '{ n[$1]++ } END { for (i in n) print n[i], i }' | LC_ALL=C sort -k 2 |
		cmp - expected.txt
}

# The processes have 67, 67 and 66 turns of 201 instructions. The other program has 50 turns, in
# which one more is executed.
names processors '13467 worker-0' '13467 worker-1' '13266 worker-2'
names exec '10100 other' '10050 worker-0'
names uptime '10100 other' '10050 worker-0'

# A ring that has wrapped, and several snapshots of one: they begin in the middle of a packet.
for scenario in ring snapshots; do
	written "$scenario"
	part=$(decoded "$scenario.data")
	[ "$part" -gt 50000 ] && [ "$part" -lt "$ran" ] || fail "$scenario: $part of $ran"
	! grep -q lost errors.txt || fail "$scenario: $(cat errors.txt)"
	perf_decodes "$scenario.data" "$part"
done

# Through a pipe, as perf record -o -.
written threads
"$write" threads code.bin 2>/dev/null | "$PTAH" verify --all - >verify.txt 2>&1 || fail "$(cat verify.txt)"
"$write" threads code.bin 2>/dev/null >piped.data
"$write" threads code.bin 2>/dev/null | cat >through.data
"$PTAH" verify --all piped.data >verify.txt 2>&1 || fail "$(cat verify.txt)"
[ "$(decoded through.data)" = "$ran" ] || fail "pipe: $(cat stat.txt)"
if command -v perf >/dev/null; then
	# shellcheck disable=SC2002 # perf decodes nothing if its input is a file
	n=$(cat through.data | perf script -i - --itrace=i0ns -F ip 2>/dev/null | wc -l)
	[ "$n" = "$ran" ] || fail "perf decodes $n from a pipe, $ran ran"
fi

# The header: the processor, the command, and the options as the driver has them: CYC (bit 1), MTC
# (9), TSC (10), branches (13), an MTC every 2^3 ticks (17:14).
if command -v perf >/dev/null; then
	perf report --header-only -i processors.data >header.txt 2>&1 || fail "$(cat header.txt)"
	for line in 'cpuid : GenuineIntel,6,94,3' 'cmdline : write_recording' 'config = 0xe603' \
		'exclude_kernel = 1' 'pmu mappings: intel_pt = 8'; do
		grep -q "$line" header.txt || fail "no '$line': $(cat header.txt)"
	done
fi
