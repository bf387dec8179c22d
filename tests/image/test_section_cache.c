/* SPDX-License-Identifier: MIT */
/* The section cache: one copy for all users, within its limit, from many threads. */
#include "test.h"
#include "image/section_map.h"

#include <ptah/image.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 6
#define PAGES 4
#define BYTES (PAGES * 4096)

static char paths[FILES][64];
static uint8_t contents[FILES][BYTES];

static void write_file(unsigned i)
{
	FILE *f = fopen(paths[i], "w");

	assert_non_null(f);
	assert_int_equal(fwrite(contents[i], 1, BYTES, f), BYTES);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(paths[i], sizeof(paths[i]), "cache-%d-%u", (int)getpid(), i);
		for (unsigned k = 0; k < BYTES; k++)
			contents[i][k] = (uint8_t)(k * 7 + k / 256 + 31 * i);
		write_file(i);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++)
		unlink(paths[i]);
	return 0;
}

static uint32_t add(struct ptah_cache *cache, unsigned i, uint64_t offset, uint64_t size)
{
	uint32_t id = 0;

	assert_int_equal(
	    ptah_cache_add_file(cache, paths[i], offset, size, 0x10000 * i + offset, &id), 0);
	assert_true(id > 0);
	return id;
}

TEST(ids_and_reads)
{
	struct ptah_cache *cache;
	uint32_t whole, part;
	uint8_t bytes[64];

	assert_int_equal(ptah_cache_new(0, &cache), 0);
	whole = add(cache, 0, 0, UINT64_MAX);
	part = add(cache, 0, 5000, 100);
	assert_int_equal(add(cache, 0, 0, UINT64_MAX), whole);
	assert_int_equal(add(cache, 0, 5000, 100), part);
	assert_int_not_equal(whole, part);
	assert_int_equal(cache_mapped(cache), 0);
	assert_int_equal(ptah_cache_read(cache, part, 5000 + 90, bytes, 64), 10);
	assert_memory_equal(bytes, contents[0] + 5090, 10);
	assert_int_equal(ptah_cache_read(cache, whole, BYTES - 3, bytes, 64), 3);
	assert_int_equal(ptah_cache_read(cache, part, 4999, bytes, 1), PTAH_E_NO_CODE);
	assert_int_equal(ptah_cache_read(cache, part, 5100, bytes, 1), PTAH_E_NO_CODE);
	assert_int_equal(ptah_cache_read(cache, 77, 5000, bytes, 1), PTAH_E_INVAL);
	assert_int_equal(ptah_cache_add_file(cache, "no such file", 0, 1, 0, &part),
			 PTAH_E_MISSING);
	assert_int_equal(ptah_cache_add_file(cache, paths[0], BYTES, 1, 0, &part), PTAH_E_BAD_FILE);
	ptah_cache_free(cache);
}

/* There is room for two files; whatever is read in any order, there are never three. */
TEST(limit)
{
	struct ptah_cache *cache;
	uint32_t ids[FILES];

	assert_int_equal(ptah_cache_new(2 * BYTES, &cache), 0);
	for (unsigned i = 0; i < FILES; i++)
		ids[i] = add(cache, i, 0, UINT64_MAX);
	for (unsigned step = 0; step < 500; step++) {
		unsigned i = step * 7 % 11 % FILES, at = step * 131 % (BYTES - 8);
		uint8_t bytes[8];

		assert_int_equal(ptah_cache_read(cache, ids[i], 0x10000 * i + at, bytes, 8), 8);
		assert_memory_equal(bytes, contents[i] + at, 8);
		assert_true(cache_mapped(cache) <= 2 * BYTES);
	}
	assert_int_equal(cache_mapped(cache), 2 * BYTES);
	ptah_cache_free(cache);
	/* Nothing fits, and reading works nevertheless. */
	assert_int_equal(ptah_cache_new(100, &cache), 0);
	ids[0] = add(cache, 0, 0, UINT64_MAX);
	assert_int_equal(ptah_cache_read(cache, ids[0], 4000, contents[1], 200), 200);
	assert_memory_equal(contents[1], contents[0] + 4000, 200);
	assert_int_equal(cache_mapped(cache), 0);
	ptah_cache_free(cache);
}

TEST(changed_file)
{
	struct ptah_cache *cache;
	uint32_t id;
	uint8_t byte;

	assert_int_equal(ptah_cache_new(0, &cache), 0);
	id = add(cache, 2, 0, UINT64_MAX);
	assert_int_equal(truncate(paths[2], 4096), 0);
	assert_int_equal(ptah_cache_read(cache, id, 0x20000, &byte, 1), PTAH_E_CHANGED);
	unlink(paths[2]);
	assert_int_equal(ptah_cache_read(cache, id, 0x20000, &byte, 1), PTAH_E_MISSING);
	write_file(2);
	ptah_cache_free(cache);
}

