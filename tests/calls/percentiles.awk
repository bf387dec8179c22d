# SPDX-License-Identifier: MIT
# What must hold in each row of `ptah calls --format=tsv`: percentiles are between the least and the
# most, and neither contradicts the total, in which a call inside another one of its function counts
# once.
NR == 1 {
	for (i = 1; i <= NF; i++)
		column[$i] = i
	next
}
function of(name) {
	return $column[name]
}
of("min") == "" { next }
of("min") > of("p50") || of("p50") > of("p90") || of("p90") > of("p99") || of("p99") > of("max") ||
    of("total") < of("max") ||
    (!of("partial") && of("total") > of("max") * of("calls")) {
	print "not possible: " $0
	bad = 1
}
{ rows++ }
END { exit bad || !rows }
