#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah asm: text written by hand gives the bytes that the SDM specifies, and the
# output of ptah dump gives the dumped trace again, byte for byte.
. "$PTAH_SOURCE/tests/cli/common.sh"

# round FILE [OPTION]...: checks that dump | asm gives the file again.
round() {
	file=$1
	shift
	"$PTAH" dump "$@" --pt="$file" >text 2>err || :
	expect 0 "$PTAH" asm -o again text
	cmp "$file" again || fail "$file ($*) comes back changed"
	"$PTAH" dump "$@" --raw-bytes --time --pt="$file" 2>err | "$PTAH" asm - >again
	cmp "$file" again || fail "$file ($* --raw-bytes --time) comes back changed"
}

# Text written by hand, compared with the bytes of the SDM's packet definitions (as in raw.sh).
cat >text <<'END'
# a loop
psb
cbr 9
mode.exec 64-bit
psbend
0x18: tip.pge.48 0x401000	# 48 bits

tnt TTN
tip.pgd 0x402000
END
{
	printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202'
	printf '\002\003\011\000\231\001\002\043'
	printf '\161\000\020\100\000\000\000\034\041\000\040'
} >wanted
expect 0 "$PTAH" asm -o hand text
cmp wanted hand || fail "by hand"
"$PTAH" asm - <text >hand
cmp wanted hand || fail "from standard input to standard output"
round hand

# A mistake is reported with file, line and column, and no file is left or changed.
printf 'psb\n\n  cbr 300\n' >wrong
cp hand kept
expect 1 "$PTAH" asm -o hand wrong
grep -q '^ptah asm: wrong:3:7: expected ratio.*"300"' err || fail "$(cat err)"
cmp kept hand || fail "a file was changed by text that is wrong"
expect 1 "$PTAH" asm -o fresh wrong
[ ! -e fresh ] && [ "$(echo fresh.*)" = "fresh.*" ] || fail "half a file is left"
printf 'psb\n\0\n' >wrong
expect 1 "$PTAH" asm -o fresh wrong
grep -q 'wrong:2: ' err || fail "$(cat err)"
head -c 5000 /dev/zero | tr '\0' ' ' >wrong
expect 1 "$PTAH" asm -o fresh wrong
grep -q 'wrong:1: ' err || fail "$(cat err)"
expect 1 "$PTAH" asm -o fresh absent
grep -q absent err || fail "$(cat err)"
expect 2 "$PTAH" asm
expect 2 "$PTAH" asm one two

# Every packet by itself, then in the middle of others, cut and damaged.
every=$PTAH_BUILD/fuzz/every-type/packet
groups=$PTAH_SOURCE/fuzz/corpus/packet/groups
expect 0 "$PTAH" dump --no-sync --pt="$every"
grep -q bytes out && fail "a plain packet is not told in words: $(cat out)"
mv out text
expect 0 "$PTAH" asm -o again text
cmp "$every" again || fail "every type"
cat hand "$every" "$groups" >all
size=$(wc -c <all)
at=0
# These are hundreds of processes: leaks are looked for in the other runs, and with sanitizers, where
# a process takes ten times as long to start, every fourth of these places is enough. fuzz_asm has
# the others.
step=7
[ -z "${PTAH_SANITIZE-}" ] || step=28
sanitizer=${ASAN_OPTIONS-}
export ASAN_OPTIONS="${sanitizer:+$sanitizer:}detect_leaks=0"
while [ $at -lt "$size" ]; do
	tail -c +$((at + 1)) all | head -c $((size - 2 * at % 40)) >cut
	round cut
	{
		head -c $at all
		printf '\002\377'
		tail -c +$((at + 3)) all
	} >damaged
	round damaged --no-sync
	round damaged
	at=$((at + step))
done
export ASAN_OPTIONS="$sanitizer"
head -c 100000 /dev/urandom >chance
round chance
round chance --no-sync

# Reserved bits, and a CYC that is longer than necessary.
{
	cat hand
	printf '\002\003\036\377\017\001\000\231\031'
} >reserved
round reserved
grep -q 'CBR  *ratio 30 .bytes 02 03 1e ff' text || fail "reserved bits: $(cat text)"
grep -q 'CYC  *cycles 1 .bytes 0f 01 00' text || fail "a long CYC: $(cat text)"
expect 0 "$PTAH" dump --pt=reserved

