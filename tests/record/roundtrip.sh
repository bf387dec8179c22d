# SPDX-License-Identifier: MIT
# perf and Ptah find the same branches in a recording of each recorder.
. "$PTAH_SOURCE/tests/record/common.sh"

# Sorting takes longest, and longer where characters may have several bytes.
export LC_ALL=C
command -v perf >/dev/null || skip "perf is not installed (Debian: linux-perf)"

# Lines "tid from to", in the order of each thread's branches
branches_of_perf()
{
	perf script -i perf.data --itrace=be 2>perf-errors.txt |
		sed -n 's/^.* \([0-9][0-9]*\)  *[0-9]*\.[0-9]*: *1 *branches:u: *\([0-9a-f]*\) .* => *\([0-9a-f]*\) .*$/\1 \2 \3/p' |
		sort -s -k 1,1n
}

branches_of_ptah()
{
	"$PTAH" script -q --branches --no-symbols |
		sed -n 's/^.* \([0-9][0-9]*\)  *[a-z-]* *\([0-9a-f]*\) => \([0-9a-f]*\)$/\1 \2 \3/p' |
		sort -s -k 1,1n
}

# same AT_LEAST COMMAND...: records with the options in $how; perf and Ptah find the same branches,
# AT_LEAST of them
same()
{
	least=$1
	shift
	# shellcheck disable=SC2086
	record $how -- "$@" >output || fail "$how $*: status $?"
	perf_agrees
	branches_of_perf >perf-branches.txt
	branches_of_ptah >ptah-branches.txt
	n=$(wc -l <ptah-branches.txt)
	[ "$n" -ge "$least" ] || fail "$how $*: only $n branches"
	cmp perf-branches.txt ptah-branches.txt ||
		fail "$how $*: $(diff perf-branches.txt ptah-branches.txt | head -5)"
	echo "$how $*: $n branches"
}

build late_map
seq 1 300 >numbers

for how in "--no-retcomp --psb-period=2048" "--long-tnt" ""; do
	same 10000 gzip -c numbers
	same 10000 sh -c 'for i in 1 2 3; do echo $i; done'
done
same 100000 ./late_map
same 10000 sh -c 'seq 200 | sort | uniq -c'
if "$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1; then
	build moments -fno-inline
	for how in "--recorder=native" "--recorder=native --no-retcomp"; do
		same 10000 gzip -c numbers
		same 1000 ./moments nested
		# What follows depends on the options least.
		[ "$how" = --recorder=native ] || [ "${PTAH_NIGHTLY:-}" ] || continue
		same 10000 sh -c 'for i in 1 2 3; do echo $i; done'
		same 10000 sh -c 'seq 200 | sort | uniq -c'
		same 10000 perl -e 'my %h; $h{$_ % 97} .= "x" for 1 .. 300; print scalar keys %h'
		same 100000 ./late_map
	done
else
	echo "without the recorder native: $(cat dry.txt)"
fi
how=--recorder=ptrace
build rep -DROUNDS=100
build vsyscall
same 100 ./rep
same 100 ./vsyscall
