# SPDX-License-Identifier: MIT
# This library answers for the golden cases what libipt 2.3 answered (libipt-2.3/): everything of
# its event decoder (events.txt); of the instruction decoder, the events that are new and where
# pt_insn_resync() continues (walk.txt, without what differs in 2.0.5). The cases that differ are
# in differs.txt and walk-differs.txt, each with the reason.
#
# No distribution that this runs on has libipt 2.3. To compare with one that you have built:
#	LIBIPT_2_3=/path/libipt.so.2 PTAH_SOURCE=... PTAH_BUILD=... sh libipt_2_3.sh
# This applies the rules, too, and writes its answers to events.txt and walk.txt here.
. "$PTAH_SOURCE/tests/compat/common.sh"
answers=$PTAH_SOURCE/tests/compat/libipt-2.3

# said LIBRARY CLIENT CASE...: the answers of the library
said()
{
	library=$1
	client=$2
	shift 2
	"$twin" --print --judged "$library" --judge "$library" --clients "$client" "$@" \
		>printed.txt || fail "$(tail -3 printed.txt)"
	sed '$d' printed.txt
}

events()
{
	said "$1" event-iflags "$PTAH_SOURCE"/tests/golden/*.txt >said.txt
	sed -e 's/ | at=/ @/' -e 's/ sync=0$//' said.txt
}

# Without status, position and time, and without whether tracing is on at a PSB+. In
# lost-then-ptwrite 2.3's resync never ends.
walk()
{
	said "$1" insn-after "$PTAH_SOURCE"/tests/golden/event-*.txt \
		"$PTAH_SOURCE"/tests/golden/lost-then-[a-o]*.txt >said.txt
	sed -e 's/ | .*//' -e '/^event .* \(enabled\|disabled\) .*status/d' \
		-e 's/+event//; s/+noip//; s/+eos//; s/ mode=. class=.*//' \
		-e 's/^\(next -[a-z_]*\).*/\1/; s/^next -no_enable/next -nosync/' \
		-e 's/ tsc=[0-9a-f]* lost=[0-9/]*//' said.txt
}

# Cases whose trace has changed since are left out. Those of differs.txt must differ.
# shellcheck disable=SC2016 # awk's
compare='
function finish() {
	if (head == "")
		return
	if (!(head in expected)) {
		unknown++
	} else {
		split(head, words, " ")
		same = expected[head] == text
		compared++
		if (same == (words[1] in differs)) {
			printf "%s: %s\n", head, same ? "no longer differs" : "differs:"
			printf "%s", same ? "" : "2.3:\n" expected[head] "here:\n" text
			wrong++
		}
	}
}
FILENAME ~ /differs/ { if (!/^#/) differs[$1 ".txt"] = 1; next }
/^[^ ]+\.txt / && NF == 3 {
	if (FILENAME ~ /ours/)
		finish()
	head = FILENAME ~ /ours/ ? $0 : ""
	current = $0
	text = ""
	next
}
FILENAME ~ /ours/ { text = text $0 "\n"; next }
{ expected[current] = expected[current] $0 "\n" }
END {
	finish()
	printf "%d cases, %d have changed since\n", compared, unknown
	exit wrong || compared < least
}'

events "$ours/libipt.so.2" >ours.txt
awk -v least=300 "$compare" "$answers/differs.txt" "$answers/events.txt" ours.txt ||
	fail "pt_evt_* of libipt 2.3 answered otherwise"
walk "$ours/libipt.so.2" >ours.txt
awk -v least=25 "$compare" "$answers/walk-differs.txt" "$answers/walk.txt" ours.txt ||
	fail "pt_insn_* of libipt 2.3 answered otherwise"

[ -n "${LIBIPT_2_3:-}" ] || exit 0
events "$LIBIPT_2_3" >events.txt
walk "$LIBIPT_2_3" >walk.txt
cmp events.txt "$answers/events.txt" || fail "this libipt 2.3 answers otherwise"
cmp walk.txt "$answers/walk.txt" || fail "this libipt 2.3 answers otherwise"
same --judge "$LIBIPT_2_3" --keep 1000 --clients packet,event "$PTAH_SOURCE"/tests/golden/*.txt
same --judge "$LIBIPT_2_3" --clients packet,event --mutate 1:20 "$PTAH_SOURCE"/tests/golden/*.txt
