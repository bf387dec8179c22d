#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah-mpi, with each MPI of Debian: what four ranks count is what one process counts, byte for byte;
# parts that fail are given out again; a recording that cannot be read is left out and named; nothing
# is saved where something is missing. GNU parallel with the two commands does the same.
. "$PTAH_SOURCE/tests/cli/common.sh"

need qemu-x86_64
[ -x "$PTAH_BUILD/bin/ptah-mpi" ] ||
	skip "ptah-mpi is not built (Debian: libopenmpi-dev, libmpich-dev)"
"$PTAH" record -q -o a.data -- awk 'BEGIN { for (i = 0; i < 30000; i++) s += i % 7; print s }' >/dev/null
"$PTAH" record -q -o b.data -- sh -c 'for i in 1 2 3; do /bin/true; done' >/dev/null
"$PTAH" record -q -o c.data -- gzip -c "$PTAH" >/dev/null
mkdir elsewhere
mv c.data elsewhere/
recordings="a.data b.data elsewhere/c.data"
# shellcheck disable=SC2086 # words
"$PTAH" profile -q --save=whole $recordings >/dev/null

if command -v parallel >/dev/null; then
	# The recipe of docs/fleet.md.
	mkdir shards
	# shellcheck disable=SC2046,SC2086 # words
	parallel "$PTAH" profile -q --jobs=1 --shard={}/8 --save=shards/{} $recordings ::: $(seq 8) \
		</dev/null >/dev/null || fail "parallel: status $?"
	"$PTAH" merge -o all.ptah shards/*
	cmp all.ptah whole || fail "GNU parallel: another sum"
fi

# Both refuse root without being told, and more ranks than processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
tried=
for mpi in ompi-c mpich; do
	case $mpi in
	ompi-c) mpirun="mpirun.openmpi --oversubscribe -q" ;;
	mpich) mpirun=mpirun.mpich ;;
	esac
	program=$PTAH_BUILD/bin/ptah-$mpi
	if ! [ -x "$program" ] || ! command -v "${mpirun%% *}" >/dev/null; then
		echo "no $mpi"
		continue
	fi
	tried=$tried$mpi

	# shellcheck disable=SC2086
	expect 0 $mpirun -n 4 "$PTAH_BUILD/tests/mpi_parts-$mpi" 300
	grep -q '^good: ' out || fail "$mpi: $(cat out err)"

	for n in 1 4; do
		rm -f sum
		# shellcheck disable=SC2086
		expect 0 $mpirun -n $n "$program" profile --parts=$((n * 5)) --save=sum $recordings
		cmp sum whole || fail "$mpi: $n ranks count something else than one process"
		grep -q 'instructions, .* MB in .* -> sum' err || fail "$mpi: no closing line: $(cat err)"
	done

	# A mistake is reported once, not by every rank.
	# shellcheck disable=SC2086
	expect 2 $mpirun -n 4 "$program" profile --nonsense a.data
	equal "$mpi: lines about --nonsense" "$(grep -c nonsense err)" 1
	for parts in 0 1048577; do
		# shellcheck disable=SC2086
		expect 2 $mpirun -n 2 "$program" profile --parts=$parts --save=none a.data
		equal "$mpi: lines about --parts=$parts" "$(grep -c 'from 1 to 1048576 parts' err)" 1
	done
	expect 2 "$program" nonsense
	expect 0 "$program" profile --help
	grep -q -e --parts out || fail "$mpi: help without --parts"
	# The manual page has the two options of its own; the others are on ptah-profile's.
	sed 's/\\-/-/g' "$PTAH_SOURCE/docs/man/ptah-mpi.1" "$PTAH_SOURCE/docs/man/ptah-profile.1" >pages
	for option in $(grep -o '^ *\(-., \)\{0,1\}--[a-z-]*' out | grep -o -e '--[a-z-]*'); do
		grep -q -e "$option" pages || fail "$option is on no manual page"
	done

	# What cannot be read is named and left out.
	head -c 3000 /dev/urandom >bad.data
	rm -f sum
	# shellcheck disable=SC2086
	expect 1 $mpirun -n 3 "$program" profile -q --save=sum bad.data $recordings missing.data
	grep -q 'missing.data: No such file' err || fail "$mpi: missing.data is not named: $(cat err)"
	grep -q 'bad.data' err || fail "$mpi: bad.data is not named: $(cat err)"
	cmp sum whole || fail "$mpi: another sum without what cannot be read"

	# Where there is nothing, or nowhere to write, nothing is left behind.
	# shellcheck disable=SC2086
	expect 1 $mpirun -n 2 "$program" profile -q --save=none missing.data
	[ ! -e none ] || fail "$mpi: saved nothing"
	# shellcheck disable=SC2086
	expect 1 $mpirun -n 2 "$program" profile -q --save=nowhere/sum a.data
done
[ -n "$tried" ] || skip "no mpirun (Debian: openmpi-bin, mpich)"
