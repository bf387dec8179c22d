#!/bin/sh
# SPDX-License-Identifier: MIT
# A program whose kernel is traced but not in the image: every command reports all code of the
# program, and one error for each visit of the kernel. Code and packets are written by hand from the
# SDM, so what ran is known.
. "$PTAH_SOURCE/tests/cli/common.sh"

# At 0x401000:	call 0x401007
#	0x401005:	jmp rax
#	0x401007:	call 0x40100f
#	0x40100c:	nop
#	0x40100d:	nop
#	0x40100e:	ret
#	0x40100f:	syscall
#	0x401011:	ret
printf '\350\002\000\000\000\377\340\350\003\000\000\000\220\220\303\017\005\303' >code
cat >packets <<'END'
PSB
MODE.Exec 64-bit
PSBEND
TIP.PGE 0x401000
TIP 0xffffffff81000000
TNT TTN
TIP 0xffffffff81000100
PSB
MODE.Exec 64-bit
FUP 0xffffffff81000110
PSBEND
TNT N
TIP 0x401011
TIP 0x40100c
FUP 0x40100d
TIP 0xffffffff81000200
TNT TT
TIP 0x40100d
TIP 0x401005
TIP 0x401000
TIP 0xffffffff81000000
TIP 0x401011
TNT TT
TIP.PGD 0x500000
END
expect 0 "$PTAH" asm -o trace packets

code="--pt=trace --raw=code:401000"
kernel="# error: no memory image at this address; last at 0xffffffff81000000"
# shellcheck disable=SC2086 # options, one word each
{
	expect 1 "$PTAH" script $code
	sed 's/^trace -1 //; s/ (code)//; s/\t/ /; s/ offset .*//' out >got
	cat >wanted <<-END
	401000 call 0x401007
	401007 call 0x40100f
	40100f syscall
	$kernel
	401011 ret
	40100c nop
	# error: no memory image at this address; last at 0xffffffff81000200
	40100d nop
	40100e ret
	401005 jmp rax
	401000 call 0x401007
	401007 call 0x40100f
	40100f syscall
	$kernel
	401011 ret
	40100c nop
	40100d nop
	40100e ret
	401005 jmp rax
	END
	diff wanted got || fail "script"

	expect 1 "$PTAH" script --branches --format=tsv $code
	grep -c '0x40100f	0xffffffff81000000' out >got
	equal "system calls" "$(cat got)" 2

	need python3
	for jobs in 1 2; do
		expect 1 "$PTAH" stat --jobs=$jobs --format=json $code
		equal instructions "$(json "d['instructions']")" 16
		equal errors "$(json "d['errors']")" 3
	done
	expect 1 "$PTAH" report --format=json $code
	equal "instructions of report" "$(json "d['instructions']")" 16
	expect 1 "$PTAH" cover $code
	cut -f 1-3 out | grep '^0x40100e' >got
	printf '0x40100e\t0x401005\t2\n' >wanted
	diff wanted got || fail "cover"
}
