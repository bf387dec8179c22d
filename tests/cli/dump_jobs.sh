#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah dump --jobs prints the same bytes as one thread does, wherever the trace is cut into parts:
# what is not a packet, what looks like a PSB and is none, and long stretches without one are moved
# by a random length against the places where the jobs begin.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

# trace FILE SEED: a trace of some 100 KB to 3 MB.
trace() {
	python3 - "$1" "$2" <<'END'
import random, sys
r = random.Random(int(sys.argv[2]))
psb = b'\x02\x82' * 8
psbend = b'\x02\x23'
def tnt(n): return bytes(r.choice(range(4, 256, 2)) for _ in range(n)).replace(b'\x82', b'\x84')
def tip(): return b'\x6d' + r.randbytes(6)	# 48 bits
def short_tip(): return b'\x2d' + r.randbytes(2)	# IP compressed: needs the last one
def ptw(): return b'\x02\x32' + r.randbytes(8)
# A PTW whose payload continues in what follows, so that a PSB seems to begin inside it.
def false_psb(): return b'\x02\x32' + b'\x02\x82' * 4 + psb
# Payloads of two PEBS items are a PSB, but for their headers; and a block with a PSB in it.
def pebs(): return b'\x02\x63\x00' + b''.join(b'\x04' + r.randbytes(8) for _ in range(9))
def garbage(): return b'\xd9' * r.randrange(1, 60)
def cut(): return tip()[:r.randrange(1, 7)]
def packets(n):
    kinds = [lambda: tnt(20), tip, short_tip, ptw, lambda: b'\x00' * 5]
    return b''.join(r.choice(kinds)() for _ in range(n))
out = [garbage(), b'\x00' * r.randrange(70000)]
for _ in range(r.randrange(20, 120)):
    out.append(psb + psbend + packets(r.randrange(1, 400)))
    what = r.randrange(12)
    if what == 0: out.append(false_psb())
    elif what == 1: out.append(pebs())
    elif what == 2: out.append(pebs() + b'\x02\x33')
    elif what == 3: out.append(garbage() + packets(3))
    elif what == 4: out.append(cut())
    elif what == 5: out.append(garbage() + b'\xd9' * r.randrange(100000))
    elif what == 6: out.append(psb[:r.randrange(1, 16)])
    elif what == 7: out.append(packets(r.randrange(20000)))
    elif what == 8: out.append(psb + psb + b'\x02\x82')
out.append(r.choice([b'', tip(), cut(), psb[:9], garbage()]))
open(sys.argv[1], 'wb').write(b''.join(out))
END
}

# same SEED JOBS OPTION...
same() {
	name="seed $1, $2 jobs"
	jobs=$2
	shift 2
	one=0
	"$PTAH" dump -q "$@" -j1 --pt=trace >one 2>one-err || one=$?
	many=0
	"$PTAH" dump -q "$@" -j"$jobs" --pt=trace >many 2>many-err || many=$?
	cmp one many || fail "$name: other bytes than one thread ($*)"
	cmp one-err many-err || fail "$name: another message ($*)"
	equal "$name: exit status ($*)" "$many" "$one"
}

for seed in 1 2 3 4 5 6; do
	trace trace "$seed"
	same "$seed" 2
	same "$seed" $((seed % 7 + 3)) --raw-bytes
	same "$seed" 3 --no-sync --packets=tip,bad,bbp
	same "$seed" 4 --format=tsv
	[ $((seed % 3)) != 0 ] || same "$seed" 2 --format=json
done
"$PTAH" dump -q -j3 --pt=trace >text || :
"$PTAH" asm -o again text
cmp trace again || fail "what is printed by jobs is not the trace"

# A long trace without any PSB, and one that ends while it is written.
head -c 5000000 /dev/zero >trace
same zero 2
same zero 2 --no-sync
trace trace 99
"$PTAH" dump -q -j3 --pt=trace | head -1 >first || :
"$PTAH" dump -q -j1 --pt=trace 2>/dev/null | head -1 >one || :
cmp first one || fail "the first line"
