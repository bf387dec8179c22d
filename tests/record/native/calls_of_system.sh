# SPDX-License-Identifier: MIT
# The system calls in a recording, by each recorder, are those that strace sees of the same program: thread by thread,
# each with its name, its result and its path; those that fail, are interrupted, restarted, or never
# return among them. perf reads them.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

skip()
{
	echo "SKIP: $*"
	exit 77
}

for tool in strace perf python3; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

here=$PTAH_SOURCE/tests/record/native
: "${CC:=cc}"
"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wno-unused-result -Werror -pthread \
	-o program "$here/programs/calls_of_system.c"
# Without a loader, and with no other program: for single steps, each of which takes a tenth of a ms.
"$CC" -std=c11 -D_GNU_SOURCE -O1 -Wno-unused-result -pthread -static -o small \
	"$here/programs/calls_of_system.c"

program="./program pid fifo"

# run COMMAND...: with the program and its arguments, and what it needs from outside. With PATH alone as
# environment: before main() the C library compares each variable with its tunables, step by step.
run()
{
	rm -rf pid fifo socket interrupted
	mkfifo fifo
	# Descriptors that the test has would be missing among those that the program opens.
	env -i "PATH=$PATH" "$@" $program >out.txt 2>&1 </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
	running=$!
	exec 3<>fifo # so that nobody waits for the other to open it
	until [ -s pid ] && grep -q '^0 0x64 ' "/proc/$(cat pid)/syscall"; do # read(100, ...)
		kill -0 $running || fail "$1 has ended: $(cat out.txt)"
	done 2>/dev/null
	kill -USR1 "$(cat pid)"
	while [ ! -d interrupted ]; do
		kill -0 $running 2>/dev/null || fail "$1 has ended: $(cat out.txt)"
	done
	echo x >&3
	wait $running || fail "$*: status $?: $(cat out.txt)"
	exec 3>&-
}

# These two fail in a natively recorded program (docs/native-recorder.md), and under QEMU a third one.
run strace -f -ttt -T -s 4096 -e inject=clone3,rseq:error=ENOSYS -o native.strace
run strace -f -ttt -T -s 4096 -e inject=clone3,rseq,set_robust_list:error=ENOSYS -o qemu.strace
program="./small pid fifo ./small"
run strace -f -ttt -T -s 4096 -o ptrace.strace
for recorder in native qemu ptrace; do
	[ $recorder != qemu ] || command -v qemu-x86_64 >/dev/null || continue
	[ $recorder != qemu ] || emulated=emulated
	[ $recorder = ptrace ] || program="./program pid fifo"
	[ $recorder != ptrace ] || program="./small pid fifo ./small"
	run "$PTAH" record -q --recorder=$recorder -o $recorder.data
	perf script --no-itrace -F tid,time,event,trace -i $recorder.data >$recorder.txt 2>perf.err ||
		fail "$recorder: perf: $(cat perf.err)"
	python3 "$here/calls_of_strace.py" "$PTAH_SOURCE/src/record/native/runtime/syscalls.def" \
		$recorder.strace $recorder.txt ${emulated-} || fail "$recorder: strace lists other calls"
	unset emulated
done
cp native.txt perf.txt
program="./small pid fifo ./small"

# What arguments point to, besides paths.
has()
{
	grep -q "$1" perf.txt || fail "perf.txt has no line with $1"
}
has 'sys_data: NR 49 arg 1 before 01 00 73 6f 63 6b 65 74 00' # AF_UNIX, "socket"
has 'sys_data: NR 42 arg 1 before 01 00 73 6f 63 6b 65 74 00'
has 'sys_data: NR 43 arg 1 after 01 00'
has 'sys_data: NR 293 arg 0 after 0. 00 00 00 0. 00 00 00'
has 'sys_data: NR 53 arg 3 after 0. 00 00 00 0. 00 00 00'
has 'sys_data: NR 202 arg 0 before 01 00 00 00 03 00 00 00' # the word, and the third one
! grep 'NR 2 .*before' perf.txt || fail "data were copied from where there is no memory"
! grep -E 'sys_data: NR (0|1) ' perf.txt || fail "what is read or written was copied"

# Without them the file has no event but the trace's.
for recorder in native qemu ptrace; do
	[ $recorder != qemu ] || command -v qemu-x86_64 >/dev/null || continue
	run "$PTAH" record -q --recorder=$recorder --no-syscalls -o perf.data
	[ "$(perf evlist -i perf.data)" = intel_pt//u ] ||
		fail "$recorder --no-syscalls: $(perf evlist -i perf.data)"
done
