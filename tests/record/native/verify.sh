#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs recorded by the recorder inside the program: the decoded path is what the second log says
# that ran, and output and status are those of the program alone.
. "$PTAH_SOURCE/tests/cli/common.sh"

[ "$(uname -m)" = x86_64 ] || skip "another processor"
"$PTAH" record --recorder=native --dry-run -- true >out 2>&1 || skip "$(cat out)"
seq 1 3000 >numbers

# verified COMMAND...
verified() {
	command -v "$1" >/dev/null || return 0
	wanted=0
	"$@" >alone 2>alone-errors || wanted=$?
	got=0
	"$PTAH" record --recorder=native --truth -o run.data -- "$@" >recorded 2>errors || got=$?
	grep -q 'with the recorder native' errors && ! grep -q 'qemu' errors ||
		fail "$*: $(grep 'recorder' errors)"
	equal "status of $*" "$got" "$wanted"
	cmp -s alone recorded || fail "$*: other output"
	"$PTAH" verify --all -i run.data >verified 2>&1 || fail "$*: $(tail -3 verified)"
	grep -q untraced verified && fail "$*: $(grep untraced verified)"
	grep -q 'decoded exactly what ran' verified || fail "$*: $(tail -1 verified)"
	programs=$((programs + 1))
}

programs=0
verified true
verified false
verified echo text
verified cat numbers
verified ls -l /usr
verified sha256sum numbers
verified wc numbers
verified sh -c 'tr 1 2 <numbers'
verified cut -c 2 numbers
verified head -5 numbers
verified tail -5 numbers
verified sort -r numbers
verified uniq numbers
verified grep -c 7 numbers
verified sed -n 's/1/x/p' numbers
verified awk '{ s += $1 } END { print s }' numbers
verified gzip -c numbers
verified xz -c numbers
verified bzip2 -c numbers
verified md5sum numbers
verified tar cf - numbers
verified od -x numbers
verified base64 numbers
verified expr 3 + 4
verified bc -v
verified find . -name 'n*'
verified diff numbers numbers
verified perl -e 'my %h; $h{$_ % 97} .= "x" for 1 .. 3000; print scalar keys %h'
verified python3 -S -c 'print(sum(i * i for i in range(2000)))'
verified sqlite3 :memory: 'select sum(value * value) from json_each("[1,2,3]")'
verified sh -c 'for i in 1 2 3; do echo $i | cat; done; exit 3'
verified bash -c 'trap "echo caught" USR1; kill -USR1 $$; x=$(echo inner); echo $x'
verified git --version
verified openssl version
verified readelf -h /bin/true
verified nm -D /bin/true
verified file /bin/true
verified env A=1 printenv A
verified timeout 20 true
verified sh -c 'xargs -n 100 echo <numbers'
echo "$programs programs"
[ "$programs" -ge 25 ] || fail "hardly any of the programs is installed"

# A thread without ground truth does not matter where others are equal, unless all are asked for.
rm -f perf.data perf.data.old
"$PTAH" record -q --recorder=native --truth --stop-when-full --buffer 64K -- sh -c \
	'awk "BEGIN { for (i = 0; i < 100000; i++) n += i % 7 }"; :' >said.txt 2>&1 ||
	fail "some threads: $(cat said.txt)"
"$PTAH" verify perf.data >verify.txt 2>&1 || fail "some threads: $(cat verify.txt)"
grep -q '^2 threads: equal, 1 of them not verified' verify.txt ||
	fail "some threads: $(cat verify.txt)"
! "$PTAH" verify --all perf.data >verify.txt 2>&1 || fail "some threads: all were asked for"
