#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah merge of different runs of a program, whose files are loaded somewhere else each time: the sum
# of k runs has each count k times.
. "$PTAH_SOURCE/tests/cli/common.sh"
need cc

cat >lib.c <<'END'
int odd(int n) { return n & 1 ? 3 * n + 1 : n / 2; }
END
cat >program.c <<'END'
int odd(int);
static int __attribute__((noinline)) work(int n)
{
	int s = 0;

	for (int i = 0; i < n; i++)
		s += odd(i);
	return s;
}
void _start(void)
{
	int status = work(ROUNDS) & 0;

	__asm__ volatile("syscall" : : "a"(60), "D"(status) : "rcx", "r11", "memory");
	__builtin_unreachable();
}
END
build() { # NAME ROUNDS
	cc -g -O1 -fno-omit-frame-pointer -DROUNDS="$2" -nostdlib -Wl,--build-id -Wl,-z,now \
		-Wl,-rpath,"$PWD" -o "$1" program.c ./lib.so 2>cc.err || skip "no compiler: $(cat cc.err)"
}
cc -g -O1 -fPIC -shared -nostdlib -Wl,--build-id -o lib.so lib.c 2>cc.err || skip "$(cat cc.err)"
for i in 1 2 3; do
	echo "char pad[$((i * 3000000))] = {1};" | cc -x c -shared -nostdlib -o pad$i.so -
done
mkdir old
build program 20
cp program old/

# run NAME PAD: records ./program with a library that moves those behind it, and saves its counts and
# calls.
run() {
	record "$1.data" env LD_PRELOAD="$PWD/pad$2.so" ./program
	expect 0 "$PTAH" profile -q --calls --jobs=1 --save="$1" "$1.data"
}
for i in 1 2 3; do run run$i $i; done

# own FILE...: what the program's and the library's functions executed, without the dynamic linker,
# which does something else at other addresses.
own() {
	expect 0 "$PTAH" profile -q --by=functions --format=tsv --limit=0 "$@"
	awk -F'\t' '$4 ~ /(program|lib.so)$/ { n[$5] += $2; c[$5] += $3 }
		END { for (f in n) print f, n[f], c[f] }' out | LC_ALL=C sort
}
multiplied() { # K: multiplies the numbers of own
	awk -v k="$1" '{ print $1, k * $2, k * $3 }'
}
own run1 >one
grep -q '^odd .* 20$' one || fail "one run: $(cat one)"
expect 0 "$PTAH" merge -o sum run1 run2 run3
own sum >got
multiplied 3 <one >wanted
diff wanted got || fail "functions of three runs"
all=0
for i in 1 2 3; do
	expect 0 "$PTAH" profile --format=json --by=functions run$i
	all=$((all + $(json 'd["instructions"]')))
done
expect 0 "$PTAH" profile --format=json --by=functions sum
equal "all instructions" "$(json 'd["instructions"]')" $all

# By line, by call and by branch.
lines() { # FILE: instructions and executions of each line of the two sources
	expect 0 "$PTAH" annotate -q --lines --format=tsv --limit=0 -i "$1"
	awk -F'\t' '$4 ~ /(program|lib)\.c$/ { n = split($4, f, "/"); print f[n], $5, $2, $3 }' out |
		LC_ALL=C sort
}
lines run1 >one.lines
[ -s one.lines ] || fail "no lines: $(head -c 500 out)"
lines sum >got
awk '{ print $1, $2, 3 * $3, 3 * $4 }' one.lines >wanted
diff wanted got || fail "lines of three runs"
branches() {
	expect 0 "$PTAH" profile -q --format=tsv --limit=0 "$1"
	awk -F'\t' '$7 ~ /^(work|odd)/ { print $7, $8, $4, $5, $6 }' out | LC_ALL=C sort
}
branches run1 | awk '{ print $1, $2, 3 * $3, 3 * $4, 3 * $5 }' >wanted
[ -s wanted ] || fail "no branches"
branches sum >got
diff wanted got || fail "branches of three runs"
calls() {
	expect 0 "$PTAH" report -q -g --percent-limit=0 --format=tsv --limit=0 "$1"
	awk -F'\t' '$12 ~ /^(work|odd)$/ { print $12, $6, $7, $8 }' out | LC_ALL=C sort
}
calls run1 | awk '{ print $1, 3 * $2, 3 * $3, 3 * $4 }' >wanted
[ -s wanted ] || fail "no calls: $(head -3 out)"
calls sum >got
diff wanted got || fail "calls of three runs"

