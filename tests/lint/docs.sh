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

if [ -s "$bad" ]; then
	cat "$bad"
	exit 1
fi
