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
	# This main() makes no system call: what is certain of its time is what native's looks say.
	main=1
	[ "$recorder" = native ] && main=$(sed -n 's/^watch 6: \([01]\) hits$/\1/p' hits)
	printf 'watch %d: %d hits\n' 0 2 1 12 2 3 3 0 4 0 5 1 6 "$main" >expected
	diff expected hits || fail "$recorder: $(cat out)"
	# Each long call has at least an instruction for each of its 100,000 turns.
	most=$(sed -n 's/^watch 2.*most //p' out)
	[ "$most" -gt 100000 ] && [ "$most" -lt 1000000 ] || fail "$recorder: $most instructions"
done

# Of several threads, whose calls are not decoded in the order of time: seven of them call it 20 times
# each at once, as often as one does that waits 2 ms each time. All are in one second, and in no
# second are more; where the machine stood still, which the program notes, they are not, and all is
# done again.
cat >rates.c <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
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

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(void)
{
	const long begin = now_ms();
	pthread_t threads[8];

	for (unsigned i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, run, i == 3 ? &threads[i] : NULL);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	if (now_ms() - begin > 800)
		close(open("late", O_CREAT | O_WRONLY, 0600));
	return 0;
}
END
"$CC" -O1 -pthread -o rates rates.c
for how in "-j 1" "-j 2" "-j 1 -q 4096"; do
	for i in 1 2 3 4 5 6 7 8 9 10; do
		rm -f late
		# shellcheck disable=SC2086 # several options
		"$PTAH_BUILD/tests/follow" -r native $how -W 'rate work > 15/s' -W 'rate work > 125/s' \
			-W 'rate work > 160/s' x.data -- ./rates >out 2>&1 || fail "rates: $(cat out)"
		[ -e late ] || break
	done
	grep '^watch' out | cut -d, -f1 >hits
	printf 'watch %d: %d hits\n' 0 1 1 1 2 0 >expected
	diff expected hits || fail "rates, $how: $(cat out)"
done
