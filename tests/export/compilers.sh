#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Profiles for compilers: each tool reads its format without a complaint, and the counts that it
# finds are the program's own, those of BOLT's instrumentation of the same program, and perf's.
. "$PTAH_SOURCE/tests/cli/common.sh"

cat >program.c <<'END'
#include <stdio.h>
#include <stdlib.h>

static unsigned seed = 1;
static unsigned odds, evens, orders;
__attribute__((noinline)) static unsigned dice(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}
static int order(const void *a, const void *b)
{
	orders++;
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}
__attribute__((noinline)) int collatz(unsigned n)
{
	int steps = 0;

	while (n != 1) {
		if (n & 1) {
			odds++;
			n = 3 * n + 1;
		} else {
			evens++;
			n /= 2;
		}
		steps++;
	}
	return steps;
}
__attribute__((noinline)) int choose(unsigned n)
{
	switch (n) {
	case 0: return 5;
	case 1: return dice(3) ? 7 : 9;
	case 2: return collatz(20);
	case 3: return 11 + (int)dice(4);
	case 4: return (int)dice(9);
	case 5: return collatz(7);
	default: return -1;
	}
}
int main(void)
{
	int list[50];
	long sum = 0;

	for (int i = 0; i < 50; i++)
		list[i] = (int)dice(1000);
	qsort(list, 50, sizeof(*list), order);
	for (unsigned i = 1; i < 200; i++)
		sum += collatz(i) + choose(dice(7));
	printf("%u %u %u %ld\n", odds, evens, orders, sum);
	return 0;
}
END
line_of() { # TEXT: its line
	grep -n -F "$1" program.c | head -1 | cut -d : -f 1
}

# What AutoFDO's tools and llvm-profgen find: from the first line of a function.
#	offset NAME TEXT
offset() {
	echo $(($(line_of "$2") - $(line_of "$1")))
}

# Position-independent and not; where the first executable segment is not at the file's start plus
# its offset (lld).
"${CC:-cc}" -w -O1 -gdwarf-4 -fno-if-conversion -no-pie -fno-pie -o plain program.c -Wl,--emit-relocs
"${CC:-cc}" -w -O1 -gdwarf-4 -fno-if-conversion -pie -fPIE -o pie program.c -Wl,--emit-relocs
builds="plain pie"
if command -v clang >found && command -v ld.lld >found; then
	clang -w -O1 -gdwarf-4 -fuse-ld=lld -o lld program.c -Wl,--emit-relocs
	builds="plain pie lld"
fi

for build in $builds; do
	record $build.data ./$build
	read -r odds evens orders _ <recorded-out || fail "the program printed nothing"
	for to in bolt autofdo llvm-profgen; do
		expect 0 "$PTAH" export --to=$to --dso=$build -o $build.$to $build.data
		[ ! -s err ] || fail "--to=$to: $(cat err)"
	done

	# create_gcov and dump_gcov
	if command -v create_gcov >found && command -v dump_gcov >found; then
		expect 0 create_gcov --profiler=text --profile=$build.autofdo --binary=$build \
			--gcov=$build.afdo -gcov_version=1
		expect 0 dump_gcov -gcov_version=1 $build.afdo
		grep -q "^ *$(offset 'int collatz' 'odds++;')\(\.[0-9]*\)\{0,1\}: $odds\$" out ||
			fail "dump_gcov of $build, $odds odd numbers: $(cat out)"
		grep -q "^ *$(offset 'int collatz' 'evens++;')\(\.[0-9]*\)\{0,1\}: $evens\$" out ||
			fail "dump_gcov of $build, $evens even numbers: $(cat out)"
		grep -q "^choose total:[0-9]* head:199\$" out || fail "calls: $(cat out)"
		create_llvm_prof --profiler=text --profile=$build.autofdo --binary=$build \
			--format=text --out=$build.llvm 2>err || fail "create_llvm_prof: $(cat err)"
		grep -q "^choose:[0-9]*:199\$" $build.llvm || fail "calls: $(cat $build.llvm)"
	else
		echo "SKIP: no create_gcov (Debian: autofdo)"
	fi

	# llvm-profgen
	profgen=$(ls /usr/lib/llvm-*/bin/llvm-profgen 2>found | tail -1)
	if [ -n "$profgen" ]; then
		expect 0 "$profgen" --unsymbolized-profile=$build.llvm-profgen --binary=$build \
			--format=text --output=$build.samples
		! grep -v "estimated to optimize better" err || fail "llvm-profgen"
		grep -q "^ $(offset 'int collatz' 'odds++;')\(\.[0-9]*\)\{0,1\}: $odds\$" $build.samples ||
			fail "llvm-profgen of $build, $odds odd numbers: $(cat $build.samples)"
		grep -q "^ $(offset 'int order' 'orders++;'): $orders\$" $build.samples ||
			fail "llvm-profgen of $build, $orders comparisons: $(cat $build.samples)"
		expect 0 "${profgen%profgen}profdata" show --sample $build.samples
	else
		echo "SKIP: no llvm-profgen (Debian: llvm)"
	fi

	# Each count of BOLT's own instrumentation is in the profile, the same. What it does not count:
	# returns, PLT stubs, what comes from other files.
	for version in 16 19; do
		bolt=/usr/lib/llvm-$version/bin
		if [ ! -x $bolt/perf2bolt ]; then
			echo "SKIP: no perf2bolt (Debian: bolt-$version)"
			continue
		fi
		expect 0 $bolt/perf2bolt -pa -p $build.bolt -o got.fdata $build
		cat out err >said
		grep -q "traces mismatching disassembled function contents: 0 (0.0%)" said ||
			fail "perf2bolt-$version: $(cat said)"
		grep -q "involving unknown regions: 0 (0.0%)" said || fail "perf2bolt-$version: $(cat said)"
		expect 0 $bolt/llvm-bolt $build -instrument -o instrumented \
			--instrumentation-file="$PWD/wanted.fdata"
		./instrumented >printed
		cmp printed recorded-out || fail "the instrumented $build does something else"
		LC_ALL=C sort wanted.fdata >wanted
		LC_ALL=C sort got.fdata | LC_ALL=C comm -23 wanted - >missing
		[ "$(wc -l <wanted)" -gt 30 ] || fail "instrumentation by BOLT $version: $(cat wanted)"
		[ ! -s missing ] || fail "BOLT $version counts in $build: $(cat missing)"
	done
