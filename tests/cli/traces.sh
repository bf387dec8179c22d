#!/bin/sh
# SPDX-License-Identifier: MIT
# Traces of real processors: the numbers of packets and instructions are those that
# libipt counted (the tables in the README of the traces).
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
traces=${PTAH_SHARED:-}/traces
[ -n "${PTAH_SHARED:-}" ] && [ -e "$traces/README.md" ] || skip "no traces of hardware (PTAH_SHARED)"

# row NAME COLUMNS: prints the row of NAME in the table with that many columns
row() {
	awk -F '|' -v name="$1" -v columns="$2" '
		{ gsub(/ /, "") }
		$2 == name && NF == columns + 2 { for (i = 3; i <= columns + 1; i++) print $i }
	' "$traces/README.md"
}

for name in mruby foo unzip; do
	input="--pt=$traces/$name.pt --pages=$traces/$name"
	# shellcheck disable=SC2086
	expect 0 "$PTAH" stat --format=json $input
	row "$name" 14 | tr '\n' ' ' >wanted
	json "' '.join(str(d['packets'].get(k, 0)) for k in ('pad', 'psb', 'psbend', 'fup', 'tip',
		'tip_pge', 'tip_pgd', 'tnt_8')) + ' ' + str(d['packets']['mode_exec'] +
		d['packets'].get('mode_tsx', 0)) + ' ' +
		' '.join(str(d['packets'].get(k, 0)) for k in ('pip', 'vmcs', 'cbr', 'ovf')) + ' '" |
		tr -d '\n' >got
	diff wanted got || fail "packets of $name"
	# Column 2 of the second table is of libipt 2.0.5, which found no errors.
	instructions=$(row "$name" 5 | head -1)
	equal "instructions of $name" "$(json "d['instructions']")" "$instructions"
	equal "errors of $name" "$(json "d['errors']")" 0
	equal "bad bytes of $name" "$(json "d['bad_bytes']")" 0

	# The dump contains every packet, and the script every instruction.
	packets=$(json "sum(d['packets'].values())")
	# shellcheck disable=SC2086
	equal "dump of $name" "$("$PTAH" dump $input | wc -l)" "$packets"
	# shellcheck disable=SC2086
	equal "script of $name" "$("$PTAH" script --no-symbols $input | grep -c -v '#')" "$instructions"
done
