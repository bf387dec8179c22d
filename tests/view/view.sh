#!/bin/sh
# SPDX-License-Identifier: MIT
# The command ptah view: what it prints and opens, how it ends, and that -o leaves nothing half.
set -eu

fail() {
	echo "$*"
	exit 1
}
"$PTAH" record -q --recorder=qemu -o perf.data -- /bin/true 2>/dev/null || {
	echo "SKIP: the recorder qemu does not work here"
	exit 77
}

# get ADDRESS: prints the address that answered in the end, the status, and the beginning of the body.
get() {
	python3 - "$1" <<-'END'
	import sys, urllib.error, urllib.request
	direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
	try:
	    with direct.open(sys.argv[1], timeout=600) as answer:
	        print(answer.geturl(), answer.status, answer.read(40))
	except urllib.error.HTTPError as problem:
	    print(problem.geturl(), problem.code, problem.read(40))
	END
}

# until_line FILE: waits until the file is there and has something in it.
until_line() {
	for _ in $(seq 30000); do
		[ ! -s "$1" ] || return 0
		sleep 0.02
	done
	fail "waited in vain for $1"
}

# The browser gets an address that is good for once, and leads to the one that is printed.
printf '#!/bin/sh\necho "$#$1" >opened.new && mv opened.new opened\n' >browser
chmod +x browser
BROWSER="$PWD/browser:no-such-browser" "$PTAH" view perf.data >address 2>messages &
server=$!
until_line address
until_line opened
address=$(cat address)
ticket=$(sed 's/^1//' opened)
echo "$address" | grep -q -E '^http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/$' || fail "printed: $address"
[ "$ticket" != "$address" ] || fail "the browser's arguments have the token"
case $(get "$ticket") in
"$address 200 b'<!DOCTYPE html>"*) ;;
*) fail "of the ticket came: $(get "$ticket")" ;;
esac
case $(get "$ticket") in
"$ticket 404 "*) ;;
*) fail "the ticket was good twice" ;;
esac
case $(get "${address}api/info") in
"${address}api/info 200 b'{"*) ;;
*) fail "of api/info came: $(get "${address}api/info")" ;;
esac
case $(get "${address%????/}0000/") in
*" 404 "*) ;;
*) fail "another token was good" ;;
esac

# The port is taken now, and another server says so.
port=${address#http://127.0.0.1:}
port=${port%%/*}
if "$PTAH" view --no-browser --port="$port" perf.data >out 2>err; then
	fail "two servers at one port"
fi
grep -q "127.0.0.1:$port: .*in use" err || fail "$(cat err)"

# Ctrl-C is the way to end it. ("&" in a script makes a command ignore it; ptah view does not.)
kill -INT $server
wait $server || fail "after Ctrl-C the status is $?"
[ ! -s messages ] || fail "$(cat messages)"
case $(get "$address" 2>&1) in
*refused*) ;;
*) fail "it still serves" ;;
esac

# SIGTERM ends it as well. Without a screen and $BROWSER nothing is opened.
rm opened address
env -u BROWSER -u DISPLAY -u WAYLAND_DISPLAY "$PTAH" view --port=0 perf.data >address 2>messages &
server=$!
until_line address
kill -TERM $server
wait $server || fail "after SIGTERM the status is $?"
[ ! -s messages ] || fail "$(cat messages)"

# One file; what was there before stays if it cannot be made; nothing half is left.
"$PTAH" view -o page.html perf.data
grep -q '<script type="application/json" id="ptah-index">' page.html
cp page.html before.html
if "$PTAH" view -o page.html --max-size=1K perf.data 2>err; then
	fail "a page of 1 KB"
fi
grep -q -e '--max-size=1024' err || fail "$(cat err)"
cmp page.html before.html
[ "$(echo page.html.*)" = "page.html.*" ] || fail "a temporary file was left"
"$PTAH" view -o - perf.data >piped.html
cmp page.html piped.html # nothing in it is random, and no time
# What decoding left out is missing in the page, and the command says so.
head -c $(($(wc -c <perf.data) * 3 / 4)) perf.data >cut.data
status=0
"$PTAH" view -q -o cut.html cut.data 2>err || status=$?
[ $status = 1 ] || fail "a recording that is cut: status $status"
grep -q 'decoding error' err || fail "a recording that is cut: $(cat err)"
grep -q 'id="ptah-index"' cut.html || fail "of a recording that is cut there is no page"
if "$PTAH" view -o no/such/folder.html perf.data 2>err; then
	fail "a file in no folder"
fi
grep -q 'no/such/folder.html' err || fail "$(cat err)"

# refuse STATUS TEXT OPTIONS...
refuse() {
	expected=$1
	text=$2
	shift 2
	status=0
	"$PTAH" view "$@" >out 2>err || status=$?
	[ $status = "$expected" ] || fail "ptah view $*: status $status"
	grep -q -F -e "$text" err || fail "ptah view $*: $(cat err)"
}
refuse 2 'not a port' --port=65536 perf.data
refuse 2 'nothing is served' --port=80 -o x.html perf.data
refuse 2 'nothing is served' --no-browser -o x.html perf.data
refuse 2 'two recordings at most' a b c
refuse 1 'missing.data' missing.data
refuse 1 'missing.data' missing.data perf.data
refuse 1 'missing.data' -o x.html perf.data missing.data
[ ! -e x.html ] || fail "x.html was left"
