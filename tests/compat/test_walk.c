/* SPDX-License-Identifier: MIT */
/*
 * Decoders read ahead, and their image may change at any time: sections are removed and added
 * again, cover each other, or the decoder gets another image. As long as the bytes are the same, so
 * is everything that the decoder reports. Over traces of real processors.
 */
#include "test.h"

#include "judged.h"

#include <inttypes.h>
#include <string.h>

#define PAGE 4096

struct memory {
	char pages[4096]; /* the file's content */
	uint64_t *addresses;
	size_t count;
	int *isids;
	struct pt_image_section_cache *cache;
};

struct listing {
	uint64_t insns, hash;
};

static uint64_t seed = 7;

static uint64_t below(uint64_t n)
{
	return twin_random(&seed) % n;
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = NULL;

	if (!f)
		return NULL;
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*size = (size_t)ftell(f);
	rewind(f);
	bytes = malloc(*size);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *size, f), *size);
	fclose(f);
	return bytes;
}

static void fill(struct pt_image *image, const struct memory *m)
{
	for (size_t i = 0; i < m->count; i++)
		assert_int_equal(ours.pt_image_add_cached(image, m->cache, m->isids[i], NULL), 0);
}

/* Loads the trace `name` and its memory. False: it is not available. */
static bool load(const char *name, struct pt_config *config, struct memory *m)
{
	const char *shared = getenv("PTAH_SHARED");
	char path[4096];
	uint8_t *trace;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/traces/%s.pt", shared ? shared : "", name);
	trace = read_file(path, &size);
	if (!trace)
		return false;
	pt_config_init(config);
	config->begin = trace;
	config->end = trace + size;
	snprintf(path, sizeof(path), "%s/traces/%s.addr", shared, name);
	m->addresses = (uint64_t *)(void *)read_file(path, &size);
	assert_non_null(m->addresses);
	m->count = size / sizeof(*m->addresses);
	snprintf(m->pages, sizeof(m->pages), "%s/traces/%s.dump", shared, name);
	m->isids = malloc(m->count * sizeof(*m->isids));
	m->cache = ours.pt_iscache_alloc(NULL);
	assert_non_null(m->isids);
	for (size_t i = 0; i < m->count; i++) {
		m->isids[i] =
		    ours.pt_iscache_add_file(m->cache, m->pages, i * PAGE, PAGE, m->addresses[i]);
		assert_true(m->isids[i] > 0);
	}
	return true;
}

static void unload(struct pt_config *config, struct memory *m)
{
	ours.pt_iscache_free(m->cache);
	free(m->isids);
	free(m->addresses);
	free(config->begin);
}

/* A decoder of either kind, its own image and another one. */
struct client {
	struct pt_insn_decoder *insn;
	struct pt_block_decoder *block;
	struct pt_image *own, *other;
	bool at_other;
};

static void change(struct client *c, const struct memory *m)
{
	struct pt_image *now = c->at_other ? c->other : c->own;

	switch (below(3)) {
	case 0:
		ours.pt_image_remove_by_filename(now, m->pages, NULL);
		fill(now, m);
		break;
	case 1: /* covers itself */
		ours.pt_image_add_cached(now, m->cache, m->isids[below(m->count)], NULL);
		break;
	default:
		c->at_other = !c->at_other;
		if (c->insn)
			ours.pt_insn_set_image(c->insn, c->at_other ? c->other : NULL);
		else
			ours.pt_blk_set_image(c->block, c->at_other ? c->other : NULL);
		break;
	}
}

static void add(struct listing *l, uint64_t what)
{
	l->hash = (l->hash ^ what) * UINT64_C(0x100000001b3);
}

static int next(struct client *c, struct listing *l)
{
	struct pt_block block = {0};
	struct pt_insn insn = {0};
	int status;

	if (c->block) {
		status = ours.pt_blk_next(c->block, &block, sizeof(block));
		l->insns += block.ninsn;
		add(l, block.ninsn ? block.end_ip : 0);
		return status;
	}
	status = ours.pt_insn_next(c->insn, &insn, sizeof(insn));
	l->insns += insn.iclass != ptic_error;
	add(l, insn.ip);
	return status;
}

/*
 * Everything that a decoder reports, with a change of its image before one call in `often`; 0: no
 * changes.
 */
static struct listing decode(const struct pt_config *config, const struct memory *m, bool blocks,
			     unsigned often)
{
	struct client c = {.other = ours.pt_image_alloc(NULL)};
	struct listing l = {0};
	struct pt_event event;
	int status;

	if (blocks)
		c.block = ours.pt_blk_alloc_decoder(config);
	else
		c.insn = ours.pt_insn_alloc_decoder(config);
	c.own = blocks ? ours.pt_blk_get_image(c.block) : ours.pt_insn_get_image(c.insn);
	fill(c.own, m);
	fill(c.other, m);
	for (;;) {
		status =
		    blocks ? ours.pt_blk_sync_forward(c.block) : ours.pt_insn_sync_forward(c.insn);
		if (status == -pte_eos)
			break;
		while (status >= 0) {
			if (often && !below(often))
				change(&c, m);
			if (!(status & pts_event_pending)) {
				status = next(&c, &l);
				continue;
			}
			status = blocks ? ours.pt_blk_event(c.block, &event, sizeof(event))
					: ours.pt_insn_event(c.insn, &event, sizeof(event));
			add(&l, event.type);
		}
		add(&l, (uint64_t)-status);
	}
	ours.pt_blk_free_decoder(c.block);
	ours.pt_insn_free_decoder(c.insn);
	ours.pt_image_free(c.other);
	return l;
}

static void image_changes_under_way(void **state)
{
	static const char *const names[] = {"foo", "unzip"};
	struct pt_config config;
	struct memory m;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!load(names[i], &config, &m))
			skip();
		for (int blocks = 0; blocks < 2; blocks++) {
			const struct listing still = decode(&config, &m, blocks, 0);

			assert_true(still.insns > 0);
			for (unsigned often = 17; often < 500; often *= 7) {
				const struct listing moved = decode(&config, &m, blocks, often);

				assert_int_equal(moved.insns, still.insns);
				assert_int_equal(moved.hash, still.hash);
			}
		}
		unload(&config, &m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(image_changes_under_way),
	};

	load_both();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
