# SPDX-License-Identifier: MIT
# The recorder ptrace. It has three judges: the number of instructions in the assembler programs,
# which the recorder qemu finds as well; its own count of executed instructions, compared with
# Ptah's decode; and perf, which decodes without an error.
. "$PTAH_SOURCE/tests/record/common.sh"

build rep -DROUNDS=100
record --recorder=ptrace ./rep 2>errors.txt ||
	skip "programs cannot be traced here: $(cat errors.txt)"

record()
{
	rm -f perf.data perf.data.old
	record_steps --recorder="${recorder:-ptrace}" "$@"
}

# ends STATUS COMMAND...: recorded, the command ends with that status, and decodes as it was
# executed
ends()
{
	expected=$1
	shift
	status=0
	record -- "$@" >output.txt 2>errors.txt || status=$?
	[ "$status" = "$expected" ] || fail "$*: status $status, expected $expected: $(cat errors.txt)"
	exact
}

# A step takes a hundred microseconds if the host is a virtual machine, so a few rounds must
# suffice. A rep instruction is stepped once for each iteration, and counts as one instruction.
for program in "rep 1704" "vsyscall 704" "self_modify 3606 no-perf" "far 1704"; do
	# shellcheck disable=SC2086
	set -- $program
	build "$1" -DROUNDS=100
	"./$1" || continue # some processors do not know the far call
	for recorder in ptrace qemu; do
		record "./$1" || fail "$recorder: $1 ended with status $?"
		exact
		instructions "$2" "${3-}"
	done
	unset recorder
	for options in "--no-retcomp --clock=host --long-tnt" "-e intel_pt/cyc,mtc/u"; do
		# shellcheck disable=SC2086
		record $options "./$1" || fail "$1 $options ended with status $?"
		exact
		instructions "$2" "${3-}"
	done
done

# What a program could see of being stepped: TF, SIGTRAP, interrupted calls.
build traps -static
ends 0 ./traps
perf_agrees

# The code of [vdso] is in no file.
cat >ticks.c <<'END'
#include <time.h>
int main(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_MONOTONIC, &t) || clock_gettime(CLOCK_REALTIME, &t);
}
END
"${CC:-cc}" -O1 -static -o ticks ticks.c
ends 0 ./ticks
record --clock=host ./ticks || fail "ticks --clock=host: status $?"
exact

# Signals, but not those of timers, which would arrive faster than a single-stepped program
# proceeds.
build moments -fno-inline -static
for moment in skipped jumped repeated called; do
	ends 0 ./moments $moment
done
ends 0 ./moments traps
ran 5 on_alarm
ran 5 trap

# Threads and children, each with a stream of its own; and execve.
build processes -static
ends 0 ./processes fork vfork exec-nothing
perf_agrees
[ "$(grep -c ': equal' verify.txt)" = 3 ] || fail "not three processes: $(cat verify.txt)"
ends 134 ./processes abort
ends 143 ./processes term
build thread_exec -static
ends 5 ./thread_exec
perf_agrees
[ "$(executions main)" = 2 ] || fail "main ran $(executions main) times"
printf '#!%s/rep\n' "$PWD" >script
chmod +x script
ends 0 ./script
perf_agrees
ran 100 _start dec

# Code that is written, mapped and replaced while it runs.
build jit -static -DROUNDS=15
ends 0 ./jit
build rewriting -static
ends 0 ./rewriting

# 32-bit code is not decoded: it is refused, or runs untraced with a note.
if printf '.globl _start\n_start: mov $1,%%eax\nmov $9,%%ebx\nint $0x80\n' >short.S &&
	"$CC" -m32 -nostdlib -static -o short short.S 2>/dev/null && { ./short || [ $? = 9 ]; }; then
	! record -- ./short 2>errors.txt || fail "a 32-bit program is recorded"
	grep -q '32-bit' errors.txt || fail "$(cat errors.txt)"
	ends 9 ./thread_exec exec ./short
	grep -q '32-bit' notes.txt || fail "no note: $(cat notes.txt)"
fi

# The recorder is killed: the command runs on. Single-stepped, its loop would take minutes.
cat >goes_on.c <<'END'
#include <fcntl.h>
#include <unistd.h>
int main(void)
{
	close(creat("begun.txt", 0600));
	for (volatile int i = 0; i < 1000000; i++)
		;
	return write(creat("done.txt", 0600), "done", 4) != 4;
}
END
"${CC:-cc}" -O1 -static -o goes_on goes_on.c
rm -f done.txt begun.txt
env -i "PATH=$PATH" "$PTAH" record -q --recorder=ptrace ./goes_on &
recorder=$!
while [ ! -e begun.txt ] && kill -0 $recorder; do
	sleep 0.1
done
kill -9 $recorder
wait $recorder 2>/dev/null || :
tries=0
while [ ! -s done.txt ] && [ $tries -lt 5000 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
[ "$(cat done.txt)" = done ] || fail "the command did not go on"
