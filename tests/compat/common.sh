# SPDX-License-Identifier: MIT
# Sourced by the tests that run one client against two libraries.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

skip()
{
	echo "SKIP: $*"
	exit 77
}

ours=$PTAH_BUILD/lib/libipt
twin=$PTAH_BUILD/tests/twin
[ -x "$twin" ] || skip "no twin: libipt-dev is not installed"
[ -e "$ours/libipt.so.2" ] || skip "libipt.so.2 is not built"

# same ARGUMENTS...: runs twin; no difference may remain that no rule explains
same()
{
	status=0
	"$twin" "$@" >twin.txt 2>&1 || status=$?
	grep -e '^rule' -e '^the judge' -e 'differences$' twin.txt || :
	[ $status = 0 ] || fail "$(grep -c ': a difference$' twin.txt) differences:
$(head -40 twin.txt)"
}
