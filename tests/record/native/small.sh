#!/bin/sh
# SPDX-License-Identifier: MIT
# The recorder native with limits so small that every program reaches them (NATIVE_LIMIT): two
# chunks of a page for each log, units of five instructions, paths of four pieces, hash tables of a
# few rows, areas of 128 KB, messages that fill their ring, six threads. What there is no room for is
# not recorded, with a note, and the program runs on as alone.
. "$PTAH_SOURCE/tests/cli/common.sh"

PTAH=$PTAH_BUILD/tests/ptah-small
[ -x "$PTAH" ] || skip "another processor"
"$PTAH" record --recorder=native --dry-run -- true >out 2>&1 || skip "$(cat out)"
seq 1 1000 >numbers

# as_alone COMMAND...: the same output and status
as_alone() {
	wanted=0
	"$@" >alone || wanted=$?
	got=0
	"$PTAH" record --recorder=native --truth ${filter:+"--filter=$filter"} -o run.data -- "$@" \
		>recorded 2>errors || got=$?
	! grep -q qemu errors || fail "$*: $(cat errors)"
	equal "status of $*" "$got" "$wanted"
	cmp -s alone recorded || fail "$*: other output"
	"$PTAH" verify --all -i run.data >verified 2>&1 || verify_failed=$?
}

# verified COMMAND...: and all of it is decoded as what ran
verified() {
	command -v "$1" >/dev/null || return 0
	verify_failed=0
	as_alone "$@"
	equal "verify of $*" "$verify_failed" 0
	! grep -q '^note:' errors verified || fail "$*: $(cat errors verified)"
	grep -q 'decoded exactly what ran' verified || fail "$*: $(tail -1 verified)"
}

# noted TEXT COMMAND...: and a note says what was not recorded
noted() {
	note=$1
	shift
	command -v "$1" >/dev/null || return 0
	verify_failed=0
	as_alone "$@"
	equal "verify of $*" "$verify_failed" 0
	cat errors verified | grep -q "$note" || fail "$*: no note: $note: $(cat errors verified)"
}

verified true
verified ls -l /usr
verified sort -r numbers
verified gzip -c numbers
verified xz -c numbers
verified sh -c 'tr 1 2 <numbers | wc; exit 3'
verified perl -e 'my %h; $h{$_ % 97} .= "x" for 1 .. 300; print scalar keys %h'
verified bash -c 'trap "echo caught" USR1; kill -USR1 $$; x=$(echo inner); echo $x'

build() {
	"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -pthread -o "$1" "$2"
}
build sandbox "$PTAH_SOURCE/tests/record/native/programs/sandbox.c"
! ./sandbox each >/dev/null || verified ./sandbox each
build changes "$PTAH_SOURCE/tests/record/native/programs/changes.c"
build signals "$PTAH_SOURCE/tests/record/programs/signals.c"
build rewriting "$PTAH_SOURCE/tests/record/programs/rewriting.c"
verified ./changes
verified ./rewriting
verified ./signals

# Tracing goes off and on: in the program alone, and in a library.
filter='filter main@./changes'
verified ./changes
filter='filter main@./signals'
verified ./signals
libc=$(ldd /bin/true 2>/dev/null | awk '/libc\.so/ { print $3 }')
filter=${libc:+filter *@$libc}
verified sort -r numbers
verified bash -c 'trap "echo caught" USR1; kill -USR1 $$; x=$(echo inner); echo $x'
filter=

# The areas are full.
noted 'there is no memory for translated code' python3 -c 'import json; print(json.dumps([1, 2]))'

# More threads than slots.
cat >threads.c <<'END'
#include <pthread.h>
#include <stdio.h>

#define THREADS 20

static pthread_barrier_t all;

static void *run(void *argument)
{
	pthread_barrier_wait(&all);
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS];
	int left = 0;

	pthread_barrier_init(&all, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		left += pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < THREADS; i++)
		left += pthread_join(threads[i], NULL);
	printf("%d\n", left);
	return left;
}
END
build threads threads.c
noted 'threads' ./threads
