# SPDX-License-Identifier: MIT
# A program that attacks its recorder through everything that it can reach: whatever it does, the
# recorder comes to its end, the file can be read by Ptah and by perf, and `ptah verify` does not
# say that the decode is what ran unless it is. docs/security.md says what is promised.
. "$PTAH_SOURCE/tests/record/common.sh"

build hostile -I"$PTAH_SOURCE/src" -I"$PTAH_SOURCE/include"
build hostile_native -I"$PTAH_SOURCE/src" -I"$PTAH_SOURCE/include"

# attack HOW [SEED]: records the attack on qemu. Leaves the recorder's exit status in `status`, what it
# printed in closing.txt, and the result of verify in verify.txt.
attack()
{
	attack_with "--recorder=qemu --buffer 64K" ./hostile "$@"
	awk -F'\t' 'NR > 1 { bytes += $4 } END { exit bytes < 50000 }' stat.txt ||
		fail "$1: no trace: $(cat stat.txt)"
}

# attack_native HOW [NUMBER [SEED]]: the same on native
attack_native()
{
	attack_with "--recorder=native --truth" ./hostile_native "$@"
}

# attack_with OPTIONS COMMAND...
attack_with()
{
	options=$1
	shift
	rm -f perf.data perf.data.old pipe code
	status=0
	# shellcheck disable=SC2086
	timeout -s INT 600 "$PTAH" record $options -- "$@" >/dev/null 2>closing.txt || status=$?
	[ "$status" != 1 ] || fail "$*: the attack failed: $(cat closing.txt)"
	# A false record may hide code, so that decoding has errors. That is status 1 as well.
	"$PTAH" stat --force --format=tsv perf.data >stat.txt 2>&1 || [ $? = 1 ] ||
		fail "$*: stat: $(cat stat.txt)"
	if command -v perf >/dev/null; then
		timeout 300 perf script -D -i perf.data >perf.txt 2>&1 ||
			fail "$*: perf ($?): $(tail -3 perf.txt)"
	fi
	"$PTAH" verify --all --force perf.data >verify.txt 2>&1 || :
}

finished()
{
	grep -q 'written to perf.data' closing.txt || fail "$1: the recorder died: $(cat closing.txt)"
}

# Attacks that the system refuses: all is recorded.
for how in nothing truncate grow seal close; do
	attack $how
	finished $how
	[ "$status" = 7 ] || fail "$how: status $status"
	grep -q 'decoded exactly what ran' verify.txt || fail "$how: $(cat verify.txt)"
done

# Attacks that change what the recorder reads: that is seen, and nothing is verified.
for how in punch zero ones random header ring threads positions back messages paths flood forget \
	own forks; do
	attack $how
	finished $how
	grep -q "note: the program wrote to the recorder's memory" closing.txt ||
		fail "$how: no note: $(cat closing.txt)"
	! grep -q 'decoded exactly what ran' verify.txt || fail "$how: $(cat verify.txt)"
done

# A parent thread -1 in a fork, of which perf dies.
attack messages 2
finished messages

# What was recorded before the recorder was killed is kept.
attack kill
[ "$status" = 137 ] || fail "kill: status $status"
! grep -q 'decoded exactly what ran' verify.txt || fail "kill: $(cat verify.txt)"
[ "$(wc -c <perf.data)" -gt 50000 ] || fail "kill: hardly anything is left"

# A mapped file that is a pipe by now.
for recorder in qemu ptrace; do
	rm -f perf.data code
	status=0
	timeout -s KILL 600 env -i "PATH=$PATH" "$PTAH" record -q --recorder=$recorder -- ./hostile fifo ||
		status=$?
	[ "$status" = 7 ] || fail "fifo, $recorder: status $status"
done

# The recorder native, which is in the program, too. What is refused, or harms nobody:
for how in nothing truncate grow seal stop trace-me trace-recorder lock; do
	attack_native $how
	finished $how
	[ "$status" = 7 ] || fail "native, $how: status $status"
	grep -q 'decoded exactly what ran' verify.txt || fail "native, $how: $(cat verify.txt)"
done

# What no runtime writes, and what the kernel knows to be false.
for how in punch zero ones random psbs header back messages threads fatal; do
	attack_native $how
	finished $how
	[ "$status" = 7 ] || fail "native, $how: status $status"
	grep -q 'note: a program has written to the memory' closing.txt ||
		fail "native, $how: no note: $(cat closing.txt)"
	! grep -q 'decoded exactly what ran' verify.txt || fail "native, $how: $(cat verify.txt)"
done

# What a runtime could have written.
for how in slots calls notes names code forks maps exits daemon vfork refuse; do
	attack_native $how
	finished $how
	[ "$status" = 7 ] || fail "native, $how: status $status"
done

# Children that end at any moment are no attack.
attack_native moments 20
finished moments
[ "$status" = 7 ] || fail "native, moments: status $status"
! grep -q 'note: a program has written to the memory' closing.txt ||
	fail "native, moments: $(cat closing.txt)"

attack_native abort
finished abort
[ "$status" = 134 ] || fail "native, abort: status $status"

# The program may die of what it does to itself.
attack_native runtime
finished runtime

attack_native kill
[ "$status" = 137 ] || fail "native, kill: status $status"
! grep -q 'decoded exactly what ran' verify.txt || fail "native, kill: $(cat verify.txt)"

# A process that is not recorded is never traced.
sleep 600 &
foreign=$!
mkfifo begun
"$PTAH" record -q --recorder=native -- ./hostile_native foreign $foreign >begun 2>closing.txt &
recorder=$!
read -r _ <begun
while kill -0 $recorder 2>/dev/null; do
	grep -q 'TracerPid:[[:space:]]*0' "/proc/$foreign/status" ||
		fail "a process that is not recorded is traced"
done
wait $recorder || [ $? = 7 ] || fail "native, foreign: $(cat closing.txt)"
grep -q 'TracerPid:[[:space:]]*0' "/proc/$foreign/status" || fail "a process stays traced"
kill $foreign
