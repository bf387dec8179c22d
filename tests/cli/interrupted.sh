#!/bin/sh
# SPDX-License-Identifier: MIT
# A command ends at the first Ctrl-C, SIGTERM or SIGHUP wherever it waits, also when the signal has
# come just before the call that waits for ever: between the look at the signal and a read, a
# write, an open or a wait.
. "$PTAH_SOURCE/tests/cli/common.sh"
[ -z "${PTAH_SANITIZE:-}" ] || skip "sanitizers have calls of their own"
env --default-signal=INT true 2>/dev/null || skip "no env --default-signal"
gcc -O1 -shared -fPIC -o signal_before.so "$PTAH_SOURCE/tests/cli/signal_before.c" -ldl 2>compiled ||
	skip "no compiler for the library that raises a signal: $(cat compiled)"

# ends SIGNAL CALL AT COMMAND...: the signal comes before the AT-th such CALL, and ends the command
# before timeout(1) does (status 124 or 137), as shells report it, without a word and without a file.
ends() {
	signal=$1 call=$2 at=$3
	shift 3
	status=0
	env --default-signal=INT LD_PRELOAD="$PWD/signal_before.so" SIGNAL="$signal" CALL="$call" \
		AT="$at" timeout -k 5 600 "$@" >"$output" 2>err || status=$?
	grep -q "^SIGNAL before $call" err || fail "it never called $call: $*: $(cat err)"
	[ "$status" != 124 ] && [ "$status" != 137 ] || fail "signal $signal before $call is lost: $*"
	equal "status after signal $signal before $call: $*" "$status" $((128 + signal))
	equal "what it said: $*" "$(grep -v '^SIGNAL' err)" ''
	for name in made*; do
		[ ! -e "$name" ] || fail "$name is left: $*"
	done
}

# A fifo that is open at both ends and delivers nothing, one that takes nothing more, and one that
# nobody else opens.
mkfifo silent full alone
exec 8<>silent 9<>full
dd if=/dev/zero of=full bs=4096 oflag=nonblock 2>/dev/null || :
{
	printf 'psb\npsbend\n'
	seq 2000 | sed 's/.*/tip 0x&000/'
} >text
"$PTAH" asm -o trace text
output=out
for signal in 2 15 1; do
	ends $signal getc 1 "$PTAH" asm -o made silent
done
printf 'psb\npsbend\n' >silent
ends 2 getc 2 "$PTAH" asm -o made silent
ends 2 open 1 "$PTAH" asm -o alone text
ends 2 read 1 "$PTAH" report -o made - <silent
printf PERFILE2 >silent
ends 2 read 2 "$PTAH" report -o made - <silent
ends 2 poll 1 "$PTAH" profile -o made silent
printf PERFILE2 >silent
ends 2 read 2 "$PTAH" profile -o made silent
ends 2 poll 1 "$PTAH" script -o made alone
ends 15 poll 1 "$PTAH" diff alone alone
ends 2 open 1 "$PTAH" merge -o made alone
ends 2 read 1 "$PTAH" merge -o made silent
ends 2 open 1 "$PTAH" live -i alone
ends 2 open 1 "$PTAH" dump -o alone --pt=trace
# A session that takes hours to open.
mkdir traced
: >traced/hwt.records
for signal in 2 15; do
	ends $signal opendir 1 "$PTAH" script -o made traced
done
output=full
for signal in 2 15; do
	ends $signal write 1 "$PTAH" dump --pt=trace
done

# What is made of a recording.
loop_program 10000
record r.data ./program
"$PTAH" live -q --recorder=qemu -o pipe.data -- ./program >out 2>&1 || fail "live: $(cat out)"
ends 2 poll 1 "$PTAH" inject --itrace=i1i -i r.data
ends 2 write 1 "$PTAH" live -q -i pipe.data
ends 2 write 1 "$PTAH" live -q --every=100ms --recorder=qemu -- sh -c "while :; do :; done"
output=out
"$PTAH" cover -q --format=processes -o table.db r.data
ends 2 getline 1 "$PTAH" cover --reached=- table.db <silent
if command -v python3 >/dev/null; then
	# Ctrl-C is for the pager, which goes on; the other signals end it.
	status=0
	PTAH_PAGER='cat; exec sleep 10000' timeout -k 5 600 python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 80 -- \
		env LD_PRELOAD="$PWD/signal_before.so" SIGNAL=15 CALL=waitpid "$PTAH" report r.data >out ||
		status=$?
	grep -q '^SIGNAL before waitpid' out || fail "no pager: $(cat out)"
	equal "SIGTERM while the pager runs: status" "$status" 0
fi
