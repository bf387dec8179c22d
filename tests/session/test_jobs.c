/* SPDX-License-Identifier: MIT */
/*
 * Counting and reading with several threads gives the results of one: random programs, cut into
 * small segments.
 */
#include "test.h"

#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "base/path_hash.h"
#include "session/stream.h"

#include <ptah/session.h>

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define PATH "jobs.pt"

/* Code that is missing from the image of a session. */
struct hole {
	uint64_t ip, size;
};

static struct ptah_session *session_with_holes(const uint8_t *code, size_t code_size,
					       const uint8_t *trace, size_t size,
					       const struct hole *holes, size_t n)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_session *session;
	struct ptah_image *image;
	struct ptah_message why;
	FILE *file = fopen(PATH, "wb");

	assert_non_null(file);
	assert_true(fwrite(trace, 1, size, file) == size);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, code_size, BASE, NULL), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ptah_image_remove(image, holes[i].ip, holes[i].size, NULL), 0);
	config.image = image;
	assert_int_equal(ptah_session_open(PATH, &config, &session, &why), 0);
	ptah_image_free(image);
	session->streams[0].info.has_truth = true; /* a wrong truth, to see what was decoded */
	return session;
}

static struct ptah_session *session_of(const uint8_t *code, size_t code_size, const uint8_t *trace,
				       size_t size)
{
	return session_with_holes(code, code_size, trace, size, NULL, 0);
}

/* The counts in a form that memcmp can compare. */
struct counted {
	struct ptah_profile_totals totals;
	struct ptah_profile_block *blocks;
	struct ptah_profile_edge *edges;
	size_t block_count, edge_count;
};

static int take(void *context, size_t stream, struct ptah_profile *profile)
{
	struct counted *c = context;

	(void)stream;
	assert_int_equal(ptah_profile_totals(profile, &c->totals), 0);
	assert_int_equal(ptah_profile_blocks(profile, &c->blocks, &c->block_count), 0);
	assert_int_equal(ptah_profile_edges(profile, &c->edges, &c->edge_count), 0);
	return 0;
}

static struct counted count(const struct ptah_session *session, const struct ptah_jobs *jobs)
{
	struct counted c = {0};

	assert_int_equal(ptah_session_count(session, jobs, NULL, take, &c), 0);
	assert_non_null(c.blocks);
	return c;
}

static void counts_are_equal(const struct counted *a, const struct counted *b)
{
	assert_true(a->block_count == b->block_count && a->edge_count == b->edge_count);
	assert_memory_equal(&a->totals, &b->totals, sizeof(a->totals));
	for (size_t i = 0; i < a->block_count; i++) {
		const struct ptah_profile_block *x = &a->blocks[i], *y = &b->blocks[i];

		assert_true(x->ip == y->ip && x->end == y->end && x->target == y->target &&
			    x->count == y->count && x->taken == y->taken &&
			    x->unknown == y->unknown && x->mode == y->mode &&
			    x->insn_class == y->insn_class && x->truncated == y->truncated &&
			    x->space == y->space);
	}
	for (size_t i = 0; i < a->edge_count; i++)
		assert_true(a->edges[i].from == b->edges[i].from &&
			    a->edges[i].to == b->edges[i].to &&
			    a->edges[i].count == b->edges[i].count &&
			    a->edges[i].space == b->edges[i].space);
}

static void free_counted(struct counted *c)
{
	free(c->blocks);
	free(c->edges);
}

static size_t read_all(const struct ptah_session *session, const struct ptah_jobs *jobs,
		       struct ptah_item **items)
{
	struct ptah_reader *reader;
	size_t count = 0, room = 0;
	int n;

	*items = NULL;
	assert_int_equal(ptah_reader_new(session, 0, jobs, &reader), 0);
	do {
		if (count + 100 > room) {
			room = 2 * room + 1000;
			*items = realloc(*items, room * sizeof(**items));
			assert_non_null(*items);
		}
		n = ptah_reader_read(reader, *items + count, 100);
		assert_true(n >= 0);
		count += (size_t)n;
	} while (n);
	ptah_reader_free(reader);
	return count;
}

