#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah diff: two versions of a program whose instructions are known by construction.
. "$PTAH_SOURCE/tests/cli/common.sh"
tab=$(printf '\t')

# build NAME ROUNDS FUNCTION: _start calls `work` ten times (2 + 3 * ROUNDS instructions each, its
# branch is executed ROUNDS times) and then FUNCTION (4 instructions).
build() {
	cat >"$1.s" <<END
	.globl _start
	.type _start, @function
_start:	mov \$10, %ebx
1:	call work
	dec %ebx
	jnz 1b
	call $3
	mov \$60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type work, @function
work:	mov \$$2, %ecx
1:	nop
	dec %ecx
	jnz 1b
	ret
	.size work, . - work
	.type $3, @function
$3:	nop
	nop
	nop
	ret
	.size $3, . - $3
END
	"$CC" -nostdlib -static -Wl,--build-id -o "$1" "$1.s" || skip "no static assembly programs"
}
build app-1 100 before
build app-2 120 after
record perf.data.old ./app-1
record perf.data ./app-2
old=$((10 * (2 + 300) + 4 + 1 + 30 + 1 + 3)) new=$((10 * (2 + 360) + 4 + 1 + 30 + 1 + 3))

# The default files; every difference, and nothing else.
expect 0 "$PTAH" diff --format=tsv
cat >wanted <<END
status${tab}old${tab}new${tab}percent${tab}calls_old${tab}calls_new${tab}object${tab}name
changed${tab}3020${tab}3620${tab}19.868${tab}10${tab}10${tab}$PWD/app-2${tab}work
new${tab}0${tab}4${tab}${tab}0${tab}1${tab}$PWD/app-2${tab}after
gone${tab}4${tab}0${tab}-100.000${tab}1${tab}0${tab}$PWD/app-1${tab}before
END
diff wanted out || fail "functions"
expect 0 "$PTAH" diff --least=0 --format=json
equal old "$(json 'd["total"]["old"]')" $old
equal new "$(json 'd["total"]["new"]')" $new
equal _start "$(json '[r["status"] for r in d["rows"] if r["name"] == "_start"]')" "['same']"
equal renamed "$(json 'd["renamed"][0]["new"]')" "$PWD/app-2"

# Text names both objects, and the totals.
expect 0 "$PTAH" diff perf.data.old perf.data
grep -q '^# new: perf.data, 3,659 instructions, +600 (+19.61%)$' out || fail "text: $(cat out)"
grep -q '^# compared: .*/app-1 with .*/app-2$' out || fail "text: $(cat out)"

# Saved counts in place of one recording or of both.
expect 0 "$PTAH" profile --save=old.counts perf.data.old
expect 0 "$PTAH" profile --save=new.counts perf.data
for pair in "old.counts perf.data" "perf.data.old new.counts" "old.counts new.counts"; do
	# shellcheck disable=SC2086 # two names
	expect 0 "$PTAH" diff --format=tsv $pair
	diff wanted out || fail "$pair"
done

# Branches: of one file by their place, of two versions by function.
expect 0 "$PTAH" diff --by=branches --format=tsv
cat >wanted <<END
status${tab}old${tab}new${tab}percent${tab}taken_old${tab}taken_new${tab}object${tab}name
changed${tab}1000${tab}1200${tab}20.000${tab}990${tab}1190${tab}$PWD/app-2${tab}work: all branches
END
diff wanted out || fail "branches"
expect 0 "$PTAH" diff --by=branches --least=0 --format=json perf.data perf.data
equal "branches of one file" "$(json 'sorted((r["name"], r["old"]) for r in d["rows"])')" \
	"[('_start+0xc', 10), ('work+0x8', 1200)]"

# Lines: three rounds instead of two, in a source in which every line has moved. What is inlined
# is found by its own function.
cat >lines-1.c <<'END'
static inline int twice(int x)
{
	volatile int s = 0;
	for (int i = 0; i < 2; i++)
		s += x;
	return s;
}
int main(void)
{
	int t = 0;
	for (int i = 0; i < 50; i++)
		t += twice(i);
	return t == 1;
}
END
{
	printf '/* moved */\n\n'
	sed 's/i < 2;/i < 3;/; s/^int main/\n\nint main/' lines-1.c
} >lines-2.c
for n in 1 2; do
	"$CC" -O1 -g -o lines-$n lines-$n.c
	"$PTAH" record --recorder=qemu -q -o lines-$n.data -- ./lines-$n
done
expect 0 "$PTAH" diff --by=lines --ignore='^(/lib|/usr|.vdso)' --format=json lines-1.data lines-2.data
for row in $(json '" ".join(r["name"].replace(" ", "_") for r in d["rows"])'); do
	case $row in
	"lines-2.c:"[67]"_(twice)") ;; # the loop
	*) fail "lines: $row changed: $(cat out)" ;;
	esac
done
equal "the loop's body" "$(json '[2 * r["new"] == 3 * r["old"] > 0 for r in d["rows"] if ":7" in r["name"]]')" '[True]'

# Limits.
expect 0 "$PTAH" diff --fail-over=19.7
expect 1 "$PTAH" diff --fail-over=19.5%
grep -q '^ptah diff: perf.data is 19.61 % above perf.data.old' err || fail "limit: $(cat err)"
[ -s out ] || fail "a limit hides the output"
expect 0 "$PTAH" diff --fail-over=0 perf.data perf.data
expect 0 "$PTAH" diff --fail-over=0 perf.data perf.data.old
expect 0 "$PTAH" diff --fail-over=0 --ignore='^wo.k$'
grep -q '^# ignored: 1 rows, +600 instructions' out || fail "ignored: $(cat out)"
expect 0 "$PTAH" diff --fail-over=0 --ignore=app-
expect 0 "$PTAH" diff --fail-over-each=20 --ignore=after
expect 1 "$PTAH" diff --fail-over-each=15 --ignore=after
grep -q 'work is 19.87 % above' err || fail "each: $(cat err)"
expect 1 "$PTAH" diff --fail-over-each=99
grep -q 'after is new' err || fail "each: $(cat err)"

# Senseless command lines, missing and damaged files: a message, and no file.
expect 2 "$PTAH" diff --fail-over=much
expect 2 "$PTAH" diff --fail-over=-1
expect 2 "$PTAH" diff --fail-over=nan
expect 2 "$PTAH" diff --ignore='('
grep -q -e '--ignore=(: ' err || fail "a wrong expression: $(cat err)"
expect 2 "$PTAH" diff a b c
expect 1 "$PTAH" diff -o shown absent perf.data
grep -q absent err || fail "absent: $(cat err)"
head -c 100 new.counts >cut
expect 1 "$PTAH" diff -o shown perf.data cut
grep -q 'cut: ' err || fail "cut: $(cat err)"
[ ! -e shown ] && [ "$(echo shown.*)" = "shown.*" ] || fail "a file is left"
