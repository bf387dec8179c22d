#!/bin/sh
# SPDX-License-Identifier: MIT
# Damaged or unsuitable input: every command prints one clear sentence that names
# the file, and its status is not 0.
. "$PTAH_SOURCE/tests/cli/common.sh"

decoders='dump script report stat verify'
refused() { # FILE WORDS: every command must fail with these words
	for command in $decoders; do
		expect 1 "$PTAH" "$command" "$1"
		grep -q "$2" err || fail "$command $1: $(cat err)"
		grep -q -F "$1" err || fail "$command does not name $1: $(cat err)"
		[ "$(wc -l <err)" -eq 1 ] || fail "$command $1: more than a sentence: $(cat err)"
		[ ! -s out ] || fail "$command $1 printed something: $(head -2 out)"
	done
}

refused absent.data 'No such file'
mkdir folder
refused folder 'not a regular file'
: >empty.data
refused empty.data 'empty'
seq 1 2000 >text
refused text 'not a perf.data file'
for command in dump script report stat; do
	expect 1 "$PTAH" $command --pt=absent.pt
	grep -q 'absent.pt.*No such file' err || fail "$(cat err)"
	expect 1 "$PTAH" $command --pt=text
done

need "${CC:-cc}"
printf '.globl _start\n_start: mov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' >program.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,--build-id -o program program.s
record whole.data ./program
for command in $decoders; do
	expect 0 "$PTAH" $command whole.data
done

# A recording that was cut: what exists is shown, and the status and a note say that
# it is not all. (The offset of the records is at offset 40; only notes follow them.)
# shellcheck disable=SC2046 # two numbers
set -- $(od -An -t u8 -j 40 -N 16 whole.data)
size=$(($1 + $2))
at=$((size - 1))
while [ $at -gt 0 ]; do
	head -c $at whole.data >cut.data
	for command in $decoders; do
		status=0
		"$PTAH" $command cut.data >out 2>err || status=$?
		equal "$command of $at bytes of $size: $(cat err)" "$status" 1
		grep -q cut.data err out || fail "$command of $at bytes: $(cat err)"
	done
	at=$((at - size / 10))
done

# Cut inside a packet: dump says first that bytes are missing, then that some are bad.
at=$size
until grep -q 'bad bytes' err; do
	at=$((at - 5))
	[ $at -gt 0 ] || fail 'no cut makes bad bytes'
	head -c $at whole.data >cut.data
	expect 1 "$PTAH" dump cut.data
done
head -n 1 err | grep -q '^note: cut.data is cut short' || fail "dump of $at bytes: $(cat err)"

# Another program under the same name, then none: decoding needs --force.
cp program kept
printf '.globl _start\n_start: nop\nmov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' >program.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,--build-id -o program program.s
for command in script report stat verify; do
	expect 1 "$PTAH" $command whole.data
	grep -q 'program' err || fail "changed: $(cat err)"
	grep -q -- '--force' err || fail "what to do: $(cat err)"
done
"$PTAH" report --force whole.data >out 2>err || :
grep -q instructions out || fail "--force: $(cat err)"
rm program
expect 1 "$PTAH" report whole.data
grep -q 'program' err || fail "missing: $(cat err)"
# ptah dump needs no program.
expect 0 "$PTAH" dump whole.data

# --symfs: the program is below another root.
mkdir -p "root$PWD"
cp kept "root$PWD/program"
expect 0 "$PTAH" verify --all --symfs=root whole.data

# A stack that is too small for the buffers on it is a sentence, and not a crash.
if [ -z "${PTAH_SANITIZE:-}" ] && (ulimit -s 64) 2>/dev/null; then
	expect 1 sh -c 'ulimit -s 64; exec "$@"' sh "$PTAH" dump whole.data
	grep -q 'stack.*64 KiB' err || fail "ulimit -s 64: $(cat err)"
fi
