#!/bin/sh
# SPDX-License-Identifier: MIT
# The image of port/bare/: its size, its Multiboot header, and that it boots, where there is QEMU:
# on a processor without Intel PT it must say so and end. tests/record/bare.sh runs it on one that has PT.
set -eu
image=$PTAH_BUILD/port/ptah-bare
[ -e "$image" ] || { echo "SKIP: the bare port is for x86-64 only"; exit 77; }

fail() {
	echo "$*"
	exit 1
}

size=$(stat -c %s "$image")
[ "$size" -lt 100000 ] || fail "the image has $size bytes, and the limit is 100,000"

# Multiboot specification 0.6.96, 3.1: within the first 8192 bytes, a multiple of 4, the sum of the
# first three words is 0. What is loaded ends inside the file.
od -An -v -tu4 -w4 -N8192 "$image" | tr -d ' ' >words
line=$(grep -n -m1 '^464367618$' words | cut -d: -f1) || fail "no Multiboot header"
# shellcheck disable=SC2046 # numbers, one word each
set -- $(tail -n "+$line" words | head -n 8)
[ $((($1 + $2 + $3) & 0xffffffff)) -eq 0 ] || fail "the header's checksum is wrong"
offset=$(((line - 1) * 4 - ($4 - $5)))
if [ "$offset" -lt 0 ] || [ $((offset + $6 - $5)) -gt "$size" ]; then
	fail "the header's addresses lead outside of the file"
fi
if [ "$8" -lt "$5" ] || [ "$8" -ge "$6" ]; then
	fail "the entry is outside of what is loaded"
fi

command -v qemu-system-x86_64 >/dev/null || { echo "no qemu-system-x86_64: not booted"; exit 0; }
status=0
timeout 900 qemu-system-x86_64 -accel tcg -cpu Haswell -m 32 -display none -nodefaults -no-reboot \
	-serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$image" \
	>said 2>warnings </dev/null || status=$?
[ "$status" -eq 35 ] || { cat warnings said; fail "exit status $status instead of 35"; }
grep -q 'no Intel PT' said || { cat said; fail "no word of why nothing is traced"; }
