#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah cover: on a loop written by hand, whose edges are known; and on recordings
# and traces of real processors, whose edges are computed from what ptah script prints.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
tab=$(printf '\t')

write_loop
input='--pt=trace --raw=code:401000'

# shellcheck disable=SC2086 # words
expect 0 "$PTAH" cover $input
cat >wanted <<END
from${tab}to${tab}count${tab}pid${tab}class${tab}symbol${tab}to_symbol${tab}comm
0x401007${tab}0x401005${tab}200${tab}-1${tab}conditional${tab}0x401007${tab}0x401005${tab}
0x401007${tab}0x401009${tab}100${tab}-1${tab}conditional${tab}0x401007${tab}0x401009${tab}
0x401009${tab}0x401000${tab}100${tab}-1${tab}return${tab}0x401009${tab}0x401000${tab}
END
diff wanted out || fail "edges"

# shellcheck disable=SC2086
expect 0 "$PTAH" cover --format=blocks $input
cat >wanted <<END
ip${tab}end${tab}count${tab}pid${tab}class${tab}instructions${tab}symbol${tab}comm
0x401000${tab}0x401009${tab}100${tab}-1${tab}conditional${tab}3${tab}0x401000${tab}
0x401005${tab}0x401009${tab}200${tab}-1${tab}conditional${tab}2${tab}0x401005${tab}
0x401009${tab}0x40100a${tab}100${tab}-1${tab}return${tab}1${tab}0x401009${tab}
END
diff wanted out || fail "blocks"

# The bitmap of the edges above, by the formula of <ptah/profile.h>.
cat >bitmap.py <<'END'
import sys
size, mask, bitmap = int(sys.argv[1]), 2**64 - 1, None
bitmap = bytearray(size)
for line in sys.stdin:
    source, to, count = line.split()[:3]
    if source == 'from':
        continue
    h = (int(source, 16) * 0x9e3779b97f4a7c15 + int(to, 16)) & mask
    h = ((h ^ h >> 30) * 0xbf58476d1ce4e5b9) & mask
    h = ((h ^ h >> 27) * 0x94d049bb133111eb) & mask
    at = (h ^ h >> 31) % size
    bitmap[at] = min(255, bitmap[at] + int(count))
sys.stdout.buffer.write(bitmap)
END
for size in 8 256 65536; do
	# shellcheck disable=SC2086
	expect 0 "$PTAH" cover --format=bitmap --map-size=$size $input
	printf '%s\n' '401007 401005 200' '401007 401009 100' '401009 401000 100' |
		python3 bitmap.py $size >wanted
	cmp wanted out || fail "bitmap of $size bytes"
done
# shellcheck disable=SC2086
expect 0 "$PTAH" cover --format=bitmap $input
equal "bytes by default" "$(wc -c <out)" 65536

# Reads a drcov file strictly, and prints "path address size" for each block.
cat >drcov.py <<'END'
import re, struct, sys
data = open(sys.argv[1], 'rb').read()
def line():
    global data
    text, _, data = data.partition(b'\n')
    return text.decode()
assert line() == 'DRCOV VERSION: 2'
assert line() == 'DRCOV FLAVOR: drcov'
count = int(re.fullmatch(r'Module Table: version 3, count (\d+)', line()).group(1))
assert line() == 'Columns: id, containing_id, start, end, entry, path'
modules = []
for i in range(count):
    fields = line().split(', ', 5)
    assert int(fields[0]) == i and int(fields[1]) == i
    modules.append((int(fields[2], 16), int(fields[3], 16), fields[5]))
blocks = int(re.fullmatch(r'BB Table: (\d+) bbs', line()).group(1))
assert len(data) == 8 * blocks, (len(data), blocks)
for i in range(blocks):
    start, size, module = struct.unpack_from('<IHH', data, 8 * i)
    base, end, path = modules[module]
    assert base + start + size <= end
    print(path, hex(base + start), size, hex(start))
END
# shellcheck disable=SC2086
expect 0 "$PTAH" cover --format=drcov -o loop.drcov $input
[ ! -s err ] || fail "drcov: $(cat err)"
[ "$(echo loop.drcov.*)" = "loop.drcov.*" ] || fail "the temporary file is left"
python3 drcov.py loop.drcov >got || fail "drcov"
path=$(realpath code)
printf '%s\n' "$path 0x401000 9 0x0" "$path 0x401005 4 0x5" "$path 0x401009 1 0x9" >wanted
diff wanted got || fail "blocks of drcov"

# Of a page dump: the blocks lie in the file with the pages.
python3 -c "
import struct
open('dump.addr', 'wb').write(struct.pack('<Q', 0x401000))
open('dump.dump', 'wb').write(open('code', 'rb').read().ljust(4096, b'\0'))"
expect 0 "$PTAH" cover --format=drcov -o pages.drcov --pt=trace --pages=dump
python3 drcov.py pages.drcov >got || fail "drcov of pages"
sed "s#^[^ ]*#$(realpath dump.dump)#" wanted | diff - got || fail "blocks of pages: $(cat got)"

