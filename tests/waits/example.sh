#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/waits.md: its commands answer as it says. Times and numbers differ from run to run.
. "$PTAH_SOURCE/tests/waits/common.sh"

cp "$PTAH_SOURCE/docs/waits/orders.c" .
"$CC" -O1 -g -fno-inline -pthread orders.c -o orders
# On a busy machine it may be that no order is placed while the stock is counted.
record_calls ./orders
until "$PTAH" waits -q | grep -q '^mutex'; do
	record_calls ./orders
done
time='[0-9.]* [num]*s'
lock='mutex stock (0x[0-9a-f]*)'

# Others may be slower there, because they waited for a processor.
"$PTAH" calls -q --of=place_order --slowest=400 --value=time --why >why.txt || fail "calls: $?"
grep -q "^    waited $time ($time for $lock[^()]*)\(, for a processor $time\)*, in other system calls $time, ran" why.txt ||
	fail "where the slowest call's time went: $(cat why.txt)"
grep -q "^    +$time  $time  $lock, until [0-9]* gave it back in count_stock < audit$" why.txt ||
	fail "why it waited: $(cat why.txt)"
grep -q "^      [0-9]*  +$time to +$time: in .*count_stock < audit" why.txt ||
	fail "what the other thread did: $(cat why.txt)"

"$PTAH" waits -q >waits.txt || fail "waits: $?"
grep -q "^mutex  *1  *$time .* place_order < main  *count_stock < audit$" waits.txt ||
	fail "the mutex: $(cat waits.txt)"
grep -q "^sleep  *1  *$time .* audit *$" waits.txt || fail "the pause: $(cat waits.txt)"
grep -q "^$lock: 1 wait, $time$" waits.txt || fail "the lock: $(cat waits.txt)"
grep -q "^  holder [0-9]*  *1 waits  *$time 100.00%  .*count_stock" waits.txt ||
	fail "its holder: $(cat waits.txt)"

"$PTAH" waits -q --list place_order >list.txt || fail "waits --list: $?"
[ "$(grep -c '^[0-9]*\.[0-9]*  [0-9]* .*mutex stock' list.txt)" = 1 ] || fail "other waits: $(cat list.txt)"
# In TSV and JSON the same.
"$PTAH" waits -q --list --limit=0 --format=tsv place_order >list.tsv || fail "waits --format=tsv: $?"
"$PTAH" waits -q --list --limit=0 --format=json place_order >list.json || fail "waits --format=json: $?"
python3 - <<'END' || fail "TSV and JSON differ"
import csv, json
# Where the kernel says when threads left their processors, these waits are listed as well.
(row,) = [r for r in csv.DictReader(open("list.tsv"), delimiter="\t") if r["cause"] == "mutex"]
(wait,) = [w for w in json.load(open("list.json"))["list"] if w["cause"] == "mutex"]
for key in ("tid", "ns", "waker", "holder", "cause", "object", "in", "call"):
    assert str(wait[key]) == row[key], (key, wait[key], row[key])
assert row["holder"] == row["waker"]
END

"$PTAH" script -q --calls >calls.txt || fail "script: $?"
grep -A1 ' call .*__lll_lock_wait' calls.txt | grep -q '# futex(0x.*, FUTEX_WAIT_PRIVATE, 2, NULL' ||
	fail "the system call does not follow the call that makes it"
