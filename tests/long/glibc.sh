#!/bin/sh
# SPDX-License-Identifier: MIT
# glibc's own tests of threads, signals, setjmp and timers, from the source of the glibc that is
# installed: each that can be built outside of glibc's tree runs alone and recorded natively, and must
# end with the same status; what was recorded must be decoded as what ran. Many print what is
# different each time (addresses, the order of threads): other output is counted, not judged.
#
# PTAH_GLIBC: the folder of the source; without it, Debian's archive has it. PTAH_GLIBC_FOLDERS: of
# that, instead of "signal setjmp", which take a minute; at night all of threads and timers ("nptl
# sysdeps/pthread signal setjmp rt"), which take more than ten. PTAH_EACH: a pattern of names ("signal_*"):
# only these.
. "$PTAH_SOURCE/tests/cli/common.sh"

[ -z "${PTAH_NIGHTLY:-}" ] || : "${PTAH_GLIBC_FOLDERS:=nptl sysdeps/pthread signal setjmp rt}"
: "${CC:=cc}" "${PTAH_EACH:=*}" "${PTAH_GLIBC_FOLDERS:=signal setjmp}"
need "$CC"
need xz
"$PTAH" record --recorder=native --dry-run -- true >out 2>&1 || skip "$(cat out)"

# fetch: the source of this system's glibc
fetch() {
	need apt-get
	PTAH_GLIBC=$PTAH_BUILD/tests/glibc-source
	[ -d "$PTAH_GLIBC" ] || "$PTAH_SOURCE/tools/debian-source" glibc "$PTAH_GLIBC" 2>fetched ||
		skip "$(cat fetched)"
}

[ -n "${PTAH_GLIBC-}" ] || fetch
mkdir -p include objects programs results
# Those of glibc's headers that tests use and that are not about glibc's own parts.
for header in array_length.h file_change_detection.h intprops.h libc-diag.h libc-pointer-arith.h \
	scratch_buffer.h allocate_once.h verify.h; do
	[ ! -f "$PTAH_GLIBC/include/$header" ] || cp "$PTAH_GLIBC/include/$header" include
done
# Not the whole folder: it has glibc's own <bits>.
ln -sfn "$PTAH_GLIBC/support" include/support
for name in test-skeleton.c sysdeps stdlib nptl malloc signal posix; do
	ln -sfn "$PTAH_GLIBC/$name" "include/$name"
done
cp "$PTAH_GLIBC/sysdeps/x86_64/stackinfo.h" include
: >include/config.h
cat >include/shlib-compat.h <<'END'
#define TEST_COMPAT(lib, introduced, obsoleted) 0
#define SHLIB_COMPAT(lib, introduced, obsoleted) 0
#define compat_symbol_reference(lib, symbol, name, version)
END
echo '#define SUPPORT_STUB 1' >include/first-versions.h

jobs=$(($(getconf _NPROCESSORS_ONLN) + 1))
flags="-std=gnu11 -O2 -g0 -w -D_GNU_SOURCE -DTIMEOUTFACTOR=1 -Iinclude
	-I$PTAH_GLIBC/support -I$PTAH_GLIBC/sysdeps/pthread -I$PTAH_GLIBC/nptl -fcommon"
export PTAH_GLIBC flags CC PTAH

# Support library: what can be built; tests that need the rest do not link.
cat >build-support <<'END'
name=$(basename "$1" .c)
"$CC" $flags -DMODULE_NAME=testsuite -DOBJDIR_PATH='"."' -DSRCDIR_PATH='"."' -DSLIBDIR_PATH='"/lib"' \
	-DOBJDIR_ELF_LDSO_PATH='"/lib64/ld-linux-x86-64.so.2"' -include limits.h -include errno.h -DINSTDIR_PATH='"/usr"' \
	-DLIBDIR_PATH='"/usr/lib"' -DBINDIR_PATH='"/usr/bin"' -DSBINDIR_PATH='"/usr/sbin"' \
	-DROOTSBINDIR_PATH='"/sbin"' -DSYSCONFDIR_PATH='"/etc"' -DCOMPLOCALEDIR_PATH='"/usr/lib/locale"' \
	-c -o "objects/$name.o" "$1" 2>"objects/$name.err" || rm -f "objects/$name.o"
