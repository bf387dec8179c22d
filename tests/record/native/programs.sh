# SPDX-License-Identifier: MIT
# Programs that are recorded from inside: they print and return what they do alone, their traces
# decode without an error, and the path of a small one is that of single steps, instruction by
# instruction.
set -eu

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

: "${CC:=cc}"
"$PTAH" record --help | grep qemu | grep -q native ||
	{ echo "SKIP: no recorder inside the program yet"; exit 77; }

# recorded COMMAND...: its standard output and status in recorded.txt, the recording in perf.data
recorded()
{
	status=0
	rm -f perf.data
	"$PTAH" record -q --recorder=native "$@" >recorded.txt 2>errors.txt </dev/null || status=$?
	echo "status $status" >>recorded.txt
	"$PTAH" stat --format=tsv perf.data >stat.tsv 2>notes.txt || fail "$*: cannot be read"
	! grep -hE 'untraced|not recorded|another recorder|qemu' errors.txt notes.txt >&2 ||
		fail "$*: the recorder gave up"
	awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		    { n += $at["instructions"]; e += $at["errors"] + $at["overflows"] }
		    END { exit !n || e }' stat.tsv ||
		{ cat stat.tsv >&2; fail "$*: nothing was recorded, or it does not decode"; }
}

same()
{
	status=0
	"$@" >alone.txt 2>/dev/null </dev/null || status=$?
	echo "status $status" >>alone.txt
	recorded "$@"
	diff alone.txt recorded.txt >&2 || fail "$*: recorded, it behaves differently"
}

cat >hello.c <<'END'
#include <stdio.h>
int main(void) { puts("hello"); return 3; }
END
"$CC" -O1 -o hello-dynamic hello.c
"$CC" -O1 -static -o hello-static hello.c
"$CC" -O1 -static-pie -fPIE -o hello-static-pie hello.c
for kind in dynamic static static-pie; do
	same "./hello-$kind"
done

# The same path as that of single steps. The runtime keeps rseq away from the program, and the C
# library takes another branch then.
for recorder in native ptrace; do
	env -i GLIBC_TUNABLES=glibc.pthread.rseq=0 setarch -R "$PTAH" record -q --recorder="$recorder" \
		-o "$recorder.data" ./hello-static >/dev/null 2>errors.txt || [ $? = 3 ] ||
		{ cat errors.txt >&2; fail "hello by $recorder"; }
	"$PTAH" script "$recorder.data" | sed 's/^ *[^ ]* *[0-9]* *//' >"$recorder.txt"
done
[ "$(wc -l <native.txt)" -gt 1000 ] || fail "the path of hello is too short"
cmp native.txt ptrace.txt || { diff native.txt ptrace.txt | head >&2; fail "the paths differ"; }

# Scripts, execve, pipes, signals between processes; programs that do not end by themselves.
printf '#!/bin/sh\necho "$0" "$@"\nexec ls /\n' >script
chmod +x script
same ./script one two
same sh -c 'ls / | wc -l; /bin/true && exit 5'
same sh -c 'kill -TERM $$; echo not reached'
same sh -c 'trap "echo trapped" USR1; kill -USR1 $$; echo after'
same bash -c 'for i in 1 2 3; do (echo $i); done; ls / | cat; exec env true'
same gzip -kc "$PTAH_SOURCE/CMakeLists.txt"
same awk 'BEGIN { for (i = 0; i < 10000; i++) s += i % 7; print s }'
same sort -r "$PTAH_SOURCE/CMakeLists.txt"
same find "$PTAH_SOURCE/src/record" -name '*.S'
command -v perl >/dev/null && same perl -e 'print join(" ", map { $_ * $_ } 1 .. 100), "\n"'
command -v python3 >/dev/null && same python3 -c 'print(sum(i * i for i in range(10000)))'
same "$CC" -O2 -S -o - hello.c
