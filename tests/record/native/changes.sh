# SPDX-License-Identifier: MIT
# Programs whose code changes, recorded from inside: they behave as alone, and are decoded as what
# ran, each instruction with the code of its time.
. "$PTAH_SOURCE/tests/record/common.sh"

"$PTAH" record -q --dry-run --recorder=native true >dry.txt 2>&1 || skip "$(cat dry.txt)"

# changes STATUS COMMAND...
changes()
{
	expected=$1
	shift
	status=0
	"$@" >alone.txt || status=$?
	[ $status = "$expected" ] || fail "$*: status $status alone"
	status=0
	record --recorder=native --truth -- "$@" >output.txt 2>errors.txt || status=$?
	[ $status = "$expected" ] || fail "$*: status $status: $(cat errors.txt)"
	diff alone.txt output.txt >&2 || fail "$*: recorded, it behaves differently"
	exact
	! grep -q '^note:' verify.txt notes.txt || fail "$*: $(cat verify.txt notes.txt)"
	grep -q 'decoded exactly what ran' verify.txt || fail "$*: $(cat verify.txt)"
	echo "$*: $(head -1 verify.txt)"
}

build self_modify -Wl,-z,noexecstack
changes 0 ./self_modify
[ "$("$PTAH" verify --all --format=tsv perf.data 2>/dev/null | awk -F'\t' 'NR > 1 { n += $4 } END { print n }')" = 3606 ] ||
	fail "self_modify: not 3606 instructions"
build rewriting -fno-inline
changes 0 ./rewriting
build jit -DFILES_STAY
changes 0 ./jit
build racing
changes 0 ./racing
changes 0 ./racing with-signals
build libraries -ldl
for library in ONE:6 TWO:10; do
	name=$(echo "${library%:*}" | tr '[:upper:]' '[:lower:]')
	"$CC" -O1 -shared -fPIC -DLIBRARY="${library#*:}" -o "$name.so" "$programs/libraries.c"
done
changes 0 ./libraries

programs=$PTAH_SOURCE/tests/record/native/programs
build changes
for case in two_mappings kernel mixed stack children faults back_again execute_only beyond_end \
	asynchronous files own_memory served forked inherited; do
	changes 3 ./changes $case
done
changes 3 ./changes
build far
changes 3 ./far

# Data beside the code: what is stored there is not sent, and so the recording stays small.
build beside -std=gnu11 -Wno-pedantic -z execstack
changes 3 ./beside counter 20000
[ "$(wc -c <perf.data)" -lt 1000000 ] || fail "beside counter: $(wc -c <perf.data) bytes"
changes 3 ./beside ahead 2000
changes 3 ./beside rewriting 20000
changes 3 ./beside nested 2000