/* With decoders that know the code already, and may have counted other segments. */
static void compare_kept(const struct ptah_session *session, const struct ptah_jobs *jobs,
			 const struct counted *one)
{
	struct ptah_jobs j = *jobs;

	for (unsigned i = 0; i < 4; i++) {
		struct counted again;

		j.jobs = i == 1 ? 1 : jobs->jobs;
		again = count(session, &j);
		counts_are_equal(one, &again);
		free_counted(&again);
	}
}

static struct ptah_verify verify(const struct ptah_session *session, const struct ptah_jobs *jobs)
{
	struct ptah_verify v;

	assert_int_equal(ptah_session_verify(session, 0, jobs, &v), 0);
	return v;
}

/* Compares the verification with the sums of the items; the path hash is that of all their runs. */
static void verify_adds_up(const struct ptah_verify *v, const struct ptah_item *items, size_t n)
{
	struct path_hash path = {0};
	uint64_t errors = 0, instructions = 0;

	for (size_t i = 0; i < n; i++) {
		if (items[i].type == PTAH_ITEM_ERROR && !errors++) {
			struct ptah_item first = items[i];

			first.code.space = 0; /* a number of the reader's */
			assert_memory_equal(&first, &v->first, sizeof(first));
		}
		if (items[i].type != PTAH_ITEM_BLOCK)
			continue;
		instructions += items[i].ninsn;
		path_hash_add(&path, items[i].ip, items[i].end);
	}
	assert_true(v->errors == errors && v->decoded.instructions == instructions &&
		    v->decoded.path_hash == path_hash_value(&path));
}

/* Segments: results that have copies of the items, a few in each. */

struct part {
	size_t n;
	struct ptah_item items[37];
};

struct parts {
	struct ptah_item *items;
	size_t count, room;
	unsigned refuse; /* each result of this number is refused; 0: none is */
	unsigned end;	 /* at this one everything ends; 0: it does not */
	unsigned taken;
	bool by_caller; /* the caller's thread works on a segment */
	atomic_int live;
};

static int run_part(void *context, struct ptah_segment *segment, struct ptah_reader *reader,
		    bool ahead)
{
	struct parts *p = context;
	const bool by_caller = !ahead;
	int n, status = 0;

	if (by_caller)
		p->by_caller = true;
	do {
		struct part *part = malloc(sizeof(*part));

		assert_non_null(part);
		n = ptah_reader_read(reader, part->items, ARRAY_SIZE(part->items));
		assert_true(n >= 0);
		part->n = (size_t)n;
		for (int i = 0; i < n; i++) {
			struct ptah_insn insn;

			if (part->items[i].type != PTAH_ITEM_BLOCK)
				continue;
			assert_int_equal(ptah_reader_insns(reader, &part->items[i], &insn, 1), 1);
			assert_true(insn.ip == part->items[i].ip);
		}
		p->live++;
		status = ptah_segment_put(segment, part);
	} while (n && !status);
	if (by_caller)
		p->by_caller = false;
	return status < 0 ? status : 0;
}

static void drop_part(void *context, void *result)
{
	((struct parts *)context)->live--;
	free(result);
}

static int take_part(void *context, void *result, uint64_t offset)
{
	const struct part *part = result;
	struct parts *p = context;
	int status = 0;

	(void)offset;
	p->taken++;
	if (p->refuse && !p->by_caller && p->taken % p->refuse == 0)
		status = 1;
	if (p->taken == p->end)
		status = PTAH_E_SYSTEM;
	if (!status && p->count + part->n > p->room) {
		p->room = 2 * p->room + 1000;
		p->items = realloc(p->items, p->room * sizeof(*p->items));
		assert_non_null(p->items);
	}
	if (!status && part->n) {
		memcpy(p->items + p->count, part->items, part->n * sizeof(*part->items));
		p->count += part->n;
	}
	drop_part(context, result);
	return status;
}

static const struct ptah_segment_functions part_functions = {.size = sizeof(part_functions),
							     .run = run_part,
							     .take = take_part,
							     .drop = drop_part,
							     .results = 3};

/* What the segments have is what one thread reads, also if results are refused. */
static void compare_segments(const struct ptah_session *session, const struct ptah_jobs *jobs,
			     const struct ptah_item *items, size_t n)
{
	for (unsigned refuse = 0; refuse <= 3; refuse += 3) {
		struct parts p = {.refuse = refuse};

		assert_int_equal(ptah_session_read_segments(session, 0, jobs, &part_functions, &p),
				 0);
		assert_int_equal(p.live, 0);
		assert_true(p.count == n);
		for (size_t i = 0; i < n; i++)
			assert_memory_equal(&items[i], &p.items[i], sizeof(*items));
		free(p.items);
	}
}

