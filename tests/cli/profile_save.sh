#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah profile: functions; and counts that are saved, read and added up.
. "$PTAH_SOURCE/tests/cli/common.sh"
tab=$(printf '\t')
views='branches blocks edges functions'

# Two raw traces of the loop of profile.sh, of 100 and 7 rounds.
printf '\271\003\000\000\000\377\311\165\374\303' >code
make_trace() { # NAME ROUNDS
	{
		echo 'PSB; MODE.Exec 64-bit; PSBEND'
		echo 'TIP.PGE 0x401000'
		i=0
		while [ $i -lt "$2" ]; do
			printf 'TNT TTN\nTIP 0x401000\n'
			i=$((i + 1))
		done
		echo 'FUP 0x401000'
		echo 'TIP.PGD'
	} | tr ';' '\n' >text
	expect 0 "$PTAH" asm -o "$1" text
}
make_trace hundred 100
make_trace seven 7
expect 0 "$PTAH" profile --save=c100 --pt=hundred --raw=code:401000
expect 0 "$PTAH" profile --save=c7 --pt=seven --raw=code:401000

# Both together: in each round the loop's branch is executed 3 times and taken twice.
cat >wanted <<END
pid${tab}ip${tab}to${tab}executed${tab}taken${tab}unknown${tab}symbol${tab}to_symbol${tab}comm
-1${tab}0x401007${tab}0x401005${tab}321${tab}214${tab}0${tab}0x401007${tab}0x401005${tab}
END
expect 0 "$PTAH" profile --format=tsv c100 c7
diff wanted out || fail "two added up"
expect 0 "$PTAH" profile --save=both c7 c100
expect 0 "$PTAH" profile --format=tsv both
diff wanted out || fail "two added up and saved"
expect 0 "$PTAH" profile --save=both2 c100 c7
cmp both both2
expect 0 "$PTAH" profile --format=json --by=functions -i both
equal instructions "$(json 'd["instructions"]')" 856 # eight each round
equal functions "$(json 'sum(f["instructions"] for f in d["functions"])')" 856

# Another program at the same address is another process, and is not added to the first.
printf '\271\003\000\000\000\377\311\165\374\303\220' >other
expect 0 "$PTAH" profile --save=c_other --pt=seven --raw=other:401000
expect 0 "$PTAH" profile --format=tsv c100 c_other
equal "rows of two programs" "$(awk 'NR > 1 { print $4 }' out | tr '\n' ' ')" '300 21 '

# Errors are saved too.
cp hundred broken
printf '\231' >>broken
expect 1 "$PTAH" profile --save=c_broken --pt=broken --raw=code:401000
expect 1 "$PTAH" profile --format=tsv c_broken
grep -q "${tab}300${tab}200${tab}" out || fail "with an error: $(cat out)"
grep -q '1 decoding error' err || fail "with an error: $(cat err)"

# A damaged file is refused with its name and the offset, and no output is left.
size=$(wc -c <c100)
head -c $((size - 1)) c100 >cut
expect 1 "$PTAH" profile -o shown --save=saved c7 cut
grep -q "cut: offset 0x$(printf %x $((size - 1))): .*cut short" err || fail "cut: $(cat err)"
equal "lines about one damage" "$(wc -l <err)" 1
for at in 12 40 100 $((size - 3)); do
	cp c100 damaged
	printf '\177' | dd of=damaged bs=1 seek="$at" conv=notrunc 2>dd
	expect 1 "$PTAH" profile -o shown --save=saved damaged
	grep -q 'damaged: offset 0x[0-9a-f]*: ' err || fail "damaged at $at: $(cat err)"
	[ ! -s out ] || fail "damaged at $at: $(cat out)"
done
for file in shown shown.*.tmp saved saved.*.tmp; do
	[ ! -e $file ] || fail "$file is left"
done

