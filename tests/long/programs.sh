#!/bin/sh
# SPDX-License-Identifier: MIT
# Real programs of Debian, alone and recorded natively: what they print and how they end is the same,
# and what was recorded is decoded as what ran. Prints for each the time and the memory of both, as
# measured here and now, and compares what happens with the table of docs/native-recorder.md. Where a
# program is not installed its row is skipped, with a line.
#
# PTAH_EACH: a pattern of names ("redis*"): only these. PTAH_INSTALL=1: installs what is missing
# first, as root.
. "$PTAH_SOURCE/tests/cli/common.sh"

: "${PTAH_EACH:=*}"
need python3
"$PTAH" record --recorder=native --dry-run -- true >out 2>&1 || skip "$(cat out)"
PATH=/usr/bin:/bin:/usr/sbin:/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)
if [ -n "${PTAH_INSTALL:-}" ]; then
	apt-get install -y --no-install-recommends apache2-utils bubblewrap busybox-static clang cmake \
		curl erlang-base ffmpeg gdb git golang-go guile-3.0 libgomp1 lua5.4 make mono-mcs nginx-light \
		ninja-build nodejs ocaml-nox openjdk-17-jdk-headless openssl perl php-cli postgresql \
		postgresql-contrib python3-numpy qemu-system-x86 r-base-core redis-server redis-tools rsync ruby sbcl sqlite3 \
		strace stress-ng tcl tmux valgrind vim xz-utils zstd >installed 2>&1 || skip "$(tail -3 installed)"
fi

# The table: | program | what it is | what happens |, of which the first and the last column count.
sed -n '/^## Real programs$/,/^## How fast$/p' "$PTAH_SOURCE/docs/native-recorder.md" >table
errors=0
tried=0

# run NAME COMMAND...: in an empty folder, with what it prints in the file NAME, and seconds, KB and
# status in NAME.time
run() {
	name=$1
	shift
	rm -rf folder
	mkdir folder
	chmod 777 folder
	(cd folder && LC_ALL=C.UTF-8 HOME=$PWD TMPDIR=$PWD python3 ../timed.py "../$name.time" "$@") \
		>"$name" 2>&1 </dev/null
}

cat >timed.py <<'END'
import os, resource, subprocess, sys, time
started = time.monotonic()
# Of the program's processes: the recorder is another one.
status = subprocess.run(sys.argv[2:]).returncode
spent = time.monotonic() - started
with open(sys.argv[1], "w") as file:
    print("%.2f %d %d" % (spent, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, status), file=file)
END

wrong() {
	echo "FAIL: $program: $*"
	errors=$((errors + 1))
}

# try NAME "NEEDED PROGRAMS" COMMAND
try() {
	program=$1
	case $program in
	$PTAH_EACH) ;;
	*) return 0 ;;
	esac
	for needed in $2; do
		command -v "$needed" >/dev/null || {
			echo "SKIP: $program: no $needed"
			return 0
		}
	done
	tried=$((tried + 1))
	echo "$3" >command.sh
	run alone timeout -k 5 300 sh "$PWD/command.sh"
	run recorded timeout -k 5 600 "$PTAH" record -q --recorder=native --truth -o "$PWD/run.data" -- \
		sh "$PWD/command.sh"
	read -r seconds_alone memory_alone status_alone <alone.time
	read -r seconds memory status <recorded.time
	[ "$status" = "$status_alone" ] || wrong "status $status, not $status_alone: $(tail -3 recorded)"
	cmp -s alone recorded || wrong "other output: $(diff alone recorded | head -5)"
	"$PTAH" verify --all -i run.data >verified 2>&1 || :
	case $(cat verified) in
	*DIFFERS*) happens=differs ;;
	*untraced*) happens=untraced ;;
	*"decoded exactly"*) happens=exact ;;
	*) happens=unverified ;;
	esac
	echo "$program: $happens; seconds $seconds_alone and $seconds, MB $((memory_alone / 1024)) and $((memory / 1024)); $(tail -1 verified)"
	grep -q "^| $program |.*| $happens" table || wrong "the table has another outcome than \"$happens\""
}

try git git 'git init -q -b main r && cd r && git config user.name n && git config user.email e &&
seq 1 20000 >f && git add f && git commit -qm first && seq 5 20000 >f && git commit -qam second &&
git gc -q && git fsck 2>/dev/null && git log --format=%s --stat && git clone -q . ../copy && ls ../copy'

