/* SPDX-License-Identifier: MIT */
/*
 * Parts of recordings, counted separately and joined in any order, are what one process counts,
 * byte by byte: random programs, with losses, missing code and damaged traces.
 */
#include "test.h"

#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "counts/shard_internal.h"
#include "session/session.h"

#include <stdio.h>
#include <unistd.h>

#define MOST 3

/* Recordings: a raw trace each, and the code. */
struct recordings {
	const char *paths[MOST];
	struct ptah_image *images[MOST];
	size_t count;
	unsigned opened;
};

static const char *const names[MOST] = {"shard-0.pt", "shard-1.pt", "shard-2.pt"};

static void add(struct recordings *all, const uint8_t *code, size_t code_size, const uint8_t *trace,
		size_t size)
{
	const size_t i = all->count++;
	FILE *file = fopen(names[i], "wb");

	assert_non_null(file);
	assert_true(fwrite(trace, 1, size, file) == size);
	assert_int_equal(fclose(file), 0);
	all->paths[i] = names[i];
	assert_int_equal(ptah_image_new(&all->images[i]), 0);
	assert_int_equal(ptah_image_add_bytes(all->images[i], code, code_size, BASE, NULL), 0);
}

static void end(struct recordings *all)
{
	for (size_t i = 0; i < all->count; i++) {
		ptah_image_free(all->images[i]);
		unlink(names[i]);
	}
}

/* Mappings of which one lies in the middle of another. */
static bool find(void *context, int32_t space, uint64_t address, uint64_t tsc,
		 struct ptah_counts_file *file)
{
	(void)tsc;
	const uint64_t at = address - BASE;

	(void)context;
	(void)space;
	if (at >= CODE || (at > 40000 && at < 41000))
		return false;
	*file = (struct ptah_counts_file){.address = BASE, .size = CODE, .path = "/outer"};
	if (at / 1024 % 5 == 2)
		*file = (struct ptah_counts_file){
		    .address = BASE + at / 1024 * 1024, .size = 1024, .path = "/inner"};
	return true;
}

static int open_recording(void *context, const char *path, struct ptah_shard_recording *recording,
			  struct ptah_message *why)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct recordings *all = context;
	size_t i = 0;

	while (strcmp(path, all->paths[i]) != 0)
		i++;
	all->opened++;
	recording->find = find;
	config.image = all->images[i];
	return ptah_session_open(path, &config, &recording->session, why);
}

static void close_recording(void *context, struct ptah_shard_recording *recording)
{
	(void)context;
	ptah_session_close(recording->session);
}

struct bytes {
	void *bytes;
	size_t n;
};

static struct ptah_shard_plan *plan_of(const struct recordings *all, uint32_t parts)
{
	struct ptah_shard_plan *plan;
	struct ptah_message why = {""};

	assert_int_equal(ptah_shard_plan_new(all->paths, all->count, parts, NULL, &plan, &why), 0);
	return plan;
}

