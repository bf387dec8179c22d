#!/bin/sh
# SPDX-License-Identifier: MIT
# What happens to a recording while it is made, on Linux' own driver in a guest: full buffers,
# snapshots, the trace switched on and off by commands, threads that fork, processors that go
# offline and come back, kernel code that is patched, the code of the vDSO.
# MODES=regex records those whose name matches.
. "$PTAH_SOURCE/tests/guest/common.sh"

guest_new
guest_program work

# The command of the recordings p-*: a processor goes offline and comes back.
cat >in/plug <<'END'
taskset 2 work forks 4
echo 0 >/sys/devices/system/cpu/cpu1/online
work forks 4
echo 1 >/sys/devices/system/cpu/cpu1/online
work forks 4
END
# Of k-*: the kernel patches its code, for a probe at a function's entry and for a static key.
cat >in/patch <<'END'
cd /sys/kernel/tracing
echo 'p:x do_sys_openat2' >kprobe_events
echo 1 >events/kprobes/x/enable
cat /dev/null
echo 0 >events/kprobes/x/enable
echo >kprobe_events
echo 1 >/proc/sys/kernel/sched_schedstats
cat /dev/null
END

cat >script <<'END'
mount -t tracefs none /sys/kernel/tracing
mkfifo ctl ack
control() {
	for command in "$@"; do
		echo "$command" >ctl
		head -1 ack >>answers
	done
}
# First, because then the host has nothing to judge yet: patched code waits in a loop, which is traced,
# until all processors have seen it, and each of them needs one of the host's.
ptah_record k-patch '' -e intel_pt//k --kcore -m,32M -- sh /in/patch
ptah_record l-kernel '' -e intel_pt//uk --kcore -m 256K,16K -- work forks 8
ptah_record l-user '' -m 256K,16K -- work some 3000
perf_record s-exit '' -Se -m,256K -e intel_pt/mtc=0/u -- work some
ptah_record s-exit-ptah '' -S256K -e intel_pt/mtc=0/u -- work some
control enable disable enable &
ptah_record c-enable '' -D -1 --control=fifo:ctl,ack -- work bursts 60
ptah_record c-delay '' -D 50 -- work bursts 60
ptah_record p-task '' -e intel_pt//uk --kcore -m,32M -- sh /in/plug
# What is executed on a processor until the recorder notices that it is back is missing, programs
# that begin there too: all but the first program run on the other processor.
ptah_record p-all 'taskset 1' -a -e intel_pt//uk --kcore -m,32M -- sh /in/plug
ptah_record v-dso '' -- work times 100
END
[ -z "${MODES:-}" ] || sed -i -E "/^(ptah|perf)_record /{/^[a-z]*_record ($MODES) /!d}" script

# What is decoded of a recording with losses: as many instructions as were executed while the trace
# was on, except those before each loss of which no packet reached the buffer, and as many errors as
# there are losses.
judge_losses() {
	guest_wait "$1"
	judged=out/$1/$1
	read -r _ tag _ <"$judged.status"
	guest_truth "$tag" >"$judged.truth"
	losses=$(sed -n 's/.*trace was lost \([0-9]*\) time.*/\1/p' "$judged.said")
	by_perf=$(perf script -i "$judged.data" --itrace=e 2>&1 | grep -c 'Lost trace data' || :)
	[ "${losses:-0}" = "$by_perf" ] ||
		guest_wrong "$1" "ptah record reports ${losses:-no} losses, perf script $by_perf"
	# A recorder on a quiet machine may be quick enough; then nothing is missing.
	missing=$((${losses:-0} ? 500 * (losses + 1) : 0))
	while read -r _ cpu _ executed _; do
		decoded=$(guest_by_ptah "$judged.data" "$cpu" 2>/dev/null |
			awk '/^cpu/ && !/thread/ { print $4 }')
		[ "${decoded:-0}" -le "$executed" ] && [ "${decoded:-0}" -ge $((executed - missing)) ] ||
			guest_wrong "$1" "processor $cpu executed $executed instructions, decoded are ${decoded:-0}"
	done <"$judged.truth"
	"$PTAH" script -q --blocks --no-symbols --symfs=root "$judged.data" 2>/dev/null | grep '# error' |
		grep -v -e 'trace was lost' -e 'ends inside a packet' >"$judged.other" &&
		guest_wrong "$1" "other errors than losses: $(head -3 "$judged.other")"
	echo "$1: ${losses:-0} losses, $(awk '{ n += $4 } END { print n + 0 }' "$judged.truth") instructions"
}

guest_append=vdso=1
guest_boot <script
for name in $(sed -n 's/^[a-z]*_record \([^ ]*\) .*/\1/p' script); do
	case $name in
	l-*) judge_losses "$name" ;;
	c-*) guest_judge "$name" ;;
	# Without MTCs perf does not know that the program is mapped when it begins. It needs half a
	# minute for each of those with the kernel, and has no code of the guest's vDSO.
	*) guest_judge "$name" no-perf ;;
	esac
done
guest_end
