#!/bin/sh
# SPDX-License-Identifier: MIT
# port/windows compiles with mingw-w64 and its headers of the driver kit, and with the engine it links
# into a driver that needs nothing but functions of the kernel. clang compiles both for Microsoft's
# ABI, and the public headers of the engine do without what Microsoft's compiler does not have.
set -eu
strict="-std=c11 -O2 -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Werror -ffreestanding
	-fno-stack-protector -fno-builtin -mno-red-zone -I$PTAH_SOURCE/include -I$PTAH_SOURCE/src"
sources="$PTAH_SOURCE/src/engine/*.c $PTAH_SOURCE/port/windows/*.c"
skipped=

# A kernel has no string.h, and Microsoft's kit is not here.
mkdir none
printf '#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n%s\n' \
	'void *memset(void *, int, size_t);' >none/string.h

compile() { # COMPILER FLAGS: every source, four at a time
	rm -f ./*.o
	# shellcheck disable=SC2086
	printf '%s\n' $sources | xargs -P 2 -n 4 "$@" $strict -c
}

if command -v x86_64-w64-mingw32-gcc >/dev/null; then
	kit=$(dirname "$(echo '#include <windef.h>' | x86_64-w64-mingw32-gcc -M -x c - |
		grep -o '[^ ]*/windef.h')")/ddk
	compile x86_64-w64-mingw32-gcc -I"$kit" -D_WIN32_WINNT=0x0a00 -DNTDDI_VERSION=0x0a000000 \
		-mgeneral-regs-only
	echo 'int DriverEntry(void *d, void *p); int DriverEntry(void *d, void *p)
		{ (void)d, (void)p; return 0; }' | x86_64-w64-mingw32-gcc -x c -c -o entry.o -
	# All objects are linked, called or not; only the kernel's import library is there.
	x86_64-w64-mingw32-gcc -nostdlib -shared -Wl,--subsystem,native -Wl,-e,DriverEntry \
		-o driver.sys ./*.o -lntoskrnl
	x86_64-w64-mingw32-objdump -p driver.sys | awk '/DLL Name:/ { print $3 }' >dlls
	[ "$(cat dlls)" = ntoskrnl.exe ] || { echo "driver.sys needs:"; cat dlls; exit 1; }
	echo "mingw-w64: links, with ntoskrnl.exe alone"
	# The test can fail: a function of the C library is not there.
	echo 'int puts(const char *); int f(void); int f(void) { return puts(""); }' |
		x86_64-w64-mingw32-gcc -x c -ffreestanding -c -o bad.o -
	if x86_64-w64-mingw32-gcc -nostdlib -shared -o bad.sys ./*.o -lntoskrnl 2>said; then
		echo "a call of puts() was not noticed" && exit 1
	fi
else
	skipped="x86_64-w64-mingw32-gcc"
fi

if command -v clang >/dev/null; then
	msvc="clang -target x86_64-pc-windows-msvc -Inone"
	# shellcheck disable=SC2086
	compile $msvc -I"$PTAH_SOURCE/tests/ports/windows"
	echo "clang for Microsoft's ABI: compiles"
	for header in engine captures caps capture_page crash_note hal rtit; do
		echo "#include <ptah/engine/$header.h>" >header.c
		# shellcheck disable=SC2086
		$msvc $strict -E -P header.c | sed 's/__builtin_offsetof/offsetof/g' >header.i
		if grep -n -E '__atomic_|__sync_|__builtin_|__attribute__|__typeof|__asm__|\(\{' header.i; then
			echo "ptah/engine/$header.h has what Microsoft's compiler has not" && exit 1
		fi
		# shellcheck disable=SC2086
		$msvc $strict -Wpedantic -Wno-pragma-once-outside-header -fsyntax-only header.c
	done
	echo "public headers: nothing of GNU C"
else
	skipped="$skipped clang"
fi
[ -z "$skipped" ] || { echo "SKIP: not built, for there is no $skipped"; exit 77; }
