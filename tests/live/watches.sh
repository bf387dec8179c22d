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

# Of several threads, whose calls are not decoded in the order of time: seven of them call it 20 times
# each at once, as often as one does that waits 2 ms each time. All are in one second, and in no
# second are more.
cat >rates.c <<'END'
#include <pthread.h>
#include <unistd.h>

static volatile unsigned sum;

__attribute__((noinline)) void work(void)
{
	sum++;
}

static void *run(void *waits)
{
	for (unsigned i = 0; i < 20; i++) {
		work();
		if (waits)
			usleep(2000);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[8];

	for (unsigned i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, run, i == 3 ? &threads[i] : NULL);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
END
"$CC" -O1 -pthread -o rates rates.c
for how in "-j 1" "-j 2" "-j 1 -q 4096"; do
	# shellcheck disable=SC2086 # several options
	"$PTAH_BUILD/tests/follow" -r native $how -W 'rate work > 15/s' -W 'rate work > 125/s' \
		-W 'rate work > 160/s' x.data -- ./rates >out 2>&1 || fail "rates: $(cat out)"
	grep '^watch' out | cut -d, -f1 >hits
	printf 'watch %d: %d hits\n' 0 1 1 1 2 0 >expected
	diff expected hits || fail "rates, $how: $(cat out)"
done
