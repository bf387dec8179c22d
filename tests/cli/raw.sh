#!/bin/sh
# SPDX-License-Identifier: MIT
# A trace and its code, written by hand byte by byte from the SDM: what the commands
# must print follows from the architecture.
. "$PTAH_SOURCE/tests/cli/common.sh"

# At 0x401000:		b9 03 00 00 00	mov ecx, 3
#	0x401005:	ff c9		dec ecx
#	0x401007:	75 fc		jnz 0x401005
#	0x401009:	c3		ret
printf '\271\003\000\000\000\377\311\165\374\303' >code

printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202' >psb
{
	cat psb
	printf '\002\003\011\000' # CBR, ratio 9
	printf '\231\001'	  # MODE.Exec, 64-bit
	printf '\002\043'	  # PSBEND
	printf '\161\000\020\100\000\000\000' # TIP.PGE, 48 bits, 0x401000
	printf '\034'			      # TNT: taken, taken, not taken
	printf '\041\000\040'		      # TIP.PGD, 16 bits: the ret goes to 0x402000
} >trace

expect 0 "$PTAH" dump --pt=trace
sed 's/  */ /g; s/ $//' out >got
cat >wanted <<'END'
0000000000000000 PSB
0000000000000010 CBR ratio 9
0000000000000014 MODE.Exec 64-bit
0000000000000016 PSBEND
0000000000000018 TIP.PGE 3: ????000000401000 0000000000401000
000000000000001f TNT-8 TTN
0000000000000020 TIP.PGD 1: ????????????2000 0000000000402000
END
diff wanted got || fail "dump"

expect 0 "$PTAH" dump --pt=trace --raw-bytes
grep -q '029902230282' out && fail "bytes of several packets in a line"
grep -q ' 1c  *TNT-8' out || fail "--raw-bytes: $(cat out)"

code="--pt=trace --raw=code:401000"
# shellcheck disable=SC2086 # options, one word each
{
	expect 0 "$PTAH" script $code
	sed 's/^trace -1 //; s/ (code)//; s/\t/ /' out >got
	cat >wanted <<-'END'
	401000 mov ecx, 0x3
	401005 dec ecx
	401007 jnz 0x401005
	401005 dec ecx
	401007 jnz 0x401005
	401005 dec ecx
	401007 jnz 0x401005
	401009 ret
	END
	diff wanted got || fail "script"

	expect 0 "$PTAH" script --att $code
	grep -q 'mov \$0x3, %ecx' out || fail "--att: $(head -1 out)"

	expect 0 "$PTAH" script --branches --format=tsv $code
	cut -f 3,4 out >got
	printf 'from\tto\n0x0\t0x401000\n0x401007\t0x401005\n0x401007\t0x401005\n' >wanted
	printf '0x401009\t0x402000\n' >>wanted
	diff wanted got || fail "script --branches"

	expect 0 "$PTAH" script --blocks --format=tsv $code
	awk 'NR > 1 { n += $4 } END { print n }' out >got
	equal "instructions in blocks" "$(cat got)" 8

	expect 0 "$PTAH" stat --format=json $code
	need python3
	equal instructions "$(json "d['instructions']")" 8
	equal errors "$(json "d['errors']")" 0
	equal bytes "$(json "d['bytes']")" 35
	equal "TNT packets" "$(json "d['packets']['tnt_8']")" 1
	equal conditional "$(json "d['branches']['conditional']")" 3
}

# The same with an ELF file: its functions have names, whatever its base is.
need "${CC:-cc}"
printf '.globl spin\n.type spin, @function\nspin: mov $3, %%ecx\n1: dec %%ecx\njnz 1b\nret\n' >spin.s
printf '.size spin, . - spin\n' >>spin.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,-e,spin,-Ttext=0x401000,--build-id=none -o spin spin.s
expect 0 "$PTAH" script --pt=trace --elf=spin
equal "lines" "$(wc -l <out)" 8
grep -q '401009 spin+0x9 (spin)' out || fail "no name: $(cat out)"
expect 0 "$PTAH" report --format=tsv --pt=trace --elf=spin
equal report "$(awk -F '\t' '$5 == "spin" { print $2 }' out)" 8

# Bytes that are no packet: what precedes and follows them is shown.
{
	cat trace
	printf '\002\377\377\377' # no such opcode
	cat trace
} >damaged
expect 1 "$PTAH" dump --pt=damaged
equal "good packets" "$(grep -c -v bad out)" 14
equal "bad places" "$(grep -c 'bad.*skipped 4 bytes' out)" 1
expect 1 "$PTAH" script --pt=damaged --raw=code:401000
equal "instructions around" "$(grep -c -v '#' out)" 16
grep -q '# error' out || fail "the error is not shown"

# Missing code is reported as an error with its address.
expect 1 "$PTAH" script --pt=trace
grep -q '# error.*401000' out || fail "no code: $(cat out)"

# Errata are worked around by --processor or by --errata. Here an OVF has overwritten
# the second byte of a CYC (SKD007), which happens on Skylake.
{
	printf 'psb\nmode.exec 64-bit\nfup.48 0x401000\npsbend\ntnt TT\n.bytes 0f 02 f3\n'
	printf 'fup.48 0x401005\ntnt T\n'
} >skd007.txt
expect 0 "$PTAH" asm -o skd007 skd007.txt
for option in --processor=6/94/3 --processor=0x6/0x5e --errata=skd007 --errata=BDM70,SKD007 \
	--errata=all; do
	expect 0 "$PTAH" script --events "$option" --pt=skd007 --raw=code:401000
	grep -q overflow out || fail "$option: no overflow: $(cat out)"
done
for option in --processor=none --processor=6/158 --errata=none --errata=SKL168; do
	status=0 # a decoding error is allowed here; any other failure is not
	"$PTAH" script --events "$option" --pt=skd007 --raw=code:401000 >out 2>err || status=$?
	[ $status -le 1 ] || fail "$option: status $status: $(cat err)"
	grep -q psb out || fail "$option: nothing was decoded: $(cat out)"
	case $option in
	*158) grep -q overflow out || fail "$option: 6/158 has it, too" ;;
	*) ! grep -q overflow out || fail "$option: an overflow: $(cat out)" ;;
	esac
done
expect 2 "$PTAH" script --processor=Skylake --pt=skd007
expect 2 "$PTAH" script --errata=SKD008 --pt=skd007

# The same code traced without TNT packets (perf's notnt): the path is known up to the
# conditional branch, and again from the next address in a packet.
cat >text <<'END'
PSB
MODE.Exec 64-bit
PSBEND
TIP.PGE 0x401000
FUP 0x401009
TIP 0x401000
TIP.PGD
END
expect 0 "$PTAH" asm -o blind text
expect 0 "$PTAH" stat --pt=blind --raw=code:401000 --no-tnt
grep -q '^  gaps without TNT packets  *2$' out || fail "gaps: $(cat out)"
grep -q '^  instructions  *6$' out || fail "instructions: $(cat out)"
expect 0 "$PTAH" script --pt=blind --raw=code:401000 --no-tnt --no-symbols
grep -q '# gap 0x401007 to 0x401009' out || fail "gap: $(cat out)"
# Without --no-tnt, the trace does not fit its code.
expect 1 "$PTAH" stat --pt=blind --raw=code:401000
