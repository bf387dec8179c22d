/* SPDX-License-Identifier: MIT */
/*
 * Proves of ELF loading: any file is loaded or refused, reading around in what
 * was loaded gives bytes or none, and reading gives the same twice.
 *
 * Input: eight bytes of load address, then the file.
 */
#include "fuzz.h"

#include <ptah/image.h>

#include <sys/mman.h>
#include <unistd.h>

static void read_around(const struct ptah_image *image, uint64_t address)
{
	uint8_t a[64], b[64];

	for (uint64_t at = address - 128; at != address + 0x3000; at += 64) {
		size_t n = ptah_image_read(image, at, a, sizeof(a));

		CHECK(n <= sizeof(a));
		CHECK(ptah_image_read(image, at, b, sizeof(b)) == n && !memcmp(a, b, n));
	}
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
	/* e_entry: the one address in a file that is worth a look. */
	if (size >= 32)
		memcpy(&entry, data + 24, sizeof(entry));

	fd = memfd_create("elf", 0);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(!ptah_image_new(&image));
	status = ptah_image_add_elf(image, path, base);
	CHECK(status <= 0);
	read_around(image, base);
	read_around(image, entry);
	ptah_image_free(image);
	close(fd);
	return 0;
}
