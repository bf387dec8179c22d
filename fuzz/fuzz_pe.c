/* SPDX-License-Identifier: MIT */
/*
 * Proves of PE files: any file is mapped or refused, what is mapped are bytes of the file, and
 * nothing is mapped of a file that is refused for its header.
 *
 * Input: a byte that chooses the base, then the file.
 */
#include "fuzz.h"
#include "image/image_access.h"

#include <ptah/image.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/ptah-fuzz-pe-XXXXXX";

static void clean(void)
{
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	const uint64_t base = !size || data[0] & 1 ? 0 : (uint64_t)data[0] << 56 | 0x10000;
	struct ptah_section section = {0};
	struct ptah_image *image;
	int status;

	if (!size)
		return 0;
	if (fd < 0) {
		fd = mkstemp(path);
		atexit(clean);
	}
	CHECK(fd >= 0 && !ftruncate(fd, 0));
	CHECK(pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
	CHECK(!ptah_image_new(&image));
	status = image_add_pe(image, path, base, NULL);
	CHECK(status <= 0);
	if (base && !ptah_image_find(image, base + 0x1000, NULL, &section)) {
		uint8_t byte;

		CHECK(status != PTAH_E_BAD_MAGIC);
		CHECK(section.address >= base && section.address <= base + 0x1000);
		CHECK(section.file_offset + (base + 0x1000 - section.address) < size - 1);
		CHECK(ptah_image_read(image, base + 0x1000, &byte, 1, NULL) == 1);
		CHECK(byte == data[1 + section.file_offset + (base + 0x1000 - section.address)]);
	}
	ptah_image_free(image);
	return 0;
}
