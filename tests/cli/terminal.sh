#!/bin/sh
# SPDX-License-Identifier: MIT
# Text for people: colours, the width of the terminal, and the pager. What goes to a file or a pipe
# has none of them.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3
long=the_quick_brown_fox_jumps_over_the_lazy_dog_and_comes_back_again_to_rest_at_the_river
cat >program.c <<X
volatile long total;
__attribute__((noinline)) static void $long(int n) { while (n--) total += n & 3; }
int main(void) { for (int i = 0; i < 300; i++) $long(i); return 0; }
X
"$CC" -O1 -o program program.c || fail "no program"
record r.data ./program

unset NO_COLOR COLUMNS PTAH_PAGER PAGER LESS
TERM=xterm
export TERM
on_terminal() { # COLUMNS [WORD KEYS]... -- COMMAND...: what it shows goes to `out`
	status=0
	python3 "$PTAH_SOURCE/tests/cli/on_terminal.py" "$@" >out || status=$?
}
esc=$(printf '\033')
colours() { # WHAT [no]: are there colours in `out`?
	if [ "${2-}" ]; then
		! grep -q "$esc" out || fail "$1: colours"
	else
		grep -q "$esc\\[1;31m" out || fail "$1: no colours: $(cat out)"
	fi
}

# A pipe and a file get the plain text, with the whole name.
"$PTAH" report r.data >plain
cp plain out
colours pipe no
grep -q " $long\$" plain || fail "the name is cut: $(cat plain)"
# "12,345,678" in text, 12345678 for programs.
"$PTAH" report --format=tsv r.data | grep "$long" | cut -f 2 >number
equal "thousands" "$(grep " $long\$" plain | awk '{ print $2 }' | tr -d ,)" "$(cat number)"
equal "commas" "$(grep " $long\$" plain | awk '{ print $2 }')" \
	"$(sed -e :a -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/;ta' number)"

# Colours are for a terminal that knows them, and on request.
on_terminal 500 -- "$PTAH" report --no-pager r.data
colours terminal
sed "s/$esc\\[[0-9;]*m//g" out | cmp -s - plain || fail "more differs than colours: $(diff out plain)"
NO_COLOR=1 on_terminal 500 -- "$PTAH" report --no-pager r.data
colours NO_COLOR no
NO_COLOR='' on_terminal 500 -- "$PTAH" report --no-pager r.data
colours 'empty NO_COLOR'
NO_COLOR=1 on_terminal 500 -- "$PTAH" report --no-pager --color=always r.data
colours '--color=always on a terminal'
on_terminal 500 -- "$PTAH" report --no-pager --color=never r.data
colours --color=never no
TERM=dumb on_terminal 500 -- "$PTAH" report r.data
colours 'dumb terminal' no
expect 0 "$PTAH" report --color=always r.data
colours --color=always
for format in tsv json; do
	expect 0 "$PTAH" report --color=always --format=$format r.data
	colours $format no
done
expect 2 "$PTAH" report --color=sometimes r.data

# Lines fit the terminal: TIOCGWINSZ, and COLUMNS before it. The cut name keeps both ends.
fits() { # COLUMNS
	! sed '/^#/d' out | grep -q ".\{$(($1 + 1))\}" || fail "wider than $1: $(cat out)"
	grep -q ".\{$1\}" out || fail "$1 columns are not used: $(cat out)"
	grep -q " the_[a-z_]*\.\.\.[a-z_]*river" out || fail "no mark: $(cat out)"
}
on_terminal 100 -- "$PTAH" report --no-pager --color=never r.data
fits 100
COLUMNS=80 on_terminal 100 -- "$PTAH" report --no-pager --color=never r.data
fits 80
on_terminal 90 -- "$PTAH" profile --no-pager --color=never r.data
fits 90

