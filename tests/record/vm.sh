#!/bin/sh
# SPDX-License-Identifier: MIT
# A virtual machine is recorded from outside, from its first instruction on. The expected paths are
# those of the machine's only code, guests/modes.S, by its source.
. "$PTAH_SOURCE/tests/record/common.sh"
command -v qemu-system-x86_64 >/dev/null ||
	skip "qemu-system-x86_64 is not installed (Debian: qemu-system-x86)"

for rom in modes resets; do
	"$CC" -c -o $rom.o "$PTAH_SOURCE/tests/record/guests/$rom.S"
	"${LD:-ld}" -Ttext=0xf0000 --oformat binary -o $rom.bin $rom.o
done
rom=modes

# machine [OPTIONS]: records the machine into ./perf.data; it ends QEMU with the status 1
machine()
{
	rm -f perf.data perf.data.old
	"$PTAH" record -q --vm "$@" -- qemu-system-x86_64 -m 16 -display none -nodefaults \
		-device isa-debug-exit,iobase=0xf4,iosize=4 -bios $rom.bin &&
		fail "the machine did not end QEMU"
	[ -s perf.data ] || fail "no recording"
}

# addresses: of all instructions that Ptah decodes
addresses()
{
	"$PTAH" script --format=tsv perf.data | sed '1d; s/^[^\t]*\t0x//; s/\t.*//'
}

# path ADDRESS...: Ptah decodes exactly these instructions, as many as the plugin counted
path()
{
	exact
	addresses | tr '\n' ' ' | sed 's/ $//' >path.txt
	[ "$(cat path.txt)" = "$*" ] || fail "the path is $(cat path.txt)"
}

# The page at 1 GiB: one increment, two, one, and two after the page table has changed
one="40000000 40000002"
two="40000000 40000002 40000004"

# A space for each CR3, the firmware's among them; jumps around the end of a 16-bit segment are
# shown as an interrupt before them, so that both of them are not among the instructions.
machine
exact
# QEMU 10 runs a few instructions more after the one that ends it.
addresses | sed '/^f0140$/q' >all.txt
head -n 3 all.txt | tr '\n' ' ' | grep -qx 'fffffff0 f0000 f0001 ' || fail "the first instructions"
[ "$(wc -l <all.txt)" -eq 100 ] || fail "$(wc -l <all.txt) instructions"
grep '^4000000' all.txt | tr '\n' ' ' | grep -qx "$one $two $one $two " || fail "address spaces"
grep '^60[0-9]$' all.txt | tr '\n' ' ' | grep -qx '600 602 600 601 602 ' || fail "changed code"
[ "$(grep -c '^f005e$' all.txt)" -eq 3 ] || fail "the 32-bit loop"
# the bytes of then: inc %bx and inc %ax, at one address
"$PTAH" script perf.data | grep -c 'inc [ab]x' | grep -qx 2 || fail "16-bit code"
"$PTAH" stat perf.data | grep -qx '  process cr3:20000  *6 instructions' || fail "stat"
"$PTAH" report perf.data | grep -q '^# .* 6 instructions *cr3:20000' || fail "report"
grep -q '^CPU 0: 10[0-9] instructions' verify.txt || fail "the processor's name"

machine --filter 'filter 0x40000000/0x10'
path "$one $two $one $two"
# tracing begins and ends with MOV to CR3
machine --cr3=20000
path "f0115 $two f0117 f011c"
machine --start-at=f0106 --stop-at=0xf0140
path "f0106 f010b $one f010d f0112 f0115 $two f0117 f011c f011f $one f0121 f012c f012f $two f0131"
# none of its code is user code
machine -e intel_pt//u
[ -z "$("$PTAH" script perf.data)" ] || fail "user code"

# The trace continues after a reset.
rom=resets
machine
exact
[ "$(addresses | grep -c '^fffffff0$')" -eq 3 ] || fail "resets"

# Live it is the same: from the recorder, and through a pipe, cut in different ways.
status=0
"$PTAH" live --vm -q --format=json -o live.data -- qemu-system-x86_64 -m 16 -display none \
	-nodefaults -device isa-debug-exit,iobase=0xf4,iosize=4 -bios modes.bin >live.json || status=$?
[ "$status" -eq 1 ] || fail "live: the machine's status is $status"
"$PTAH" verify --all live.data >verify.txt || fail "live: $(cat verify.txt)"
n=$(sed -n 's/^CPU 0: \([0-9]*\) instructions.*/\1/p' verify.txt)
[ "$n" -ge 100 ] && tail -n 1 live.json | grep -q "\"total_instructions\": $n," ||
	fail "live: $(tail -n 1 live.json)"
for chunk in 0 7 1000; do
	[ -x "$PTAH_BUILD/tests/follow" ] || break
	"$PTAH_BUILD/tests/follow" -c $chunk -i live.data <live.data >follow.txt 2>&1 &&
		grep -q " $n instructions, 0 errors" follow.txt || fail "live: $(cat follow.txt)"
done

# What the recorder cannot do, it refuses.
refused()
{
	what=$1
	shift
	! "$PTAH" record -q --vm -o refused.data "$@" -- qemu-system-x86_64 2>message.txt ||
		fail "$what was accepted"
	grep -q "$what" message.txt || fail "$what: $(cat message.txt)"
	[ ! -e refused.data ] || fail "$what: a file is left"
}
refused 'starts the virtual machine itself' -p 1
refused 'MTC' -e intel_pt/mtc_period=3/
refused 'keeps all trace' --snapshot
refused 'name addresses' --filter 'filter 0x10/0x10@/bin/true'
refused 'kallsyms' --symbols=/dev/null
refused 'hexadecimal' --cr3=x
refused 'command itself is QEMU' --qemu=/bin/true
! "$PTAH" record -q --cr3=5000 -- true 2>message.txt || fail "--cr3 without --vm"
grep -q -e 'go with --vm' message.txt || fail "$(cat message.txt)"
! "$PTAH" record -q --vm -- qemu-system-x86_64 -enable-kvm 2>message.txt || fail "KVM"
! "$PTAH" record -q --vm -- qemu-system-x86_64 -nonsense 2>message.txt || fail "a QEMU that fails"
grep -q 'did not run a guest' message.txt || fail "$(cat message.txt)"
