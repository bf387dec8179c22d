#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples of the man pages, and the commands of guides, work when they are followed: each runs as
# it is printed, one after the other in one folder, with the files that it takes for granted.
# `why_not` names those that cannot run in a test.
. "$PTAH_SOURCE/tests/cli/common.sh"
# There `ptah record` takes the processor, which counts nothing for `ptah verify`.
! "$PTAH" record -q --dry-run --recorder=hardware true 2>/dev/null || skip "this machine has Intel PT"
need qemu-x86_64
need sqlite3

why_not() {
	case $1 in
	*"-p 123"* | *pidof* | *"-C 0-3"* | *"--kcore"* | *"live -a"* | *"record -a "* | *"record -S4M"* | *--only-during*) echo "hardware, or a service" ;;
	*perf\ * | *perf-* | *perf2bolt* | *create_* | *llvm-* | *jq* | *mpirun* | *parallel* | *sbatch* | *SLURM*) echo "a program that may be missing" ;;
	*"ptah vm"* | *--vm*) echo "a virtual machine: tests/guest" ;;
	*fifo:* | *libfoo* | *":30s"* | *"record -D"* | *"/builds/"* | *"ptah live --for=10s"* | *"--for=10s"*) echo "waits: live_cover, control" ;;
	*trace.bin* | *trace.pt* | *ptah.trace* | *"ptah-trace 1"*) echo "raw packets: asm, trace_set" ;;
	*12.34* | *.shard | *shards/* | *hit-1* | *r.data* | *part.* | *"run gzip.data"* | *run.\* | *"..." | *./fuzzer* | *"make test"* | *tests.db* | *FILE* | *app.js*) echo "a file of the reader's" ;;
	*"ptah live"* | *"ptah view"*) echo "a screen or a server: live, view-browser" ;;
	*) return 1 ;;
	esac
}

# Prints the examples of a man page, each as one line of shell: newlines are "\n".
examples_of_page() {
	awk '/^\.EX/ { on = 1; text = ""; next }
		/^\.EE/ { on = 0; gsub(/\\-/, "-", text); gsub(/\\f./, "", text); gsub(/\\e/, "\\", text)
			gsub(/\\\(aq/, "\047", text); gsub(/\\\\/, "\\", text); print text; next }
		on { text = text $0 ";" }' "$1" | sed -e 's/\\;\t*/ /g' -e 's/|;/|/g' -e 's/;$//'
}

# Prints the commands of a guide: the lines of its blocks that begin with ptah, without their
# comments and prompts.
examples_of_guide() {
	awk '/^```/ { on = !on; next } on' "$1" | sed -n -e 's/^\$ //' -e '/^ptah [a-z]/{s/  *#.*$//;p}'
}

run_example() { # page, example
	why=$(why_not "$2") && { echo "not run ($why): $2" >>left_out; return; }
	echo "$2" >>ran
	rm -f work/text.gz
	(cd work && PATH=$bin:$PATH sh -e -c "$2" </dev/null >../out 2>../err) ||
		fail "$1: this example fails: $2: $(cat err)"
}

mkdir work bin
bin=$PWD/bin
ln -s "$PTAH" bin/ptah
# A pager is not installed everywhere.
ln -s "$(command -v cat)" bin/less
{
	echo '#include <stdio.h>'
	for function in parse longest_match handle_request; do
		echo "__attribute__((noinline)) int $function(int n) { volatile int i, s = 0; for (i = 0; i < n; i++) s += i % 3; return s; }"
	done
	echo 'void *malloc(unsigned long), *kept;'
	echo '#line 118'
	echo 'int main(int n, char **v) {'
	echo 'kept = malloc(99), (void)v;'
	echo 'return parse(n * 9) + longest_match(9) + handle_request(9) < 0; }'
} >work/deflate.c
(
	cd work
	"$CC" -g -O1 -o program deflate.c
	for name in server prog flaky-test app crashes; do cp program $name; done
	mkdir old new recordings
	seq 3000 >text
	sed 's/^/w/' text >words
	cp text input.txt
	# What earlier examples of the reader have left.
	for name in perf first second a b old new monday tuesday run failure recordings/1 recordings/2; do
		"$PTAH" record -q --truth -o $name.data -- ./program
	done
	"$PTAH" profile -q --save=all.ptah run.data >/dev/null
	for day in monday tuesday; do "$PTAH" profile -q --calls --save=$day.ptah run.data >/dev/null; done
)
for page in "$PTAH_SOURCE"/docs/man/*; do
	examples_of_page "$page" >examples
	while IFS= read -r example; do run_example "${page##*/}" "$example" <&-; done <examples
done
grep -q 'ptah record.*verify' ran && grep -q 'ptah repack' ran || fail "the examples were not found"
for guide in recording pictures fleet pgo ci coverage live export; do
	examples_of_guide "$PTAH_SOURCE/docs/$guide.md" >examples
	while IFS= read -r example; do run_example "$guide.md" "$example" <&-; done <examples
done
[ "$(wc -l <ran)" -ge 40 ] || fail "only $(wc -l <ran) examples were run"
