#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions that end without a return to their callers: longjmp, signals, tail calls, several
# stacks in one thread, and gotos out of a function.
. "$PTAH_SOURCE/tests/calls/common.sh"

logged gcc jumps jumps.c -O1 -no-pie
record_log -- ./jumps
same_calls ./jumps
as_perf
record_log -- ./jumps alarms
same_calls --async=on_alarm ./jumps

logged gcc tails tails.c -O1 -no-pie
record_log -- ./tails
same_calls --also=loops ./tails
as_perf

logged gcc coroutines coroutines.c -O1 -no-pie
record_log -- ./coroutines
same_calls --stacks ./coroutines
as_perf
# A call that is suspended and resumed is one call, in the table and in the list of the slowest.
"$PTAH" calls -q --limit=0 --format=tsv -i perf.data >rows || fail "calls: $?"
awk -F '\t' -f "$PTAH_SOURCE/tests/calls/percentiles.awk" rows || fail "percentiles"
for function in $(awk -F '\t' '$0 ~ /coroutines/ && $1 > 1 { print $(NF - 1) }' rows | head -8); do
	"$PTAH" calls -q --of="$function" --slowest=1 -i perf.data >list || fail "calls --of: $?"
	[ "$(sed -n 's/^# \([0-9,]*\) calls of.*/\1/p' list | tr -d ,)" = \
		"$(awk -F '\t' -v f="$function" '$(NF - 1) == f { n += $1 } END { print n }' rows)" ] ||
		fail "$function: $(head -1 list), but $(grep -w "$function" rows)"
done

# perf has no code for what runs on the stack.
logged gcc nested nested.c -O1 -no-pie -Wl,-z,execstack
record_log -- ./nested
same_calls ./nested
