# SPDX-License-Identifier: MIT
# Every client over the traces of real processors, as they are and with packets about time.
# Of long traces only the first part, as far as a limited number of calls gets.
. "$PTAH_SOURCE/tests/compat/common.sh"

[ -d "$PTAH_SHARED/traces" ] || skip "no traces of real processors here"
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --keep 20 --limit 200000 --pages "${pt%.pt}" "$pt"
	same --keep 20 --limit 200000 --timed --pages "${pt%.pt}" "$pt"
done
