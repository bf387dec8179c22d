# SPDX-License-Identifier: MIT
# What the tests of the command share. PTAH is the program under test; each
# test runs in an empty folder of its own.
set -eu

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

# expect STATUS COMMAND...: runs it with its output in the files out and err, and checks its status.
expect() {
	wanted=$1
	shift
	status=0
	"$@" >out 2>err || status=$?
	[ "$status" = "$wanted" ] ||
		fail "exit status $status, not $wanted: $*
$(head -5 out)
$(head -5 err)"
}

# equal WHAT GOT WANTED: fails unless both values are the same.
equal() {
	[ "$2" = "$3" ] || fail "$1: got \"$2\", not \"$3\""
}

need() {
	command -v "$1" >/dev/null || skip "no $1"
}

# record FILE COMMAND...: records it; `recorded` is the number of instructions
# that the recorder counted.
record() {
	file=$1
	shift
	need qemu-x86_64
	"$PTAH" record --recorder=qemu --no-syscalls -o "$file" -- "$@" 2>closing >recorded-out ||
		fail "recording $*: $(cat closing)"
	recorded=$(sed -n 's/.* \([0-9]*\) instructions.*/\1/p' closing)
	[ -n "$recorded" ] || fail "no closing line: $(cat closing)"
}

# json EXPRESSION: prints a Python expression over d, the JSON document in the file out.
json() {
	python3 -c "import json, sys; d = json.load(open('out')); print($1)" ||
		fail "no JSON, or without $1: $(head -c 300 out)"
}

# loop_program PASSES: builds `program`, whose instructions are known: two, then PASSES times five
# (call leaf, leaf's nop and ret, dec, jnz), then three to exit.
loop_program() {
	need "${CC:-cc}"
	cat >program.s <<END
	.globl _start
	.type _start, @function
_start:	nop
	mov \$$1, %ebx
1:	call leaf
	dec %ebx
	jnz 1b
	mov \$60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type leaf, @function
leaf:	nop
	ret
	.size leaf, . - leaf
END
	"${CC:-cc}" -nostdlib -static -no-pie -o program program.s
}

# serve KIND FILE: starts debuginfod.py, whose address is then in $url.
serve() {
	python3 "$PTAH_SOURCE/tests/cli/debuginfod.py" "$1" "$2" &
	server=$!
	trap 'kill $server' EXIT
	while [ ! -e port ]; do
		kill -0 $server || fail "no server"
		sleep 0.05
	done
	url=http://127.0.0.1:$(cat port)
}

# A loop written by hand, in the files code and trace: three times, then back to its beginning, a
# hundred times over.
write_loop() {
	# At 0x401000:		b9 03 00 00 00	mov ecx, 3
	#	0x401005:	ff c9		dec ecx
	#	0x401007:	75 fc		jnz 0x401005
	#	0x401009:	c3		ret
	printf '\271\003\000\000\000\377\311\165\374\303' >code
	{
		printf 'PSB\nMODE.Exec 64-bit\nPSBEND\nTIP.PGE 0x401000\n'
		i=0
		while [ $i -lt 100 ]; do
			printf 'TNT TTN\nTIP 0x401000\n'
			i=$((i + 1))
		done
		printf 'FUP 0x401000\nTIP.PGD\n'
	} >text
	expect 0 "$PTAH" asm -o trace text
}
