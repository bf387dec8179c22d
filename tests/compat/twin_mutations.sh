# SPDX-License-Identifier: MIT
# Every client over damaged traces: the same answers, errors and all.
. "$PTAH_SOURCE/tests/compat/common.sh"

set -- "$PTAH_SOURCE"/tests/golden/*.txt
same --clients packet,query,event --mutate 1:20 "$@"
[ -d "$PTAH_SHARED/traces" ] || { echo "no traces of real processors here"; exit 0; }
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --clients packet,query,event --mutate 1:40 --pages "${pt%.pt}" "$pt"
	same --clients packet,query,event --mutate 2:40 --timed --pages "${pt%.pt}" "$pt"
done
