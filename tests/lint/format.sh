#!/bin/sh
# SPDX-License-Identifier: MIT
# The layout of the source is what clang-format 14 makes of it.
set -eu
format=$(command -v clang-format-14) || { echo "SKIP: no clang-format-14"; exit 77; }
cd "$PTAH_SOURCE"
find include src port cli compat tests fuzz bench examples -name '*.[ch]' -exec "$format" --dry-run -Werror {} +
