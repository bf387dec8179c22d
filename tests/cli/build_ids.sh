#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs and libraries that are gone, or others now, are taken from perf's cache by their build
# ids, or from a debuginfod server. The judges are the recorder's counts and perf's own cache.
. "$PTAH_SOURCE/tests/cli/common.sh"
need perf

mkdir home bin
export HOME="$PWD/home" DEBUGINFOD_CACHE_PATH="$PWD/fetched"
# A proxy is no way to a server on this machine.
unset DEBUGINFOD_URLS http_proxy all_proxy ALL_PROXY

cat >library.c <<'END'
__attribute__((noinline)) int library_work(volatile int *x) { while (++*x % 2011) ; return *x; }
END
cat >program.c <<'END'
int library_work(volatile int *x);
static __attribute__((noinline)) int busiest(volatile int *x) { while (++*x % 20011) ; return *x; }
int main(void) { volatile int x = 0; return busiest(&x) + library_work(&x) < 0; }
END
cc=${CC:-cc}
"$cc" -g -O1 -shared -fPIC -Wl,--build-id -o bin/library.so library.c
"$cc" -g -O1 -Wl,--build-id -o bin/program program.c "$PWD/bin/library.so"
"$cc" -O1 -Wl,--build-id -o other -DOTHER -xc - <<'END'
int main(void) { return 3; }
END
id=$(readelf -n bin/program | sed -n 's/.*Build ID: //p')
record many.data sh -c 'bin/program; bin/program; bin/program; :'
record perf.data bin/program
"$PTAH" report --format=tsv perf.data >whole
"$PTAH" export --to=callgrind perf.data >whole.calls

perf buildid-cache --add "$PWD/bin/program" && perf buildid-cache --add "$PWD/bin/library.so" ||
	fail "perf's cache"
[ -d home/.debug/.build-id ] || fail "perf's cache is elsewhere: $(ls -a home)"

# gone MESSAGE [OPTION...]: nothing is decoded without a copy.
gone() {
	"$PTAH" verify --all "$@" perf.data >out 2>err && fail "decoded without $*: $(cat out)"
	grep -q "$PWD/bin/program" err || fail "$*: $(cat err)"
}

# exact [OPTION...]: the decode is what ran, with the names that the files had.
exact() {
	"$PTAH" verify --all "$@" perf.data >out 2>err || fail "verify $*: $(cat out err)"
	"$PTAH" report --format=tsv "$@" perf.data >report 2>err || fail "report $*: $(cat err)"
	cmp -s whole report || fail "report $*: $(diff whole report)"
}

mv home/.debug cache
cp bin/program saved
mv bin/library.so library.so
mv bin/program program
gone
mv cache home/.debug
exact
cp other bin/program
exact
exact --force
mv home/.debug cache
gone
exact --buildid-dir=cache
exact --buildid-dir="$PWD/cache"
DEBUGINFOD_URLS='' exact --buildid-dir=cache

# What else reads the files: calls, lines, code, profiles that are looked at later.
"$PTAH" export --to=callgrind --buildid-dir=cache perf.data >calls 2>err || fail "calls: $(cat err)"
cmp -s whole.calls calls || fail "calls: $(diff whole.calls calls)"
"$PTAH" annotate --buildid-dir=cache --stdio --symbol=busiest -i perf.data >out 2>err ||
	fail "annotate: $(cat err)"
grep -q 'while (++\*x % 20011)' out || fail "annotate: $(cat out)"
"$PTAH" script --buildid-dir=cache --srcline perf.data >out 2>err || fail "script: $(cat err)"
grep -q 'program.c:2' out || fail "script: no lines"
"$PTAH" profile --buildid-dir=cache --save=saved.profile perf.data >out 2>err ||
	fail "profile: $(cat err)"
"$PTAH" profile --buildid-dir=cache --by=functions saved.profile >out 2>err ||
	fail "profile: $(cat err)"
grep -q busiest out || fail "a saved profile: $(cat out)"

# As perf had it before Linux 4.8: the link leads to the file itself.
mkdir -p old/.build-id
for link in cache/.build-id/*/*; do
	mkdir -p "old/${link%/*}" "old/.build-id/$(basename "${link%/*}")"
	cp "$link/elf" "old/.build-id/$(basename "${link%/*}")/${link##*/}"
done
exact --buildid-dir=old

# A cache whose file is another one is not believed.
place=cache/.build-id/$(echo "$id" | cut -c 1-2)/$(echo "$id" | cut -c 3-)/elf
cp other copy
mv copy "$place"
gone --buildid-dir=cache

# A server has the program; the library is still in the cache.
command -v python3 >/dev/null || skip "no python3 for a server"
printf %s "$id" >id
serve executable program
DEBUGINFOD_URLS=$url gone --no-debuginfod --buildid-dir=cache
"$PTAH" verify --all --debuginfod="$url" --buildid-dir=cache perf.data >out 2>err || {
	grep -q 'not installed' err && skip "no libdebuginfod.so.1 (Debian: libdebuginfod1)"
	fail "from a server: $(cat out err)"
}
DEBUGINFOD_URLS=$url exact --buildid-dir=cache

# A server that does not answer is asked for a file once, however many processes ran it.
: >down
rm -r asked fetched
DEBUGINFOD_TIMEOUT=1 DEBUGINFOD_RETRY_LIMIT=0 "$PTAH" verify --all --force --debuginfod="$url" \
	--buildid-dir=cache many.data >out 2>err || :
[ "$(grep -c "/buildid/$id/executable" asked)" -le 1 ] || fail "asked again: $(cat asked)"
