#!/bin/sh
# SPDX-License-Identifier: MIT
# What a virtual machine's processor does besides control flow: processor/ is an image that checks
# rules of the SDM about registers, CPUID, PMIs, PTWRITE, XSAVES and time on a machine with Intel PT.
. "$PTAH_SOURCE/tests/record/common.sh"

image=$PTAH_BUILD/port/ptah-processor
plugin=$PTAH_BUILD/lib/ptah-system.so
[ -e "$image" ] || skip "the image is for x86-64 only"
[ -e "$plugin" ] || skip "no $plugin"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64"

judge() { # TIME, QEMU OPTION...
	time=$1
	shift
	status=0
	timeout 900 qemu-system-x86_64 -accel tcg \
		-plugin "$plugin,model=maximal,xsaves=on,truth=truth" "$@" -M pc -cpu max -m 64 \
		-display none -nodefaults -no-reboot -serial stdio \
		-device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$image" \
		>said 2>warnings </dev/null || status=$?
	tr -d '\r' <said >rules
	if grep FAILED -A1 rules || [ "$status" -ne 33 ]; then
		cat warnings
		tail -n 3 rules
		fail "$time: exit status $status instead of 33"
	fi
	if grep '^ptah-system:' warnings; then
		fail "$time: the plugin complains"
	fi
	echo "$time: $(grep -c '^ok ' rules) rules are kept"
}

judge "the host's time"
judge "the time of counted instructions" -icount shift=1,sleep=off
