# SPDX-License-Identifier: MIT
# Children and the programs that they execute are recorded, each exactly, and behave as they do
# unrecorded: what they print, descriptors, environment, errors of execve.
. "$PTAH_SOURCE/tests/record/common.sh"

build children

# Variables that would change the emulator, and one with a comma.
outside="env -i A=1 B= QEMU_STRACE=1 LD_LIBRARY_PATH=/nonexistent QEMU_LOG=exec PATH=$PATH C=x,y"

# same COMMAND...: recorded, it prints the same and exits with the same status as unrecorded
same()
{
	same_status=0
	same_recorded=0
	$outside "$@" >native.txt 2>native-errors.txt </dev/null || same_status=$?
	rm -f perf.data perf.data.old
	$outside "$PTAH" record --recorder=qemu --no-syscalls -q -- "$@" >recorded.txt 2>recorded-errors.txt </dev/null ||
		same_recorded=$?
	[ $same_recorded = $same_status ] ||
		fail "$*: status $same_recorded, expected $same_status: $(cat recorded-errors.txt)"
	cmp -s native.txt recorded.txt ||
		fail "$*: $(diff native.txt recorded.txt | head -20)"
	cmp -s native-errors.txt recorded-errors.txt ||
		fail "$*: $(diff native-errors.txt recorded-errors.txt | head -20)"
	exact
}

streams() # N: so many streams
{
	grep -q "^$1 threads\{0,1\}: " verify.txt || fail "not $1 streams: $(cat verify.txt)"
}

names() # NAMES...: of the streams, without doubles, in the order of the alphabet
{
	n=$(sed -n 's/ [0-9]*\/[0-9]*: .*//p' verify.txt | sort -u | tr '\n' ' ')
	[ "$n" = "$* " ] || fail "streams of '$n', expected '$*'"
}

nothing_noted() # but that a thread was killed at an unfavourable moment
{
	! grep -v 'killed while it wrote' notes.txt || fail "$*: a note"
}

# Forks of all kinds. qemu-user runs vfork as fork.
for how in parent clone; do
	same ./children $how
	streams 2
	nothing_noted
	perf_agrees
done
for how in vfork spawn; do
	same ./children $how
	streams 3
	names children echo
	nothing_noted
	perf_agrees
done
same ./children fork-in-thread
streams 4
nothing_noted
perf_agrees
same ./children deep
streams 21
nothing_noted
perf_agrees
same ./children killed
streams 2
perf_agrees
echo "forks: exact"

# Programs see the same of how they were started, and the same errors.
for how in exec exec-self exec-open exec-nothing "signals exec" "descriptors exec" "close-all exec" \
	"parent exec" "vfork exec"; do
	same ./children $how
	nothing_noted
	perf_agrees
done
same ./children exec-in-thread
streams 4
nothing_noted
printf 'x' >not-executable
printf 'hello\n' >no-format
printf '#!/nonexistent/sh\n' >no-interpreter
printf '#!./loop\n' >loop
printf 'int main(void) { return 0; }\n' >empty.c
"$CC" -o no-loader -Wl,--dynamic-linker=/nonexistent/ld.so empty.c
chmod +x no-format no-interpreter loop
same ./children failures
streams 1
nothing_noted
for text in '/nonexistent: 2' '^/: 13' 'not-executable: 13' 'no-format: 8' 'no-interpreter: 2' \
	'text-busy: 26' 'loop: 40' '/bin/true: 7' 'bad pointer: -14' 'bad list: -14'; do
	grep -q "$text\$" native.txt || fail "the system says otherwise: $text: $(cat native.txt)"
done
echo "execve: as without"

# Scripts: one argument after the interpreter, which contains blanks; through env; scripts that
# interpret scripts.
mkdir -p bin
cat >bin/inner <<'Y'
#!/bin/sh -e
printf '[%s]' "$0" "$@"
echo
Y
cat >bin/outer <<'Y'
#!./bin/inner one two  
Y
cat >bin/found <<'Y'
#!/usr/bin/env sh
echo "found as $0: $*"
inner a ''
./bin/outer b
exec ./children show
Y
chmod +x bin/inner bin/outer bin/found
# Shells sort their variables: one with a comma may precede those that must come after it.
outside="env -i A=1 QEMU_STRACE=1 LD_LIBRARY_PATH=/nonexistent PATH=$PWD/bin:$PATH"
same sh -c 'found "x y" --help; (inner "$0"); ./bin/outer; echo "status $?"' zero
nothing_noted
perf_agrees
echo "scripts: exact"