try nginx "nginx ab curl" 'mkdir -p logs html && seq 1 20000 >html/index.html
cat >nginx.conf <<END
daemon off;
worker_processes 2;
error_log logs/error;
pid logs/pid;
events { worker_connections 256; }
http {
	access_log logs/access;
	server { listen 127.0.0.1:18081; listen unix:$PWD/web; root $PWD/html; gzip on; }
}
END
nginx -p "$PWD/" -c nginx.conf 2>/dev/null &
until curl -sf --unix-socket web -o page http://localhost/; do :; done
cmp page html/index.html && ab -k -q -n 2000 -c 8 http://127.0.0.1:18081/index.html | grep requests:
kill -QUIT $(cat logs/pid); wait'

try redis "redis-server redis-benchmark redis-cli" 'redis-server --port 0 --unixsocket s --save "" >/dev/null &
until redis-cli -s s ping >/dev/null 2>&1; do :; done
redis-benchmark -s s -n 5000 -t set,get,lpush -q | tr "\r" "\n" | grep -c "requests per second"
redis-cli -s s dbsize; redis-cli -s s shutdown nosave; wait'

try postgres "initdb postgres pgbench psql pg_isready setpriv" 'as=
[ $(id -u) != 0 ] || as="setpriv --reuid=65534 --regid=65534 --clear-groups"
export PGHOST=$PWD PGPORT=15433 PGUSER=u
$as initdb -D data -U u -N >/dev/null 2>&1 && mkdir -p log
$as postgres -D data -k "$PWD" -p 15433 -c listen_addresses= >/dev/null 2>&1 &
until pg_isready -q; do :; done
pgbench -q -i -s 1 postgres >/dev/null 2>&1
pgbench -c 4 -j 2 -t 50 postgres 2>/dev/null | grep "actually processed"
psql -Atc "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)" postgres
kill -INT $(head -1 data/postmaster.pid); wait'

try node node 'cat >a.js <<END
const { Worker, isMainThread, parentPort } = require("worker_threads");
const f = n => n < 2 ? n : f(n - 1) + f(n - 2);
if (!isMainThread) parentPort.postMessage(f(22));
else {
	for (let i = 0; i < 4; i++) new Worker(__filename).on("message", m => console.log(m));
	console.log(JSON.stringify([1, 2, 3].map(x => x * x)), /a+b/.test("aab"));
}
END
node a.js'

try java "java javac" 'cat >A.java <<END
import java.util.*;
public class A {
	static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
	public static void main(String[] a) throws Exception {
		Thread[] t = new Thread[4];
		for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { synchronized (A.class) { System.out.println(f(25)); } }); t[i].start(); }
		for (Thread x : t) x.join();
		Map<Integer, String> m = new TreeMap<>();
		for (int i = 0; i < 20000; i++) m.put(i * 7919 % 10007, "x" + i);
		System.out.println(m.size() + " " + m.hashCode());
		System.gc();
	}
}
END
javac A.java && java -cp . A'

try go go 'cat >a.go <<END
package main
import ("fmt"; "sync")
func main() {
	c := make(chan int); var w sync.WaitGroup
	for i := 0; i < 50; i++ { w.Add(1); go func(i int) { defer w.Done(); c <- i * i }(i) }
	go func() { w.Wait(); close(c) }()
	s := 0
	for x := range c { s += x }
	fmt.Println(s)
}
END
export GOCACHE=$PWD/cache GO111MODULE=off
go build -o a a.go && ./a'

try R R 'R --vanilla -q -s -e "set.seed(1); x <- rnorm(2000); y <- 2 * x + rnorm(2000); print(coef(lm(y ~ x))); print(sum(solve(matrix(runif(1e4), 100)))  != 0)"'

try sbcl sbcl 'sbcl --noinform --non-interactive --eval "(defun f (n) (if (< n 2) n (+ (f (- n 1)) (f (- n 2)))))" \
--eval "(print (f 22))" --eval "(print (length (loop for i below 300000 collect (cons i i))))" --eval "(gc :full t)"'