/* One part, written and read. */
static struct ptah_shard *shard_of(struct recordings *all, const struct ptah_shard_plan *plan,
				   uint32_t part)
{
	const struct ptah_shard_source source = {.size = sizeof(source),
						 .open = open_recording,
						 .close = close_recording,
						 .context = all};
	struct ptah_message why = {""};
	struct ptah_shard *shard, *again;
	struct bytes b, c;

	assert_int_equal(ptah_shard_count(plan, part, &source, &shard, &why), 0);
	assert_int_equal(ptah_shard_save(shard, &b.bytes, &b.n), 0);
	if (ptah_shard_load(b.bytes, b.n, &again, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(ptah_shard_save(again, &c.bytes, &c.n), 0);
	assert_true(b.n == c.n);
	assert_memory_equal(b.bytes, c.bytes, b.n);
	ptah_shard_free(shard);
	free(b.bytes);
	free(c.bytes);
	return again;
}

static struct bytes save(struct ptah_counts *counts)
{
	struct bytes b;

	assert_int_equal(ptah_counts_save(counts, &b.bytes, &b.n), 0);
	ptah_counts_free(counts);
	return b;
}

/* What one process counts. */

struct counting {
	struct ptah_session *session;
	struct ptah_counts *counts;
};

static int take(void *context, size_t stream, struct ptah_profile *profile)
{
	struct counting *c = context;

	return ptah_counts_add_stream(c->counts, c->session, stream, profile);
}

static struct bytes count_all(struct recordings *all)
{
	struct ptah_counts *sum = NULL;

	for (size_t i = 0; i < all->count; i++) {
		struct ptah_shard_recording r = {0};
		struct ptah_message why;
		struct counting c;

		assert_int_equal(open_recording(all, all->paths[i], &r, &why), 0);
		c.session = r.session;
		assert_int_equal(ptah_counts_new(&c.counts), 0);
		assert_int_equal(ptah_session_count(r.session, NULL, NULL, take, &c), 0);
		assert_int_equal(ptah_counts_locate(c.counts, find, NULL), 0);
		ptah_session_close(r.session);
		if (!sum) {
			sum = c.counts;
			continue;
		}
		assert_int_equal(ptah_counts_merge(sum, c.counts), 0);
		ptah_counts_free(c.counts);
	}
	return save(sum);
}

/* All parts, joined as a tree in which neighbours are far from each other. */
static struct bytes count_parts(struct recordings *all, uint32_t parts)
{
	struct ptah_shard_plan *plan = plan_of(all, parts);
	struct ptah_shard **shards = calloc(parts, sizeof(struct ptah_shard *));
	struct ptah_message why = {""};
	struct ptah_counts *counts;
	struct bytes b;

	assert_non_null(shards);
	for (uint32_t i = 0; i < parts; i++)
		shards[i] = shard_of(all, plan, i * 7 % parts == i ? i + 1 : parts - i);
	for (uint32_t i = 0; i < parts; i++) {
		ptah_shard_free(shards[i]);
		shards[i] = shard_of(all, plan, i + 1);
	}
	for (uint32_t n = parts; n > 1; n = (n + 1) / 2)
		for (uint32_t i = (n + 1) / 2; i < n; i++) {
			struct ptah_shard *into = shards[i - (n + 1) / 2];

			if (ptah_shard_join(into, shards[i], false, &why) < 0)
				fail_msg("%s", why.text);
			ptah_shard_free(shards[i]);
		}
	assert_int_equal(shard_present(shards[0]), parts);
	if (ptah_shard_finish(shards[0], &counts, &why) < 0)
		fail_msg("%u parts: %s", parts, why.text);
	ptah_shard_free(shards[0]);
	free(shards);
	ptah_shard_plan_free(plan);
	b = save(counts);
	return b;
}

/* The first seed tries all numbers of parts, the others some of them. */
static void compare(struct recordings *all, unsigned seed)
{
	static const uint32_t parts[] = {1, 2, 3, 7, 50};
	struct bytes one = count_all(all);

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		struct bytes sum;

		if (seed > 1 && i != (seed + 2) % (sizeof(parts) / sizeof(*parts)))
			continue;
		sum = count_parts(all, parts[i]);
		if (sum.n != one.n || memcmp(sum.bytes, one.bytes, one.n))
			fail_msg("%u parts of %s", parts[i], all->paths[0]);
		free(sum.bytes);
	}
	free(one.bytes);
}

#define SEEDS 3

TEST(machines)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);

		add(&all, m->code, sizeof(m->code), m->trace, size);
		compare(&all, seed);
		end(&all);
		machine_free(m);
	}
}

/* Address spaces, modes, transactions, filters: state that a PSB+ does not contain. */
TEST(worlds)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;

		for (unsigned i = 0; i < MOST; i++) {
			struct world *w =
			    world_new(seed + i, seed & 1, seed & 2, (seed + i) & 4, &size);

			add(&all, w->code, sizeof(w->code), w->trace, size);
			world_free(w);
		}
		compare(&all, seed + 1);
		end(&all);
	}
}

/* Missing code: a part may begin after a gap, or in the middle of one. */
TEST(missing_code)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);

		add(&all, w->code, sizeof(w->code), w->trace, size);
		for (unsigned i = 0; i < 1 + seed % 3; i++)
			assert_int_equal(ptah_image_remove(all.images[0],
							   w->places[any_place(w)].ip,
							   20 + world_pick(w, 400), NULL),
					 0);
		compare(&all, seed + 1);
		end(&all);
		world_free(w);
	}
}

