#!/bin/sh
# SPDX-License-Identifier: MIT
# Help on request goes to standard output, with status 0. A command line that makes
# no sense gives a message on standard error, and status 2.
. "$PTAH_SOURCE/tests/cli/common.sh"

commands='record dump asm script report stat verify profile cover caps'
empty() {
	[ ! -s "$1" ] || fail "\"$2\" wrote to $1: $(head -3 "$1")"
}
complains() { # ARGUMENTS...
	expect 2 "$PTAH" "$@"
	empty out "$*"
	[ -s err ] || fail "\"$*\" said nothing"
}

expect 0 "$PTAH" --help
empty err --help
for command in $commands; do
	grep -q "^  $command " out || fail "--help does not list $command"
done
for command in $commands; do
	for help in --help -h; do
		expect 0 "$PTAH" "$command" "$help"
		empty err "$command $help"
		grep -q "^Usage: ptah $command " out || fail "$command $help: no usage"
		grep -q -- "--help" out || fail "$command $help: no options"
	done
	complains "$command" --no-such-option
	complains "$command" --no-such-option=5
	complains "$command" -Z
	complains "$command" --output
	complains "$command" --help=yes
done

expect 0 "$PTAH" --version
version=$(sed -n 's/.*PTAH_VERSION_STRING "\(.*\)"/\1/p' "$PTAH_SOURCE/include/ptah/version.h")
equal version "$(cat out)" "ptah $version"

complains
complains no-such-command
complains --no-such-option
complains record
complains record --
complains record --psb-period=many -- true
complains record --clock=sundial -- true
# A format that is unknown, or that the command does not offer, is refused with the valid ones.
for command in dump script report stat verify profile cover caps; do
	complains "$command" --format=xml
	case $command in
	cover) grep -q 'edges, blocks, drcov or bitmap' err || fail "cover --format=xml: $(cat err)" ;;
	*) grep -q 'text, json or tsv' err || fail "$command --format=xml: $(cat err)" ;;
	esac
done
complains report --limit=few
complains report --sort=luck
complains report a.data b.data
complains report -i a.data b.data
complains report --pt=a.pt b.data
complains report --cpu=first
complains report --raw=a:401000
complains script --branches --blocks
complains caps a.data
complains caps --model=no-such

# All ways to write an option and its value mean the same.
for spelling in "--input=absent.data" "--input absent.data" "-i absent.data" "-iabsent.data" \
	"absent.data" "-- absent.data"; do
	# shellcheck disable=SC2086 # two words where there are two
	expect 1 "$PTAH" stat $spelling
	grep -q 'absent\.data' err || fail "$spelling: $(cat err)"
done
# The default is perf.data.
expect 1 "$PTAH" stat
grep -q 'perf\.data' err || fail "no default: $(cat err)"
