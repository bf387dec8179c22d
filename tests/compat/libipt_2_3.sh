# SPDX-License-Identifier: MIT
# What libipt 2.3 answered for the golden cases, in libipt-2.3/, is what this library answers: all
# of its event decoder (events.txt), and of the instruction decoder the events that are new and
# where pt_insn_resync() goes on (walk.txt, without what 2.0.5 does otherwise). Cases that differ
# are in differs.txt and walk-differs.txt, each with the reason.
#
# 2.3 is in no distribution that this runs on. With one that has been built
#	LIBIPT_2_3=/path/libipt.so.2 PTAH_SOURCE=... PTAH_BUILD=... sh libipt_2_3.sh
# judges with it, rules and all, and leaves its answers as events.txt and walk.txt here.
. "$PTAH_SOURCE/tests/compat/common.sh"
answers=$PTAH_SOURCE/tests/compat/libipt-2.3

# said LIBRARY CLIENT CASE...: its answers
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

# Without status, place and time, and what a PSB+ says of tracing. 2.3's resync
# has no end in lost-then-ptwrite.
walk()
{
	said "$1" insn-after "$PTAH_SOURCE"/tests/golden/event-*.txt \
		"$PTAH_SOURCE"/tests/golden/lost-then-[a-o]*.txt >said.txt
	sed -e 's/ | .*//' -e '/^event .* \(enabled\|disabled\) .*status/d' \
		-e 's/+event//; s/+noip//; s/+eos//; s/ mode=. class=.*//' \
		-e 's/^\(next -[a-z_]*\).*/\1/; s/^next -no_enable/next -nosync/' \
		-e 's/ tsc=[0-9a-f]* lost=[0-9/]*//' said.txt
}

# Cases whose trace has changed since are left out, those of differs.txt must differ.
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
