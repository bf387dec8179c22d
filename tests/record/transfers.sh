#!/bin/sh
# SPDX-License-Identifier: MIT
# Every way in which a processor leaves straight code, in 16, 32 and 64 bits: transfers/ is an image
# that executes each with Intel PT on, and `expected` has the packets that the SDM demands for it,
# and how many instructions there are.
. "$PTAH_SOURCE/tests/record/common.sh"

image=$PTAH_BUILD/port/ptah-transfers
plugin=$PTAH_BUILD/lib/ptah-system.so
expected=$PTAH_SOURCE/tests/record/transfers/expected
[ -e "$image" ] || skip "the image is for x86-64 only"
[ -e "$plugin" ] || skip "no $plugin"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"

# boot MODEL [OPTION...]: runs the image on a machine with Intel PT.
boot() {
	model=$1
	shift
	status=0
	timeout 900 qemu-system-x86_64 -accel tcg -plugin "$plugin,model=$model" -M pc \
		-cpu Skylake-Server -m 64 -display none -nodefaults -serial stdio -kernel "$image" \
		-device isa-debug-exit,iobase=0xf4,iosize=4 "$@" >said 2>warnings </dev/null || status=$?
	[ "$status" -eq 33 ] || { cat warnings; tail said; fail "exit status $status instead of 33"; }
	if grep '^ptah-system:' warnings; then
		fail "the plugin complains"
	fi
}

# compare FILE: are the packets that were said those of this list?
compare() {
	# What was said, a line "CASE PACKET OPERAND" for each packet; outcomes in a row are joined.
	tr -d '\r' <said | awk '
		function end() {
			if (outcomes != "")
				print name, "TNT", outcomes
			outcomes = ""
		}
		{ sub(/ +$/, "") }
		$1 == "case" { end(); name = $2; next }
		$1 == "PSB" { header = 1 }
		header { if ($1 == "PSBEND") header = 0; next }
		$1 ~ /^TNT/ { outcomes = outcomes $2; next }
		$1 == "done" { end(); next }
		{ end(); print name, $0 }' >packets

	# What is expected, in the same way, with addresses in the place of symbols.
	nm "$image" | awk '
		NR == FNR { address = $1; sub(/^0+/, "", address); at[$NF] = "0x" address; next }
		/^#/ || NF == 0 { next }
		$1 == "case" { name = $2; next }
		{
			symbol = $NF ~ /^\./ ? name $NF : $NF
			if (symbol in at)
				$NF = at[symbol]
			print name, $0
		}' - "$1" >wanted

	# The packets that "*" stands for: those up to the one after it.
	awk '
		NR == FNR {
			if (before[$1] == "*")
				until[$1] = $0
			before[$1] = $2
			if ($2 == "*")
				star[$1] = last
			last = $0
			next
		}
		skipping { if ($0 != until[$1]) next; skipping = 0 }
		{ print }
		$1 in star && $0 == star[$1] { print $1, "*"; skipping = 1 }' wanted packets >shortened

	sort -s -k1,1 shortened >packets.sorted
	sort -s -k1,1 wanted >wanted.sorted
	diff wanted.sorted packets.sorted ||
		fail "$model: the packets (>) are not those that the SDM demands (<)"
	echo "$model: $(wc -l <packets) packets of $(grep -c '^case ' said) cases"
}

# CPUID.14H.0:EBX[2]: a warm reset clears TraceEn, and the other registers keep their values.
boot skylake -append reset
grep -q '^after the reset: ctl 0x100002004, cr3_match 0x123000, addr0 0x100000 0xffffff' said ||
	{ cat said; fail "the registers after a reset"; }

boot maximal -append events
compare "$expected-events"

# A processor with LIP: the packets have linear addresses.
boot arrow-lake-e -no-reboot -smp 2
sed -e 's/^TIP \.there_rip$/TIP .there/' -e 's/^TIP \.indirect_rip$/TIP .indirect/' \
	-e 's/^TIP 0xfff0$/TIP 0xfffffff0/' -e 's/^TIP 0xffe0$/TIP 0x10fe0/' \
	-e 's/^TIP 0x0$/TIP .entry/' -e 's/^CBR ratio 34$/CBR ratio 42/' "$expected" >linear
compare linear

boot skylake -no-reboot -smp 2 -device isa-debugcon,iobase=0xe9,chardev=trace \
	-chardev file,id=trace,path=trace.pt
compare "$expected"

# The decoders walk over the code of the image: Ptah, and, where it is installed, libipt, which is
# compared instruction by instruction.
total=$(awk '$1 == "case" && $4 == "" { n += $3 } END { print n }' "$expected")
"$PTAH" stat --format=json --pt=trace.pt --elf="$image" >stat 2>errors || { cat errors; fail "stat"; }
number() {
	sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" stat | head -1
}
[ "$(number errors)" -eq 0 ] || { cat errors stat; fail "errors"; }
[ "$(number instructions)" -eq "$total" ] ||
	fail "$(number instructions) instructions instead of $total"

bench=$PTAH_BUILD/bin/ptah-bench
[ -x "$bench" ] || { echo "no ptah-bench: libipt-dev is not installed"; exit 0; }
# Pages: those of the code below 64 KB, and the others.
objcopy -O binary -j .low "$image" low
objcopy -O binary -R .low -R .bss "$image" high
: >code.addr
: >code.dump
add_pages() { # FILE ADDRESS
	n=$((($(stat -c %s "$1") + 4095) / 4096))
	truncate -s $((n * 4096)) "$1"
	cat "$1" >>code.dump
	for i in $(seq 0 $((n - 1))); do
		page=$(($2 + i * 4096))
		# shellcheck disable=SC2059 # the format is the number's bytes
		printf "$(printf '\\%03o\\%03o\\%03o' $((page & 255)) $((page >> 8 & 255)) $((page >> 16)))\0\0\0\0\0" >>code.addr
	done
}
add_pages low 0xb000
add_pages high 0x100000
"$bench" equal transfers trace.pt code || fail "Ptah and libipt differ"
