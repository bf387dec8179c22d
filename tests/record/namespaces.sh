# SPDX-License-Identifier: MIT
# Namespaces and control groups: the records that perf writes are read as perf reads them, and shown.
. "$PTAH_SOURCE/tests/record/common.sh"

relayout=$PTAH_BUILD/tests/relayout
[ -x "$relayout" ] || skip "no relayout: the unit tests were not built"
command -v perf >/dev/null || skip "no perf (Debian: linux-perf)"
command -v python3 >/dev/null || skip "no python3"
# A namespace of its own for the host's name, where this user may have one.
alone=
! unshare -u true 2>/dev/null || alone="unshare -u"
# shellcheck disable=SC2086
perf record -e dummy --namespaces --all-cgroups -o own.data $alone true >perf.err 2>&1 ||
	skip "perf records no namespaces here: $(tail -1 perf.err)"

# Prints "pid/tid kind inode" and "cgroup id path" of perf's text.
perf_text()
{
	perf script -i "$1" --show-namespace-events --show-cgroup-events 2>perf.err | awk '
		/PERF_RECORD_NAMESPACES/ { for (i = 1; i < NF; i++) if ($i ~ /NAMESPACES$/) who = $(i + 1) }
		/[0-9]\/[a-z]+: [0-9]+\/0x/ {
			gsub(/[][,]/, "")
			for (i = 1; i < NF; i++) if ($i ~ /^[0-9]\/[a-z]+:$/) {
				split($i, kind, "[/:]"); split($(i + 1), place, "/")
				print who, kind[2], place[2]
			}
		}
		/PERF_RECORD_CGROUP/ { for (i = 1; i < NF; i++) if ($i == "cgroup:") print "cgroup", $(i + 1), $(i + 2) }'
}

record -o a.data true
"$relayout" also a.data own.data both.data
perf_text both.data >expected
grep -q ' mnt 0x' expected || skip "perf shows no namespaces: $(head -3 perf.err)"
[ -z "$alone" ] || [ "$(grep ' uts ' expected | awk '{ print $3 }' | sort -u | wc -l)" = 2 ] ||
	fail "one UTS namespace before and after unshare: $(grep ' uts ' expected)"

"$PTAH" stat --format=json both.data >stat.json
python3 - <<'END' >found
import json

d = json.load(open("stat.json"))
for n in d["namespaces"]:
    for kind in ("net", "uts", "ipc", "pid", "user", "mnt", "cgroup"):
        print("%d/%d %s 0x%x" % (n["pid"], n["tid"], kind, n["inodes"][kind]))
for c in d["cgroups"]:
    print("cgroup", c["id"], c["path"])
END
sort expected >expected.sorted
sort found | cmp - expected.sorted || fail "other namespaces: $(sort found | diff - expected.sorted | head -5)"

# As text, where they are asked for.
inode=$(($(awk '$2 == "mnt" { print $3; exit }' expected)))
"$PTAH" stat --per-thread both.data >stat.txt
grep -q "^namespaces of .* mnt $inode" stat.txt || fail "no mount namespace $inode: $(tail -3 stat.txt)"
! "$PTAH" stat both.data | grep -q '^namespaces' || fail "namespaces without --per-thread"
echo "$(wc -l <expected) namespaces and control groups are perf's"
