# SPDX-License-Identifier: MIT
# A virtual machine with Intel PT for tests: Debian's kernel, busybox, perf and this build's ptah,
# booted by Debian's QEMU with Ptah's plugin. Tests of the guest source this file; docs/virtual-pt.md,
# "The judge", describes it.
#
#   guest_new                       starts a guest's files: root/ (its file system), in/, out/
#   guest_program NAME [FLAGS]      compiles programs/NAME.c into the guest's /bin
#   guest_modules NAME...           loads modules of the kernel, and what they depend on, at the start
#   guest_boot [OPTIONS OF QEMU] <SCRIPT   boots it; the script runs in the guest (see init)
#   guest_wait NAME                 waits until the guest has kept the recording NAME: out/NAME/
#   guest_judge NAME ...            compares what perf and Ptah decode of it, and what was executed
#   guest_end                       waits until the guest has turned itself off, and looks for
#                                   complaints of its kernel
#
# The host judges one recording while the guest makes the next.
set -eu

fail() {
	echo "FAIL: $*"
	[ -z "${guest_console:-}" ] || [ ! -e "$guest_console" ] || {
		echo "the last lines of the guest's console:"
		tail -n 25 "$guest_console" | tr -d '\r' | cut -c 1-200
	}
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

guest_source=$PTAH_SOURCE/tests/guest
guest_cache=${PTAH_GUEST:-$PTAH_SOURCE/build/guest}
: "${CC:=cc}"
guest_process=
. "$guest_source/guest_files"

command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (Debian: qemu-system-x86)"
[ -e "$guest_cache/version" ] || skip "no kernel for the guest in $guest_cache: run tests/guest/fetch"
perf version >/dev/null 2>&1 || skip "no perf (Debian: linux-perf)"
"$PTAH" vm --dry-run -- -display none >/dev/null 2>&1 ||
	skip "ptah vm: $("$PTAH" vm --dry-run -- -display none 2>&1 | head -3)"
guest_paths=$PTAH_BUILD/tests/guest_paths
# The register of the plugin that takes a tag, writes the truth, and resets it (docs/virtual-pt.md).
guest_report=0x50740000

# guest_truth TAG: what each processor executed while it traced, up to the report TAG, as paths.c
# prints it.
guest_truth() {
	awk -v tag="$1" '$1 == "truth" && $2 == tag && /cr3 all level all/ {
		for (i = 1; i < NF; i++)
			value[$i] = $(i + 1)
		if (value["insns"] > 0)
			print "cpu", value["cpu"], "instructions", value["insns"], "path", value["hash"]
		if (value["lost"] > 0)
			print "the plugin lost its place on cpu", value["cpu"], value["lost"], "times"
	}' truth
}

guest_program() {
	name=$1
	shift
	"$CC" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -static -pthread -o "root/bin/$name" \
		"$guest_source/programs/$name.c" "$@"
}

guest_new() {
	rm -rf root in out
	mkdir in out
	guest_root
	guest_binary "$(command -v perf)" /bin/perf
	guest_binary "$PTAH" /bin/ptah
	guest_program wrmsr
	guest_modules virtio_pci 9p 9pnet_virtio msr
}

# guest_boot [OPTIONS OF QEMU] <SCRIPT. guest_cpus, guest_memory and guest_seconds may be set before.
guest_boot() {
	{
		echo "PTAH_REPORT=$guest_report"
		cat
	} >in/script
	guest_pack >initramfs
	guest_console=$PWD/console
	# tsc=reliable: the kernel distrusts a TSC that is slower than its other clocks, and then perf has
	# no times. vdso=0: perf would take the host's vDSO for the guest's.
	timeout "${guest_seconds:-1000}" "$PTAH" vm --truth="$PWD/truth" \
		--model="${guest_model:-skylake}" -- -M pc -smp "${guest_cpus:-2}" -m "${guest_memory:-1024}" -nodefaults -nographic -no-reboot \
		-serial stdio -kernel "$guest_cache/vmlinux" -initrd initramfs \
		-append "console=ttyS0 quiet panic=-1 oops=panic nmi_watchdog=0 tsc=reliable vdso=0 ${guest_append:-}" \
		-virtfs local,path=in,mount_tag=in,security_model=none,readonly=on \
		-virtfs local,path=out,mount_tag=out,security_model=none \
		"$@" >"$guest_console" 2>&1 </dev/null &
	guest_process=$!
	trap 'kill $guest_process 2>/dev/null || :' EXIT
	trap 'exit 130' INT TERM
}

guest_wait() {
	until [ -e "out/$1/done" ]; do
		if [ -e out/done ] || ! kill -0 "$guest_process" 2>/dev/null; then
			[ -e "out/$1/done" ] || fail "the guest ended without the recording $1"
			return 0
		fi
		sleep 0.1
	done
}

