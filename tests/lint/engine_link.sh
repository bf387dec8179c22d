#!/bin/sh
# SPDX-License-Identifier: MIT
# The capture engine compiles for kernels, as ELF with gcc and clang and for
# Windows with mingw-w64, and links into a program that has memcpy and memset
# and nothing else.
set -eu
cat >program.c <<'END'
#include <ptah/engine.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int start(struct ptah_hal *hal);

void *memcpy(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	while (n--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	unsigned char *t = to;

	while (n--)
		*t++ = (unsigned char)byte;
	return to;
}

int start(struct ptah_hal *hal)
{
	struct ptah_engine *engine;

	return ptah_engine_new(hal, 0, &engine);
}
END
strict="-std=c11 -O2 -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Werror -ffreestanding
	-fno-stack-protector -fno-builtin -mno-red-zone -mgeneral-regs-only"

link() { # COMPILER ENTRY FLAGS: all objects, whether they are called or not
	compiler=$1
	entry=$2
	shift 2
	rm -f ./*.o
	for file in "$PTAH_SOURCE"/src/engine/*.c program.c; do
		# shellcheck disable=SC2086
		"$compiler" $strict "$@" -I"$PTAH_SOURCE/include" -I"$PTAH_SOURCE/src" -c \
			-o "$(basename "$file" .c).o" "$file"
	done
	"$compiler" "$@" -nostdlib -Wl,-e,"$entry" -o linked ./*.o
	echo "$compiler $*: links"
}

link gcc start -static
if command -v clang >/dev/null; then
	link clang start -static
fi
if command -v x86_64-w64-mingw32-gcc >/dev/null; then
	link x86_64-w64-mingw32-gcc start
else
	echo "no x86_64-w64-mingw32-gcc: not linked for Windows"
fi

# And the test can fail.
echo 'void free(void *); void f(void *); void f(void *p) { free(p); }' |
	gcc -ffreestanding -x c -c -o bad.o -
if gcc -static -nostdlib -Wl,-e,start -o linked ./program.o bad.o 2>/dev/null; then
	echo "a call of free() was not noticed"
	exit 1
fi
