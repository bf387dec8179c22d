/* SPDX-License-Identifier: MIT */
/*
 * Images and section caches call by call against Debian's library, in random
 * order over a few files: what each call returns, what a cache's section holds,
 * and which byte, of which section, an instruction decoder sees at an address.
 *
 * Where they differ, and what is therefore left out: see compat/libipt/pt_image.c.
 * And Debian's takes a section that wraps around the end of the address space.
 */
#include "test.h"

#include "judged.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define FILES	 3
#define FILE_MAX 20000
#define BASE	 UINT64_C(0x400000)

static char paths[FILES][64];
static size_t lengths[FILES];
static uint64_t seed = 31;

/* Instructions of one byte in 64-bit mode, so that every byte is an instruction. */
static const uint8_t insns[] = {0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a,
				0x5b, 0x5c, 0x5d, 0x5e, 0x5f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95,
				0x96, 0x97, 0x98, 0x99, 0xf5, 0xf8, 0xf9, 0xfc, 0xfd};

static uint64_t below(uint64_t n)
{
	return twin_random(&seed) % n;
}

static void write_file(unsigned i, size_t size)
{
	FILE *f = fopen(paths[i], "wb");

	assert_non_null(f);
	for (size_t k = 0; k < size; k++)
		fputc(insns[below(sizeof(insns))], f);
	assert_int_equal(fclose(f), 0);
	lengths[i] = size;
}

static int make_files(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(paths[i], sizeof(paths[i]), "test_image.%d.%u", (int)getpid(), i);
		write_file(i, FILE_MAX - 5000 * i + 17);
	}
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++)
		unlink(paths[i]);
	return 0;
}

/* One of the two libraries and its objects. */
struct side {
	const struct twin_api *api;
	struct pt_image_section_cache *cache;
	struct pt_image *image, *other;
};

static struct side side_new(const struct twin_api *api)
{
	struct side s = {api, api->pt_iscache_alloc("cache"), api->pt_image_alloc("image"),
			 api->pt_image_alloc(NULL)};

	assert_true(s.cache && s.image && s.other);
	assert_string_equal(api->pt_iscache_name(s.cache), "cache");
	assert_string_equal(api->pt_image_name(s.image), "image");
	assert_null(api->pt_image_name(s.other));
	return s;
}

static void side_free(struct side *s)
{
	s->api->pt_iscache_free(s->cache);
	s->api->pt_image_free(s->image);
	s->api->pt_image_free(s->other);
}

/* What an instruction decoder reports for the first instruction at an address. */
struct sight {
	int status, isid;
	uint8_t byte;
};

static size_t put(uint8_t *p, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(value >> 8 * i);
	return n;
}

/* PSB, PIP, MODE.Exec, FUP, PSBEND, and a TIP, so that something has to be decoded. */
static size_t write_trace(uint8_t *p, uint64_t cr3, uint64_t ip)
{
	size_t n = 0;

	while (n < 16)
		n += put(p + n, 0x8202, 2);
	if (cr3 != pt_asid_no_cr3) {
		n += put(p + n, 0x4302, 2);
		n += put(p + n, cr3 >> 5 << 1, 6);
	}
	n += put(p + n, 0x0199, 2);
	n += put(p + n, 0xdd, 1);
	n += put(p + n, ip, 8);
	n += put(p + n, 0x2302, 2);
	n += put(p + n, 0xcd, 1);
	n += put(p + n, ip, 8);
	return n;
}

static struct sight look(const struct side *s, struct pt_image *image, uint64_t cr3, uint64_t ip)
{
	uint8_t trace[64];
	struct pt_insn_decoder *decoder;
	struct sight sight = {0, 0, 0};
	struct pt_config config;
	struct pt_event event;
	struct pt_insn insn;

