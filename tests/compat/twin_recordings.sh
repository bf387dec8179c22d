# SPDX-License-Identifier: MIT
# Every client over recordings of programs, with a limited number of calls each.
. "$PTAH_SOURCE/tests/compat/common.sh"
. "$PTAH_SOURCE/tests/record/common.sh"

build calls
build signals
for options in "" "--no-retcomp --psb-period=2048" "--long-tnt"; do
	for program in ./calls ./signals; do
		# shellcheck disable=SC2086
		record $options -- "$program" >/dev/null 2>record.err || fail "$(cat record.err)"
		same --keep 20 --limit 40000 perf.data
		same --mutate 3:2 --limit 5000 perf.data
	done
done
seq 3000 >text

# With looks of the recorder native, at times of its own.
if "$PTAH" record --dry-run --recorder=native -- true >/dev/null 2>&1; then
	"$PTAH" record -q --recorder=native --time-resolution=20us -o looks.data -- gzip -c text \
		>/dev/null || fail "looks: $?"
	same --keep 20 --limit 40000 looks.data
fi
record -- gzip -c text >/dev/null 2>record.err || fail "$(cat record.err)"
same --keep 20 --limit 40000 perf.data
