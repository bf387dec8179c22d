# SPDX-License-Identifier: MIT
# Silent loops: their branches have no packet, so the trace does not contain how often they ran.
# `ptah verify` names them and the place, and what it says is missing is what the program did not
# have mapped: one pass for each byte.
. "$PTAH_SOURCE/tests/record/common.sh"

build silent -static -no-pie

address_of() # FUNCTION OFFSET
{
	echo "0x$(printf '%x' $((0x$(nm silent | sed -n "s/^\([0-9a-f]*\) . $1\$/\1/p") + $2)))"
}

# lacks PASSES PLACE HOW...: the decode lacks that many passes, through the loop at that address, and
# nothing else
lacks()
{
	passes=$1
	place=$2
	shift 2
	record ./silent "$@" 2>errors.txt || :
	! "$PTAH" verify --all perf.data >verify.txt 2>notes.txt || fail "$*: equal"
	grep -q "^    the loop at $place, " verify.txt || fail "$*: not at $place: $(cat verify.txt)"
	grep -q "^    with $passes more passes there the decode is equal\$" verify.txt ||
		fail "$*: not $passes passes: $(cat verify.txt)"
	"$PTAH" verify --all --format=json perf.data 2>/dev/null | grep -q "\"passes\": $passes}" ||
		fail "$*: JSON"
}

for handled in "" handled; do
	# shellcheck disable=SC2086
	lacks 1000 "$(address_of walk 0)" walk $handled
	lacks 1 "$(address_of walk 0)" one $handled
	lacks 1000 "$(address_of bounce 9)" bounce $handled
	# The page has room for 512 words: the first by the call in descend, then one by each push and
	# one by each call but the last, which faults: the 256th call of sink, while the decode stops
	# at the first.
	lacks 255 "$(address_of sink 1)" descend $handled
	record ./silent none $handled 2>errors.txt || :
	exact
done

# More passes than can be added up: the loop is named all the same, and at once. (The recorder's
# count is made larger by ten million million passes.)
if command -v python3 >/dev/null; then
	lacks 1000 "$(address_of walk 0)" walk
	python3 - <<'END'
import json, struct, subprocess, os
ptah = os.environ["PTAH"]
shown = json.loads(subprocess.run([ptah, "verify", "--format=json", "perf.data"], stdout=subprocess.PIPE).stdout)
n = shown["threads"][0]["recorded"]["instructions"]
with open("perf.data", "rb") as f:
    data = f.read()
assert data.count(struct.pack("<Q", n)) == 1
with open("perf.data", "wb") as f:
    f.write(data.replace(struct.pack("<Q", n), struct.pack("<Q", n + 3 * 10**13)))
END
	! timeout 600 "$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "equal"
	grep -q "^    the loop at $(address_of walk 0), " verify.txt || fail "$(cat verify.txt)"
	! grep -q 'more passes' verify.txt || fail "$(cat verify.txt)"
fi

# However often they ran, here: nobody knows but the recorder.
lacks "[1-9][0-9]*" "$(address_of spin 0)" spin
lacks "[1-9][0-9]*" "$(address_of stay 0)" stay

# The simulated processor can mark each pass: then every decoder counts them, however the program
# ends. Only a jump to itself has no second address.
marked() # INSTRUCTIONS HOW...: so many of the function were executed
{
	count=$1
	shift
	for options in "" "--clock=host -e intel_pt/cyc,mtc/u" "--psb-period=2048 --no-retcomp"; do
		# shellcheck disable=SC2086
		record --mark-loops $options ./silent "$@" 2>errors.txt || :
		exact
		"$PTAH" verify --all --jobs=1 perf.data >/dev/null 2>&1 || fail "$* $options: --jobs=1"
		n=$("$PTAH" script perf.data 2>/dev/null | grep -c " $symbol+0x") || :
		[ "$n" = "$count" ] || fail "$* $options: $n instructions, not $count"
	done
	perf_agrees
	command -v perf >/dev/null || return 0
	n=$(perf script -i perf.data --itrace=i0ns -F ip,sym 2>/dev/null | grep -c " $symbol\$") || :
	[ "$n" = "$count" ] || fail "$*: perf counts $n instructions, not $count"
}

# walk has three instructions in a pass, and bounce seven, after two. Of sink the 512 words on the
# stack are all but one.
for handled in "" handled; do
	symbol=walk
	marked 3000 walk $handled
	marked 3 one $handled
	marked 6 two $handled
	symbol=bounce
	marked 7002 bounce $handled
	symbol=sink
	marked 511 descend $handled
done
record --mark-loops ./silent spin
exact
record --mark-loops ./silent stay
! "$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "a jump to itself was counted"

# SIGKILL in the middle.
rm -f perf.data perf.data.old
"$PTAH" record -q --mark-loops ./silent forever &
recorder=$!
until [ -e perf.data ] && [ "$(wc -c <perf.data)" -gt 200000 ]; do
	kill -0 $recorder || fail "no trace is written"
	sleep 0.05
done
child=$(cat "/proc/$recorder/task/$recorder/children")
kill -KILL $child
wait $recorder || :
exact
echo "marked: $(tail -1 verify.txt)"

# With single steps. They take long, so there are few passes.
if record --recorder=ptrace --mark-loops ./silent two 2>errors.txt || [ $? = 139 ]; then
	exact
fi
