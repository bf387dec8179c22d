/* SPDX-License-Identifier: MIT */
/*
 * Continuing after missing code, and after code that is not the one that ran: at the very next
 * address in the trace; what is reported from there on is what ran.
 */
#include "test.h"

#include "../profile/compare_profile.h"
#include "forms.h"
#include "world.h"

#include <ptah/flow.h>

/* A list of instructions that ran. */
struct list {
	uint64_t *ip;
	size_t n, room;
};

static void add_block(struct list *list, const struct ptah_flow *flow,
		      const struct ptah_item *block)
{
	struct ptah_insn insns[256];

	assert_int_equal(ptah_flow_insns(flow, block, insns, 256), block->ninsn);
	for (unsigned i = 0; i < block->ninsn; i++) {
		if (list->n == list->room) {
			list->room = 2 * list->room + 4096;
			list->ip = realloc(list->ip, list->room * sizeof(*list->ip));
			assert_non_null(list->ip);
		}
		list->ip[list->n++] = insns[i].ip;
	}
}

static struct ptah_image *image_of(const struct world *w)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, w->code, sizeof(w->code), WORLD_BASE, NULL),
			 0);
	return image;
}

static struct ptah_flow *open_flow(const struct ptah_image *image, const struct world *w,
				   size_t size)
{
	struct ptah_flow *flow;

	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	return flow;
}

/* All instructions that ran. */
static struct list read_whole(const struct world *w, size_t size)
{
	struct ptah_image *image = image_of(w);
	struct ptah_flow *flow = open_flow(image, w, size);
	struct list list = {0};
	struct ptah_item item;

	while (ptah_flow_read(flow, &item, 1) == 1)
		if (item.type == PTAH_ITEM_BLOCK)
			add_block(&list, flow, &item);
	assert_int_equal(list.n, w->ran_count);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.ip[i], w->ran[i].ip);
	ptah_flow_free(flow);
	ptah_image_free(image);
	return list;
}

/* The target of the first packet at `offset` or after it that has an address; 0: there is none. */
static uint64_t next_address(const struct ptah_item *events, size_t n, uint64_t offset)
{
	for (size_t i = 0; i < n; i++) {
		const struct ptah_item *e = &events[i];

		if (e->offset < offset)
			continue;
		switch (e->type) {
		case PTAH_ITEM_TIP:
		case PTAH_ITEM_ASYNC_BRANCH:
			return e->to;
		case PTAH_ITEM_TNT:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_ASYNC_DISABLED: /* turned on, and off at once */
			break;
		default:
			if (!(e->flags & PTAH_ITEM_IP_SUPPRESSED) && e->ip)
				return e->ip;
		}
	}
	return 0;
}

static size_t read_events(const struct world *w, size_t size, struct ptah_item **events)
{
	struct ptah_event_decoder *d;
	size_t n = 0, room = size;
	int k;

	*events = malloc(room * sizeof(**events));
	assert_non_null(*events);
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, w->trace, size, true), 0);
	while ((k = ptah_event_read(d, *events + n, room - n)) > 0)
		n += (size_t)k;
	assert_true(n < room);
	ptah_event_decoder_free(d);
	return n;
}

/* Whether `part` is contained in the whole without a gap, from *at or later. Moves *at after it. */
static bool stands_in(const struct list *whole, const struct list *part, size_t *at)
{
	for (size_t from = *at; from + part->n <= whole->n; from++) {
		if (memcmp(whole->ip + from, part->ip, part->n * sizeof(*part->ip)))
			continue;
		*at = from + part->n;
		return true;
	}
	return false;
}

struct counts {
	size_t told, errors, resyncs;
};

