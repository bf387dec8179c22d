#!/bin/sh
# SPDX-License-Identifier: MIT
# base, packet, model, engine and x86 run where there is no C library: they compile with
# -ffreestanding and need nothing from outside but memcpy, memmove, memset and
# memcmp, which compilers call on their own anyway.
set -eu

cd "$PTAH_SOURCE"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

compile() { # FILE OBJECT; a header is compiled as a file that includes it
	echo "#include \"${1#src/}\"" |
		"$CC" -std=c11 -ffreestanding -fno-pie -fno-stack-protector -mgeneral-regs-only -O2 \
			-Wall -Wextra -Werror -Iinclude -Isrc -x c -c -o "$2" -
}
# needs OBJECT...: the names that these objects use and none of them defines.
needs() {
	nm -P -g "$@" | awk '$2 == "U" { needs[$1] } $2 ~ /[TRDBVW]/ { has[$1] }
		END { for (n in needs) if (!(n in has)) print n }'
}

for layer in base packet model engine x86; do
	for file in src/$layer/*.c src/$layer/*.h; do
		[ ! -e "$file" ] || compile "$file" "$out/$(echo "$file" | tr / _).o"
	done
done
needs "$out"/*.o >"$out/core"
if grep -v -x -e memcpy -e memmove -e memset -e memcmp "$out/core"; then
	echo "the freestanding layers need the names above from outside"
	exit 1
fi

# The test can fail: a call of puts() is noticed.
echo 'void puts(const char *); void f(void); void f(void) { puts(""); }' |
	"$CC" -ffreestanding -fno-builtin -x c -c -o "$out/bad.o" -
[ "$(needs "$out/bad.o")" = puts ]
