# SPDX-License-Identifier: MIT
# Every client over damaged traces: the same answers, errors and all.
. "$PTAH_SOURCE/tests/compat/common.sh"

same --mutate 1:10 "$PTAH_SOURCE"/tests/golden/*.txt
[ -d "$PTAH_SHARED/traces" ] || { echo "no traces of real processors here"; exit 0; }
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --mutate 1:100 --pages "${pt%.pt}" "$pt"
	same --mutate 2:100 --timed --pages "${pt%.pt}" "$pt"
done