/* Reads everything with an image that has holes. */
static struct counts read_holes(const struct world *w, size_t size, const struct ptah_image *image,
				bool resync)
{
	struct list whole = read_whole(w, size), part = {0};
	struct ptah_flow *flow = open_flow(image, w, size);
	struct counts counts = {0};
	struct ptah_item item, *events;
	const size_t n = read_events(w, size, &events);
	uint64_t expected = 0;
	size_t at = 0;

	while (ptah_flow_read(flow, &item, 1) == 1) {
		struct ptah_place place;

		/* The first item that shows where the flow is. */
		if (item.type == PTAH_ITEM_BLOCK || item.type == PTAH_ITEM_ERROR)
			assert_true(!expected || item.ip == expected);
		if (item.ip == expected) {
			expected = 0;
		} else if (ptah_flow_place(flow, &place) == 0 && expected) {
			assert_int_equal(place.ip, expected);
			expected = 0;
		}
		if (item.type == PTAH_ITEM_BLOCK) {
			add_block(&part, flow, &item);
			counts.told += item.ninsn;
		}
		if (item.type != PTAH_ITEM_ERROR) {
			assert_int_equal(ptah_flow_resync(flow), PTAH_E_INVAL);
			continue;
		}
		assert_true(item.status == PTAH_E_NO_CODE || item.status == PTAH_E_BAD_RETCOMP ||
			    item.status == PTAH_E_MISMATCH);
		assert_true(stands_in(&whole, &part, &at));
		part.n = 0;
		counts.errors++;
		if (!resync)
			continue;
		assert_int_equal(ptah_flow_resync(flow), 0);
		assert_int_equal(ptah_flow_resync(flow), PTAH_E_INVAL);
		expected = next_address(events, n, item.offset);
		counts.resyncs += expected != 0;
	}
	assert_true(stands_in(&whole, &part, &at));
	assert_int_equal(expected, 0);
	ptah_flow_free(flow);
	free(whole.ip);
	free(part.ip);
	free(events);
	return counts;
}

/* Without deferred TIPs: nobody can tell which of them precede the outcomes that are lost. */
TEST(worlds)
{
	size_t resyncs = 0;

	for (unsigned seed = 1; seed <= 24; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w);
		struct counts with, without;

		for (unsigned i = 0; i < 1 + seed % 4; i++)
			assert_int_equal(
			    ptah_image_remove(image, w->places[any_place(w)].ip + world_pick(w, 8),
					      20 + world_pick(w, 300), NULL),
			    0);
		with = read_holes(w, size, image, true);
		without = read_holes(w, size, image, false);
		assert_true(with.told >= without.told);
		resyncs += with.resyncs;
		ptah_image_free(image);
		world_free(w);
	}
	assert_true(resyncs > 1000);
}

/*
 * Reads up to `room` items one by one, through blocks where that works, and resyncs at every error.
 */
static size_t read_resynced(struct ptah_flow *flow, struct ptah_item *items, size_t capacity,
			    size_t room)
{
	size_t n = 0;
	int k;

	do {
		struct ptah_block blocks[8];

		while (!room && (k = ptah_flow_read_blocks(flow, blocks, 8)) > 0)
			for (int i = 0; i < k; i++)
				items[n++].ip = blocks[i].ip;
		assert_true(n + 64 <= capacity);
		k = ptah_flow_read(flow, items + n, room ? room : 1);
		n += (size_t)k;
		for (int i = 0; i < k - 1; i++)
			assert_true(items[n - 2 - (size_t)i].type != PTAH_ITEM_ERROR);
		if (k && items[n - 1].type == PTAH_ITEM_ERROR)
			assert_int_equal(ptah_flow_resync(flow), 0);
	} while (k);
	return n;
}

/* An error ends the batch, so that the capacity makes no difference. */
TEST(batches)
{
	const size_t capacity = 1 << 17;
	struct ptah_item *wanted = calloc(capacity, sizeof(*wanted));
	struct ptah_item *got = calloc(capacity, sizeof(*got));

	assert_true(wanted && got);
	for (unsigned seed = 1; seed <= 12; seed++) {
		static const size_t rooms[] = {0, 2, 64};
		size_t size, n;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w);
		struct ptah_flow *flow;

		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(ptah_image_remove(image, w->places[any_place(w)].ip,
							   20 + world_pick(w, 300), NULL),
					 0);
		flow = open_flow(image, w, size);
		n = read_resynced(flow, wanted, capacity, 1);
		ptah_flow_free(flow);
		for (unsigned i = 0; i < 3; i++) {
			flow = open_flow(image, w, size);
			assert_int_equal(read_resynced(flow, got, capacity, rooms[i]), n);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(got[k].ip, wanted[k].ip);
			if (rooms[i])
				assert_memory_equal(got, wanted, n * sizeof(*got));
			ptah_flow_free(flow);
		}
		ptah_image_free(image);
		world_free(w);
	}
	free(wanted);
	free(got);
}