/* Compares everything with one thread and with several. */
static void compare(const struct ptah_session *session, uint64_t segment)
{
	struct counted one = count(session, NULL);
	struct ptah_item *items, *more;
	const size_t n = read_all(session, NULL, &items);
	struct ptah_verify verified = verify(session, NULL);
	struct ptah_workers *workers;

	verify_adds_up(&verified, items, n);
	assert_int_equal(ptah_workers_new(session, &workers), 0);
	for (unsigned jobs = 2; jobs <= 16; jobs += 14) {
		struct ptah_jobs j = {.size = sizeof(j), .jobs = jobs, .segment = segment};
		struct counted many = count(session, &j);
		struct ptah_verify v = verify(session, &j);

		counts_are_equal(&one, &many);
		free_counted(&many);
		assert_memory_equal(&v, &verified, sizeof(v));
		assert_true(read_all(session, &j, &more) == n);
		for (size_t i = 0; i < n; i++)
			assert_memory_equal(&items[i], &more[i], sizeof(*items));
		free(more);
		j.workers = workers;
		compare_kept(session, &j, &one);
		compare_segments(session, &j, items, n);
	}
	ptah_workers_free(workers);
	free(items);
	free_counted(&one);
}

static size_t segments(const struct ptah_session *session, uint64_t size)
{
	struct segment_finder finder = {.session = session};
	struct segment segment;
	size_t n = 0;

	assert_int_equal(segment_begin(&finder, 0, size), 0);
	while (segment_next(&finder, &segment))
		n++;
	segment_end(&finder);
	return n;
}

/* ThreadSanitizer is slower still. */
#ifdef __SANITIZE_THREAD__
#define PROGRAMS 2
#else
#define PROGRAMS RANDOM_PROGRAMS(8, 4)
#endif

static void machines(void **state)
{
	static const uint64_t sizes[] = {64, 1000, 5000};

	(void)state;
	for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_session *s = session_of(m->code, sizeof(m->code), m->trace, size);

		assert_true(segments(s, 1000) > 3);
		compare(s, sizes[seed % 3]);
		ptah_session_close(s);
		machine_free(m);
	}
}

/* Address spaces, modes, transactions, filters: state that a PSB+ does not contain. */
static void worlds(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_session *s = session_of(w->code, sizeof(w->code), w->trace, size);

		compare(s, seed % 3 ? 300 : 2000);
		ptah_session_close(s);
		world_free(w);
	}
}

/* Missing code: a segment may begin after a gap, or in the middle of one. */
static void missing_code(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= (PROGRAMS + 1) / 2; seed++) {
		struct hole holes[3];
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_session *s;

		for (unsigned i = 0; i < 3; i++)
			holes[i] =
			    (struct hole){w->places[any_place(w)].ip, 20 + world_pick(w, 400)};
		s = session_with_holes(w->code, sizeof(w->code), w->trace, size, holes,
				       1 + seed % 3);
		compare(s, seed % 3 ? 300 : 2000);
		ptah_session_close(s);
		world_free(w);
	}
}

/* Turns the CBR packet of each PSB+ but the first into PADs. */
static void drop_cbr(uint8_t *trace, size_t size)
{
	static const uint8_t cbr[] = {0x02, 0x03};
	const uint8_t *const end = trace + size, *psb = ptah_packet_find_psb(trace, end);

	while ((psb = ptah_packet_find_psb(psb + 16, end)) && end - psb > 64) {
		uint8_t *at = trace + (psb + 16 - trace);

		while (memcmp(at, cbr, sizeof(cbr)) != 0)
			at++;
		memset(at, 0, 4);
	}
}

/*
 * Only the first PSB+ carries the ratio of the clocks, so that no segment begins in the state in
 * which the one before it ended: each is counted again from there.
 */
static void lost_state(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= (PROGRAMS + 1) / 2; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_session *s;

		drop_cbr(m->trace, size);
		s = session_of(m->code, sizeof(m->code), m->trace, size);
		compare(s, seed % 2 ? 200 : 2000);
		ptah_session_close(s);
		machine_free(m);
	}
}

