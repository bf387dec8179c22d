#!/bin/sh
# SPDX-License-Identifier: MIT
# A test waits for a condition, never for a time: `sleep` stands in a loop that ends when something
# has happened, times are not compared, and a limit that ends what hangs is 300 seconds or more.
# tests/*/programs, which tests record, may do what they like.
set -eu

# FILE: WORDS THAT THE LINE HAS: lines that may stay, by their reason.
cat >allowed <<'END'
The command that is recorded, or another process that is killed; how long it takes has no effect.
	tests/cli/interrupted.sh: exec sleep 10000
	tests/guest/modes.sh: -- sleep 0.2
	tests/guest/module.sh: sleep 1000 <
	tests/guest/recorder.sh: -- sleep 0.2
	tests/lint/limit.sh: sleep 1000
	tests/record/attached.sh: exec sleep 1000
	tests/record/hostile.sh: sleep 600 &
	tests/record/native/verify.sh: timeout 20 true
	tests/record/users.sh: sleep(300)
	tests/record/timing.sh: -- sleep 1
Programs in a test that sleep, or look at a clock, while they are recorded.
	tests/cli/jit.c: clock_gettime
	tests/cli/jit.c: usleep(2000)
	tests/cli/live.sh: usleep(50000)
	tests/cli/live_watch.sh: usleep(50000)
	tests/export/clock.c: clock_gettime
	tests/live/watches.sh: clock_gettime
	tests/mpi/parts.c: nanosleep
	tests/record/kernel.h: clock_gettime
	tests/record/ptrace.sh: clock_gettime
A moment in which a mistake would show. Without a mistake nothing happens, however long it is.
	tests/record/control.sh: timeout 1 head
	tests/record/terminal.sh: time.sleep(
	tests/record/test_recorder.c: usleep(50000)
Whether a process does nothing is asked again and again until it is so.
	tests/record/interrupts.sh: time.sleep(0.3)
	tests/record/orphans.sh: time.sleep(0.15)
Times that are given to what is tested, or to a reader.
	tests/record/native/test_messages_in.c: usleep(5000)
	tests/record/test_haste.c: usleep(
	tests/live/test_live.c: clock_gettime
	tests/long/programs.sh: time.monotonic()
	tests/record/test_tsc_clock.c: clock_gettime
	tests/view/browser.py: started
The CPU time of a process: other work on the machine does not count.
	tests/record/test_recorder.c: clock_gettime
A limit for what hangs, or for what would have to happen by accident.
	tests/cli/on_screen.py: PATIENCE
	tests/cli/on_screen.py: last:
	tests/engine/test_sets_threads.c: time(NULL)
	tests/long/glibc.sh: timeout -k 5 100
	tests/record/interrupts.sh: time.time()
	tests/record/orphans.sh: time.time()
	tests/record/test_ptrace.c: nanosleep
	tests/record/terminal.sh: time.time()
	tests/traceset/lldb.sh: timeout 60 $candidate
	tests/view/webdriver.py: time.monotonic()
END

folder=$PWD
cd "$PTAH_SOURCE"
find tests -type f \( -name '*.sh' -o -name '*.py' -o -name '*.[ch]' \) ! -path '*/programs/*' \
	! -path tests/lint/waits.sh | sort | xargs awk '
	function is_loop(line) { return line ~ /(^|[^a-z_])(while|until|for|do)([^a-z_]|$)/ }
	# Whether the line stands in a loop, judged by the lines before it that are indented less.
	function in_loop(depth,    d) {
		for (d in opened)
			if (d + 0 < depth && is_loop(opened[d]))
				return 1
		return is_loop($0)
	}
	function report() { print FILENAME ": " $0 }
	FNR == 1 { delete opened }
	NF {
		match($0, /^[ \t]*/)
		depth = RLENGTH
		for (d in opened)
			if (d + 0 > depth)
				delete opened[d]
		opened[depth] = $0
	}
	/^[ \t]*(#|\/?\*)/ { next }
	(/(^|[^a-z_-])(sleep|usleep) +[0-9$]/ || /(^|[^a-z_])(time\.sleep|sleep|usleep|nanosleep)\(/) && !in_loop(depth) { report() }
	/date \+%s|\$SECONDS|time\.time\(|\.monotonic\(|perf_counter|[^a-z_]time\(NULL|clock_gettime\(/ { report() }
	match($0, /timeout( -[a-z] [A-Z0-9]+)* [0-9]+ /) {
		split(substr($0, RSTART, RLENGTH), words, " ")
		n = 0
		for (w in words)
			n = words[w] ~ /^[0-9]+$/ && words[w] + 0 > n ? words[w] + 0 : n
		if (n < 300)
			report()
	}' >"$folder/found"
cd "$folder"

# Each line that was found is allowed, and each that is allowed was found.
awk -F ': ' '
	NR == FNR { if (/^\t/) { sub(/^\t/, ""); file[++n] = $1; words[n] = substr($0, length($1) + 3) } next }
	{
		for (i = 1; i <= n; i++)
			if (file[i] == $1 && index($0, words[i])) {
				used[i] = 1
				next
			}
		print "a test waits for a time, or compares times: " $0
	}
	END {
		for (i = 1; i <= n; i++)
			if (!used[i])
				print "not found any more: " file[i] ": " words[i]
	}' allowed found >wrong
[ ! -s wrong ] || { cat wrong; exit 1; }