done

# perf's list of all taken branches, added up: the same branches, and as many runs begin and end at
# each address, but for those in stubs of the PLT.
cat >add-up.py <<'END'
import collections, re, sys
low, high = 0x400000, 0x500000
branches, begun, ended = collections.Counter(), collections.Counter(), collections.Counter()
start = None
def place(address):
    return '%x' % address if low <= address < high else 'X:0'
stubs = [(int(m.group(1), 16), int(m.group(2), 16)) for m in
         re.finditer(r' \.plt\S* +PROGBITS +(\w+) \w+ (\w+)', sys.stdin.read())]
def is_stub(address):
    return any(at <= address < at + size for at, size in stubs)
for line in open(sys.argv[1]):
    source, target = (int(x, 16) for x in line.split())
    if start is not None and source and not is_stub(int(start, 16)):
        begun[start] += 1
        ended[place(source)] += 1
    start = place(target) if low <= target < high else None
    if source and target and (low <= source < high or low <= target < high):
        branches[place(source), place(target)] += 1
for line in open(sys.argv[2]):
    kind, first, last, count = line.split()[:4]
    if kind == 'B':
        branches[first, last] -= int(count)
    else:
        begun[first] -= int(count)
        ended[last] -= int(count)
for name, counter in ('branch', branches), ('begin', begun), ('end', ended):
    assert len(counter) > 30, name
    for key, count in counter.items():
        if count:
            print(name, key, 'perf has', count, 'more')
END
if perf script --help >found 2>&1; then
	perf script -i plain.data --itrace=b 2>perf.err | awk '
		{ from = to = "?" }
		{ for (i = 1; i < NF; i++) {
			if ($i ~ /^branches/) from = $(i + 1)
			if ($i == "=>") to = $(i + 1)
		} }
		{ print from, to }' >branches
	readelf -SW plain | python3 add-up.py branches plain.bolt >differences || fail "adding up"
	[ ! -s differences ] || fail "not as perf: $(cat differences)"
else
	echo "SKIP: no perf (Debian: linux-perf)"
fi

# Recordings add up, saved counts are as good as the recording, and an unclear name is refused.
expect 0 "$PTAH" profile --save=plain.counts plain.data
expect 0 "$PTAH" export --to=bolt -d plain plain.counts plain.data
awk '{ $4 *= 2; print }' plain.bolt >wanted
awk '{ print $1, $2, $3, $4 $5 }' wanted >twice
awk '{ print $1, $2, $3, $4 $5 }' out | cmp - twice || fail "twice"
expect 0 "$PTAH" export -o by-name.bolt plain.data
grep -q "^note: the profile is of .*/plain, which has [0-9.]*% of the executed instructions" err ||
	fail "no note: $(cat err)"
cmp by-name.bolt plain.bolt || fail "the program"
expect 1 "$PTAH" export --to=bolt -d absent plain.data
grep -q 'no code of "absent" was executed; the program is .*/plain' err || fail "$(cat err)"
expect 2 "$PTAH" export --to=bolt --predictor plain.counts
expect 2 "$PTAH" export --to=autofdo --predictor plain.data
expect 2 "$PTAH" export --to=bolt --function=main plain.data

# Mispredictions: at most as many as executions, of the dice some, of a loop that ends once one.
expect 0 "$PTAH" export --to=bolt -d plain --predictor plain.data
awk '$1 == "B" && $5 > $4 { exit 1 }' out || fail "more mispredictions than branches"
awk '$1 == "B" { n += $5 } END { exit !(n > 50 && n < 2000) }' out || fail "mispredictions"
sed 's/^\(B.*\) [0-9]*$/\1 0/' out | cmp - plain.bolt || fail "the counts with a predictor"

# A binary that was changed has other addresses: its profile would be nonsense.
cp plain kept
"${CC:-cc}" -w -O2 -no-pie -fno-pie -o plain program.c -Wl,--build-id
expect 1 "$PTAH" export --to=bolt -d plain plain.counts
grep -q 'plain is not the file that ran (its build id differs)' err || fail "$(cat err)"
rm plain
expect 1 "$PTAH" export --to=bolt -d plain plain.counts
grep -q 'plain: it cannot be read as an ELF file' err || fail "$(cat err)"