/*
 * The image has other code than what ran, in a few instructions: [from, to) of each. The path is
 * right from each address in the trace up to the first of them.
 */
#define CHANGES 4

struct changed {
	struct ptah_image *image;
	uint64_t from[CHANGES], to[CHANGES];
};

static struct changed change_code(struct world *w)
{
	static const uint8_t other[][2] = {{0xff, 0xe0}, {0x74, 0x00}, {0x0f, 0xff}, {0xeb, 0xfe}};
	struct changed c;

	for (unsigned i = 0; i < CHANGES; i++) { /* where it does run */
		const uint64_t ip = w->ran[world_pick(w, (unsigned)w->ran_count)].ip;

		memcpy(w->code + (ip - WORLD_BASE), other[world_pick(w, 4)], 2);
		c.from[i] =
		    ip - 15; /* an instruction that begins before it may have become longer */
		c.to[i] = ip + 2;
	}
	c.image = image_of(w);
	return c;
}

static bool is_changed(const struct changed *c, uint64_t ip)
{
	for (unsigned i = 0; i < CHANGES; i++)
		if (ip >= c->from[i] && ip < c->to[i])
			return true;
	return false;
}

/*
 * Finds the first `least` instructions of `part` in what ran, without a gap, from *at or later.
 * Returns how many follow in the same order, those included.
 */
static size_t count_ran(const struct world *w, const struct list *part, size_t least, size_t *at)
{
	for (; *at < w->ran_count; ++*at) {
		size_t n = 0;

		while (n < part->n && *at + n < w->ran_count && w->ran[*at + n].ip == part->ip[n])
			n++;
		if (n < least)
			continue;
		*at += least;
		return n;
	}
	fail_msg("%zu instructions have not run", least);
	return 0;
}

/* Returns how many instructions were told that ran. All that was told before a change has run. */
static size_t read_changed(const struct world *w, size_t size, const struct changed *c, bool resync,
			   size_t *errors)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = resync};
	struct ptah_item item = {0}, *events;
	const size_t n = read_events(w, size, &events);
	struct list part = {0};
	struct ptah_flow *flow;
	uint64_t expected = 0;
	size_t told = 0, at = 0;
	bool more;

	assert_int_equal(ptah_flow_new(c->image, &config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	do {
		struct ptah_place place;

		more = ptah_flow_read(flow, &item, 1) == 1;
		if (more && item.type == PTAH_ITEM_BLOCK) {
			assert_true(!expected || item.ip == expected);
			add_block(&part, flow, &item);
		}
		if (item.ip == expected ||
		    (ptah_flow_place(flow, &place) == 0 && place.ip == expected))
			expected = 0;
		if (more && item.type != PTAH_ITEM_ERROR)
			continue;
		if (part.n) {
			size_t least = 0;

			while (least < part.n && !is_changed(c, part.ip[least]))
				least++;
			told += count_ran(w, &part, least, &at);
			part.n = 0;
		}
		*errors += more;
		expected = resync && more ? next_address(events, n, item.offset) : 0;
	} while (more);
	ptah_flow_free(flow);
	free(part.ip);
	free(events);
	return told;
}

TEST(changed_code)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = true};
	size_t with = 0, without = 0, errors = 0;

	for (unsigned seed = 1; seed <= 12; seed++) {
		size_t size, few = 0;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct changed c = change_code(w);

		without += read_changed(w, size, &c, false, &few);
		with += read_changed(w, size, &c, true, &errors);
		assert_true(
		    forms_equal(c.image, &config, w->trace, size, seed % 3 * 50, seed * 10));
		assert_true(profile_equals_flow(c.image, &config, w->trace, size, seed % 3 * 70));
		ptah_image_free(c.image);
		world_free(w);
	}
	assert_true(errors > 100 && with > without);
}

/*
 * A recording with a kernel whose code is not there: the code of one size is the program, all other
 * code is the kernel. They reach each other by far branches, interrupts and IRET only.
 */
#define USER_END (WORLD_BASE + REGION)

static bool is_user(uint64_t ip)
{
	return ip < USER_END;
}

