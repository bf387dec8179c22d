# SPDX-License-Identifier: MIT
# Records a build: make, compilers, linkers and what they start, each exactly. The result is the
# same as that of an unrecorded build.
. "$PTAH_SOURCE/tests/record/common.sh"

command -v make >/dev/null || skip "make is not installed"
for tool in gcc as ld; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done

project() # FOLDER
{
	mkdir -p "$1"
	for i in 1 2 3 4; do
		printf 'int f%d(int x);\nint f%d(int x)\n{\n\treturn x * %d + 1;\n}\n' $i $i $i >"$1/f$i.c"
	done
	cat >"$1/main.c" <<'Y'
int f1(int), f2(int), f3(int), f4(int);
int main(void)
{
	return f1(f2(f3(f4(1)))) - 34;
}
Y
	cat >"$1/Makefile" <<'Y'
CC = gcc
CFLAGS = -O1
program: main.o f1.o f2.o f3.o f4.o
	$(CC) -o $@ $^
	@./$@ && echo program | sed 's/^/built: /'
Y
}

project native
project recorded
make -C native -j2 >native.txt 2>&1 || fail "make: $(cat native.txt)"
record make -C recorded -j2 >recorded.txt 2>&1 || fail "make, recorded: $(cat recorded.txt)"
sed 's/recorded/native/g' recorded.txt | sort >recorded-sorted.txt
sort native.txt | cmp -s - recorded-sorted.txt || fail "$(diff native.txt recorded.txt)"
diff -r native recorded || fail "what was built differs"
exact
[ ! -s notes.txt ] || fail "$(cat notes.txt)"
perf_agrees
for name in make gcc cc1 as collect2 ld program sh sed; do
	grep -q "^$name " verify.txt || fail "no stream of $name: $(cat verify.txt)"
done
echo "make: $(tail -1 verify.txt)"
