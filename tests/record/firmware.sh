#!/bin/sh
# SPDX-License-Identifier: MIT
# Real-mode code that nobody wrote for a test: a boot sector traces what the PC's firmware does for
# it, with three kinds of disk, one of which the firmware reads in system management mode. The trace
# decodes to what the plugin counted, over the memory as it was.
. "$PTAH_SOURCE/tests/record/common.sh"

plugin=$PTAH_BUILD/lib/ptah-system.so
[ -e "$plugin" ] || skip "no $plugin"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"
"$CC" -m32 -c -o boot.o "$PTAH_SOURCE/tests/record/programs/boot_sector.S"
ld -m elf_i386 -Ttext 0x7c00 -e start --oformat binary -o boot.img boot.o
truncate -s 1474560 boot.img

# judge NAME [OPTION...]
judge() {
	name=$1
	shift
	rm -f truth memory
	status=0
	# This processor's packets have linear addresses, without which code in segments is not found.
	timeout 900 qemu-system-x86_64 -accel tcg -plugin "$plugin,model=arrow-lake-e,truth=truth" \
		-cpu Skylake-Server -m 32 -display none -nodefaults -no-reboot \
		-device isa-debug-exit,iobase=0xf4,iosize=1 \
		-device isa-debugcon,iobase=0xe9,chardev=memory -chardev file,id=memory,path=memory \
		"$@" >said 2>warnings </dev/null || status=$?
	[ "$status" -eq 33 ] || { cat warnings said; fail "$name: exit status $status instead of 33"; }
	if grep '^ptah-system:' warnings; then
		fail "$name: the plugin complains"
	fi
	[ "$(stat -c %s memory)" -ge $((0x60000)) ] || fail "$name: $(stat -c %s memory) bytes of memory"
	tail -c $((0x60000)) memory >parts # the firmware writes messages before
	head -c $((0x20000)) parts >low
	tail -c $((0x40000)) parts >high
	bytes=$(od -An -tu4 -j $((0x600)) -N 4 low | tr -d ' ')
	tail -c +$((0x10000 + 1)) low | head -c "$bytes" >trace.pt
	"$PTAH" stat --format=json --pt=trace.pt --raw=low:0 --raw=high:0xc0000 >report 2>errors ||
		{ cat errors; fail "$name: stat"; }
	errors=$(sed -n 's/.*"errors": *\([0-9]*\).*/\1/p' report | head -1)
	instructions=$(sed -n 's/.*"instructions": *\([0-9]*\).*/\1/p' report | head -1)
	truth=$(sed -n 's/.*cr3 all level all insns \([0-9]*\).*/\1/p' truth | head -1)
	[ "$errors" -eq 0 ] || { cat errors; fail "$name: $errors errors"; }
	[ "$instructions" -eq "$truth" ] || fail "$name: $instructions instructions, $truth were executed"
	[ "$instructions" -gt 5000 ] || fail "$name: only $instructions instructions"
	echo "$name: $instructions instructions in $bytes bytes"
}

judge floppy -M pc -vga std -drive file=boot.img,format=raw,if=floppy
judge ide -M pc -vga std -drive file=boot.img,format=raw,if=ide
judge virtio -M q35 -vga std -drive file=boot.img,format=raw,if=virtio