try erlang erl 'erl -noshell -eval "S = self(), [spawn(fun() -> S ! lists:sum(lists:seq(1, N)) end) || N <- lists:seq(1, 300)],
R = [receive X -> X end || _ <- lists:seq(1, 300)], io:format(\"~p~n\", [lists:sum(R)]), halt()."'

try ocaml ocaml 'echo "let rec f n = if n < 2 then n else f (n - 1) + f (n - 2);; print_int (f 22);; print_newline ();;" >a.ml
ocaml a.ml'

try ffmpeg ffmpeg 'ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=10 -t 2 -threads 2 -c:v mpeg4 -y a.avi </dev/null &&
ffmpeg -v error -i a.avi -f framemd5 - </dev/null | tail -3'

cat >many.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
	static int values[1000];
	for (int i = 0; i < 1000; i++)
		values[i] = i * 7919 % 1009;
	qsort(values, 1000, sizeof *values, compare);
	return printf("%d %d\n", values[0], values[999]) < 0;
}
END

try clang clang 'clang -O2 -o a ../many.c && ./a && clang -O2 -S -o - ../many.c | wc -l'

try gcc gcc 'gcc -O2 -flto -g -o a ../many.c && ./a'

try cmake "cmake ninja cc" 'mkdir s && cp ../many.c s && cat >s/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.10)
project(many C)
foreach(i RANGE 5)
  add_executable(many\$i many.c)
endforeach()
END
sed -i "s/.i many/\${i} many/; s/many.i/many\${i}/" s/CMakeLists.txt
cmake -G Ninja -S s -B b >log 2>&1 || cat log
ninja -C b -j2 >log 2>&1 || cat log
./b/many3'

try make "make cc" 'for i in 1 2 3 4 5 6; do cp ../many.c m$i.c; done
printf "all: m1 m2 m3 m4 m5 m6\n" >Makefile
make -s -j4 && ./m1 && ./m6'

if /usr/bin/python3 -c "import numpy" 2>/dev/null; then
	try numpy /usr/bin/python3 'cat >a.py <<END
import numpy
a = numpy.arange(90000.0).reshape(300, 300) % 17
print(int((a @ a.T).trace()), numpy.linalg.matrix_rank(a))
END
/usr/bin/python3 a.py'
else
	echo "SKIP: numpy: it is not installed"
fi

try python /usr/bin/python3 'cat >a.py <<END
import multiprocessing, re, json, threading, hashlib
def f(n): return sum(i * i for i in range(n))
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: print(pool.map(f, range(0, 20000, 4000)))
    t = [threading.Thread(target=f, args=(20000,)) for i in range(4)]
    [x.start() for x in t]; [x.join() for x in t]
    print(hashlib.sha256(json.dumps({str(i): i for i in range(5000)}).encode()).hexdigest(), len(re.findall(r"\w+", "a b c" * 1000)))
END
/usr/bin/python3 a.py'

try perl perl 'perl -e "my %h; \$h{\$_ % 997} .= chr(65 + \$_ % 26) for 1 .. 100000; print join(\",\", map { length \$h{\$_} } sort keys %h), qq(\n); print scalar(() = (q(abc) x 5000) =~ /b(?=c)/g), qq(\n); exit 3"'

try ruby ruby 'ruby -e "h = Hash.new(0); 100_000.times { |i| h[i % 97] += i }; puts h.values.sum; puts 4.times.map { |i| Thread.new { (1..2000).sum } }.map(&:value).inspect; puts fork { exit 4 }.class; Process.wait; puts \$?.exitstatus"'

try php php 'php -r "for (\$i = 0; \$i < 100000; \$i++) @\$a[\$i % 97] .= \"x\"; echo count(\$a), md5(serialize(\$a)), preg_match_all(\"/x+/\", implode(\",\", \$a)), PHP_EOL;"'

try lua lua5.4 'lua5.4 -e "local t = {} for i = 1, 200000 do t[i % 97] = (t[i % 97] or 0) + i end local s = 0 for k, v in pairs(t) do s = s + v end print(s, #string.rep(\"x\", 1000), pcall(error, 1))"'

try tcl tclsh 'echo "proc f n {expr {\$n < 2 ? \$n : [f [expr {\$n - 1}]] + [f [expr {\$n - 2}]]}}; puts [f 18]" >a.tcl; tclsh a.tcl'

try guile guile 'GUILE_AUTO_COMPILE=0 guile -c "(define (f n) (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (display (f 22)) (newline)"'

try sqlite sqlite3 'sqlite3 a.db "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000)
insert into t select x, x * 7919 % 10007 from c; create index i on t(b); select sum(a), count(distinct b) from t where b < 5000; pragma integrity_check"'

