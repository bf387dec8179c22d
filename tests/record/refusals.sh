# SPDX-License-Identifier: MIT
# What cannot be recorded is refused with one sentence, and leaves no file. (Before it, a line may
# say which recorder was chosen.)
. "$PTAH_SOURCE/tests/record/common.sh"

refused() # PATTERN OPTIONS... COMMAND
{
	pattern=$1
	shift
	rm -f perf.data perf.data.old
	status=0
	"$PTAH" record "$@" >output 2>said.txt || status=$?
	grep -v '^\[ ptah record: with the recorder ' said.txt >errors.txt || :
	[ "$status" -ge 1 ] && [ "$status" -lt 128 ] || fail "$*: status $status"
	[ "$(wc -l <errors.txt)" = 1 ] || fail "$*: not one line: $(cat errors.txt)"
	grep -q "$pattern" errors.txt || fail "$*: '$pattern' is not in: $(cat errors.txt)"
	[ ! -e perf.data ] || fail "$*: left a file"
	cat errors.txt
}

# elf CLASS MACHINE FILE: writes the first bytes of an ELF file
elf()
{
	printf "\\177ELF\\$1\\001\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\002\\000\\$2\\000\\001\\000\\000\\000" >"$3"
	chmod +x "$3"
}

rm -rf plain i386 arm x32 script loop small nowhere locked
refused 'no-such-command: command not found' no-such-command
refused './no-such-file: no such program' ./no-such-file
: >plain
refused './plain: not an executable file' ./plain
refused '/: not an executable file' /
chmod +x plain
refused './plain is neither an ELF program nor a script' ./plain
elf 001 003 i386
refused './i386 is a 32-bit program' ./i386
elf 002 267 arm
refused './arm is made for another processor (ELF machine 183)' ./arm
elf 001 076 x32
refused './x32 uses the x32 ABI' ./x32
printf '#!/no/such/interpreter -x\n' >script
chmod +x script
refused '/no/such/interpreter: no such program' ./script
printf '#!./loop\n' >loop
chmod +x loop
refused 'too many interpreters' ./loop
refused 'nowhere not found: install it' --qemu=nowhere true
refused 'nowhere.so is not where it should be' --plugin=nowhere.so true
refused 'PSB period' --psb-period=5000 true
refused 'nowhere/x' -o nowhere/x true
refused 'nothing was recorded' --qemu=true true

# A full disk, at once and after a while. What was written before is kept, and so is an old
# recording.
refused 'No space left' -o /dev/full true
if unshare -m true 2>/dev/null; then
	mkdir -p small
	cat >fill.sh <<'X'
mount -t tmpfs -o size=300k none small || exit 77
cp old small/perf.data
status=0
"$PTAH" record -o small/perf.data -- sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo end' \
	>output 2>errors.txt || status=$?
ls small
"$PTAH" stat small/perf.data >stat.txt || exit 78
cmp old small/perf.data.old && exit $status
X
	echo old >old
	status=0
	unshare -m sh fill.sh >listing || status=$?
	if [ "$status" = 77 ]; then
		echo "a file system of 300 KB cannot be made here: not tested"
	else
		[ "$status" = 1 ] || fail "full disk: status $status: $(cat errors.txt listing)"
		grep -q 'No space left' errors.txt || fail "full disk: $(cat errors.txt)"
		[ "$(tr '\n' ' ' <listing)" = "perf.data perf.data.old " ] || fail "left on the full disk: $(cat listing)"
		[ "$(cat output)" = end ] || fail "the command did not run to its end"
	fi
fi

# A folder without write permission.
if [ "$(id -u)" != 0 ]; then
	mkdir -p locked
	chmod a-w locked
	refused 'locked/x' -o locked/x true
fi

# A program that may be executed and not read cannot be traced: the remedy is named.
cp "$(command -v cat)" unreadable
chmod 111 unreadable
as_another=
if [ "$(id -u)" = 0 ]; then
	as_another="setpriv --reuid=65534 --regid=65534 --clear-groups"
	chmod 755 .
	mkdir open
	chmod 777 open
fi
# Not where the other user may not come here.
if $as_another test -x unreadable && $as_another test -x "$PTAH"; then
	status=0
	$as_another "$PTAH" record -o open/x ./unreadable >errors.txt 2>&1 || status=$?
	[ $status = 1 ] || fail "unreadable: status $status: $(cat errors.txt)"
	grep -q 'unreadable may be executed, but not read,.*chmod' errors.txt || fail "$(cat errors.txt)"
fi
