# SPDX-License-Identifier: MIT
# Every client over the traces of real processors, as they are and with packets about time.
. "$PTAH_SOURCE/tests/compat/common.sh"

[ -d "$PTAH_SHARED/traces" ] || skip "no traces of real processors here"
for pt in "$PTAH_SHARED"/traces/*.pt; do
	same --keep 20 --pages "${pt%.pt}" "$pt"
	same --keep 20 --timed --pages "${pt%.pt}" "$pt"
done
