#!/bin/sh
# SPDX-License-Identifier: MIT
# The source tarball of a commit has the same bytes each time, whatever the
# user's git settings are, and contains every file of the commit.
set -eu
git -C "$PTAH_SOURCE" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
	{ echo "SKIP: the source is not a git repository"; exit 77; }

# The setting of xz that make-dist asks for takes ten seconds and gives the same bytes each time: here
# another one compresses.
real=$(command -v xz)
mkdir bin
cat >bin/xz <<END
#!/bin/sh
[ "\$1 \$2 \$3" = "-6 -T1 -f" ] || exit 1
exec "$real" -0 -T1 -f "\$4"
END
chmod +x bin/xz
PATH="$PWD/bin:$PATH"

first=$("$PTAH_SOURCE/packaging/make-dist" "$PWD/first" 2>/dev/null)
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=tar.umask GIT_CONFIG_VALUE_0=0077 \
	GIT_CONFIG_KEY_1=core.autocrlf GIT_CONFIG_VALUE_1=true
second=$(umask 077 && "$PTAH_SOURCE/packaging/make-dist" "$PWD/second" 2>/dev/null)
cmp "$first" "$second"

name=$(basename "$first" .tar.xz)
git -C "$PTAH_SOURCE" ls-tree -r --name-only HEAD | sed "s|^|$name/|" | sort >expected
"$real" -dc "$first" | tar -t | grep -v '/$' | sort >held
cmp expected held
