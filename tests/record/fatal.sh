# SPDX-License-Identifier: MIT
# Programs that a signal ends: the trace ends at the instruction where a core dump of the same
# program, run alone, has its instruction pointer, and everything before it was executed.
. "$PTAH_SOURCE/tests/record/common.sh"

build death
build fatal -static -no-pie -ffunction-sections

# The events of the stream in which the program died, without those about code and time.
last_event()
{
	"$PTAH" script --events ${1:+--tid="$1"} perf.data 2>/dev/null | tail -1 |
		sed -n 's/.*# async-disabled \(0x[0-9a-f]*\) .*/\1/p'
}

# dies NAME HOW [ADDRESS]: recorded, `fatal HOW` dies of the signal, at the address and with the exit
# status that it has alone. ADDRESS: of the event, where the architecture has another one.
dies()
{
	name=$1
	how=$2
	alone=$(./death ./fatal "$how") || fail "$how: no core dump that fits"
	signal=${alone% *}
	ip=${alone#* }
	status=0
	# shellcheck disable=SC2086
	record ${recorder-} ./fatal "$how" >output.txt 2>errors.txt || status=$?
	[ $status = "${expected:-$((128 + signal))}" ] || fail "$how: status $status: $(cat errors.txt)"
	exact
	tid=$(sed -n 's/^note: SIG[A-Z]* ended process [0-9]*\( ([a-z]*)\)\{0,1\} in its thread \([0-9]*\) .*/\2/p' notes.txt)
	[ -n "$tid" ] || tid=$(sed -n 's/^note: SIG[A-Z]* ended process \([0-9]*\).*/\1/p' notes.txt)
	[ -n "$tid" ] || fail "$how: no note: $(cat notes.txt)"
	[ "$(last_event "$tid")" = "${3:-$ip}" ] ||
		fail "$how: the trace ends at '$(last_event "$tid")', the core dump at $ip"
	grep -q "^note: $name ended process .* at $ip\$" notes.txt ||
		fail "$how: the note is wrong: $(cat notes.txt)"
	[ "$("$PTAH" stat perf.data | grep -c "^note: $name ended ")" = 1 ] || fail "$how: stat"
	[ "$("$PTAH" report perf.data | grep -c "^# note: $name ended ")" = 1 ] || fail "$how: report"
}

dies SIGSEGV read
ran 1 load add
ran 0 load inc
dies SIGSEGV write
ran 1 store xor
dies SIGSEGV first
ran 0 at_once
dies SIGBUS bus
ran 1 load add
dies SIGFPE divide # in the middle of a block
ran 1 divide cdq
ran 0 divide idiv
dies SIGFPE loop
ran 3 count_down cdq
ran 2 count_down idiv
ran 2 count_down jns
dies SIGILL undefined
ran 1 undefined inc
dies SIGSEGV privileged
ran 1 privileged
ran 0 privileged hlt
dies SIGSEGV gate
ran 1 gate
dies SIGSEGV fill
ran 1 fill cld
ran 0 fill rep
dies SIGSEGV walk
ran 2 walk "mov al"
ran 2 walk jnz
dies SIGSEGV cut
dies SIGSEGV straddle
dies SIGILL handler
ran 1 on_alarm
ran 1 undefined inc
perf_agrees

# The call, the jump and the return that lead to where no code is are in the trace.
dies SIGSEGV no-code
ran 1 call_there call
dies SIGSEGV null
ran 1 call_there call
"$PTAH" dump perf.data | grep -q '  TIP  .* 0000000000000000$' || fail "no TIP to address 0"
dies SIGSEGV jump
ran 1 jump_there jmp
dies SIGSEGV high
ran 1 jump_there jmp
dies SIGSEGV return
ran 1 return_there ret

# A trap: RIP is behind INT3, and SDM "FUP Cases and IP Payload" has the packets of a software
# interrupt carry its own address.
ip=0x$(nm fatal | sed -n 's/^0*\([0-9a-f]*\) . breakpoint$/\1/p')
dies SIGTRAP breakpoint "$(printf '0x%x' $((ip + 1)))"
ran 1 breakpoint

# A second thread; a child, which the command survives.
dies SIGSEGV thread
ran 1 load add
expected=11
dies SIGSEGV child
ran 1 load add
unset expected
echo "dead: $(tail -1 verify.txt)"

# From the kernel: the trace ends with the system call.
status=0
record ./fatal abort 2>errors.txt || status=$?
[ $status = 134 ] || fail "abort: status $status"
exact
grep -q '^note: SIGABRT ended process [0-9]* (fatal)$' notes.txt || fail "$(cat notes.txt)"

# With every kind of packets.
for how in divide null fill; do
	for recorder in "--no-retcomp --psb-period=2048 --clock=host" \
		"--long-tnt -e intel_pt/cyc,mtc/u"; do
		dies "SIG[A-Z]*" $how
	done
done

# With a filter on the function that faults.
ip=$(./death ./fatal divide)
record --filter='filter divide@./fatal' ./fatal divide 2>errors.txt && fail "it ended well"
exact
[ "$(last_event)" = "${ip#* }" ] || fail "filter: the trace ends at '$(last_event)', not $ip"
instructions 2 no-perf

# The other recorder of user code says the same.
recorder=--recorder=ptrace
if record true 2>errors.txt; then
	dies SIGFPE divide
	dies SIGSEGV null
	dies SIGSEGV thread
fi
