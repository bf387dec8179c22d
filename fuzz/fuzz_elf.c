/* SPDX-License-Identifier: MIT */
/*
 * Proves of ELF files: any file is loaded or refused; reading anywhere in an
 * image that was loaded returns bytes or none, and the same bytes a second
 * time. Symbols of any file are found or not, and a function that is found
 * contains the address that was searched for; and so does the piece of it that is reported.
 *
 * Input: eight bytes of load address, then the file.
 */
#include "fuzz.h"

#include <ptah/image.h>
#include <ptah/symbol.h>

#include <sys/mman.h>
#include <unistd.h>

static void read_around(const struct ptah_image *image, uint64_t address)
{
	uint8_t a[64], b[64];

	for (uint64_t at = address - 128; at != address + 0x3000; at += 64) {
		size_t n = ptah_image_read(image, at, a, sizeof(a), NULL);

		CHECK(n <= sizeof(a));
		CHECK(ptah_image_read(image, at, b, sizeof(b), NULL) == n && !memcmp(a, b, n));
	}
}

static void look_up(const char *path, size_t size)
{
	struct ptah_symbols *symbols;
	struct ptah_function bounds;
	struct ptah_symbol symbol;
	uint64_t at[] = {0, 0x78, 0x1000, size / 2, size, UINT64_MAX};

	CHECK(!ptah_symbols_new(NULL, &symbols));
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		if (ptah_symbols_bounds(symbols, path, at[i], UINT64_C(1) << 62, &bounds))
			CHECK((UINT64_C(1) << 62) - bounds.low < bounds.high - bounds.low);
		if (!ptah_symbols_lookup(symbols, path, at[i], &symbol))
			continue;
		CHECK(symbol.name && strlen(symbol.name) > 0);
		CHECK(symbol.start <= at[i]);
		CHECK(!symbol.size || at[i] - symbol.start < symbol.size);
	}
	ptah_symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_image *image;
	uint64_t base, entry = 0;
	char path[64];
	int fd, status;

	if (size < sizeof(base))
		return 0;
	memcpy(&base, data, sizeof(base));
	data += sizeof(base);
	size -= sizeof(base);
	/* e_entry: the one address in a file that is likely to be in a segment. */
	if (size >= 32)
		memcpy(&entry, data + 24, sizeof(entry));

	fd = memfd_create("elf", 0);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(!ptah_image_new(&image));
	status = ptah_image_add_elf(image, path, base, NULL);
	CHECK(status <= 0);
	read_around(image, base);
	read_around(image, entry);
	ptah_image_free(image);
	look_up(path, size);
	close(fd);
	return 0;
}
