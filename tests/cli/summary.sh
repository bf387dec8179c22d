#!/bin/sh
# SPDX-License-Identifier: MIT
# A recording of many processes: stat begins with one summary, and what was not
# recorded is said where the recording is made and where it is read.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

record r.data sh -c 'for i in 1 2 3 4 5 6 7; do (exit "$i"); done; /bin/true; exit 0'
threads=$(sed -n 's/.* \([0-9]*\) threads.*/\1/p' closing)
[ "${threads:-0}" -ge 8 ] || fail "not enough processes: $(cat closing)"
expect 0 "$PTAH" stat r.data
equal "first line" "$(head -1 out)" "all $threads streams (--per-thread shows each)"
equal "one summary" "$(grep -c '^  instructions' out)" 1
equal "instructions" "$(tr -d , <out | awk '$1 == "instructions" { print $2 }')" "$recorded"
expect 0 "$PTAH" stat --per-thread r.data
equal "the summary comes first" "$(head -1 out)" "all $threads streams"
equal "parts" "$(grep -c '^  instructions' out)" $((threads + 1))
equal "their sum" "$(tr -d , <out |
	awk '$1 == "instructions" && seen++ { n += $2 } END { print n }')" "$recorded"
equal "shells" "$(grep -c '^sh [0-9]*/[0-9]*$' out)" $((threads - 1))
# JSON and TSV have both in any case.
for option in '' --per-thread; do
	# shellcheck disable=SC2086 # no word or one
	expect 0 "$PTAH" stat --format=json $option r.data
	equal "JSON" "$(json "len(d['streams']), d['instructions'], sum(s['instructions'] for s in d['streams'])")" \
		"$threads $recorded $recorded"
	# shellcheck disable=SC2086
	expect 0 "$PTAH" stat --format=tsv $option r.data
	equal "rows" "$(wc -l <out)" $((threads + 1))
done
# A stream that is alone is shown by its name.
expect 0 "$PTAH" stat --comm=true r.data
head -1 out | grep -q '^true [0-9]*/[0-9]*$' || fail "alone: $(head -1 out)"

# Children that are not recorded: the recorder says so, and so does stat, first.
"$PTAH" record --recorder=qemu -o lone.data --no-inherit -- sh -c '/bin/true; exit 0' 2>closing
grep -q 'note: .*left out' closing || fail "record does not say what it left out: $(cat closing)"
expect 0 "$PTAH" stat lone.data
head -1 out | grep -q '^note: .*left out' || fail "stat: $(head -3 out)"
expect 0 "$PTAH" stat --format=json lone.data
equal "JSON" "$(json "len([n for n in d['notes'] if 'left out' in n])")" 1
expect 0 "$PTAH" stat --format=tsv lone.data
grep -q '^note: .*left out' err || fail "TSV: $(cat err)"
"$PTAH" record --recorder=qemu -q -o lone.data --no-inherit -- sh -c '/bin/true; exit 0' 2>closing
[ ! -s closing ] || fail "-q: $(cat closing)"

# A recording that was cut says so first, too.
head -c $(($(wc -c <r.data) / 2)) r.data >cut.data
status=0
"$PTAH" stat cut.data >out 2>err || status=$?
equal "status of a cut recording" "$status" 1
head -1 out | grep -q '^note: .*cut.data' || fail "cut: $(head -3 out)"
