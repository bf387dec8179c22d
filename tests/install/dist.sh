#!/bin/sh
# SPDX-License-Identifier: MIT
# The source tarball of a commit has the same bytes each time, whatever the
# user's git settings are, and contains every file of the commit.
set -eu
git -C "$PTAH_SOURCE" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
	{ echo "SKIP: the source is not a git repository"; exit 77; }

first=$("$PTAH_SOURCE/packaging/make-dist" "$PWD/first" 2>/dev/null)

# The second time without compression, which takes ten seconds: the same settings of xz give the same
# bytes.
mkdir bin
cat >bin/xz <<'END'
#!/bin/sh
[ "$1 $2 $3" = "-6 -T1 -f" ] || exit 1
mv "$4" "$4.xz"
END
chmod +x bin/xz
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=tar.umask GIT_CONFIG_VALUE_0=0077 \
	GIT_CONFIG_KEY_1=core.autocrlf GIT_CONFIG_VALUE_1=true
second=$(umask 077 && PATH="$PWD/bin:$PATH" "$PTAH_SOURCE/packaging/make-dist" "$PWD/second" 2>/dev/null)
xz -dc "$first" | cmp - "$second"

name=$(basename "$first" .tar.xz)
git -C "$PTAH_SOURCE" ls-tree -r --name-only HEAD | sed "s|^|$name/|" | sort >expected
tar -tf "$first" | grep -v '/$' | sort >held
cmp expected held
