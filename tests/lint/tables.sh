#!/bin/sh
# SPDX-License-Identifier: MIT
# The tables in the documentation are what tools/make-tables writes from
# include/ptah/*.def.
set -eu
CC=${CC:-cc} "$PTAH_SOURCE/tools/make-tables" made
find made -type f | while read -r file; do
	cmp "$file" "$PTAH_SOURCE/${file#made/}" || { echo "run tools/make-tables"; exit 1; }
done
[ -s made/docs/man/ptah-errata.7 ] && [ -s made/docs/packets.md ]
# Pages that name one erratum after the other would be a second list.
if grep -l 'SKD007.*SKL168' "$PTAH_SOURCE"/docs/man/*.1; then
	echo "the pages above list the errata: refer to ptah-errata(7)"
	exit 1
fi
