#!/bin/sh
# SPDX-License-Identifier: MIT
#
# perf as the judge: Debian's perf must decode the same recording without an error,
# and its lists of taken branches and of instructions must equal Ptah's, line for line.
set -eu
. "$PTAH_SOURCE/tests/cli/common.sh"

command -v perf >/dev/null || { echo "SKIP: no perf (Debian: linux-perf)"; exit 77; }
command -v qemu-x86_64 >/dev/null || { echo "SKIP: no qemu-x86_64 (Debian: qemu-user)"; exit 77; }
perf script --help >/dev/null 2>&1 || perf version >/dev/null 2>&1 ||
	{ echo "SKIP: perf does not run"; exit 77; }

# perf prints "from => to", with 0 where tracing begins or ends, as Ptah does.
perf_branches() {
	# ... branches:u: FROM symbol (file) => TO symbol (file)
	perf script -i "$1" --itrace=b 2>perf.err | awk '
		{ from = to = "?" }
		{ for (i = 1; i < NF; i++) {
			if ($i ~ /^branches/) from = $(i + 1)
			if ($i == "=>") to = $(i + 1)
		} }
		{ print from, to }'
}

ptah_branches() {
	"$PTAH" script -q --branches --format=tsv "$1" |
		awk -F '\t' 'NR > 1 { sub(/^0x/, "", $3); sub(/^0x/, "", $4); print $3, $4 }'
}

perf_instructions() {
	perf script -i "$1" --itrace=i0ns -F ip 2>perf.err | awk 'NF { print $1 }'
}

ptah_instructions() {
	"$PTAH" script -q --no-symbols "$1" | awk '{ print $3 }'
}

# compare NAME OPTIONS -- COMMAND...: records the command, and compares both lists.
compare() {
	name=$1
	shift
	"$PTAH" record --recorder=qemu -q --no-syscalls -o "$name.data" "$@" >/dev/null
	# perf prints decoding errors as separate lines.
	perf script -i "$name.data" --itrace=e >errors 2>&1 || fail "$name: perf ends with $?: $(cat errors)"
	if grep -q "trace error" errors; then
		head -5 errors
		fail "$name: perf finds errors in the recording"
	fi
	ptah_instructions "$name.data" >ptah.insn
	perf_instructions "$name.data" >perf.insn
	[ -s perf.insn ] || fail "$name: perf decoded nothing: $(cat perf.err)"
	cmp ptah.insn perf.insn || fail "$name: the instructions differ"
	ptah_branches "$name.data" >ptah.branches
	perf_branches "$name.data" >perf.branches
	[ -s perf.branches ] || fail "$name: perf listed no branch: $(cat perf.err)"
	cmp ptah.branches perf.branches || fail "$name: the branches differ"
	echo "$name: $(wc -l <ptah.insn) instructions and $(wc -l <ptah.branches) branches are equal"
	rm -f "$name.data" ./*.insn ./*.branches
}

head -c 3000 "$PTAH_SOURCE/README.md" >text
compare gzip -- gzip -c text
compare gzip-plain --no-retcomp -- gzip -c text
compare gzip-long --long-tnt -- gzip -c text
compare awk -- awk 'BEGIN { for (i = 0; i < 2000; i++) x = x i % 7; print length(x) }'
if command -v perl >/dev/null; then
	compare perl -- perl -e 'print join(",", sort map { $_ * 7 % 13 } 1..200)'
else
	compare sort -- sort text
fi

# Two bytes of the program's file are not those that ran. perf goes on at the next address in the
# trace after each error, and so does Ptah: it finds no fewer of the calls of good(), and no more
# than the program made.
cat >other.c <<'END'
__attribute__((noinline)) int good(int x)
{
	int r = 0;

	for (int i = 0; i < 8; i++)
		if (x >> i & 1)
			r += i;
	return r;
}

__attribute__((noinline)) int patched(int x)
{
	/* cmp edi, edi; nop */
	__asm__ volatile(".byte 0x39, 0xff, 0x0f, 0x1f, 0x80, 0x12, 0x34, 0x56, 0x78");
	return x & 1 ? x * 3 : x + 1;
}

int (*volatile pointer)(int) = good;

int main(void)
{
	int sum = 0;

	for (int i = 1; i <= 3000; i++) {
		sum += pointer(i);
		if (i % 100 == 0)
			sum += patched(i);
	}
	return sum == 0;
}
END
need "${CC:-cc}"
"${CC:-cc}" -O1 -no-pie -o other other.c
good=$(nm other | awk '$3 == "good" { sub(/^0+/, "", $1); print $1 }')
at=$(LC_ALL=C grep -obUaP '\x39\xff\x0f\x1f\x80\x12\x34\x56\x78' other | cut -d: -f1)
for option in "" --no-retcomp; do
	# shellcheck disable=SC2086 # an option or none
	"$PTAH" record --recorder=qemu -q --no-syscalls $option -o other.data ./other >/dev/null
	printf '\377\340' | dd of=other bs=1 seek="$at" conv=notrunc 2>/dev/null # jmp rax
	ours=$(ptah_instructions other.data | grep -c "^$good$")
	perfs=$(perf_instructions other.data | grep -c "^$good$")
	echo "other code${option:+, $option}: $ours calls of good, perf: $perfs"
	[ "$perfs" -gt 2900 ] || fail "perf finds $perfs of 3000 calls"
	[ "$ours" -ge "$perfs" ] && [ "$ours" -le 3000 ] || fail "Ptah finds $ours calls, perf $perfs"
	printf '\071\377' | dd of=other bs=1 seek="$at" conv=notrunc 2>/dev/null
done
