#!/bin/sh
# SPDX-License-Identifier: MIT
# A recording of several programs: they are chosen and shown by pid and by name.
. "$PTAH_SOURCE/tests/cli/common.sh"

# Two programs in one process, and a third one in a child.
record r.data sh -c '/bin/true; exec /bin/echo ran'
# What the recorder counted, by name.
expect 0 "$PTAH" verify --all --format=tsv r.data
awk -F'\t' 'NR > 1 { print $1, $3, $4 }' out >ran
ran_of() {
	awk -v name="$1" '$2 == name { n += $3 } END { print n + 0 }' ran
}
echo_pid=$(awk '$2 == "echo" { print $1 }' ran)
equal "processes of echo" "$(awk '$2 == "sh" { print $1 }' ran | grep -c -x "$echo_pid")" 1

for name in sh true echo; do
	[ "$(ran_of $name)" -gt 0 ] || fail "no $name: $(cat ran)"
	expect 0 "$PTAH" stat --comm=$name --format=json r.data
	equal "instructions of $name" "$(json 'd["instructions"]')" "$(ran_of $name)"
	expect 0 "$PTAH" report -n 0 --format=json r.data
	equal "report of $name" \
		"$(json "sum(p['instructions'] for p in d['programs'] if p['comm'] == '$name')")" \
		"$(ran_of $name)"
	expect 0 "$PTAH" profile --by=blocks -n 0 --format=tsv --no-symbols r.data
	equal "blocks of $name" "$(awk -F'\t' -v name=$name \
		'NR > 1 && $8 == name { n += $5 } END { print n + 0 }' out)" "$(ran_of $name)"
done
expect 0 "$PTAH" stat --pid="$echo_pid" --format=json r.data
equal "a process" "$(json 'd["instructions"]')" \
	"$(awk -v pid="$echo_pid" '$1 == pid { n += $3 } END { print n }' ran)"
expect 1 "$PTAH" stat --pid=1 --comm=nobody r.data
grep -q 'no stream of process 1 of a thread named nobody' err || fail "$(cat err)"

# Output and saved counts have real pids, and programs stay separate when counts are added up.
expect 0 "$PTAH" cover --format=blocks --no-symbols r.data
equal "cover's processes" "$(awk -F'\t' 'NR > 1 { print $4, $8 }' out | sort -u)" \
	"$(awk '{ print $1, $2 }' ran | sort -u)"
expect 0 "$PTAH" profile --save=one r.data
expect 0 "$PTAH" profile --by=blocks -n 0 --format=tsv --no-symbols one one
equal "saved processes" "$(awk -F'\t' 'NR > 1 { n[$1 " " $8] += $5 }
	END { for (k in n) print k, n[k] / 2 }' out | sort)" \
	"$(awk '{ n[$1 " " $2] += $3 } END { for (k in n) print k, n[k] }' ran | sort)"
expect 2 "$PTAH" profile --comm=sh one

# With --quiet, equal threads appear only in the total.
expect 0 "$PTAH" verify --all -q r.data
equal "verify -q" "$(sed 's/\([0-9]\),/\1/g' out)" \
	"$(wc -l <ran) threads: decoded exactly what ran, $recorded instructions"
