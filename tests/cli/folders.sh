#!/bin/sh
# SPDX-License-Identifier: MIT
# Folders of other systems in every part of the way, from the path to the count: those that leave
# packets alone (FreeBSD's hwt, HyperDbg), with code from options, and Fuchsia's insntrace. How many
# instructions ran is known from the packets, which are written here.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need "${CC:-cc}"

instructions() { # OPTIONS...: the instructions of a decode without errors
	expect 0 "$PTAH" stat --format=json "$@"
	equal "errors" "$(json "d['errors']")" 0
	json "d['instructions']"
}

# program NAME NOPS: a loop of so many instructions and a jump, at 0x401000.
program() {
	{
		printf '.globl _start, start\n_start: start:\n'
		for i in $(seq "$2"); do echo nop; done
		echo 'jmp *%rax'
	} >"$1.s"
	"${CC:-cc}" -nostdlib -static -no-pie -Wl,-Ttext=0x401000,--build-id=sha1 -o "$1" "$1.s"
}

# trace FILE CR3 JUMPS: so many rounds of the loop.
trace() {
	{
		printf 'PSB\nPIP %s\nMODE.Exec 64-bit\nPSBEND\nTIP.PGE 0x401000\n' "$2"
		for i in $(seq "$3"); do echo 'TIP 0x401000'; done
		printf 'FUP 0x401000\nTIP.PGD\n'
	} >text
	expect 0 "$PTAH" asm -o "$1" text
}

program two 1
program five 4

# FreeBSD's hwt: a file for each thread.
mkdir hwt
trace hwt/trace.out0 0x1000 10
trace hwt/trace.out1 0x1000 7
equal "hwt" "$(instructions hwt --elf two)" 34
equal "a piece of memory" "$(instructions hwt --raw "five:0x1000-0x1006:401000")" 85
expect 0 "$PTAH" stat hwt --elf two --save-set=hwt/ptah.trace
equal "the saved set" "$(instructions hwt)" 34
expect 2 "$PTAH" stat --elf=two
grep -q -e '--elf belongs to --pt' err || fail "$(cat err)"
expect 2 "$PTAH" stat text --elf=two
grep -q 'text is none' err || fail "$(cat err)"
expect 2 "$PTAH" stat hwt --elf=two --pevent:primary=text
grep -q 'belongs to --pt' err || fail "$(cat err)"

# HyperDbg: a file for each core, and programs of Windows, one of them for each CR3.
for name in two five; do
	"${CC:-cc}" -c -o $name.o $name.s
	ld -m i386pep --image-base 0x400000 -e start -o $name.exe $name.o 2>/dev/null || rm -f $name.exe
done
mkdir dumps
trace dumps/core0.bin 0x1000 10
trace dumps/core3.bin 0x2000 7
if [ -e two.exe ]; then
	equal "PE" "$(instructions dumps --pe two.exe,cr3=1000 --pe five.exe,cr3=2000)" 55
	equal "a core" "$(instructions dumps --cpu 3 --pe two.exe,cr3=1000 --pe five.exe:400000,cr3=2000)" 35
	# The path of an option is the caller's own: --symfs is not put before it.
	equal "PE of a process" \
		"$(instructions --pt dumps/core0.bin,pid=5 --pe two.exe,pid=5 --symfs="$PWD/hwt")" 20
fi

# insntrace: two processes with other code at the same address.
mkdir fuchsia
trace fuchsia/ptout.cpu0.pt 0x1000 10
trace fuchsia/ptout.cpu1.pt 0x2000 7
printf '0 /tmp/ptout.cpu0.pt\n1 /tmp/ptout.cpu1.pt\n' >fuchsia/ptout.ptlist
python3 - <<'END'
import struct
def record(event, a, b, c, d):
    return struct.pack("<IIQIIII", 0x080 << 20 | event << 8 | 4, 0, 0, a, b, c, d)
with open("fuchsia/ptout.ktrace", "wb") as f:
    f.write(record(0x201, 0, 6, 158, 10) + record(0x203, 11, 0, 0x1000, 0) +
            record(0x203, 22, 0, 0x2000, 0) + record(0x200, 36, 0, 0, 0))
END
build_id() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }
lowest=$(readelf -lW two | awk '$1 == "LOAD" { print $3; exit }')
{
	printf '[1.2] @trace_load: 11:1a %s %s 0x402000\n[1.2] @trace_load: 11:1b %s\n' "$lowest" "$lowest" "$(build_id two)"
	printf '[1.2] @trace_load: 11:1c two /bin/two\n'
	printf '[1.3] @trace_load: 22:1a %s %s 0x402000\n[1.3] @trace_load: 22:1b %s\n' "$lowest" "$lowest" "$(build_id five)"
	printf '[1.3] @trace_load: 22:1c five /bin/five\n'
} >fuchsia/loglistener.log
printf '%s /build/exe.unstripped/two\n%s bin/five\n' "$(build_id two)" "$(build_id five)" >fuchsia/ids.txt
cp two fuchsia/two
mkdir fuchsia/bin
cp five fuchsia/bin/five
equal "insntrace" "$(instructions fuchsia)" 55
equal "the list" "$(instructions --cpu 1 fuchsia/ptout.ptlist)" 35
expect 0 "$PTAH" report --format=tsv fuchsia
grep -q 'two' out || fail "no name of the program: $(cat out)"
# Another file than the one that ran is refused.
cp two fuchsia/bin/five
expect 1 "$PTAH" stat fuchsia
grep -q 'bin/five' err || fail "$(cat err)"
