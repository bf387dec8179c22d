#!/bin/sh
# SPDX-License-Identifier: MIT
# What bash offers after some words. Where zsh and fish are installed, they must
# find no error in their files.
. "$PTAH_SOURCE/tests/cli/common.sh"
completions=$PTAH_SOURCE/completions

missing=
for shell in zsh fish; do
	case $shell in zsh) file=_ptah ;; *) file=ptah.fish ;; esac
	if command -v "$shell" >/dev/null; then
		"$shell" -n "$completions/$file" 2>err || fail "$shell: $(cat err)"
		[ ! -s err ] || fail "$shell: $(cat err)"
	else
		missing="$missing no $shell"
	fi
done
need bash
bash -n "$completions/ptah.bash"

cat >complete.bash <<'EOF'
# complete.bash WORD...: prints what is offered for the last word, in one line.
source "$PTAH_SOURCE/completions/ptah.bash"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_ptah
echo "${COMPREPLY[*]}"
EOF
offers() { # WANTED WORD...
	wanted=$1
	shift
	equal "ptah $*" "$(bash complete.bash ptah "$@" 2>&1)" "$wanted"
}
mkdir -p inside/folder
touch inside/file

offers "record report repack" re
offers "--help" --h
offers "--format=" stat --form
offers "text" stat --format = te
offers "text json tsv" stat --format = ""
offers "text json tsv" stat --format =
offers "edges" cover --format ed
offers "hardware" record --recorder h
offers "SKD007,SKL168" report --errata SKD007,SKL16
offers "tip tip.pge tip.pgd" dump --packets = tip
offers "skylake" caps --model = skyl
offers "inside/folder" report --symfs = inside/
offers "inside/file inside/folder" report inside/f
offers "inside/file" stat -q -i inside/fi
offers "" stat --jobs 1
offers "" record --psb-period 4
offers "--long-tnt" record --lo
# The arguments after the program are its own.
offers "inside/file" record -o x.data cat inside/fi
offers "inside/file" record --output = x.data -- cat inside/fi
offers "inside/file" record --kcore cat inside/fi
bash complete.bash ptah record -- ca 2>&1 | tr ' ' '\n' | grep -q -x cat ||
	fail "no program is offered behind --"
[ -z "$missing" ] || skip "bash is fine;$missing"