try bash bash 'cat >a.bash <<"END"
trap "echo usr1" USR1
for i in {1..200}; do x=$(echo $i | tr 1 2); s=$((s + x)); done; echo $s
kill -USR1 $$; coproc cat; echo hello >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo $line
(exit 5) || echo $?; printf "%s\n" a b c | while read -r l; do echo "$l$l"; done; exit 7
END
bash a.bash'

try busybox busybox 'busybox sh -c "busybox seq 1 5000 | busybox sort -r | busybox md5sum; busybox find ../ -name many.c"'

try openssl openssl 'openssl genrsa -out k 2048 2>/dev/null && openssl req -x509 -new -key k -subj /CN=x -out c &&
openssl verify -CAfile c c; seq 1 100000 | openssl enc -aes-256-cbc -pbkdf2 -pass pass:x -out e && openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x -in e | md5sum'

try xz xz 'seq 1 400000 >f && xz -T2 --block-size=500000 -k -1 f && xz -dc f.xz | cmp - f && xz -l f.xz | tail -1'

try zstd zstd 'seq 1 400000 >f && zstd -q -T2 -9 f && zstd -qdc f.zst | cmp - f && ls -s f.zst'

try rsync rsync 'mkdir a && seq 1 200000 >a/f && cp -r /usr/include/linux a && rsync -a a/ b/ && seq 1 2 200000 >a/f &&
rsync -a --no-whole-file --delete a/ b/ && diff -r a b && echo same'

try tar "tar gzip" 'tar cf - -C /usr/include linux | gzip -6 | gzip -dc | tar tf - | wc -l'

try strace strace 'strace -f -qq -e trace=none -e signal=none sh -c "echo inner; exit 3"'

try gdb "gdb cc" 'cc -g -o a ../many.c && gdb -q -batch -nx -ex "break compare" -ex run -ex "print values[3]" -ex "delete" -ex continue ./a 2>&1 | grep -v -e hread -e process'

try bwrap bwrap 'bwrap --ro-bind / / --dev /dev --proc /proc --unshare-pid sh -c "echo inner \$\$"; echo $?'

try unshare unshare 'unshare -Urm sh -c "echo inner; id -u"; echo $?'

try tmux "tmux" 'tmux -L "$$" -f /dev/null new-session -d -x 80 -y 24 "echo hello >f; tmux wait-for -S done; cat"
tmux -L "$$" wait-for done; cat f; tmux -L "$$" kill-server'

try vim "vim script" 'printf "one\ntwo\n" >f; script -qec "vim -u NONE -N -n f +%s/o/0/g +wq" /dev/null >/dev/null; cat f'

try valgrind "valgrind cc" 'cc -g -o a ../many.c && valgrind -q ./a'

try stress-ng stress-ng 'for stressor in "vm 1 --vm-bytes 16M --vm" "pipe 1 --pipe" "fork 1 --fork" "sigq 1 --sigq" "switch 1 --switch" "cpu 1 --cpu"; do
stress-ng -q --$stressor-ops 20 && echo $stressor; done'

try openmp "gcc" 'cat >a.c <<END
#include <stdio.h>
int main(void) { long s = 0;
#pragma omp parallel for reduction(+ : s)
for (int i = 0; i < 300000; i++) s += i % 7;
return printf("%ld\n", s) < 0; }
END
gcc -O2 -fopenmp -o a a.c && OMP_NUM_THREADS=4 ./a'

try sanitizers gcc 'gcc -g -fsanitize=address,undefined -o a ../many.c && ./a; gcc -g -fsanitize=thread -o b ../many.c && ./b'

try curl "curl" 'echo text >f; curl -s file://$PWD/f; curl -s http://127.0.0.1:1/; echo $?'

try qemu qemu-system-x86_64 'echo quit | qemu-system-x86_64 -sandbox on,spawn=deny -nodefaults -display none -S -monitor stdio | grep -c quit'

try mono "mono mcs" 'cat >A.cs <<END
using System;
using System.Threading;
class A {
	static void Main() {
		var t = new Thread(() => Console.WriteLine("thread"));
		t.Start();
		t.Join();
		try { object o = null; o.ToString(); } catch (NullReferenceException) { Console.WriteLine("null"); }
		GC.Collect();
	}
}
END
mcs A.cs && mono A.exe'

try chromium chromium 'echo "<p id=a></p><script>a.textContent = [1, 2, 3].map(x => x * x)</script>" >a.html
chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/user --dump-dom "file://$PWD/a.html" 2>/dev/null'

[ $tried != 0 ] || skip "none of the programs is installed"
echo "$tried programs"
[ $errors = 0 ] || exit 1
