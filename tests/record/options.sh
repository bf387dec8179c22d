#!/bin/sh
# SPDX-License-Identifier: MIT
# perf's options: each wrong value is refused with a sentence and status 2, and correct ones mean
# what they mean to perf.
. "$PTAH_SOURCE/tests/record/common.sh"

wrong() # SENTENCE OPTIONS...
{
	sentence=$1
	shift
	status=0
	"$PTAH" record "$@" true >output.txt 2>errors.txt || status=$?
	[ "$status" = 2 ] || fail "$*: status $status, not 2: $(cat errors.txt)"
	grep -q -e "$sentence" errors.txt || fail "$*: '$sentence' is not in: $(cat errors.txt)"
	[ "$(wc -l <errors.txt)" -le 2 ] || fail "$*: too many lines: $(cat errors.txt)"
	[ ! -e perf.data ] || fail "$*: a file was made"
}

# right OPTIONS...: the options are correct; whether this machine can do it is another matter
right()
{
	status=0
	"$PTAH" record --dry-run "$@" true >output.txt 2>errors.txt || status=$?
	[ "$status" -le 1 ] || fail "$*: status $status: $(cat errors.txt)"
	[ ! -e perf.data ] || fail "--dry-run $*: a file was made"
}

rm -f perf.data perf.data.old
wrong 'list of numbers' -p ''
wrong 'list of numbers' -p 1x
wrong 'list of numbers' -p 1,
wrong 'list of numbers' -p ,1
wrong 'list of numbers' -p 1-2
wrong 'list of numbers' -p -1
wrong 'list of numbers' -p 99999999999999999999
wrong 'list of numbers' --tid=4294967297
wrong 'begin at 1' -t 0
wrong 'list of processors' -C x
wrong 'list of processors' -C 0,
wrong 'list of processors' -C '0 1'
wrong 'the last processor' -C 0-
wrong 'the last processor' -C 0-x
wrong 'from the smaller to the larger' -C 3-0
wrong 'too many' -C 0-2147483647
wrong 'do not go together' -p 1 -t 1
wrong 'do not go together' -p 1 -a
wrong 'do not go together' -t 1 -C 0
wrong 'does not go with -a' -a --per-thread
right -C 0
right -C 0-3,5
right --cpu=0,0
right -a -C 0
right -p $$
right -p $$,1
right -t $$

for value in '' x 0 , ,0 ,x 1, -1 1T 1kk 1Kx 18446744073709551615 99999999999G; do
	wrong 'pages, or a size with' -m "$value"
done
wrong 'pages, or a size with' --mmap-pages=1,1,1
right -m 128
right -m 512K,1M
right -m ,16
right --mmap-pages=1M

# How perf reads a number and a size for -m N: it prints the number of pages.
pages()
{
	perf record -m "$1" -e dummy -o perf.out true 2>&1 |
		sed -n 's/^rounding mmap pages size to .* (\([0-9]*\) pages)$/\1/p' | head -1
}
if command -v perf >/dev/null; then
	compared=0
	for value in 3 5 9K 20001B 16385 65M; do
		n=$(pages "$value")
		[ -n "$n" ] || continue
		compared=$((compared + 1))
		wrong "buffer of $((n * $(getconf PAGESIZE))) bytes" --recorder=qemu -m ",$value"
	done
	[ "$compared" != 0 ] || echo "perf records nothing here: -m not compared"
fi
wrong "buffer of $((2 * $(getconf PAGESIZE))) bytes" --recorder=qemu -m 64,2
wrong "buffer of 8192 bytes" --recorder=qemu -m ,8K

wrong 'not a size' -Sx
wrong 'not a size' -S0
wrong 'not a size' --snapshot=1Q
wrong 'not a size' -See
wrong 'not larger than the buffer' -S1M -m ,64K
wrong 'say one of them' -S --stop-when-full
wrong 'goes neither with' -S --buffer 64K
wrong 'goes neither with' -m ,64K --buffer 64K
right -S
right -Se
right -S64K
right -Se64K
right --snapshot=e
right -S 64K
right -S64K -m ,1M

wrong 'milliseconds' -D x
wrong 'milliseconds' -D ''
wrong 'milliseconds' -D -2
wrong 'milliseconds' -D 1-2
wrong 'never begin' -D -1
right -D 0

