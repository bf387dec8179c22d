#!/bin/sh
# SPDX-License-Identifier: MIT
# libptah.so exports the functions that the public headers declare with PTAH_API, each with the
# version of the release, and nothing else: neither data nor a function of the inside.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"
library=$libdir/libptah.so

# Before 1.0 the symbols' version is the release's major and minor number.
release=$(sed -n 's/^project(ptah VERSION \([0-9]*\.[0-9]*\)\..*/\1/p' "$PTAH_SOURCE/CMakeLists.txt")
version=PTAH_$release
[ -n "$release" ]

# The function's name precedes the first parenthesis after PTAH_API.
for header in root/usr/include/ptah/*.h; do
	tr '\n' ' ' <"$header"
	echo
done | sed 's/PTAH_API/\n&/g' |
	sed -n 's/^PTAH_API [^;(]*\<\(ptah_[a-z_0-9]*\)(.*/\1/p' >functions
LC_ALL=C sort functions | uniq -d | sed 's/^/declared twice: /' >twice
[ ! -s twice ] || { cat twice; exit 1; }
sed "s/.*/T &@@$version/" functions | LC_ALL=C sort >declared
[ "$(wc -l <declared)" -gt 200 ] || { echo "only $(wc -l <declared) declarations"; exit 1; }

# The version itself is a symbol as well (A).
nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $2, $3 }' |
	grep -v "^A $version" | LC_ALL=C sort >exported
if ! cmp -s declared exported; then
	echo "declared (<) and exported (>) differ:"
	diff declared exported
fi

# A program asks for the version that it was linked with.
cat >version.c <<'END'
#include <ptah/ptah.h>

int main(void)
{
	return !ptah_version();
}
END
# shellcheck disable=SC2046,SC2086
"$PTAH_CC" $sanitize -o version version.c $(pkg-config --cflags --libs ptah)
./version
nm -D --undefined-only --with-symbol-versions version | grep -q " U ptah_version@$version\$" ||
	{ nm -D --with-symbol-versions version; exit 1; }
