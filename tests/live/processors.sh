#!/bin/sh
# SPDX-License-Identifier: MIT
# The trace of processors is decoded while it comes, round by round, and afterwards as a file: both
# count the same, and where time stamps leave no doubt, as many instructions as ran.
# tests/live/follow.c compares; make_processors.c makes the recordings up.
. "$PTAH_SOURCE/tests/record/common.sh"

# Most of the trace is decoded before the recording ends.
decoded_early()
{
	awk '/wait for the end/ { waits = $1 } / bytes of trace,/ { all = $1 }
		END { exit !(all && waits < all / 5) }' "$1"
}

for options in - t v tv s ts sv tsv; do
	for seed in 1 2 3 4 5 6; do
		"$PTAH_BUILD/tests/make_processors" "$seed" "x$options" >made.data 2>truth
		for how in "-c 64" "-c 100000" "-c 5000 -j 2" "-c 64 -q 1000" "-c 5000 -j 1 -q 1000"; do
			# shellcheck disable=SC2086 # several options
			"$PTAH_BUILD/tests/follow" -w 1 $how -i made.data <made.data >out 2>&1 ||
				fail "$options $seed $how: $(tail -n 12 out)"
		done
		"$PTAH_BUILD/tests/follow" -w 1 -c 64 -i made.data <made.data >out 2>&1
		decoded_early out || fail "$options $seed: decoded late: $(cat out)"
		case $options in
		*v*) ;;
		*)
			grep -q " $(cat truth), 0 errors" out ||
				fail "$options $seed: $(cat truth) ran: $(cat out)"
			;;
		esac
	done
done
