#!/bin/sh
# SPDX-License-Identifier: MIT
# Static analysis reports nothing, apart from what tools/cppcheck.suppressions
# lists with a reason.
set -eu
command -v cppcheck >/dev/null || { echo "SKIP: no cppcheck"; exit 77; }
cd "$PTAH_SOURCE"
mkdir -p "$PTAH_BUILD/cppcheck" # files that have not changed are not analysed again
exec cppcheck --quiet -j "$(nproc)" --cppcheck-build-dir="$PTAH_BUILD/cppcheck" \
	--std=c11 --language=c --enable=warning,portability,performance \
	--inline-suppr --error-exitcode=1 --suppressions-list=tools/cppcheck.suppressions \
	-D_GNU_SOURCE -D__GNUC__ -D__x86_64__ -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 -D__cppcheck__ \
	-Iinclude -Isrc -Icli -Icompat/libipt src port cli compat examples
