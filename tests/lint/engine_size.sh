#!/bin/sh
# SPDX-License-Identifier: MIT
# The capture engine stays small: it runs on the stacks of interrupts. The limits
# are a tenth above what gcc 12 and clang 14 make of it; who needs more raises
# them, with a reason. A kernel's frame limit is 2048 bytes at best, and in an
# NMI a handful of frames stand on one another.
set -eu
text_limit=40000 # bytes of code and constants, all files
data_limit=1100  # tables of pointers; nothing in it is ever written
stack_limit=448  # of the largest function

for compiler in gcc clang; do
	command -v "$compiler" >/dev/null || { echo "no $compiler"; continue; }
	CC=$compiler "$PTAH_SOURCE/tools/size-report" "$PTAH_SOURCE" >report
	awk -v compiler="$compiler" -v text="$text_limit" -v data="$data_limit" \
		-v stack="$stack_limit" '
		function too_much(what, n, limit) {
			if (n > limit) {
				print compiler ": " what " takes " n " bytes, the limit is " limit
				bad = 1
			}
		}
		$1 == "bytes" && $4 == "total" {
			too_much("code", $2, text)
			too_much("data", $3, data)
			print compiler ": code " $2 ", data " $3
			totals = 1
		}
		$1 == "stack" { too_much("the stack of " $3, $2, stack); stacks++ }
		$1 == "dynamic" { print compiler ": " $2 " has no bound"; bad = 1 }
		END { exit bad || !totals || stacks < 50 }' report
	sed -n '/^stack/{p;q;}' report
done
