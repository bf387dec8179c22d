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
	[ "$(sed -n '2s/ instructions.*//p' list | tr -d ,)" = \
		"$(awk -F '\t' -v f="$function" '$(NF - 1) == f && $9 > most { most = $9 } END { print most }' rows)" ] ||
		fail "$function: the slowest is $(sed -n 2p list), but $(grep -w "$function" rows)"
done

# Two stacks in turns: each call of give() runs the same instructions, before and after it is resumed.
cat >turns.c <<'END'
#include <stdlib.h>
static void *main_stack, *other_stack;
static volatile unsigned sum;
__attribute__((naked, noinline)) static void change(void **from, void **to)
{
	__asm__("push %rbx\npush %rbp\nmov %rsp, (%rdi)\nmov (%rsi), %rsp\npop %rbp\npop %rbx\nret");
}
__attribute__((noinline)) static void work(void) { sum++; }
__attribute__((noinline)) static void give(void) { work(); change(&other_stack, &main_stack); work(); }
static void other(void) { for (;;) give(); }
int main(void)
{
	void **stack = (void **)((char *)aligned_alloc(16, 65536) + 65528);
	*--stack = (void *)other;
	other_stack = stack - 2;
	for (int i = 0; i < 300; i++)
		change(&main_stack, &other_stack);
	return 0;
}
END
gcc -O1 -g -no-pie -o turns turns.c
record -- ./turns || fail "recording turns: $?"
"$PTAH" calls -q --format=tsv -i perf.data give >rows || fail "calls: $?"
[ "$(awk -F '\t' '$(NF - 1) == "give" { print $1, $5 == $6 && $6 == $8 && $8 == $9 }' rows)" = "300 1" ] ||
	fail "calls of give differ: $(cat rows)"

# perf has no code for what runs on the stack.
logged gcc nested nested.c -O1 -no-pie -Wl,-z,execstack
record_log -- ./nested
same_calls ./nested
