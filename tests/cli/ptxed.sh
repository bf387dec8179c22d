#!/bin/sh
# SPDX-License-Identifier: MIT
# Raw trace and records of perf, described by options as libipt's ptxed spells them: what a recording
# was taken apart into decodes to what the recording itself decodes to. The judges are perf's counts
# of a recording by Linux' driver, what the recorder counted, and the SDM.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
split="python3 $PTAH_SOURCE/tests/cli/split_perf_data.py"

instructions() { # OPTIONS...: the instructions of a decode without errors
	expect 0 "$PTAH" stat --format=json "$@"
	json "d['instructions']"
}

# Instructions that are newer than the disassembler have a size, a class and, as their text, bytes:
#	nop; VSHA512MSG1; CALL R16; ADD of three operands; jmp rax; nop
printf '\220\304\342\177\314\301\325\020\377\320\142\364\174\030\001\330\377\340\220' >new
printf '%s\n' PSB 'MODE.Exec 64-bit' 'FUP 0x401000' PSBEND 'TIP 0x40100a' 'TIP 0x401012' \
	'FUP 0x401013' TIP.PGD >text
expect 0 "$PTAH" asm -o new.pt text
expect 0 "$PTAH" script --pt=new.pt --raw=new:401000
sed 's/.*(new)	//; s/^vsha512msg1 .*/(unknown) c4 e2 7f cc c1/; s/^call r16$/(unknown) d5 10 ff d0/
	s/^add .*/(unknown) 62 f4 7c 18 01 d8/' out >got
printf '%s\n' nop '(unknown) c4 e2 7f cc c1' '(unknown) d5 10 ff d0' '(unknown) 62 f4 7c 18 01 d8' \
	'jmp rax' nop | diff - got >&2 || fail "new instructions: $(cat out)"

# By hand: a direct jump that leaves a filtered region ends tracing and, by erratum SKL014, the
# TIP.PGD lacks its address. Who knows the region knows where tracing ended.
#	401000: nop; jmp 402000		402000: nop; nop; ret
printf '\220\351\372\017\000\000' >inside
printf '\220\220\303' >outside
cat >text <<'END'
PSB
MODE.Exec 64-bit
FUP 0x401000
PSBEND
TIP.PGD
END
expect 0 "$PTAH" asm -o left text
code="--errata=SKL014 --pt left --raw inside:401000 --raw outside:402000"
# shellcheck disable=SC2086 # options, one word each
{
	equal "without the filter" "$(instructions $code)" 5
	for filter in '--filter=filter 0x401000/0x1000' \
		'--filter:addr0_cfg=1 --filter:addr0_a=0x401000 --filter:addr0_b=0x401fff' \
		'--filter:addr3_cfg 1 --filter:addr3_a 4198400 --filter:addr3_b 4202495'; do
		case $filter in
		*addr*) equal "$filter" "$(instructions $filter $code)" 2 ;;
		*) equal "$filter" "$(instructions "$filter" $code)" 2 ;;
		esac
	done
	# A range in a file, wherever the file lies.
	equal "range in a file" "$(instructions "--filter=filter 0/6@inside" $code)" 2
}
need "${CC:-cc}"
printf '.globl _start, away\n.type _start, @function\n_start: nop\njmp away\n.size _start, .-_start\n' >left.s
printf '.balign 4096\naway: nop\nnop\nret\n' >>left.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,-Ttext=0x401000,--build-id=none -o leaves left.s
for filter in '_start@leaves' '_start' '_start @ ./leaves'; do
	equal "$filter" "$(instructions --errata=SKL014 --pt left --elf leaves "--filter=filter $filter")" 2
done
# A set keeps the filter, whose file is then found below the folder that it was moved to.
mkdir set
cp left leaves set
(cd set && "$PTAH" stat -q --errata=SKL014 --pt left --elf leaves '--filter=filter _start@leaves' \
	--pevent:vdso-x64=leaves --save-set=ptah.trace >../out)