guest_end() {
	status=0
	wait "$guest_process" || status=$?
	guest_process=
	trap - EXIT
	[ -e out/done ] || fail "the guest did not reach its end (status $status of QEMU)"
	complaints=$(grep -E 'WARNING: CPU|BUG:|Oops|general protection|unchecked MSR|Uhhuh|NMI received for unknown|rcu.*stall' \
		out/dmesg | head -5)
	[ -z "$complaints" ] || fail "the guest's kernel complains: $complaints"
	[ "$guest_wrong_count" = 0 ] || fail "$guest_wrong_count differences"
}

# guest_wrong NAME TEXT [FILE FILE]: notes that the recording NAME is not right, shows how two files
# differ, and goes on: guest_end fails.
guest_wrong() {
	guest_wrong_count=$((guest_wrong_count + 1))
	echo "FAIL: $1: $2"
	[ $# -lt 4 ] || diff "$3" "$4" | head -10
}
guest_wrong_count=0

# guest_by_perf FILE [CPU], guest_by_ptah FILE CPU: what perf and Ptah decode of a recording, as
# tests/guest/paths.c prints it. CPU -1 stands for threads wherever they run. A wrong trace may be
# decoded for ever: the time and the lines are limited. On a busy machine, a processor of the guest
# may wait in a loop for another that does not run: 370 million instructions, 90 million blocks, of
# a recording that has 16 million elsewhere.
guest_by_perf() {
	timeout 600 perf script -i "$1" --symfs root --itrace=i0nse -F tid,cpu,ip,insnlen |
		head -n 20000000 | "$guest_paths" perf ${2:+"$2"}
}
guest_by_ptah() {
	# shellcheck disable=SC2046 # one word or none
	timeout 600 "$PTAH" script --blocks --format=tsv --no-symbols --symfs=root \
		$([ "$2" = -1 ] || echo "--cpu=$2") "$1" 2>said | head -n 200000000 | "$guest_paths" ptah "$2"
	# Rows have no errors; how many there were is said at the end.
	cat said >&2
	sed -n 's/^ptah script: \([0-9]*\) decoding error.*/errors \1/p' said
}

# guest_judge NAME [threads | no-perf]: the recorder succeeded; perf and Ptah decode the recording
# NAME alike and without errors; and what they decode is what the processors executed while they
# traced. "threads": the recording has a buffer for each thread, and is compared with all processors
# together. "no-perf": perf cannot decode it.
guest_judge() {
	guest_wait "$1"
	judged=out/$1/$1
	judged_wrong=$guest_wrong_count
	read -r status tag begun ended <"$judged.status"
	[ "$status" = 0 ] || {
		guest_wrong "$1" "the recorder ended with $status: $(tail -5 "$judged.said")"
		return 0
	}
	guest_truth "$tag" >"$judged.truth"
	cpus=$(awk '{ print $2 }' "$judged.truth")
	if [ "${2:-}" = threads ]; then
		cpus=-1
		awk '/^cpu/ { n += $4; next } { print } END { print "cpu -1 instructions " n + 0 }' \
			"$judged.truth" >"$judged.sum"
		mv "$judged.sum" "$judged.truth"
	fi
	for cpu in $cpus; do
		guest_by_ptah "$judged.data" "$cpu"
	done 2>"$judged.err" |
		awk '/^errors/ { n += $2; next } { print } END { print "errors " n + 0 }' >"$judged.ptah"
	sed '/ thread /d' "$judged.ptah" | if [ "${2:-}" = threads ]; then sed 's/ path.*//'; else cat; fi >"$judged.lines"
	echo "errors 0" >>"$judged.truth"
	cmp -s "$judged.lines" "$judged.truth" ||
		guest_wrong "$1" "what Ptah decodes (<) is not what was executed (>)" "$judged.lines" "$judged.truth"
	if [ "${2:-}" != no-perf ]; then
		if [ "${2:-}" = threads ]; then guest_by_perf "$judged.data" -1; else guest_by_perf "$judged.data"; fi \
			2>>"$judged.err" >"$judged.perf"
		# The path of all threads together depends on their order.
		[ "${2:-}" != threads ] || sed -i 's/^\(cpu -1 instructions [0-9]*\) .*/\1/' "$judged.perf" "$judged.ptah"
		cmp -s "$judged.perf" "$judged.ptah" ||
			guest_wrong "$1" "perf (<) and Ptah (>) do not decode alike" "$judged.perf" "$judged.ptah"
	fi
	echo "$1: $(awk '/^cpu/ { n += $4 } END { print n + 0 }' "$judged.truth") instructions, $(du -sk "$judged.data" |
		cut -f1) KB, recorded in $(awk -v a="$begun" -v b="$ended" 'BEGIN { print b - a }') s"
	# A recording with a copy of the kernel's code has 20 MB and more.
	[ "$judged_wrong" != "$guest_wrong_count" ] || rm -rf "${judged:?}.data"
}
