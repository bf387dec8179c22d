#!/bin/sh
# SPDX-License-Identifier: MIT
# ptah vm: the command line that it makes for QEMU, what it refuses, and that QEMU takes its place.
# A script stands for QEMU and prints what it was given. tests/guest boots real guests.
. "$PTAH_SOURCE/tests/cli/common.sh"

cat >qemu <<'EOF'
#!/bin/sh
printf '%s\n' "$@"
exit "${STATUS:-0}"
EOF
chmod +x qemu
touch 'plugin,1.so'
vm() { # WANTED-STATUS ARGUMENTS...
	wanted=$1
	shift
	expect "$wanted" "$PTAH" vm --qemu=./qemu --plugin=plugin,1.so "$@"
}
# Each word that QEMU gets, in order. A comma in a value of -plugin is doubled, as QEMU wants it.
gets() {
	printf '%s\n' "$@" | diff - out || fail "QEMU got other words"
}
model=max,vendor=GenuineIntel,family=6,model=94,stepping=3,svm=off,erms=off,fsrm=off,la57=off

vm 0 -- -m 512 -append 'a  b'
gets -plugin plugin,,1.so,model=skylake -accel tcg -cpu $model -m 512 -append 'a  b'
vm 0 --truth='a,b' --model=goldmont -- -cpu Skylake-Client -accel tcg,thread=single
gets -plugin plugin,,1.so,model=goldmont,truth=a,,b -cpu Skylake-Client -accel tcg,thread=single
vm 0 --plugin-arguments=xsaves=on,tsc=host -- -cpu max -accel tcg
gets -plugin plugin,,1.so,model=skylake,xsaves=on,tsc=host -cpu max -accel tcg
vm 0 -- --machine q35,accel=tcg
gets -plugin plugin,,1.so,model=skylake -cpu $model --machine q35,accel=tcg
vm 0 disk.img
gets -plugin plugin,,1.so,model=skylake -accel tcg -cpu $model disk.img

# The model's CPUID signature is that of `ptah caps`.
expect 0 "$PTAH" caps --model=sapphire-rapids --format=json
signature="family=6,model=$(json 'd["model"]'),stepping=$(json 'd["stepping"]')"
vm 0 --model=sapphire-rapids
grep -q "$signature,.*la57=on" out || fail "sapphire-rapids, $signature: $(cat out)"

# A dry run prints what a shell would run.
STATUS=3
export STATUS
vm 3 -- -append "it's \$HOME" ''
mv out ran
vm 0 --dry-run -- -append "it's \$HOME" ''
sh -c "$(cat out)" >again || :
diff ran again || fail "the dry run is another command"

# QEMU takes ptah's place: its exit status (above), and signals, are QEMU's.
cat >qemu-waits <<'EOF'
#!/bin/sh
trap 'echo ended >signal; exit 5' TERM
echo $$ >pid
while :; do sleep 0.02; done
EOF
chmod +x qemu-waits
"$PTAH" vm --qemu=./qemu-waits --plugin=plugin,1.so &
while kill -0 $!; do
	[ ! -s pid ] || break
	sleep 0.02
done
equal "process" "$(cat pid)" $!
kill -TERM $!
status=0
wait $! || status=$?
equal "status after a signal" "$status $(cat signal)" "5 ended"

# What cannot work is refused with the reason.
refused() { # STATUS WORDS ARGUMENTS...
	words=$2
	vm_status=$1
	shift 2
	vm "$vm_status" "$@"
	grep -q -- "$words" err || fail "ptah vm $*: no \"$words\" in: $(cat err)"
	[ ! -s out ] || fail "ptah vm $*: QEMU ran"
}
refused 2 'QEMU.s options follow --' -m 512
refused 2 'accel tcg' -- -m 512 -enable-kvm
refused 2 'accel tcg' -- -accel kvm
refused 2 'accel tcg' -- -accel kvm:tcg
refused 2 'accel tcg' -- -machine q35,accel=kvm:tcg
refused 2 'accel tcg' -- -M accel=hvf
refused 2 'needs KVM' -- -cpu host,pmu=on
refused 2 'caps --model=list' --model=z80
refused 1 'apt-get install' --qemu=./nowhere
refused 1 'install Ptah' --plugin=./nowhere.so

# What a QEMU lacks is named before it runs. It is what the file exports that counts.
refused 1 'built without plugins' --qemu=/bin/sh
need cc
echo 'int qemu_plugin_register_vcpu_tb_exec_cb(void) { return 0; } int main(void) { return 7; }' >q.c
cc -rdynamic -o few q.c
refused 1 'built without modules' --qemu=./few
# All of host.h but one: the names in quotes are those of QEMU 7.2, or of 7.2 and newer ones.
sed -n '/define HOST_FUNCTIONS/,/^struct host/p' "$PTAH_SOURCE/src/record/system/host.h" |
	grep -o '"[a-z0-9_]*",' | tr -d '",' | sort -u >names
[ "$(wc -l <names)" -ge 20 ] || fail "names of host.h: $(cat names)"
echo current_cpu >>names
grep -v -e '^g_' -e '^tb_flush$' names | sed 's/.*/int &(void) { return 0; }/' >>q.c
cc -rdynamic -o most q.c
refused 1 'does not export tb_flush; 7.2' --qemu=./most
echo 'int tb_flush(void) { return 0; }' >>q.c
cc -rdynamic -o enough q.c
vm 7 --qemu=./enough

# A damaged program is not judged by ptah; the system says what is wrong with it.
head -c 100 few >cut
chmod +x cut
vm 1 --qemu=./cut