# Bytes before the first PSB are no packets, except with --no-sync; they are no damage either.
{
	printf '\001\001\001'
	cat hand
} >middle
expect 0 "$PTAH" dump --pt=middle
equal "first line" "$(head -1 out)" \
	"0000000000000000  .bytes 01 01 01  # (bad) no PSB yet; skipped 3 bytes"
equal "packets behind it" "$(sed -n '2s/.* //p' out)" PSB
expect 0 "$PTAH" dump --no-sync --pt=middle
equal "first packets" "$(grep -c TIP.PGD out)" 4
printf '\001\001\001' >none
expect 1 "$PTAH" dump --pt=none
grep -q 'no PSB' err || fail "$(cat err)"

# Options that choose packets.
expect 0 "$PTAH" dump --packets=tnt,Tip.Pge --pt=hand
equal "--packets" "$(sed 's/^[0-9a-f]*  //; s/ .*//' out | tr '\n' ' ')" "TIP.PGE TNT-8 "
expect 2 "$PTAH" dump --packets=tnt,tip.pgx --pt=hand
expect 0 "$PTAH" dump --no-timing --pt=hand
equal "--no-timing" "$(grep -c CBR out)" 0
expect 0 "$PTAH" dump --range=0x18:32 --pt=hand
equal "--range" "$(cut -c 1-25 out | tr '\n' ' ')" \
	"0000000000000018  TIP.PGE 000000000000001f  TNT-8   "
expect 0 "$PTAH" dump --range=0x20: --pt=hand
equal "last IP at --range" "$(cat out)" \
	"0000000000000020  TIP.PGD    1: ????????????2000  0000000000402000"
expect 2 "$PTAH" dump --range=5 --pt=hand
expect 2 "$PTAH" dump --range=a:b --pt=hand

# Time. MTC counts ticks of the crystal clock (one is EBX / EAX = 2 ticks of the
# TSC, a period 2^3 of them) from the count in TMA, fc TSC ticks before the TSC packet.
cat >text <<'END'
psb
tsc 0x1000
tma ctc 0x10 fc 0
psbend
mtc 3
mtc 5
END
"$PTAH" asm text >timed
expect 0 "$PTAH" dump --time --mtc-freq=3 --cpuid-0x15=1,2 --pt=timed
sed -n 's/^[0-9a-f]*  \([A-Z]*\) .*# /\1 /p' out >got
printf 'TSC tsc 0x1000\nMTC tsc 0x1010 +16\nMTC tsc 0x1030 +32\n' >wanted
diff wanted got || fail "--time: $(cat out)"
expect 2 "$PTAH" dump --time --cpuid-0x15=1 --pt=timed
expect 2 "$PTAH" dump --time --mtc-freq=16 --pt=timed
need python3
expect 0 "$PTAH" dump --format=json --time --raw-bytes --mtc-freq=3 --cpuid-0x15=1,2 --pt=timed
equal "tsc" "$(json "d['streams'][0]['packets'][-1]['tsc']")" $((0x1030))
equal "bytes" "$(json "d['streams'][0]['packets'][-1]['bytes']")" 5905

# Traces of real processors.
if [ -n "${PTAH_SHARED:-}" ] && [ -e "$PTAH_SHARED/traces/README.md" ]; then
	for name in mruby foo unzip; do
		round "$PTAH_SHARED/traces/$name.pt"
	done
else
	echo "no traces of hardware (PTAH_SHARED)"
fi

# A recording: the text of its dump assembles to the same bytes as the dump of its
# trace bytes alone.
if command -v qemu-x86_64 >/dev/null; then
	record one.data true
	"$PTAH" dump one.data >recording
	"$PTAH" asm -o one.pt recording
	bytes=$(sed -n 's/^# stream.* \([0-9]*\) bytes$/\1/p' recording)
	equal "bytes of the recording" "$(wc -c <one.pt)" "$bytes"
	round one.pt
	grep -v '^#' recording >wanted
	"$PTAH" dump --pt=one.pt | cmp - wanted || fail "a recording"
fi
