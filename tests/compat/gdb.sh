# SPDX-License-Identifier: MIT
# gdb decodes Intel PT with libipt. What it prints about a program's past is the same
# with this library as with Debian's, and it is what the program did.
. "$PTAH_SOURCE/tests/record/common.sh"

ours=$PTAH_BUILD/lib/libipt
stub=$PTAH_BUILD/tests/gdb_stub
[ -e "$ours/libipt.so.2" ] || skip "libipt.so.2 is not built"
command -v gdb >/dev/null || skip "gdb is not installed"
ldd "$(command -v gdb)" | grep -q libipt || skip "this gdb does without libipt"
case $PTAH_SANITIZE in *address*) skip "gdb cannot load a sanitized library" ;; esac

"$CC" -g -O1 -fno-inline -static -nostdlib -no-pie -fno-stack-protector -fcf-protection=none \
	-fno-asynchronous-unwind-tables -o program "$PTAH_SOURCE/tests/compat/gdb_program.c"
record ./program >/dev/null

# look COMMANDS: the output of gdb
look()
{
	set -- "$@" -ex 'record stop'
	timeout 900 gdb -nx -batch -ex 'set confirm off' -ex 'set pagination off' \
		-ex 'set width 0' -ex 'file program' \
		-ex "target remote | '$stub' program perf.data" -ex 'record btrace pt' "$@" 2>&1
}

whole()
{
	look -ex 'info record' -ex 'record function-call-history /ilc 1,+1000' \
		-ex 'record instruction-history /f 1,+1000' \
		-ex 'reverse-stepi' -ex 'info record' -ex 'reverse-finish' -ex 'reverse-step' \
		-ex 'reverse-next' -ex 'stepi' -ex 'record goto 100' -ex 'bt' -ex 'finish' \
		-ex 'record goto begin' -ex 'info record' -ex 'maint info btrace' \
		-ex 'maint btrace packet-history 0,+100'
}

whole >debian.txt || fail "gdb: $(tail -3 debian.txt)"
LD_LIBRARY_PATH=$ours ldd "$(command -v gdb)" | grep -q "$ours/libipt" ||
	fail "gdb would not take this library"
LD_LIBRARY_PATH=$ours whole >ours.txt || fail "gdb with this library: $(tail -3 ours.txt)"
# The versions of the two libraries differ.
grep -v '^Version: ' debian.txt >debian-said.txt
grep -v '^Version: ' ours.txt >ours-said.txt
diff debian-said.txt ours-said.txt || fail "gdb says something else"
grep -q '^Version: 2\.3\.0' ours.txt || fail "this library was not used: $(grep Version ours.txt)"

# gdb finds as many instructions as the recorder counted, and the calls in the source.
truth=$("$PTAH" verify --all --format=tsv perf.data | awk -F'\t' 'NR > 1 { print $4 }')
grep -q "^Recorded $truth instructions .*(0 gaps)" ours.txt ||
	fail "$truth instructions ran: $(grep Recorded ours.txt)"
LD_LIBRARY_PATH=$ours look -ex 'record instruction-history 1,+1000' >insns.txt
# called N FUNCTION: its first instruction ran N times
called()
{
	n=$(grep -c "<$2+0>:" insns.txt) || :
	[ "$n" = "$1" ] || fail "$2 ran $n times, expected $1"
}
called 1 begin
called 15 fib
called 1 each
called 2 twice
called 2 plus
called 1 finish

# gdb also works when it is not asked about the past.
LD_PRELOAD=$ours/libipt.so.2 gdb --version | grep -q 'GNU gdb' || fail "gdb --version"
LD_PRELOAD=$ours/libipt.so.2 gdb -nx -batch -ex 'print 6 * 7' -ex 'info functions fib' \
	-ex 'disassemble fib' program >plain.txt 2>&1 || fail "gdb: $(cat plain.txt)"
grep -q '^\$1 = 42' plain.txt || fail "gdb: $(cat plain.txt)"
