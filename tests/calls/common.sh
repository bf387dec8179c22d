# SPDX-License-Identifier: MIT
# Functions for the tests of calls: programs that log their own calls (programs/call_log.h), and the
# comparison of that list with Ptah's.
. "$PTAH_SOURCE/tests/record/common.sh"
command -v python3 >/dev/null || skip "no python3"
command -v gcc >/dev/null || skip "no gcc, which logs the calls"
command -v objdump >/dev/null || skip "no objdump (Debian: binutils)"

programs=$PTAH_SOURCE/tests/calls/programs

# build_log: makes call_log.o
build_log()
{
	gcc -std=c11 -D_GNU_SOURCE -O2 -fno-optimize-sibling-calls -Wall -Wextra -Werror -c \
		-o call_log.o "$programs/call_log.c"
}

# logged COMPILER NAME SOURCE [FLAGS]: makes ./NAME from programs/SOURCE, which logs its calls; a
# library (.so) uses the log of the program
logged()
{
	logged_compiler=$1 logged_name=$2 logged_source=$3
	shift 3
	[ -e call_log.o ] || build_log
	case $logged_name in
	*.so) logged_object= ;;
	*) logged_object=call_log.o ;;
	esac
	# shellcheck disable=SC2086 # nothing, or a name
	"$logged_compiler" -D_GNU_SOURCE -g -Wall -Wextra -Wno-infinite-recursion -pthread -fno-inline \
		-fno-ipa-icf -finstrument-functions -rdynamic -o "$logged_name" $logged_object \
		"$programs/$logged_source" "$@"
}

# record_log [OPTIONS] -- COMMAND...: records it into perf.data and its logs into log.*
record_log()
{
	rm -f log.*
	CALL_LOG=$PWD/log record "$@" || fail "recording $*: $?"
}

# same_calls OPTIONS -- OBJECTS: the calls in perf.data are those in log.*; they stay in calls.tsv
same_calls()
{
	"$PTAH" script -q --calls --format=tsv perf.data >calls.tsv || fail "script --calls: $?"
	python3 "$PTAH_SOURCE/tests/calls/compare.py" calls.tsv "$@" -- log.* ||
		fail "the calls are not those that the program logged"
}

# as_perf [OPTION]: the calls and returns in calls.tsv are those that perf lists for perf.data
as_perf()
{
	perf script --help >/dev/null 2>&1 || return 0
	perf script -i perf.data "$@" --itrace=cr -F +flags >perf.txt 2>perf.err
	python3 "$PTAH_SOURCE/tests/calls/perf_calls.py" perf.txt calls.tsv ||
		fail "the calls are not those that perf lists"
}
