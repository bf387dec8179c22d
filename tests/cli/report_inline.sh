#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah report --inline: instructions of inlined functions, judged by addr2line at every instruction
# that ran.
. "$PTAH_SOURCE/tests/cli/common.sh"
need addr2line
need python3
need strip

# Functions inlined at several places and into each other; other.c has another `step`.
cat >program.c <<'X'
#define INLINE static inline __attribute__((always_inline))
#define FUNCTION __attribute__((noinline, noclone))
volatile unsigned sink;
unsigned other(unsigned n);
INLINE unsigned step(unsigned x) { return x * 7 + (x >> 3) + sink; }
INLINE unsigned twice(unsigned x) { x = step(x); sink += x; return step(x); }
INLINE void loop(unsigned n) { for (unsigned i = 0; i < n; i++) sink = twice(i); }
FUNCTION static unsigned plain(unsigned x) { sink = x; return x + 1; }
FUNCTION static unsigned caller(unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += plain(step(i));
	return sum;
}
/* All of it is inlined code but the way out. */
FUNCTION static void shell(void) { loop(40); }
int main(void)
{
	loop(1000);
	sink += caller(300);
	shell();
	sink += other(500);
	return 0;
}
X
cat >other.c <<'X'
extern volatile unsigned sink;
static inline __attribute__((always_inline)) unsigned step(unsigned x) { sink ^= x; return sink; }
unsigned other(unsigned n)
{
	while (n--)
		sink += step(n);
	return sink;
}
X
"$CC" -O2 -g -no-pie -o program program.c other.c || fail "no program"
record data ./program

# What ran, as addr2line has it: of an address with several functions the first is the innermost, and
# inlined. Their files tell the two functions "step" apart.
"$PTAH" script --no-symbols --format=tsv data >path
python3 - >wanted <<'X'
import collections, csv, subprocess
executed = collections.Counter(int(row['ip'], 16) for row in csv.DictReader(open('path'), delimiter='\t'))
executed = {ip: n for ip, n in executed.items() if ip < 1 << 32} # the program is below its libraries
text = subprocess.run(['addr2line', '-a', '-i', '-f', '-e', 'program', *map(hex, executed)], text=True,
                      stdout=subprocess.PIPE, check=True).stdout
sums = collections.Counter()
for place in text.split('\n0x'):
    ip, *frames = place.split('\n')
    name, line = frames[:2]
    inlined = len([f for f in frames if f]) > 2
    if '?' not in line:
        key = name + ' (inlined)' if inlined else name
        sums[key, line.split(':')[0] if inlined else ''] += executed[int(ip, 16)]
print('\n'.join(sorted('%s\t%d\t%d' % (k[0], n, bool(k[1])) for k, n in sums.items())))
X
equal "functions judged" "$(cut -f 1 wanted | tr '\n' ',')" \
	"caller,loop (inlined),main,other,plain,shell,step (inlined),step (inlined),twice (inlined),"

# rows FILE: those of the program's own code, as "function instructions inlined", and without debug
# information all of the program.
rows() {
	awk -F'\t' -v all="${2-}" 'NR == FNR { own[$1]; next }
		$4 ~ /\/(program|bare)$/ && (all || $5 in own) { print $5 "\t" $2 "\t" $7 }' wanted "$1" |
		LC_ALL=C sort
}
sum() { # FILE: of the instructions
	awk -F'\t' 'NR > 1 { n += $2 } END { print n }' "$1"
}
expect 0 "$PTAH" report --inline --limit=0 --format=tsv data
mv out inlined
rows inlined >got
LC_ALL=C sort wanted | diff - got || fail "not what addr2line says"
equal "all rows" "$(sum inlined)" "$recorded"
"$PTAH" report --limit=0 --format=tsv data >outer
calls() { # FILE: of the program's functions
	awk -F'\t' '$4 ~ /\/program$/ && $5 !~ /inlined/ { print $5, $3 }' "$1" | LC_ALL=C sort
}
calls inlined >got
calls outer | diff - got || fail "other calls of functions"

expect 0 "$PTAH" report --inline --format=json --limit=0 data
json "'\n'.join(sorted('%s\t%d\t1' % (f['function'], f['instructions']) for f in d['functions'] if f['inlined'] and not f['calls'] and f['object'].endswith('/program')))" >got
grep '(inlined)' wanted | diff - got || fail "JSON"
expect 0 "$PTAH" report --inline --limit=0 data
grep -q ' - *program  *step (inlined)$' out || fail "text: $(grep step out)"
grep -q ' 300 *program  *plain$' out || fail "calls of others: $(grep plain out)"

expect 0 "$PTAH" report --inline --function=twice --format=tsv data
equal "--function" "$(sed 1d out | cut -f 5,2,7)" \
	"$(awk -F'\t' '$1 ~ /^twice/ { print $2 "\t" $1 "\t" $3 }' wanted)"

# Without debug information: the rows are those of a report without --inline.
strip -g -o bare program
record bare.data ./bare
expect 0 "$PTAH" report --inline --limit=0 --format=tsv bare.data
rows out all | sed 's/0$//' >got
"$PTAH" report --limit=0 --format=tsv bare.data >outer
[ -s got ] && rows outer all | diff - got || fail "without debug information"
# Nothing has debug information, and that is said.
printf '\377\311\165\374\303' >loop.bin
printf '%s\n' psb 'mode.exec 64-bit' psbend 'tip.pge 0x401000' 'tnt TTTTTN' 'tip.pgd 0x500000' >text
expect 0 "$PTAH" asm -o loop.pt text
expect 0 "$PTAH" report --inline --pt=loop.pt --raw=loop.bin:401000 --format=tsv
equal "raw" "$(sed 1d out | cut -f 2,7)" "13	0"
grep -q 'note: nothing that ran has debug information with inlined functions' err || fail "$(cat err)"

# What has no table of functions is refused.
for option in --blocks -g --by=thread --sort=function; do
	expect 2 "$PTAH" report --inline $option data
	grep -q 'inlined functions have no calls' err || fail "$option: $(cat err)"
done

# Names of C++ are demangled, and two functions of one name are two.
if command -v c++ >/dev/null && printf 'int main() { return 0; }' | c++ -o /dev/null -x c++ - 2>/dev/null; then
	cat >names.cc <<'X'
namespace space {
volatile long n;
inline __attribute__((always_inline)) void grow(int by) { n = n + by; }
inline __attribute__((always_inline)) void grow(long by) { n = n - by; }
}
int main(int argc, char **)
{
	for (int i = 0; i < 100; i++)
		space::grow(argc);
	space::grow(5L);
	return 0;
}
X
	c++ -g -O1 -o names names.cc
	record names.data ./names
	expect 0 "$PTAH" report --inline --limit=0 names.data
	equal "grow" "$(grep -c ' space::grow (inlined)$' out)" 2
	expect 0 "$PTAH" report --inline --no-demangle --limit=0 names.data
	grep -q ' _ZN5space4growEi (inlined)$' out || fail "--no-demangle: $(grep grow out)"
fi
