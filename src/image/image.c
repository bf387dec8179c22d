/* SPDX-License-Identifier: MIT */
#include "image/image.h"

#include "base/bits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Page dumps have pages of this size, whatever the system uses. */
#define IMAGE_PAGE 4096

/* Where bytes come from: a file mapping or a copy. Shared by sections and clones. */
struct backing {
	_Atomic unsigned references;
	const uint8_t *bytes;
	size_t size;
	bool mapped;
};

/* Addresses [address, address+size) hold bytes[0..size). */
struct section {
	uint64_t address;
	uint64_t size;
	const uint8_t *bytes;
	struct backing *backing;
};

struct ptah_image {
	struct section *sections; /* by address, not overlapping */
	size_t count, capacity;
	uint64_t generation;
	size_t (*read)(void *context, uint64_t address, void *bytes, size_t n);
	void *read_context;
};

static void backing_put(struct backing *b)
{
	if (!b || --b->references)
		return;
	if (b->mapped)
		munmap((void *)(uintptr_t)b->bytes, b->size);
	else
		free((void *)(uintptr_t)b->bytes);
	free(b);
}

static struct backing *backing_new(const uint8_t *bytes, size_t size, bool mapped)
{
	struct backing *b = malloc(sizeof(*b));

	if (b)
		*b = (struct backing){1, bytes, size, mapped};
	return b;
}

int ptah_image_new(struct ptah_image **image)
{
	if (!image)
		return PTAH_E_INVAL;
	*image = calloc(1, sizeof(**image));
	return *image ? 0 : PTAH_E_NOMEM;
}

void ptah_image_free(struct ptah_image *image)
{
	if (!image)
		return;
	for (size_t i = 0; i < image->count; i++)
		backing_put(image->sections[i].backing);
	free(image->sections);
	free(image);
}

