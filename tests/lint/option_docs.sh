#!/bin/sh
# SPDX-License-Identifier: MIT
# The man pages' options and the shells' completions are those of the command:
# tools/option-docs has been run since its tables were changed.
set -eu
mkdir -p tree/docs
cp -r "$PTAH_SOURCE/docs/man" tree/docs
cp -r "$PTAH_SOURCE/completions" tree
"$PTAH_SOURCE/tools/option-docs" "$PTAH" tree
for folder in docs/man completions; do
	diff -r -u "$PTAH_SOURCE/$folder" "tree/$folder" || {
		echo "run tools/option-docs build/bin/ptah"
		exit 1
	}
done
# It does write what it is there for.
grep -q -F -e '\-\-no\-retcomp' tree/docs/man/ptah-record.1
for file in ptah.bash _ptah ptah.fish; do
	grep -q no-retcomp "tree/completions/$file" || { echo "$file has no options"; exit 1; }
done
