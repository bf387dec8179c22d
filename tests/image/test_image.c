/* SPDX-License-Identifier: MIT */
/*
 * Memory images: which bytes are read at an address when sections from memory,
 * from files and from ELF segments overlap, are removed, or end in the middle.
 */
#include "test.h"

#include "image/image_access.h"

#include <ptah/image.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct ptah_image *image;

static int setup(void **state)
{
	(void)state;
	return ptah_image_new(&image);
}

static int teardown(void **state)
{
	(void)state;
	ptah_image_free(image);
	return 0;
}

/* Reads n bytes and compares them with the text; "" means that nothing is mapped. */
static void expect(uint64_t address, size_t n, const char *text)
{
	char bytes[64] = {0};

	assert_int_equal(ptah_image_read(image, address, bytes, n, NULL), strlen(text));
	assert_string_equal(bytes, text);
}

static void add(uint64_t address, const char *text)
{
	assert_int_equal(ptah_image_add_bytes(image, text, strlen(text), address, NULL), 0);
}

TEST_WITH(sections, setup, teardown)
{
	expect(0x1000, 4, "");
	add(0x1000, "abcd");
	add(0x1004, "efgh");
	expect(0x1000, 8, "abcdefgh");
	expect(0x1002, 16, "cdefgh");
	expect(0x0fff, 4, "");
	expect(0x1008, 4, "");
}

TEST_WITH(overlaps, setup, teardown)
{
	add(0x1000, "aaaaaaaa");
	add(0x1002, "bb"); /* splits */
	expect(0x1000, 8, "aabbaaaa");
	add(0x0ffe, "cccc"); /* cuts the front */
	expect(0x0ffe, 10, "ccccbbaaaa");
	add(0x1006, "dddd"); /* cuts the end */
	expect(0x1000, 10, "ccbbaadddd");
	add(0x0f00, "e");
	assert_int_equal(ptah_image_remove(image, 0x1002, 2, NULL), 0);
	expect(0x1000, 10, "cc");
	expect(0x1004, 10, "aadddd");
	assert_int_equal(ptah_image_remove(image, 0, UINT64_MAX, NULL), 0);
	expect(0x1004, 10, "");
	expect(0x0f00, 1, "");
}

/* The generation shows changes, not additions. */
TEST_WITH(generations, setup, teardown)
{
	uint64_t generation = image_generation(image);

	add(0x1000, "aaaa");
	add(0x2000, "bbbb");
	assert_true(image_generation(image) == generation);
	add(0x1001, "aa"); /* the same bytes again */
	assert_true(image_generation(image) == generation);
	add(0x1001, "x");
	assert_true(image_generation(image) != generation);
	generation = image_generation(image);
	ptah_image_remove(image, 0x3000, 16, NULL);
	assert_true(image_generation(image) == generation);
	ptah_image_remove(image, 0x2000, 1, NULL);
	assert_true(image_generation(image) != generation);
}

TEST_WITH(clones, setup, teardown)
{
	struct ptah_image *first = image, *copy;

	add(0x1000, "aaaa");
	assert_int_equal(ptah_image_clone(image, &copy), 0);
	add(0x1000, "bbbb");
	image = copy;
	expect(0x1000, 4, "aaaa");
	ptah_image_free(copy);
	image = first;
	expect(0x1000, 4, "bbbb");
}

TEST_WITH(edges_of_the_address_space, setup, teardown)
{
	assert_int_equal(ptah_image_add_bytes(image, "abcd", 4, UINT64_MAX - 3, NULL), 0);
	expect(UINT64_MAX - 3, 8, "abcd");
	assert_int_equal(ptah_image_add_bytes(image, "abcd", 4, UINT64_MAX - 2, NULL),
			 PTAH_E_INVAL);
	add(0, "x");
	expect(0, 1, "x");
	expect(UINT64_MAX, 8, "d");
}

static size_t read_z(void *context, const struct ptah_space *space, uint64_t address, void *bytes,
		     size_t n)
{
	(void)space;
	(void)address;
	++*(unsigned *)context;
	memset(bytes, 'z', n);
	return n;
}

