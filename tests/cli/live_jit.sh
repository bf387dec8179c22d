#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah live names the functions that a program generates, while it runs: from its jitdump and its map
# for perf. What runs, and how often, is known from jit.c; what a file of the same run says is the same.
. "$PTAH_SOURCE/tests/cli/common.sh"

need qemu-x86_64
recorders=qemu
"$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1 && recorders="qemu native"
${CC:-cc} -O1 -o jit "$PTAH_SOURCE/tests/cli/jit.c"
tab=$(printf '\t')
map=
trap 'rm -f "$map"' EXIT

# final FILE: instructions, calls and name of the generated functions, at the end
final() {
	awk -F '\t' '$2 == 1 && $12 ~ /^\[JIT\] tid / { print $7, $8, $13 }' "$1" | sort
}

# hits N NAME: so many lines of out say so, and the program's functions of this name were called so often
hits() {
	equal "$recorder: hits of $2" "$(grep -cF ": enter $2, thread " out || :)" "$1"
}

cat >wanted <<END
100 5 py::second:/app/c.py
290 9 py::third:/app/c.py
30 3 py::first:/app/a b.py
END
cat >wanted_calls <<END
100 5 py::second:/app/c.py
210 7 gone?[31m
30 3 py::first:/app/a b.py
80 2 py::third:/app/c.py
END
for recorder in $recorders; do
	live="$PTAH live --limit=0 --recorder=$recorder"

	# Each hit has the name of the code that was there at its time. In the table what was replaced
	# is added to what replaced it; in a file it has a row of its own.
	rm -f hit-*
	expect 0 $live --format=tsv -o run.data --watch='enter py::second:/app/c.py' \
		--watch='enter gone?[31m@[JIT]' --watch='enter py::third:/app/c.py@[JIT]' -- ./jit dump
	final out | diff wanted - || fail "$recorder: functions of a jitdump: $(cat err)"
	expect 0 "$PTAH" calls --stubs --limit=0 --format=tsv -i run.data
	awk -F '\t' '$10 ~ /^\[JIT\] tid / { print $4, $1, $11 }' out | sort | diff wanted_calls - ||
		fail "$recorder: ptah calls of the same run"
	expect 0 $live --format=text --watch='enter py::second:/app/c.py' \
		--watch='enter gone?[31m@[JIT]' --watch='enter py::third:/app/c.py@[JIT]' -- ./jit dump
	hits 5 py::second:/app/c.py
	hits 7 'gone?[31m@[JIT]'
	hits 2 py::third:/app/c.py@[JIT]
	! grep 'no function of this name' err || fail "$recorder: code that was replaced has run, too"

	# While the program runs: it ends when the last call of the last function was seen. Its
	# jitdump is in a folder that is known from what the program has open.
	rm -rf hit-* away seen
	mkdir away
	expect 0 $live --format=text --watch='enter py::third:/app/c.py' --on-hit='touch seen #' \
		-- ./jit dump "$PWD/away" "$PWD/seen"
	hits 2 py::third:/app/c.py
	[ -e seen ] || fail "$recorder: nobody saw the program while it ran"

	# A map has no times.
	rm -f hit-*
	expect 0 $live --format=tsv --command-output=pid -- ./jit map
	map=/tmp/perf-$(cat pid).map
	final out | diff wanted - || fail "$recorder: functions of a map for perf: $(cat err)"
	rm -f "$map"

	# Through a pipe.
	mkfifo pipe
	"$PTAH" record -q --recorder="$recorder" --clock=host -o pipe -- ./jit dump >pid 2>err-record &
	expect 0 "$PTAH" live --limit=0 --format=tsv -i - <pipe
	wait $! || fail "$recorder: into a pipe: $(cat err-record)"
	rm pipe
	final out | diff wanted - || fail "$recorder: functions through a pipe: $(cat err err-record)"
	rm -f jit-*.dump
done
exit 0
