# SPDX-License-Identifier: MIT
# Functions for the tests of waits: programs that log what they waited for (programs/wait_log.h).
. "$PTAH_SOURCE/tests/record/common.sh"
command -v python3 >/dev/null || skip "no python3"

programs=$PTAH_SOURCE/tests/waits/programs

# waiting NAME: makes ./NAME from programs/NAME.c
waiting()
{
	"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread -o "$1" "$programs/$1.c"
}

# record_calls COMMAND...: records it natively, with its system calls, into ./perf.data
record_calls()
{
	record --recorder=native -- "$@" || fail "recording $*: $?"
	has_calls || skip "this recorder writes no system calls"
}

# has_calls: are there system calls in perf.data?
has_calls()
{
	"$PTAH" stat -q --format=json perf.data >stat.json 2>/dev/null || fail "stat: $?"
	python3 -c 'import json; exit(not json.load(open("stat.json"))["system_calls"])'
}
