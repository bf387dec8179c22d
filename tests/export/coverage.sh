#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah export of coverage: gcov's figures for the same program, line by line, whatever version of
# DWARF and options of the linker.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
need gcov
need gcc
coverage="python3 $PTAH_SOURCE/tests/export/coverage.py"

# Names of folders and files are any bytes.
src="$PWD/a b,c<&'\"é"
mkdir "$src"
cat >"$src/twice.h" <<'X'
static inline int twice(int x)
{
	if (x > 5)
		return 2 * x;
	return x + x;
}
X
cat >"$src/library.c" <<'X'
#include "twice.h"
int library(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += twice(i);
	return sum;
}
int library_never(int n)
{
	while (n > 0)
		n -= twice(n);
	return n;
}
X
cat >"$src/program.c" <<'X'
#include "twice.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int library(int n);
static unsigned seed = 1;
static unsigned draw(void)
{
	seed = seed * 1664525u + 1013904223u;
	return seed >> 16;
}
static int classify(int x)
{
	switch (x % 7) {
	case 0: return 1;
	case 1: return 2;
	case 2: return 3;
	case 3:
	case 4: return 9;
	case 5: break;
	default: return 11;
	}
	return 0;
}
int recurse(int n) { return n < 2 ? 1 : recurse(n - 1) + recurse(n - 2); }
int one_line(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
static int conditions(int a, int b,
		      int c)
{
	if (a > 3 &&
	    (b < 2 ||
	     c == 7))
		return 1;
	else if (a == 2 && twice(b) > 4)
		return 2;
	else
		return 3;
}
void never(int n)
{
	for (int i = 0; i < n; i++)
		if (i & 1)
			puts("x");
}
static jmp_buf back;
static void leave(int how)
{
	if (how > 2)
		longjmp(back, how);
	seed++;
}
static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}
static int nested(int n)
{
	int total = 0, i = 0;

	do {
		int j = n;
		while (j-- > 0) {
			if (j % 3 == 0)
				continue;
			for (int k = j; k; k /= 2)
				total += k & 1 ? 1 : 2;
			if (total > 1000000)
				goto out;
		}
	} while (++i < n);
out:
	return total;
}
int main(int argc, char **argv)
{
	int n = 0, m, list[] = {5, 2, 9, 1, 7, 3};
	for (int i = 0; i < 100; i++) {
		if (draw() & 1)
			n++;
		else
			n--;
		n += classify(i);
	}
	while (n > 3)
		n -= 2;
	do {
		n++;
	} while (n < 10 && argc < 5);
	for (int i = 0; i < 10; i++)
		for (int j = 0; j < 5; j++)
			n += conditions(i, j, n);
	m = recurse(10) +
	    one_line(20);
	if (argc > 3)
		never(n);
	if (n < 0) exit(3);
	char *p = strdup("hello world");
	for (char *q = p; *q; q++) if (*q == 'o') *q = 'a'; else *q ^= 0;
	for (;;) {
		if (n++ > 1000)
			break;
		if (n % 3)
			continue;
		m++;
	}
	qsort(list, 6, sizeof(*list), compare);
	for (int i = 1; i < 5; i++) {
		if (setjmp(back) == 0)
			leave(i);
		else
			m += 2;
	}
	free(p);
	m += nested(7) + library(12) + twice(2);
	printf("%d %d %d\n",
	       n,
	       m, list[2]);
	return argv[0] ? 0 : 1;
}
X

# What gcov counts.
mkdir gcov
(cd gcov && gcc -O0 --coverage -o program "$src/program.c" "$src/library.c" && ./program >out &&
	gcov -b -c --json-format -t program-program.gcda program-library.gcda >all.json) ||
	skip "gcov does not work"

