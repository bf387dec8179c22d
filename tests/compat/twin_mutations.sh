# SPDX-License-Identifier: MIT
# Every client over damaged traces: the same answers, errors and all. Of long
# traces the first part, which each client may make so many calls in.
. "$PTAH_SOURCE/tests/compat/common.sh"

same --mutate 1:2 "$PTAH_SOURCE"/tests/golden/*.txt
[ -d "$PTAH_SHARED/traces" ] || { echo "no traces of real processors here"; exit 0; }
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --mutate 1:20 --limit 20000 --pages "${pt%.pt}" "$pt"
	same --mutate 2:10 --limit 20000 --timed --pages "${pt%.pt}" "$pt"
done
