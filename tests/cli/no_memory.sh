#!/bin/sh
# SPDX-License-Identifier: MIT
# When memory runs out, at whichever allocation, a command says so or does without: it does not
# crash, and it leaves no half-written file.
. "$PTAH_SOURCE/tests/cli/common.sh"
[ -z "${PTAH_SANITIZE:-}" ] || skip "sanitizers have a malloc() of their own"
gcc -O1 -shared -fPIC -o failing_malloc.so "$PTAH_SOURCE/tests/cli/failing_malloc.c" -ldl 2>compiled ||
	skip "no compiler for the library that lets malloc() fail: $(cat compiled)"
cat >branches.c <<'EOF'
#include <stdio.h>
static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
int main(void)
{
	printf("%d\n", fib(14));
}
EOF
gcc -O1 -g -static -o branches branches.c 2>compiled || skip "no static C library: $(cat compiled)"
record branches.data ./branches
"$PTAH" cover -q --format=processes -o table.db branches.data || fail "no table"
"$PTAH" live -q --recorder=qemu -o pipe.data -- ./branches >out 2>&1 || fail "no recording: $(cat out)"

run_with() { # AT ON COMMAND...
	at=$1 on=$2
	rm -f made made.old made.db made.info # made.old: which ptah inject would keep
	shift 2
	status=0
	env LD_PRELOAD="$PWD/failing_malloc.so" FAIL_AT="$at" $on "$PTAH" "$@" >out 2>err || status=$?
	case $status in
	0 | 1) ;;
	*) fail "allocation $at failed ($on): status $status: $*: $(head -3 err)" ;;
	esac
	for name in made.*; do
		[ "$status/$name" != 0/made.db ] && [ "$status/$name" != 0/made.info ] || continue
		# What ptah live covers is written also if its lines could not be.
		! grep -q 'standard output: cannot write' err || ! cmp -s "$name" "whole${name#made}" || continue
		[ ! -e "$name" ] || fail "allocation $at failed ($on): $name is left: $*: $(head -3 err)"
	done
}

"$PTAH" profile -q --calls --save=saved.counts -i branches.data >/dev/null

# Each command with about 25 places of failure, of single allocations and of all from then on.
for command in 'export -q --to=folded' 'export -q --to=lcov' 'export -q --to=bolt --predictor' \
	'export -q --to=sqlite --branches=calls' 'cover -q --format=processes' 'inject -q --itrace=i1000ig32l' 'view -q' \
	'script' 'profile --calls --save=made' 'cover --reached=fib,branches.c:1-9 table.db' \
	'annotate -q' 'annotate -q fib' 'report -q' 'report -q -g' 'calls -q' 'calls -q --of=fib' 'stat -q' \
	'waits -q --list' 'waits -q --folded' \
	'export -q --to=callgrind' 'diff -q' 'merge -q saved.counts saved.counts' \
	'live -q --format=json --cover=made.db --per-process' 'live -q --format=json --cover=made.info'; do
	case $command in
	profile*) options="$command -i branches.data" ;;
	cover*reached*) options="$command -o made" ;;
	live*) options="$command -i pipe.data" ;;
	diff*) options="$command -o made branches.data branches.data" ;;
	merge*) options="$command -o made" ;;
	*) options="$command -i branches.data -o made" ;;
	esac
	env LD_PRELOAD="$PWD/failing_malloc.so" FAIL_COUNT=1 "$PTAH" $options >out 2>err || :
	count=$(sed -n 's/^\([0-9]*\) allocations$/\1/p' err)
	for name in made.*; do
		[ ! -e "$name" ] || mv "$name" "whole${name#made}"
	done
	[ "${count:-0}" -gt 5 ] || fail "only ${count:-no} allocations: $options: $(cat err)"
	at=1
	while [ $at -le "$count" ]; do
		run_with $at "" $options
		run_with $at FAIL_ON=1 $options
		at=$((at + 1 + count / 25))
	done
done
