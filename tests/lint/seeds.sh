#!/bin/sh
# SPDX-License-Identifier: MIT
# The fuzzers' seeds and dictionary are what fuzz/seeds.c makes.
set -eu
rm -rf corpus
mkdir -p corpus/packet corpus/event corpus/flow corpus/pages corpus/elf corpus/perfdata corpus/reference corpus/profile corpus/counts corpus/coverage corpus/engine corpus/ring corpus/proc corpus/libipt_query corpus/libipt_walk
"$PTAH_BUILD/fuzz/fuzz-seeds" corpus packets.dict
cmp packets.dict "$PTAH_SOURCE/fuzz/packets.dict"
for seed in corpus/*/*; do
	cmp "$seed" "$PTAH_SOURCE/fuzz/$seed"
done
