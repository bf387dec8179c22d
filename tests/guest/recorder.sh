#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah record --recorder=module in a guest: what it writes in each mode is decoded alike by perf and
# Ptah, and is what the processors executed while they traced. Then what goes wrong beside it: full
# buffers, a recorder that is killed, processors that go offline, perf's own driver, rmmod.
# MODES=regex records those whose name matches.
. "$PTAH_SOURCE/tests/guest/common.sh"

kernel=$(cut -d ' ' -f 1 "$guest_cache/version")
headers=/usr/src/linux-headers-$kernel
[ -e "$headers/Makefile" ] || skip "no headers of the guest's kernel (Debian: linux-headers-$kernel)"
make -s -C "$PTAH_SOURCE/port/linux" BUILD="$PWD/module" KDIR="$headers" >make.log 2>&1 ||
	fail "the module does not build: $(grep -m 3 -E 'error|\*\*\*' make.log)"

guest_new
guest_program work
guest_program work32 -m32 -nostdlib -ffreestanding -fno-pie -no-pie -fno-stack-protector
strip --strip-debug -o root/modules/ptah.ko module/ptah.ko

cat >in/plug <<'END'
taskset 2 work forks 4
echo 0 >/sys/devices/system/cpu/cpu1/online
work forks 4
echo 1 >/sys/devices/system/cpu/cpu1/online
work forks 4
END

cat >script <<'END'
insmod /modules/ptah.ko
module_record() {
	to=$1
	prefix=$2
	shift 2
	record "$to" $prefix ptah record --recorder=module -o "$to.data" "$@"
}
# until_running FILE: the recorder in the background has written something, or has ended.
until_running() {
	until [ -s "$1" ] && [ "$(wc -c <"$1")" -gt 4096 ]; do
		kill -0 $recorder 2>/dev/null || return 0
		usleep 10000
	done
}
mkfifo ctl ack
control() {
	for command in "$@"; do
		echo "$command" >ctl
		head -1 ack >>answers
	done
}
module_record user '' -e intel_pt//u -- work some
module_record both '' -e intel_pt//uk --kcore -- work some
module_record all '' -a -m,16M -e intel_pt//uk --kcore -- work forks 4
module_record cpu-1 'taskset 2' -C 1 -e intel_pt//uk --kcore -- work moves 8
module_record children '' -e intel_pt//u -- work forks 40
module_record threads '' -e intel_pt//u -- work threads 20
module_record moves '' -e intel_pt//uk --kcore -- work moves 20
module_record exec '' -e intel_pt//u -- /bin/work exec
module_record no-inherit '' -i -e intel_pt//u -- work forks 8
module_record cyc '' -e intel_pt/cyc=1,noretcomp=1,psb_period=0/u -- work some
module_record 32-bit '' -e intel_pt//u -- work32
module_record filter '' --filter 'filter filtered @ /bin/work' -- work some
module_record stop '' --filter 'filter main @ /bin/work , tracestop stopper @ /bin/work' -- work some
module_record drain '' -m,64K -e intel_pt//u -- work some
control enable disable enable &
module_record control '' -D -1 --control=fifo:ctl,ack -- work bursts 60
module_record snapshot '' -S1M -e intel_pt//u -- work some
work bursts 1000000 & attached=$!
module_record attach '' -p $attached -- sleep 0.2
module_record attach-thread '' -t $attached -- sleep 0.2
kill $attached
module_record full '' -m,8K -e intel_pt//uk --kcore -- work forks 8
module_record stopped '' --stop-when-full -m,8K -e intel_pt/mtc=0/u -- work some 3000
module_record plug 'taskset 1' -e intel_pt//u -- sh /in/plug

