#!/bin/sh
# SPDX-License-Identifier: MIT
# The trace of processors is decoded while it comes, round by round, and afterwards as a file: both
# count the same, each stream has the same items, and each thread the same calls in the same order.
# Where time stamps leave no doubt, these are the instructions and calls that were made.
# tests/live/follow.c compares; make_processors.c makes the recordings up.
. "$PTAH_SOURCE/tests/record/common.sh"

cat >code.S <<'END'
	.text
	.globl run
	.type run, @function
run:
	.org 16
	call *%rax
	jmp *%rcx
	.size run, . - run
	.irp n, 1, 2, 3, 4, 5, 6
	.org 0x100 * \n
	.globl f\n
	.type f\n, @function
f\n:
	.rept \n
	nop
	.endr
	ret
	.size f\n, . - f\n
	.endr
END
cc -shared -nostdlib -Wl,-Ttext=0x1000 -o code.so code.S || fail "code.S"

# Most of the trace is decoded before the recording ends.
decoded_early()
{
	awk '/wait for the end/ { waits = $1 } / bytes of trace,/ { all = $1 }
		END { exit !(all && waits < all / 5) }' out
}

compare() # HOW...
{
	"$PTAH_BUILD/tests/follow" "$@" -i made.data <made.data >out 2>&1 ||
		fail "$options $seed $code: $*: $(tail -n 12 out)"
}

# With few time stamps it is often not known which thread ran. (Calls are compared below: where a
# thread may have run unseen, its calls have a loss, and live it may be known that it did not.)
for options in v tv sv tsv; do
	for seed in 1 2 3 4; do
		"$PTAH_BUILD/tests/make_processors" "$seed" "x$options" >made.data 2>truth
		for how in "-w 1 -c 100000" "-w 5 -c 5000 -j 2" "-w 5 -c 64"; do
			# shellcheck disable=SC2086 # several options
			compare $how
		done
		decoded_early || fail "$options $seed: decoded late: $(cat out)"
	done
done

for options in - t s ts; do
	for seed in 1 2 3 4; do
		for code in "" "$PWD/code.so"; do
			# shellcheck disable=SC2086 # an option or none
			"$PTAH_BUILD/tests/make_processors" "$seed" "x$options" $code >made.data 2>truth
			for how in "-c 100000" "-w 7 -c 5000 -j 2" "-c 64 -q 1000" "-w 7 -c 64"; do
				# shellcheck disable=SC2086 # several options
				compare $how
				grep -q " $(head -n 1 truth), 0 errors" out &&
					grep -q " $(tail -n 1 truth)\$" out ||
					fail "$options $seed $code: $(cat truth out)"
			done
			decoded_early || fail "$options $seed: decoded late: $(cat out)"
		done
	done
done

# Most trace of one processor is missing, as if it had been lost, so that the threads that ran there
# wait for the end; and more trace of the others follows than a step decodes (padding). It ends.
cat >lose.py <<'END'
import struct, sys

data, lost = open("whole.data", "rb").read(), int(sys.argv[1])
out, at, ends = [data[:16]], 16, {}
while at + 8 <= len(data):
    kind, _, size = struct.unpack_from("<IHH", data, at)
    trace = struct.unpack_from("<Q", data, at + 8)[0] if kind == 71 else 0
    record = data[at:at + size + trace]
    at += size + trace
    if kind == 71:
        cpu = struct.unpack_from("<i", record, 40)[0]
        if cpu == lost and cpu in ends:
            continue
        ends[cpu] = (record[:size], struct.unpack_from("<Q", record, 16)[0] + trace)
    out.append(record)
for cpu, (head, end) in ends.items():
    head = bytearray(head)
    struct.pack_into("<QQ", head, 8, 200000, end)
    if cpu != lost:
        out.append(bytes(head) + bytes(200000))
open("made.data", "wb").write(b"".join(out))
END
"$PTAH_BUILD/tests/make_processors" 3 xts >whole.data 2>truth
options=lost code=
for seed in 0 1 2; do
	python3 lose.py $seed
	for how in "-j 1" "-j 2" "-w 5 -c 5000"; do
		# shellcheck disable=SC2086 # several options
		timeout 600 "$PTAH_BUILD/tests/follow" $how -i made.data <made.data >out 2>&1 ||
			fail "lost trace of $seed: $how: $(tail -n 12 out)"
	done
done

# A recording of Linux' own driver: four threads that move between two processors.
guest=${PTAH_SHARED:-none}/traces/guest
relayout=$PTAH_BUILD/tests/relayout
if [ -e "$guest/u.data.xz" ] && command -v xz >/dev/null && [ -x "$relayout" ]; then
	mkdir -p root/bin
	xz -dc "$guest/thr.xz" >root/bin/thr
	xz -dc "$guest/u.data.xz" >u.data
	options=thr seed=
	for layout in pipe packed-pipe; do
		"$relayout" "$layout" u.data made.data
		for how in "-c 1000" "-c 100000 -j 2"; do
			# shellcheck disable=SC2086 # several options
			compare -s root $how
			grep -q ' 2730395 instructions, 0 errors' out ||
				fail "thr, $layout: $(cat out)"
		done
	done
fi