# Pipelines: each process is recorded, and perf counts the same instructions for each.
same sh -c 'printf "b\na\nb\n" | sort | uniq -c'
[ "$(tr -s ' ' <recorded.txt | tr '\n' ,)" = ' 1 a, 2 b,' ] || fail "$(cat recorded.txt)"
names sh sort uniq
nothing_noted
perf_agrees
if command -v perf >/dev/null; then
	perf script -i perf.data --itrace=i0ns -F pid,ip 2>/dev/null |
		awk '{ n[$1]++ } END { for (p in n) print p, n[p] }' | sort >by-perf.txt
	"$PTAH" verify --all --format=tsv perf.data >verify.tsv
	awk -F'\t' 'NR > 1 { n[$2] += $4 } END { for (p in n) print p, n[p] }' verify.tsv |
		sort >by-ptah.txt
	cmp -s by-perf.txt by-ptah.txt || fail "perf: $(diff by-perf.txt by-ptah.txt)"
fi
same sh -c 'sh -c "sh -c \"sh -c \\\"sh -c true; exit 3\\\"; exit 4\"; exit 5"; exit 6'
nothing_noted
perf_agrees
echo "pipelines: exact"

# With other packets, and with the other clock.
for options in --clock=host "--no-retcomp --psb-period=2048" "-e intel_pt/mtc,cyc/u" \
	"--long-tnt --buffer=64K"; do
	# shellcheck disable=SC2086
	record $options -- sh -c './children parent deep exec; seq 3000 | sort | uniq -c | tail -1' \
		>/dev/null
	exact
	perf_agrees
done
echo "options: exact"

# Short children: slots are used again, and the recorder's memory does not grow with them.
same ./children many
streams 1001
nothing_noted
echo "many: $(tail -1 verify.txt)"

# A process that outlives the command runs on; its trace ends with the recording.
for n in 1 2; do
	record ./children left-behind >left.txt
	exact
	streams 2
	perf_agrees
	grep -q "process $(cat left.txt) (children) still ran" notes.txt || fail "$(cat notes.txt)"
	kill -0 "$(cat left.txt)" || fail "it was stopped with the recording"
	kill -KILL "$(cat left.txt)"
done
echo "left behind: exact"

# A program that cannot be followed runs, and a note names it.
if [ "$(id -u)" = 0 ]; then
	mkdir -p root
	"$CC" -static -o root/alone "$programs/children.c" -std=c11 -D_GNU_SOURCE -pthread 2>/dev/null
	cat >enter.sh <<'Y'
exec chroot root /alone show
Y
	same sh enter.sh
	grep -q 'became /alone, which was not recorded: the emulator cannot be reached' notes.txt ||
		fail "chroot: $(cat notes.txt)"
	cp /bin/true other-owner
	chown 1 other-owner
	chmod 4755 other-owner
	same sh -c './other-owner; echo $?'
	grep -q 'became ./other-owner, which was not recorded: it runs with other rights' notes.txt ||
		fail "set-user-ID: $(cat notes.txt)"
	echo "not followed: told"
fi

# Without children: these and the programs they execute run, and a note says that they were left
# out. Programs that the command itself executes are recorded.
printf '1\n2\nc\n' >expected.txt
# shellcheck disable=SC2016
record --no-inherit -- sh -c 'seq 2 | cat; ./children deep >/dev/null; exec printf "%s\n" c' \
	>recorded.txt
cmp -s recorded.txt expected.txt || fail "--no-inherit: $(cat recorded.txt)"
exact
streams 2
names printf sh
[ "$(grep -c 'were left out' notes.txt)" = 1 ] || fail "--no-inherit: $(cat notes.txt)"
perf_agrees
record --no-inherit ./children fork-in-thread >/dev/null
exact
grep -q '^1 thread: ' verify.txt || fail "--no-inherit: $(cat verify.txt)"
echo "without children: they run"

# Code that ran before an execve has the names of its own files.
shell=$(basename "$(readlink -f "$(command -v sh)")")
record sh -c 'true; exec ./children show' >/dev/null
"$PTAH" script >script.txt 2>/dev/null
grep -q "^sh .*($shell)" script.txt || fail "the shell did not run"
! grep -q '^sh .*(children)' script.txt || fail "the shell's code has its successor's names"
! grep -q "^children .*($shell)" script.txt || fail "what follows the shell has its names"
grep -q '^children .* main+0x0 (children)' script.txt || fail "main() of ./children did not run"
"$PTAH" report --limit=0 2>/dev/null | grep -q "$shell" || fail "the shell's functions are not reported"
echo "names: each program's own"
