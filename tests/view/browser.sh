#!/bin/sh
# SPDX-License-Identifier: MIT
# The pages of `ptah view` in a real browser (browser.py). The screenshots stay in the build folder.
set -eu
command -v python3 >/dev/null 2>&1 || {
	echo "SKIP: no python3"
	exit 77
}
exec python3 "$PTAH_SOURCE/tests/view/browser.py" "$PTAH_BUILD/screenshots"
