#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah profile --shard and ptah merge: parts of recordings add up to what one process counts.
. "$PTAH_SOURCE/tests/cli/common.sh"

head -c 40000 "$PTAH" >data
record gzip.data gzip -c data
record true.data sh -c 'ls / | sort | sort -r'
# A damaged trace: decoding errors, which are counted, too.
cp true.data broken.data
size=$(wc -c <true.data)
for at in 3 4 5 6; do
	printf '\231\231\231' | dd of=broken.data bs=1 seek=$((size * at / 8)) conv=notrunc 2>dd.err
done

# shards N RECORDING...: counts N parts of recordings as part.1 to part.N.
shards() {
	n=$1
	shift
	rm -f part.*
	i=0
	while [ $i -lt "$n" ]; do
		i=$((i + 1))
		expect 0 "$PTAH" profile -q --shard=$i/"$n" --save=part.$i "$@"
		[ ! -s out ] || fail "--shard prints: $(head -3 out)"
	done
}

# same N RECORDING...: N parts, joined from the last one on, are what one process saves, and have its
# exit status: 1 after decoding errors.
same() {
	shards "$@"
	expect $whole "$PTAH" merge -o merged $(ls part.* | sort -r)
	cmp merged one || fail "$*"
}
whole() { # RECORDING...
	whole=0
	"$PTAH" profile -q --save=one "$@" >out 2>err || whole=$?
	[ $whole -lt 2 ] || fail "profile $*: $(cat err)"
}
whole gzip.data
for n in 1 2 7; do same $n gzip.data; done
whole gzip.data broken.data true.data
for n in 3 50; do same $n gzip.data broken.data true.data; done
equal "status of a damaged recording" $whole 1
grep -q '[1-9][0-9]* decoding errors* in what was added up' err || fail "errors: $(cat err)"

# Merges of merges.
shards 7 gzip.data broken.data true.data
expect 1 "$PTAH" merge -o left part.5 part.2 part.4
grep -q 'shards 1, 3, 6-7 of 7 are missing' err || fail "missing: $(cat err)"
[ ! -e left ] || fail "a file is left"
expect 0 "$PTAH" merge --partial -o left part.5 part.2 part.4
expect 0 "$PTAH" merge --partial -o right part.7 part.1
expect 1 "$PTAH" merge -o merged right part.6 part.3 left
cmp merged one || fail "a merge of merges"

# What does not belong together is named.
expect 1 "$PTAH" merge -o merged right part.6 part.3 left part.2
grep -q 'part.2: shard 2 of 7 is in left, too' err || fail "twice: $(cat err)"
head -c 300 part.3 >torn
expect 1 "$PTAH" merge -o merged right part.6 torn left
grep -q 'torn: .*cut short' err || fail "torn: $(cat err)"
printf '\1' | dd of=part.3 bs=1 seek=200 conv=notrunc 2>dd.err
expect 1 "$PTAH" merge -o merged right part.6 part.3 left
grep -q 'part.3: .*checksum' err || fail "damaged: $(cat err)"
expect 0 "$PTAH" profile -q --shard=3/7 --save=other true.data gzip.data broken.data
expect 1 "$PTAH" merge -o merged right part.6 other left
grep -q 'other does not belong to right: they are of other recordings' err ||
	fail "other recordings: $(cat err)"
# ... also where a shard of the same number is there already.
expect 0 "$PTAH" profile -q --shard=6/7 --save=other true.data gzip.data broken.data
expect 1 "$PTAH" merge -o merged right part.6 other left
grep -q 'other does not belong to right: they are of other recordings' err ||
	fail "the same shard of other recordings: $(cat err)"
expect 0 "$PTAH" profile -q --shard=3/8 --save=other gzip.data broken.data true.data
expect 1 "$PTAH" merge -o merged right part.6 other left
grep -q 'other does not belong to right: one is of 7 shards, the other one of 8' err ||
	fail "other number: $(cat err)"
expect 0 "$PTAH" profile -q --cpu=6/142 --shard=3/7 --save=other gzip.data broken.data true.data
expect 1 "$PTAH" merge -o merged right part.6 other left
grep -q 'other does not belong to right: .*other options' err || fail "options: $(cat err)"
expect 1 "$PTAH" merge -o merged right one
grep -q 'right is a shard and one is not' err || fail "mixed: $(cat err)"
expect 1 "$PTAH" merge -o merged gzip.data
grep -q 'gzip.data: .*not saved counts' err || fail "a recording: $(cat err)"
[ "$(wc -c <merged)" = "$(wc -c <one)" ] || fail "the old file was changed"
expect 1 "$PTAH" report right
grep -q 'right: .*shard' err || fail "a shard is reported: $(cat err)"

# Wrong options.
for shard in 0/3 4/3 3 a/b 1/ /2 1/2x -1/2 1/9999999; do
	expect 2 "$PTAH" profile --save=x --shard=$shard gzip.data
	[ ! -e x ] || fail "--shard=$shard leaves a file"
done
expect 2 "$PTAH" profile --shard=1/2 gzip.data
expect 2 "$PTAH" profile --shard=1/2 --save=x --calls gzip.data
expect 2 "$PTAH" profile --shard=1/2 --save=x --since=1 gzip.data
expect 1 "$PTAH" profile --shard=1/2 --save=x missing.data
grep -q 'missing.data' err || fail "missing: $(cat err)"
expect 2 "$PTAH" merge one
expect 2 "$PTAH" merge -o x

# Counts of different runs are added up (merge_runs.sh has more); their processes can be kept.
expect 0 "$PTAH" profile -q --save=a gzip.data
expect 0 "$PTAH" profile -q --save=b true.data
expect 0 "$PTAH" profile -q --save=both a b
expect 0 "$PTAH" merge --keep-processes -o sum a b
cmp sum both || fail "two files added up"
expect 0 "$PTAH" merge -o sum a b a
expect 0 "$PTAH" profile --format=json --by=functions sum
got=$(json 'd["instructions"]')
expect 0 "$PTAH" profile --format=json --by=functions a b
cp out two
expect 0 "$PTAH" profile --format=json --by=functions a
equal "instructions of a b a" "$got" $(($(json 'd["instructions"]') + $(cp two out; json 'd["instructions"]')))
