#!/bin/sh
# SPDX-License-Identifier: MIT
# An installation has what a user needs: the examples build against it with
# pkg-config alone, the library exports the public functions and no others, and
# every subcommand has its man page.
set -eu

rm -rf root
DESTDIR=$PWD/root cmake --install "$PTAH_BUILD" --prefix /usr >log 2>&1 || { cat log; exit 1; }
pc=$(find root -name ptah.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(dirname "$(find "$PWD/root" -name libptah.so)")
export LD_LIBRARY_PATH

# The public headers are self-contained, each on its own, in strict C11.
for header in root/usr/include/ptah/*.h; do
	echo "#include <ptah/${header##*/}>" |
		"$CC" -std=c11 -pedantic-errors -Wall -Wextra -Werror -Iroot/usr/include \
			-x c -fsyntax-only -
done

# Exports: what the headers declare, nothing else, nothing missing.
cat root/usr/include/ptah/*.h | grep -o '\<ptah_[a-z_0-9]*(' | tr -d '(' | sort -u >mentioned
for name in $(nm -D --defined-only "$LD_LIBRARY_PATH/libptah.so" | awk '{ print $3 }'); do
	grep -q -x "$name" mentioned || { echo "exported, but in no header: $name"; exit 1; }
done
tr '\n' ' ' <"$PTAH_SOURCE/include/ptah/ptah.h" >/dev/null
for header in root/usr/include/ptah/*.h; do
	tr '\n' ' ' <"$header" | sed 's/PTAH_API/\n&/g' |
		sed -n 's/^PTAH_API [^;]*\<\(ptah_[a-z_0-9]*\)(.*/\1/p'
done | sort -u >declared
nm -D --defined-only "$LD_LIBRARY_PATH/libptah.so" | awk '{ print $3 }' | sort -u >exported
if ! comm -23 declared exported | awk '{ print "declared, but not exported: " $0; bad = 1 } END { exit bad }'
then
	exit 1
fi
