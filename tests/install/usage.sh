#!/bin/sh
# SPDX-License-Identifier: MIT
# The usage in the comments of each public header compiles, that of each comment in a file of its own.
# usage.txt declares the variables and functions that it takes for granted. "..." is left out, and so is what follows a statement after
# tabs or blanks, which is for people.
set -eu
usage=$PTAH_SOURCE/tests/install/usage.txt

# Writes the blocks of a header's comments that are code (indented by a tab, with a statement) to
# NAME.blocks, where NAME is what the comment begins with, up to a colon ("Call trees"), if usage.txt
# has a part of this name; otherwise it is "header".
blocks_of() {
	rm -f ./*.blocks
	awk -v header="$(basename "$1" .h)" '
	function put() { if (block ~ /\);/) printf "{\n%s}\n", block >name ".blocks"; block = "" }
	FILENAME ~ /usage.txt$/ { if (sub("^== " header ": ", "")) part[$0]; next }
	/^[ \t]*\/\*/ { put(); name = "header" }
	/^ \* [A-Z][A-Za-z ]*:/ { text = $0; sub(/^ \* /, "", text); sub(/:.*/, "", text); if (text in part) name = text }
	/^[ \t]*\*\t/ { line = $0; sub(/^[ \t]*\*\t/, "", line); block = block line "\n"; next }
	/^ \*$/ && block != "" { blank = 1; next }
	{ put() }
	END { put() }' "$usage" "$1"
	for blocks in ./*.blocks; do
		[ -e "$blocks" ] || continue
		sed -i -e 's/^\(.*;\)	.*$/\1/' \
			-e 's/^\(.*;\)  *(.*)$/\1/' -e 's/^\([	 ]*\)\.\.\.\( .*\)*$/\1;/' \
			-e 's/\.\.\.)/argument)/' -e 's/= \.\.\.;/= {0};/' "$blocks"
	done
}

checked=0 failed=0
for header in "$PTAH_SOURCE"/include/ptah/*.h "$PTAH_SOURCE"/include/ptah/engine/*.h \
	"$PTAH_SOURCE"/include/ptah/model/*.h; do
	blocks_of "$header"
	for blocks in ./*.blocks; do
		[ -e "$blocks" ] || continue
		part=$(basename "$blocks" .blocks)
		name=$(basename "$header" .h)
		[ "$part" = header ] || name="$name: $part"
		{
			echo "#include <${header#"$PTAH_SOURCE/include/"}>"
			echo '#include <stdio.h>'
			echo '#include <stdlib.h>'
			echo '#include <string.h>'
			echo '#include <unistd.h>'
			awk -v name="$name" '/^== / { on = $0 == "== all" || $0 == "== " name; next } on' "$usage"
			! grep -q '^int run(' "$blocks" ||
				{ sed -e '1d' -e '$d' "$blocks"; : >"$blocks"; }
			echo 'void usage(void)'
			echo '{'
			cat "$blocks"
			echo '}'
		} >"$name.c"
		"${PTAH_CC:-cc}" -std=c11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-but-set-variable \
			-Wno-unused-parameter -fno-builtin -Wno-unused-result -Wno-unused-variable -Wno-missing-prototypes -D_GNU_SOURCE -I"$PTAH_SOURCE/include" "$name.c" ||
			{ echo "the usage in ${header##*/} ($part) does not compile"; failed=1; }
		checked=$((checked + 1))
	done
done
[ $failed = 0 ]
[ $checked -ge 25 ] || { echo "only $checked usages"; exit 1; }
