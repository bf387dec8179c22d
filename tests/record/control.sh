#!/bin/sh
# SPDX-License-Identifier: MIT
# --control: commands by fifo and by descriptor, each acknowledged when it has been carried out; and
# stop, after which the command runs on.
. "$PTAH_SOURCE/tests/record/common.sh"

kind=--recorder=qemu # of what `begin` begins

# Waits as long as the recorder runs.
until_true()
{
	until "$@"; do
		kill -0 "$recorder" 2>/dev/null || "$@" ||
			fail "waited in vain for: $*: $(cat errors.txt)"
		sleep 0.05
	done
}

has_trace()
{
	[ -e perf.data ] && [ "$(wc -c <perf.data)" -gt 100000 ]
}

# begin OPTIONS...: records, with control fifos, a shell that runs until there is a file `end`
begin()
{
	# shellcheck disable=SC2086
	set -- $kind "$@"
	rm -f end pid perf.data perf.data.old control ack answers.txt
	mkfifo control ack
	# Both fifos stay open from here on, so that no open() waits for the other end.
	exec 7<>control 8<>ack
	"$PTAH" record --control=fifo:control,ack "$@" -- \
		sh -c 'echo $$ >pid; while [ ! -e end ]; do :; done; exit 5' 2>errors.txt &
	recorder=$!
	until_true test -s pid
}

# command WORDS...: sends a command, which must be acknowledged
command_is_acknowledged()
{
	echo "$@" >&7
	timeout 300 head -c 4 <&8 >answer.txt || return 1
	[ "$(cat answer.txt)" = ack ] || fail "$*: answered $(cat answer.txt)"
}

finished() # STATUS
{
	: >end
	status=0
	wait "$recorder" || status=$?
	[ "$status" = "$1" ] || fail "status $status, not $1: $(cat errors.txt)"
	exec 7>&- 8>&-
}

# stop: the file is complete, the command runs on, and its exit status counts.
begin
command_is_acknowledged ping || fail "no answer to ping"
command_is_acknowledged evlist || fail "no answer to evlist"
grep -q '^intel_pt$' errors.txt || fail "evlist: $(cat errors.txt)"
command_is_acknowledged enable || fail "no answer to enable"
command_is_acknowledged enable intel_pt//u || fail "no answer to enable of the event"
command_is_acknowledged stop || fail "no answer to stop"
until_true grep -q 'written to perf.data' errors.txt
kill -0 "$(cat pid)" || fail "stop killed the command"
"$PTAH" report >report.txt 2>notes.txt || fail "after stop: $(cat report.txt notes.txt)"
perf_agrees
finished 5

# Several commands in one write, an empty line, an unknown command and one without a newline.
begin
long=$(printf %0400d 0)
printf 'ping\n\nnonsense\nsnapshots\nenable cycles\nping %s\nsnapshot\n%s\nping\n' x "$long" >&7
timeout 300 head -c 8 <&8 >answer.txt || fail "two of them are commands"
[ "$(cat answer.txt)" = "ack
ack" ] || fail "answers: $(cat answer.txt)"
timeout 1 head -c 1 <&8 >answer.txt && fail "acknowledged what is no command"
[ "$(grep -c 'no such command' errors.txt)" = 5 ] || fail "five are none: $(cat errors.txt)"
[ "$(grep -c 'snapshots need --snapshot' errors.txt)" = 1 ] || fail "snapshot: $(cat errors.txt)"
finished 5
exact

# disable, enable: the file is complete.
for kind in --recorder=qemu --recorder=native; do
	# shellcheck disable=SC2086
	"$PTAH" record -q --dry-run $kind true >dry.txt 2>&1 || continue
	begin
	command_is_acknowledged disable || fail "no answer to disable"
	command_is_acknowledged enable || fail "no answer to enable"
	finished 5
	"$PTAH" report >report.txt 2>notes.txt || fail "after a pause: $(cat report.txt notes.txt)"
	perf_agrees
	begin -D -1
	command_is_acknowledged enable || fail "no answer to enable"
	finished 5
done
kind=--recorder=qemu

# Pauses of a loop that has few places: it often goes on where the run of instructions before the
# pause had ended, and the path that the recorder counts goes on there, too.
cat >loop.c <<'END'
#include <unistd.h>
int main(int argc, char **argv)
{
	volatile unsigned n = 0;

	if (argc < 2)
		return 1;
	while (access(argv[1], F_OK))
		for (int i = 0; i < 1000; i++)
			if (n % 3)
				n += n / 3 + 1;
			else
				n++;
	return 5;
}
END
"${CC:-cc}" -O1 -o loop loop.c
for options in "" "-e intel_pt/mtc,cyc/u --clock=host"; do
	rm -f end perf.data perf.data.old control ack
	mkfifo control ack
	exec 7<>control 8<>ack
	# shellcheck disable=SC2086
	"$PTAH" record -q $kind $options --control=fifo:control,ack -- ./loop end 2>errors.txt &
	recorder=$!
	until_true has_trace
	for i in $(seq 25); do printf 'disable\nenable\n'; done >&7
	timeout 300 head -c 200 <&8 >answer.txt || fail "no answers: $(cat errors.txt)"
	finished 5
	exact
	[ "$options" ] || perf_agrees
done

# By descriptors, which the command does not inherit. The process that gives commands may end.
rm -f fds end
mkfifo in out
exec 5<>in 6<>out
echo ping >&5
"$PTAH" record -q --control=fd:5,6 -- sh -c 'ls /proc/$$/fd >fds' 2>errors.txt ||
	fail "fd: $(cat errors.txt)"
timeout 300 head -c 4 <&6 >answer.txt || fail "fd: no answer"
[ "$(cat answer.txt)" = ack ] || fail "fd: $(cat answer.txt)"
! grep -q -x '[56]' fds || fail "the command inherited the channel: $(cat fds)"
exec 5>&- 6>&-
: | "$PTAH" record -q --truth --control=fd:0 -- true || fail "a channel that is closed"
exact

# Nobody reads the answers: the recording continues.
rm -f perf.data ran ended
(
	until [ -e ran ] || [ -e ended ]; do sleep 0.05; done
	trap '' PIPE
	echo ping && echo stop || :
	: >commanded
) | {
	"$PTAH" record -q --control=fd:0,9 -- sh -c ': >ran; while [ ! -e commanded ]; do :; done' \
		2>errors.txt 9>&1 || :
	: >ended
} | : || :
"$PTAH" report >report.txt 2>notes.txt || fail "nobody read the answers: $(cat errors.txt)"

status=0
: >plain
"$PTAH" record --control=fifo:plain true 2>errors.txt || status=$?
[ "$status" = 1 ] && grep -q 'is no fifo' errors.txt || fail "plain file: $(cat errors.txt)"
"$PTAH" record --control=fifo:nowhere true 2>errors.txt && fail "a fifo that is not there"
grep -q 'nowhere: No such file' errors.txt || fail "$(cat errors.txt)"