	pt_config_init(&config);
	config.begin = trace;
	config.end = trace + write_trace(trace, cr3, ip);
	decoder = s->api->pt_insn_alloc_decoder(&config);
	assert_non_null(decoder);
	assert_int_equal(s->api->pt_insn_set_image(decoder, image), 0);
	sight.status = s->api->pt_insn_sync_forward(decoder);
	while (sight.status >= 0 && sight.status & pts_event_pending)
		sight.status = s->api->pt_insn_event(decoder, &event, sizeof(event));
	if (sight.status >= 0) {
		memset(&insn, 0, sizeof(insn));
		sight.status = s->api->pt_insn_next(decoder, &insn, sizeof(insn));
		if (sight.status >= 0) {
			sight.isid = insn.isid;
			sight.byte = insn.raw[0];
		}
	}
	s->api->pt_insn_free_decoder(decoder);
	sight.status = sight.status < 0 ? sight.status : 0;
	return sight;
}

static void same_sight(const struct side *a, const struct side *b)
{
	const uint64_t cr3 = below(3) ? (1 + below(3)) << 12 : pt_asid_no_cr3;
	const uint64_t ip = BASE + below(3 * FILE_MAX);
	struct sight x, y;

	if (!a->api->pt_insn_next)
		return;
	x = look(a, a->image, cr3, ip);
	y = look(b, b->image, cr3, ip);
	/*
	 * Without a space, the libraries choose differently between sections whose spaces do not
	 * match.
	 */
	if (cr3 == pt_asid_no_cr3 && x.status >= 0 && y.status >= 0)
		return;
	assert_int_equal(x.status, y.status);
	assert_int_equal(x.isid, y.isid);
	assert_int_equal(x.byte, y.byte);
}

static const struct pt_asid *random_asid(struct pt_asid *asid)
{
	pt_asid_init(asid);
	if (!below(4))
		return NULL;
	if (below(2))
		asid->cr3 = (1 + below(3)) << 12;
	if (!below(4))
		asid->vmcs = (1 + below(2)) << 12;
	return asid;
}

static int same_add_to_cache(const struct side *a, const struct side *b)
{
	const unsigned file = (unsigned)below(FILES);
	const char *path = below(20) ? paths[file] : "/nonexistent";
	const uint64_t offset = below(30) ? below(4) * 4096 : 3 * FILE_MAX;
	const uint64_t size = below(3) ? 1 + below(3) * 4096 : 10 * FILE_MAX;
	const uint64_t vaddr = BASE + below(8) * 4096;
	int isid = a->api->pt_iscache_add_file(a->cache, path, offset, size, vaddr);

	assert_int_equal(isid, b->api->pt_iscache_add_file(b->cache, path, offset, size, vaddr));
	return isid;
}

static void same_read(const struct side *a, const struct side *b, int isid)
{
	static uint8_t x[100000], y[100000];
	const uint64_t size = below(3) ? below(5000) : sizeof(x);
	const uint64_t vaddr = BASE + below(3 * FILE_MAX);
	int status = a->api->pt_iscache_read(a->cache, x, size, isid, vaddr);

	assert_int_equal(status, b->api->pt_iscache_read(b->cache, y, size, isid, vaddr));
	if (status > 0)
		assert_memory_equal(x, y, (size_t)status);
}

static void same_add(const struct side *a, const struct side *b, int isids)
{
	struct pt_asid storage;
	const struct pt_asid *asid = random_asid(&storage);
	struct pt_image *const x = below(4) ? a->image : a->other;
	struct pt_image *const y = x == a->image ? b->image : b->other;

	if (below(2)) {
		const int isid = (int)below((uint64_t)isids + 3) - 1;

		assert_int_equal(a->api->pt_image_add_cached(x, a->cache, isid, asid),
				 b->api->pt_image_add_cached(y, b->cache, isid, asid));
	} else {
		const char *path = paths[below(FILES)];
		const uint64_t offset = below(5) * 4000, size = 1 + below(4) * 3000;
		const uint64_t vaddr = BASE + below(40000);

		assert_int_equal(a->api->pt_image_add_file(x, path, offset, size, asid, vaddr),
				 b->api->pt_image_add_file(y, path, offset, size, asid, vaddr));
	}
}

static void same_removal(const struct side *a, const struct side *b)
{
	struct pt_asid storage;
	const struct pt_asid *asid = random_asid(&storage);

	if (below(4)) {
		const char *path = paths[below(FILES)];

		assert_int_equal(a->api->pt_image_remove_by_filename(a->image, path, asid),
				 b->api->pt_image_remove_by_filename(b->image, path, asid));
	} else {
		assert_int_equal(a->api->pt_image_remove_by_asid(a->image, asid),
				 b->api->pt_image_remove_by_asid(b->image, asid));
	}
}

