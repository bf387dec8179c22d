#!/bin/sh
# SPDX-License-Identifier: MIT
# The seeds of the fuzzers are what fuzz/seeds.c and its seeds_*.c write.
set -eu
# The corpus/ that this test writes must not be mistaken for a part of the source.
case $PWD/ in
"$PTAH_SOURCE"/) inside=1 ;;
"$PTAH_BUILD"/*) inside= ;;
"$PTAH_SOURCE"/*) inside=1 ;;
*) inside= ;;
esac
[ -z "$inside" ] || { echo "seeds.sh: run it in an empty folder, not inside the source"; exit 1; }

rm -rf corpus
(cd "$PTAH_SOURCE/fuzz" && find corpus -type d) | xargs mkdir -p
"$PTAH_BUILD/fuzz/fuzz-seeds" corpus
for seed in corpus/*/*; do
	cmp "$seed" "$PTAH_SOURCE/fuzz/$seed"
done
