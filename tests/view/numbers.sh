#!/bin/sh
# SPDX-License-Identifier: MIT
# The numbers that ptah view shows are those of ptah calls, ptah report -g, ptah annotate and ptah diff
# (numbers.py), also of a thread that waits until the end.
set -eu
command -v python3 >/dev/null 2>&1 || {
	echo "SKIP: no python3"
	exit 77
}
printf '%s\n' '#include <pthread.h>' '#include <stdio.h>' '#include <stdlib.h>' '#include <unistd.h>' \
	'static int in[2], out[2];' \
	'static void *wait_on(void *c) { return write(out[1], c, 1) < 0 || read(in[0], c, 1) < 0 ? c : c; }' \
	'static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }' \
	'static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }' \
	'int main(int argc, char **argv) { static int v[300]; pthread_t thread; char c = 0, d; (void)argv;' \
	'if (pipe(in) || pipe(out) || pthread_create(&thread, NULL, wait_on, &c) || read(out[0], &d, 1) != 1) return 1;' \
	'for (int i = 0; i < 300; i++) v[i] = i * 7919 % 300;' \
	'qsort(v, 300, sizeof(*v), cmp); printf("%u %d\n", fib(argc > 1 ? 13 : 12), v[7]); return 0; }' >work.c
"$CC" -O1 -g -fno-optimize-sibling-calls -pthread -o work work.c
"$PTAH" record -q --recorder=qemu -o perf.data -- ./work >/dev/null 2>messages || {
	echo "SKIP: the recorder qemu does not work here: $(cat messages)"
	exit 77
}
"$PTAH" record -q --recorder=qemu -o old.data -- ./work x >/dev/null
"$PTAH" view -q -o view.html old.data perf.data
for value in instructions time; do
	"$PTAH" calls --format=json --limit=0 --value=$value >calls-$value.json
done
"$PTAH" report -g --format=json --percent-limit=0 --limit=0 >report.json
"$PTAH" annotate --no-predictor --format=json --limit=0 >annotate.json
"$PTAH" diff --by=lines --format=json --limit=0 --least=0 old.data perf.data >diff.json
for side in old perf; do
	"$PTAH" report --sort=function,object --format=json --limit=0 $side.data >$side.json
done
exec python3 "$PTAH_SOURCE/tests/view/numbers.py" view.html