static void random_calls(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		struct side a = side_new(&ours), b = side_new(&theirs);
		int isids = 0;

		for (unsigned k = 0; k < 150; k++) {
			const int isid = (int)below((uint64_t)isids + 3) - 1;

			switch (below(12)) {
			case 0:
			case 1:
				isids = same_add_to_cache(&a, &b) > isids ? isids + 1 : isids;
				break;
			case 2:
				same_read(&a, &b, isid);
				break;
			case 3:
				if (!below(3))
					same_removal(&a, &b);
				break;
			case 4:
				if (below(8))
					break;
				/* Only sections that are not cut: see pt_image.c. */
				a.api->pt_image_remove_by_asid(a.other, NULL);
				b.api->pt_image_remove_by_asid(b.other, NULL);
				assert_int_equal(
				    a.api->pt_image_add_cached(a.other, a.cache, 1, NULL),
				    b.api->pt_image_add_cached(b.other, b.cache, 1, NULL));
				assert_int_equal(a.api->pt_image_copy(a.image, a.other),
						 b.api->pt_image_copy(b.image, b.other));
				break;
			case 5: {
				const uint64_t limit = below(3) ? below(30000) : UINT64_MAX;

				assert_int_equal(a.api->pt_iscache_set_limit(a.cache, limit),
						 b.api->pt_iscache_set_limit(b.cache, limit));
				break;
			}
			case 6:
			case 7:
				same_add(&a, &b, isids);
				break;
			default:
				same_sight(&a, &b);
				break;
			}
		}
		side_free(&a);
		side_free(&b);
	}
}

/* In a copy, a section that was cut has the bytes of the original. */
static void copy_of_cut(void **state)
{
	struct side s = side_new(&ours);
	struct pt_asid asid;

	(void)state;
	pt_asid_init(&asid);
	assert_int_equal(ours.pt_image_add_file(s.other, paths[0], 0, 8192, &asid, BASE), 0);
	assert_int_equal(ours.pt_image_add_file(s.other, paths[1], 0, 4096, &asid, BASE), 0);
	assert_int_equal(ours.pt_image_copy(s.image, s.other), 0);
	assert_int_equal(ours.pt_image_copy(s.image, s.image), 0);
	for (uint64_t at = 0; ours.pt_insn_next && at < 8192; at += 97) {
		struct sight x = look(&s, s.image, pt_asid_no_cr3, BASE + at);
		struct sight y = look(&s, s.other, pt_asid_no_cr3, BASE + at);

		assert_int_equal(x.status, 0);
		assert_int_equal(x.byte, y.byte);
	}
	assert_int_equal(ours.pt_image_remove_by_filename(s.image, paths[0], NULL), 1);
	assert_int_equal(ours.pt_image_remove_by_filename(s.image, paths[1], NULL), 1);
	side_free(&s);
}

/* Sections outlive the cache that they came from, and fail when their file has changed. */
static void freed_and_changed(void **state)
{
	struct side sides[] = {side_new(&ours), side_new(&theirs)};
	uint8_t byte;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &sides[i];

		assert_int_equal(s->api->pt_iscache_add_file(s->cache, paths[0], 0, 100, BASE), 1);
		assert_int_equal(s->api->pt_iscache_add_file(s->cache, paths[1], 0, 100, BASE), 2);
		assert_int_equal(s->api->pt_image_add_cached(s->image, s->cache, 1, NULL), 0);
		assert_int_equal(
		    s->api->pt_image_add_file(s->image, paths[1], 0, 100, NULL, BASE + 4096), 0);
	}
	write_file(1, 777);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &sides[i];

		assert_int_equal(s->api->pt_iscache_read(s->cache, &byte, 1, 2, BASE),
				 -pte_bad_image);
		/* It is the same section nevertheless. */
		assert_int_equal(s->api->pt_iscache_add_file(s->cache, paths[1], 0, 100, BASE), 2);
		s->api->pt_iscache_free(s->cache);
		s->cache = NULL;
		if (s->api->pt_insn_next) {
			assert_int_equal(look(s, s->image, pt_asid_no_cr3, BASE + 5).isid, 1);
			assert_int_equal(look(s, s->image, pt_asid_no_cr3, BASE + 4096).status,
					 -pte_bad_image);
		}
		side_free(s);
	}
	write_file(1, FILE_MAX);
}

