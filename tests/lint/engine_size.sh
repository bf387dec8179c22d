#!/bin/sh
# SPDX-License-Identifier: MIT
# The capture engine stays small, because it runs on the stacks of interrupts. The
# limits are a tenth above its size with gcc 12 and clang 14; a commit that needs
# more raises them and gives a reason. A kernel allows 2048 bytes for a function's
# frame at most, and in an NMI several of the engine's functions call each other.
set -eu
text_limit=79000 # bytes of code and constants, all files
data_limit=1350  # tables of pointers, never written
stack_limit=448  # the largest frame of a function

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
