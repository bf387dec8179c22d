# SPDX-License-Identifier: MIT
# What libipt 2.3 answered for the golden cases, in libipt-2.3/, is what this library answers, but
# for the cases in differs.txt, each with the rules of twin that it differs by.
#
# 2.3 is in no distribution that this runs on. Who has built one names it:
#	LIBIPT_2_3=/path/libipt.so.2 ctest -R libipt_2_3    judges with it, rules and all
#	twin --print --judged $LIBIPT_2_3 --judge $LIBIPT_2_3 --clients C tests/golden/*.txt |
#		sed -e '$d' -e 's/ | at=/ @/' -e 's/ sync=0$//'     is how its answers were made
. "$PTAH_SOURCE/tests/compat/common.sh"
answers=$PTAH_SOURCE/tests/compat/libipt-2.3

# said LIBRARY CLIENT: its answers
said()
{
	"$twin" --print --judged "$1" --judge "$1" --clients "$2" "$PTAH_SOURCE"/tests/golden/*.txt \
		>printed.txt || fail "$(tail -3 printed.txt)"
	sed -e '$d' -e 's/ | at=/ @/' -e 's/ sync=0$//' printed.txt
}

# Cases whose trace has changed since are left out, those of differs.txt must differ.
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
	exit wrong || compared < 300
}'

said "$ours/libipt.so.2" event-iflags >ours.txt
awk "$compare" "$answers/differs.txt" "$answers/events.txt" ours.txt ||
	fail "pt_evt_* of libipt 2.3 answered otherwise"

[ -n "${LIBIPT_2_3:-}" ] || exit 0
same --judge "$LIBIPT_2_3" --keep 1000 --clients packet,event "$PTAH_SOURCE"/tests/golden/*.txt
same --judge "$LIBIPT_2_3" --clients packet,event --mutate 1:20 "$PTAH_SOURCE"/tests/golden/*.txt
said "$LIBIPT_2_3" event-iflags >theirs.txt
cmp theirs.txt "$answers/events.txt" || fail "this libipt 2.3 answers otherwise"