equal "filter and vdso in a set" "$(grep -c -e '^filter-text' -e '^vdso 64=leaves$' set/ptah.trace)" 2
cp left kept
expect 1 "$PTAH" stat --pt left --elf leaves --save-set=left
cmp left kept || fail "--save-set replaced the trace"
expect 0 "$PTAH" stat --errata=SKL014 --pt left --elf leaves --save-set=twice
expect 0 "$PTAH" stat --errata=SKL014 --pt left --elf leaves --save-set=twice
mv set elsewhere
equal "a set with a filter" "$(instructions --errata=SKL014 elsewhere)" 2
for filter in 'nowhere@leaves' 'filter' '0x10@leaves' "1/2 $(seq -s, 1 9 | sed 's/[0-9]/filter 1\/2/g')"; do
	"$PTAH" stat --pt left --elf leaves "--filter=filter $filter" >out 2>err && fail "accepted: $filter"
	grep -q -e '--filter' err || fail "--filter=$filter: $(cat err)"
done

# A part of a file, and several parts of one CPU as one stream.
head -c 7 /dev/zero | tr "\0" x >around
cat left >>around
size=$(wc -c <left)
expect 0 "$PTAH" dump --pt "around:7-$((7 + size))"
[ "$(wc -l <out)" -eq 5 ] || fail "a part: $(cat out)"
expect 0 "$PTAH" dump --pt around:0x7
[ "$(wc -l <out)" -eq 5 ] || fail "from an offset on: $(cat out)"
expect 0 "$PTAH" dump --pt around:7-12,cpu=3 --pt around:12,cpu=3
equal "packets of two parts" "$(wc -l <out)" 5
cp left with:7
cp left with,cpu=1
for name in with:7 with,cpu=1; do
	expect 0 "$PTAH" dump --pt $name
	equal "$name" "$(wc -l <out)" 5
done
# ptxed's --raw has a part, too.
printf 'xx' >padded
cat inside >>padded
equal "part of --raw" "$(instructions --pt left --raw padded:2-8:0x401000 --raw outside:402000)" 5
# Code of the address space that the trace names, and of another one at the same address.
sed '/PSBEND/i PIP 0x2000' text >spaced.txt
expect 0 "$PTAH" asm -o spaced spaced.txt
equal "code of a CR3" "$(instructions --pt spaced --raw inside:401000,cr3=2000 \
	--raw outside:401000,cr3=1000 --raw outside:402000,cr3=0x2000)" 5
equal "code of another CR3" "$(instructions --pt spaced --raw inside:401000,cr3=1000 \
	--raw outside:401000,cr3=2000)" 3

# Times: MTC every 2^3 crystal ticks, and EBX / EAX TSC ticks for each of them.
cat >text <<'END'
PSB
TSC 0x10000
TMA 0 0
PSBEND
MODE.Exec 64-bit
TIP.PGE 0x401000
MTC 1
MTC 2
TIP.PGD
END
if "$PTAH" asm -o timed text 2>err; then
	for clock in '--cpuid-0x15=2,84' '--cpuid-0x15.eax 2 --cpuid-0x15.ebx 0x54'; do
		# shellcheck disable=SC2086
		expect 0 "$PTAH" dump --time --format=tsv --pt timed --mtc-freq 3 --nom-freq 20 $clock
		grep -q "^.*MTC.*	$((0x10000 + 2 * 8 * 42))$" out || fail "$clock: $(cat out)"
	done
else
	fail "asm: $(cat err)"
fi

# What makes no sense is refused, and the message names the option.
refused() { # STATUS OPTIONS...
	wanted=$1
	shift
	expect "$wanted" "$PTAH" stat "$@"
	[ ! -s out ] || fail "$* printed something"
	for last; do :; done
	option=${last%%[= ]*}
	grep -q -F -e "$option" err || fail "$*: $(cat err)"
}
: >empty
for value in left:9-3 left:3-3 left,cpu=x left,cpu=-1 left,cpu=4294967296 left,cpu=1,cpu=1 left,tid= \
	left:0-99999999999999999999; do
	"$PTAH" stat "--pt=$value" >out 2>err && fail "accepted: --pt=$value"
	grep -q -F "${value%%[:,]*}" err || fail "--pt=$value: $(cat err)"
