#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah live: 'waits F > TIME' hits the calls in which the program says that it waited, and no others;
# functions have what was waited in them.
. "$PTAH_SOURCE/tests/waits/common.sh"

waiting requests
"$PTAH" live -q --recorder=native --watch='waits request > 5ms' --watch='waits compute > 5ms' \
	--on-hit=true --format=json --limit=0 -- ./requests log >live.json 2>err || {
	grep -q 'recorder native' err && skip "$(cat err)"
	fail "live: $? $(cat err)"
}
python3 - <<'END' || fail "hits, or what functions waited"
import json, re
logged = [float(line) for line in open("log")] # milliseconds: request 0 did not wait
lines = [json.loads(line) for line in open("live.json")]
hits = [line["text"] for line in lines if "hit" in line]
assert len(hits) == len(logged) - 1 >= 5, hits
for i, text in enumerate(hits, 1):
    found = re.match(r"waits request > 5ms: (at least )?([0-9.]+) ms( in the kernel|, by context switches)", text)
    assert found and bool(found[1]) == (found[3] != " in the kernel"), text
    assert 5 < float(found[2]) <= logged[i], (text, logged)
final = next(line for line in lines if line.get("final"))
waited = {f["function"]: f.get("waited") for f in final["functions"]}
if any("context switches" in text for text in hits):
    assert 5e6 * len(hits) < waited["request"] <= sum(logged) * 1e6, (waited["request"], logged)
    assert waited["main"] >= waited["request"] > waited["compute"], waited
else:
    assert waited["request"] is None, waited
END
"$PTAH" live -q --watch='waits request > 5 instructions' -- true 2>err && fail "instructions of waits"
grep -q 'not a watch' err || fail "$(cat err)"
