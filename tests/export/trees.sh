#!/bin/sh
# SPDX-License-Identifier: MIT
# Calls by path, as profiles and flame graphs for other tools: the paths are those that the program
# logged, and what ran in them adds up to what was executed.
. "$PTAH_SOURCE/tests/calls/common.sh"

programs=$PTAH_SOURCE/tests/export
build_log_from=$PTAH_SOURCE/tests/calls/programs
gcc -std=c11 -D_GNU_SOURCE -O2 -fno-optimize-sibling-calls -c -o call_log.o "$build_log_from/call_log.c"
logged gcc paths paths.c -O1 -no-pie -fno-optimize-sibling-calls -I"$build_log_from"
# Names that mean something to readers, and to browsers.
hostile='</title><script>alert("1")</script>; [u8; 4] &amp
 17'
cp paths original
objcopy --redefine-sym "strange=$hostile" paths
record_log -- ./paths

export_all()
{
	for to in folded svg speedscope pprof; do
		"$PTAH" export -q --to=$to -o "$1.$to" perf.data || fail "export --to=$to: $?"
	done
}

export_all all
"$PTAH" stat -q --format=json perf.data >stat.json
if command -v go >/dev/null; then
	HOME=$PWD go tool pprof -raw all.pprof >raw.txt 2>raw.err ||
		fail "go tool pprof: $(cat raw.err)"
fi
python3 "$PTAH_SOURCE/tests/export/trees.py" all "$hostile" stat.json original log.* || fail "see above"
