#!/bin/sh
# SPDX-License-Identifier: MIT
# libipt as judge: every instruction of recordings of real programs, and of traces of real
# processors: address, size, class and order.
. "$PTAH_SOURCE/tests/record/common.sh"

bench=$PTAH_BUILD/bin/ptah-bench
[ -x "$bench" ] || skip "no ptah-bench: libipt-dev is not installed"

# same NAME COMMAND...: compares the largest stream of a recording; left out if the program is not
# installed.
judged=0
same()
{
	name=$1
	shift
	command -v "$1" >/dev/null || { echo "$name: not installed"; return; }
	record "$@" >/dev/null 2>record.err || fail "$name: $(cat record.err)"
	"$bench" equal "$name" perf.data || fail "$name: Ptah and libipt differ"
	judged=$((judged + 1))
}

size=15000
[ -z "${PTAH_NIGHTLY:-}" ] || size=60000
"$bench" text $size >text
printf 'int f(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * i; return s; }\n' >a.c

same gzip gzip -c text
same xz xz -0 -T1 -c text
same bzip2 bzip2 -c text
same awk awk '{ for (i = 1; i <= NF; i++) c[$i]++ } END { print length(c) }' text
same perl perl -e 'while (<>) { $h{$_}++ for split } print scalar(keys %h), "\n"' text
same python3 /usr/bin/python3 -c 'import json; print(len(json.dumps(list(range(5000)))))'
same sqlite3 sqlite3 :memory: 'create table t(a, b);
	with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
	insert into t select x, x * x % 97 from c; select b, count(*) from t group by b;'
same openssl openssl dgst -sha256 text
same cc1 "$("$CC" -print-prog-name=cc1)" -O2 -quiet a.c -o a.s
same sort sort text
same grep grep -c 'a.*b.*c' text
for program in threads signals calls; do
	build "$program"
	same "$program" "./$program"
done
[ "$judged" -ge 10 ] || skip "only $judged programs could be recorded"

for pt in "$PTAH_SHARED"/traces/*.pt; do
	[ -e "$pt" ] || { echo "no traces of real processors here"; break; }
	"$bench" equal "$(basename "$pt" .pt)" "$pt" "${pt%.pt}" || fail "$pt"
done

# Pieces of them in turns, each in address spaces of its own: what is learned in one of them must
# not be used in another.
real="$PTAH_SHARED/traces"
if [ -e "$real/foo.pt" ] && [ -e "$real/mruby.pt" ] && [ -e "$real/unzip.pt" ]; then
	"$bench" mix -m 1 -n 1 -w warm "$real/foo" "$real/mruby" "$real/unzip" >mix.txt
	cat mix.txt
	[ "$(grep -c 'equal, 0 errors$' mix.txt)" = "$(grep -c '^mix ' mix.txt)" ] ||
		fail "a mix of traces: Ptah and libipt differ"
	grep -q '^mix ' mix.txt || fail "a mix of traces was not measured"
fi
