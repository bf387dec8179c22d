# SPDX-License-Identifier: MIT
# A signal at every single step of what the processor executes for a recorded program, in the cache, in
# gates and in the runtime's C code: its handler finds a state that the program has natively at one of
# its instructions, and the trace is what ran.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build boundaries -static -no-pie
build step_signals

# The runtime's C code makes a turn long; all of it takes minutes: PTAH_EACH=1.
each=${PTAH_EACH:-13}

# judged [OPTIONS]
judged()
{
	rm -f perf.data
	./step_signals "$each" ./boundaries "$PTAH" record -q --recorder=native "$@" ./boundaries \
		>output.txt 2>errors.txt || {
		[ $? = 77 ] && skip "$(cat output.txt)"
		fail "$*: $(cat output.txt errors.txt)"
	}
	sed "s/^/$*: /" output.txt
	"$PTAH" stat perf.data >stat.txt 2>notes.txt || fail "$*: $(cat notes.txt)"
	! grep -hE 'untraced|not recorded|qemu' errors.txt notes.txt >&2 || fail "$*: it left"
	grep -Eq '^ *errors +0$' stat.txt || fail "$*: $(cat notes.txt)"
}

judged
judged --truth
exact
