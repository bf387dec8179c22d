/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without libFuzzer, so that every build can test with it:
 *
 * 	fuzz_x [-m N] FILE...
 *
 * Each file is an input. -m also tries N random variants of each, from a fixed
 * seed: with bytes changed, removed or repeated, or cut short, and at most
 * twice as long as the file. A target that finds an error aborts.
 */
#include "fuzz.h"

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	uint8_t *data;
	long n;

	CHECK(f && !fseek(f, 0, SEEK_END) && (n = ftell(f)) >= 0);
	rewind(f);
	data = malloc((size_t)n + 1);
	CHECK(data);
	*size = fread(data, 1, (size_t)n, f);
	CHECK(*size == (size_t)n);
	fclose(f);
	return data;
}

/* Makes one small change; `data` has room for `room` bytes. Returns the new size. */
static size_t mutate(uint8_t *data, size_t size, size_t room, uint64_t *seed)
{
	static const uint8_t telling[] = {0, 1, 2, 0x0d, 0x11, 0x7f, 0x80, 0x82, 0xff};
	size_t at = size ? fuzz_random(seed) % size : 0;
	size_t n = fuzz_random(seed) % 16;

	if (!size)
		return 0;
	n = n < size - at ? n : size - at;
	switch (fuzz_random(seed) % 6) {
	case 0:
		data[at] ^= (uint8_t)(1u << (fuzz_random(seed) & 7));
		return size;
	case 1:
		data[at] = (uint8_t)fuzz_random(seed);
		return size;
	case 2:
		data[at] = telling[fuzz_random(seed) % sizeof(telling)];
		return size;
	case 3: /* remove n bytes */
		memmove(data + at, data + at + n, size - at - n);
		return size - n;
	case 4: /* repeat n bytes */
		if (n > room - size)
			return size;
		memmove(data + at + n, data + at, size - at);
		return size + n;
	default:
		return fuzz_random(seed) % 8 ? size : at;
	}
}

static void run_variants(const uint8_t *data, size_t size, unsigned count)
{
	uint64_t seed = fuzz_hash(1, data, size) | 1;
	uint8_t *variant = malloc(2 * size + 1);

	CHECK(variant);
	for (unsigned i = 0; i < count; i++) {
		size_t n = size;

		if (size)
			memcpy(variant, data, size);
		for (uint64_t k = 1 + fuzz_random(&seed) % 6; k > 0; k--)
			n = mutate(variant, n, 2 * size, &seed);
		LLVMFuzzerTestOneInput(variant, n);
	}
	free(variant);
}

int main(int argc, char **argv)
{
	unsigned variants = 0;
	int first = 1;

	if (argc > 2 && !strcmp(argv[1], "-m")) {
		variants = (unsigned)strtoul(argv[2], NULL, 10);
		first = 3;
	}
	if (first == argc) {
		fprintf(stderr, "usage: %s [-m N] FILE...\n", argv[0]);
		return 2;
	}
	for (int i = first; i < argc; i++) {
		size_t size;
		uint8_t *data = read_file(argv[i], &size);

		LLVMFuzzerTestOneInput(data, size);
		run_variants(data, size, variants);
		free(data);
	}
	printf("%d inputs, %u variants of each\n", argc - first, variants);
	return 0;
}
