#!/bin/sh
# SPDX-License-Identifier: MIT
# Names in a recording come from whoever made it. They must not be obeyed by a terminal,
# and must not lead out of the folder that --symfs names.
. "$PTAH_SOURCE/tests/cli/common.sh"
need qemu-x86_64
need python3
need "${CC:-cc}"

# C1 controls (CSI as UTF-8 and as a byte) and a mark of direction, in the names of a thread, a
# file and a symbol. The name of a thread has 15 bytes.
csi=$(printf '\302\233') byte=$(printf '\233') mark=$(printf '\342\200\256')
cat >program.s <<END
	.globl _start
	.type _start, @function
_start:	call "f${mark}g${csi}h"
	mov \$60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type "f${mark}g${csi}h", @function
"f${mark}g${csi}h":
	ret
	.size "f${mark}g${csi}h", . - "f${mark}g${csi}h"
END
odd="a${csi}b${byte}c${mark}d"
"${CC:-cc}" -nostdlib -static -no-pie -o "$odd" program.s || skip "an assembler without such names"
"$PTAH" record --recorder=qemu -o odd.data -- "./$odd" 2>closing || fail "record: $(cat closing)"

clean() { # WHAT: the files out and err have nothing that a terminal would obey
	cat out err closing >all
	for bytes in "$csi" "$byte" "$mark"; do
		! LC_ALL=C grep -q -F "$bytes" all || fail "$1: a terminal would obey $(od -c all | head -20)"
	done
}
for command in report annotate 'annotate --branches' calls waits script 'script --calls' 'script --branches' stat verify dump \
	'profile --by=functions' 'profile --by=edges' 'cover --format=edges'; do
	for format in text json tsv; do
		case $command in
		cover*) options= ;;
		annotate* | calls | waits) options="-i odd.data --format=$format" ;;
		*) options=--format=$format ;;
		esac
		# shellcheck disable=SC2086 # words
		case $command in
		annotate* | calls | waits) expect 0 "$PTAH" $command $options ;;
		*) expect 0 "$PTAH" $command $options odd.data ;;
		esac
		clean "$command $options"
	done
done
# Each such character is one question mark.
expect 0 "$PTAH" report --limit=0 odd.data
grep -q ' a?b?c?d  *f?g?h$' out || fail "report: $(cat out)"
# JSON shows names as text does.
expect 0 "$PTAH" report --limit=0 --format=json odd.data
grep -q 'f?g?h' out || fail "JSON: $(cat out)"
mv "$odd" elsewhere
expect 1 "$PTAH" report odd.data
clean "a message"
grep -q 'a?b?c?d' err || fail "a message: $(cat err)"

# --symfs: a recorded path with .. stays below the folder.
mkdir -p outside root
printf '.globl _start\n_start: nop\nmov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' >program.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,--build-id -o outside/program program.s
record honest.data ./outside/program
# The same recording with a path of the same length that leads from the root to the program.
python3 - "$PWD/outside/program" honest.data hostile.data <<'END'
import sys
path = sys.argv[1].encode()
wanted = b"/../outside"
wanted += b"/" * (len(path) - len(wanted) - len(b"program")) + b"program"
data = open(sys.argv[2], "rb").read()
assert len(wanted) == len(path) and path in data
open(sys.argv[3], "wb").write(data.replace(path, wanted))
END
for command in report script stat verify; do
	expect 1 "$PTAH" $command --symfs=root hostile.data
	grep -q 'cannot be opened' err || fail "$command --symfs leaves the folder: $(cat err)"
done
# Below the folder, it is found as if the folder were the root.
mkdir root/outside
cp outside/program root/outside/program
expect 0 "$PTAH" verify --all --symfs=root hostile.data
expect 0 "$PTAH" report --limit=0 --symfs=root hostile.data
grep -q ' _start$' out || fail "no names below --symfs: $(cat out)"
