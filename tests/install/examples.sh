#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples build against an installation, with pkg-config alone, and print
# what they should.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

for source in "$PTAH_SOURCE"/examples/*.c; do
	name=$(basename "$source" .c)
	lines=$(wc -l <"$source")
	[ "$lines" -lt 100 ] || { echo "$source has $lines lines; an example has less than 100"; exit 1; }
	# pkg-config's paths begin at the .pc file: the compiler finds nothing of
	# the source tree.
	# shellcheck disable=SC2046,SC2086
	"$PTAH_CC" -std=c11 -Wall -Wextra -Werror $sanitize -o "$name" "$source" \
		$(pkg-config --cflags --libs ptah ptah-engine ptah-model)
done

# mov, then dec and jnz five times, then syscall: 12.
[ "$(./synthesize | tail -n 1)" = "12 instructions" ]

# PSB, PSBEND, a TNT of three (taken, not taken, taken: 1 101 0), PAD.
printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043\032\000' >packets.pt
./packets <packets.pt >said
printf '%s\n' '0 PSB ' '16 PSBEND ' '18 TNT-8 TNT' '19 PAD ' | cmp - said

# 200000 jumps of a TIP with 5 bytes, and PSB+s; a record for each region of 4 KB, and for the
# start and the stop. The companion is never waited for.
./companion >said
awk 'NR == 1 { of = $1 == $3 && $3 > 1000000 && $3 < 1050000; bytes = $3; gaps = $5 != "without" }
	NR == 2 { exit !(of && !gaps && $1 == int(bytes / 4096) + 2 && $3 == 0) }
	END { if (NR != 2) exit 1 }' said || { cat said; exit 1; }

# recorded NAME [no-perf]: NAME.data has as many instructions of each process as the lines of
# standard input say; perf finds the same, and neither reports an error.
recorded() {
	cat >expected
	root/usr/bin/ptah script "$1.data" 2>errors >lines || { cat errors; exit 1; }
	awk '{ n[$1]++ } END { for (i in n) print n[i], i }' lines | LC_ALL=C sort -k 2 | cmp - expected
	[ "$(root/usr/bin/ptah stat "$1.data" 2>/dev/null | awk '$1 == "errors" { print $2 }')" = 0 ] ||
		{ root/usr/bin/ptah stat "$1.data"; exit 1; }
	[ "${2-}" != no-perf ] && command -v perf >/dev/null || return 0
	perf script -i "$1.data" --itrace=i0nse -F comm,ip >lines 2>errors
	[ ! -s errors ] || { cat errors; exit 1; }
	awk '{ n[$1]++ } END { for (i in n) print n[i], i }' lines | LC_ALL=C sort -k 2 | cmp - expected
}

# A round is a TNT of a byte and a TIP of three, and a PSB+ of at most 54 comes
# every 2 KB; two PMIs a lap of 64 KB. Of the last lap at most 8 % are PSB+ and what precedes
# the first of them; a round is 12 instructions, and the last jump goes to the last target.
./bare_metal >said
awk '
	NR == 1 { bytes = $1; pmis = $4 }
	END {
		exit !(NR == 2 && bytes >= 400000 && bytes < 400000 * 1.027 &&
			pmis == int(bytes / 32768) && $3 == 65536)
	}' said || { cat said; exit 1; }
root/usr/bin/ptah script bare_metal.data 2>errors >lines || { cat errors; exit 1; }
tail -n 1 lines | grep -q "$(printf %x $((0x100010 + 16 * (99999 % 64))))" || { tail -n 1 lines; exit 1; }
ran=$(wc -l <lines)
[ "$ran" -le $((12 * 65536 / 4)) ] && [ "$ran" -ge $((12 * 65536 / 4 * 92 / 100)) ] || { echo "$ran ran"; exit 1; }
echo "$ran firmware" | recorded bare_metal

# The guest alone, 100 times: mov, then dec and jnz five times. (perf wants a recording of the
# guest beside that of the host.)
./hypervisor >said
grep -q '^[0-9]* bytes of trace in hypervisor.data$' said || { cat said; exit 1; }
echo "1100 guest" | recorded hypervisor no-perf

# Each processor's own number of loops; processor 2 came online late. The simulated clocks stand still.
./all_processors >said
cmp - said <<END
4 processors, skew 0
processor 0: 6000 branches
processor 1: 12000 branches
processor 2: 18000 branches
processor 3: 24000 branches
END

# Each thread has 40 slices, and runs dec and jnz 1000 times in each.
./scheduler >said
[ "$(grep -c ': 40 slices, [0-9]* bytes of trace$' said)" = 2 ] || { cat said; exit 1; }
printf '%s\n' "80000 first" "80000 second" | recorded scheduler

# Two processors, on which three processes have 100 turns each, of 1000 times dec and jnz.
./drain >said
grep -q '^[0-9]* bytes of trace in drain.data$' said || { cat said; exit 1; }
printf '200000 worker-%s\n' 0 1 2 | recorded drain

# Worked out by hand for four traces: al is not 0, in one round of the loop; the same in
# two rounds, twice; al is 0.
./coverage >said
cmp - said <<END
2 new edges, 3 new blocks, 2 entries, 0 errors
1 new edges, 0 new blocks, 3 entries, 0 errors
0 new edges, 0 new blocks, 3 entries, 0 errors
1 new edges, 1 new blocks, 2 entries, 0 errors
401002 -> 401004 1
401002 -> 401007 5
401009 -> 401000 2
401009 -> 40100b 4
END

# Compared with the recorder's own count.
if ! command -v qemu-x86_64 >/dev/null; then
	echo "SKIP: no qemu-x86_64 to record with"
	exit 77
fi
root/usr/bin/ptah record --truth -o true.data -- /bin/true
./count-instructions true.data >said
root/usr/bin/ptah verify --format=json true.data >verified
instructions=$(awk '{ print $NF }' said)
grep -q "\"instructions\": *$instructions\>" verified || { cat said verified; exit 1; }

# Ten calls of 302 instructions, and one of four.
cat >work.s <<END
	.globl _start
	.type _start, @function
_start:	mov \$10, %ebx
1:	call work
	dec %ebx
	jnz 1b
	call once
	mov \$60, %eax
	xor %edi, %edi
	syscall
	.size _start, . - _start
	.type work, @function
work:	mov \$100, %ecx
1:	nop
	dec %ecx
	jnz 1b
	ret
	.size work, . - work
	.type once, @function
once:	nop
	nop
	nop
	ret
	.size once, . - once
END
if "$CC" -nostdlib -static -o work work.s; then
	root/usr/bin/ptah record -q --truth -o work.data -- ./work
	./slowest work.data | sed 's/, thread.*//' >said
	cmp - said <<-END
	302 instructions, the longest of 10 calls: work
	4 instructions, the longest of 1 calls: once
	END
fi

# The sum of saved counts and of a recording; then the saved sum is read again.
[ "$(./counts once true.data)" = "$instructions instructions" ]
[ "$(./counts twice once true.data)" = "$((2 * instructions)) instructions" ]
[ "$(./counts again twice)" = "$((2 * instructions)) instructions" ]
cmp twice again

# Traced into memory: as many bytes as were counted, a PSB first in each thread, and no file.
rm -f perf.data
./tracer sh -c 'echo hello; exit 3' >said
grep -q '^hello$' said
grep -q '^recorder [a-z]*, family .* [1-9][0-9]* records, 0 times trace was lost$' said || { cat said; exit 1; }
awk '/^thread/ { n += $3; psb += $5 == "beginning"; threads++ } /^[0-9]+ bytes$/ { total = $1 }
	END { exit !(threads && psb == threads && n == total && n > 1000) }' said || { cat said; exit 1; }
[ ! -e perf.data ]
# An obstacle is reported with its name, a sentence and a piece of advice.
status=0
./tracer ./no-such-command 2>said || status=$?
[ "$status" = 1 ] && grep -q '^NO_TARGET: ./no-such-command: no such program$' said || { cat said; exit 1; }
[ "$(wc -l <said)" = 2 ]
