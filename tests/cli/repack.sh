#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah repack: the same path, times and counts as before, for Ptah and for perf; as many bytes as
# the recorder writes that compresses by itself; nothing lost where the trace is damaged.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need "${CC:-cc}"
need python3

cat >program.c <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static volatile unsigned caught, sink;
static void on_signal(int s)
{
	caught += (unsigned)s;
}
__attribute__((noinline)) static unsigned fold(unsigned n)
{
	return n < 2 ? 1 : n + fold(n - 1);
}
static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}
static void *work(void *passes)
{
	int list[64];

	for (unsigned i = 0; i < *(unsigned *)passes; i++) {
		for (int k = 0; k < 64; k++)
			list[k] = (int)((i * 40503u + (unsigned)k * 2654435u) >> 7);
		qsort(list, 64, sizeof(*list), compare);
		sink += fold(i % 100) + (unsigned)list[0]; /* deeper than 64 calls */
		if (i % 16 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}
int main(void)
{
	unsigned passes = 101;
	pthread_t other;

	signal(SIGUSR1, on_signal);
	pthread_create(&other, NULL, work, &passes);
	work(&passes);
	pthread_join(other, NULL);
	return 0;
}
END
"${CC:-cc}" -O1 -g -o program program.c -lpthread

# trace_bytes FILE: those of the recording.
trace_bytes() {
	"$PTAH" stat -i "$1" --format=json >out
	json "sum(s['bytes'] for s in d['streams'])"
}

# same WHAT OLD NEW: the two decode alike, with times, and the new one as the program ran.
same() {
	"$PTAH" verify --all -i "$3" >verified || fail "$1: $(cat verified)"
	"$PTAH" script --no-symbols -i "$2" >"$2.txt"
	"$PTAH" script --no-symbols -i "$3" >"$3.txt"
	cmp -s "$2.txt" "$3.txt" || fail "$1: $(diff "$2.txt" "$3.txt" | head -4)"
}

for options in '' '-e intel_pt/cyc,mtc,mtc_period=3/u' '--long-tnt'; do
	# shellcheck disable=SC2086
	"$PTAH" record --recorder=qemu -q $options --no-retcomp --psb-period=16384 -o wide.data -- ./program
	"$PTAH" repack -q --retcomp -o packed.data wide.data
	same "repacked ($options)" wide.data packed.data
	"$PTAH" repack -q -o again.data packed.data
	same "repacked again ($options)" packed.data again.data
	equal "bytes of a trace that is packed already ($options)" "$(trace_bytes again.data)" \
		"$(trace_bytes packed.data)"
	# Without --retcomp the recording goes on saying that there are no compressed returns.
	"$PTAH" repack -q -o as-said.data wide.data
	same "repacked without returns ($options)" wide.data as-said.data
done

# As short as what the recorder itself compresses: the two runs differ by their signals' places.
"$PTAH" record --recorder=qemu -q --no-retcomp -o wide.data -- ./program
"$PTAH" record --recorder=qemu -q -o recorded.data -- ./program
"$PTAH" repack -q --retcomp -o packed.data wide.data
packed=$(trace_bytes packed.data)
recorded=$(trace_bytes recorded.data)
[ "$((packed * 100))" -le "$((recorded * 105))" ] || fail "$packed bytes, recorded as $recorded"
[ "$((packed * 2))" -le "$(trace_bytes wide.data)" ] || fail "$packed bytes: hardly fewer"

# perf decodes the same addresses.
if command -v perf >/dev/null; then
	"$PTAH" record --recorder=native -q -o native.data -- ./program
	"$PTAH" repack -q --psb-period=2048 -o more.data native.data
	for f in wide packed native more; do
		perf script --itrace=i1i -F tid,ip -i $f.data >$f.perf 2>/dev/null
		[ -s $f.perf ] || fail "perf decodes nothing of $f.data"
	done
	cmp -s wide.perf packed.perf || fail "perf decodes another path: $(wc -l wide.perf packed.perf)"
	# perf's estimates of time, by which it sorts, change where it meets a PSB.
	for f in native more; do
		sort $f.perf >$f.sorted
	done
	cmp -s native.sorted more.sorted || fail "perf: $(diff native.sorted more.sorted | head -4)"
fi

# With PSBs where the recording has few: in traces made natively, and where the recorder qemu stamps.
"$PTAH" record --recorder=native --truth -q -o native.data -- ./program
for input in wide native; do
	"$PTAH" repack -q --retcomp --psb-period=4096 -o more.data $input.data
	same "more PSBs ($input)" $input.data more.data
	"$PTAH" script --no-symbols -j 3 -i more.data >more.txt
	cmp -s $input.data.txt more.txt || fail "more PSBs: $(diff $input.data.txt more.txt | head -4)"
done
[ "$("$PTAH" dump more.data | grep -c PSBEND)" -gt "$("$PTAH" dump native.data | grep -c PSBEND)" ] ||
	fail "no PSB was added"
"$PTAH" record --recorder=qemu -q -e intel_pt/cyc,mtc/u -o timed.data -- ./program
expect 1 "$PTAH" repack --psb-period=4096 timed.data

# In its place; the old one is kept.
cp wide.data place.data
"$PTAH" repack -q --retcomp place.data
cmp -s place.data packed.data || fail "in place it is another file"
cmp -s place.data.old wide.data || fail "place.data.old is not the old one"

# Damage: bytes in the middle of a stream that are no packet. All that could be decoded still can.
python3 - <<'END'
data = bytearray(open("wide.data", "rb").read())
at = data.find(b"\x02\x82" * 8, len(data) // 2) + 300
data[at:at + 2] = b"\x02\x07"
open("damaged.data", "wb").write(data)
END
"$PTAH" repack --retcomp -o repacked.data damaged.data 2>err
grep -q 'were copied as they are' err || fail "no note of the damage: $(cat err)"
for f in damaged repacked; do
	"$PTAH" script --no-symbols -i $f.data 2>/dev/null | sed 's/ offset 0x.*//' >$f.txt || :
	grep -q 'error' $f.txt || fail "no error in $f.data"
done
cmp -s damaged.txt repacked.txt || fail "damaged: $(diff damaged.txt repacked.txt | head -4)"

# What cannot be done changes nothing.
cp wide.data kept.data
expect 2 "$PTAH" repack -
cp wide.data named.data.old
: >named.data
expect 2 "$PTAH" repack -q -o named.data named.data.old
cmp -s named.data.old wide.data || fail "the recording was replaced by the output's old file"
expect 1 "$PTAH" repack -o nowhere/out.data kept.data
head -c 90000 wide.data >cut.data
"$PTAH" repack -q -o cut-packed.data cut.data 2>err && fail "an unfinished recording was taken"
[ -s err ] || fail "no word about an unfinished recording"
[ ! -e cut-packed.data ] || fail "an output of what was refused"
cmp -s kept.data wide.data || fail "the recording was changed"
set -- *.tmp
[ ! -e "$1" ] || fail "left behind: $1"
