#!/bin/sh
# SPDX-License-Identifier: MIT
# Help on request goes to standard output, with status 0. A command line that makes
# no sense gives a message on standard error, and status 2.
. "$PTAH_SOURCE/tests/cli/common.sh"

commands='record dump asm script report view export annotate calls waits stat verify profile cover diff caps vm live'
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
version=$(sed -n 's/.*PTAH_VERSION_STRING "\(.*\)"/\1/p' "$PTAH_SOURCE/include/ptah/base.h")
equal version "$(cat out)" "ptah $version"

complains
complains no-such-command
complains --no-such-option
complains record
complains record --
complains record --psb-period=many -- true
complains record --clock=sundial -- true
# A format that is unknown, or that the command does not offer, is refused with the valid ones.
for command in dump script report annotate calls waits stat verify profile cover diff caps live; do
	complains "$command" --format=xml
	case $command in
	cover) grep -q 'edges, blocks, drcov, bitmap or processes' err || fail "cover --format=xml: $(cat err)" ;;
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

# Wrong usages, each with an answer that names the mistake.
says() { # WORDS ARGUMENTS...
	words=$1
	shift
	complains "$@"
	grep -q -e "$words" err || fail "$*: $(cat err)"
}
says 'did you mean "record"' recrod
says 'did you mean "report"' reprot
says 'did you mean "stat"' stats
says 'there is no command "banana"$' banana
says 'there is no command "banana"$' help banana
says 'did you mean "record"' help recrod
says 'write -Sabc or --snapshot=abc' record -S=abc -- true
says 'write -oabc or --output=abc' report -o=abc
says '^ptah record: --snapshot=abc:' record -Sabc -- true
says '^ptah report: --elf=f:zz: it takes FILE or FILE:BASE' report --pt=a.pt --elf=f:zz
says '^ptah report: --raw=f:zz: it takes FILE:ADDRESS' report --pt=a.pt --raw=f:zz
printf 'PERFILE2 and so on' >some.data
says '^ptah report: --pt=some.data: this is a recording' report --pt=some.data
expect 1 "$PTAH" report --pt=some.data.pt --elf=absent
grep -q -e '--elf=absent: absent: No such file' err || fail "--elf=absent: $(cat err)"
expect 1 "$PTAH" report --pt=some.data.pt --elf=absent:401000
grep -q -e '--elf=absent:401000: absent: No such file' err || fail "--elf=absent:401000: $(cat err)"
expect 1 "$PTAH" report --pt=some.data.pt --pages=absent
grep -q -e '--pages=absent: .*No such file' err || fail "--pages=absent: $(cat err)"

# Without Intel PT hardware, processors cannot be recorded; no other recorder does it.
status=0
"$PTAH" record -a --dry-run -- true >out 2>err || status=$?
if grep -q 'no Intel PT\|no intel_pt' err; then
	equal "record -a" "$status" 1
	! grep -q 'recorder qemu' err || fail "record -a: an advice that does not help: $(cat err)"
	grep -q 'only be recorded with Intel PT hardware' err || fail "record -a: $(cat err)"
fi

# ptah help COMMAND is the help of the command.
expect 0 "$PTAH" help
grep -q '^  record ' out || fail "ptah help lists no commands"
for command in $commands; do
	"$PTAH" "$command" --help >wanted
	expect 0 "$PTAH" help "$command"
	cmp -s wanted out || fail "help $command is not $command --help"
done

# A command's own options come before those that it shares with others: --input and
# --output, which every decoding command has, stand after all options that no other has.
for command in $commands; do
	"$PTAH" "$command" --help | grep -o '^ *\(-., \)\{0,1\}--[a-z0-9-]*' |
		grep -o -e '--[a-z0-9-]*' >"options.$command"
done
# (ptah record and ptah live share few options; some of their names are those of others.)
rm options.record options.live
for command in dump script report annotate calls stat profile cover caps; do
	last=$(for option in $(cat "options.$command"); do
		[ "$(grep -l -x -e "$option" options.* | wc -l)" != 1 ] || echo "$option"
	done | tail -1)
	[ -n "$last" ] || fail "$command has no option of its own"
	awk -v last="$last" '$0 == "--output" || $0 == "--input" { early = 1 } $0 == last { exit early }' \
		"options.$command" || fail "$command --help: $last stands after a shared option"
done

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