/* Threads that add and read the same sections of one cache get the same isids and bytes. */
struct worker {
	struct pt_image_section_cache *cache;
	int isids[16], bad;
};

static void *work(void *context)
{
	struct worker *w = context;
	struct pt_image *image = ours.pt_image_alloc(NULL);

	for (int round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 16; i++) {
			uint8_t a[256], b[256];

			w->isids[i] = ours.pt_iscache_add_file(w->cache, paths[0], 256 * i, 256,
							       BASE + 512 * i);
			w->bad |= ours.pt_image_add_cached(image, w->cache, w->isids[i], NULL);
			w->bad |= ours.pt_iscache_read(w->cache, a, 256, w->isids[i],
						       BASE + 512 * i) != 256;
			ours.pt_iscache_set_limit(w->cache, 4096 * (i + 1));
			w->bad |= ours.pt_iscache_read(w->cache, b, 256, w->isids[i],
						       BASE + 512 * i) != 256;
			w->bad |= memcmp(a, b, 256);
		}
	}
	ours.pt_image_free(image);
	return NULL;
}

static void threads(void **state)
{
	struct pt_image_section_cache *cache = ours.pt_iscache_alloc(NULL);
	struct worker workers[4];
	pthread_t ids[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){.cache = cache};
		assert_int_equal(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(ids[i], NULL), 0);
		assert_int_equal(workers[i].bad, 0);
		assert_memory_equal(workers[i].isids, workers[0].isids, sizeof(workers[0].isids));
	}
	for (unsigned i = 0; i < 16; i++)
		assert_in_range(workers[0].isids[i], 1, 16);
	ours.pt_iscache_free(cache);
}

static void bad_arguments(void **state)
{
	struct side s = side_new(&ours);
	uint8_t byte;

	(void)state;
	ours.pt_image_free(NULL);
	ours.pt_iscache_free(NULL);
	assert_null(ours.pt_image_name(NULL));
	assert_null(ours.pt_iscache_name(NULL));
	assert_int_equal(ours.pt_iscache_set_limit(NULL, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_add_file(NULL, paths[0], 0, 1, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_add_file(s.cache, NULL, 0, 1, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_read(NULL, &byte, 1, 1, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_read(s.cache, NULL, 1, 1, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_read(s.cache, &byte, 0, 1, 0), -pte_invalid);
	assert_int_equal(ours.pt_iscache_read(s.cache, &byte, 1, 1, 0), -pte_bad_image);
	assert_int_equal(ours.pt_image_add_file(NULL, paths[0], 0, 1, NULL, 0), -pte_invalid);
	assert_int_equal(ours.pt_image_add_file(s.image, NULL, 0, 1, NULL, 0), -pte_invalid);
	assert_int_equal(ours.pt_image_add_file(s.image, "/nonexistent", 0, 1, NULL, 0),
			 -pte_invalid);
	assert_int_equal(ours.pt_image_add_cached(NULL, s.cache, 1, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_add_cached(s.image, NULL, 1, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_add_cached(s.image, s.cache, 1, NULL), -pte_bad_image);
	assert_int_equal(ours.pt_image_copy(NULL, s.image), -pte_invalid);
	assert_int_equal(ours.pt_image_copy(s.image, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_remove_by_filename(NULL, "x", NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_remove_by_filename(s.image, NULL, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_remove_by_asid(NULL, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_set_callback(NULL, NULL, NULL), -pte_invalid);
	assert_int_equal(ours.pt_image_set_callback(s.image, NULL, NULL), 0);
	side_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_calls),	 cmocka_unit_test(copy_of_cut),
	    cmocka_unit_test(freed_and_changed), cmocka_unit_test(threads),
	    cmocka_unit_test(bad_arguments),
	};

	load_both();
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
