# SPDX-License-Identifier: MIT
# Debuggers and other tracers: recorded, they work as alone. What they trace is not recorded, and a
# note says so.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build tracer

# same COMMAND...: with the recording's notes in notes.txt
same()
{
	"$@" >alone.txt 2>&1 || fail "$*: $? alone: $(cat alone.txt)"
	record --recorder=native --truth "$@" >recorded.txt 2>&1 || fail "$*: $? $(cat recorded.txt)"
	diff alone.txt recorded.txt >&2 || fail "$*: recorded, it behaves differently"
	"$PTAH" stat perf.data 2>&1 | grep '^note: ' >notes.txt || :
	"$PTAH" verify perf.data >verify.txt 2>&1 || fail "$*: $(cat verify.txt)"
}

same ./tracer vfork
grep -q 'not recorded: its parent traces it' notes.txt || fail "vfork: $(cat notes.txt)"
same ./tracer fork
grep -q 'untraced: the program calls ptrace' notes.txt || fail "fork: $(cat notes.txt)"
# Where no one asks, the child's program is recorded, from a program that could have asked, too.
same ./tracer exec
! grep -q 'untraced\|not recorded' notes.txt || fail "exec: $(cat notes.txt)"
"$PTAH" stat --format=tsv perf.data 2>/dev/null | grep -q 'true' || fail "exec: true was not recorded"

# What debuggers print has addresses and numbers of processes: the lines that matter are compared.
if command -v gdb >/dev/null; then
	record --recorder=native -- gdb -nx -batch -ex 'break main' -ex run -ex 'info symbol $pc' \
		./tracer >gdb.txt 2>&1 || fail "gdb: $? $(cat gdb.txt)"
	grep -q '^main.* in section .text' gdb.txt || fail "gdb: $(cat gdb.txt)"
fi
if command -v strace >/dev/null; then
	record --recorder=native -- strace -f -o strace.txt -e trace=execve,exit_group \
		./tracer exec >recorded.txt 2>&1 || fail "strace: $? $(cat recorded.txt)"
	diff alone.txt recorded.txt >&2 || fail "strace: the program behaves differently"
	[ "$(grep -c 'exit_group(0)' strace.txt)" = 2 ] || fail "strace: $(cat strace.txt)"
fi