/* How often the kernel was entered, or traced again after it had not been. */
static size_t kernel_visits(const struct world *w, size_t size)
{
	struct ptah_item *events;
	const size_t n = read_events(w, size, &events);
	size_t visits = 0;

	for (size_t i = 0; i < w->ran_count; i++)
		visits += !is_user(w->ran[i].ip) && (!i || is_user(w->ran[i - 1].ip));
	for (size_t i = 0; i < n; i++)
		visits +=
		    (events[i].type == PTAH_ITEM_ENABLED || events[i].type == PTAH_ITEM_OVERFLOW) &&
		    !is_user(events[i].ip);
	free(events);
	return visits;
}

/* The instructions of the program, without the kernel's. */
static struct list user_code(const struct world *w)
{
	struct list list = {.ip = calloc(w->ran_count, sizeof(*list.ip)), .room = w->ran_count};

	assert_non_null(list.ip);
	for (size_t i = 0; i < w->ran_count; i++)
		if (is_user(w->ran[i].ip))
			list.ip[list.n++] = w->ran[i].ip;
	return list;
}

/*
 * Reads with a flow that continues by itself, or does not. What is reported between two errors must
 * have run without a gap. Returns the number of errors.
 */
static size_t read_user_code(const struct world *w, size_t size, const struct ptah_image *image,
			     bool resync, const struct list *ran, struct list *told)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = resync};
	size_t errors = 0, at = 0, from = 0;
	struct ptah_flow *flow;
	struct list part;
	int n;

	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	do {
		struct ptah_item item = {0};

		n = ptah_flow_read(flow, &item, 1);
		if (n && item.type == PTAH_ITEM_BLOCK)
			add_block(told, flow, &item);
		if (n && item.type != PTAH_ITEM_ERROR)
			continue;
		part = (struct list){.ip = told->ip + from, .n = told->n - from};
		assert_true(stands_in(ran, &part, &at));
		from = told->n;
		if (!n)
			break;
		assert_int_equal(item.status, PTAH_E_NO_CODE);
		assert_true(!resync || item.flags & PTAH_ITEM_IP_SUPPRESSED || !is_user(item.ip));
		errors++;
	} while (n);
	ptah_flow_free(flow);
	return errors;
}

static struct ptah_image *user_image(const struct world *w)
{
	struct ptah_image *image = image_of(w);

	assert_int_equal(ptah_image_remove(image, USER_END, WORLD_SIZE - REGION, NULL), 0);
	return image;
}

/*
 * Every instruction that the program ran is reported, and each visit of the kernel is one error.
 * With return compression some returns are not known: this kernel does not come back to where it
 * was entered.
 */
TEST(all_user_code)
{
	for (unsigned seed = 1; seed <= 24; seed++) {
		size_t size, errors;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = user_image(w);
		struct list ran = user_code(w), told = {0}, less = {0};

		errors = read_user_code(w, size, image, true, &ran, &told);
		if (!(seed & 1)) {
			assert_true(errors <= kernel_visits(w, size));
			assert_int_equal(told.n, ran.n);
		}
		read_user_code(w, size, image, false, &ran, &less);
		assert_true(less.n < told.n);
		free(ran.ip);
		free(told.ip);
		free(less.ip);
		ptah_image_free(image);
		world_free(w);
	}
}

/*
 * A program of functions that call each other, with a system call and an interrupt in each, over a
 * kernel with calls of its own: it returns from them before it returns to the program.
 */
#define FUNCTIONS     8
#define FUNCTION_SIZE 0x20
#define KERNEL	      UINT64_C(0xffffffff81000000)

static const uint8_t function[] = {
    0x90,				/* nop */
    0xe8, 0x1a, 0,    0,    0,		/* call the next function */
    0x89, 0xc0,				/* mov eax, eax */
    0x0f, 0x05,				/* syscall */
    0x0f, 0x84, 0xf6, 0xff, 0xff, 0xff, /* je to the mov */
    0xc3,				/* ret */
};

/* Calls and returns in the kernel, some of them not compressed, and what else leaves packets. */
static void run_kernel(struct world *w, unsigned depth)
{
	const uint64_t site = KERNEL + world_pick(w, 1000);

	generator_tnt(&w->g, world_pick(w, 2));
	if (depth < 20 && world_pick(w, 3)) {
		generator_call(&w->g, site);
		if (!world_pick(w, 3))
			generator_tip(&w->g, KERNEL + 0x2000 + world_pick(w, 100));
		run_kernel(w, depth + 1);
		generator_return(&w->g, site);
	}
	if (!world_pick(w, 20)) {
		SEND(w, CBR, .u.cbr.ratio = 20);
		world_send_psb(w, site);
	}
}