TEST_WITH(reader, setup, teardown)
{
	unsigned calls = 0;

	add(0x1002, "aa");
	ptah_image_set_reader(image, read_z, &calls);
	expect(0x1000, 6, "zzaazz");
	assert_int_equal(calls, 2);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

TEST_WITH(files, setup, teardown)
{
	write_file("image.bin", "0123456789", 10);
	assert_int_equal(ptah_image_add_file(image, "image.bin", 2, 4, 0x1000, NULL), 0);
	expect(0x1000, 8, "2345");
	assert_int_equal(ptah_image_add_file(image, "image.bin", 8, 100, 0x2000, NULL), 0);
	expect(0x2000, 8, "89"); /* of a short file, what it has is mapped */
	assert_int_equal(ptah_image_add_file(image, "image.bin", 10, 1, 0x3000, NULL),
			 PTAH_E_BAD_FILE);
	assert_int_equal(ptah_image_add_file(image, "no such file", 0, 1, 0, NULL), PTAH_E_MISSING);
	unlink("image.bin");
	expect(0x1000, 8, "2345");
}

TEST_WITH(pages, setup, teardown)
{
	static char dump[3 * 4096];
	static const uint64_t addresses[3] = {0x5000, 0x3000, 0x5000};

	memset(dump, 'a', 4096);
	memset(dump + 4096, 'b', 4096);
	memset(dump + 8192, 'c', 4096);
	write_file("p.addr", addresses, sizeof(addresses));
	write_file("p.dump", dump, sizeof(dump));
	assert_int_equal(ptah_image_add_pages(image, "p", NULL), 0);
	expect(0x3ffe, 4, "bb");
	expect(0x5000, 2, "cc"); /* if a page is given twice, the later one is used */
	write_file("p.dump", dump, sizeof(dump) - 1);
	assert_int_equal(ptah_image_add_pages(image, "p", NULL), PTAH_E_BAD_FILE);
	unlink("p.dump");
	assert_int_equal(ptah_image_add_pages(image, "p", NULL), PTAH_E_MISSING);
	unlink("p.addr");
}

TEST_WITH(elf, setup, teardown)
{
	char magic[4];

	/* This very program: its code appears at the address given, as in the file. */
	assert_int_equal(ptah_image_add_elf(image, "/proc/self/exe", 0x10000000, NULL), 0);
	assert_int_equal(ptah_image_read(image, 0x10000000 - 4096, magic, 4, NULL), 0);
	write_file("not.elf", "hello", 5);
	assert_int_equal(ptah_image_add_elf(image, "not.elf", 0, NULL), PTAH_E_BAD_MAGIC);
	unlink("not.elf");
}

/* How often the file is mapped into this process. */
static unsigned mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	unsigned n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, name) != NULL;
	fclose(maps);
	return n;
}

/* A file is mapped once by all images that share files, and again when it has changed. */
TEST_WITH(shared_files, setup, teardown)
{
	struct file_table *table = file_table_new();
	struct ptah_image *other;

	assert_non_null(table);
	image_use_files(image, table);
	write_file("shared.tmp", "abcdefgh", 8);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(
		    ptah_image_add_file(image, "shared.tmp", i % 4, 4, 0x1000 * i, NULL), 0);
	assert_int_equal(ptah_image_clone(image, &other), 0);
	assert_int_equal(ptah_image_add_file(other, "shared.tmp", 4, 4, 0x20000, NULL), 0);
	assert_int_equal(mapped("shared.tmp"), 1);
	expect(0x3000, 4, "defg");
	write_file("changed.tmp", "ABCDEFGHI", 9);
	assert_int_equal(rename("changed.tmp", "shared.tmp"), 0);
	assert_int_equal(ptah_image_add_file(image, "shared.tmp", 0, 4, 0x30000, NULL), 0);
	expect(0x30000, 4, "ABCD");
	expect(0x3000, 4, "defg");
	assert_int_equal(ptah_image_add_file(image, "absent.tmp", 0, 4, 0x30000, NULL),
			 PTAH_E_MISSING);
	unlink("shared.tmp");
	file_table_put(table);
	ptah_image_free(image);
	image = NULL;
	/* The clone has what it needs. */
	assert_int_equal(ptah_image_add_file(other, "absent.tmp", 0, 4, 0x30000, NULL),
			 PTAH_E_MISSING);
	ptah_image_free(other);
	assert_int_equal(mapped("shared.tmp"), 0);
}

/* As many files as there are, some of which no place is left for. */
TEST_WITH(many_files, setup, teardown)
{
	struct file_table *table = file_table_new();
	char name[32];

	image_use_files(image, table);
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < 600; i++) {
			snprintf(name, sizeof(name), "many-%u.tmp", i);
			write_file(name, name, sizeof(name));
			assert_int_equal(ptah_image_add_file(image, name, 0, 8, 0x1000 * i, NULL),
					 0);
			unlink(name);
		}
	expect(0x1000 * 7, 6, "many-7");
	expect(0x1000 * 599, 8, "many-599");
	file_table_put(table);
}
