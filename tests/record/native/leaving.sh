# SPDX-License-Identifier: MIT
# Programs that the recorder inside the program cannot follow: they continue untraced from there,
# behave as alone, and a note says what happened. Who has named this recorder gets no other one.
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
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "leaves $*: $(cat verify.txt)"
	grep -q 'decoded exactly what ran' verify.txt || fail "leaves $*: $(cat verify.txt)"
	grep -q "^note: .*$note: .*$reason" stat.txt || fail "leaves $*: $(grep note stat.txt)"
}

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
leaves 'segment register GS' 'runs on untraced' gs
leaves 'segment register GS' 'runs on untraced' gs late
# All threads leave together.
leaves 'segment register GS' 'runs on untraced' threads late
leaves 'calls ptrace' 'runs on untraced' ptrace late
# The recorder's memory does not count towards the limit then.
leaves 'limits its memory' 'runs on untraced' limit late
if grep -q ' --xp .*vsyscall' /proc/self/maps; then
	leaves 'page of vsyscall' 'runs on untraced' vsyscall late
fi

# Calls that look as if they changed something, and do not: all of the program is recorded.
build asks
./asks >alone.txt || fail "asks: $?"
record --recorder=native --truth ./asks >recorded.txt 2>said.txt || fail "asks: $? $(cat said.txt)"
diff alone.txt recorded.txt >&2 || fail "asks: recorded, it behaves differently"
"$PTAH" stat perf.data >stat.txt || fail "asks: $(cat stat.txt)"
! grep '^note' stat.txt >&2 || fail "asks: it left"
"$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "asks: $(cat verify.txt)"
grep -q '^1 thread: decoded exactly' verify.txt || fail "asks: $(cat verify.txt)"

# Where paths lead somewhere else, the recording has the code.
if unshare -m true 2>/dev/null; then
	mkdir -p hidden
	cat >mounts.sh <<'END'
mount -t tmpfs none hidden && cp asks hidden/there && hidden/there && ls hidden
END
	unshare -m sh mounts.sh >alone.txt || fail "mounts: $?"
	record --recorder=native --truth unshare -m sh mounts.sh >recorded.txt 2>said.txt ||
		fail "mounts: $? $(cat said.txt)"
	diff alone.txt recorded.txt >&2 || fail "mounts: recorded, it behaves differently"
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "mounts: $(cat verify.txt)"
	grep -q '^[0-9]* threads: decoded exactly' verify.txt || fail "mounts: $(cat verify.txt)"
	grep -q '^there .*: equal' verify.txt || fail "mounts: $(cat verify.txt)"
	! "$PTAH" stat perf.data | grep '^note' >&2 || fail "mounts: it left"
fi

# A child in namespaces of its own runs as alone, untraced; its parent is recorded to its end.
./asks namespace >alone.txt || fail "asks namespace: $?"
record --recorder=native --truth ./asks namespace >recorded.txt 2>said.txt ||
	fail "asks namespace: $? $(cat said.txt)"
diff alone.txt recorded.txt >&2 || fail "asks namespace: recorded, it behaves differently"
"$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "asks namespace: $(cat verify.txt)"
grep -q '^1 thread: decoded exactly' verify.txt || fail "asks namespace: $(cat verify.txt)"
if grep -q 'child: done' alone.txt; then
	"$PTAH" stat perf.data | grep -q 'note: processes in namespaces of their own run untraced' ||
		fail "asks namespace: no note"
	[ "$(executions after)" = 1000 ] || fail "asks namespace: $(executions after) calls of after"
fi
