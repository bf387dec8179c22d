#!/bin/sh
# SPDX-License-Identifier: MIT
# Output: files are complete or absent, consumers may end early, disks may be full,
# and Ctrl-C may be pressed.
. "$PTAH_SOURCE/tests/cli/common.sh"
none_left() { # no file that is not complete
	for name in *.tmp; do
		[ ! -e "$name" ] || fail "$name is left"
	done
}
seq 1 4000 >text
record r.data gzip -k -f text

# -o writes the same text, leaves no other file, and replaces an older one.
"$PTAH" script --branches r.data >wanted
echo old >branches
expect 0 "$PTAH" script --branches -o branches r.data
[ ! -s out ] || fail "-o also wrote to standard output"
cmp wanted branches
none_left
expect 0 "$PTAH" stat -o - r.data
[ -s out ] || fail "-o - is not standard output"
rm wanted branches

# Output that cannot be written: one sentence, status 1, and no file is left.
expect 1 "$PTAH" report -o absent/report r.data
grep -q 'absent/report' err || fail "$(cat err)"
equal sentences "$(wc -l <err)" 1
if [ -w /dev/full ]; then
	expect 1 "$PTAH" script -o /dev/full r.data
	grep -q '/dev/full: .*No space left' err || fail "$(cat err)"
	for command in dump script report stat verify; do
		status=0
		"$PTAH" $command r.data >/dev/full 2>err || status=$?
		equal "$command on a full disk" "$status" 1
		grep -q 'No space left' err || fail "$command: $(cat err)"
	done
fi

# It is no error when the consumer of the output ends early.
for command in dump script report stat; do
	{ "$PTAH" $command r.data 2>err; echo $? >status; } | head -1 >/dev/null
	[ ! -s err ] || fail "$command | head: $(cat err)"
	case $(cat status) in
	0 | 141) ;;
	*) fail "$command | head: status $(cat status)" ;;
	esac
done

# Ctrl-C: standard output has complete lines, and no file is left. The consumer waits
# after the first byte, so that the command cannot be finished before the signal.
mkfifo pipe
interrupt() { # COMMAND...; the text goes to `partial`
	rm -f begun sent
	{
		dd bs=1 count=1 2>/dev/null
		: >begun
		while [ ! -e sent ]; do sleep 0.05; done
		cat
	} <pipe >partial &
	reader=$!
	# Shells start background commands with SIGINT ignored: env resets it.
	env --default-signal=INT "$@" >pipe 2>err &
	writer=$!
	while [ ! -e begun ] && kill -0 $writer; do sleep 0.05; done
	kill -INT $writer
	: >sent
	status=0
	wait $writer || status=$?
	wait $reader
}
if env --default-signal=INT true 2>/dev/null; then
	seq 1 30000 >text
	record r.data gzip -k -f text
	interrupt "$PTAH" script r.data
	equal "status after Ctrl-C" "$status" 130
	[ -s partial ] || fail "nothing was printed"
	[ "$(tail -c 1 partial | od -An -c | tr -d ' ')" = '\n' ] || fail "half a line"
	[ ! -s err ] || fail "Ctrl-C: $(cat err)"
	interrupt "$PTAH" script --format=json r.data
	equal "status after Ctrl-C" "$status" 130
	if command -v python3 >/dev/null; then
		python3 -c 'import json; json.load(open("partial"))' || fail "half a document"
	fi
	# Writing this file takes seconds; on a very fast machine it may be complete before the signal.
	for signal in 2 15 1; do
		rm -f file
		env --default-signal=INT "$PTAH" script -o file r.data 2>err &
		writer=$!
		while [ ! -s "$(echo file.*.tmp)" ] && kill -0 $writer 2>/dev/null; do
			sleep 0.05
		done
		# Twice, as timeout(1) does, and by one command, so that no half second passes between.
		kill -$signal $writer $writer || :
		status=0
		wait $writer || status=$?
		if [ "$status" = $((128 + signal)) ]; then
			[ ! -e file ] || fail "signal $signal left half a file"
			none_left
		else
			equal "done before signal $signal" "$status" 0
		fi
	done
fi

# A limit of the size of files is an error, and leaves nothing. Debian's sh counts blocks of 512.
rm -f file
status=0
(ulimit -f 16 && exec "$PTAH" script -o file r.data) 2>err || status=$?
equal "status at the limit of the size of files" "$status" 1
grep -q 'file: .*File too large' err || fail "the limit: $(cat err)"
[ ! -e file ] || fail "the limit left half a file"
none_left

# Text that comes slowly: Ctrl-C leaves no file, and what was there stays.
if env --default-signal=INT true 2>/dev/null; then
	echo old >trace
	mkfifo slow
	exec 9<>slow
	env --default-signal=INT "$PTAH" asm -o trace slow 2>err &
	writer=$!
	while [ ! -e "$(echo trace.*.tmp)" ] && kill -0 $writer; do sleep 0.05; done
	kill -INT $writer
	status=0
	wait $writer || status=$?
	exec 9>&-
	equal "asm: status after Ctrl-C" "$status" 130
	equal "asm: the older file" "$(cat trace)" old
	[ ! -s err ] || fail "asm: $(cat err)"
	none_left
fi

# What is read is not replaced by what is written, by whatever name.
cp r.data kept.data
ln kept.data same.data
for command in report script dump stat cover profile verify view 'export --to=folded' \
	'export --to=sqlite' 'export --to=lcov' 'export --to=bolt' 'diff r.data' inject; do
	expect 2 "$PTAH" $command -o same.data kept.data
	grep -q 'same.data: this is ' err || fail "$command: $(cat err)"
done
expect 2 "$PTAH" profile --save=same.data kept.data
expect 2 "$PTAH" stat -o same.data --pt=kept.data
printf 'psb\n' >psb
expect 2 "$PTAH" asm -o psb psb
equal "the text" "$(cat psb)" psb
cp kept.data samples.data.old
cp kept.data samples.data
expect 2 "$PTAH" inject -i samples.data.old -o samples.data
cmp kept.data r.data
cmp samples.data.old r.data

# A link stays one, /dev/stdout is standard output, and a file named NAME.tmp is nobody's business.
"$PTAH" profile r.data >wanted
echo old >leads_here
ln -s leads_here link
echo mine >leads_here.tmp
"$PTAH" profile -o link r.data
cmp wanted leads_here
[ -L link ] || fail "the link was replaced"
equal "the user's file" "$(cat leads_here.tmp)" mine
if [ -e /dev/stdout ]; then
	echo before >log
	"$PTAH" profile -o /dev/stdout r.data >>log
	tail -n +2 log | cmp - wanted
fi

# Without standard files: their numbers are not those of other files.
"$PTAH" profile -o quiet r.data >&- 2>&- <&-
cmp quiet wanted
status=0
"$PTAH" profile r.data 2>err >&- || status=$?
equal "no standard output" "$status" 1
grep -q 'standard output' err || fail "$(cat err)"
