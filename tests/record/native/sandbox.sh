# SPDX-License-Identifier: MIT
# Programs that filter their system calls (seccomp): filters that let the recorder's calls through
# are followed, also into children and new programs, and answer as alone; under all others, the
# program runs on untraced from there, with a note that says why.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build sandbox
./sandbox errors >alone.txt 2>&1 || skip "no filters of system calls here: $(cat alone.txt)"

# run WHAT: as alone; what was recorded decodes as what ran
run()
{
	status=0
	./sandbox "$1" >alone.txt 2>errors.txt || status=$?
	recorded=0
	record --recorder=native --truth ./sandbox "$1" >recorded.txt 2>errors.txt || recorded=$?
	diff alone.txt recorded.txt >&2 || fail "$1: recorded, it behaves differently"
	[ $status = $recorded ] || fail "$1: status $recorded, not $status: $(cat errors.txt)"
	exact
	"$PTAH" stat perf.data >stat.txt 2>&1 || fail "$1: $(cat stat.txt)"
}

# follows WHAT RUNS: after() was executed so often; no note says that something runs untraced
follows()
{
	run "$1"
	! grep -q untraced stat.txt || fail "$1: $(grep untraced stat.txt)"
	[ "$(executions after)" = "$2" ] || fail "$1: $(executions after) times after(), not $2"
}

# leaves WHAT RUNS REASON
leaves()
{
	run "$1"
	grep -q "^note: .*runs on untraced: .*$3" stat.txt || fail "$1: $(grep note stat.txt)"
	[ "$(executions after)" = "$2" ] || fail "$1: $(executions after) times after(), not $2"
}

follows traps 1000
follows errors 1000
follows listed 1000
follows threads 1000
follows processes 2000
follows decides 1000
leaves layers 1000 'what the recorder needs: sched_yield'
leaves futex 0 'what the recorder needs: futex'
leaves mmap 0 'what the recorder needs: mmap'
leaves queue 0 'what the recorder needs: rt_tgsigqueueinfo'
leaves user 1000 'may become another'
leaves address 0 'filter of system calls that cannot be followed'
leaves strict 0 'prctl'
