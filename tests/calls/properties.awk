# SPDX-License-Identifier: MIT
# What every list of calls must be: `ptah script --calls --format=tsv` is read, and calls nest, depths
# are those of the nesting, every beginning has one end, and calls that are resumed were suspended.
# Prints how many instructions the calls executed themselves, and the greatest depth.
BEGIN { FS = "\t" }
function fail(text) {
	printf "line %d: %s: %s\n", NR, text, $0
	failed = 1
	exit 1
}
NR == 1 {
	for (i = 1; i <= NF; i++)
		column[$i] = i
	tid = column["tid"]; mark = column["mark"]; how = column["how"]; depth = column["depth"]
	call = column["call"]; ip = column["ip"]; self = column["self_instructions"]
	next
}
{ t = $tid }
$mark == "begin" {
	if ($depth != open[t] + 0)
		fail("depth with " open[t] + 0 " calls open")
	if ($how == "resumed") {
		if (cut[t, $call] != $ip)
			fail("resumed, and was not suspended")
		delete cut[t, $call]
	} else if ($call <= last[t]) {
		fail("its number is not a new one")
	} else {
		last[t] = $call
	}
	stack[t, open[t]++ + 0] = $call " " $ip
	if (open[t] > deepest)
		deepest = open[t]
	next
}
$mark == "end" {
	if (!open[t])
		fail("an end without a beginning")
	if (stack[t, --open[t]] != $call " " $ip)
		fail("not the end of the innermost call, which is " stack[t, open[t]])
	if ($depth != open[t])
		fail("depth with " open[t] " calls open")
	if ($how == "suspended" || $how == "unwound")
		cut[t, $call] = $ip
	if ($how == "exec")
		last[t] = 0
	sum += $self
	next
}
{ fail("neither a beginning nor an end") }
END {
	if (failed)
		exit 1
	for (t in open)
		if (open[t]) {
			print "thread " t ": " open[t] " calls have no end"
			exit 1
		}
	printf "%.0f %d\n", sum, deepest
}