# Senseless command lines, and files that cannot be written.
expect 2 "$PTAH" profile --tid=1 c100
expect 2 "$PTAH" profile -i c100 c7
expect 2 "$PTAH" profile --pt=hundred c7
expect 2 "$PTAH" profile --save=x -o x c7
expect 2 "$PTAH" profile --save=- c7
expect 2 "$PTAH" profile --by=functions --no-symbols c7
expect 1 "$PTAH" profile --save=absent/c c7
grep -q 'absent/c' err || fail "$(cat err)"
[ ! -s out ] || fail "shown although it could not be saved: $(cat out)"
if [ -w /dev/full ]; then
	expect 1 "$PTAH" profile --save=/dev/full c7
	grep -q '/dev/full.*No space left' err || fail "$(cat err)"
fi

# A recording: the saved counts give the same output as the recording, without it.
seq 1 3000 >numbers
record r.data gzip -k -f numbers
expect 0 "$PTAH" profile --save=saved r.data
for by in $views; do
	for format in text tsv json; do
		expect 0 "$PTAH" profile --by=$by --format=$format --limit=0 r.data
		mv out direct
		expect 0 "$PTAH" profile --by=$by --format=$format --limit=0 saved
		cmp direct out || fail "$by as $format: not the same from saved counts"
	done
done
expect 0 "$PTAH" profile --save=saved2 saved
cmp saved saved2

# Functions: the sums equal those over the instructions that `ptah script` prints, and those of
# `ptah report`.
"$PTAH" script r.data >script
awk '{ sub(/\+0x[0-9a-f]*$/, "", $4); n[$4]++ } END { for (f in n) print f, n[f] }' script |
	LC_ALL=C sort >wanted
expect 0 "$PTAH" profile --by=functions --format=tsv --limit=0 saved
awk -F'\t' 'NR > 1 { n[$5] += $2 } END { for (f in n) print f, n[f] }' out | LC_ALL=C sort >got
diff wanted got || fail "functions are not those of the path"
equal "all instructions" "$(awk '{ n += $2 } END { print n }' got)" "$recorded"
mv out direct
expect 0 "$PTAH" report --format=tsv --limit=0 r.data
cmp direct out || fail "functions are not those of report"

# A file that has changed gives no names, except with --force.
object=$(awk -F'\t' '$4 ~ /gzip$/ { print $4; exit }' direct)
mkdir -p "root/$(dirname "$object")"
cp "$(command -v dd)" "root$object"
expect 0 "$PTAH" profile --by=functions --format=tsv --limit=0 --symfs=root saved
grep -q "note: $object is not the file that ran" err || fail "changed file: $(cat err)"
equal "notes" "$(wc -l <err)" 1
equal "rows of a changed file" "$(cut -f4,5 out | grep -c "^$object${tab}0x")" 1
expect 0 "$PTAH" profile --by=functions --format=tsv --limit=0 --symfs=root --force saved
[ ! -s err ] || fail "changed file, --force: $(cat err)"
[ "$(cut -f4 out | grep -c "^$object$")" -gt 1 ] || fail "no names with --force"

# Two recordings, or one and the saved counts of the other: every function has the same sum.
first=$recorded
record r2.data gzip -k -f -9 numbers
expect 0 "$PTAH" profile --by=functions --format=tsv --limit=0 r2.data
awk -F'\t' 'FNR > 1 { n[$5] += $2; c[$5] += $3 } END { for (f in n) print f, n[f], c[f] }' \
	direct out | LC_ALL=C sort >wanted
expect 0 "$PTAH" profile --by=functions --format=tsv --limit=0 saved r2.data
awk -F'\t' 'NR > 1 { n[$5] += $2; c[$5] += $3 } END { for (f in n) print f, n[f], c[f] }' out |
	LC_ALL=C sort >got
diff wanted got || fail "two recordings are not the sum of both"
expect 0 "$PTAH" profile --format=json --by=functions saved r2.data
equal "instructions of both" "$(json 'd["instructions"]')" $((first + recorded))

# Counts have no times, and no order; who gives them to another command learns which ones read them.
expect 2 "$PTAH" profile saved --since=50%
grep -q 'saved holds counts, which know no times' err || fail "window of counts: $(cat err)"
expect 1 "$PTAH" script saved
grep -q "saved: counts of 'ptah profile --save'; .*'ptah diff'" err || fail "script: $(cat err)"
