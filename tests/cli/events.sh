#!/bin/sh
# SPDX-License-Identifier: MIT
# script --events: the fields of each event, in every format. The trace is
# written by hand from the SDM's packet definitions.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

printf '\220\220\220\220\220\220\220\220\220\220\377\340' >code # NOPs, JMP *RAX
cat >text <<'END'
PSB
MODE.Exec 64-bit
PIP cr3 0x1000 nr
FUP 0x401000
PSBEND
PTW 0x11223344 ip
FUP 0x401001
EVD type 0 0xdeadbeef
CFE type 1 vector 14 ip
FUP 0x401002
EVD type 2 48
EVD type 1 0x18
CFE type 8 ip
FUP 0x401003
MWAIT hints 0x20 ext 1
EXSTOP ip
FUP 0x401004
PWRE state 3 sub 2 hw
PWRX last 2 deepest 6 store
TRIG trbv 5 mult
BBP type 4 size 8
BIP id 1 0x77
BEP ip
FUP 0x401005
MODE.TSX begin
FUP 0x401006
MODE.TSX commit
FUP 0x401007
VMCS base 0x5000
FUP 0x401008
TIP 0x401000
TIP.PGD 0x402000
END
expect 0 "$PTAH" asm -o trace text

expect 0 "$PTAH" script --pt=trace --raw=code:0x401000 --events
sed -n 's/.*# //; s/ offset.*//p' out | grep -v '^cbr' >got
cat >wanted <<'END'
psb 0x401000
paging 0x401000 cr3 0x1000 non-root status
ptwrite 0x401001 payload 0x11223344 size 4
interrupt 0x401002 vector 14 cr2 0xdeadbeef
vmexit 0x401003 reason 48 qualification 0x18
mwait 0x401004 hints 0x20 extensions 0x1
exstop 0x401004
pwre state 3 sub-state 2 hardware
pwrx last 2 deepest 6 store
trigger bits 0x5 multiple
pebs-begin type 4 size 8
pebs-item id 1 payload 0x77 size 8
pebs-end 0x401005
tsx 0x401006 begin
tsx 0x401007 commit
vmcs base 0x5000
async-branch 0x401008 to 0x401000
disabled to 0x402000
END
diff wanted got || fail "text"

expect 0 "$PTAH" script --pt=trace --raw=code:0x401000 --events --format=json
equal "interrupt" "$(json "[(e['ip'], e['vector'], e['cr2']) for e in d['instructions']
	if e.get('event') == 'interrupt']")" "[('0x401002', 14, '0xdeadbeef')]"
equal "pwrx" "$(json "[(e['last'], e['deepest'], e['store']) for e in d['instructions']
	if e.get('event') == 'pwrx']")" "[(2, 6, True)]"

# Rows of events have as many columns as the other rows of their table.
for table in '' --branches --blocks; do
	# shellcheck disable=SC2086
	expect 0 "$PTAH" script --pt=trace --raw=code:0x401000 --events --format=tsv $table
	equal "columns $table" "$(awk -F '\t' '{ print NF }' out | sort -u | wc -l)" 1
	grep -q '# interrupt vector 14 cr2 0xdeadbeef' out || fail "tsv $table: $(cat out)"
	# shellcheck disable=SC2086
	expect 0 "$PTAH" script --pt=trace --raw=code:0x401000 --format=tsv $table
	grep -q '#' out && fail "events that nobody asked for, tsv $table"
done
exit 0