# A decoding error is reported, and the rest is shown. Senseless command lines are refused.
cp trace broken
printf '\231' >>broken
expect 1 "$PTAH" cover --pt=broken --raw=code:401000
grep -q "^0x401007${tab}0x401005${tab}200" out || fail "with an error: $(cat out)"
expect 2 "$PTAH" cover --map-size=1000 --pt=trace --raw=code:401000
expect 2 "$PTAH" cover --map-size=0 --pt=trace --raw=code:401000
expect 2 "$PTAH" cover --format=json --pt=trace --raw=code:401000
expect 1 "$PTAH" cover --pt=absent --raw=code:401000 -o absent.out
[ ! -e absent.out ] || fail "a file of a failure"

# Computes the edges from what ptah script prints: the outcomes of conditional
# branches from the lists of instructions and of taken branches, and the targets of
# indirect branches, except where tracing stopped.
cat >add-up.py <<'END'
import collections, re
ran, behind = collections.Counter(), {}
taken, edges = collections.Counter(), collections.Counter()
for line in open('insns'):
    fields = line.rstrip('\n').split('\t')
    if len(fields) == 4 and re.match(r'(bnd )?(j(?!mp)|loop)', fields[3]):
        ran[fields[1]] += 1
        behind[fields[1]] = hex(int(fields[1], 16) + int(fields[2]))
stopped = False
for line in open('branches'):
    fields = line.rstrip('\n').split('\t')
    if fields[1].startswith('#'):
        stopped |= fields[1].startswith('# disabled')
        continue
    if fields[1] == 'conditional':
        taken[fields[2]] += 1
    if fields[1] == 'conditional' or \
            re.match('indirect|return|far', fields[1]) and not stopped and fields[3] != '0x0':
        edges[fields[2], fields[3]] += 1
    stopped = False
for ip in ran:
    edges[ip, behind[ip]] += ran[ip] - taken[ip]
for (source, to), count in edges.items():
    if count:
        print(source, to, count)
END
add_up() { # INPUT...
	"$PTAH" script --format=tsv --no-symbols "$@" >insns
	"$PTAH" script --format=tsv --no-symbols --branches --events "$@" >branches
	python3 add-up.py | LC_ALL=C sort
}

compare() { # NAME INPUT...
	name=$1
	shift
	add_up "$@" >wanted
	[ -s wanted ] || fail "$name: nothing ran"
	expect 0 "$PTAH" cover --no-symbols "$@"
	sed 1d out | awk '{ print $1, $2, $3 }' | LC_ALL=C sort >got
	diff wanted got >difference || fail "edges of $name: $(head -5 difference)"
	expect 0 "$PTAH" cover --format=bitmap --map-size=4096 "$@"
	python3 bitmap.py 4096 <wanted >map
	cmp map out || fail "bitmap of $name"
}

traces=${PTAH_SHARED:-}/traces
for name in foo unzip; do
	[ -n "${PTAH_SHARED:-}" ] && [ -e "$traces/$name.pt" ] || continue
	compare $name "--pt=$traces/$name.pt" "--pages=$traces/$name"
done

command -v qemu-x86_64 >/dev/null || exit 0
cat >program.c <<'END'
#include <stdlib.h>
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
	int list[50];

	for (int i = 0; i < 50; i++)
		list[i] = i * 7919 % 50;
	qsort(list, 50, sizeof(*list), cmp);
	return list[0];
}
END
"${CC:-cc}" -O1 -o program program.c
record perf.data ./program
compare program --input=perf.data

# Each block is at its offset in its file.
expect 0 "$PTAH" cover --format=drcov -o program.drcov
python3 drcov.py program.drcov >got || fail "drcov of a recording"
"$PTAH" script --blocks --format=tsv --no-symbols >blocks
awk -F '\t' 'NR > 1 { print $2, $3 }' blocks | sort -u | python3 -c "
import sys
for line in sys.stdin:
    ip, end = (int(x, 16) for x in line.split())
    print(hex(ip), end - ip)" | LC_ALL=C sort >wanted
awk '{ print $2, $3 }' got | LC_ALL=C sort -u >placed
left=$(sed -n 's/^note: \([0-9]*\) blocks.*/\1/p' err)
[ -z "$(comm -13 wanted placed)" ] || fail "blocks that did not run: $(comm -13 wanted placed)"
equal "blocks" "$(($(wc -l <placed) + ${left:-0}))" "$(wc -l <wanted)"
# main's offset in the file is the one that the linker wrote.
offset=$(nm program | sed -n 's/^0*\([0-9a-f]*\) T main$/0x\1/p')
grep -q "program 0x[0-9a-f]* [0-9]* $offset\$" got || fail "main is not at $offset"
