# SPDX-License-Identifier: MIT
# A recorded command behaves as it does unrecorded: arguments, input, output, exit status, signals.
. "$PTAH_SOURCE/tests/record/common.sh"

build processes

ends() # STATUS WHAT...: ./processes does that and ends so
{
	expected=$1
	shift
	status=0
	record -- ./processes "$@" 2>errors.txt || status=$?
	[ "$status" = "$expected" ] || fail "$*: status $status, expected $expected: $(cat errors.txt)"
	exact
	perf_agrees
}

streams() # N: so many
{
	grep -q "^$1 threads\{0,1\}: " verify.txt || fail "not $1 streams: $(cat verify.txt)"
}

ends 0 fork vfork spawn
streams 6
ends 0 exec-nothing fork
streams 2
ends 0 close-all fork exec
streams 3
[ ! -s notes.txt ] || fail "$(cat notes.txt)"
ends 5 exit
ends 143 term
ends 134 abort

# Arguments (an empty one too), input and output, environment, argv[0].
cat >script <<'X'
#!/bin/sh -e
printf '[%s]' "$0" "$@" "$VALUE"
cat
X
chmod +x script
printf 'input' >input
VALUE='a b' record ./script '' 'x y' '$z' --help <input >output || fail "script: status $?"
[ "$(cat output)" = '[./script][][x y][$z][--help][a b]input' ] || fail "output: $(cat output)"
exact
sh -c 'exit 3' || status=$?
record sh -c 'exit 3' && fail "no status" || [ $? = 3 ] || fail "status $?, expected 3"
ln -sf "$(command -v sh)" 'other,name'
[ "$(record './other,name' -c 'echo "$0"')" = './other,name' ] || fail "argv[0] is not what it was"
exact

# The plugin may be anywhere, also in a folder with a comma in its name.
mkdir -p 'a,b'
cp "$PTAH_BUILD/lib/ptah-qemu.so" 'a,b/'
record --plugin='a,b/ptah-qemu.so' ./processes exit || [ $? = 5 ] || fail "a plugin in a,b"
exact
echo "processes: exact"
