#!/bin/sh
# SPDX-License-Identifier: MIT
# The public headers are C11, C17, C++11 and C++20, pedantically, each alone and
# all together, for gcc and clang; and a C++ program that uses the shared
# library links, runs and gets the right answer.
set -eu
for compiler in gcc g++ clang clang++; do
	command -v "$compiler" >/dev/null || { echo "SKIP: no $compiler"; exit 77; }
done
. "$PTAH_SOURCE/tests/install/common.sh"

strict="-Wall -Wextra -Wpedantic -Werror -Iroot/usr/include -fsyntax-only"

# Every header in its own file, and the file that has them all, twice over.
mkdir headers
for header in root/usr/include/ptah/*.h root/usr/include/ptah/engine/*.h root/usr/include/ptah/model/*.h; do
	name=${header#root/usr/include/}
	{
		echo "#include <$name>"
		echo "extern int not_empty;"
	} >"headers/$(basename "$name" .h).c"
	! grep -q '^[^ /#*].*(.*;' "$header" || grep -q '^PTAH_BEGIN_DECLS' "$header" ||
		{ echo "$name: its functions are not extern \"C\""; exit 1; }
done
for header in root/usr/include/ptah/*.h root/usr/include/ptah/engine/*.h root/usr/include/ptah/model/*.h root/usr/include/ptah/*.h; do
	echo "#include <${header#root/usr/include/}>"
done >headers/all_together.c

for language in "gcc c c11" "gcc c c17" "clang c c11" "clang c c17" \
	"g++ c++ c++11" "g++ c++ c++20" "clang++ c++ c++11" "clang++ c++ c++20"; do
	# shellcheck disable=SC2086 # words
	set -- $language
	# shellcheck disable=SC2086
	"$1" -x "$2" -std="$3" $strict headers/*.c ||
		{ echo "a header is no $3 for $1"; exit 1; }
done

# shellcheck disable=SC2046,SC2086
g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror $sanitize -o program \
	"$PTAH_SOURCE/tests/install/program.cpp" $(pkg-config --cflags --libs ptah)
[ "$(./program)" = "6 blocks, 11 instructions" ] || { ./program; exit 1; }