int ptah_image_clone(const struct ptah_image *image, struct ptah_image **copy)
{
	struct ptah_image *c;

	if (!image || !copy)
		return PTAH_E_INVAL;
	c = malloc(sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	*c = *image;
	c->capacity = image->count;
	c->sections = malloc((image->count ? image->count : 1) * sizeof(*c->sections));
	if (!c->sections) {
		free(c);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < image->count; i++) {
		c->sections[i] = image->sections[i];
		c->sections[i].backing->references++;
	}
	*copy = c;
	return 0;
}

/* Index of the first section that ends behind `address`. */
static size_t section_behind(const struct ptah_image *image, uint64_t address)
{
	size_t low = 0, high = image->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct section *s = &image->sections[middle];

		if (s->address + (s->size - 1) < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int reserve(struct ptah_image *image, size_t more)
{
	size_t capacity = image->capacity ? image->capacity : 16;
	struct section *sections;

	while (capacity < image->count + more)
		capacity *= 2;
	if (capacity == image->capacity)
		return 0;
	sections = realloc(image->sections, capacity * sizeof(*sections));
	if (!sections)
		return PTAH_E_NOMEM;
	image->sections = sections;
	image->capacity = capacity;
	return 0;
}

static void insert(struct ptah_image *image, size_t at, struct section section)
{
	memmove(image->sections + at + 1, image->sections + at,
		(image->count - at) * sizeof(*image->sections));
	image->sections[at] = section;
	image->count++;
}

static void erase(struct ptah_image *image, size_t at)
{
	backing_put(image->sections[at].backing);
	image->count--;
	memmove(image->sections + at, image->sections + at + 1,
		(image->count - at) * sizeof(*image->sections));
}

/* Makes [first, last] free. At most one section more than before; room is reserved by the caller.
 */
static void cut(struct ptah_image *image, uint64_t first, uint64_t last)
{
	size_t i = section_behind(image, first);

	while (i < image->count && image->sections[i].address <= last) {
		struct section *s = &image->sections[i];
		uint64_t s_last = s->address + (s->size - 1);

		image->generation++;
		if (s->address >= first && s_last <= last) {
			erase(image, i);
			continue;
		}
		if (s->address < first && s_last > last) {
			struct section tail = *s;

			tail.bytes += last + 1 - s->address;
			tail.size = s_last - last;
			tail.address = last + 1;
			tail.backing->references++;
			s->size = first - s->address;
			insert(image, i + 1, tail);
			return;
		}
		if (s->address < first) {
			s->size = first - s->address;
			i++;
		} else {
			s->bytes += last + 1 - s->address;
			s->size = s_last - last;
			s->address = last + 1;
			return;
		}
	}
}

/* The same bytes again, as when a PSB repeats a mapping, are no change. */
static bool already_there(const struct ptah_image *image, uint64_t address, const uint8_t *bytes,
			  uint64_t size)
{
	size_t i = section_behind(image, address);
	const struct section *s;

	if (i == image->count)
		return false;
	s = &image->sections[i];
	return s->address <= address && s->size - (address - s->address) >= size &&
	       !memcmp(s->bytes + (address - s->address), bytes, size);
}

/* Takes over one reference to `backing`, also on failure. */
static int add(struct ptah_image *image, uint64_t address, const uint8_t *bytes, uint64_t size,
	       struct backing *backing)
{
	int status = size - 1 > UINT64_MAX - address ? PTAH_E_INVAL : reserve(image, 2);

	if (status < 0 || already_there(image, address, bytes, size)) {
		backing_put(backing);
		return status;
	}
	cut(image, address, address + (size - 1));
	insert(image, section_behind(image, address),
	       (struct section){address, size, bytes, backing});
	return 0;
}

/* Maps a file whole, read-only. An empty file gives PTAH_E_EMPTY. */
static int map_file(const char *path, struct backing **backing)
{
	struct stat st;
	void *bytes = MAP_FAILED;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int status = PTAH_E_SYSTEM;

	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	if (!fstat(fd, &st)) {
		if (!S_ISREG(st.st_mode))
			status = PTAH_E_BAD_FILE;
		else if (!st.st_size)
			status = PTAH_E_EMPTY;
		else
			bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (bytes == MAP_FAILED)
		return status;
	*backing = backing_new(bytes, (size_t)st.st_size, true);
	if (!*backing) {
		munmap(bytes, (size_t)st.st_size);
		return PTAH_E_NOMEM;
	}
	return 0;
}

int ptah_image_add_file(struct ptah_image *image, const char *path, uint64_t offset, uint64_t size,
			uint64_t address)
{
	struct backing *backing;
	int status;

	if (!image || !path || !size)
		return PTAH_E_INVAL;
	status = map_file(path, &backing);
	if (status < 0)
		return status;
	if (offset >= backing->size) {
		backing_put(backing);
		return PTAH_E_BAD_FILE;
	}
	if (size > backing->size - offset)
		size = backing->size - offset;
	return add(image, address, backing->bytes + offset, size, backing);
}

int ptah_image_add_bytes(struct ptah_image *image, const void *bytes, size_t size, uint64_t address)
{
	struct backing *backing;
	uint8_t *copy;

	if (!image || !bytes || !size)
		return PTAH_E_INVAL;
	copy = malloc(size);
	if (!copy)
		return PTAH_E_NOMEM;
	memcpy(copy, bytes, size);
	backing = backing_new(copy, size, false);
	if (!backing) {
		free(copy);
		return PTAH_E_NOMEM;
	}
	return add(image, address, copy, size, backing);
}

struct page {
	uint64_t address;
	size_t index; /* place in the dump */
};

static int compare_pages(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/*
 * Sorted first: sections are then appended, not inserted. Of pages given twice
 * the later one counts. Neighbours in both address and dump become one section.
 */
static int add_pages(struct ptah_image *image, const struct backing *addresses,
		     struct backing *dump)
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
		status = add(image, pages[i].address, dump->bytes + pages[i].index * IMAGE_PAGE,
			     n * IMAGE_PAGE, dump);
		i += n;
	}
	free(pages);
	return status;
}

int ptah_image_add_pages(struct ptah_image *image, const char *prefix)
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
	status = map_file(path, &addresses);
	memcpy(path + length, ".dump", sizeof(".dump"));
	if (status >= 0)
		status = map_file(path, &dump);
	if (status >= 0)
		status = add_pages(image, addresses, dump);
	backing_put(addresses);
	backing_put(dump);
	free(path);
	return status;
}

int ptah_image_remove(struct ptah_image *image, uint64_t address, uint64_t size)
{
	int status;

	if (!image || !size || size - 1 > UINT64_MAX - address)
		return PTAH_E_INVAL;
	status = reserve(image, 1);
	if (status >= 0)
		cut(image, address, address + (size - 1));
	return status;
}

void ptah_image_set_reader(struct ptah_image *image,
			   size_t (*read)(void *context, uint64_t address, void *bytes, size_t n),
			   void *context)
{
	image->read = read;
	image->read_context = context;
}

/* How far a read from `address` may go before a section begins that must answer itself. */
static size_t gap(const struct ptah_image *image, size_t behind, uint64_t address, size_t n)
{
	if (behind < image->count && image->sections[behind].address - address < n)
		return (size_t)(image->sections[behind].address - address);
	return n;
}

size_t ptah_image_read(const struct ptah_image *image, uint64_t address, void *bytes, size_t n)
{
	uint8_t *out = bytes;
	size_t done = 0;

	while (done < n) {
		uint64_t at = address + done;
		size_t i, k;

		if (at < address)
			break; /* the end of the address space */
		i = section_behind(image, at);
		if (i < image->count && image->sections[i].address <= at) {
			const struct section *s = &image->sections[i];
			uint64_t left = s->size - (at - s->address);

			k = left < n - done ? (size_t)left : n - done;
			memcpy(out + done, s->bytes + (at - s->address), k);
		} else {
			if (!image->read)
				break;
			k = gap(image, i, at, n - done);
			k = image->read(image->read_context, at, out + done, k);
			if (!k || k > n - done)
				break;
		}
		done += k;
	}
	return done;
}

bool image_overlaps(const struct ptah_image *image, uint64_t address, uint64_t size)
{
	size_t i = section_behind(image, address);

	return i < image->count && (image->sections[i].address <= address ||
				    image->sections[i].address - address < size);
}

uint64_t ptah_image_generation(const struct ptah_image *image)
{
	return image->generation;
}
