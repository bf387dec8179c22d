#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah record -p records until its command has ended, until Ctrl-C, or until the process has ended.
# The process itself runs on.
# shellcheck disable=SC2086
. "$PTAH_SOURCE/tests/record/common.sh"

rm -f end perf.data perf.data.old
sh -c 'while [ ! -e end ]; do : >pass; done; exit 6' &
process=$!
trap 'kill $process 2>/dev/null || :' EXIT

# ./passes returns when the process has gone round its loop, however slow it is.
cat >passes <<'X'
for i in 1 2; do
	rm -f pass
	while [ ! -e pass ]; do sleep 0.05; done
done
X

# Without Intel PT, the recorder native records it. Where that cannot be, and for a single thread,
# single steps can, and they slow it down thousands of times: that has to be asked for. It is not
# attached to then.
steps=
if ! "$PTAH" record --dry-run --recorder=hardware -p $process 2>errors.txt; then
	for option in "-p $process" "-t $process"; do
		if [ "$option" = "-p $process" ] &&
			"$PTAH" record --dry-run --recorder=native $option 2>errors.txt; then
			"$PTAH" record --dry-run $option 2>errors.txt
			grep -q 'with the recorder native' errors.txt || fail "$(cat errors.txt)"
			continue
		fi
		status=0
		timeout 600 "$PTAH" record $option -- sleep 1 2>errors.txt || status=$?
		[ "$status" = 1 ] || fail "$option: status $status, not 1: $(cat errors.txt)"
		grep -q 'not permitted\|ptrace_scope' errors.txt && continue
		grep -q 'thousands of times slower' errors.txt &&
			grep -q -e '--recorder=ptrace' errors.txt || fail "not asked for: $(cat errors.txt)"
		[ ! -e perf.data ] || fail "it was recorded"
	done
	steps=--recorder=ptrace
fi

"$PTAH" record --dry-run $steps -p $process 2>errors.txt || {
	grep -q -e 'ptrace_scope' -e 'not permitted' -e 'PTRACE' errors.txt &&
		skip "no process can be traced here: $(head -1 errors.txt)"
	fail "-p: $(cat errors.txt)"
}
grep -q 'with the recorder' errors.txt || fail "which recorder? $(cat errors.txt)"
[ -z "$steps" ] || grep -q 'thousands of times slower' errors.txt || fail "no warning: $(cat errors.txt)"

# The command says how long to record; its exit status is that of ptah record.
status=0
timeout 600 "$PTAH" record $steps -p $process -- sh -c '. ./passes; exit 4' 2>errors.txt || status=$?
[ "$status" = 4 ] || fail "status $status, not the command's 4: $(cat errors.txt)"
grep -q 'MB of trace.*1 thread written to perf.data' errors.txt || fail "$(cat errors.txt)"
kill -0 $process || fail "the process ended"
"$PTAH" report >report.txt 2>notes.txt || fail "$(cat report.txt notes.txt)"
grep -q '^# [1-9][0-9,]* instructions' report.txt || fail "nothing was recorded: $(cat report.txt)"

# Ctrl-C ends the recording at once, and the command with it.
rm -f pid
"$PTAH" record $steps -p $process -- sh -c 'echo $$ >pid; exec sleep 1000' 2>errors.txt &
recorder=$!
while [ ! -s pid ]; do sleep 0.05; done
. ./passes
kill -TERM $recorder
status=0
wait $recorder || status=$?
[ "$status" = 0 ] || fail "SIGTERM: status $status, not 0: $(cat errors.txt)"
kill -0 "$(cat pid)" 2>/dev/null && fail "the command that measured time goes on"
"$PTAH" report >report.txt 2>notes.txt || fail "after SIGTERM: $(cat report.txt notes.txt)"

# Without a command, until the process ends; a single thread; and paused for the first moments.
for options in "-p $process" "-t $process" "-p $process -D 300"; do
	rm -f end
	[ "$options" = "-p $process" ] || {
		sh -c 'while [ ! -e end ]; do : >pass; done; exit 6' &
		process=$!
		options=$(echo "$options" | sed "s/^\(-.\) [0-9]*/\1 $process/")
	}
	case $options in
	*-D*) traces='tracing enabled' ;;
	*) traces=IA32_RTIT_CTL ;; # what -v says first
	esac
	timeout 600 "$PTAH" record -v $steps $options 2>errors.txt &
	recorder=$!
	until grep -q "$traces" errors.txt; do
		kill -0 $recorder || fail "$options: nothing is traced: $(cat errors.txt)"
		sleep 0.05
	done
	. ./passes
	: >end
	status=0
	wait $recorder || status=$?
	[ "$status" = 0 ] || fail "$options: status $status, not 0: $(cat errors.txt)"
	status=0
	wait $process || status=$?
	[ "$status" = 6 ] || fail "$options: the process ended with $status, not 6"
	"$PTAH" report >report.txt 2>notes.txt || fail "$options: $(cat report.txt notes.txt)"
done

# A process that does not exist.
status=0
"$PTAH" record $steps -p $process 2>errors.txt || status=$?
[ "$status" = 1 ] || fail "a process that has ended: status $status"
status=0
"$PTAH" record $steps -p $$ -- ./no-such-command 2>errors.txt || status=$?
[ "$status" = 1 ] && grep -q 'no-such-command' errors.txt || fail "no command: $(cat errors.txt)"