# build COMPILER OPTIONS...: the program with its library, built so and recorded in r.data; and its
# coverage in c.info.
build() {
	cc=$1
	shift
	"$cc" -g "$@" -fPIC -shared -o liblibrary.so "$src/library.c" || fail "no library"
	"$cc" -g "$@" -o program "$src/program.c" -L. -llibrary "-Wl,-rpath,$PWD" || fail "no program"
	record r.data ./program
	cmp -s recorded-out gcov/out || fail "$*: the program prints something else"
	expect 0 "$PTAH" export -q --to=lcov -o c.info --include="*/a b?c*" r.data
	[ ! -s err ] || fail "messages: $(cat err)"
}

# Every line, branch and function is as gcov has it, or differs in a way that docs/export.md lists.
build gcc -O0 -gdwarf-5
$coverage compare c.info gcov/all.json "$src" >differences || fail "gcc: $(cat differences)"
grep -q '^lines in common: 9[0-9]' differences || fail "$(cat differences)"
cp c.info dwarf5.info
build gcc -O0 -gdwarf-4 -no-pie -ffunction-sections -Wl,--gc-sections -gz
cmp c.info dwarf5.info || fail "DWARF 4, not PIE, sections of functions: other figures"

# The other formats have the same figures. gcovr, geninfo, lcov, genhtml and xmllint read them.

# format FILE: writes it.
format() {
	expect 0 "$PTAH" export -q -o "$1" --include="*/a b?c*" r.data
}
format c.gcov.json
format c.xml
$coverage same c.info c.gcov.json || fail "gcov's format has other figures"
$coverage same c.info c.xml || fail "Cobertura's format has other figures"
total() { # KEY...: sums of the records of c.info
	awk -F: -v keys=" $* " 'index(keys, " " $1 " ") { n += $2 } END { print n }' c.info
}
if command -v gcovr >/dev/null && gcovr --version | grep -q '^gcovr 5\.2'; then
	gcovr -r "$PWD" -a c.gcov.json >gcovr || fail "gcovr does not read it"
	equal "gcovr's lines" "$(awk '$1 == "TOTAL" { print $2, $3 }' gcovr)" "$(total LF) $(total LH)"
	gcovr -r "$PWD" -b -a c.gcov.json >gcovr
	equal "gcovr's branches" "$(awk '$1 == "TOTAL" { print $2, $3 }' gcovr)" "$(total BRF) $(total BRH)"
fi
if command -v geninfo >/dev/null; then
	cat >gcov-tool <<-'X'
		#!/bin/sh
		case "$*" in *-v* | *-h*) exec gcov "$@" ;; esac
		gzip -c "$PTAH_JSON" >program.gcov.json.gz
	X
	chmod +x gcov-tool
	rm gcov/program-library.gc*
	(cd gcov && PTAH_JSON="$PWD/../c.gcov.json" geninfo -q --rc lcov_branch_coverage=1 --gcov-tool "$PWD/../gcov-tool" -o ../geninfo.info . \
		>../out 2>&1) || fail "geninfo does not read it: $(cat out)"
	# It writes names of files in Latin-1.
	iconv -f LATIN1 -t UTF-8 geninfo.info >utf8.info
	$coverage same c.info utf8.info || fail "geninfo understands other figures"
	lcov --summary c.info --rc lcov_branch_coverage=1 >summary 2>&1 || fail "$(cat summary)"
	grep -q "lines.*($(total LH) of $(total LF) lines)" summary || fail "lines: $(cat summary)"
	grep -q "functions.*($(total FNH) of $(total FNF) " summary || fail "functions: $(cat summary)"
	grep -q "branches.*($(total BRH) of $(total BRF) " summary || fail "branches: $(cat summary)"
	genhtml -q --branch-coverage -o html c.info >out 2>&1 || fail "genhtml: $(cat out)"
	[ -e html/index.html ] || fail "no pages"
fi
if command -v xmllint >/dev/null; then
	sed '/^<!DOCTYPE/d' c.xml >plain.xml
	xmllint --noout --nonet --dtdvalid "$PTAH_SOURCE/tests/export/coverage-04.dtd" plain.xml 2>err ||
		fail "not Cobertura's: $(cat err)"
fi

