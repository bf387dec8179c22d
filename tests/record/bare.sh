#!/bin/sh
# SPDX-License-Identifier: MIT
# The image of port/bare/ on a machine with Intel PT: the path that it prints is the one that
# port/bare/program.c must take, and the bytes that it recorded decode to what was executed.
. "$PTAH_SOURCE/tests/record/common.sh"

image=$PTAH_BUILD/port/ptah-bare
plugin=$PTAH_BUILD/lib/ptah-system.so
[ -e "$image" ] || skip "the image is for x86-64 only"
[ -e "$plugin" ] || skip "no $plugin"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"

status=0
timeout 900 qemu-system-x86_64 -accel tcg -plugin "$plugin" -M pc -cpu Skylake-Server -m 64 \
	-display none -nodefaults -no-reboot -serial stdio \
	-device isa-debug-exit,iobase=0xf4,iosize=4 -device isa-debugcon,iobase=0xe9,chardev=trace \
	-chardev file,id=trace,path=trace.pt -kernel "$image" >said 2>warnings </dev/null || status=$?
tr -d '\r' <said >text
[ "$status" -eq 33 ] || { cat warnings text; fail "exit status $status instead of 33"; }
if grep '^ptah-system:' warnings; then
	fail "the plugin complains"
fi

# Functions that are entered, with their depth: gcd(48, 18) calls itself with (18, 12), (12, 6) and
# (6, 0); collatz(6) goes by 6, 3, 10, 5, 16, 8, 4, 2, 1 and halves even numbers.
cat >wanted <<'END'
TIP.PGE 0 short_path
TIP 1 gcd
TIP 2 gcd
TIP 3 gcd
TIP 4 gcd
TIP 1 collatz
TIP 2 half
TIP 2 triple
TIP 2 half
TIP 2 triple
TIP 2 half
TIP 2 half
TIP 2 half
TIP 2 half
END
awk '$1 ~ /^TIP/ && NF == 4 && $4 !~ /^0x/ {
	match($0, /[a-z_]+$/)
	print $1, (RSTART - 37) / 2, $4
}' text >entered
diff wanted entered || { cat text; fail "the path (>) is not that of the program (<)"; }
grep -q 'short_path(), which returned 14:' text || fail "gcd(48, 18) + collatz(6) is 6 + 8"

# What comes after an entry is a return for each, of which the last leaves the traced range.
returns=$(grep -c ' back in ' text)
[ "$returns" -eq 13 ] || fail "$returns returns instead of 13"
grep -q '^  TIP.PGD .*out to 0x' text || fail "the end of short_path() is missing"
grep -q '^long_path(): 10000 calls of step(), 10000 in the trace of [0-9]* bytes; a buffer of 16384, [1-9][0-9]* PMIs, 0 bytes lost$' text ||
	{ tail -3 text; fail "the line about long_path()"; }

# The whole trace against the code: no errors, and the instructions that the source has. Both paths
# are called once; 10,000 rounds call step() once each.
"$PTAH" stat --format=json --pt=trace.pt --elf="$image" >stat 2>errors || { cat errors; fail "stat"; }
number() {
	sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" stat | head -1
}
[ "$(number errors)" -eq 0 ] || { cat stat; fail "errors"; }
[ "$(number return)" -eq 10015 ] ||
	fail "$(number return) returns instead of 10000 + 1 + 14 of short_path() and what it calls"
