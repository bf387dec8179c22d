#!/bin/sh
# SPDX-License-Identifier: MIT
# Watches hit as often as the program's source says: 12 calls of work(), of which 3 execute more than
# 100,000 instructions, and 2 of fail().
. "$PTAH_SOURCE/tests/record/common.sh"

cat >watched.c <<'END'
static volatile unsigned sum;

__attribute__((noinline)) void fail(void)
{
	sum++;
}

__attribute__((noinline)) void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sum += i;
}

int main(void)
{
	for (unsigned i = 0; i < 12; i++) {
		work(i % 4 == 3 ? 100000 : 100);
		if (i % 6 == 5)
			fail();
	}
	return 0;
}
END
"$CC" -O1 -o watched watched.c

for recorder in qemu native; do
	"$PTAH_BUILD/tests/follow" -r "$recorder" -j 1 -W 'enter fail' -W 'enter work@watched' \
		-W 'work > 100000 instructions' -W 'work > 100000000 instructions' \
		-W 'enter work@other' -W 'rate work > 5/s' -W 'main > 1ns' x.data -- ./watched \
		>out 2>&1 || fail "$recorder: $(cat out)"
	grep '^watch' out | cut -d, -f1 >hits
	# The recorder native has times at system calls only, and this main() makes none.
	main=1
	[ "$recorder" = native ] && main=0
	printf 'watch %d: %d hits\n' 0 2 1 12 2 3 3 0 4 0 5 1 6 "$main" >expected
	diff expected hits || fail "$recorder: $(cat out)"
	# Each long call has at least an instruction for each of its 100,000 turns.
	most=$(sed -n 's/^watch 2.*most //p' out)
	[ "$most" -gt 100000 ] && [ "$most" -lt 1000000 ] || fail "$recorder: $most instructions"
done
