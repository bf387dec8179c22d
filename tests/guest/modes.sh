#!/bin/sh
# SPDX-License-Identifier: MIT
# Every mode of recording on Linux' own driver in a guest: what perf record and ptah record write
# there is decoded alike by perf and Ptah, and is what the processors executed while they traced.
# MODES=regex records those whose name matches.
. "$PTAH_SOURCE/tests/guest/common.sh"

guest_new
guest_program work
guest_program work32 -m32 -nostdlib -ffreestanding -fno-pie -no-pie -fno-stack-protector

# Each mode is recorded by perf and by Ptah with the same options. In front of the options is the
# processor on which perf, and so the command, begins; - is any. With -C perf 6.1 does not record
# what is executed elsewhere; Ptah does.
cat >modes <<'END'
user        - -e intel_pt//u -- work some
kernel      - -e intel_pt//k --kcore -- work some
both        - -e intel_pt//uk --kcore -- work some
all         - -a -m,16M -e intel_pt//uk --kcore -- work forks 4
all-user    - -a -e intel_pt//u -- work threads 5
cpu-0       0 -C 0 -e intel_pt//u -- work moves 8
cpu-1       1 -C 1 -e intel_pt//uk --kcore -- work moves 8
per-thread  - --per-thread -e intel_pt//u -- work threads 5
children    - -e intel_pt//u -- work forks 8
no-inherit  - -i -e intel_pt//u -- work forks 8
exec        - -e intel_pt//u -- /bin/work exec
threads     - -e intel_pt//u -- work threads 20
storm       - -e intel_pt//u -- work forks 60
switches    - -e intel_pt//u -- work switches 50
switches-k  - -e intel_pt//uk --kcore -- work switches 20
moves       - -e intel_pt//u -- work moves 20
signals     - -e intel_pt//uk --kcore -- work signals 20
noretcomp   - -e intel_pt/noretcomp=1/u -- work some
cyc         - -e intel_pt/cyc=1/u -- work some
mtc-period  - -e intel_pt/mtc=1,mtc_period=9/u -- work some
no-mtc      - -e intel_pt/mtc=0/u -- work some
per-thread-no-tsc - --per-thread -e intel_pt/tsc=0,mtc=0/u -- work some
psb         - -e intel_pt/psb_period=0/u -- work threads 5
psb-long    - -e intel_pt/psb_period=5/u -- work some
32-bit      - -e intel_pt//u -- work32
32-bit-k    - -e intel_pt//uk --kcore -- work32
cyc-thresh  - -e intel_pt/cyc=1,cyc_thresh=4/u -- work some
cyc-no-mtc  - -e intel_pt/cyc=1,cyc_thresh=4,mtc=0/u -- work some
filter      - -e intel_pt//u --filter 'filter filtered @ /bin/work' -- work some
stop        - -e intel_pt//u --filter 'filter main @ /bin/work , tracestop stopper @ /bin/work' -- work some
END

while read -r name cpu options; do
	pinned=
	[ "$cpu" = - ] || pinned="taskset $((1 << cpu))"
	echo "perf_record p-$name '$pinned' $options"
	echo "ptah_record h-$name '' $options"
done <modes >script
# A process that runs already, however slow the machine is.
cat >>script <<'END'
work bursts 1000000 & attached=$!
perf_record p-attach '' -e intel_pt//u -p $attached -- sleep 0.2
ptah_record h-attach '' -e intel_pt//u -p $attached -- sleep 0.2
kill $attached
END
[ -z "${MODES:-}" ] || sed -i -E "/^p[a-z]*_record .-($MODES) |attached=|^kill/!d" script

guest_boot <script
for name in $(sed -n 's/^p[a-z]*_record \([^ ]*\) .*/\1/p' script); do
	case $name in
	?-per-thread* | h-no-inherit) guest_judge "$name" threads ;;
	# perf does not know that the program is mapped when it begins: it has the time of the PSB, of an
	# MTC that is up to 512 ticks old, or one that it estimates from cycles alone.
	?-no-mtc | ?-mtc-period | ?-cyc-no-mtc) guest_judge "$name" no-perf ;;
	*) guest_judge "$name" ;;
	esac
done
guest_end
