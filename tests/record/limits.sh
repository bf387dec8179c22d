# SPDX-License-Identifier: MIT
# Where a recording has to end early: on a full disk, at a limit of the file's size, by --max-size
# and by kill -INT. What was recorded before is a file that decodes. The judge of the parts is a
# recording of the same program that keeps everything.
. "$PTAH_SOURCE/tests/record/common.sh"

build filter -static -no-pie
build spin

listing() # FILE: the addresses of all instructions
{
	"$PTAH" script --no-symbols --format=tsv "$1" 2>/dev/null | awk -F'\t' 'NR > 1 { print $2 }'
}

# a_part FILE: it decodes in Ptah and perf without an error, to the beginning of what ran, and says
# why it ends
a_part()
{
	"$PTAH" stat "$1" >stat.txt 2>&1 || fail "stat: $(cat stat.txt)"
	grep -q 'not complete' stat.txt || fail "no note: $(cat stat.txt)"
	if command -v perf >/dev/null; then
		perf script -i "$1" --itrace=e >perf.txt 2>&1 || fail "perf: $(tail -3 perf.txt)"
		! grep -q 'trace error' perf.txt || fail "perf: $(grep -m 3 error perf.txt)"
	fi
	listing "$1" >part.txt
	n=$(wc -l <part.txt)
	[ "$n" -gt 100000 ] || fail "$n instructions are left"
	head -n "$n" all.txt >expected.txt
	cmp -s expected.txt part.txt || fail "not the beginning of what ran"
}

"$PTAH" record --recorder=qemu -q -o all.data -- ./filter 80000 wait </dev/null >/dev/null
listing all.data >all.txt

# A limit of the file's size: the write that would exceed it fails. The program begins when there is
# the limit, which comes when the recorder has made its shared memory.
mkfifo go
exec 7<>go
"$PTAH" record --recorder=qemu -q --buffer 64K -o small.data -- ./filter 80000 wait <go >output.txt 2>errors.txt &
recorder=$!
until [ -s small.data ]; do
	kill -0 $recorder || fail "limit: $(cat errors.txt)"
	sleep 0.01
done
prlimit --pid $recorder --fsize=150000
echo >&7
status=0
wait $recorder || status=$?
exec 7>&-
[ $status = 1 ] || fail "limit: status $status: $(cat errors.txt)"
grep -q 'File too large' errors.txt || fail "limit: $(cat errors.txt)"
grep -q 'small.data has the [0-9.]* MB of trace' errors.txt || fail "limit: $(cat errors.txt)"
a_part small.data
echo "limit: $n of $(wc -l <all.txt) instructions"

# A full disk, and the warning before. The command runs to its end.
cat >full.sh <<'X'
set -eu
mkdir -p disk
mount -t tmpfs -o size=256k none disk
status=0
"$PTAH" record --recorder=qemu -q --buffer 64K -o disk/perf.data -- ./filter 80000 wait </dev/null >output.txt 2>errors.txt || status=$?
echo $status >status.txt
cp disk/perf.data full.data
umount disk
mount -t tmpfs -o size=16m none disk
"$PTAH" record --recorder=qemu -o disk/perf.data --buffer 64K --max-size=15500K ./spin 1000 done >output.txt 2>warned.txt &
recorder=$!
while kill -0 $recorder; do
	! grep -q 'written to' warned.txt || break
	sleep 0.1
done
kill -KILL $(cat /proc/$recorder/task/$recorder/children)
wait $recorder || :
umount disk
X
if unshare -rm true 2>/dev/null; then
	PTAH=$PTAH unshare -rm sh full.sh || fail "full.sh failed"
	[ "$(cat status.txt)" = 1 ] || fail "full disk: status $(cat status.txt): $(cat errors.txt)"
	grep -q 'No space left on device' errors.txt || fail "full disk: $(cat errors.txt)"
	grep -q 'perf.data has the [0-9.]* MB of trace' errors.txt || fail "full: $(cat errors.txt)"
	a_part full.data
	echo "full disk: $n of $(wc -l <all.txt) instructions"
	grep -q 'MB of space are left for disk/perf.data, a tenth' warned.txt ||
		fail "no warning: $(cat warned.txt)"
	[ "$(grep -c 'a tenth' warned.txt)" = 1 ] || fail "warned twice: $(cat warned.txt)"
else
	echo "no full disk: unshare -rm is not possible here"
fi

# The limit of the stack's size, as the program has it without the recorder: none, set outside and
# inside the recording, and one of 64 MB.
build deep
for limit in unlimited 65536; do
	depth=2000
	[ $limit = unlimited ] || depth=900
	if ! (ulimit -s $limit) 2>/dev/null; then
		echo "no ulimit -s $limit here"
		continue
	fi
	(ulimit -s $limit && ./deep $depth) >expected.txt
	(ulimit -s $limit && record -- ./deep $depth) >output.txt || fail "ulimit -s $limit: status $?"
	cmp output.txt expected.txt || fail "ulimit -s $limit: $(cat output.txt)"
	exact
	record -- sh -c "ulimit -s $limit && exec ./deep $depth" >output.txt ||
		fail "ulimit -s $limit inside: status $?"
	cmp output.txt expected.txt || fail "ulimit -s $limit inside: $(cat output.txt)"
	exact
done

# --max-size: the recording ends, the command does not.
# Single-stepped: packets for each return, and CYC packets, let the file grow in fewer steps.
for recorder in qemu ptrace; do
	status=0
	size=200K packets=
	[ $recorder = qemu ] || size=12K packets="--no-retcomp -e intel_pt/cyc/u"
	# shellcheck disable=SC2086
	record --recorder=$recorder $packets --buffer 64K --max-size=$size -- ./filter 80000 >output.txt || status=$?
	[ $status = 0 ] || fail "--max-size, $recorder: status $status"
	exact
	[ "$(wc -c <perf.data)" -ge $((${size%K} * 1024)) ] || fail "$recorder: too short"
	[ "$(wc -c <perf.data)" -lt $((${size%K} * 1024 + 400000)) ] || fail "$recorder: too long"
	"$PTAH" stat perf.data 2>&1 | grep -q 'ended at its greatest size' || fail "no note"
done
"$PTAH" record --recorder=qemu --max-size=5X true 2>errors.txt && fail "--max-size=5X is taken"
grep -q 'max-size=5X: it is a number' errors.txt || fail "$(cat errors.txt)"

# Shells start background commands with SIGINT ignored. kill -INT ends the recording nevertheless,
# and the command with it, as by perf. The command ignores SIGINT as it would alone.
rm -f perf.data ready
(
	trap '' INT
	exec "$PTAH" record --recorder=qemu -- sh -c 'kill -INT $$; : >ready; while :; do :; done'
) 2>errors.txt &
recorder=$!
while [ ! -e ready ] && kill -0 $recorder 2>/dev/null; do
	sleep 0.05
done
[ -e ready ] || fail "SIGINT was not ignored by the command: $(cat errors.txt)"
kill -INT $recorder
for i in $(seq 5000); do
	kill -0 $recorder 2>/dev/null || break
	sleep 0.1
done
! kill -0 $recorder 2>/dev/null || {
	kill -KILL $(cat /proc/$recorder/task/$recorder/children) $recorder
	fail "kill -INT is ignored"
}
status=0
wait $recorder || status=$?
[ $status = 130 ] || fail "kill -INT: status $status: $(cat errors.txt)"
grep -q 'written to perf.data' errors.txt || fail "kill -INT: $(cat errors.txt)"
exact
