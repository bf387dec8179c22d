#!/bin/sh
# SPDX-License-Identifier: MIT
# Address filters and stop ranges. The judge is a recording of the same program without any: the
# traced instructions must be those that were executed in the ranges, one by one. The recorder native
# and qemu's trace the same in threads, handlers, libraries and children.
. "$PTAH_SOURCE/tests/record/common.sh"

build filter -static -no-pie

# listing: prints the addresses of all instructions in ./perf.data, in order
listing()
{
	"$PTAH" script --no-symbols --format=tsv | awk -F'\t' 'NR > 1 { print $2 }'
}

# place FUNCTION: "FIRST SIZE", from nm, decimal
place()
{
	nm -S filter | while read -r address size _ name; do
		[ "$name" != "$1" ] || echo $((0x$address)) $((0x$size))
	done
}

# inside FIRST SIZE...: prints those addresses of its input that are in one of the ranges
inside()
{
	perl -ne 'BEGIN { @r = @ARGV; @ARGV = () }
		for (my ($i, $a) = (0, hex($_)); $i < @r; $i += 2) {
			if ($a >= $r[$i] && $a < $r[$i] + $r[$i + 1]) { print; last }
		}' "$@"
}

# from_main: those of its input from the first instruction of main(). What libc does before depends on
# where the kernel put the stack (glibc's strlen() has another way for a string at the end of a page),
# so that two runs of a program differ there.
from_main()
{
	awk -v main="$(printf '0x%x' "$(place main | cut -d' ' -f1)")" '$1 == main { on = 1 } on'
}

filtered()
{
	# shellcheck disable=SC2086 # words
	record $recorder "$@" -- ./filter 12000 >/dev/null || fail "$*: not recorded"
	exact
	perf_agrees
	listing >part.txt
	[ -s part.txt ] || fail "$*: nothing was traced"
}

same()
{
	cmp -s expected.txt part.txt ||
		fail "$recorder: $1: $(wc -l <part.txt) instructions, expected $(wc -l <expected.txt)"
}

# With $recorder: options that name one.
ranges()
{
	# shellcheck disable=SC2086 # words
	record $recorder -- ./filter 12000 >/dev/null
	exact
	listing >all.txt

	# One function, by name: of the program itself, and of a file that is named.
	# shellcheck disable=SC2046 # two words
	inside $(place leaf) <all.txt >expected.txt
	filtered --filter 'filter leaf'
	same leaf
	filtered --filter 'filter leaf@./filter' --no-retcomp
	same leaf

	# Two ranges; one by its addresses.
	# shellcheck disable=SC2046
	set -- $(place middle)
	# shellcheck disable=SC2046
	inside $(place leaf) "$@" <all.txt >expected.txt
	filtered --filter "filter leaf , filter $1/$2"
	same 'leaf and middle'

	# From one symbol to another, in the order of their addresses.
	# shellcheck disable=SC2046
	set -- $(place leaf) $(place middle)
	if [ "$1" -lt "$3" ]; then
		inside "$1" $(($3 + $4 - $1)) <all.txt >expected.txt
		filtered --filter 'filter leaf / middle'
	else
		inside "$3" $(($1 + $2 - $3)) <all.txt >expected.txt
		filtered --filter 'filter middle / leaf'
	fi
	same 'leaf to middle'

	# What only runs in a handler.
	# shellcheck disable=SC2046
	inside $(place handler) <all.txt >expected.txt
	filtered --filter 'filter handler'
	same handler

	# Stop: what was executed before the stop range was reached.
	# shellcheck disable=SC2046
	finish=$(printf '0x%x' $(place finish | cut -d' ' -f1))
	awk -v stop="$finish" '$1 == stop { exit } { print }' all.txt >expected.txt
	filtered --filter 'stop finish'
	[ "$(head -n 1 part.txt)" = "$(head -n 1 expected.txt)" ] || fail 'stop at finish: not from the start'
	for list in expected part; do
		from_main <$list.txt >more.txt && mv more.txt $list.txt
	done
	[ -s part.txt ] || fail 'stop at finish: main() was not traced'
	same 'stop at finish'

	# Both: only `leaf`, and up to `finish`.
	# shellcheck disable=SC2046
	inside $(place leaf) <expected.txt >more.txt && mv more.txt expected.txt
	filtered --filter 'filter leaf, stop finish'
	same 'leaf, stop at finish'

	# A whole file that is mapped later, and the file's name in the recording.
	if ldd /bin/true 2>/dev/null | grep -q libc.so; then
		libc=$(ldd /bin/true | awk '/libc\.so/ { print $3 }')
		# shellcheck disable=SC2086
		record $recorder --filter "filter *@$libc" -- /bin/true
		exact
		"$PTAH" report --format=tsv >report.tsv
		awk -F'\t' 'NR > 1 { print $0 }' report.tsv | grep -v 'libc' && fail "more than libc"
		grep -q libc report.tsv || fail "nothing of libc"
	fi
}

