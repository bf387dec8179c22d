# SPDX-License-Identifier: MIT
# Every client over the traces of real processors, as they are and with packets about time.
# Of long traces only the first part, as far as a limited number of calls gets: at night four times as
# far.
. "$PTAH_SOURCE/tests/compat/common.sh"

limit=50000
[ -z "${PTAH_NIGHTLY:-}" ] || limit=200000

[ -d "$PTAH_SHARED/traces" ] || skip "no traces of real processors here"
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --keep 20 --limit $limit --pages "${pt%.pt}" "$pt"
	same --keep 20 --limit $limit --timed --pages "${pt%.pt}" "$pt"
done
