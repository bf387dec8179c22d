#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/<layer>/test_<file>.c tests <file>.c or <file>.h in src/<layer>/ or in a
# folder below it (tests/compat: in compat/). A test of no single file is marked
# LAYER in tests/<layer>/CMakeLists.txt.
set -eu

judge() { # SOURCE
	for test in "$1"/tests/*/test_*.c; do
		file=$(basename "$test" .c)
		folder=$(dirname "$test")
		layer=$(basename "$folder")
		sources=$1/src/$layer
		[ "$layer" != compat ] || sources=$1/compat
		[ -d "$sources" ] || sources=
		found=${sources:+$(find "$sources" -name "${file#test_}.[ch]")}
		marked=$(grep -s -h -E "^ptah_add_test\(([a-z]*/)?$file\.c LAYER( |\))" "$folder/CMakeLists.txt" \
			"$1/tests/CMakeLists.txt" || :)
		if [ -z "$found$marked" ]; then
			echo "tests/$layer/$file.c: no ${file#test_}.c below src/$layer/: LAYER?"
		elif [ -n "$found" ] && [ -n "$marked" ]; then
			echo "tests/$layer/$file.c: is marked LAYER, and there is ${found#"$1"/}"
		fi
	done
}

judge "$PTAH_SOURCE" >said
[ ! -s said ] || { cat said; exit 1; }

# The test can fail: it notices a test without its file, and a mark without a reason.
mkdir -p tree/src/flow/deep tree/tests/flow
touch tree/src/flow/deep/walk.c tree/src/flow/gap.c tree/tests/flow/test_walk.c \
	tree/tests/flow/test_gap.c tree/tests/flow/test_gone.c tree/tests/flow/test_whole.c
printf 'ptah_add_test(test_%s.c LAYER)\n' gap whole >tree/tests/flow/CMakeLists.txt
judge tree >said
[ "$(sed 's/:.*//' said | xargs)" = "tests/flow/test_gap.c tests/flow/test_gone.c" ] ||
	{ echo "of the tree that breaks the rule twice:"; cat said; exit 1; }