/* In a process whose address space has no room for the file. Returns 0 if its bytes are read. */
static int read_without_room(struct ptah_cache *cache, uint32_t id)
{
	uint8_t bytes[8] = {0};

	/* Sanitizers need address space of their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	const struct rlimit limit = {0, 0};

	if (setrlimit(RLIMIT_AS, &limit))
		return 1;
#endif
	if (ptah_cache_read(cache, id, 0x12000, bytes, sizeof(bytes)) != (int)sizeof(bytes))
		return 2;
	return memcmp(bytes, contents[1] + 0x2000, sizeof(bytes)) ? 3 : 0;
}

/* What cannot be mapped is read: a limit of the address space is no missing code. */
TEST(no_address_space)
{
	struct ptah_cache *cache;
	uint32_t id;
	pid_t child;
	int status;

	assert_int_equal(ptah_cache_new(0, &cache), 0);
	id = add(cache, 1, 0, UINT64_MAX);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(read_without_room(cache, id));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	ptah_cache_free(cache);
}

/* An image holds a reference to the cache; a section in two spaces is in it once. */
TEST(images)
{
	const struct ptah_space one = {0x1000, PTAH_SPACE_ANY}, two = {0x2000, PTAH_SPACE_ANY};
	struct ptah_image *image, *clone;
	struct ptah_section section;
	struct ptah_cache *cache;
	uint8_t bytes[200];
	uint32_t id;

	assert_int_equal(ptah_cache_new(0, &cache), 0);
	id = add(cache, 3, 4000, 200);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_cached(image, cache, id, &one), 0);
	assert_int_equal(ptah_image_add_cached(image, cache, id + 1, &two), PTAH_E_INVAL);
	ptah_cache_free(cache);
	assert_int_equal(ptah_image_clone(image, &clone), 0);
	assert_int_equal(ptah_image_remove(image, 0x30000 + 4050, 10, NULL), 0);
	ptah_image_free(image);
	assert_int_equal(ptah_image_read(clone, 0x30000 + 4000, bytes, 200, &one), 200);
	assert_memory_equal(bytes, contents[3] + 4000, 200);
	assert_int_equal(ptah_image_read(clone, 0x30000 + 4000, bytes, 200, &two), 0);
	assert_int_equal(ptah_image_find(clone, 0x30000 + 4001, &one, &section), 0);
	assert_string_equal(section.path, paths[3]);
	assert_true(section.file_offset == 4000 && section.address == 0x30000 + 4000);
	assert_int_equal(ptah_image_remove(clone, 0x30000 + 4000, 200, &two), 0);
	assert_int_equal(ptah_image_read(clone, 0x30000 + 4000, bytes, 200, &one), 200);
	assert_int_equal(ptah_image_remove(clone, 0x30000 + 4000, 200, NULL), 0);
	assert_int_equal(ptah_image_read(clone, 0x30000 + 4000, bytes, 200, &one), 0);
	ptah_image_free(clone);
}

struct worker {
	struct ptah_cache *cache;
	const struct ptah_image *image;
	unsigned number;
	bool good;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct ptah_image *own;

	w->good = !ptah_image_clone(w->image, &own);
	for (unsigned step = 0; w->good && step < 2000; step++) {
		unsigned i = (step + w->number) % FILES, at = step * 37 % (BYTES - 16);
		uint8_t bytes[16];

		w->good = ptah_image_read(own, 0x10000 * i + at, bytes, 16, NULL) == 16 &&
			  !memcmp(bytes, contents[i] + at, 16);
		if (step % 100 == w->number)
			ptah_image_remove(own, 0x10000 * i + BYTES + 1, 1, NULL);
	}
	ptah_image_free(own);
	return NULL;
}

TEST(threads)
{
	struct worker workers[4];
	pthread_t ids[4];
	struct ptah_cache *cache;
	struct ptah_image *image;

	memset(contents[1], 1, BYTES); /* limit() has written to it */
	write_file(1);
	assert_int_equal(ptah_cache_new(3 * BYTES, &cache), 0);
	assert_int_equal(ptah_image_new(&image), 0);
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(
		    ptah_image_add_cached(image, cache, add(cache, i, 0, UINT64_MAX), NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){cache, image, i, false};
		assert_int_equal(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(ids[i], NULL), 0);
		assert_true(workers[i].good);
	}
	assert_true(cache_mapped(cache) <= 3 * BYTES);
	ptah_image_free(image);
	ptah_cache_free(cache);
}

TEST_GROUP(setup, teardown)