static void visit_kernel(struct world *w, uint64_t back)
{
	generator_tip(&w->g, KERNEL);
	run_kernel(w, 0);
	generator_tip(&w->g, back);
}

static void ran_user(struct world *w, uint64_t ip)
{
	assert_true(w->ran_count < RAN_MAX);
	w->ran[w->ran_count++].ip = ip;
}

/* Runs a function; returns when it has returned. */
static void run_function(struct world *w, unsigned number, uint64_t back, unsigned *visits)
{
	const uint64_t ip = WORLD_BASE + number * FUNCTION_SIZE;
	bool again;

	ran_user(w, ip);
	ran_user(w, ip + 1);
	generator_call(&w->g, ip + 6);
	if (number + 1 < FUNCTIONS) {
		run_function(w, number + 1, ip + 6, visits);
	} else { /* the last one calls a lone ret */
		ran_user(w, ip + FUNCTION_SIZE);
		generator_return(&w->g, ip + 6);
	}
	do {
		if (!world_pick(w, 3)) {
			generator_flush_tnt(&w->g);
			generator_ip_packet(&w->g, OPCODE_FUP, ip + 6);
			visit_kernel(w, ip + 6);
			++*visits;
		}
		ran_user(w, ip + 6);
		ran_user(w, ip + 8);
		visit_kernel(w, ip + 10);
		++*visits;
		ran_user(w, ip + 10);
		again = world_pick(w, 2);
		generator_tnt(&w->g, again);
	} while (again);
	ran_user(w, ip + 16);
	generator_return(&w->g, back);
}

#define MAIN (WORLD_BASE + 0x200)

static struct world *calling_world(unsigned seed, bool retcomp, size_t *size, unsigned *visits)
{
	static const uint8_t code[] = {0xe8, 0xfb, 0xfd, 0xff, 0xff, /* call the first function */
				       0xff, 0xe0};		     /* jmp rax */
	struct world *w = world_empty(retcomp, seed & 1);

	w->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	*visits = 0;
	for (unsigned i = 0; i < FUNCTIONS; i++)
		memcpy(w->code + i * FUNCTION_SIZE, function, sizeof(function));
	w->code[FUNCTIONS * FUNCTION_SIZE] = 0xc3;
	memcpy(w->code + (MAIN - WORLD_BASE), code, sizeof(code));
	world_send_psb(w, 0);
	generator_enable(&w->g, MAIN);
	for (unsigned i = 0; i < 30; i++) {
		ran_user(w, MAIN);
		run_function(w, 0, MAIN + 5, visits);
		ran_user(w, MAIN + 5);
		generator_tip(&w->g, MAIN);
	}
	generator_async_disable(&w->g, MAIN);
	*size = (size_t)(w->g.out - w->trace);
	return w;
}

/*
 * The program's calls are known after the kernel, too: with return compression its returns have no
 * address.
 */
TEST(returns_after_the_kernel)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = true};

	for (unsigned seed = 1; seed <= 20; seed++) {
		size_t size;
		unsigned visits;
		struct world *w = calling_world(seed, seed & 2, &size, &visits);
		struct ptah_image *image = image_of(w);
		struct list ran = user_code(w), told = {0};

		assert_int_equal(read_user_code(w, size, image, true, &ran, &told), visits);
		assert_int_equal(told.n, w->ran_count);
		assert_true(forms_equal(image, &config, w->trace, size, seed % 3 * 50, seed * 10));
		assert_true(profile_equals_flow(image, &config, w->trace, size, seed % 3 * 70));
		free(ran.ip);
		free(told.ip);
		ptah_image_free(image);
		world_free(w);
	}
}

/* Paths, blocks and steps, profiles and marks: the same items in every form, in chunks too. */
TEST(all_forms)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = true};

	for (unsigned seed = 1; seed <= 8; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = user_image(w);

		assert_true(forms_equal(image, &config, w->trace, size, seed % 3 * 50, seed * 30));
		assert_true(profile_equals_flow(image, &config, w->trace, size, seed % 3 * 70));
		ptah_image_free(image);
		world_free(w);
	}
}