# Recordings and saved counts are added up; drcov is that of ptah cover.
expect 0 "$PTAH" profile -q -i r.data --save=saved
expect 0 "$PTAH" export -q -o twice.info --include="*/a b?c*" r.data saved
awk -F'[:,]' '/^DA:/ { print $2, 2 * $3 }' c.info >wanted
awk -F'[:,]' '/^DA:/ { print $2, $3 }' twice.info | cmp -s - wanted || fail "not twice the counts"
expect 0 "$PTAH" export -q -o c.drcov r.data
expect 0 "$PTAH" cover -q --format=drcov -o wanted.drcov r.data
cmp c.drcov wanted.drcov || fail "another drcov file than that of ptah cover"

# What cannot be in it is said.
expect 0 "$PTAH" export -o some.info --exclude='*/twice.h' r.data
! grep -q '^SF:.*twice.h' some.info || fail "--exclude has no effect"
expect 1 "$PTAH" export --to=lcov --include='/nowhere/*' r.data
grep -q 'no source file is left' err || fail "another message: $(cat err)"
python3 -c 'print("int f(int n)\n{\n\treturn n;\n}\n#line 7 \"/\\033[31mred\\nDA:1,1\\n,.c\"")
print("int g(int n)\n{\n\treturn n + 1;\n}\n#line 3 \"/" + "x" * 10000 + ".c\"")
print("int main(void)\n{\n\treturn f(g(-1));\n}")' >odd.c
"$CC" -g -O0 -o odd odd.c || fail "no program with odd names"
record odd.data ./odd
for name in odd.info odd.xml odd.gcov.json; do
	expect 0 "$PTAH" export -o $name --exclude='*/sysdeps/*,./*,/usr/*' odd.data
	grep -q '[1-9] pieces of code are not in the coverage' err || fail "no note: $(cat err)"
	$coverage same odd.info $name || fail "$name: odd names of files"
	grep -q '31mred' $name || fail "$name does not have the odd name"
done
# Code without a symbol between functions does not swallow those behind it, whose lines have counts;
# and a function with an asm label has the name that its source has.
printf '\t.text\n\tnop\n\tnop\n\tret\n\t.section .note.GNU-stack,"",@progbits\n' >unnamed.s
echo 'int before(int n) { return n + 7; }' >before.c
cat >behind.c <<'END'
__attribute__((noinline)) int f(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }
int other(int n) __asm__("another_label");
__attribute__((noinline)) int other(int n) { return f(n) + f(n); }
int main(void) { return other(3) < 0; }
END
"$CC" -g -O1 -o behind before.c unnamed.s behind.c || fail "no program with unnamed code"
record behind.data ./behind
expect 0 "$PTAH" export -q --to=lcov --include="$PWD/*" -o behind.info -i behind.data
equal "calls behind unnamed code" "$(grep '^FNDA' behind.info | sort | tr '\n' ' ')" \
	"FNDA:0,before FNDA:1,main FNDA:1,other FNDA:2,f "
# Functions that ran where they were inlined, and whose own code did not.
cat >inlined.c <<'END'
volatile int sum;
inline __attribute__((always_inline)) int square(int x)
{
	sum++;
	return x * x;
}
extern int square(int x);
static inline __attribute__((always_inline)) int never(int x)
{
	sum += x;
	return x;
}
int (*volatile pointer)(int) = never;
int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < 10; i++)
		sum += square(i);
	return argc > 9 ? never(argc) : 0;
}
END
"$CC" -g -O2 -o inlined inlined.c || fail "no program with inlined functions"
record inlined.data ./inlined
expect 0 "$PTAH" export -q --to=lcov --include="$PWD/*" -o inlined.info -i inlined.data
equal "calls of inlined functions" "$(grep '^FNDA' inlined.info | sort | tr '\n' ' ')" \
	"FNDA:0,never FNDA:1,main FNDA:10,square "

strip program liblibrary.so
expect 1 "$PTAH" export --to=lcov --include="$PWD/*" r.data
grep -q '/program: not in the coverage: no debug information' err || fail "stripped: $(cat err)"
expect 2 "$PTAH" export --to=lcov --function=main r.data
