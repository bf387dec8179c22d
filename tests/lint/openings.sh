#!/bin/sh
# SPDX-License-Identifier: MIT
# Every source file begins with its SPDX line, which is a script's second line,
# and then has a comment that says what the file is for.
set -eu

# judge FILE...: prints a line for each file that does not.
judge() {
	awk '
	function offence(text) {
		print FILENAME ": " text
		bad = 1
	}
	FNR == 1 { line = 0; script = /^#!/ }
	FNR == 1 && script { next }
	++line == 1 && !/SPDX-License-Identifier: MIT/ { offence("its SPDX line does not come first"); nextfile }
	line == 2 && /^#$/ { line-- } # an empty line of comment
	line == 2 && FILENAME ~ /\.(c|h|def|S|hpp|cpp)$/ {
		if (!/^\/\*/)
			offence("no comment says what it is for")
		nextfile
	}
	line == 2 {
		if (!/^# ./ && !(FILENAME ~ /\.py$/ && /^"""./))
			offence("no comment says what it is for")
		nextfile
	}
	END { exit bad }' "$@"
}

# The test can fail: each way to break the rule is noticed.
expect_offence() { # FIRST LINE, SECOND LINE, NAME
	printf '%s\n%s\n\nint x;\n' "$1" "$2" >"$3"
	if judge "$3"; then
		echo "not noticed: $1 $2"
		exit 1
	fi
}
expect_offence '/* SPDX-License-Identifier: MIT */' '#include <stddef.h>' x.c
expect_offence '/* What it is for. */' '/* SPDX-License-Identifier: MIT */' x.h
expect_offence '# SPDX-License-Identifier: MIT' 'set -eu' x.sh
expect_offence '#!/bin/sh' '# What it is for' x.sh

cd "$PTAH_SOURCE"
find .ci bench cli compat examples fuzz include packaging port scripts src tests tools -type f \( \
	-name '*.[chS]' -o -name '*.cpp' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -perm -u+x \
	\) >"$OLDPWD/files"
[ "$(wc -l <"$OLDPWD/files")" -gt 300 ]
# shellcheck disable=SC2046 # names without spaces
judge $(cat "$OLDPWD/files") || { echo "CONTRIBUTING.md, \"Style\", has the rule"; exit 1; }
