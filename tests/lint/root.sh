#!/bin/sh
# SPDX-License-Identifier: MIT
# The root of the source contains what is listed here and nothing else. The test
# that writes a corpus/ into its working folder refuses to run inside the source.
set -eu
cat >expected <<'END'
.ci
.clang-format
.gitignore
CHANGELOG.md
CMakeLists.txt
CMakePresets.json
CONTRIBUTING.md
LICENSE
Makefile
README.md
SECURITY.md
bench
cli
cmake
compat
completions
docs
examples
fuzz
include
packaging
port
scripts
src
tests
tools
END
git -C "$PTAH_SOURCE" ls-files >files 2>/dev/null || { echo "SKIP: not a checkout of git"; exit 77; }
sed 's|/.*||' files | LC_ALL=C sort -u >root
if ! diff expected root; then
	echo "the root's entries (>) are not those of the list in tests/lint/root.sh (<)"
	exit 1
fi

refused() { # FOLDER: seeds.sh fails there and prints why
	status=0
	(cd "$1" && PTAH_SOURCE=$source PTAH_BUILD=$source/build sh "$PTAH_SOURCE/tests/lint/seeds.sh") \
		>said 2>&1 || status=$?
	[ "$status" != 0 ]
	grep -q 'not inside the source' said
}
source=$PWD/source
mkdir -p source/build/folder source/fuzz
for folder in source source/fuzz; do
	refused "$folder" || { echo "seeds.sh runs in $folder"; exit 1; }
	[ ! -e "$folder/corpus" ]
done
if refused source/build/folder; then
	echo "seeds.sh refuses to run in a build folder"
	exit 1
fi
