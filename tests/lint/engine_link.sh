#!/bin/sh
# SPDX-License-Identifier: MIT
# The capture engine compiles for kernels, as ELF with gcc and clang and for
# Windows with mingw-w64, and links with the null port into a program that has
# memcpy and memset and nothing else (port/null/).
set -eu
strict="-std=c11 -O2 -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Werror -ffreestanding
	-fno-stack-protector -fno-builtin -mno-red-zone -mgeneral-regs-only"

link() { # COMPILER ENTRY FLAGS: links every object, whether or not it is called
	compiler=$1
	entry=$2
	shift 2
	rm -f ./*.o
	for file in "$PTAH_SOURCE"/src/engine/*.c "$PTAH_SOURCE"/port/null/*.c; do
		# shellcheck disable=SC2086
		"$compiler" $strict "$@" -I"$PTAH_SOURCE/include" -I"$PTAH_SOURCE/src" -c \
			-o "$(basename "$file" .c).o" "$file"
	done
	"$compiler" "$@" -nostdlib -Wl,-e,"$entry" -o linked ./*.o
	echo "$compiler $*: links"
}

if command -v x86_64-w64-mingw32-gcc >/dev/null; then
	link x86_64-w64-mingw32-gcc ptah_start
else
	echo "no x86_64-w64-mingw32-gcc: not linked for Windows"
fi
if command -v clang >/dev/null; then
	link clang ptah_start -static
fi
link gcc ptah_start -static

# The installed archive and the port, linked into one object: only these two are missing.
ld -r -o module.o --whole-archive "$PTAH_BUILD/libptah-engine.a" --no-whole-archive port.o
needed=$(nm -u module.o | awk '{ print $2 }' | sort | tr '\n' ' ')
case $needed in
"memcpy memset " | "memset " | "memcpy " | "") ;;
*) echo "libptah-engine.a needs: $needed" && exit 1 ;;
esac
echo "libptah-engine.a needs: $needed"

# The test can fail: a call of free() is noticed.
echo 'void free(void *); void f(void *); void f(void *p) { free(p); }' |
	gcc -ffreestanding -x c -c -o bad.o -
if gcc -static -nostdlib -Wl,-e,ptah_start -o linked start.o port.o bad.o \
	"$PTAH_BUILD/libptah-engine.a" 2>said; then
	echo "a call of free() was not noticed"
	exit 1
fi
grep -q 'undefined reference to .free' said || { cat said; exit 1; }
