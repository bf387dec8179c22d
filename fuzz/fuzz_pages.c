/* SPDX-License-Identifier: MIT */
/*
 * Proves of page dumps: any pair of files is loaded or refused; after loading,
 * the last page in the list reads as it is in the dump.
 *
 * Input: two bytes with the size of PREFIX.addr, that file, PREFIX.dump.
 */
#include "fuzz.h"

#include <ptah/image.h>

#include <unistd.h>

static char folder[64], addr[80], dump[80], prefix[80];

static void remove_folder(void)
{
	unlink(addr);
	unlink(dump);
	rmdir(folder);
}

static void make_folder(void)
{
	if (*folder)
		return;
	strcpy(folder, "/tmp/ptah-fuzz-XXXXXX");
	CHECK(mkdtemp(folder));
	snprintf(prefix, sizeof(prefix), "%s/p", folder);
	snprintf(addr, sizeof(addr), "%s/p.addr", folder);
	snprintf(dump, sizeof(dump), "%s/p.dump", folder);
	atexit(remove_folder);
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
	FILE *f = fopen(path, "w");

	CHECK(f);
	CHECK(fwrite(data, 1, size, f) == size);
	CHECK(!fclose(f));
}

/* The last page of the list replaces earlier ones, so it must read as it is in the dump. */
static void check_last_page(const struct ptah_image *image, const uint8_t *pages, size_t size,
			    const uint8_t *list, size_t count)
{
	uint8_t page[4096];
	uint64_t address;

	if (!count || size < count * sizeof(page))
		return;
	memcpy(&address, list + (count - 1) * sizeof(address), sizeof(address));
	/* A page that would wrap around the address space may be cut there. */
	if (address > UINT64_MAX - sizeof(page))
		return;
	CHECK(ptah_image_read(image, address, page, sizeof(page), NULL) == sizeof(page));
	CHECK(!memcmp(page, pages + (count - 1) * sizeof(page), sizeof(page)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_image *image;
	size_t list;

	if (size < 2)
		return 0;
	list = (size_t)(data[0] | data[1] << 8);
	data += 2;
	size -= 2;
	list = list < size ? list : size;
	make_folder();
	write_file(addr, data, list);
	write_file(dump, data + list, size - list);

	CHECK(!ptah_image_new(&image));
	if (ptah_image_add_pages(image, prefix, NULL) == 0)
		check_last_page(image, data + list, size - list, data, list / 8);
	ptah_image_free(image);
	return 0;
}
