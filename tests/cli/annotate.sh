#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah annotate: a program whose counts are known by construction, gcov for the lines, objdump for
# the instructions; with and without source, debug information, symbols and files.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need gcov
need objdump
need strip

cat >program.c <<'X'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned long long seed = 1;
volatile long odd, even, total;
__attribute__((noinline)) static unsigned draw(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33);
}
__attribute__((noinline)) static void by_chance(int n)
{
	for (int i = 0; i < n; i++)
		if (draw() & 1)
			odd++;
		else
			even++;
}
__attribute__((noinline)) static void alternate(int n)
{
	for (int i = 0; i < n; i++)
		if (i & 1)
			total += 3;
		else
			total -= 1;
}
__attribute__((noinline)) static void loop(int times)
{
	for (int k = 0; k < times; k++)
		for (int i = 0; i < 256; i++)
			total += i;
}
__attribute__((noinline)) void never(int n)
{
	total += n;
}
/* mov ecx, edi; back: dec ecx; jnz back; ret */
static const unsigned char code[] = {0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
int main(int argc, char **argv)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];
	FILE *map;

	memcpy(page, code, sizeof(code));
	snprintf(name, sizeof(name), "perf-%d.map", (int)getpid());
	map = fopen(name, "w");
	fprintf(map, "%lx %zx JIT:^countdown a.x:1:2\n", (unsigned long)page, sizeof(code));
	fclose(map);
	((void (*)(int))page)(700);
	by_chance(20000);
	alternate(20000);
	loop(2000);
	if (argc > 5)
		never(argc);
	printf("%ld %ld\n", odd, even);
	return 0;
}
X
"$CC" -g -O0 -o program program.c || fail "no program"
record r.data ./program
odd=$(awk '{ print $1 }' recorded-out)
even=$(awk '{ print $2 }' recorded-out)

# The branches: executed and taken exactly as often as the program's arguments say, missed as often
# as their order allows. The one without a pattern is the first, and not the exit of the long loop.
line() { # WORDS: the number of the line with them
	grep -n -F "$1" program.c | head -1 | cut -d: -f1
}
"$PTAH" annotate -i r.data --branches --limit=0 --format=tsv >branches
branch() { # LINE EXECUTED: taken and missed of the branch there that was executed so often
	awk -F'\t' -v line="$1" -v n="$2" '$10 == line && $2 == n && $9 ~ /program\.c$/ { print $3, $1 }' \
		branches
}
between() { # WHAT VALUE LOW HIGH
	[ -n "$2" ] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || fail "$1: $2 is not from $3 to $4"
}
set -- $(branch "$(line 'if (draw() & 1)')" 20000)
equal "even outcomes by chance" "$1" "$even"
between "missed by chance" "$2" 9000 11000
set -- $(branch "$(line 'if (i & 1)')" 20000)
equal "even numbers" "$1" 10000
between "missed alternation" "$2" 0 100
set -- $(branch "$(line 'i < 256')" 514000)
equal "passes of the inner loop" "$1" 512000
between "missed exits" "$2" 1500 2500
set -- $(branch "$(line 'k < times')" 2001)
equal "passes of the outer loop" "$1" 2000
equal "the first" "$(sed -n 2p branches | cut -f 6)" "by_chance+$(sed -n 2p branches | cut -f 6 |
	sed 's/.*+//')"
equal "the second" "$(sed -n 3p branches | cut -f 10)" "$(line 'i < 256')"
sed 1d branches | cut -f 1 | sort -rn >sorted
sed 1d branches | cut -f 1 | cmp -s - sorted || fail "not sorted by misses"
equal "all of them" "$(sed 1d branches | awk '{ n += $2 } END { print n }')" \
	"$("$PTAH" verify --all --format=tsv r.data | awk -F'\t' 'NR == 2 { print $5 }')"
expect 0 "$PTAH" annotate -i r.data -j 1 --branches --limit=0 --format=tsv
cmp -s out branches || fail "another number of jobs, other branches"

# The lines are those of gcov, wherever both have a figure.
gcov_of() { # OPTIONS
	rm -rf cov
	mkdir cov
	(cd cov && "$CC" $1 --coverage -o program ../program.c && ./program >/dev/null &&
		gcov program.gcda >/dev/null) || skip "gcov does not work"
	awk -F: '$1 !~ /-/ { gsub(/[ *]/, "", $1); sub(/#####/, "0", $1); print $2 + 0, $1 }' \
		cov/program.c.gcov | sort >wanted
}
if gcov_of -O0 && [ -s wanted ]; then
	"$PTAH" annotate -i r.data --lines --limit=0 --format=tsv |
		awk -F'\t' '$4 ~ /program\.c$/ { print $5, $3 }' | sort >got
	join got wanted | awk '$2 != $3' >differences
	[ ! -s differences ] || fail "line, executed, as gcov has it: $(cat differences)"
	[ "$(join got wanted | wc -l)" -ge 25 ] || fail "few lines in common: $(cat got)"
	# What gcov has alone are the heads of functions, where DWARF has the brace, and code that did
	# not run.
	join -v 2 got wanted | awk '$2 { print $1 }' >alone
	while read -r n; do
		sed -n "${n}p" program.c | grep -q -e '^[a-z_].*(.*)$' -e 'else' || fail "no line $n"
	done <alone
