#!/bin/sh
# SPDX-License-Identifier: MIT
# What perf records of a real kernel beside Intel PT: samples of tracepoints and software events have
# the fields that perf prints, and waits are those of `perf sched timehist` and of the program's log.
. "$PTAH_SOURCE/tests/guest/common.sh"
command -v python3 >/dev/null || skip "no python3"

guest_new
for program in queue chain; do
	"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -static -pthread \
		-o "root/bin/$program" "$PTAH_SOURCE/tests/waits/programs/$program.c"
done

cat >script <<'END'
mount -t tracefs tracefs /sys/kernel/tracing
events="-e sched:sched_switch -e sched:sched_wakeup -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit -e page-faults"
for program in queue chain; do
	perf_record $program '' -a -m,8M -e intel_pt//u $events -- $program $program.log
done
END
guest_boot <script
for program in queue chain; do
	guest_wait "$program"
	file=out/$program/$program
	read -r status rest <"$file.status"
	[ "$status" = 0 ] || fail "$program: perf record ended with $status: $(tail -5 "$file.said")"
	"$PTAH" script -q --calls --events --time --format=json --symfs=root "$file.data" >"$program.json" || fail "script: $?"
	"$PTAH" waits -q --list --limit=0 --format=tsv --symfs=root -i "$file.data" >"$program.tsv" || fail "waits: $?"
	perf script -i "$file.data" --no-itrace --ns -F tid,time,event,trace >"$program.perf" 2>/dev/null
	perf sched timehist -i "$file.data" >"$program.timehist" 2>/dev/null
	python3 "$guest_source/waits.py" "$program" "$file.log" || guest_wrong "$program" "perf and Ptah differ"
	python3 "$PTAH_SOURCE/tests/waits/judge.py" "$program" "$program.tsv" "$file.log" "$file.data" ||
		guest_wrong "$program" "these waits ended otherwise"
done
guest_end
