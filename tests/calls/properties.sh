#!/bin/sh
# SPDX-License-Identifier: MIT
# The calls of programs that nobody wrote for this test: they nest, every instruction belongs to one
# of them, they do not depend on how the decoding is shared among threads, and each call and return
# instruction is one that perf lists.
. "$PTAH_SOURCE/tests/calls/common.sh"

# proper MAX WHAT [OPTION]: the calls in perf.data are proper, and at most so deep
proper()
{
	proper_option=${3:---jobs=1}
	"$PTAH" script -q --calls --format=tsv "$proper_option" perf.data >calls.tsv ||
		fail "script --calls: $?"
	awk -f "$PTAH_SOURCE/tests/calls/properties.awk" calls.tsv >sums || fail "$(cat sums)"
	read -r sum depth <sums
	instructions=$("$PTAH" stat --format=json "$proper_option" perf.data | sed -n 's/^  "instructions": \([0-9]*\).*/\1/p')
	[ "$sum" = "$instructions" ] || fail "$sum instructions in calls, $instructions in the trace"
	[ "$depth" -le "$1" ] || fail "$depth calls deep"
	"$PTAH" script -q --calls --format=tsv "$proper_option" -j4 perf.data | cmp - calls.tsv || fail "with -j4"
	echo "$sum instructions, $depth deep: $2"
}

if command -v bash >/dev/null; then
	# Processes, signals, and a program that is executed.
	record -- bash -c 'f() { [ $1 -eq 0 ] || f $(($1 - 1)); }; f 9
		trap "f 2" USR1; kill -USR1 $$; echo $(ls /) | read x; exec /bin/true' >/dev/null
	proper 150 bash
	as_perf
fi
if command -v perl >/dev/null; then
	# die is a longjmp.
	record --psb-period=2048 -- perl -e 'sub f { my $n = shift; $n ? f($n - 1) : die "x" }
		for my $i (1 .. 60) { eval { f($i % 9) }; } print sort { $a <=> $b } map { $_ * 7 % 13 } 1 .. 60' >/dev/null
	proper 100 perl
	as_perf
fi
if command -v sqlite3 >/dev/null; then
	record -- sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x + 1 from c
		where x < 200) select sum(x * x) from c group by x % 7;' >/dev/null
	proper 100 sqlite3
	as_perf
fi

# A recording of Linux' own driver: one stream for each processor, and threads that move.
guest=${PTAH_SHARED:-none}/traces/guest
if [ -e "$guest/u.data.xz" ] && command -v xz >/dev/null; then
	mkdir -p root/bin
	xz -dc "$guest/thr.xz" >root/bin/thr
	xz -dc "$guest/u.data.xz" >perf.data
	proper 20 "threads that move" --symfs=root
	as_perf --symfs=root
fi