fi

# The instructions are objdump's, all of them, at its addresses.
objdump -d -M intel --no-show-raw-insn program | awk '/<alternate>:/ { on = 1; next } !NF { on = 0 }
	on { sub(":", "", $1); print "0x" $1, $2 }' | sed 's/ j[a-z]*$/ j/' >wanted
"$PTAH" annotate -i r.data --format=tsv alternate >rows
sed 1d rows | awk -F'\t' '{ split($7, w, " "); print $2, w[1] }' | sed 's/ j[a-z]*$/ j/' >got
[ -s wanted ] || fail "objdump shows nothing"
diff wanted got || fail "not objdump's instructions"
equal "instructions" "$(sed 1d rows | awk -F'\t' '{ n += $3 } END { print n }')" \
	"$("$PTAH" report --limit=0 --format=tsv r.data | awk -F'\t' '$5 == "alternate" { print $2 }')"

# Nothing is left out and nothing counted twice, linkage tables and code between functions included.
equal "all of the program" "$("$PTAH" annotate -i r.data -d program --limit=0 --format=tsv |
	awk -F'\t' 'NR > 1 { n += $3 } END { print n }')" \
	"$("$PTAH" report --limit=0 --format=tsv r.data | awk -F'\t' '$4 ~ /\/program$/ { n += $2 } END { print n }')"

# Text: source and instructions, the hottest marked; by name, line and address alike.
expect 0 "$PTAH" annotate -i r.data loop
cp out by_name
grep -q "^\\*.* 512,000 .* $(line 'total += i;')  *total += i;\$" out || fail "no source: $(cat out)"
grep -q ' 514,000 .* jle .* # taken 99.61%, missed 2,0[0-9]* (0.39%)' out || fail "$(cat out)"
expect 0 "$PTAH" annotate -i r.data "program.c:$(line 'total += i;')"
cmp -s by_name out || fail "by line: $(cat out)"
expect 0 "$PTAH" annotate -i r.data "0x$(nm program | awk '$3 == "loop" { print $1 }' | sed 's/^0*//')"
cmp -s by_name out || fail "by address: $(cat out)"
expect 0 "$PTAH" annotate -i r.data -s loop -d program --stdio
cmp -s by_name out || fail "as perf has it: $(cat out)"
expect 0 "$PTAH" annotate -i r.data -l --asm-raw --att loop
grep -q "program.c:$(line 'total += i;').* 48 .*mov.*%rax" out || fail "-l --asm-raw --att: $(cat out)"
# Without a name: the hottest functions, the hottest first.
expect 0 "$PTAH" annotate -i r.data
equal "functions" "$(grep -c '^  [0-9,]* instructions, .*% of all' out)" 5
grep '% of all' out | head -1 | grep -q "$(grep '% of all' by_name)" || fail "not loop: $(cat out)"
expect 0 "$PTAH" annotate -i r.data --format=json loop
equal "JSON" "$(json "d['functions'][0]['function'], [r['executed'] for r in d['functions'][0]['lines'] if r['line'] == $(line 'total += i;')]")" \
	"loop [512000]"

# What cannot be shown is said.
expect 1 "$PTAH" annotate -i r.data never
grep -q 'never of .*/program did not run' err || fail "$(cat err)"
expect 1 "$PTAH" annotate -i r.data no_such_function
grep -q 'nothing that ran is no_such_function' err || fail "$(cat err)"
expect 2 "$PTAH" annotate r.data
grep -q "r.data is a file: -i r.data" err || fail "$(cat err)"
expect 1 "$PTAH" annotate -i r.data -d no_such_object
expect 1 "$PTAH" annotate -i r.data -d libc.so.6 loop
expect 2 "$PTAH" annotate -i r.data --branches --lines

# Without the source file; where it is now; when it is newer.
mkdir -p away/src
mv program.c away/src/
expect 0 "$PTAH" annotate -i r.data loop
grep -q 'program.c: no such source file' err || fail "missing: $(cat err)"
grep -q ' 512,000 .* add ' out || fail "no instructions: $(cat out)"
expect 0 "$PTAH" annotate -i r.data --source-path="$PWD/away/src" loop
cmp -s by_name out || fail "--source-path: $(diff by_name out)"
mkdir -p "moved$PWD"
cp -p away/src/program.c "moved$PWD/"
expect 0 "$PTAH" annotate -i r.data --prefix="$PWD/moved" loop
cmp -s by_name out || fail "--prefix: $(diff by_name out)"
touch -d '+1 hour' "moved$PWD/program.c"
expect 0 "$PTAH" annotate -i r.data --prefix="$PWD/moved" loop
grep -q 'newer than .*/program' err || fail "newer: $(cat err)"
mv away/src/program.c .

