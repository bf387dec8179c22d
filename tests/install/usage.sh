#!/bin/sh
# SPDX-License-Identifier: MIT
# The usage in the comments of each public header compiles. usage.txt declares the variables and
# functions that it takes for granted. "..." is left out, and so is what follows a statement after
# tabs or blanks, which is for people.
set -eu
usage=$PTAH_SOURCE/tests/install/usage.txt

# Prints the blocks of a header's comments that are code: indented by a tab, with a statement.
blocks_of() {
	awk '
	function put() { if (block ~ /\);/) printf "{\n%s}\n", block; block = "" }
	/^[ \t]*\*\t/ { line = $0; sub(/^[ \t]*\*\t/, "", line); block = block line "\n"; next }
	/^ \*$/ && block != "" { blank = 1; next }
	{ put() }
	END { put() }' "$1" |
		sed -e 's/^\(.*;\)	.*$/\1/' \
			-e 's/^\(.*;\)  *(.*)$/\1/' -e 's/^\([	 ]*\)\.\.\.\( .*\)*$/\1;/' \
			-e 's/\.\.\.)/argument)/' -e 's/= \.\.\.;/= {0};/'
}

checked=0 failed=0
for header in "$PTAH_SOURCE"/include/ptah/*.h; do
	name=$(basename "$header" .h)
	blocks_of "$header" >blocks
	[ -s blocks ] || continue
	{
		echo "#include <ptah/$name.h>"
		echo '#include <stdio.h>'
		echo '#include <stdlib.h>'
		echo '#include <string.h>'
		echo '#include <unistd.h>'
		awk -v name="$name" '/^== / { on = $2 == "all" || $2 == name; next } on' "$usage"
		! grep -q '^int run(' blocks || { sed -e '1d' -e '$d' blocks; : >blocks; }
		echo 'void usage(void)'
		echo '{'
		cat blocks
		echo '}'
	} >"$name.c"
	"${PTAH_CC:-cc}" -std=c11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-but-set-variable \
		-Wno-unused-parameter -fno-builtin -Wno-unused-result -Wno-unused-variable -Wno-missing-prototypes -D_GNU_SOURCE -I"$PTAH_SOURCE/include" "$name.c" ||
		{ echo "the usage in $name.h does not compile"; failed=1; }
	checked=$((checked + 1))
done
[ $failed = 0 ]
[ $checked -ge 25 ] || { echo "only $checked headers have a usage"; exit 1; }