wrong "'fd:' or 'fifo:' is missing" --control=x
wrong 'neither' --control=pipe:1
wrong 'a name is missing' --control=fd:
wrong 'a name is missing' --control=fifo:a,
wrong 'no such descriptor' --control=fd:99
wrong 'no such descriptor' --control=fd:x
wrong 'no such descriptor' --control=fd:0,99
wrong 'it takes' --recorder=intel
wrong "are the recorder qemu's" --recorder=ptrace --qemu=qemu-x86_64
wrong 'cannot go into a pipe' -o -
wrong 'one event' -e intel_pt//u -e intel_pt//u
wrong 'once' --filter 'filter main' --filter 'filter main'
wrong 'needs an aux-action' -e intel_pt//u -e mem:0x401000:x
wrong 'needs an aux-action' -e cycles/period=3/
wrong 'an event is missing' -e intel_pt//u,
wrong 'one event' -e intel_pt/cyc,mtc=0/u,cycles,intel_pt//u
wrong 'pause or resume' -e sched:sched_switch/aux-action=stop/
wrong 'no address with :x' -e mem:0x401000:rw/aux-action=pause/
wrong 'no tracepoint' -e cycles/aux-action=pause/
wrong 'is start-paused' -e intel_pt/aux-action=resume/
wrong 'names no function' --only-during=0x100/8
wrong 'PSB period' --psb-period=5000
wrong 'unknown option --nonsense' --nonsense
wrong 'unknown option -x' -vqx
wrong 'takes no value' --quiet=1

# What only Linux' driver can, of functions that exist.
impossible()
{
	"$PTAH" record "$2" --recorder=ptrace true 2>errors.txt && fail "$2: recorded"
	grep -q -e "$1" errors.txt || fail "$2: '$1' is not in: $(cat errors.txt)"
	[ ! -e perf.data ] || fail "$2: a file was made"
}
set --
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
	set -- "$@" -e "a:b$i/aux-action=pause/"
done
wrong 'more than 16 events' "$@" --only-during=main@"$PTAH"
set --
impossible "no function 'nowhere' in " --only-during=nowhere
impossible 'nowhere: No such file' --only-during=main@nowhere
impossible 'ptrace cannot pause and resume' --only-during=main@"$PTAH"
impossible 'ptrace records no other events (-e sched:sched_switch).*system calls' \
	-eintel_pt//u,sched:sched_switch,cycles
impossible 'ptrace cannot pause and resume' -emem:0x401000:x/aux-action=pause/

# Options of perf's that make no sense here are refused with the reason.
for option in -F -c -g -b --call-graph=dwarf --branch-filter=any -W -R; do
	wrong 'takes no samples' $option
done
wrong 'user code' --all-user
wrong 'name the' -u root
wrong 'one plain file' -z
wrong 'one plain file' --switch-output=1G
right --switch-events -i -v

# Names of kernel symbols, only with /k.
kernel_symbol() # SENTENCE FILTER
{
	"$PTAH" record --dry-run -e intel_pt//k --filter "$2" true 2>errors.txt || :
	grep -q "$1" errors.txt || fail "--filter $2: '$1' is not in: $(cat errors.txt)"
}
if [ -r /proc/kallsyms ]; then
	kernel_symbol "the kernel has no symbol 'no_such_symbol'" 'filter no_such_symbol'
	if grep -q '^0*[1-9a-f][0-9a-f]* T schedule$' /proc/kallsyms; then
		"$PTAH" record --dry-run -e intel_pt//k --filter 'filter schedule' true 2>errors.txt || :
		! grep -q -e '--filter' errors.txt || fail "a kernel's function: $(cat errors.txt)"
	fi
fi

status=0
"$PTAH" record 2>errors.txt || status=$?
[ "$status" = 2 ] || fail "nothing to record: status $status"
"$PTAH" record -vo 2>out.txt && fail "-vo without a file"
grep -q 'output needs a value' out.txt || fail "-vo: $(cat out.txt)"
grep -q 'no command to record' errors.txt || fail "nothing to record: $(cat errors.txt)"

# --dry-run does not touch an existing file.
echo old >perf.data
"$PTAH" record --dry-run --recorder=qemu true 2>errors.txt || fail "--dry-run: $(cat errors.txt)"
[ "$(cat perf.data)" = old ] && [ ! -e perf.data.old ] || fail "--dry-run touched perf.data"
grep -q 'with the recorder qemu, as asked for' errors.txt || fail "$(cat errors.txt)"
rm -f perf.data

# One line says which recorder was chosen and why; with -q nothing is printed.
"$PTAH" record true 2>errors.txt
[ "$(grep -c 'with the recorder' errors.txt)" = 1 ] || fail "which recorder? $(cat errors.txt)"
"$PTAH" record -q true 2>errors.txt
[ ! -s errors.txt ] || fail "-q: $(cat errors.txt)"

# The exit status is that of the command.
for wanted in 0 1 7 255; do
	status=0
	"$PTAH" record -q -- sh -c "exit $wanted" || status=$?
	[ "$status" = "$wanted" ] || fail "status $status, not $wanted"
done
status=0
"$PTAH" record -q -- sh -c 'kill -9 $$' 2>errors.txt || status=$?
[ "$status" = 137 ] || fail "killed: status $status, not 137: $(cat errors.txt)"
status=0
"$PTAH" record -q -- ./no-such-command 2>errors.txt || status=$?
[ "$status" = 1 ] || fail "no command: status $status, not 1"

# What is no regular file gets the layout of a pipe.
"$PTAH" record -q --truth -o /dev/stdout -- /bin/true | "$PTAH" verify --all - >verify.txt 2>&1 ||
	fail "through a pipe: $(cat verify.txt)"