done
for option in --raw=inside --raw=inside:zz --raw=:401000 --raw=inside:401000,pid=1,cr3=5 \
	--raw=inside:401000,cr3=xyz --elf=leaves:zz --elf=leaves,pid=99999999999 --pages=inside,pid=1,cr3=z \
	--mtc-freq=16 --mtc-freq=-1 --mtc-freq= --nom-freq=256 --cpuid-0x15=1 --cpuid-0x15=0,1 \
	--cpuid-0x15=1,4294967296 --cpuid-0x15.eax=4294967296 --cpuid-0x15.ebx=x \
	--cpuid-0x15.eax=2 --filter:addr0_cfg=3 --filter:addr0_a=x --filter:addr2_b= \
	--pevent:sample-type=x --pevent:sample-config=1 --pevent:sample-config=1:x \
	--pevent:sample-config=:1 --pevent:time-shift=64 --pevent:time-mult=0 \
	--pevent:time-mult=4294967296 --pevent:time-zero=18446744073709551616 --pevent:tsc-offset=- \
	--pevent:kernel-start=all --iscache-limit=some --processor=1; do
	refused 2 --pt left "$option"
done
expect 2 "$PTAH" stat --pt left --cpu=6/x
expect 2 "$PTAH" stat --pt left --filter:addr0_a=5 --filter:addr0_b=4 --filter:addr0_cfg=1
grep -q 'ends before it begins' err || fail "$(cat err)"
for option in --raw=absent:401000 --elf=absent --pages=absent --pevent:primary=absent \
	--pevent:secondary=absent:5 --pevent:kcore=absent --pevent:vdso-x64=absent; do
	refused 1 --pt left "$option"
	grep -q 'No such file' err || fail "$option: $(cat err)"
done
for option in --raw=inside:401000 --elf=leaves --pevent:primary=empty '--filter=filter 1/2' \
	--pevent:time-shift=1; do
	expect 2 "$PTAH" stat "$option"
	grep -q 'belongs to --pt' err || fail "$option: $(cat err)"
done
long=$(head -c 5000 /dev/zero | tr '\0' a)
refused 2 --pt left "--raw=$long:401000" && grep -q 'too long' err || fail "$(head -c 200 err)"
# The number of images has no limit.
many=$(for i in $(seq 1 200); do printf ' --raw outside:%x' $((0x500000 + 16 * i)); done)
# shellcheck disable=SC2086
equal "many images" "$(instructions $many $code)" 5

# A recording by our own recorder: one stream for each thread. It knows how many instructions ran.
printf '.globl _start\n_start: mov $99, %%ecx\n1: dec %%ecx\njnz 1b\nmov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' >once.s
"${CC:-cc}" -nostdlib -static -no-pie -Wl,--build-id -o once once.s
record once.data ./once
$split once.data once >options
xargs "$PTAH" stat --format=json --pt once-aux-idx0.bin <options >out 2>err || fail "once: $(cat err)"
equal "a thread's trace" "$(json "d['instructions']")" "$recorded"
equal "its name" "$(json "d['streams'][0]['comm']")" once
"$PTAH" script --no-symbols once.data >wanted
xargs "$PTAH" script --no-symbols --pt once-aux-idx0.bin <options >got
cmp wanted got || fail "script differs"
# Cut files of records: what is there is used, and a note says so.
head -c $(($(wc -c <once-sideband.pevent) - 3)) once-sideband.pevent >cut.pevent
sed 's/once-sideband.pevent/cut.pevent/' options >cut.options
xargs "$PTAH" stat --pt once-aux-idx0.bin <cut.options >out 2>err || fail "cut: $(cat err)"
grep -q '^note: .*cut.pevent is cut short' out err || fail "cut: $(cat out err)"
# A damaged one names the file and the offset.
printf '\003\000\000\000\000\000\003\000' | cat - once-sideband.pevent >damaged.pevent
expect 1 "$PTAH" stat --pt once-aux-idx0.bin --pevent:primary damaged.pevent
grep -q 'damaged.pevent: .* at offset 0' err || fail "damaged: $(cat err)"

need xz
traces=${PTAH_SHARED:-}/traces/guest
[ -e "$traces/u.data.xz" ] || skip "no recording by Linux' driver (PTAH_SHARED)"
mkdir -p fs/bin folder
xz -dc "$traces/u.data.xz" >u.data
xz -dc "$traces/thr.xz" >fs/bin/thr

