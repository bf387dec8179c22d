#!/bin/sh
# SPDX-License-Identifier: MIT
# Every pair of code in docs/migrating-from-libipt.md builds, and both do the same: with
# Ptah's intel-pt.h and library, and with Debian's.
set -eu
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' \
	"$PTAH_SOURCE/docs/migrating-from-libipt.md" >guide.h
[ -s guide.h ]
"$PTAH" record -q --recorder=qemu -o recording -- /bin/echo hello >hello
sanitize=${PTAH_SANITIZE:+-fsanitize=$PTAH_SANITIZE}

run() { # OPTION...
	# shellcheck disable=SC2086
	"$PTAH_CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror $sanitize -I. -o guide \
		"$PTAH_SOURCE/tests/compat/guide.c" -I"$PTAH_SOURCE/include" "$@" \
		-L"$PTAH_BUILD/lib" -lptah
}
mine=$PTAH_BUILD/lib/libipt
run -I"$PTAH_SOURCE/compat/libipt" -L"$mine" -lipt
LD_LIBRARY_PATH=$mine:$PTAH_BUILD/lib ./guide recording >said
[ "$(head -n 1 said)" = ptah ] || { cat said; exit 1; }
[ -e /usr/include/intel-pt.h ] || exit 0
run -lipt
LD_LIBRARY_PATH=$PTAH_BUILD/lib ./guide recording >theirs
sed 1d said >mine && sed 1d theirs | cmp - mine
