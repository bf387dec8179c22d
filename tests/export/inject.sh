#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah inject: samples as perf makes them of the same recording, sums as the recorder counted, and
# files that perf's tools read.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need "${CC:-cc}"

cat >program.c <<'END'
#include <pthread.h>
#include <stdio.h>

static unsigned odds, evens;
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
__attribute__((noinline)) static unsigned fold(unsigned n)
{
	return n < 2 ? 1 : n + fold(n - 1);
}
static void *other(void *sum)
{
	for (unsigned i = 0; i < 20; i++)
		*(unsigned *)sum += fold(i);
	return sum;
}
int main(void)
{
	unsigned sum = 0, sums[2] = {0, 0};
	pthread_t threads[2];

	for (unsigned i = 1; i < 100; i++)
		sum += (unsigned)collatz(i);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, other, &sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%u %u %u\n", odds, evens, sum + sums[0] + sums[1]);
	return 0;
}
END
"${CC:-cc}" -O1 -fno-optimize-sibling-calls -gdwarf-4 -no-pie -Wl,-q -o program program.c -lpthread
record run.data ./program
read -r odds evens _ <recorded-out

expect 0 "$PTAH" inject -i run.data -o each.data --itrace=i1i
grep -q . out && fail "something on standard output"
expect 0 "$PTAH" inject -i run.data -o jobs.data --itrace=i1i -j2
cmp each.data jobs.data || fail "other samples with two threads of the decoder"
# What goes to a file can go through a pipe.
expect 0 sh -c '"$PTAH" inject -i run.data --itrace=i1000i | cat >piped.data'
[ -s piped.data ] || fail "nothing came through the pipe"

# Refused: letters, the recording itself, what cannot be read twice, a recording without a trace.
expect 2 "$PTAH" inject -i run.data -o x.data --itrace=G
grep -q 'itrace: "G" is not made' err || fail "$(cat err)"
expect 2 "$PTAH" inject -i run.data -o run.data
expect 2 "$PTAH" inject -i - -o x.data
expect 2 "$PTAH" inject -i run.data -o x.data --jit
expect 1 "$PTAH" inject -i each.data -o x.data
expect 1 "$PTAH" inject -i run.data -o missing/x.data
[ ! -e x.data ] || fail "a refused output exists"
expect 0 "$PTAH" inject -i run.data -o noted.data --itrace=i1000iwp
grep -q 'no samples are made for "wp"' err || fail "$(cat err)"

# An old file is kept, and comes back where the new one cannot be completed.
cp noted.data twice.data
expect 0 "$PTAH" inject -i run.data -o twice.data --itrace=i1000i
cmp noted.data twice.data.old || fail "the old file"
cp noted.data big.data
(ulimit -f 64 && trap '' XFSZ && expect 1 "$PTAH" inject -i run.data -o big.data --itrace=i1i) || exit 1
cmp noted.data big.data || fail "the old file did not come back"

# Damage: cut in the middle, and a byte in each kilobyte changed.
head -c $(($(wc -c <run.data) * 2 / 3)) run.data >cut.data
status=0
"$PTAH" inject -i cut.data -o damaged.data --itrace=i100ibgle 2>err || status=$?
[ $status -le 1 ] || fail "status $status of a recording that was cut"
python3 - <<'END'
data = bytearray(open("run.data", "rb").read())
for at in range(5000, len(data), 1024):
    data[at] ^= 0x55
open("changed.data", "wb").write(data)
END
status=0
"$PTAH" inject -i changed.data -o damaged.data --itrace=i100ibgle 2>err || status=$?
[ $status -le 1 ] || fail "status $status of a damaged recording"

perf --version >/dev/null 2>&1 || skip "no perf; only that files are written was tested"
perf_script() { # INPUT FIELDS [OPTION...]
	input=$1
	fields=$2
	shift 2
	perf script -i "$input" -F "$fields" "$@" 2>said
}