# Trees and tables are as wide as the terminal, however deep the tree is; elsewhere nothing is cut.
cat >deep.c <<X
volatile long total;
__attribute__((noinline)) static long $long(long n) { return total += n; }
long odd(long n);
__attribute__((noinline)) long even(long n) { return $long(n) + (n ? odd(n - 1) : 0); }
__attribute__((noinline)) long odd(long n) { return $long(n) + (n ? even(n - 1) : 1); }
int main(void) { return (int)even(60) & 1; }
X
"$CC" -O1 -g -o deep deep.c || fail "no program"
record deep.data ./deep
for arguments in 'report -g 0' 'report -g callee,0' 'report -g' 'report --sort=function,caller' \
	'report -g 0 --sort=function,line' 'diff --least=0 r.data' 'diff --by=branches r.data' \
	'annotate --branches --no-source -i'; do
	# shellcheck disable=SC2086 # they are several words
	on_terminal 80 -- "$PTAH" ${arguments%% *} --no-pager --color=never \
		${arguments#* } deep.data
	equal "status of $arguments" "$status" 0
	sed -i '/^#/d; /^note: /d' out
	! grep '.\{81\}' out || fail "$arguments: wider than 80"
	grep -q ... out || fail "$arguments: nothing is shown"
done
on_terminal 80 -- "$PTAH" report --no-pager --color=never -g 0 deep.data
depth=$(grep -c -- '-even' out)
[ "$depth" -ge 30 ] || fail "$depth lines of even(), not 31"
grep -q ' [0-9][0-9]: *|.*--even' out || fail "no line has its level: $(cat out)"
"$PTAH" report -g 0 deep.data >out
! grep -q '\.\.\.' out || fail "a name is cut in a file"
grep -q "|  |  |  |  |  |  |  |  |  |  .*--$long\$" out || fail "no deep line: $(cat out)"

# The pager gets what is shown, and LESS. PTAH_PAGER comes before PAGER.
paged() { # WHAT [no]: has `out` come through the pager?
	if [ "${2-}" ]; then
		! grep -q '^paged:' out || fail "$1: a pager was started"
		grep -q "percent" out || fail "$1: nothing was printed: $(cat out)"
	else
		[ "$(grep -c '^paged:' out)" = "$(wc -l <plain)" ] || fail "$1: no pager: $(cat out)"
	fi
}
PAGER='sed s/^/paged:/'
export PAGER
on_terminal 500 -- "$PTAH" report r.data
paged PAGER
PTAH_PAGER='sed s/^/own:/' on_terminal 500 -- "$PTAH" report r.data
equal PTAH_PAGER "$(grep -c '^own:' out)" "$(wc -l <plain)"
for pager in '' cat no-such-pager; do
	PTAH_PAGER=$pager on_terminal 500 -- "$PTAH" report r.data
	paged "PTAH_PAGER=$pager" no
	equal "PTAH_PAGER=$pager" "$status" 0
done
on_terminal 500 -- "$PTAH" report --no-pager r.data
paged --no-pager no
on_terminal 500 -- "$PTAH" report -o - r.data
paged '-o -' no
TERM=dumb on_terminal 500 -- "$PTAH" report r.data
paged 'dumb terminal' no
on_terminal 500 -- sh -c "\"$PTAH\" report r.data | cat"
paged pipe no
on_terminal 500 -- "$PTAH" report absent.data
equal "status" "$status" 1
! grep -q paged: out || fail "a pager for an error: $(cat out)"
PAGER='cat >/dev/null; echo "[$LESS]"'
on_terminal 500 -- "$PTAH" report r.data
equal "LESS" "$(tail -1 out)" '[FRX]'
LESS=S on_terminal 500 -- "$PTAH" report r.data
equal "LESS=S" "$(tail -1 out)" '[S]'

# Leaving the pager early is no error, and the rest is not decoded: the status of the whole recording
# is 1, because its last part is damaged, and megabytes of text come before that part.
seq 1 1000 >text
record long.data gzip -k -f text
cp long.data damaged.data
printf '%64s' '' | tr ' ' '\231' | # MODE with a leaf that does not exist, longer than any packet
	dd of=damaged.data bs=1 seek=$(($(wc -c <long.data) * 7 / 8)) conv=notrunc 2>dd.err
expect 1 "$PTAH" script damaged.data
before=$(grep -b -m 1 ' # error: ' out | cut -d : -f 1)
[ "${before:-0}" -gt 4000000 ] || fail "the damage shows at \"$before\" of $(wc -c <out) bytes"
rm out
PAGER='head -c 1000'
for jobs in 1 2; do
	on_terminal 500 -- "$PTAH" script --jobs=$jobs damaged.data
	equal "status with --jobs=$jobs (1: it went on after the pager's end)" "$status" 0
	equal "what the pager showed" "$(wc -c <out)" 1000
done

# Ctrl-C goes to the pager; the command waits for its end, however often it is pressed.
cat >pager.py <<'X'
import signal, sys
signal.signal(signal.SIGINT, lambda *_: print("READY again", flush=True))
print(sys.stdin.read(1000), "READY", flush=True)
print("left by", open("/dev/tty").readline())
X
PAGER='python3 pager.py'
on_terminal 80 READY '\003' READY '\003' READY 'q\n' -- "$PTAH" script long.data
grep -q 'left by q' out || fail "Ctrl-C ended the pager: $(tail -3 out)"
equal "status after Ctrl-C" "$status" 130
on_terminal 80 READY 'q\n' -- "$PTAH" script long.data
equal "status" "$status" 0

# Messages while the pager shows the output go to it, not over its screen.
"$PTAH" record --recorder=qemu -q -o lone.data --no-inherit -- sh -c './program; exit 0'
PAGER='grep ^note: | sed s/^/paged:/'
on_terminal 80 -- "$PTAH" script lone.data
grep -q '^paged:note: .*left out' out || fail "the note: $(cat out)"
