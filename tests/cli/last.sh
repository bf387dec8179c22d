#!/bin/sh
# SPDX-License-Identifier: MIT
# script --last shows the end of what script shows, of each thread; the lines are those of addr2line,
# and the signal that ended the program stands at the instruction that the linker's symbol names.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need "${CC:-cc}"
need addr2line
need nm

cat >crash.s <<'END'
	.globl _start
	.type _start, @function
_start:	mov $20000, %ebx
1:	call leaf
	dec %ebx
	jnz 1b
	xor %eax, %eax
	.globl fault
fault:	mov (%rax), %ecx
	.size _start, . - _start
	.type leaf, @function
leaf:	test $1, %bl
	jz 2f
	nop
2:	ret
	.size leaf, . - leaf
END
"${CC:-cc}" -g -nostdlib -static -no-pie -o crash crash.s
"$PTAH" record --recorder=qemu --psb-period=2048 -o crash.data -- ./crash >/dev/null 2>&1 || :

# is_end FILE N OPTIONS: the last N rows of each thread, without their source lines, are those of
# the whole.
is_end() {
	set -- "$1" "$2" "${3-}"
	# shellcheck disable=SC2086 # options
	"$PTAH" script -q --format=tsv $3 "$1" >whole || :
	# shellcheck disable=SC2086
	expect 0 "$PTAH" script -q --format=tsv --last="$2" $3 "$1"
	for tid in $(tail -n +2 whole | cut -f 1 | sort -u); do
		awk -F '\t' -v tid="$tid" '$1 == tid' whole | tail -n "$2" >wanted
		awk -F '\t' -v tid="$tid" -v OFS='\t' '$1 == tid { NF--; print }' out >got
		cmp -s wanted got || fail "$1 --last=$2 $3: $(diff wanted got | head -5)"
	done
}
for n in 1 5 3000; do
	is_end crash.data $n
	is_end crash.data $n --branches
	is_end crash.data $n --blocks
done
is_end crash.data 100000000 --blocks

cat >threads.c <<'END'
#include <pthread.h>
static void *count(void *n)
{
	for (volatile long i = 0; i < (long)n; i++)
		;
	return 0;
}
int main(void)
{
	pthread_t t[3];
	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], 0, count, (void *)(100 + 20000 * i));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	return 0;
}
END
"${CC:-cc}" -g -O1 -pthread -o threads threads.c
"$PTAH" record --recorder=qemu --psb-period=2048 -o threads.data -- ./threads >/dev/null 2>&1
is_end threads.data 700
is_end threads.data 10 --branches

# Every line is the one that addr2line finds.
"$PTAH" script -q --format=tsv --last=200 crash.data >out
tail -n +2 out | cut -f 2 | addr2line -e crash | sed 's/ (discriminator.*//' >wanted
tail -n +2 out | cut -f 5 | cmp - wanted || fail "lines"

# The signal and the instruction that faulted, with its line; and before it the last one that ran.
fault=$(nm crash | sed -n 's/^0*\([0-9a-f]*\) . fault$/\1/p')
line=$(addr2line -e crash "$fault" | sed 's,.*/,,')
for mode in '' --branches --calls; do
	# shellcheck disable=SC2086
	expect 0 "$PTAH" script -q --last=4 $mode crash.data
	tail -1 out | grep -q "# SIGSEGV ended process [0-9]* at $fault .*mov ecx, \[rax\].*$line\$" ||
		fail "the end, $mode: $(tail -1 out)"
	equal "rows $mode" "$(wc -l <out)" 5
done
"$PTAH" script -q --last=1 crash.data | head -1 | grep -q 'xor eax, eax' || fail "the last instruction"
expect 0 "$PTAH" script -q --last=4 --calls crash.data
equal "calls" "$(cut -c 1- out | grep -c 'leaf')" 4
expect 0 "$PTAH" script -q --last=2 --format=json crash.data
grep -q '"event": "end", "signal": "SIGSEGV", "ip": "0x'"$fault" out || fail "$(cat out)"
# A program that ends by itself has no such line.
"$PTAH" script -q --last=3 threads.data | grep '#' && fail "an end that was none"

# Snapshots too.
"$PTAH" record --recorder=qemu -S64K -o snapshot.data -- ./crash >/dev/null 2>&1 || :
is_end snapshot.data 50
expect 0 "$PTAH" script -q --last=2 snapshot.data
grep -q "SIGSEGV ended process [0-9]* at $fault" out || fail "snapshot: $(cat out)"
expect 2 "$PTAH" script --last=5 --since=0.1 crash.data
expect 1 "$PTAH" script --last=5 absent.data