# perf 6.1 decodes so many instructions on each CPU: perf script -F cpu.
counts="1354144 1376251"
for cpu in 0 1; do
	$split u.data u $cpu >options
	wanted=${counts%% *}
	counts=${counts#* }
	# As ptxed does it: one CPU at a time, which the primary records name; or named by itself.
	for pt in u-aux-idx$cpu.bin u-aux-idx$cpu.bin,cpu=$cpu; do
		xargs "$PTAH" stat --format=json --pevent:sysroot fs --pt $pt <options >out 2>err ||
			fail "$pt: $(cat err)"
		equal "$pt" "$(json "(d['instructions'], d['errors'])")" "($wanted, 0)"
	done
	# Instruction by instruction, with threads and times.
	"$PTAH" script -q --no-symbols --time --symfs=fs --cpu=$cpu u.data >wanted
	xargs "$PTAH" script -q --no-symbols --time --symfs=fs --pt u-aux-idx$cpu.bin <options >got
	# The first line says what times these are: raw traces do not say how fine they are.
	[ "$(head -n 1 got)" = "# times: measured by the processor; how finely is not said" ] ||
		fail "CPU $cpu: $(head -n 1 got)"
	sed -i 1d wanted got
	cmp wanted got || fail "CPU $cpu: script differs"
done

# Both CPUs, by records that are all primary as those of perf-get-opts.bash without -m. Its
# rounding of time-zero to a multiple of 2048 makes no difference.
$split u.data u >options
zero=$(sed -n '/time-zero/{n;p;}' options)
rounded=$(python3 -c "print(round($zero / 2048) * 2048)")
sed "s/^$zero\$/$rounded/" options >rounded
cat >>options <<'END'
--pt=u-aux-idx0.bin,cpu=0
--pt=u-aux-idx1.bin,cpu=1
END
xargs "$PTAH" stat --format=json --symfs=fs --save-set=everything.trace <options >out 2>err ||
	fail "both: $(cat err)"
equal "both CPUs" "$(json "(d['instructions'], d['errors'])")" "(2730395, 0)"
xargs "$PTAH" stat --format=json --symfs=fs --pt=u-aux-idx0.bin,cpu=0 --pt=u-aux-idx1.bin,cpu=1 \
	<rounded >out 2>err || fail "rounded: $(cat err)"
equal "rounded time-zero" "$(json "(d['instructions'], d['errors'])")" "(2730395, 0)"
xargs "$PTAH" report --symfs=fs --format=json <options >wanted
cp wanted out
equal "threads" "$(json "d['threads']")" 5
expect 0 "$PTAH" report --format=json everything.trace
sed "s#$PWD/fs/#/#" out | cmp - wanted || fail "the saved set differs"

# Records of two CPUs do not say whose trace it is.
xargs "$PTAH" stat --symfs=fs --pt=u-aux-idx0.bin <rounded >out 2>err
grep -q 'note: .*cpu=N' out err || fail "unknown CPU: $(head -3 out err)"

# The set as a file, in a folder that moves.
mv u-*.bin u-*.pevent fs folder
cd folder
sed 's/^--save.*//' ../options | xargs "$PTAH" stat -q --symfs=fs --save-set=ptah.trace >out
cd ..
mv folder moved
for path in moved moved/ptah.trace; do
	expect 0 "$PTAH" stat --format=json $path
	equal "$path" "$(json "(d['instructions'], d['errors'])")" "(2730395, 0)"
done
# A set that was read is written again, and says the same.
expect 0 "$PTAH" stat --format=json --save-set=again.trace moved
equal "a set written again" "$(json "(d['instructions'], d['errors'])")" "(2730395, 0)"
expect 0 "$PTAH" stat --format=json again.trace
equal "a set read again" "$(json "(d['instructions'], d['errors'])")" "(2730395, 0)"
expect 2 "$PTAH" stat --save-set=x u.data
grep -q 'belongs to --pt' err || fail "--save-set of a recording: $(cat err)"
rm -f got wanted