static void damage(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 2 * PROGRAMS; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_session *s;

		for (unsigned i = 0; i < 20; i++)
			m->trace[next_random(m) % size] ^= (uint8_t)(1 << next_random(m) % 8);
		s = session_of(m->code, sizeof(m->code), m->trace, size);
		compare(s, 500);
		ptah_session_close(s);
		machine_free(m);
	}
}

static bool enough(void *context, uint64_t bytes)
{
	(void)bytes;
	return ++*(unsigned *)context < 3;
}

/* A caller that ends the count early gets the counts so far. */
static void early_end(void **state)
{
	for (unsigned jobs = 1; jobs <= 3; jobs++) {
		unsigned calls = 0;
		const struct ptah_jobs j = {.size = sizeof(j),
					    .jobs = jobs,
					    .segment = 100,
					    .progress = enough,
					    .context = &calls};
		size_t size;
		struct machine *m = machine_new(3, true, false, false, &size);
		struct ptah_session *s = session_of(m->code, sizeof(m->code), m->trace, size);
		struct counted c = {0};
		struct ptah_reader *reader;
		struct ptah_item item;

		(void)state;
		assert_int_equal(ptah_session_count(s, &j, NULL, take, &c), 0);
		assert_non_null(c.blocks);
		free_counted(&c);
		/* ... and a reader may be freed at any time. */
		assert_int_equal(ptah_reader_new(s, 0, &j, &reader), 0);
		assert_int_equal(ptah_reader_read(reader, &item, 1), 1);
		ptah_reader_free(reader);
		ptah_session_close(s);
		machine_free(m);
	}
}

/* Workers belong to one session, and a changed configuration invalidates what they keep. */
/* No result is lost in memory when a function ends the work. */
static void early_end_of_segments(void **state)
{
	const struct ptah_jobs j = {.size = sizeof(j), .jobs = 3, .segment = 64};
	size_t size;
	struct machine *m = machine_new(1, true, false, false, &size);
	struct ptah_session *s = session_of(m->code, sizeof(m->code), m->trace, size);

	(void)state;
	for (unsigned end = 1; end < 20; end += 6) {
		struct parts p = {.end = end};

		assert_int_equal(ptah_session_read_segments(s, 0, &j, &part_functions, &p),
				 PTAH_E_SYSTEM);
		assert_int_equal(p.live, 0);
		assert_int_equal(p.taken, end);
		free(p.items);
	}
	ptah_session_close(s);
	machine_free(m);
}

static void foreign_workers(void **state)
{
	size_t size;
	struct machine *m = machine_new(5, true, false, false, &size);
	struct ptah_session *s = session_of(m->code, sizeof(m->code), m->trace, size);
	struct ptah_session *other = session_of(m->code, sizeof(m->code), m->trace, size);
	struct ptah_flow_config config;
	struct ptah_jobs j = {.size = sizeof(j), .jobs = 2, .segment = 500};
	struct counted c = {0}, kept, anew;

	(void)state;
	assert_int_equal(ptah_workers_new(NULL, &j.workers), PTAH_E_INVAL);
	assert_int_equal(ptah_workers_new(s, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_workers_new(s, &j.workers), 0);
	assert_int_equal(ptah_session_count(other, &j, NULL, take, &c), PTAH_E_INVAL);
	kept = count(s, &j);
	free_counted(&kept);
	ptah_session_get_flow(s, &config);
	config.events.trace.no_retcomp = true; /* with this, a compressed return is an error */
	assert_int_equal(ptah_session_set_flow(s, &config), 0);
	kept = count(s, &j);
	anew = count(s, NULL);
	counts_are_equal(&anew, &kept);
	free_counted(&anew);
	free_counted(&kept);
	ptah_workers_free(j.workers);
	ptah_workers_free(NULL);
	ptah_session_close(other);
	ptah_session_close(s);
	machine_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(machines),	       cmocka_unit_test(worlds),
	    cmocka_unit_test(missing_code),    cmocka_unit_test(lost_state),
	    cmocka_unit_test(damage),	       cmocka_unit_test(early_end),
	    cmocka_unit_test(foreign_workers), cmocka_unit_test(early_end_of_segments),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unlink(PATH);
	return failed;
}
