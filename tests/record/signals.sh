# SPDX-License-Identifier: MIT
# Signals in every kind of situation, and how often the instructions that they interrupt count: an
# instruction that faults was not executed, one that traps was.
. "$PTAH_SOURCE/tests/record/common.sh"

build moments -fno-inline

for moment in tight self nested jumping other_stack system_calls to_threads left; do
	exactly 0 ./moments $moment
	echo "$moment: $(tail -1 verify.txt)"
done
exactly 0 ./moments asynchronous
n=$(executions on_alarm)
[ "$n" -ge 100 ] || fail "$n signals, expected 100"

exactly 0 ./moments skipped
ran 15 on_skip
ran 5 load
ran 0 load "mov eax, dword"
ran 0 divide idiv
ran 0 undefined ud2
exactly 0 ./moments jumped
ran 15 on_jump
exactly 0 ./moments repeated
ran 10 on_unlock
ran 10 store "mov byte"
exactly 0 ./moments traps
ran 5 on_alarm
# SDM "FUP Cases and IP Payload": the packets of a software interrupt carry its own address, as
# those of a fault do, so that a decoder stops before it.
ran 5 trap
ran 5 trap ret
n=$("$PTAH" script --events perf.data | grep -A1 ' trap+0x0 ' | grep -c async-disabled) || :
[ "$n" = 5 ] || fail "tracing was left $n times at the int3, expected 5"
exactly 0 ./moments nowhere
ran 12 on_jump
exactly 0 ./moments called
ran 20 on_alarm