TEST(damage)
{
	for (unsigned seed = 1; seed <= 2 + SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, false, &size);

		for (unsigned i = 0; i < 20; i++)
			m->trace[next_random(m) % size] ^= (uint8_t)(1 << next_random(m) % 8);
		add(&all, m->code, sizeof(m->code), m->trace, size);
		compare(&all, seed + 1);
		end(&all);
		machine_free(m);
	}
}

/*
 * Leaves packets of the state out of many PSB+, so that who begins there does not have the state
 * that the trace before it leads to. Returns the size that is left.
 */
static size_t thin_out(struct world *w, size_t size)
{
	uint8_t *const trace = w->trace;
	bool in_header = false, thin = false;
	size_t kept = 0;
	int n;

	for (size_t at = 0; at < size; at += (size_t)n) {
		struct ptah_packet p;

		n = ptah_packet_decode(&p, trace + at, size - at, 0);
		assert_true(n > 0);
		if (p.type == PTAH_PACKET_PSB) {
			in_header = true;
			thin = at && world_pick(w, 8);
		}
		in_header = in_header && p.type != PTAH_PACKET_PSBEND;
		if (in_header && thin && p.type != PTAH_PACKET_PSB && p.type != PTAH_PACKET_FUP &&
		    world_pick(w, 2))
			continue;
		memmove(trace + kept, trace + at, (size_t)n);
		kept += (size_t)n;
	}
	return kept;
}

/* States that do not fit: the part before goes on until they do. */
TEST(incomplete_state)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);

		size = thin_out(w, size);
		add(&all, w->code, sizeof(w->code), w->trace, size);
		compare(&all, seed);
		end(&all);
		world_free(w);
	}
}

/* Puts the CR3 into each `every`-th PSB+. Returns the new trace, of *size bytes. */
static uint8_t *add_spaces(const uint8_t *trace, size_t *size, unsigned every)
{
	const struct ptah_packet pip = {.type = PTAH_PACKET_PIP, .u.pip.cr3 = 0x1000};
	uint8_t *with = malloc(2 * *size);
	size_t kept = 0;
	unsigned count = 0;
	int n;

	assert_non_null(with);
	for (size_t at = 0; at < *size; at += (size_t)n) {
		struct ptah_packet p;

		n = ptah_packet_decode(&p, trace + at, *size - at, 0);
		assert_true(n > 0);
		memcpy(with + kept, trace + at, (size_t)n);
		kept += (size_t)n;
		if (p.type == PTAH_PACKET_PSB && !(count++ % every))
			kept += (size_t)ptah_packet_encode(&pip, with + kept, 2 * *size - kept);
	}
	*size = kept;
	return with;
}

/*
 * Code of an address space that few PSB+ name: who begins at another PSB does not find all of it,
 * and the errors of this are not those of the whole.
 */
TEST(unknown_space)
{
	const struct ptah_space space = {0x1000, PTAH_SPACE_ANY}, other = {0x2000, PTAH_SPACE_ANY};
	static uint8_t no_code[CODE / 2];

	memset(no_code, 0x06, sizeof(no_code)); /* no instruction in 64-bit code */
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct recordings all = {0};
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, false, &size);
		uint8_t *trace = add_spaces(m->trace, &size, seed * 8);

		add(&all, m->code, sizeof(m->code), trace, size);
		/* The first half is in all spaces, and the second one is something else in another.
		 */
		assert_int_equal(ptah_image_remove(all.images[0], BASE + CODE / 2, CODE / 2, NULL),
				 0);
		for (unsigned i = 0; i < 2; i++) {
			const bool is_code = (i + seed) % 2;

			assert_int_equal(ptah_image_add_bytes(
					     all.images[0], is_code ? m->code + CODE / 2 : no_code,
					     CODE / 2, BASE + CODE / 2, is_code ? &space : &other),
					 0);
		}
		if (seed & 1) /* an error at the end */
			truncate(names[0], (off_t)size - 1);
		compare(&all, seed + 1);
		end(&all);
		free(trace);
		machine_free(m);
	}
}

static void expect_refused(struct ptah_shard *into, const struct ptah_shard *from,
			   const char *reason)
{
	struct ptah_message why = {""};

	assert_int_equal(ptah_shard_join(into, from, false, &why), PTAH_E_BAD_FILE);
	if (!strstr(why.text, reason))
		fail_msg("%s, not %s", why.text, reason);
}

