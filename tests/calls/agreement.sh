#!/bin/sh
# SPDX-License-Identifier: MIT
# All commands agree with each other and with the program on how often each function was called, in
# random programs: 30 in every check, or as many as PTAH_AGREEMENT_SEEDS says. And with each other in
# whatever else ran: interpreters, short processes, exceptions in threads, code that changes.
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

# agree NAME COMMAND...
agree() {
	name=$1
	shift
	"$PTAH" record -q -o "$name.data" -- "$@" >out 2>&1 || fail "$name: $(cat out)"
	PYTHONDONTWRITEBYTECODE=1 python3 "$PTAH_SOURCE/tests/calls/agreement.py" "$PTAH" \
		"$name.data" || fail "$name"
	rm -f "/tmp/perf-$(sed -n 1p out).map"
}
gcc -O1 -o versions "$PTAH_SOURCE/tests/cli/versions.c"
gcc -O1 -o jit "$PTAH_SOURCE/tests/cli/jit.c"
agree versions ./versions
agree jit ./jit dump .
agree processes sh -c 'seq 30 | sort -n -r | tail -1; exit 0'
agree awk awk 'BEGIN { for (i = 0; i < 50; i++) s += sin(i); print s }'
