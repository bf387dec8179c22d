/* SPDX-License-Identifier: MIT */
/*
 * Code that changes while it runs: a generated function whose call is patched, and libraries that
 * are mapped one after the other at one address. How often each function is called is known from
 * here.
 *
 *	versions [OFFSET OFFSET]
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) int called(int x)
{
	static volatile int sum;

	return sum += x;
}

/* Appends to the map for perf. */
static void name(const uint8_t *code, size_t size, const char *text)
{
	static FILE *map;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	if (!map)
		map = fopen(path, "w");
	fprintf(map, "%lx %zx %s\n", (unsigned long)(uintptr_t)code, size, text);
	fflush(map);
}

/* sub rsp, 8; call; add rsp, 8; ret. */
static void make_stub(uint8_t *p, const uint8_t *callee)
{
	const uint8_t code[] = {0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3};
	const int32_t distance = (int32_t)(callee - (p + 9));

	memcpy(p, code, sizeof(code));
	memcpy(p + 5, &distance, sizeof(distance));
}

/* sub rsp, 8; mov rax, called; call rax; add rsp, 8; ret. */
static void make_caller(uint8_t *p)
{
	int (*const callee)(int) = called;

	memcpy(p, "\x48\x83\xec\x08\x48\xb8", 6);
	memcpy(p + 6, &callee, 8);
	memcpy(p + 14, "\xff\xd0\x48\x83\xc4\x08\xc3", 7);
}

static void call(const uint8_t *code, int times)
{
	for (int i = 0; i < times; i++)
		((void (*)(void))(uintptr_t)code)();
}

static void patch(void)
{
	uint8_t *const p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	make_stub(p, p + 64);
	p[64] = 0xc3;
	p[128] = 0x90;
	p[129] = 0xc3;
	make_caller(p + 192);
	name(p, 14, "stub");
	name(p + 64, 1, "target_a");
	name(p + 128, 2, "target_b");
	name(p + 192, 21, "caller");
	call(p, 3);
	make_stub(p, p + 128);
	call(p, 500);
	make_stub(p, p + 64);
	call(p, 20);
	call(p + 192, 9);
}

/* Maps a library where the one before it was, and calls its function at this offset. */
static void use(const char *library, const char *offset, int times)
{
	uint8_t *const at = (uint8_t *)(uintptr_t)0x10000000;
	const off_t function = strtol(offset, NULL, 16), page = function & ~(off_t)4095;
	const int fd = open(library, O_RDONLY);

	if (mmap(at, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, page) != at)
		exit(1);
	close(fd);
	call(at + (function - page), times);
}

int main(int argc, char **argv)
{
	printf("%d\n", (int)getpid());
	if (argc < 3) {
		patch();
		return 0;
	}
	use("one.so", argv[1], 10);
	use("two.so", argv[2], 1000);
	use("one.so", argv[1], 7);
	return 0;
}
