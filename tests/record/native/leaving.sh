# SPDX-License-Identifier: MIT
# Programs that the recorder inside the program cannot follow: before anybody has seen them run they
# are recorded by qemu, and after that they continue untraced. In both cases they behave as alone,
# and a note says what happened.
. "$PTAH_SOURCE/tests/record/common.sh"

programs=$PTAH_SOURCE/tests/record/native/programs
build leaves

# leaves REASON NOTE ARGUMENTS...: the note of the recording, without its reason
leaves()
{
	reason=$1
	note=$2
	shift 2
	status=0
	./leaves "$@" >alone.txt 2>&1 || status=$?
	[ $status = 5 ] || fail "leaves $*: status $status alone"
	status=0
	record --recorder=native --truth ./leaves "$@" >recorded.txt 2>&1 || status=$?
	[ $status = 5 ] || fail "leaves $*: status $status: $(cat recorded.txt)"
	diff alone.txt recorded.txt >&2 || fail "leaves $*: recorded, it behaves differently"
	"$PTAH" stat perf.data >stat.txt 2>&1 || fail "leaves $*: $(cat stat.txt)"
	[ "$(grep -c '^note: ' stat.txt)" = 1 ] || fail "leaves $*: $(grep note stat.txt)"
	"$PTAH" verify perf.data >verify.txt 2>&1 || fail "leaves $*: $(cat verify.txt)"
	grep -q 'decoded exactly what ran' verify.txt || fail "leaves $*: $(cat verify.txt)"
	grep -q "^note: .*$note: .*$reason" stat.txt || fail "leaves $*: $(grep note stat.txt)"
}

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
leaves 'segment register GS' 'recorded by qemu, not by native' gs
leaves 'segment register GS' 'runs on untraced' gs late
# All threads leave together.
leaves 'segment register GS' 'recorded by qemu, not by native' threads
leaves 'segment register GS' 'runs on untraced' threads late
# QEMU has no ptrace().
leaves 'calls ptrace' 'runs on untraced' ptrace late
if grep -q ' --xp .*vsyscall' /proc/self/maps; then
	leaves 'page of vsyscall' 'recorded by qemu, not by native' vsyscall
	leaves 'page of vsyscall' 'runs on untraced' vsyscall late
fi
