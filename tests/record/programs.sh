# SPDX-License-Identifier: MIT
# What programs do to themselves and each other: code written at run time,
# signals and faults, threads.
. "$PTAH_SOURCE/tests/record/common.sh"

build jit
build signals
build threads

for options in "" "--no-retcomp --clock=host"; do
	# shellcheck disable=SC2086
	record $options ./jit || fail "jit ended with status $?"
	exact
	echo "jit $options: $(tail -1 verify.txt)"

	# shellcheck disable=SC2086
	record $options ./signals || fail "signals ended with status $?"
	exact
	perf_agrees
	echo "signals $options: $(tail -1 verify.txt)"
done

# 1 + 4 + 700 threads, more than there is room for at the same time.
record ./threads || fail "threads ended with status $?"
exact
perf_agrees
grep -q '^705 threads: ' verify.txt || fail "not 705 threads: $(tail -1 verify.txt)"
for name in first second third fourth; do
	grep -q "^$name " verify.txt || fail "no thread named $name: $(head -5 verify.txt)"
done
echo "threads: $(tail -1 verify.txt)"

# A QEMU whose registers cannot be read: signals appear as lost trace, with a note, and the rest is
# exact.
"$CC" -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -fvisibility=hidden -DPTAH_NO_REGISTERS \
	-I"$PTAH_SOURCE/include" -I"$PTAH_SOURCE/src" -o blind.so \
	"$PTAH_SOURCE"/src/record/qemu/plugin/*.c "$PTAH_SOURCE"/src/model/*.c \
	"$PTAH_SOURCE"/src/engine/*.c "$PTAH_SOURCE/src/packet/encode.c" \
	"$PTAH_SOURCE"/src/x86/*.c "$PTAH_SOURCE/src/base/error.c" \
	"$PTAH_SOURCE/src/perfdata/message.c" \
	"$PTAH_SOURCE"/src/record/command.c "$PTAH_SOURCE"/src/record/qemu/launch.c \
	"$PTAH_SOURCE"/src/record/simulated/code_map.c \
	"$PTAH_SOURCE"/src/record/simulated/code_shadow.c \
	"$PTAH_SOURCE"/src/record/simulated/trace_output.c
record --plugin=./blind.so ./signals || fail "signals ended with status $?"
"$PTAH" verify --all perf.data >verify.txt 2>notes.txt || fail "$(cat verify.txt)"
grep -q '[1-9][0-9]* overflows: the recorder could not follow' verify.txt || fail "no loss is told"
grep -q 'does not show its registers' notes.txt || fail "no note: $(cat notes.txt)"
echo "without registers: $(sed -n 2p verify.txt)"
