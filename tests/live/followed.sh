#!/bin/sh
# SPDX-License-Identifier: MIT
# A recording is decoded while it is made, and its file afterwards: both count the same blocks, edges
# and calls, and as many instructions as the recorder. tests/live/follow.c compares.
. "$PTAH_SOURCE/tests/record/common.sh"

# both NAME OPTIONS... -- COMMAND...: decodes live and afterwards
both()
{
	name=$1
	shift
	"$PTAH_BUILD/tests/follow" "$@" >"$name.out" 2>"$name.err" ||
		fail "$name: $(tail -n 12 "$name.out" "$name.err")"
}

build threads
build children
build rewriting
build self_modify
build thread_exec
cat >run.sh <<'END'
ls / >files
seq 200 | sort -n | wc -l >lines
(exec true) & wait
END

for recorder in qemu native; do
	both "threads-$recorder" -r "$recorder" -j 2 x.data -- ./threads
	both "counts-$recorder" -r "$recorder" -j 2 -w 1 x.data -- ./threads
	both "children-$recorder" -r "$recorder" -j 1 x.data -- ./children
	both "script-$recorder" -r "$recorder" x.data -- sh run.sh
	both "rewriting-$recorder" -r "$recorder" -j 2 x.data -- ./rewriting
	both "modify-$recorder" -r "$recorder" x.data -- ./self_modify
	both "exec-$recorder" -r "$recorder" -j 1 x.data -- ./thread_exec
	# The recorder waits for a queue that is far too small, and nothing is lost.
	both "small-$recorder" -r "$recorder" -j 1 -q 4096 -p 1 x.data -- gzip -kf files
	grep -q '0 errors' "small-$recorder.out" || fail "errors with a small queue"
done
both ptrace -r ptrace x.data -- ./self_modify

# A pipe, cut in different ways, while it comes and afterwards.
for recorder in qemu native; do
	mkfifo fifo
	cat fifo >"pipe-$recorder.data" &
	"$PTAH" record --recorder="$recorder" -o fifo -- sh run.sh >record.out 2>&1 ||
		fail "record into a fifo: $(cat record.out)"
	wait
	rm fifo
	for chunk in 0 7 1000 100000; do
		both "pipe-$recorder-$chunk" -c "$chunk" -i "pipe-$recorder.data" \
			<"pipe-$recorder.data"
	done
done

# The same, packed as by perf record -z: records of the kernel in pieces that end anywhere.
relayout=$PTAH_BUILD/tests/relayout
if [ -x "$relayout" ]; then
	record -o whole.data sh run.sh
	"$relayout" pipe whole.data plain.data
	"$relayout" packed-pipe whole.data packed.data
	[ "$(wc -c <packed.data)" -lt "$(wc -c <plain.data)" ] || fail "packed: not smaller"
	for chunk in 0 7 100000; do
		both "packed-$chunk" -c "$chunk" -i packed.data <packed.data
	done
	grep -q ' 0 errors' packed-0.out || fail "packed: $(cat packed-0.out)"
fi

# What is left out is reported, and the rest is decoded.
both drop -r qemu -d -q 4096 -p 1 x.data -- gzip -kf files
