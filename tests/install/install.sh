#!/bin/sh
# SPDX-License-Identifier: MIT
# An installation has what a user needs: headers that stand on their own, the
# command with its plugin, and a man page for every subcommand.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

for header in root/usr/include/ptah/*.h root/usr/include/ptah/engine/*.h root/usr/include/ptah/model/*.h; do
	printf "#include <%s>\nextern int not_empty;\n" "${header#root/usr/include/}" |
		"$CC" -std=c11 -pedantic-errors -Wall -Wextra -Werror -Iroot/usr/include \
			-x c -fsyntax-only -
done

# ptah.h includes all of the library, and there are at most 16 headers of it.
for header in root/usr/include/ptah/*.h; do
	name=${header##*/}
	case $name in
	ptah.h) continue ;;
	esac
	grep -q "^#include <ptah/$name>" root/usr/include/ptah/ptah.h ||
		{ echo "ptah.h does not include $name"; exit 1; }
done
[ "$(find root/usr/include/ptah -maxdepth 1 -name '*.h' | wc -l)" -le 16 ]

# The command, run from where it is installed, finds its plugin; each
# subcommand it names in its help has a man page.
ptah=root/usr/bin/ptah
"$ptah" --help >help
test -e "$(find root -name ptah-qemu.so | head -n 1)"
# The web server's library, which takes a millisecond to load, is left to `ptah view`.
if readelf -d "$ptah" | grep -q 'NEEDED.*microhttpd'; then
	echo "the command is linked with libmicrohttpd"
	exit 1
fi
for name in record dump script report stat verify; do
	grep -q "^ *$name\>" help || { echo "ptah --help does not tell of $name"; exit 1; }
	test -s "root/usr/share/man/man1/ptah-$name.1" || { echo "no man page ptah-$name.1"; exit 1; }
done
test -s root/usr/share/man/man5/ptah-trace.5 # the other pages refer to these four
test -s root/usr/share/man/man7/ptah-errata.7
test -s root/usr/share/man/man7/ptah-ptxed.7
test -s root/usr/share/doc/ptah/packets.md
