#!/bin/sh
# SPDX-License-Identifier: MIT
# The rows of script: TSV has one header and one kind of row in every mode, and time is
# in seconds in every format.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need qemu-x86_64

# leaf is called 5000 times; _start: 2 + 5000 * 3 + 3; leaf: 5000 * 2 instructions.
loop_program 5000
total=25005
"$PTAH" record --recorder=qemu -e intel_pt/mtc=1,cyc=1/u -o r.data -- ./program 2>/dev/null

# Every row has the columns of the header, in every mode, with and without time and events.
for mode in '' --branches --blocks --calls; do
	for time in '' --time; do
		for events in '' --events; do
			# shellcheck disable=SC2086 # words
			expect 0 "$PTAH" script --format=tsv $mode $time $events r.data
			equal "columns: $mode $time $events" \
				"$(awk -F '\t' '{ print NF }' out | sort -u | wc -l)" 1
			equal "headers: $mode $time $events" "$(grep -c '^tid' out)" 1
			case "$time $(head -1 out | cut -f 2)" in
			'--time time_s') ;;
			' time_s' | --time*) fail "$mode $time $events: $(head -1 out)" ;;
			esac
		done
	done
done
expect 0 "$PTAH" script --calls --format=tsv r.data
equal "columns of calls" "$(head -1 out)" \
	"$(printf 'tid\tmark\thow\tdepth\tcall\tip\tsite\tself_instructions\tnotes\tsymbol')"
# The trace begins with the first instruction of _start and ends in it; it calls leaf, which returns.
equal "calls" "$(awk -F '\t' 'NR > 1 { n[$2 " " $3 " " $4 " " $8 " " $10]++ }
	END { for (k in n) print k, n[k] }' out | sort)" "\
begin call 0  _start 1
begin call 1  leaf 5000
end return 1 2 leaf 5000
end trace-end 0 15005 _start 1"
# Addresses as the linker chose them: the call is 7 bytes after _start, leaf's ret one after leaf.
equal "sites" "$(awk -F '\t' 'NR > 1 && $4 == 1 { n[$2 " " $6 " " $7]++ }
	END { for (k in n) print k, n[k] }' out | sort | wc -l)" 2
expect 0 "$PTAH" script --calls --format=tsv --no-symbols r.data
equal "calls without names" "$(awk -F '\t' 'NR > 1 && NF == 10 && $10 == ""' out | wc -l)" 10002
expect 0 "$PTAH" script --calls --format=json r.data
equal "calls in JSON" "$(json "[(c['how'], c['depth'], c.get('self_instructions'), c['symbol'])
	for c in d['calls'][:3] + d['calls'][-1:]]")" \
	"[('call', 0, None, '_start'), ('call', 1, None, 'leaf'), ('return', 1, 2, 'leaf'), ('trace-end', 0, 15005, '_start')]"

# An instruction takes a nanosecond: the recorder's clock. So the last row's time is
# the number of instructions, whatever the format.
near() { # WHAT SECONDS
	echo "$2" | grep -q -x '[0-9]*\.[0-9]\{9\}' || fail "$1: \"$2\" are no seconds"
	awk -v got="$2" -v wanted=$total 'BEGIN {
		exit !(got * 1e9 > wanted * .99 && got * 1e9 < wanted * 1.01) }' ||
		fail "$1: $2 s at the end of $total instructions"
}
expect 0 "$PTAH" script --time r.data
near text "$(tail -1 out | awk '{ sub(/:$/, "", $3); print $3 }')"
for mode in '' --branches --blocks --calls; do
	# shellcheck disable=SC2086 # words
	expect 0 "$PTAH" script --time --format=tsv $mode r.data
	near "TSV $mode" "$(tail -1 out | cut -f 2)"
	# shellcheck disable=SC2086 # words
	expect 0 "$PTAH" script --time --format=json $mode r.data
	near "JSON $mode" "$(sed -n 's/.*"time_s": \([0-9.]*\).*/\1/p' out | tail -1)"
	equal "JSON $mode" "$(json "any('time' in row for row in list(d.values())[0])")" False
done

# Where no time is known, that is said: here the trace has no time stamps.
printf 'psb\npsbend\ntip.pge 0x401000\ntip.pgd 0x401001\n' >text
printf '\220\220\220\303' >code
expect 0 "$PTAH" asm -o trace text
"$PTAH" script --time --pt=trace --raw=code:401000 >out 2>err || :
grep -q 'no time is known' err || fail "no word about missing time: $(cat out err)"
expect 0 "$PTAH" script --time r.data
! grep -q 'no time is known' err || fail "time is known: $(cat err)"

# What the times are is said: they are instructions here, whichever packets there are.
grep -q 'note: the times are simulated' err || fail "no word on times: $(cat err)"
"$PTAH" record --recorder=qemu -o coarse.data -- ./program 2>/dev/null
expect 0 "$PTAH" script --time coarse.data
[ "$(awk '{ print $3 }' out | sort -u | wc -l)" -lt 10 ] || fail "times: $(head -3 out)"
"$PTAH" record --recorder=qemu -e intel_pt/mtc,cyc/u -o fine.data -- ./program 2>/dev/null
expect 0 "$PTAH" script --time fine.data
[ "$(awk '{ print $3 }' out | sort -u | wc -l)" -gt 1000 ] || fail "times: $(head -3 out)"

# What is not certain of a call stands there: without symbols nothing says where functions end.
need strip
strip -s -o bare program
"$PTAH" record --recorder=qemu -o bare.data -- ./bare 2>/dev/null
expect 0 "$PTAH" script --calls bare.data
equal "notes in text" "$(grep -c ' \[no-bounds\]$' out)" 10002
expect 0 "$PTAH" script --calls --format=tsv bare.data
equal "notes in TSV" "$(awk -F '\t' '$9 == "no-bounds"' out | wc -l)" 10002
expect 0 "$PTAH" script --calls --format=json r.data
equal "no notes" "$(json "any('notes' in c for c in d['calls'])")" False
