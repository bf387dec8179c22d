/* SPDX-License-Identifier: MIT */
/* Adds page dumps to an image: a list of page addresses, and the pages in the same order. */
#include "image/image_access.h"

#include "base/bits.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/* The page size of dumps, whatever the system uses. */
#define IMAGE_PAGE 4096

struct page {
	uint64_t address;
	size_t index; /* its index in the dump */
};

static int compare_pages(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	return COMPARE_THEN(x->address, y->address, COMPARE(x->index, y->index));
}

/*
 * Pages are sorted first, so that sections are appended and not inserted. If a page is in the dump
 * twice, the later one is used. Pages that are neighbours both in memory and in the dump become one
 * section.
 */
static int add_pages(struct ptah_image *image, const struct backing *addresses,
		     struct backing *dump, const struct ptah_space *space)
{
	size_t count = addresses->size / 8;
	struct page *pages;
	int status = 0;

	if (addresses->size % 8 || count > SIZE_MAX / IMAGE_PAGE ||
	    dump->size != count * IMAGE_PAGE)
		return PTAH_E_BAD_FILE;
	pages = malloc(count * sizeof(*pages));
	if (!pages)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < count; i++)
		pages[i] = (struct page){load_le64(addresses->bytes + 8 * i), i};
	qsort(pages, count, sizeof(*pages), compare_pages);
	for (size_t i = 0; i < count && status >= 0;) {
		size_t n = 1;

		while (i + n < count && pages[i + n].index == pages[i].index + n &&
		       pages[i + n].address == pages[i].address + n * IMAGE_PAGE)
			n++;
		dump->references++;
		status = image_add(image, pages[i].address, n * IMAGE_PAGE,
				   pages[i].index * IMAGE_PAGE, dump, space);
		i += n;
	}
	free(pages);
	return status;
}

int ptah_image_add_pages(struct ptah_image *image, const char *prefix,
			 const struct ptah_space *space)
{
	struct backing *addresses = NULL, *dump = NULL;
	char *path;
	size_t length;
	int status;

	if (!image || !prefix)
		return PTAH_E_INVAL;
	length = strlen(prefix);
	path = malloc(length + sizeof(".addr"));
	if (!path)
		return PTAH_E_NOMEM;
	memcpy(path, prefix, length);
	memcpy(path + length, ".addr", sizeof(".addr"));
	status = file_table_map(NULL, path, &addresses);
	memcpy(path + length, ".dump", sizeof(".dump"));
	if (status >= 0)
		status = file_table_map(NULL, path, &dump);
	if (status >= 0)
		status = add_pages(image, addresses, dump, space);
	backing_put(addresses);
	backing_put(dump);
	free(path);
	return status;
}
