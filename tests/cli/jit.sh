#!/bin/sh
# SPDX-License-Identifier: MIT
# Code that a program generates has the names that the program lists it with. What runs, and how
# often, is known from jit.c.
. "$PTAH_SOURCE/tests/cli/common.sh"

need qemu-x86_64
${CC:-cc} -O1 -o jit "$PTAH_SOURCE/tests/cli/jit.c"
tab=$(printf '\t')

# rows OPTION...: instructions, calls, and name of the generated functions, and what holds them.
rows() {
	"$PTAH" report --limit=0 --format=tsv "$@" | grep "$tab\\[JIT\\] tid " | cut -f 2-5 | sort -k 4
}

# A map for perf has no times: the code that was replaced counts for what replaced it.
copy_of() { echo "$1.jit/perf-$pid.map"; }
record map.data ./jit map
pid=$(cat recorded-out)
map=/tmp/perf-$pid.map
trap 'rm -f "$map"' EXIT
cat >wanted <<END
30${tab}3${tab}[JIT] tid $pid${tab}py::first:/app/a b.py
100${tab}5${tab}[JIT] tid $pid${tab}py::second:/app/c.py
END
equal "instructions of what replaced other code, and of that" \
	"$(rows map.data | grep third | cut -f 1)" $((7 * 30 + 2 * 40))
rows map.data | grep -v third >got
diff wanted got || fail "names of a map for perf"

# The recorder's copy is what counts, whatever later has the process's number.
cmp "$map" "$(copy_of map.data)" || fail "no copy of the map"
rows map.data >before
cp "$map" map.kept
sed 's/third/later/' map.kept >"$map"
rows map.data >got
diff before got || fail "names of a later process"
rm -r map.data.jit
cp map.kept "$map"

# A copy beside the recording, and below --symfs, serves when the map is gone.
rows map.data >before
mkdir -p moved root/tmp
cp map.data moved
mv "$map" "moved/perf-$pid.map"
rows moved/map.data >got
diff before got || fail "a map beside the recording"
rows map.data >got
[ -s got ] && fail "names without a map"
mv "moved/perf-$pid.map" root/tmp
rows --force --symfs=root map.data 2>/dev/null | cut -f 4 >got # the program is not there
cut -f 4 before | diff - got || fail "a map below --symfs"

# A new recording has the copies of its own processes, the old one keeps its own.
rm -f moved/*.map root/tmp/*.map
record map.data ./jit map
first=$pid
pid=$(cat recorded-out)
kept=$(copy_of map.data.old)
rm "/tmp/perf-$pid.map"
record map.data sh -c 'echo "0 1 x" >/tmp/perf-$$.map; echo $$'
pid=$(cat recorded-out)
rm "/tmp/perf-$pid.map"
[ -f "$kept" ] || fail "the copies of FILE.old"
equal "copies of a new recording" "$(ls map.data.jit)" "perf-$pid.map"
rows map.data.old | sed 's/tid [0-9]*/tid/' >got
sed 's/tid [0-9]*/tid/' before | diff - got || fail "names of FILE.old"
pid=$first

# No copies: of a file that an earlier process has left, of a link, if that is not wanted.
record none.data sh -c 'cd /tmp; echo "0 1 x" >perf-$$.map; touch -d "2 days ago" perf-$$.map
	echo $$'
rm "/tmp/perf-$(cat recorded-out).map"
[ ! -e none.data.jit ] || fail "an old map was copied"
echo "0 1 x" >target
record none.data sh -c 'ln -s "$PWD"/target /tmp/perf-$$.map; echo $$'
rm "/tmp/perf-$(cat recorded-out).map"
[ ! -e none.data.jit ] || fail "a link was followed"
"$PTAH" record --recorder=qemu -o none.data --no-jit-copies -- sh -c 'echo "0 1 x" >/tmp/perf-$$.map
	echo $$' >recorded-out 2>closing
rm "/tmp/perf-$(cat recorded-out).map"
[ ! -e none.data.jit ] || fail "--no-jit-copies"

# Without the emulator, single steps record, whose clock this program's times do not agree with.
[ -z "${PTAH_SANITIZE:-}" ] || exit 0

# A jitdump has times. The recorder's clock is that of the dump, so that they are used.
"$PTAH" record --recorder=qemu --clock=host -o dump.data -- ./jit dump >recorded-out 2>closing ||
	fail "recording: $(cat closing)"
pid=$(cat recorded-out)
cmp "jit-$pid.dump" "dump.data.jit/jit-$pid.dump" || fail "no copy of the jitdump"
rm "jit-$pid.dump"
"$PTAH" script dump.data >all
for f in first:3:10 second:5:20 gone:7:30 third:2:40; do
	name=${f%%:*}
	times=${f#*:}
	equal "$name" "$(grep -c "[: ]$name[:?]" all || :)" $((${times%:*} * ${times#*:}))
done

# Each instruction has the line that the dump gives it, and each function that of its first one, also
# those that others replaced.
"$PTAH" script --srcline --format=tsv dump.data | cut -f 5 | grep '^/app/made.js:' | sort |
	uniq -c | awk '{ sub(".*:", "", $2); print $2, $1 }' | sort -n >got
cat >wanted <<END
1 27
101 95
197 78
201 203
1000 3
1100 5
1196 2
1200 7
END
diff wanted got || fail "lines of generated code"
"$PTAH" report -g --sort=line --limit=0 --format=tsv dump.data >calls
equal "calls by line" "$(awk -F '\t' '$13 == "/app/made.js" { print $14 ":" $6 }' calls | sort |
	paste -sd ' ')" "101:5 197:2 1:3 201:7"
"$PTAH" annotate -i dump.data second >code
grep -q 'made.js' code || fail "annotated lines: $(head -20 code)"
grep -q "$(printf '\033')" all && fail "a name reaches the terminal as it is"
exit 0
