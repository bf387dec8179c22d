# SPDX-License-Identifier: MIT
# Programs with several threads: recorded, they behave as alone, nothing of their traces is
# undecodable, and of each thread that has ended by itself the decoded path is what ran.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"
programs=$PTAH_SOURCE/tests/record/native/programs
build threads

# same COMMAND...: recorded into perf.data, with what `ptah verify` reports in verify.txt
same()
{
	wanted=0
	"$@" >alone.txt 2>/dev/null || wanted=$?
	status=0
	record --recorder=native --truth "$@" >recorded.txt 2>errors.txt || status=$?
	[ "$status" = "$wanted" ] || fail "$*: status $status, alone $wanted: $(cat errors.txt)"
	diff alone.txt recorded.txt >&2 || fail "$*: recorded, it behaves differently"
	"$PTAH" stat --format=tsv perf.data >stat.tsv 2>notes.txt || fail "$*: $(cat notes.txt)"
	# Of a crowd on a busy machine some context switches may be missing.
	! grep -hE 'untraced|not recorded|missing|qemu' errors.txt notes.txt |
		grep -v '^note: context switches' >&2 || fail "$*: it left"
	awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		    { e += $at["errors"] + $at["overflows"] } END { exit e }' stat.tsv ||
		{ cat stat.tsv >&2; fail "$*: it does not decode"; }
	"$PTAH" verify --all perf.data >verify.txt 2>&1 || [ $? = 1 ] || fail "$*: $(cat verify.txt)"
	! grep -iE 'differ|overflow' verify.txt >&2 || fail "$*: the decode is not what ran"
}

# threads_are N: so many threads were recorded, and each of them is what ran
threads_are()
{
	grep -q "$1 threads: decoded exactly what ran" verify.txt ||
		fail "not $1 threads: $(tail -1 verify.txt)"
}

same ./threads work
threads_are 5
same ./threads signals
threads_are 5
same ./threads fork
threads_are 23
same ./threads named
[ "$(grep -c '^worker .*: equal' verify.txt)" = 2 ] || fail "named: $(cat verify.txt)"
same ./threads churn
threads_are 301
# Threads that run when the process ends or executes another program end at their last packets.
same ./threads first-ends
threads_are 2
same ./threads exit
grep -q '^3 threads' verify.txt || fail "exit: $(tail -1 verify.txt)"
same ./threads exec
grep -q '^4 threads' verify.txt || fail "exec: $(tail -1 verify.txt)"
same ./threads fault
grep -q '^note: SIGSEGV ended process' notes.txt || fail "fault: $(cat notes.txt)"
same ./threads many
threads_are 151
# As many as a large server has; where the machine lets a program have them.
build crowd
if ./crowd 2500 >crowd.txt; then
	same ./crowd 2500
	threads_are 2501
fi

seq 1 100000 | awk '{ print $1 * 7919 % 100003 }' >numbers
command -v sort >/dev/null && same sort --parallel=4 -S 200K numbers
command -v xz >/dev/null && same xz -T2 --block-size=100000 -kc numbers
command -v python3 >/dev/null && same python3 -S -c '
import threading
results = []
def work(n):
    results.append(sum(i * n for i in range(5000)))
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(results))'
exit 0
