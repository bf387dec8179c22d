#!/bin/sh
# SPDX-License-Identifier: MIT
# What a program has done is seen while it waits: it goes on only when that was seen. And a recorder
# whose trace is decoded meanwhile delivers little in one poll, however much the program has written.
. "$PTAH_SOURCE/tests/record/common.sh"

cat >waiting.c <<'END'
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#define DOES(name) __attribute__((noinline)) static void name(void) { __asm__ volatile(""); }
DOES(first)
DOES(second)
DOES(third)
static char memory[16 << 20];
static void wait_for_byte(void)
{
	char c;
	if (read(0, &c, 1) != 1)
		_exit(9);
}
int main(int argc, char **argv)
{
	volatile char *go = memory;
	first();
	wait_for_byte();
	second();
	wait_for_byte();
	memory[0] = 1;
	if (argc > 1)
		go = mmap(0, 1, PROT_READ, MAP_SHARED, open(argv[1], O_RDONLY), 0);
	third();
	/* Runs on without a system call, and with two branches in a millisecond or fewer. */
	while (!*go) {
		char *at = memory;
		unsigned long n = sizeof(memory);
		__asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(0) : "memory");
	}
	return 0;
}
END
"$CC" -O1 -o waiting waiting.c || fail "no program"
cat >calls.c <<'END'
__attribute__((noinline)) static int leaf(int x) { __asm__ volatile(""); return x + 1; }
int main(void) { for (volatile int x = 0;;) x = leaf(x); }
END
"$CC" -O1 -o calls calls.c || fail "no program"

# seen RECORDER [FILE]: the program gets a byte when a line has the function that it called before;
# with FILE it also waits for a byte there.
cat >seen.py <<'END'
import json, os, select, subprocess, sys
recorder, file = sys.argv[1], sys.argv[2:]
wanted = ["first", "second"] + (["third"] if file else [])
live = subprocess.Popen([os.environ["PTAH"], "live", "-q", "--recorder=" + recorder, "--every=20ms",
    "--format=json", "--limit=0", "--", "./waiting"] + file, stdin=subprocess.PIPE,
    stdout=subprocess.PIPE)
def end(text):
    live.kill()
    sys.exit(f"{recorder}: {text}")
text = b""
while wanted:
    if not select.select([live.stdout], [], [], 30)[0]:
        end("no line")
    text += os.read(live.stdout.fileno(), 1 << 20)
    *lines, text = text.split(b"\n")
    for line in map(json.loads, lines):
        if line["time"] > 60 or line["final"]:
            end(f"{wanted[0]} was not seen while the program waited")
        if any(row["function"] == wanted[0] and row["total_calls"] for row in line["functions"]):
            if wanted[0] == "third":
                with open(file[0], "r+b") as f:
                    f.write(b"\1")
            else:
                live.stdin.write(b"x")
                live.stdin.flush()
            wanted = wanted[1:]
            break
text += live.stdout.read()
last = json.loads(text.split(b"\n")[-2])
if live.wait() or not last["final"] or last["errors"]:
    end("it did not end as it should")
END

recorders="qemu ptrace"
"$PTAH" record --dry-run --recorder=native -- ./waiting >/dev/null 2>&1 && recorders="native $recorders"
for recorder in $recorders; do
	env -i "PATH=$PATH" "PTAH=$PTAH" python3 seen.py "$recorder" || fail "seen.py"
done
case $recorders in
native*)
	printf '\0' >go
	python3 seen.py native go || fail "seen.py"
	"$PTAH_BUILD/tests/rounds" native 0 300000 ./calls || fail "native: a poll that delivers much"
	"$PTAH_BUILD/tests/rounds" native 0x20000 140000 ./calls || fail "native: with small chunks"
	;;
esac
"$PTAH_BUILD/tests/rounds" qemu 0x20000 270000 ./calls || fail "qemu: a poll that delivers much"
