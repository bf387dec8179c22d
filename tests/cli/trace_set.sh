# SPDX-License-Identifier: MIT
# A trace set in place of a recording: every command takes a ptah.trace, or the folder of one, and
# tells two processes at the same address apart.
. "$PTAH_SOURCE/tests/cli/common.sh"

mkdir set
cat >packets.txt <<-END
	psb
	tsc 0x100
	mode.exec 64-bit
	pip cr3 0x1aa000
	psbend
	tip.pge 0x12345
	tip 0x12345
	tip 0x12345
	fup 0x12345
	tip.pgd
	pip cr3 0x2bb000
	tip.pge 0x12345
	tip 0x12345
	fup 0x12345
	tip.pgd
END
"$PTAH" asm -o "set/cpu 0" packets.txt
printf '\220\220\377\340' >set/three # nop; nop; jmp rax
printf '\146\220\377\340' >set/two   # xchg ax, ax; jmp rax
cat >set/ptah.trace <<-END
	ptah-trace 1
	stream "cpu 0" cpu=3
	raw three address=0x12345 cr3=0x1aa000
	raw two address=0x12345 cr3=0x2bb000
	note "by hand"
END

for set in set set/ptah.trace "$PWD/set/"; do
	expect 0 "$PTAH" script "$set"
	equal "instructions of three" "$(grep -c '(three)' <out)" 6
	equal "instructions of two" "$(grep -c '(two)' <out)" 2
done
expect 0 "$PTAH" script --branches set
equal "first branch" "$(sed -n 1p <out)" "trace -1 trace-begin    0 => 12345 (three)"
equal "branches of two" "$(grep -c '12347 (two) => 12345 (two)' <out)" 1
equal "begins of two" "$(grep -c 'trace-begin    0 => 12345 (two)' <out)" 1
expect 0 "$PTAH" report set
equal "share of three" "$(sed -n 's/ *\([0-9.]*%\).* three .*/\1/p' <out)" 75.00%
equal "share of two" "$(sed -n 's/ *\([0-9.]*%\).* two .*/\1/p' <out)" 25.00%
expect 0 "$PTAH" cover set
grep -q '	2	-1	indirect-jump.*	cr3:1aa000$' out || fail "edges: $(cat out)"
grep -q '	1	-1	indirect-jump.*	cr3:2bb000$' out || fail "edges: $(cat out)"
expect 0 "$PTAH" profile --save=saved set
expect 0 "$PTAH" profile --by=functions saved
equal "share of two, saved" "$(sed -n 's/ *\([0-9.]*%\).* two .*/\1/p' <out)" 25.00%
expect 0 "$PTAH" stat set
grep -q "by hand" out err || fail "no note: $(cat out err)"
expect 1 "$PTAH" script --cpu=2 set
expect 0 "$PTAH" dump set
equal "PIPs" "$(grep -c ' PIP ' <out)" 2

# The kernel's code and names come from the files that the set names.
need "${CC:-cc}"
mkdir kernel
cat >kernel.s <<-END
	.globl _text
	.type entry, @function
	.type work, @function
	_text: .fill 64, 1, 0x90
	entry: nop; call work; jmp *%rax
	work: nop; ret
END
"${CC:-cc}" -nostdlib -static -Wl,-Ttext=0xffffffff81000000,-e,_text,--build-id=none \
	-o kernel/kcore kernel.s
cat >kernel/kallsyms <<-END
	ffffffff81000000 T _text
	ffffffff81000040 t entry
	ffffffff81000048 t work
END
cat >packets.txt <<-END
	psb
	mode.exec 64-bit
	psbend
	tip.pge 0xffffffff81000040
	tip 0xffffffff81000046
	tip 0xffffffff81000040
	fup 0xffffffff81000040
	tip.pgd
END
"$PTAH" asm -o kernel/cpu0 packets.txt
printf 'ptah-trace 1\nstream cpu0 cpu=0\nkernel kcore=kcore kallsyms=kallsyms\n' >kernel/ptah.trace
expect 0 "$PTAH" script kernel
sed 's/	.*//; s/^trace -1 //' out >places
diff - places <<-END || fail "the kernel's names"
	ffffffff81000040 entry+0x0 ([kernel.kallsyms])
	ffffffff81000041 entry+0x1 ([kernel.kallsyms])
	ffffffff81000048 work+0x0 ([kernel.kallsyms])
	ffffffff81000049 work+0x1 ([kernel.kallsyms])
	ffffffff81000046 entry+0x6 ([kernel.kallsyms])
END

# What is wrong is reported with its line and what would be right.
echo 'strem x' >>set/ptah.trace
expect 1 "$PTAH" report set
grep -q 'set/ptah.trace:6: "strem" begins no line; these do: .*stream' err || fail "$(cat err)"
mkdir empty
expect 1 "$PTAH" report empty

# A trace that becomes shorter while it is read: the pipe is full, so most of it is still unread.
{
	printf 'psb\nmode.exec 64-bit\npsbend\ntip.pge 0x12345\n'
	yes 'tip 0x12345' | head -100000
} >packets.txt
"$PTAH" asm -o cut.pt packets.txt
{
	"$PTAH" script --pt cut.pt --raw set/three:12345 2>err || echo $? >status
} | {
	read -r _
	: >cut.pt
	cat >/dev/null
}
equal "status after a cut" "$(cat status)" 1
grep -q "was cut short while it was read" err || fail "a shorter file: $(cat err)"

# An error in two sentences is one line, without a character that stands for another.
expect 2 "$PTAH" script --pt cut.pt --filter 'start 1/2'
grep -q "use 'filter'\\. It is" err || fail "filter: $(cat err)"

: >nothing
expect 1 "$PTAH" script --pt "set/cpu 0" --filter 'filter *@nothing'
grep -q "nothing: the file is empty" err || fail "filter: $(cat err)"

# Code that reaches beyond the last address.
for whose in "" ,pid=5; do
	expect 1 "$PTAH" stat --pt "set/cpu 0,pid=5" --raw set/three:fffffffffffffffe$whose
	grep -q "three: its 4 bytes do not fit" err || fail "the last address: $(cat err)"
done
