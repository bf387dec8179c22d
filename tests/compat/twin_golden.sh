# SPDX-License-Identifier: MIT
# Every client over the golden cases gives the same with this library as with Debian's.
. "$PTAH_SOURCE/tests/compat/common.sh"

same --keep 1000 "$PTAH_SOURCE"/tests/golden/*.txt
