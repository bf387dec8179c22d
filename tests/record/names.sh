#!/bin/sh
# SPDX-License-Identifier: MIT
# Threads that change their names: each instruction is shown with the name of its time, as in perf.
. "$PTAH_SOURCE/tests/record/common.sh"

build names

# names FUNCTION: the names under which the function ran, sorted
names()
{
	"$PTAH" script -q perf.data | awk -v at="$1+0x0" '$4 == at { print $1 }' |
		sort | tr '\n' ' '
}

check()
{
	[ "$(names before)" = "first names " ] || fail "$1: before() ran as $(names before)"
	[ "$(names after)" = "first other second " ] || fail "$1: after() ran as $(names after)"
	exact
}

for options in "" "--clock=host" "--recorder=ptrace"; do
	# shellcheck disable=SC2086
	record $options ./names
	check "$options"
done

command -v perf >/dev/null || skip "no perf (Debian: linux-perf)"
record ./names
check "as for perf"
perf script -i perf.data --itrace=i0ns -F comm,tid,ip 2>perf.err |
	awk '{ print $1, $2, $3 }' | sort >perf.txt
"$PTAH" script -q --no-symbols perf.data | awk '{ print $1, $2, $3 }' | sort >ptah.txt
[ -s perf.txt ] || fail "perf decoded nothing: $(cat perf.err)"
cmp perf.txt ptah.txt || fail "perf has other names: $(diff perf.txt ptah.txt | head -5)"
echo "perf has the same names for $(wc -l <perf.txt) instructions"