# Each instruction is one sample: as many as ran.
equal "samples" "$(perf_script each.data ip | wc -l)" "$recorded"
equal "collatz is called" "$(perf_script each.data ip,sym,symoff | grep -c ' collatz+0x0$')" 99
perf_script piped.data period >periods || fail "perf cannot read what came through a pipe: $(cat said)"
equal "periods" "$(sort -u periods | tr -d ' ')" 1000
perf report -i each.data --stdio -F period,sym 2>said >report || fail "$(cat said)"
grep -q '\[\.\] collatz' report || fail "$(cat report)"
perf report -i each.data --header-only 2>said | grep -q 'ptah record -- ./program' ||
	fail "the command line"
# --itrace=b has an event of its own, with addresses.
equal "events" "$("$PTAH" inject -i run.data -o b.data --itrace=i1000ib && perf evlist -i b.data |
	tr '\n' ' ')" "intel_pt//u branches:u instructions:u "
[ -z "${PTAH_SANITIZE:-}" ] || exit 0

# The same samples as perf's, thread by thread: perf sorts threads by times that it estimates.
for letters in i100i i1000ig8 b c r i10000ibe; do
	expect 0 "$PTAH" inject -i run.data -o samples.data --itrace=$letters
	fields=hw:comm,tid,ip,sym,period
	case $letters in [bcr]) fields=$fields,addr ;; esac
	perf_script samples.data $fields >got || fail "$letters: $(cat said)"
	perf_script run.data $fields --itrace=$letters >wanted || fail "$letters: $(cat said)"
	[ -s wanted ] || fail "$letters: perf makes no samples"
	for tid in $(awk '$2 + 0 { print $2 }' wanted | sort -u); do
		grep " $tid " got >of-thread
		grep " $tid " wanted | cmp - of-thread || fail "$letters: samples of thread $tid"
	done
	LC_ALL=C sort got >sorted
	LC_ALL=C sort wanted | cmp - sorted || fail "$letters: samples"
done
expect 0 "$PTAH" inject -i run.data -o skipped.data --itrace=bs50
expect 0 "$PTAH" inject -i run.data -o all.data --itrace=b
equal "samples that are left out" "$(($(perf_script all.data hw:ip | wc -l) -
	$(perf_script skipped.data hw:ip | wc -l)))" 50
# perf 6.1 does not empty the branch stack after a sample, as its manual says it does.
expect 0 "$PTAH" inject -i run.data -o samples.data --itrace=i100il32
perf_script samples.data ip,brstack >got
perf_script run.data ip,brstack --itrace=i100il32 >wanted
python3 - <<'END' || fail "branch stacks"
import collections
def samples(name):
    by_ip = collections.defaultdict(list)
    for line in open(name):
        ip, *stack = line.split()
        by_ip[ip].append(stack)
    return by_ip
got, wanted = samples("got"), samples("wanted")
assert got.keys() == wanted.keys()
for ip in got:
    assert len(got[ip]) == len(wanted[ip])
    # threads may be in another order
    left = list(wanted[ip])
    for stack in got[ip]:
        match = next((w for w in left if w[:len(stack)] == stack), None)
        assert match is not None, (ip, stack)
        left.remove(match)
END

# Tools that read branch stacks find the program's own counts in them.
expect 0 "$PTAH" inject -i run.data -o lbr.data --itrace=i40il128
if [ -x /usr/lib/llvm-19/bin/perf2bolt ]; then
	expect 0 /usr/lib/llvm-19/bin/perf2bolt -p lbr.data -o fdata ./program
	grep -q "mismatching disassembled function contents: 0 (0.0%)" out err || fail "$(cat out err)"
	equal "calls of collatz" "$(awk '$5 == "collatz" && $6 == 0 { n += $8 } END { print n }' fdata)" 99
else
	echo "no perf2bolt (Debian: bolt-19)"
fi
if command -v create_llvm_prof >found; then
	create_llvm_prof --profiler=perf --profile=lbr.data --binary=./program --format=text \
		--out=llvm 2>err || fail "create_llvm_prof: $(cat err)"
	grep -q '^collatz:' llvm || fail "create_llvm_prof: $(cat err llvm)"
else
	echo "no create_llvm_prof (Debian: autofdo)"
fi
perf annotate -i each.data --stdio -s collatz >annotated 2>said || fail "$(cat said)"
grep -q 'collatz' annotated || fail "perf annotate: $(cat said)"
