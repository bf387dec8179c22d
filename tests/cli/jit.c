/* SPDX-License-Identifier: MIT */
/*
 * A runtime that generates code, for jit.sh and live_jit.sh. It lists its code as others do: with
 * "map" as a map for perf, with "dump" in a jitdump, in the folder that follows. What it runs is
 * known: see the calls in main(). With the name of a file after that, it waits for the file.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint8_t *code;
static FILE *map, *dump;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void put(uint64_t value, size_t size)
{
	fwrite(&value, size, 1, dump);
}

static void begin_dump(const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, (int)getpid());
	dump = fopen(path, "w");
	if (!dump)
		exit(1);
	put(0x4a695444, 4);
	put(1, 4);
	put(40, 4);
	put(EM_X86_64, 4);
	put(0, 4);
	put((uint64_t)getpid(), 4);
	put(now(), 8);
	put(0, 8);
	fflush(dump);
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
}

/* Two lines for each function: that of its nops, and of its ret. */
static void put_lines(const uint8_t *at, size_t n)
{
	const size_t ret = (size_t)(at - code) + 1000;
	const uint64_t begin = (uint64_t)(uintptr_t)at;

	put(2, 4);
	put(16 + 16 + 2 * 16 + sizeof("/app/made.js") + sizeof("\xff"), 4);
	put(now(), 8);
	put(begin, 8);
	put(2, 8);
	put(begin, 8);
	put(ret - 1000 + 1, 4);
	put(1, 4);
	fwrite("/app/made.js", sizeof("/app/made.js"), 1, dump);
	put(begin + n - 1, 8);
	put(ret, 4);
	put(1, 4);
	fwrite("\xff", sizeof("\xff"), 1, dump);
}

static void put_load(const uint8_t *at, size_t n, const char *name)
{
	put(0, 4);
	put(16 + 40 + strlen(name) + 1 + n, 4);
	put(now(), 8);
	put((uint64_t)getpid(), 4);
	put((uint64_t)getpid(), 4);
	put((uint64_t)(uintptr_t)at, 8);
	put((uint64_t)(uintptr_t)at, 8);
	put(n, 8);
	put(0, 8);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(at, n, 1, dump);
	fflush(dump);
}

/* Generates a function of `nops` nops, and a ret, at an offset. */
static void (*generate(size_t offset, size_t nops, const char *name))(void)
{
	union {
		uint8_t *bytes;
		void (*function)(void);
	} f = {code + offset};

	memset(f.bytes, 0x90, nops);
	f.bytes[nops] = 0xc3;
	if (map) {
		fprintf(map, "%lx %zx %s\n", (unsigned long)f.bytes, nops + 1, name);
		fflush(map);
	}
	if (dump) {
		put_lines(f.bytes, nops + 1);
		put_load(f.bytes, nops + 1, name);
	}
	return f.function;
}

static void run(void (*function)(void), unsigned times)
{
	while (times--)
		function();
}

int main(int argc, char **argv)
{
	void (*third)(void);
	char path[64];

	code = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (code == MAP_FAILED || argc < 2)
		return 1;
	if (!strcmp(argv[1], "map")) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		map = fopen(path, "w");
	} else {
		begin_dump(argc > 2 ? argv[2] : ".");
	}
	run(generate(0, 9, "py::first:/app/a b.py"), 3);
	run(generate(100, 19, "py::second:/app/c.py"), 5);
	run(generate(200, 29, "gone\x1b[31m"), 7);
	/* Replaces it. The times in a trace are coarse, so that some passes before it runs. */
	third = generate(196, 39, "py::third:/app/c.py");
	usleep(2000);
	run(third, 2);
	for (unsigned i = 0; argc > 3 && access(argv[3], F_OK) && i < 60000; i++)
		usleep(1000);
	if (map)
		fclose(map);
	if (dump)
		fclose(dump);
	printf("%d\n", (int)getpid());
	return 0;
}
