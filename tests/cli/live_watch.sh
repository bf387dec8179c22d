#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah live --watch: each hit that the program's source has, and no other; what is saved of it, and
# where other commands begin in that; requests by --control and SIGUSR2; how it ends.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64

recorders=qemu
"$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1 && recorders="qemu native"

cat >watched.c <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Does not return. */
__attribute__((noinline)) void stuck(void)
{
	for (;;)
		getppid();
}

static pthread_barrier_t begun;

static void *run(void *unused)
{
	pthread_barrier_wait(&begun);
	for (;;)
		work(3);
	return unused;
}

/*
 * A process that ends while its threads make trace as fast as they can: all of them, although on a
 * busy machine one may wait for long until it runs at all.
 */
static void threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&begun, NULL, 9);
	for (int i = 0; i < 8; i++)
		pthread_create(&thread, NULL, run, NULL);
	pthread_barrier_wait(&begun);
	usleep(50000);
	exit(3);
}

/* A child that calls fail(), and ends in one of four ways. */
static void child(int i)
{
	if (fork())
		return;
	fail();
	if (i == 1)
		abort();
	if (i == 3)
		kill(getpid(), SIGKILL);
	_exit(i == 2 ? 3 : 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	for (unsigned i = 0; !*what && i < 12; i++) {
		work(i % 4 == 3 ? 100000 : 100);
		if (i % 6 == 5)
			fail();
	}
	for (unsigned i = 0; !strcmp(what, "often") && i < 250; i++)
		fail();
	for (unsigned i = 0; !strcmp(what, "long") && i < 1000000; i++) {
		work(i % 7);
		if (i == 500000)
			fail();
	}
	for (int i = 0; !strcmp(what, "children") && i < 3; i++)
		child(i);
	while (!strcmp(what, "children") && wait(NULL) > 0)
		;
	if (!strcmp(what, "unwaited"))
		child(3);
	while (!strcmp(what, "unwaited") && access("seen", F_OK))
		getppid();
	if (!strcmp(what, "threads"))
		threads();
	if (!strcmp(what, "stuck") || !strcmp(what, "ready")) {
		puts(what);
		fflush(stdout);
		stuck();
	}
	return 0;
}
END
"$CC" -O1 -g -pthread -o watched watched.c

# hits N TEXT: so many of the lines in out say this
hits() {
	[ "$(grep -c "^hit [0-9]*: $2" out)" -eq "$1" ] || fail "$recorder: not $1 times '$2': $(cat out)"
}

# decodes FILE [PATTERN]: without an error, and its rows of calls begin with the hit; one of all rows is
# the call (they begin shortly before the hit, and the program may have stood still since the call)
decodes() {
	"$PTAH" report -i "$1" --format=json >report.json 2>err || fail "report $1: $(cat err)"
	grep -q '"errors": 0' report.json || fail "$1: $(grep '"errors"' report.json)"
	"$PTAH" script -i "$1" --calls >rows 2>err || fail "script $1: $(cat err)"
	grep -q 'kept because of' err || fail "$1: $(cat err)"
	head -n 1 rows | grep -q '# hit: ' || fail "$1 does not begin with the hit: $(head -n 3 rows)"
	[ -z "${2-}" ] || "$PTAH" script -i "$1" --calls --since=0% >rows 2>err || fail "script $1: $(cat err)"
	[ -z "${2-}" ] || grep -q "$2" rows || fail "$1 has no '$2': $(head -n 30 rows)"
}

for recorder in $recorders; do
	rm -f hit-*
	live="$PTAH live -n 1 --recorder=$recorder"

	# Every one that there is; each is in a file of its own, with the call in it: all is kept.
	expect 0 $live --keep=100s --watch='work@./watched > 100000 instructions' --watch='enter fail@watched' \
		--watch='work > 100000000 instructions' --watch='exit = 0' --watch='exit != 0' \
		-- ./watched
	hits 3 'work@./watched > 100000 instructions: [0-9]* instructions'
	hits 2 'enter fail'
	hits 1 'exit = 0: process [0-9]* exited with 0'
	hits 6 ''
	for n in 1 2 3 4 5 6; do
		grep -q "in hit-$n.data" out || fail "no hit-$n.data: $(cat out)"
		decodes hit-$n.data 'work (watched)'
	done

	# A call that does not return. The first hit ends the recording, and the program.
	expect 0 $live --watch='stuck > 30ms' --hits=1 --on-hit=save:%n-%p.data \
		--on-hit='printf "%s\n" >>names' --format=json -- ./watched stuck
	grep -q '"hit": 1, "text": "stuck > 30ms: [a-z ]*[0-9.]* ms, so far"' out || fail "$(cat out)"
	decodes 1-*.data 'getppid'
	"$PTAH" script -i 1-*.data --calls --since=hit --until=hit >rows 2>err || fail "$(cat err)"
	"$PTAH" calls -i 1-*.data >rows 2>err || fail "$(cat err)"
	grep -q getppid rows || fail "calls: $(cat rows)"
	[ "$(cat names)" = "$(ls 1-*.data)" ] || fail "the command was run with $(cat names)"
	rm -f 1-*.data names

	# What was before the hit alone, however far decoding is behind what runs: less than half of the
	# trace, and yet at least as much as is wanted.
	for keep in 65536 1024; do
		expect 0 $live --watch='enter fail' --keep=${keep}B -o all.data -- ./watched long
		hits 1 'enter fail'
		decodes hit-1.data 'call  *[0-9a-f]* fail'
		all=$(wc -c <all.data) kept=$(wc -c <hit-1.data)
		[ "$kept" -gt $keep ] && [ "$kept" -lt $((all / 2)) ] || fail "$kept bytes of $all are kept"
	done

	# Of each process that ends, and of that process alone.
	expect 0 $live --watch='signal ABRT' --watch='exit = 3' -- ./watched children
	hits 1 'signal ABRT: signal 6 ended process'
	hits 1 'exit = 3: process [0-9]* exited with 3'
	for n in 1 2; do
		pid=$(sed -n "s/^hit $n: .*process \([0-9]*\).*/\1/p" out)
		decodes hit-$n.data 'call  *[0-9a-f]* fail'
		[ "$(cut -d' ' -f2 rows | sort -u)" = "$pid" ] || fail "$(cut -d' ' -f2 rows | sort -u), not $pid"
	done

	# How a child was killed, for which nobody waits before the hit is seen.
	rm -f seen
	expect 0 $live --for=60s --watch='signal KILL' --on-hit='touch seen' -- ./watched unwaited
	hits 1 'signal KILL: signal 9 ended process'
	[ -e seen ] || fail "$recorder: the child's end was known when its parent ended: $(cat out)"
	decodes hit-1.data 'call  *[0-9a-f]* fail'

	# The end is known before the last trace of threads that fill their buffers has come: that is
	# waited for.
	expect 3 $live --watch='exit = 3' --keep=100s -o all.data -- ./watched threads
	hits 1 'exit = 3'
	for file in all hit-1; do
		"$PTAH" stat --per-thread --format=tsv $file.data >stat.tsv 2>err || fail "$(cat err)"
		awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
			{ print $at["tid"], $at["bytes"] }' stat.tsv | sort >$file.bytes
	done
	[ "$(wc -l <all.bytes)" -eq 9 ] || fail "not nine threads: $(cat all.bytes)"
	cmp -s all.bytes hit-1.bytes || fail "not all of the trace: $(diff all.bytes hit-1.bytes)"

	# As many as a disk can take.
	rm -f hit-*
	expect 0 $live --watch='enter fail' -- ./watched often
	hits 100 'enter fail'
	[ "$(ls hit-*.data | wc -l)" -eq 100 ] || fail "$(ls hit-*.data | wc -l) files"
	grep -q '150 more hits were not saved' err || fail "$(cat err)"
	expect 0 $live --watch='enter fail' --hits=120 -- ./watched often
	hits 120 'enter fail'
done

# On request: a line of the fifo, and a signal.
mkfifo commands ready
"$PTAH" live -n 1 --recorder=qemu --control=fifo:commands --hits=2 --command-output=ready \
	-- ./watched ready >out 2>err &
live=$!
read -r line <ready && [ "$line" = ready ] || fail "the program said '$line'"
# The beginning of a long text is enough.
printf 'hit it was slow%0999d\n' 0 >commands
while ! grep -q '^hit 1: hit it was slow' out; do
	kill -0 $live 2>/dev/null || fail "$(cat out err)"
done
kill -USR2 $live
wait $live || fail "it ended with $?: $(cat out err)"
grep -q '^hit 2: SIGUSR2' out || fail "$(cat out)"
decodes hit-1.data getppid
decodes hit-2.data getppid

# What comes through a pipe.
expect 0 "$PTAH" live -n 1 --recorder=qemu -o piped.data -- ./watched
expect 0 sh -c "cat piped.data | '$PTAH' live -n 1 -i - --watch='enter fail' --watch='work > 100000 instructions'"
recorder='a pipe'
hits 2 'enter fail'
hits 3 'work'
decodes hit-1.data

# Nothing is left half-written, and the recording goes on. The exit status says so.
expect 1 "$PTAH" live -n 1 --recorder=qemu --watch='enter fail' --on-hit=save:nowhere/%n.data -- ./watched
grep -q 'nowhere/1.data' err || fail "$(cat err)"
hits 2 'enter fail'

# A function that has not run may be a wrong name.
expect 0 "$PTAH" live -n 1 --recorder=qemu --watch='fial > 1.5ms' --watch='enter work@watched' \
	--watch='signal' -- ./watched
equal 'the remark' "$(grep -c 'no function of this name' err)" 1
grep -q "^note: --watch='fial > 1.5ms': ./watched itself has no such function" err || fail "$(cat err)"
grep -q "^note: --watch='fial > 1.5ms': no function of this name has run" err || fail "$(cat err)"

# Functions of C++ and Rust are watched by their names as tables print them, or mangled.
if command -v g++ >/dev/null; then
	cat >named.cc <<'END'
namespace shop {
template <class T> struct basket {
	__attribute__((noinline)) void add(T t) { last = t; asm volatile("" ::: "memory"); }
	T last;
};
}
int main() { shop::basket<int> b; for (int i = 0; i < 7; i++) b.add(i); }
END
	g++ -O1 -o named named.cc
	for name in 'shop::basket<int>::add' 'shop::basket<int>::add(int)' _ZN4shop6basketIiE3addEi; do
		expect 0 "$PTAH" live -n 1 --recorder=qemu --watch="enter $name@named" -- ./named
		equal "hits of $name" "$(grep -c '^hit ' out)" 7
		! grep -q 'no function\|no such function' err || fail "$name: $(cat err)"
	done
fi

# What makes no sense is refused before anything runs.
for options in --watch=nothing '--watch=f > 2' --keep=long --keep=0 --on-hit=save: --on-hit=save:x.data \
	--on-hit=save:%%n.data \
	'--on-hit=save:a%n --on-hit=save:b%n'; do
	# shellcheck disable=SC2086 # two of them are words
	case $options in --on-hit=*--*) set -- $options ;; *) set -- "$options" ;; esac
	expect 2 "$PTAH" live "$@" -- touch ran
	[ ! -e ran ] || fail "$options: the command was run"
done
expect 2 "$PTAH" live --watch='signal' -i nothing
