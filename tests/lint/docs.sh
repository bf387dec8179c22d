#!/bin/sh
# SPDX-License-Identifier: MIT
# The guides name only what exists: the file of each link, each path in code
# font (below src/, tools/ and so on) and each function. The table of layers in
# docs/architecture.md is that of tools/layers.txt.
set -eu
cd "$PTAH_SOURCE"
bad=$(mktemp)
trap 'rm -f "$bad" "$bad".*' EXIT
export LC_ALL=C
find src include cli compat tests -name '*.[chd]*' -exec cat {} + | tr -cs 'A-Za-z0-9_' '\n' |
	sort -u >"$bad.words"

for page in *.md docs/*.md; do
	folder=$(dirname "$page")
	# Links: [text](target), except to other sites and to headings of the same page.
	grep -o '](\([^)#:]*\)[#)]' "$page" | sed 's/^](//; s/[#)]$//' | sort -u |
		while read -r target; do
			[ -z "$target" ] || [ -e "$folder/$target" ] || echo "$page: no $target"
		done >>"$bad"
	# Paths in code font, but for those of the kernel's own tree and placeholders (NAME).
	grep -oE '`(src|include|cli|compat|tests|fuzz|bench|tools|scripts|port|examples|docs|cmake|packaging)/[A-Za-z0-9_./-]*`' "$page" |
		tr -d '`' | grep -vE '^(include/uapi|tools/perf)/|NAME' | sort -u | while read -r path; do
			[ -e "$path" ] || echo "$page: no $path"
		done >>"$bad"
	# Ptah's functions; docs/architecture.md names no others.
	prefix=ptah_
	[ "$page" != docs/architecture.md ] || prefix=
	grep -oE "\`$prefix[a-z][a-z0-9_]*\(\)\`" "$page" | tr -d '`()' | sort -u >"$bad.named"
	comm -23 "$bad.named" "$bad.words" | sed "s|^|$page: no function |" >>"$bad"
done

sed -n 's/^| `\([a-z0-9]*\)` |.*| \([a-z0-9 -]*\) |$/\1: \2/p' docs/architecture.md |
	sed 's/: -$/:/' | sort >"$bad.told"
grep -E '^[a-z0-9]+:' tools/layers.txt | sort >"$bad.rule"
diff "$bad.rule" "$bad.told" >>"$bad" ||
	echo "docs/architecture.md's table (>) is not that of tools/layers.txt (<)" >>"$bad"

# A recipe ends with the tests to run.
awk '/^## |^### / { if (recipe && !runs) print "docs/architecture.md: no tests to run:" recipe; recipe = runs = "" }
	/^### Add/ { recipe = $0 }
	/^At the end: run `ctest / { runs = 1 }
	END { if (recipe && !runs) print "docs/architecture.md: no tests to run:" recipe }' \
	docs/architecture.md >>"$bad"

# Each format of ptah export has a row in docs/export.md, and a test.
sed -n 's/^EXPORT_FORMAT([A-Z]*, "\([a-z-]*\)", "\([a-z.]*\)".*/\1 \2/p' src/export/formats.def >"$bad.formats"
[ "$(wc -l <"$bad.formats")" -ge 10 ] || echo "formats.def is not read" >>"$bad"
while read -r name extension; do
	grep -q "^|.*ptah export -o [a-z]*$(echo "$extension" | sed 's/[.]/[.]/g')\`" docs/export.md ||
		echo "docs/export.md: no row for the format $name" >>"$bad"
	grep -qwF -e "$name" -e "$extension" tests/export/*.sh tests/export/*.py ||
		echo "tests/export: no test of the format $name" >>"$bad"
done <"$bad.formats"

if [ -s "$bad" ]; then
	cat "$bad"
	exit 1
fi