# The order does not matter, nor what was merged before.
expect 0 "$PTAH" merge -o left run3 run1
expect 0 "$PTAH" merge -o other left run2
cmp sum other || fail "a merge of merges"
expect 0 "$PTAH" merge -o other run2 run3 run1
cmp sum other || fail "another order"
expect 0 "$PTAH" profile --format=tsv sum
equal "processes" "$(sed 1d out | cut -f1 | sort -u)" -1
expect 0 "$PTAH" profile --by=edges --limit=0 --format=tsv run1
grep 'odd' out | head -1 | cut -f2,3 >here
expect 0 "$PTAH" profile --by=edges --limit=0 --format=tsv run2
grep 'odd' out | head -1 | cut -f2,3 >there
! cmp -s here there || fail "the library was not moved"

# With --keep-processes they are what `ptah profile` adds up.
expect 0 "$PTAH" profile -q --save=both run1 run2
expect 0 "$PTAH" merge --keep-processes -o apart run1 run2
cmp apart both || fail "--keep-processes"
expect 0 "$PTAH" profile --format=tsv apart
equal "kept processes" "$(sed 1d out | cut -f1 | sort -u | wc -l)" 2

# Another build of the program at the same path: its counts are not those of the first one.
build program 7
run new 2
expect 0 "$PTAH" merge -o two run1 new run2 run3
own new >one.new
grep -q '^odd .* 7$' one.new || fail "the new build: $(cat one.new)"
expect 0 "$PTAH" profile -q --by=functions --format=tsv --limit=0 two
equal "calls of the library" "$(awk -F'\t' '$5 == "odd" { n += $3 } END { print n }' out)" 67
equal "the new build's own function" \
	"$(awk -F'\t' '$5 == "work" { print $2 }' out)" "$(awk '$1 == "work" { print $2 }' one.new)"
lines new | grep '^program.c ' >wanted
lines two | grep '^program.c ' >got
diff wanted got || fail "lines of two builds"
cp old/program program
lines two | grep '^program.c ' >got
awk '$1 == "program.c" { print $1, $2, 3 * $3, 3 * $4 }' one.lines >wanted
diff wanted got || fail "lines of the old build"

# At random addresses, with no other code than the program's: all counts are three times one run's.
cc -g -O1 -DROUNDS=20 -static-pie -fPIE -nostdlib -Wl,--build-id -o program program.c lib.c 2>cc.err ||
	skip "no static PIE: $(cat cc.err)"
for i in 1 2 3; do
	"$PTAH" record -q --recorder=ptrace -o aslr.data ./program 2>err >out ||
		skip "the recorder ptrace: $(cat err)"
	expect 0 "$PTAH" profile -q --calls --save=aslr$i aslr.data
done
expect 0 "$PTAH" merge -o sum aslr1 aslr2 aslr3
for by in blocks branches edges functions; do
	for file in aslr1 sum; do
		expect 0 "$PTAH" profile -q --by=$by --limit=0 --format=tsv $file
		mv out $file.tsv
	done
	python3 - aslr1.tsv sum.tsv <<'END' || fail "$by at random addresses"
import csv, sys
def rows(name):
    all = []
    for row in csv.DictReader(open(name), delimiter='\t'):
        for k in ('percent', 'pid', 'ip', 'from', 'to', 'end'):
            row.pop(k, None)
        all.append({k: int(v) if v.isdigit() else v for k, v in row.items()})
    return all
one, three = ([sorted(rows(n), key=str) for n in sys.argv[1:]])
wanted = [{k: 3 * v if isinstance(v, int) else v for k, v in r.items()} for r in one]
key = lambda r: sorted(map(str, r.items()))
assert one or 'edges' in sys.argv
if 'instructions' in (one[0] if one else {}):
    assert sum(r['instructions'] for r in one) > 100
assert sorted(wanted, key=key) == sorted(three, key=key), (wanted[:3], three[:3])
END
done
expect 0 "$PTAH" merge --keep-processes -o apart aslr1 aslr2 aslr3
expect 0 "$PTAH" diff --format=json apart sum
equal "differences of the two sums" "$(json 'sum(r["old"] != r["new"] for r in d["rows"])')" 0
for file in apart sum; do
	expect 0 "$PTAH" export -q --to=lcov -o $file.lcov -i $file
done
cmp apart.lcov sum.lcov || fail "coverage of the sum"
lines aslr1 | awk '{ print $1, $2, 3 * $3, 3 * $4 }' >wanted
lines sum >got
diff wanted got || fail "lines at random addresses"
