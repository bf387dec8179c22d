#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples build against an installation, with pkg-config alone, and do
# what they say.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

for source in "$PTAH_SOURCE"/examples/*.c; do
	name=$(basename "$source" .c)
	lines=$(wc -l <"$source")
	[ "$lines" -lt 100 ] || { echo "$source has $lines lines; an example has less than 100"; exit 1; }
	# pkg-config's paths are made from the .pc file's own: nothing of the
	# source tree is in reach.
	# shellcheck disable=SC2046,SC2086
	"$CC" -std=c11 -Wall -Wextra -Werror $sanitize -o "$name" "$source" \
		$(pkg-config --cflags --libs ptah)
done

# mov, then dec and jnz five times, then syscall: 12.
[ "$(./synthesize | tail -n 1)" = "12 instructions" ]

# PSB, PSBEND, a TNT of three (taken, not taken, taken: 1 101 0), PAD.
printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043\032\000' >packets.pt
./packets <packets.pt >said
printf '%s\n' '0 PSB ' '16 PSBEND ' '18 TNT-8 TNT' '19 PAD ' | cmp - said

# Against the recorder's own count.
if ! command -v qemu-x86_64 >/dev/null; then
	echo "SKIP: no qemu-x86_64 to record with"
	exit 77
fi
root/usr/bin/ptah record -o true.data -- /bin/true
./count-instructions true.data >said
root/usr/bin/ptah verify --format=json true.data >verified
instructions=$(awk '{ print $NF }' said)
grep -q "\"instructions\": *$instructions\>" verified || { cat said verified; exit 1; }
