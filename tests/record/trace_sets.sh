# SPDX-License-Identifier: MIT
# A recording that was taken apart into files of raw trace, a file of records and a ptah.trace
# decodes to the same instructions, threads, names and times, wherever the folder lies.
. "$PTAH_SOURCE/tests/record/common.sh"
take_apart=$PTAH_BUILD/tests/take_apart
[ -x "$take_apart" ] || skip "no take_apart: the unit tests were not built"

# same COMMAND...: prints the same for the recording and for the set
same()
{
	"$PTAH" "$@" perf.data >all.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
	grep -v "^# ptah record" all.txt >of-recording.txt # its command line
	"$PTAH" "$@" moved >of-set.txt 2>errors.txt || fail "$* of the set: $(cat errors.txt)"
	[ -s of-recording.txt ] || fail "$* prints nothing"
	cmp -s of-recording.txt of-set.txt || fail "$*: $(diff of-recording.txt of-set.txt | head -20)"
}

# Code that is written while it runs, in threads; a process and its children.
build jit
for program in ./jit "sh -c"; do
	rm -rf apart moved
	mkdir apart
	case $program in
	./jit) record -- ./jit ;;
	*) record -- sh -c '(:) & (:); wait' ;;
	esac >/dev/null || fail "$program cannot be recorded"
	"$take_apart" perf.data apart || fail "take_apart $program"
	mv apart moved
	[ "$(grep -c '^stream' moved/ptah.trace)" -gt 5 ] || fail "few pieces"
	same script --time
	same script --calls --format=json
	same report
	same script --blocks --events
	same cover
done

# A child that runs another program: a recording has a stream for each of the two, a set one for the
# thread. Names are those of the last program.
rm -rf apart moved
mkdir apart
record -- sh -c '/bin/true; :' >/dev/null || fail "sh cannot be recorded"
"$take_apart" perf.data apart || fail "take_apart sh"
for file in perf.data apart; do
	"$PTAH" script --no-symbols --format=tsv $file >$file.tsv 2>errors.txt ||
		fail "a child with another program, of $file: $(cat errors.txt)"
done
[ "$(cut -f2,3 perf.data.tsv | sort -u | wc -l)" -gt 1000 ] || fail "few addresses"
cmp -s perf.data.tsv apart.tsv ||
	fail "a child with another program: $(diff perf.data.tsv apart.tsv | head -20)"
