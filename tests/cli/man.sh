#!/bin/sh
# SPDX-License-Identifier: MIT
# Each subcommand has a man page with exactly the options that --help lists.
. "$PTAH_SOURCE/tests/cli/common.sh"
man=$PTAH_SOURCE/docs/man

# Print the long names of options. On a man page, a line that begins with an option
# is the tag of its paragraph; a dash is written \-.
of_help() {
	grep -o '^ *\(-., \)\{0,1\}--[a-z-]*' "$1" | grep -o -e '--[a-z-]*' | LC_ALL=C sort
}
of_page() {
	sed -e 's/\\-/-/g' -e 's/\\f.//g' "$1" | grep -o '^\(-., \)\{0,1\}--[a-z-]*' |
		grep -o -e '--[a-z-]*' | LC_ALL=C sort
}

"$PTAH" --help >help
of_help help >wanted
of_page "$man/ptah.1" >got
diff wanted got || fail "ptah.1 and ptah --help differ"
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' help)
[ "$(echo "$commands" | wc -l)" -ge 6 ] || fail "no commands in the help"
for command in $commands; do
	page=$man/ptah-$command.1
	[ -e "$page" ] || fail "no page ptah-$command.1"
	"$PTAH" "$command" --help >help
	of_help help >wanted
	of_page "$page" >got
	[ -s wanted ] || fail "no options in the help of $command"
	diff wanted got || fail "ptah-$command.1 and ptah $command --help differ"
	grep -q "ptah.*$command (1)" "$man/ptah.1" || fail "ptah.1 does not name ptah-$command"
	grep -q '^\.SH EXIT STATUS' "$page" || fail "ptah-$command.1 does not tell the exit status"
done

# Every page of section 1 belongs to a command, and groff reports nothing for any page.
for page in "$man"/*.[157]; do
	name=$(basename "$page" .1)
	case "$name" in
	ptah | ptah-mpi | *.[57]) ;; # of ptah-mpi: tests/mpi/mpi.sh
	*) echo "$commands" | grep -q -x "${name#ptah-}" || fail "$name.1: no such command" ;;
	esac
	command -v groff >/dev/null || continue
	groff -man -Tutf8 -ww "$page" 2>&1 >formatted | tee said
	[ ! -s said ] || fail "$page is not well formed"
done