END
find "$PTAH_GLIBC/support" -name '*.c' ! -name 'tst-*' ! -name '*-container.c' ! -name 'links-dso*' \
	! -name 'test-*' ! -name 'support-open*' >support-sources
xargs -P "$jobs" -n 1 sh build-support <support-sources
rm -f libsupport.a
ar rc libsupport.a objects/*.o

cat >build-test <<'END'
path=${1#"$PTAH_GLIBC"/}
name=$(echo "${path%.c}" | tr / _)
"$CC" $flags -Wno-error -pthread -o "programs/$name" "$1" libsupport.a -lrt -ldl -lm \
	2>"programs/$name.err" || rm -f "programs/$name"
END
for folder in $PTAH_GLIBC_FOLDERS; do
	find "$PTAH_GLIBC/$folder" -maxdepth 1 \( -name 'tst-*.c' -o -name 'bug-*.c' -o -name '*jmp*bug*.c' \) \
		! -name '*mod*.c' ! -name 'tst-chk*' ! -name 'tst-robust8*' ! -name 'tst-mqueue*' \
		! -name '*lockloop.c' # it takes minutes
done | sort >sources
xargs -P "$jobs" -n 1 sh build-test <sources
ls programs | grep -v '\.err$' >built || skip "none of glibc's tests can be built here"
echo "$(wc -l <sources) tests, $(wc -l <built) can be built outside of glibc's tree"

# What is printed, without what is different each time.
cat >run-test <<'END'
name=$1
run() {
	rm -rf "results/$name.tmp"
	mkdir "results/$name.tmp"
	status=0
	(cd "results/$name.tmp" && TIMEOUTFACTOR=$factor TMPDIR=. timeout -k 5 100 "$@") \
		>"results/$name.$way.raw" 2>&1 </dev/null || status=$?
	sed 's/0x[0-9a-f]*/N/g; s/[0-9][0-9.]*/N/g' \
		"results/$name.$way.raw" >"results/$name.$way"
	printf "\nstatus %s\n" "$status" >>"results/$name.$way"
	rm -rf "results/$name.tmp"
}
here=$PWD
program=$here/programs/$name
way=alone factor=1
run "$program"
for try in 1 2 3; do
	way=recorded factor=10
	run "$PTAH" record -q --recorder=native --truth -o "$here/results/$name.data" -- "$program"
	cmp -s "results/$name.alone" "results/$name.recorded" && break
	# Is it the same each time alone?
	way=alone factor=1
	run "$program"
done
cmp -s "results/$name.alone" "results/$name.recorded" || echo "$name" >>differ
[ "$(tail -1 "results/$name.alone")" = "$(tail -1 "results/$name.recorded")" ] || echo "$name" >>statuses
# A process that is killed has no truth. A loop of direct branches has no packets.
"$PTAH" verify --all -i "results/$name.data" >"results/$name.verify" 2>&1 || :
if grep -q ' DIFFERS$' "results/$name.verify" && ! grep -q 'PT has no packet' "results/$name.verify"; then
	echo "$name" >>wrong
fi
if grep -q 'decoded exactly' "results/$name.verify"; then
	echo "$name" >>exact
	rm -f "results/$name.data"
fi
END
rm -f differ statuses wrong exact
touch differ statuses wrong exact
while read -r name; do
	case $name in
	# It limits the address space to 800 MB, of which the recorder's memory takes a part.
	sysdeps_pthread_tst-create-detached) ;;
	$PTAH_EACH) echo "$name" ;;
	esac
done <built >chosen
xargs -P "$jobs" -n 1 sh run-test <chosen

echo "$(wc -l <chosen) tests ran; $(wc -l <exact) were decoded as what ran, all of it; $(wc -l <differ) printed something else"
[ ! -s wrong ] || fail "not decoded as what ran: $(tr '\n' ' ' <wrong)"
[ ! -s statuses ] || fail "another status: $(tr '\n' ' ' <statuses)"
