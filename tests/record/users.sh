# SPDX-License-Identifier: MIT
# Processes that change their user, as daemons do, and the programs that they execute then, are
# recorded exactly and behave as they do unrecorded.
. "$PTAH_SOURCE/tests/record/common.sh"

[ "$(id -u)" = 0 ] || skip "only root can change its user"

# A folder that other users can read, wherever the build is, and a plugin that they cannot find.
place=$(mktemp -d /tmp/ptah-users-XXXXXX)
trap 'rm -rf "$place"' EXIT
build children
build hostile_native -I"$PTAH_SOURCE/src" -I"$PTAH_SOURCE/include"
mkdir -m 700 "$place/private"
cp children hostile_native "$place"
cp "$PTAH_BUILD/lib/ptah-qemu.so" "$place/private"
chmod 755 "$place" "$place/private/ptah-qemu.so"
here=$PWD
cd "$place"

# same STREAMS COMMAND...: recorded by $recorder in so many streams (a pattern), it prints the same and exits with the same status as unrecorded
recorder="--recorder=qemu --plugin=./private/ptah-qemu.so"
same()
{
	streams=$1
	shift
	env -i A=1 PATH="$PATH" "$@" >native.txt 2>native-errors.txt </dev/null || :
	rm -f perf.data perf.data.old
	# shellcheck disable=SC2086
	env -i A=1 PATH="$PATH" "$PTAH" record -q $recorder -- "$@" \
		>recorded.txt 2>recorded-errors.txt </dev/null || :
	cmp -s native.txt recorded.txt || fail "$*: $(diff native.txt recorded.txt | head -20)"
	cmp -s native-errors.txt recorded-errors.txt ||
		fail "$*: $(diff native-errors.txt recorded-errors.txt | head -20)"
	exact
	! grep -v 'killed while it wrote' notes.txt || fail "$*: a note"
	grep -q "^$streams threads\{0,1\}: " verify.txt || fail "not $streams streams: $(cat verify.txt)"
	perf_agrees
	echo "$*: exact"
}

same 1 ./children drop
same 2 ./children drop exec
same 2 ./children drop descriptors exec
same 2 ./children drop close-all exec
same 2 ./children drop signals exec
same 2 ./children drop exec-self
same 2 ./children drop exec-open
same 3 ./children drop vfork
same 3 ./children drop spawn
same 4 ./children drop exec-in-thread
same 23 ./children deep drop parent exec

# The recorder native: a process that becomes another user's has another memory from then on, and
# another stream.
recorder="--recorder=native --truth"
same 2 ./children drop
same 3 ./children drop exec
same 3 ./children drop signals exec
same 3 ./children drop exec-self
same 3 ./children drop vfork
same 3 ./children drop spawn
# Its system calls are logged as before, and those of what it executes.
if command -v python3 >/dev/null && strace -o /dev/null true 2>/dev/null; then
	"$PTAH" record -q --recorder=native -- ./children drop exec >/dev/null || fail "drop exec: $?"
	"$PTAH" script -q --calls --events --format=json >calls.json || fail "script: $?"
	strace -o strace.txt ./children drop exec >/dev/null
	python3 "$PTAH_SOURCE/tests/waits/same_calls.py" calls.json strace.txt ||
		fail "the system calls after setresuid() differ from strace's"
fi
# Nobody's processes write to all that they have of the recorder: root's next programs do not care.
for how in "nobody header" "nobody zero" "nobody lock"; do
	for then in ./hostile_native "setpriv --reuid=65534 --regid=65534 --clear-groups ./hostile_native"; do
		[ "$then" = ./hostile_native ] || how=${how#nobody }
		status=0
		timeout -s INT 600 "$PTAH" record -q --recorder=native --truth -- sh -c "$then $how
			id -u; id -u >/dev/null; sort /dev/null; exec id -u" >recorded.txt 2>&1 || status=$?
		[ "$status" = 0 ] && [ "$(tr '\n' , <recorded.txt)" = "attack,0,0," ] ||
			fail "root after $then $how: status $status, $(cat recorded.txt)"
		"$PTAH" stat --force perf.data >stat.txt 2>&1 || fail "$how: $(cat stat.txt)"
	done
done
# A process with several threads runs on untraced, and does not have the memory any more.
status=0
"$PTAH" record -q --recorder=native -- ./hostile_native threaded nobody header 2>notes.txt || status=$?
[ "$status" = 1 ] || fail "threaded nobody: status $status, $(cat notes.txt)"
"$PTAH" stat perf.data 2>&1 | grep -q "runs on untraced: it has become another user's" ||
	fail "threaded nobody: no note"
recorder="--recorder=qemu --plugin=./private/ptah-qemu.so"

# A process that cannot be followed and still runs when the recording ends is named with the reason.
mkdir root
cat >sleeper.c <<'X'
#include <fcntl.h>
#include <unistd.h>
int main(void) { return open("/begun", O_CREAT | O_WRONLY, 0600) < 0 || sleep(300) == 0; }
X
if "$CC" -static -o root/sleeper sleeper.c 2>/dev/null; then
	"$PTAH" record --recorder=qemu -q -- sh -c 'chroot root /sleeper & while [ ! -e root/begun ]; do :; done; echo $!' >pid.txt
	exact
	kill "$(cat pid.txt)"
	grep -q "process $(cat pid.txt) became /sleeper, which was not recorded: the emulator" notes.txt ||
		fail "it still runs: $(cat notes.txt)"
fi

# initdb and its like: a script of root's that starts everything as another user.
command -v setpriv >/dev/null || skip "setpriv is not installed (Debian: util-linux)"
same "[0-9]*" setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'id -u; printf "b\na\n" | sort'
for name in setpriv sh id sort; do
	grep -q "^$name " verify.txt || fail "no stream of $name: $(cat verify.txt)"
done
same "[0-9]*" sh -c 'setpriv --reuid=65534 --clear-groups id -u; exec id -u'
[ "$(tr '\n' , <recorded.txt)" = "65534,0," ] || fail "users: $(cat recorded.txt)"

# Capabilities that the program does not get do not open the memory for it.
same 2 setpriv --reuid=65534 --inh-caps=+sys_ptrace --bounding-set=+all id -u
cp perf.data* verify.txt "$here"
