#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernel module (port/linux) is built for the guest's kernel and loaded there. What its device
# does is tested in the guest by programs/module_device.c; the traces that this program leaves are
# decoded here, and have as many instructions as the processors have executed.
set -eu
. "$PTAH_SOURCE/tests/guest/common.sh"

kernel=$(cut -d ' ' -f 1 "$guest_cache/version")
headers=/usr/src/linux-headers-$kernel
[ -e "$headers/Makefile" ] || skip "no headers of the guest's kernel (Debian: linux-headers-$kernel)"
make -s -C "$PTAH_SOURCE/port/linux" BUILD="$PWD/module" KDIR="$headers" >make.log 2>&1 ||
	fail "the module does not build: $(grep -m 3 -E 'error|\*\*\*' make.log)"
! grep -E 'warning:|ERROR' make.log || fail "the module builds with warnings"

guest_new
guest_program module_device -I"$PTAH_SOURCE/include" -I"$PTAH_SOURCE/port/linux"
strip --strip-debug -o root/modules/ptah.ko module/ptah.ko
guest_boot <<'END'
insmod /modules/ptah.ko
ls -l /dev/ptah | cut -c 1-10 >/out/mode
module_device >/out/said 2>&1
echo $? >/out/status
cp *.pt /out/

# It cannot be unloaded while somebody has it open, and it can afterwards, and be loaded again.
sleep 1000 </dev/ptah &
holder=$!
until [ -e /proc/$holder/fd/0 ] && readlink /proc/$holder/fd/0 | grep -q ptah; do :; done
rmmod ptah 2>/dev/null && echo "unloaded while it was open" >>/out/said
kill $holder
wait $holder
rmmod ptah || echo "not unloaded" >>/out/said
insmod /modules/ptah.ko && rmmod ptah || echo "not loaded again" >>/out/said
END
guest_end

[ "$(cat out/mode)" = crw------- ] || fail "/dev/ptah is open to others: $(cat out/mode)"
cat out/said
[ "$(cat out/status)" = 0 ] || fail "module_device ended with $(cat out/status)"
! grep -E '^(FAIL|not|unloaded)' out/said || fail "in the guest"
tests=$(grep -o '{"[a-z0-9]*", test_' "$guest_source/programs/module_device.c" | wc -l)
[ "$(grep -c '^ok ' out/said)" = "$tests" ] ||
	fail "not all tests ran"

# decode NAME: how many instructions the trace NAME.pt has, and how many errors.
decode() {
	timeout 600 "$PTAH" stat -q --pt="out/$1.pt" --elf=root/bin/module_device --format=tsv |
		awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
			NR == 2 { print $column["instructions"], $column["errors"] }'
}

# judge NAME TAG: the trace NAME.pt has what was executed up to the report TAG, and no errors.
judge() {
	found=$(decode "$1")
	ran=$(guest_truth "$2" | awk '/^cpu/ { n += $4 } /lost/ { e++ } END { print n + 0, e + 0 }')
	[ "$found" = "$ran" ] || fail "$1: $found instructions and errors instead of $ran"
	echo "$1: $found"
	[ "${found%% *}" -gt 100000 ] || fail "$1: too few"
}
judge self 2
judge drain 4
judge move 6
judge cr3 8
judge exec 10

# A lap of a buffer that wraps begins in the middle of a packet, and ends where the trace was stopped.
for trace in wrap stop inherit; do
	found=$(decode "$trace")
	[ "${found#* }" = 0 ] || fail "$trace: $found"
	[ "${found% *}" -gt 100000 ] || fail "$trace: too few: $found"
done