# A recorder that is killed: what it has written remains, and the next one finds nothing in its way.
work bursts 1000000 & attached=$!
ptah record --recorder=module -q -m,64K -o killed.data -p $attached 2>killed.said & recorder=$!
until_running killed.data
# Meanwhile perf's driver is held, and the module is in use.
perf record -o busy.data -e intel_pt//u -- true >/out/busy 2>&1 && echo 'perf records at the same time' >/out/wrong
rmmod ptah 2>/dev/null && echo 'the module was unloaded while it traced' >>/out/wrong
kill -9 $recorder
wait $recorder
keep killed
module_record after '' -e intel_pt//u -- work some
# The other way round.
perf record -q -B -N -o beside.data -e intel_pt//u -p $attached >/dev/null 2>&1 & recorder=$!
until_running beside.data
ptah record --recorder=module -o refused.data -- true >/out/refused 2>&1 && echo 'recorded beside perf' >>/out/wrong
# What it traces ends, and so does perf.
kill $attached
wait $recorder
rmmod ptah || echo 'the module cannot be unloaded' >>/out/wrong
ptah record --recorder=module -o refused.data -- true >/out/absent 2>&1 && echo 'recorded without the module' >>/out/wrong
:
END
[ -z "${MODES:-}" ] || sed -i -E "/^module_record /{/^module_record ($MODES) /!d}" script

# What is decoded of a recording with losses: perf and Ptah report as many as the recorder, and not
# more is decoded than was executed. On a quiet machine the recorder may be quick enough for the
# small buffer of "full"; then nothing is missing.
judge_losses() {
	guest_wait "$1"
	judged=out/$1/$1
	read -r _ tag _ <"$judged.status"
	executed=$(guest_truth "$tag" | awk '/^cpu/ { n += $4 } END { print n + 0 }')
	losses=$(sed -n 's/.*trace was lost \([0-9]*\) time.*/\1/p' "$judged.said")
	[ "${losses:-0}" != 0 ] || [ "$1" = full ] ||
		guest_wrong "$1" "nothing was lost: the buffer is too large for this test"
	decoded=$(guest_by_ptah "$judged.data" -1 2>/dev/null | awk '/^cpu/ && !/thread/ { print $4 }')
	[ "${decoded:-0}" -gt 0 ] && [ "$decoded" -le "$executed" ] ||
		guest_wrong "$1" "executed were $executed instructions, decoded are ${decoded:-0}"
	[ "${losses:-0}" != 0 ] || [ "$decoded" = "$executed" ] ||
		guest_wrong "$1" "no loss is reported, and $decoded of $executed instructions decoded"
	"$PTAH" script -q --blocks --no-symbols --symfs=root "$judged.data" 2>/dev/null | grep '# error' |
		grep -v -e 'trace was lost' -e 'ends inside a packet' >"$judged.other" &&
		guest_wrong "$1" "other errors than losses: $(head -3 "$judged.other")"
	echo "$1: ${losses:-0} losses, $decoded of $executed instructions"
}

# The file of a recorder that was killed ends where it was flushed last, without errors.
judge_killed() {
	guest_wait killed
	found=$(guest_by_ptah out/killed/killed.data -1 2>/dev/null | awk '/^cpu/ && !/thread/ { print $4 }')
	[ "${found:-0}" -gt 1000 ] || guest_wrong killed "${found:-no} instructions"
	# perf knows no processor of samples in a file without its end.
	by_perf=$(timeout 600 perf script -i out/killed/killed.data --symfs root --itrace=i0ns -F ip 2>/dev/null |
		head -n 20000000 | wc -l)
	[ "$by_perf" = "$found" ] || guest_wrong killed "perf decodes $by_perf, Ptah $found instructions"
	echo "killed: $found instructions"
}

guest_boot <script
for name in $(sed -n 's/^module_record \([^ ]*\) .*/\1/p' script); do
	case $name in
	full | stopped) judge_losses "$name" ;;
	all | cpu-1) guest_judge "$name" ;;
	*) guest_judge "$name" threads ;;
	esac
done
judge_killed
guest_end
[ ! -e out/wrong ] || fail "$(cat out/wrong)"
grep -q 'EBUSY\|busy' out/busy || fail "perf says: $(cat out/busy)"
grep -q 'perf uses Intel PT' out/refused || fail "beside perf: $(cat out/refused)"
grep -q "module is not loaded" out/absent || fail "without the module: $(cat out/absent)"