# Code that is in no file has its bytes from the recording, and its name from a perf map.
"$PTAH" annotate -i r.data countdown --format=tsv >rows
equal "its name" "$(sed -n 2p rows | cut -f 1)" 'JIT:^countdown a.x:1:2'
sed 1d rows | awk -F'\t' '{ split($7, w, " "); print w[1], $3, $4 }' >got
printf '%s\n' 'mov 1 ' 'dec 700 ' 'jnz 700 699' 'ret 1 ' >wanted
diff wanted got || fail "generated code: $(cat rows)"

# Saved counts: the same executions, no predictor, and that is said.
"$PTAH" profile --save=counts r.data >profiled
expect 0 "$PTAH" annotate -i counts --format=json loop
equal "saved" "$(json "d['predictor'], [r['executed'] for r in d['functions'][0]['lines'] if r['line'] == $(line 'total += i;')]")" \
	"None [512000]"
expect 0 "$PTAH" annotate -i counts --branches --limit=2
grep -q 'no predictor was simulated' out || fail "$(cat out)"

# Raw packets over bytes of memory: the addresses are those in memory.
printf '\377\311\165\374\303' >loop.bin
printf '%s\n' psb 'mode.exec 64-bit' psbend 'tip.pge 0x401000' 'tnt TTTTTN' 'tip.pgd 0x500000' >text
expect 0 "$PTAH" asm -o loop.pt text
expect 0 "$PTAH" annotate --pt=loop.pt --raw=loop.bin:401000 --format=tsv
sed 1d out | awk -F'\t' '{ split($7, w, " "); print $2, w[1], $3, $4 }' >got
printf '%s\n' '0x401000 dec 6 ' '0x401002 jnz 6 5' '0x401004 ret 1 ' >wanted
diff wanted got || fail "raw: $(cat out)"

# Without debug information, and without symbols.
strip -g -o bare program
strip -o stripped program
record bare.data ./bare
expect 0 "$PTAH" annotate -i bare.data loop
grep -q ' 512,000 .* add ' out && ! grep -q 'program.c' out || fail "without -g: $(cat out)"
record stripped.data ./stripped
expect 0 "$PTAH" annotate -i stripped.data -n 1
grep -q "^fn_.*(stripped)" out && grep -q ' 512,000 .* add ' out || fail "stripped: $(cat out)"
# A C++ function is shown demangled, and found by each of its names.
if command -v c++ >/dev/null && printf 'int main() { return 0; }' | c++ -o /dev/null -x c++ - 2>/dev/null; then
	cat >twice.cc <<'X'
namespace space {
struct thing {
	volatile long n;
	__attribute__((noinline)) void grow(int by) { n += by; }
	__attribute__((noinline)) void grow(long by) { n -= by; }
};
}
volatile long seen;
static inline __attribute__((always_inline)) void look(long n)
{
	seen = 2 * n;
}
int main()
{
	space::thing t{};

	look(t.n);

	for (int i = 0; i < 500; i++)
		t.grow(i);
	t.grow(5L);
	return 0;
}
X
	c++ -g -O0 -o twice twice.cc
	record twice.data ./twice
	for name in _ZN5space5thing4growEi 'space::thing::grow(int)'; do
		expect 0 "$PTAH" annotate -i twice.data --format=json "$name"
		equal "$name" "$(json "[(f['function'], f['mangled'], max(r['executed'] for r in f['code'])) for f in d['functions']]")" \
			"[('space::thing::grow', '_ZN5space5thing4growEi', 500)]"
	done
	expect 0 "$PTAH" annotate -i twice.data --format=json space::thing::grow
	equal "both" "$(json "sorted(f['mangled'] for f in d['functions'])")" \
		"['_ZN5space5thing4growEi', '_ZN5space5thing4growEl']"
	expect 0 "$PTAH" annotate -i twice.data main
	at=$(grep -n 'look(t.n);' twice.cc | cut -d: -f1)
	grep -q "seen = 2 \\* n;  (in look, called at twice.cc:$at)" out || fail "inlined: $(cat out)"
	expect 0 "$PTAH" annotate -i twice.data --no-demangle main
	grep -q 'call .* <_ZN5space5thing4growEi>' out || fail "--no-demangle: $(cat out)"
fi
# A file that has changed since the counts were saved is not shown as what ran.
"$PTAH" profile --save=counts bare.data >profiled
cp program bare
printf 'int main(void) { return 0; }' | "$CC" -o bare -x c - -Wl,--build-id
expect 0 "$PTAH" annotate -i counts -d bare
grep -q 'not available: the file has changed' out || fail "changed: $(cat out)"