recorder=--recorder=qemu
ranges

# With packets that the recorder native does not have, which take another path through qemu's.
# shellcheck disable=SC2046
inside $(place leaf) <all.txt >expected.txt
filtered --filter 'filter leaf' --long-tnt
same leaf
# shellcheck disable=SC2046
inside $(place handler) <all.txt >expected.txt
filtered -e intel_pt/cyc=1,mtc=1,mtc_period=3/u --filter 'filter handler'
same 'handler, with time'

# counts FILTER COMMAND...: how many instructions were traced, thread by thread
counts()
{
	counted=$1
	shift
	# shellcheck disable=SC2086
	record $recorder --filter "$counted" -- "$@" >/dev/null || fail "$recorder: $counted: $*"
	exact
	perf_agrees
	"$PTAH" verify --all --format=tsv perf.data |
		awk -F'\t' 'NR > 1 && $4 ~ /^[0-9]+$/ && $4 > 0 { print $4 }' | sort -n
}

if "$PTAH" record --recorder=native --dry-run -- true >said.txt 2>&1; then
	recorder='--recorder=native --truth'
	ranges

	build ranges -pie -fPIE -ldl
	"$CC" -std=c11 -O1 -Wall -Wextra -Werror -fPIC -shared -o work.so "$programs/work.c"
	for ranges in 'filter leaf' 'filter caller' 'filter handler' 'filter work@./work.so' \
		'filter leaf, filter handler, filter main, filter work@./work.so' \
		'filter leaf, stop stopper'; do
		recorder=--recorder=qemu
		counts "$ranges" ./ranges ./work.so again >expected.txt
		recorder='--recorder=native --truth'
		counts "$ranges" ./ranges ./work.so again >part.txt
		[ -s part.txt ] || fail "$ranges: nothing was traced"
		same "$ranges"
	done

	# A process that runs already.
	./filter 4000000000 >/dev/null &
	running=$!
	trap 'kill $running' EXIT
	# shellcheck disable=SC2086
	record $recorder --filter 'filter leaf@./filter' --max-size=100K -p $running ||
		fail 'not attached to'
	exact
	listing >all.txt
	[ -s all.txt ] || fail 'nothing of the running process was traced'
	# shellcheck disable=SC2046
	inside $(place leaf) <all.txt >expected.txt
	cmp -s all.txt expected.txt || fail 'more than leaf of the running process'
fi

# Filters that make no sense are refused, and the program is not run.
refused()
{
	status=0
	"$PTAH" record -o no.data "$@" -- touch ran >said.txt 2>&1 || status=$?
	[ "$status" -ne 0 ] || fail "not refused: $*"
	[ ! -e ran ] || fail "$*: ran nevertheless"
	[ ! -e no.data ] || fail "$*: a file was left"
	[ -s said.txt ] || fail "$*: no word why"
}
refused --filter 'start main'
refused --filter 'filter no_such_function@./filter'
refused --filter 'filter 0x10'
refused --filter 'filter 0x10/0'
refused --filter 'filter leaf@./nowhere'
refused --filter 'filter 1/1,filter 2/1,filter 3/1,filter 4/1,filter 5/1'
refused --filter 'filter 0x10/0x10@'
refused -e intel_pt//k
refused -e intel_pt/mtc_period=16/
refused -e cycles
