# SPDX-License-Identifier: MIT
# A recording as a trace bundle of LLDB: with traces of threads, and with traces of CPUs and their
# context switches. Every decode is that of the recording. Where an LLDB is installed that can load
# bundles, its instructions are compared, and the bundles that it writes are read.
. "$PTAH_SOURCE/tests/record/common.sh"

cat >two.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void *sort(void *numbers)
{
	qsort(numbers, 300, sizeof(int), compare);
	return numbers;
}

int main(void)
{
	static int numbers[2][300];
	pthread_t thread;

	for (int i = 0; i < 600; i++)
		numbers[i / 300][i % 300] = i * 7919 % 601;
	if (pthread_create(&thread, NULL, sort, numbers[0]))
		return 1;
	sort(numbers[1]);
	pthread_join(thread, NULL);
	printf("%d %d\n", numbers[0][0], numbers[1][0]);
	return 0;
}
END
"$CC" -O1 -g -pthread -o two two.c
# LLDB leaves out a CPU's trace that has no time after the switch: the clock must not begin at 0.
record --clock=host -- ./two >output.txt
exact
# The first column is the thread's name, which a bundle does not have.
"$PTAH" script perf.data | cut -d' ' -f2- >expected.txt
[ "$(wc -l <expected.txt)" -gt 50000 ] || fail "the recording is nearly empty"
"$PTAH" report -n 0 --format=tsv perf.data >expected.tsv

# same BUNDLE: the decode of the bundle is that of the recording
same()
{
	"$PTAH" script "$1" | cut -d' ' -f2- >decoded.txt
	cmp expected.txt decoded.txt || fail "$1: another decode than that of the recording"
}

for kind in threads cpus; do
	"$PTAH_BUILD/tests/write_bundle" perf.data $kind $kind
	same $kind
	same $kind/trace.json
	# Every command takes a bundle.
	"$PTAH" report -n 0 --format=tsv $kind | cmp - expected.tsv || fail "$kind: report"
	"$PTAH" stat $kind | grep -q '^  errors  *0$' || fail "$kind: stat"
	for command in dump profile cover; do
		"$PTAH" $command $kind >output.txt || fail "$kind: $command"
	done
done

# A bundle may be moved, and is read from wherever the command runs.
mkdir elsewhere
mv cpus elsewhere/moved
(cd elsewhere/moved && "$PTAH" script . | cut -d' ' -f2- >../decoded.txt)
cmp expected.txt elsewhere/decoded.txt || fail "another decode in the bundle's folder"
mv elsewhere/moved cpus

# The program has changed.
cp two was
"$CC" -O1 -g -pthread -Wl,--build-id=0x00112233445566778899aabbccddeeff00112233 -o two two.c
"$PTAH" script threads >output.txt 2>errors.txt && fail "a changed program was taken"
grep -q 'two is not the file that ran: its build id is 00112233445566778899aabbccddeeff00112233' \
	errors.txt || fail "refused because of: $(cat errors.txt)"
"$PTAH" stat --force threads >output.txt || fail "a changed program was not taken with --force"
mv was two
same threads

# What follows is about LLDB, and no code of Ptah that has not run above.
[ -z "${PTAH_SANITIZE-}" ] || exit 0

# LLDB 22 loads bundles. 19 crashes, and there were versions that hang.
lldb=
for candidate in lldb lldb-22 lldb-23 lldb-24; do
	command -v $candidate >/dev/null || continue
	timeout 60 $candidate -b -o 'trace load threads/trace.json' -o 'thread list' \
		>list.txt 2>/dev/null </dev/null || continue
	[ "$(grep -c 'tid = ' list.txt)" != 2 ] || lldb=$candidate
done
[ "$lldb" ] || {
	echo "no LLDB that loads trace bundles is installed: not compared with it"
	exit 0
}
for kind in threads cpus; do
	$lldb -b -o "trace load $kind/trace.json" \
		-o 'thread trace dump instructions 1 --raw --forwards --count 10000000' \
		-o 'thread trace dump instructions 2 --raw --forwards --count 10000000' \
		-o "trace save $kind.saved" -o "trace save --compact $kind.compact" >lldb.txt 2>&1
	sed -n 's/^ *[0-9]*: 0x0*\([0-9a-f]*\)$/\1/p' lldb.txt >lldb.ips
	"$PTAH" script $kind | cut -d' ' -f3 | cmp - lldb.ips ||
		fail "$kind: LLDB decodes other instructions"
	same $kind.saved
	same $kind.compact
done
echo "equal to $lldb"
