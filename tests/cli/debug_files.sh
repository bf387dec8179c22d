#!/bin/sh
# SPDX-License-Identifier: MIT
# Debug files: in perf's cache, and from a debuginfod server, which is only asked if the user wants
# that, and only for what is shown. The names are those that nm lists of the program before strip.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

mkdir home
export HOME="$PWD/home" DEBUGINFOD_CACHE_PATH="$PWD/fetched"
# A proxy is no way to a server on this machine.
unset DEBUGINFOD_URLS http_proxy all_proxy ALL_PROXY

cat >program.c <<'END'
#include <stdio.h>
static __attribute__((noinline)) int busiest(volatile int *x) { while (++*x % 20011) ; return *x; }
int main(void) { volatile int x = 0; return printf("%d\n", busiest(&x)) < 0; }
END
"${CC:-cc}" -g -O1 -fasynchronous-unwind-tables -Wl,--build-id -o whole program.c
strip -s -o program whole
nm whole | grep -q ' t busiest$' || fail "no busiest() to look for"
id=$(readelf -n whole | sed -n 's/.*Build ID: //p')
record perf.data ./program

# top [OPTION...]: the hottest function
top() {
	"$PTAH" report --limit=1 --format=tsv "$@" perf.data >out 2>err || fail "report $*: $(cat err)"
	awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "function") at = i }
		NR == 2 { print $at }' out
}

case $(top) in
fn_*) ;;
*) fail "stripped, but has a name: $(cat out)" ;;
esac

# perf's cache, as perf makes it
if command -v perf >/dev/null && perf buildid-cache --add "$PWD/whole" 2>perf.err &&
	[ -d "$HOME/.debug/.build-id" ]; then
	equal "with perf's cache" "$(top)" busiest
	rm -r "$HOME/.debug"
else
	echo "SKIP: perf's cache: no perf (Debian: linux-perf)"
fi

printf %s "$id" >id
serve debuginfo served

# asked N: so many files have been asked for, all of them the program's.
asked() {
	[ -e asked ] || : >asked
	[ "$(wc -l <asked)" = "$1" ] || fail "asked $2: $(cat asked)"
	! grep -v "^/buildid/$id/debuginfo$" asked || fail "asked for another file $2"
	rm asked
}

objcopy --only-keep-debug whole served
LD_DEBUG=files LD_DEBUG_OUTPUT=loaded "$PTAH" report perf.data >out
cat loaded.* >libraries
grep -q 'libdw' libraries || fail "the loader does not say what it loads"
! grep -q debuginfod libraries || fail "libdebuginfod is loaded without need"
DEBUGINFOD_URLS=$url top --no-debuginfod >no
equal "with --no-debuginfod" "$(cat no)" "$(top)"
asked 0 "although not allowed to"

# What the server sends must be the debug file of this program.
cp "$PTAH" served
case $(top --debuginfod="$url") in
busiest | main) fail "a debug file of another program is believed" ;;
esac
if grep -q 'not installed' err; then
	skip "no libdebuginfod.so.1 (Debian: libdebuginfod1)"
fi
asked 1 "for what another program has"
rm -r fetched

objcopy --only-keep-debug whole served
equal "from a server" "$(top --debuginfod="$url")" busiest
asked 1 "although only one row is shown"
rm -r fetched

# On a terminal the progress is a line that is gone when the report begins.
python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" 80 -- \
	"$PTAH" report --no-pager --limit=1 --debuginfod="$url" perf.data >shown
python3 -c 'import re, sys
sys.exit(not re.search(rb"asking servers for program.*\r {72}\r# ptah record", open("shown", "rb").read()))' ||
	fail "no progress, or it stays: $(cat shown)"
asked 1 "with progress"
rm -r fetched
equal "from DEBUGINFOD_URLS" "$(DEBUGINFOD_URLS=$url top)" busiest
asked 1 "with DEBUGINFOD_URLS"
equal "what was fetched before" "$(DEBUGINFOD_URLS=$url top)" busiest
asked 0 "for what is in the cache"

"$PTAH" report --debuginfod --limit=1 perf.data >out 2>err
grep -q 'no servers are known' err || fail "--debuginfod without servers: $(cat err)"
