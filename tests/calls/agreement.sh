#!/bin/sh
# SPDX-License-Identifier: MIT
# All commands agree with each other and with the program on how often each function was called, in
# random programs: 30 in every check, or as many as PTAH_AGREEMENT_SEEDS says.
. "$PTAH_SOURCE/tests/record/common.sh"
command -v python3 >/dev/null || skip "no python3"
command -v gcc >/dev/null || skip "no gcc"

seeds=${PTAH_AGREEMENT_SEEDS:-30}
first=0
while [ "$first" -lt "$seeds" ]; do
	PYTHONDONTWRITEBYTECODE=1 python3 "$PTAH_SOURCE/tests/calls/agreement.py" "$PTAH" "$first" \
		$((first + 30)) || fail "seeds from $first on"
	first=$((first + 30))
done
