#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah profile on a loop written by hand, whose counts are known.
. "$PTAH_SOURCE/tests/cli/common.sh"

write_loop
tab=$(printf '\t')

expect 0 "$PTAH" profile --pt=trace --raw=code:401000 --format=tsv
cat >wanted <<END
pid${tab}ip${tab}to${tab}executed${tab}taken${tab}unknown${tab}symbol${tab}to_symbol${tab}comm
0${tab}0x401007${tab}0x401005${tab}300${tab}200${tab}0${tab}0x401007${tab}0x401005${tab}
END
sed 's/^-1/0/' out | diff wanted - || fail "branches"

expect 0 "$PTAH" profile --pt=trace --raw=code:401000 --format=tsv --by=edges
cat >wanted <<END
pid${tab}from${tab}to${tab}count${tab}class${tab}symbol${tab}to_symbol${tab}comm
0${tab}0x401009${tab}0x401000${tab}100${tab}return${tab}0x401009${tab}0x401000${tab}
END
sed 's/^-1/0/' out | diff wanted - || fail "edges"

# Blocks begin where execution entered them: at the top, after the branch, at the ret.
expect 0 "$PTAH" profile --pt=trace --raw=code:401000 --format=tsv --by=blocks
cat >wanted <<END
pid${tab}ip${tab}end${tab}executed${tab}instructions${tab}class${tab}symbol${tab}comm
0${tab}0x401005${tab}0x401009${tab}200${tab}400${tab}conditional${tab}0x401005${tab}
0${tab}0x401000${tab}0x401009${tab}100${tab}300${tab}conditional${tab}0x401000${tab}
0${tab}0x401009${tab}0x40100a${tab}100${tab}100${tab}return${tab}0x401009${tab}
END
sed 's/^-1/0/' out | diff wanted - || fail "blocks"

expect 0 "$PTAH" profile --pt=trace --raw=code:401000 --format=json --by=branches
grep -q '"count": 300, "taken": 200' out || fail "json: $(cat out)"
expect 0 "$PTAH" profile --pt=trace --raw=code:401000
grep -q ' 300 .* 200 *66.67%' out || fail "text: $(cat out)"
expect 0 "$PTAH" stat --pt=trace --raw=code:401000
grep -q '^  instructions  *800$' out || fail "stat: $(cat out)"

# A decoding error is reported, and the rest is counted.
printf '\231' >>trace
expect 1 "$PTAH" profile --pt=trace --raw=code:401000 --format=tsv
grep -q '300' out || fail "with an error: $(cat out)"
