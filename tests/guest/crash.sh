#!/bin/sh
# SPDX-License-Identifier: MIT
# The guest's kernel panics while the module traces it (programs/crash_device.c), and QEMU writes
# its memory to a file: the trace in it ends in the kernel's panic, after the handler of sysrq, whose
# functions the kernel itself names in its call trace on the console.
set -eu
. "$PTAH_SOURCE/tests/guest/common.sh"

kernel=$(cut -d ' ' -f 1 "$guest_cache/version")
headers=/usr/src/linux-headers-$kernel
[ -e "$headers/Makefile" ] || skip "no headers of the guest's kernel (Debian: linux-headers-$kernel)"
command -v python3 >/dev/null || skip "no python3"
make -s -C "$PTAH_SOURCE/port/linux" BUILD="$PWD/module" KDIR="$headers" >make.log 2>&1 ||
	fail "the module does not build: $(grep -m 3 -E 'error|\*\*\*' make.log)"

guest_new
guest_program crash_device -I"$PTAH_SOURCE/include" -I"$PTAH_SOURCE/port/linux"
strip --strip-debug -o root/modules/ptah.ko module/ptah.ko
guest_memory=256 guest_append="panic=0 nokaslr ignore_loglevel"
guest_boot -qmp unix:monitor,server=on,wait=off <<'END'
umount /proc/kallsyms 2>/dev/null
insmod /modules/ptah.ko
grep -E ' [tT] ' /proc/kallsyms >/out/kallsyms
sync
crash_device
END
until grep -q 'end Kernel panic' console; do
	kill -0 "$guest_process" 2>/dev/null || { tail console; fail "the guest ended"; }
	sleep 0.2
done
python3 "$PTAH_SOURCE/tests/record/dump_memory.py" dump monitor || fail "no dump"
wait "$guest_process" || :
trap - EXIT INT TERM
chmod u+rw dump

# The line for vmcoreinfo.
grep -aq '^PTAH_CRASH=[0-9a-f]' dump || fail "no line PTAH_CRASH"
# The kernel's own call trace, from the newest to the oldest function.
tr -d '\r' <console | sed -n '/Call Trace:/,/RIP:/s/.*\] *\([a-z_0-9]*\)+0x.*/\1/p' |
	grep -v '^asm_\|^dump_stack' >expected
grep -qx panic expected || { cat console; fail "the kernel says no call trace"; }

# The calls that the trace ends in, from the innermost to the outermost: those that the kernel names
# are among them, in its order, and the innermost is the engine's own end.
"$PTAH" stat -q --format=tsv dump >stat
awk -F '\t' 'NR == 2 && ($6 < 10000 || $7 != 0) { exit 1 }' stat || { cat stat; fail "errors"; }
"$PTAH" script --calls --kallsyms=out/kallsyms dump >calls
sed -n 's/.* trace-end *[0-9a-f]* \([a-zA-Z_0-9]*\) .*/\1/p' calls | tail -n 100 >open
grep -qx ptah_engine_stop_here open || { cat open; fail "it does not end where the engine stopped"; }
grep -Fxf expected open >found || :
diff expected found || { cat open; fail "the open calls (>) are not the kernel's call trace (<)"; }
