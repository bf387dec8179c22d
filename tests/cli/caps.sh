#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah caps: on this machine, whatever it is, and for simulated processors, whose
# values the test computes again from the words of CPUID.
. "$PTAH_SOURCE/tests/cli/common.sh"
need python3

# This machine: there is output in each format, the status is 0, and --check agrees.
expect 0 "$PTAH" caps --format=json
possible=$(json 'd["possible"]')
obstacle=$(json 'd["obstacle"]')
[ "$(json 'd["advice"]' | wc -c)" -gt 20 ] || fail "no advice"
[ "$(json 'd["host"]["cpus"]')" -ge 1 ] || fail "no processors"
case $possible in
True)
	equal obstacle "$obstacle" None
	expect 0 "$PTAH" caps --check
	grep -q 'Intel PT of this processor' out || fail "$(cat out)"
	;;
*)
	[ "$obstacle" != None ] || fail "impossible, and no obstacle"
	expect 1 "$PTAH" caps --check
	grep -q '^Tracing is not possible here' out || fail "$(cat out)"
	grep -q 'ptah record' out || fail "no way out: $(cat out)"
	;;
esac
[ ! -s err ] || fail "$(cat err)"
expect 0 "$PTAH" caps
expect 0 "$PTAH" caps --format=tsv
equal "header" "$(head -1 out)" "$(printf 'name\tvalue\tmeaning')"
vendor=$(sed -n 's/^vendor_id[^:]*: //p' /proc/cpuinfo | head -1)
[ -z "$vendor" ] || [ "$vendor" = GenuineIntel ] || equal "$vendor" "$obstacle" NOT_INTEL
if [ -e /sys/bus/event_source/devices/intel_pt/type ]; then
	[ "$possible" = True ] || equal "with a driver" "$obstacle" PERMISSION
fi

# The names of simulated processors are the same in each format.
expect 0 "$PTAH" caps --model=list
sed 's/ .*//' out >names
[ "$(wc -l <names)" -ge 10 ] || fail "only $(wc -l <names) names"
expect 0 "$PTAH" caps --model list --format=tsv
sed 1d out | cut -f 1 | diff names - || fail "TSV has other names"
expect 0 "$PTAH" caps -m list --format=json
json '"\n".join(m["name"] for m in d["models"])' | diff names - || fail "JSON has other names"

# SDM volume 3, "Enumeration of Intel PT" and "IA32_RTIT_CTL MSR".
cat >judge.py <<'PY'
import json, sys
word = lambda leaf, reg: int(d['cpuid'][leaf][reg], 16)
bits = lambda v: [n for n in range(16) if v >> n & 1]
def same(name, got, wanted):
    if got != wanted:
        sys.exit('%s: %s is %r, not %r' % (model, name, got, wanted))
names = ['cr3_filter', 'psb_cyc', 'ip_filter', 'mtc', 'ptwrite', 'power_events',
         'psb_pmi_preserve', 'event_trace', 'tnt_disable', 'trigger_tracing']
for line in sys.stdin:
    model, status = line.split()
    d = json.load(open(model + '.json'))
    ebx, ecx = word('14_0', 1), word('14_0', 2)
    same('simulated', d['simulated'], model)
    for n, name in enumerate(names):
        same(name, d['features'][name], bool(ebx >> n & 1))
    for n, name in (0, 'topa'), (1, 'topa_multi'), (2, 'single_range'), (3, 'fabric'), (31, 'lip'):
        same(name, d['features'][name], bool(ecx >> n & 1))
    eax, ebx1 = word('14_1', 0), word('14_1', 1)
    same('ranges', d['ranges'], eax & 7)
    triggers, more = ebx >> 9 & 1, word('14_1', 2)
    same('triggers', d['triggers'], 4 * (eax >> 8 & 7) if triggers else 0)
    for n, name in (0, 'trigger_attribution'), (1, 'trigger_pause_resume'), (15, 'trigger_dr_match'):
        same(name, d['features'][name], bool(triggers and more >> n & 1))
    for name, unit, bitmap, meaning in (
            ('mtc_periods', 'crystal_ticks', eax >> 16, lambda n: 2 ** n),
            ('cyc_thresholds', 'cycles', ebx1 & 0xffff, lambda n: 2 ** (n - 1) if n else 0),
            ('psb_periods', 'bytes', ebx1 >> 16, lambda n: 2048 * 2 ** n)):
        same(name, [(e['value'], e[unit]) for e in d[name]], [(n, meaning(n)) for n in bits(bitmap)])
    for e in d['mtc_periods']:
        if d['crystal_hz']:
            same('nanoseconds', round(e['crystal_ticks'] * 1e9 / d['crystal_hz'], 3), e['nanoseconds'])
    same('possible', d['possible'], d['obstacle'] is None)
    same('PT', d['possible'], bool(ecx & 5))
    same('status of --check', int(status), 0 if d['possible'] else 1)
    told = open(model + '.txt').read()
    same('named by --check', ('\n' + told).count('\n' + model + ': ') > 0, True)
PY
while read -r name; do
	expect 0 "$PTAH" caps --model="$name" --format=json
	mv out "$name.json"
	status=0
	"$PTAH" caps --check --model="$name" >"$name.txt" || status=$?
	echo "$name $status" >>checked
done <names
python3 judge.py <checked || fail "what is told of a simulated processor"

# A well-known processor (published CPUID dumps of Skylake).
expect 0 "$PTAH" caps --model=skylake --format=tsv
equal "MTC periods" "$(sed -n 's/^mtc_period\t\([0-9]*\)\t.*/\1/p' out | tr '\n' ' ')" "0 3 6 9 "
equal "PSB periods" "$(sed -n 's/^psb_period\t\([0-9]*\)\t.*/\1/p' out | tr '\n' ' ')" "0 1 2 3 4 5 "
equal ranges "$(sed -n 's/^ranges\t\([0-9]*\)\t.*/\1/p' out)" 2
equal limits "$(sed -n 's/^branch_required\t\([0-9]*\)\t.*/\1/p' out)" 0
expect 0 "$PTAH" caps --model=broadwell
grep -q BDM106 out || fail "Broadwell's BranchEn: $(cat out)"

# Output to a file.
expect 0 "$PTAH" caps --model=skylake -o skylake.txt
[ ! -s out ] || fail "-o also wrote to standard output"
grep -q psb_period skylake.txt || fail "$(cat skylake.txt)"
