#!/bin/sh
# SPDX-License-Identifier: MIT
# The flight recorder (--on-crash, --on-failure): a recording is left only where something went wrong,
# and its end is where that happened.
. "$PTAH_SOURCE/tests/record/common.sh"

cat >ends.c <<'X'
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int store(char *p, int n) { return n ? store(p, n - 1) + 1 : (*p = 1); }
static void *crash(void *p) { return (void *)(long)store(p, 7); }

int main(int argc, char **argv)
{
	pthread_t thread;

	switch (argc > 1 ? *argv[1] : 0) {
	case 'c': return store(NULL, 7);
	case 't': return pthread_create(&thread, NULL, crash, NULL) || pthread_join(thread, NULL);
	case 'a': abort();
	case 'q': return raise(SIGTERM);
	default: return argc > 1 ? atoi(argv[1]) : 0;
	}
}
X
"$CC" -std=c11 -D_GNU_SOURCE -g -O0 -pthread -o ends ends.c

# flies STATUS KEPT OPTION COMMAND...: KEPT is yes or no
flies()
{
	expected=$1
	kept=$2
	shift 2
	rm -f perf.data perf.data.old
	echo old >perf.data
	status=0
	"$PTAH" record --recorder=$recorder "$@" >output.txt 2>said.txt || status=$?
	[ $status = "$expected" ] || fail "$recorder, $*: status $status: $(cat said.txt)"
	if [ $kept = no ]; then
		grep -q 'nothing is kept' said.txt || fail "$recorder, $*: $(cat said.txt)"
		[ "$(cat perf.data)" = old ] || fail "$recorder, $*: the file that was there is gone"
		[ ! -e perf.data.old ] || fail "$recorder, $*: perf.data.old is left"
		[ "$(ls -d perf.data*)" = perf.data ] || fail "$recorder, $*: $(ls -d perf.data*)"
	else
		grep -q 'ptah script --last=20 shows' said.txt || fail "$recorder, $*: $(cat said.txt)"
		[ "$(cat perf.data.old)" = old ] || fail "$recorder, $*: perf.data.old"
		"$PTAH" script --last=2 perf.data >last.txt 2>notes.txt || fail "$(cat notes.txt)"
	fi
}

# ends_with PATTERN: the last instruction of a thread
ends_with()
{
	grep -q "$1" last.txt || fail "$recorder: no '$1' in: $(cat last.txt)"
}

for recorder in native qemu; do
	[ $recorder = qemu ] || "$PTAH" record -q --dry-run --recorder=native true 2>/dev/null || continue
	flies 0 no --on-crash ./ends
	flies 3 no --on-crash=1M ./ends 3
	flies 3 yes --on-failure ./ends 3
	flies 0 no --on-failure ./ends
	flies 139 yes --on-crash ./ends crash
	ends_with 'SIGSEGV ended process .* store+.*mov byte ptr'
	flies 139 yes --on-crash=1M ./ends thread
	ends_with 'SIGSEGV ended .* store+.*mov byte ptr'
	flies 134 yes --on-crash ./ends abort
	ends_with 'SIGABRT ended process'
	# Signals that end programs as a matter of course.
	flies 143 no --on-crash ./ends q
	flies 143 yes --on-failure ./ends q
	# A child, whose end the command does not report.
	flies 0 yes --on-crash -- sh -c './ends crash; exit 0' 2>/dev/null
	ends_with 'SIGSEGV ended process .* store+.*mov byte ptr'
	# What was asked for is kept.
	rm -f perf.data perf.data.old
	mkfifo control-$recorder ack-$recorder
	exec 7<>control-$recorder 8<>ack-$recorder
	echo snapshot >&7
	"$PTAH" record -q --recorder=$recorder --on-crash --control=fifo:control-$recorder,ack-$recorder -- \
		sh -c "head -c 4 ack-$recorder >/dev/null" || fail "$recorder: a snapshot: status $?"
	exec 7>&- 8>&-
	[ -e perf.data ] || fail "$recorder: a snapshot was not kept"
done
"$PTAH" record --on-crash --snapshot true 2>said.txt && fail "both"
grep -q 'say one of them' said.txt || fail "$(cat said.txt)"
"$PTAH" record --on-crash=x true 2>said.txt && fail "no size"
"$PTAH" record --on-crash -p $$ 2>said.txt && fail "-p"
grep -q 'for commands' said.txt || fail "$(cat said.txt)"
