#!/bin/sh
# SPDX-License-Identifier: MIT
# Timelines of traces that real processors and Linux' driver recorded: as many instructions as libipt
# counts, and the calls that perf lists, at perf's times.
. "$PTAH_SOURCE/tests/record/common.sh"
command -v python3 >/dev/null || skip "no python3"
traces=$PTAH_SHARED/traces
[ -e "$traces/foo.pt" ] || skip "no traces of real processors in PTAH_SHARED"

# The numbers are those of libipt's block decoder.
for trace in foo:117967 unzip:149576 mruby:6334131; do
	name=${trace%:*}
	"$PTAH" export -q --to=fxt --pt "$traces/$name.pt" --pages "$traces/$name" -o "$name.fxt" ||
		fail "$name: $?"
	python3 "$PTAH_SOURCE/tests/export/recorded.py" ends-at "$name.fxt" "${trace#*:}" || fail "$name"
done

[ -e "$traces/guest/u.data.xz" ] || skip "no recording of a guest in PTAH_SHARED"
perf script --help >/dev/null 2>&1 || skip "no perf, which lists the calls"
mkdir -p root/bin
xz -dc "$traces/guest/thr.xz" >root/bin/thr || skip "no xz"
xz -dc "$traces/guest/u.data.xz" >u.data
chmod +x root/bin/thr
"$PTAH" export -q --to=fxt --symfs root -i u.data -o u.fxt || fail "the guest's: $?"
perf script --ns --symfs root -i u.data --itrace=cr -F tid,time,flags,ip,sym,addr >calls.txt 2>err ||
	fail "perf: $(cat err)"
python3 "$PTAH_SOURCE/tests/export/recorded.py" as-perf u.fxt calls.txt || fail "the guest's calls"
