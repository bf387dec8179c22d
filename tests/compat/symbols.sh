#!/bin/sh
# SPDX-License-Identifier: MIT
# libipt.so.2 has the right soname and exports libipt 2.3's 87 functions, which include
# all of Debian's, and nothing else; without symbol versions, like the original.
set -eu
library=$PTAH_BUILD/lib/libipt/libipt.so.2
[ -e "$library" ] || { echo "SKIP: no $library"; exit 77; }

readelf -d "$library" | grep -F 'soname: [libipt.so.2]'
nm -D --defined-only "$library" | awk '{ print $2, $3 }' | LC_ALL=C sort >exported
if grep -v '^T pt_[a-z_]*$' exported; then
	echo "exported, and none of libipt's functions"
	exit 1
fi
cut -c3- exported >names
sed -n 's/.*\(pt_[a-z_]*\)(.*/\1/p' "$PTAH_SOURCE/compat/libipt/intel-pt.h" | LC_ALL=C sort -u >said
# The functions that the header declares, without its inline ones.
LC_ALL=C comm -23 names said | sed 's/^/not in the header: /' >strays
[ ! -s strays ] || { cat strays; exit 1; }
[ "$(wc -l <names)" -eq 87 ] || { echo "$(wc -l <names) functions, not 87"; exit 1; }
[ -e "${LIBIPT:-/nonexistent}" ] || { echo "no libipt to compare with"; exit 0; }
nm -D --defined-only "$LIBIPT" | awk '$3 ~ /^pt_/ { print $3 }' | LC_ALL=C sort >original
LC_ALL=C comm -13 names original >missing
[ ! -s missing ] || { echo "not exported:"; cat missing; exit 1; }
[ "$(wc -l <original)" -gt 70 ]