/* What does not belong together, or is not all there. */
TEST(refused)
{
	struct recordings all = {0};
	size_t size;
	struct machine *m = machine_new(1, true, false, false, &size);
	struct ptah_shard_plan *three, *four, *less;
	struct ptah_shard *a, *b, *c;
	struct ptah_counts *counts;
	struct ptah_message why = {""};
	struct bytes bytes;

	add(&all, m->code, sizeof(m->code), m->trace, size);
	add(&all, m->code, sizeof(m->code), m->trace, size / 2);
	three = plan_of(&all, 3);
	four = plan_of(&all, 4);
	all.count--;
	less = plan_of(&all, 3);
	all.count++;
	a = shard_of(&all, three, 2);
	b = shard_of(&all, three, 2);
	expect_refused(a, b, "shard 2 of 3 is in both");
	/* That is the reason also where the sums would be too large. */
	a->recordings[0].plus->sums.instructions = UINT64_MAX;
	b->recordings[0].plus->sums.instructions = UINT64_MAX;
	expect_refused(a, b, "shard 2 of 3 is in both");
	ptah_shard_free(a);
	ptah_shard_free(b);
	a = shard_of(&all, three, 2);
	b = shard_of(&all, four, 1);
	expect_refused(a, b, "one is of 3 shards, the other one of 4");
	ptah_shard_free(b);
	b = shard_of(&all, less, 1);
	expect_refused(a, b, "other recordings");
	ptah_shard_free(b);
	assert_int_equal(ptah_shard_finish(a, &counts, &why), PTAH_E_MISSING);
	assert_string_equal(why.text, "shards 1, 3 of 3 are missing");
	b = shard_of(&all, three, 3);
	assert_int_equal(ptah_shard_join(a, b, false, &why), 0);
	assert_int_equal(ptah_shard_finish(a, &counts, &why), PTAH_E_MISSING);
	assert_string_equal(why.text, "shard 1 of 3 is missing");
	ptah_shard_free(b);
	/* A recording of the same size that another machine has. */
	b = shard_of(&all, three, 1);
	c = shard_of(&all, three, 2);
	b->recordings[0].digest++;
	expect_refused(c, b, "different recordings shard-0.pt");
	/* ... or other binaries. */
	b->recordings[0].digest--;
	b->recordings[0].ranges[0].end++;
	assert_int_equal(ptah_shard_join(a, b, false, &why), 0);
	assert_int_equal(ptah_shard_finish(a, &counts, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "do not meet in stream 0"));
	/* Any changed byte is noticed. */
	assert_int_equal(ptah_shard_save(c, &bytes.bytes, &bytes.n), 0);
	for (size_t i = 0; i < bytes.n; i += 1 + bytes.n / 500) {
		struct ptah_shard *broken;

		((uint8_t *)bytes.bytes)[i] ^= 4;
		assert_true(ptah_shard_load(bytes.bytes, bytes.n, &broken, &why) < 0);
		((uint8_t *)bytes.bytes)[i] ^= 4;
		assert_true(ptah_shard_load(bytes.bytes, i, &broken, &why) < 0);
	}
	free(bytes.bytes);
	ptah_shard_free(a);
	ptah_shard_free(b);
	ptah_shard_free(c);
	ptah_shard_plan_free(three);
	ptah_shard_plan_free(four);
	ptah_shard_plan_free(less);
	end(&all);
	machine_free(m);
}

/* A part opens only the recordings that it needs, and leaves out one that cannot be read. */
TEST(recordings)
{
	struct recordings all = {0};
	size_t size;
	struct machine *m = machine_new(1, true, false, false, &size);
	struct ptah_shard_plan *plan;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < MOST; i++)
		add(&all, m->code, sizeof(m->code), m->trace, size);
	plan = plan_of(&all, 2 * MOST);
	for (uint32_t part = 1; part <= 2 * MOST; part++) {
		bytes += ptah_shard_plan_bytes(plan, part);
		all.opened = 0;
		ptah_shard_free(shard_of(&all, plan, part));
		assert_int_equal(all.opened, 1);
	}
	assert_true(bytes == ptah_shard_plan_bytes(plan, 0) && bytes == MOST * size);
	ptah_shard_plan_free(plan);
	end(&all);
	machine_free(m);
}
