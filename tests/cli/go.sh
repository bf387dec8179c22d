#!/bin/sh
# SPDX-License-Identifier: MIT
# The functions of a stripped Go program have the names and addresses that Go's tool prints of its
# twin with symbols, and their lines are those of go tool addr2line.
. "$PTAH_SOURCE/tests/cli/common.sh"

need go
tab=$(printf '\t')
need qemu-x86_64
GOCACHE=$PWD/cache
export GOCACHE
cat >main.go <<'END'
package main

//go:noinline
func work(n int) int {
	t := 0
	for i := 0; i < n; i++ {
		t += i * i % 7
	}
	return t
}

func main() {
	for i := 0; i < 7; i++ {
		println(work(100))
	}
}
END
go build -o full main.go 2>err || skip "go build fails: $(head -1 err)"
go build -ldflags='-s -w' -o bare main.go
nm bare 2>/dev/null | grep -q . && fail "the program has symbols"
record go.data ./bare

# Every function that ran has the name and the address that go tool nm has. Its names have two
# suffixes more, and what stands in brackets is left out of the program's own table.
go tool nm full | awk '$2 ~ /[tT]/ { print $3, "0x" $1 }' | sed 's/\.abi0 / /; s/\[[^]]*\]/[...]/' |
	sort -u >twin
"$PTAH" report --limit=0 --format=tsv --no-demangle go.data >rows
awk -F '\t' '$4 ~ /\/bare$/ { print $5, $6 }' rows | sort -u >got
[ "$(wc -l <got)" -gt 50 ] || fail "few functions: $(head got)"
comm -23 got twin >other
[ ! -s other ] || fail "not functions of the program: $(head other)"
equal "calls of main.work" "$(awk -F '\t' '$5 == "main.work" { print $3 }' rows)" 7

# Each instruction that ran has the line that Go's tool says, and so do functions and their code.
"$PTAH" script --srcline --format=tsv go.data | awk -F '\t' 'NR > 1 && $2 !~ /^0x7/' >all
cut -f 2,5 all | sort -u >got
[ "$(wc -l <got)" -gt 5000 ] || fail "few instructions: $(head -3 got)"
cut -f 1 got | go tool addr2line full | awk 'NR % 2 == 0' >tool
cut -f 2 got | diff - tool >other || fail "lines: $(head -4 other)"
"$PTAH" report -g --sort=line --limit=0 --format=tsv go.data >rows
cut -f 13,14 rows | grep -q "/main.go${tab}4\$" || fail "no line of main.work: $(head -5 rows)"
"$PTAH" annotate -i go.data main.go:7 >lines || fail "annotate of a line: $(head lines)"
grep -q '^\* *700 .* 7  .*t += i \* i % 7' lines || fail "source: $(head -20 lines)"
