/* SPDX-License-Identifier: MIT */
/*
 * Proves of the files of kernel modules: any file is placed or refused; what is placed lies within
 * the module's addresses, and reading it gives the same bytes twice. Lists of the kernel's
 * functions are read or refused.
 *
 * Input: a byte that chooses between .ko and .ko.zst, then the file.
 */
#include "fuzz.h"

#include "session/module_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define ADDRESS UINT64_C(0xffffffffc0000000)
#define SIZE	UINT64_C(0x4000)

static char root[] = "/tmp/ptah-fuzz-module-XXXXXX";
static char paths[2][64];

static void clean(void)
{
	unlink(paths[0]);
	unlink(paths[1]);
	rmdir(root);
}

static void begin(void)
{
	CHECK(mkdtemp(root));
	snprintf(paths[0], sizeof(paths[0]), "%s/m.ko", root);
	snprintf(paths[1], sizeof(paths[1]), "%s/m.ko.zst", root);
	atexit(clean);
}

static void check_image(const struct ptah_image *image)
{
	struct ptah_section section;
	uint8_t a[64], b[64];

	for (uint64_t at = ADDRESS; at < ADDRESS + SIZE; at += sizeof(a)) {
		size_t n = ptah_image_read(image, at, a, sizeof(a), NULL);

		CHECK(ptah_image_read(image, at, b, sizeof(b), NULL) == n && !memcmp(a, b, n));
	}
	CHECK(ptah_image_find(image, ADDRESS - 1, NULL, &section) < 0);
	CHECK(ptah_image_find(image, ADDRESS + SIZE, NULL, &section) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct perfdata_build_id none;
	const struct module_place place = {ADDRESS, SIZE, &none};
	struct kernel_exports exports;
	struct ptah_image *image;
	const char *path;
	int fd, status;

	if (!size)
		return 0;
	if (!*paths[0])
		begin();
	path = paths[data[0] % 2];
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
	close(fd);
	CHECK(!ptah_image_new(&image));
	/* The module's own functions: some of them are those that it misses. */
	CHECK(kernel_exports_read(&exports, NULL, path, NULL, 0, ADDRESS) <= 0);
	status = module_file_add(image, path, &place, &exports);
	CHECK(status == 0 || status == 1);
	check_image(image);
	kernel_exports_free(&exports);
	CHECK(kernel_exports_read(&exports, path, NULL, "_text", ADDRESS, 0) <= 0);
	kernel_exports_free(&exports);
	ptah_image_free(image);
	return 0;
}
