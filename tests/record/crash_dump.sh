#!/bin/sh
# SPDX-License-Identifier: MIT
# The image of port/bare/ crashes while it is traced, and QEMU writes its memory to a file: in that
# the trace is found, with the code, and ends where the machine says that it crashed.
. "$PTAH_SOURCE/tests/record/common.sh"

image=$PTAH_BUILD/port/ptah-bare
plugin=$PTAH_BUILD/lib/ptah-system.so
[ -e "$image" ] || skip "the image is for x86-64 only"
[ -e "$plugin" ] || skip "no $plugin"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"
command -v python3 >/dev/null || skip "no python3"

timeout 900 python3 "$PTAH_SOURCE/tests/record/dump_memory.py" dump "exception " \
	qemu-system-x86_64 -accel tcg -plugin "$plugin" -M pc -cpu Skylake-Server -m 16 -display none \
	-nodefaults -no-reboot -kernel "$image" -append crash >said 2>warnings ||
	{ cat warnings said; fail "no dump"; }
chmod u+rw dump
address=$(sed -n 's/^exception 6 at 0x\([0-9a-f]*\),.*/\1/p' said)
[ -n "$address" ] || { cat said; fail "it did not crash by an invalid instruction"; }

# All of the buffer is there, and nothing in it is an error.
"$PTAH" stat -q --format=json dump >stat
number() {
	sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" stat | head -1
}
[ "$(number bytes)" -eq 16384 ] || { cat stat; fail "not the bytes of the buffer"; }
[ "$(number errors)" -eq 0 ] || { cat stat; fail "errors"; }
[ "$(number instructions)" -gt 10000 ] || { cat stat; fail "too few instructions"; }

# The last thing in the trace is the exception, where the machine says that it came.
"$PTAH" dump --format=tsv dump | grep FUP | tail -1 >last
grep -q "$address" last || { cat last; fail "the trace does not end at $address"; }

# The last calls are those of short_path(): tests/record/bare.sh says why these.
cat >wanted <<'END'
crash
short_path
gcd
gcd
gcd
gcd
collatz
half
triple
half
triple
half
half
half
half
END
"$PTAH" script --calls --elf="$image" dump >calls
sed -n 's/.* \(running\|call\) *[0-9a-f]* \([a-z_]*\).*/\2/p' calls | tail -n 15 >entered
diff wanted entered || fail "the last calls (>) are not those of the program (<)"
before=$(grep -c 'return .* step ' calls)
[ "$before" -gt 1000 ] || fail "$before calls of step() before them"

# Without the note there is nothing to find, and a dump that was cut is what is left of it.
sed 's/PTAH-CRASH-NOTE/PTAH-CRASH-NONE/g' dump >without
status=0
"$PTAH" script without >rows 2>errors || status=$?
[ "$status" -ne 0 ] && grep -q "note of a capture engine" errors || { cat errors; fail "no note"; }
head -c 1000000 dump >cut
status=0
"$PTAH" script cut >rows 2>errors || status=$?
[ "$status" -le 1 ] || fail "a dump that was cut: status $status: $(cat errors)"
[ -s errors ] || fail "no word about a dump that was cut"
