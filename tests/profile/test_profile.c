/* SPDX-License-Identifier: MIT */
/*
 * Profiles of random programs: equal to the flow's items, block by block, and
 * to what the simulated programs did.
 */
#include "test.h"

#include "profile/profile_internal.h"

#include "../flow/random_machine.h"
#include "../flow/timed_trace.h"
#include "../flow/world.h"
#include "compare_profile.h"
#include "flow/state.h"

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

static void machine(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t chunk)
{
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;
	size_t size;
	struct machine *m = machine_new(seed, retcomp, long_tnt, lossy, &size);
	struct ptah_image *image = image_of(m->code, sizeof(m->code));

	assert_true(profile_equals_flow(image, NULL, m->trace, size, chunk));
	assert_int_equal(ptah_profile_new(image, NULL, &profile), 0);
	assert_int_equal(ptah_profile_feed(profile, m->trace, size, true), 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_true(totals.errors == 0);
	assert_true(totals.overflows == m->overflows);
	assert_true(totals.classes[PTAH_INSN_COND] == m->conditional);
	if (!lossy)
		assert_true(totals.instructions == m->instructions);
	ptah_profile_free(profile);
	ptah_image_free(image);
	machine_free(m);
}

TEST(machines)
{
	static const size_t chunks[] = {0, 1, 100};

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(16, 8); seed++)
		machine(seed, seed & 1, seed & 2, seed & 4, chunks[seed % 3]);
}

/*
 * With the configuration that returns are not compressed, the rows work without a return address
 * stack.
 */
TEST(no_return_compression)
{
	const struct ptah_flow_config config = {.size = sizeof(config),
						.events.trace.no_retcomp = true};

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(12, 4); seed++) {
		size_t size;
		/* Half of the time the configuration is wrong: then both report the same errors. */
		struct machine *m = machine_new(seed, seed & 1, false, false, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));

		assert_true(profile_equals_flow(image, &config, m->trace, size, 0));
		ptah_image_free(image);
		machine_free(m);
	}
}

TEST(worlds)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(16, 8); seed++) {
		const struct ptah_flow_config config = {.size = sizeof(config),
							.events.trace.no_tnt = seed % 8 == 0};
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		assert_true(profile_equals_flow(image, &config, w->trace, size, 0));
		assert_true(profile_equals_flow(image, &config, w->trace, size, 37));
		ptah_image_free(image);
		world_free(w);
	}
}

/* Damage anywhere: the same errors, and the same counts around them. */
TEST(damage)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(28, 8); seed++) {
		size_t size;
		struct world *w = world_new(seed % 7 + 1, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		for (unsigned i = 0; i < 10; i++)
			w->trace[world_pick(w, (unsigned)size)] ^= (uint8_t)(1 << world_pick(w, 8));
		assert_true(profile_equals_flow(image, NULL, w->trace, size, seed & 8 ? 0 : 501));
		ptah_image_free(image);
		world_free(w);
	}
}

/* The events that a profile and a plain flow report. */
struct told {
	struct ptah_item items[40000];
	size_t count;
};

static void tell(void *context, const struct ptah_item *item)
{
	struct told *told = context;

	assert_true(told->count < ARRAY_SIZE(told->items));
	told->items[told->count++] = *item;
}

/* Reads up to the pause or the end, whichever comes first. */
static void read_events(struct ptah_flow *flow, struct told *told)
{
	struct ptah_item items[64];
	int n;

	while ((n = ptah_flow_read(flow, items, ARRAY_SIZE(items))) > 0)
		for (int i = 0; i < n; i++)
			if (items[i].type != PTAH_ITEM_BLOCK)
				tell(told, &items[i]);
}

/* Pauses both at every `step` ticks. */
static void compare_times(const struct ptah_image *image, const struct ptah_flow_config *config,
			  const uint8_t *trace, size_t size, uint64_t step)
{
	static struct told a, b;
	struct ptah_flow_config plain = *config;
	struct ptah_profile_config counting = {
	    .size = sizeof(counting), .flow = *config, .on_event = tell, .context = &a};
	struct ptah_profile *profile;
	struct ptah_flow *flow;
	uint64_t limit = step ? 0 : UINT64_MAX;
	size_t same = 0;
	int status;

	a.count = b.count = 0;
	plain.no_paths = true;
	assert_int_equal(ptah_flow_new(image, &plain, &flow), 0);
	assert_int_equal(ptah_profile_new(image, &counting, &profile), 0);
	profile_set_time_limit(profile, limit);
	flow_set_time_limit(flow, limit);
	assert_int_equal(ptah_flow_feed(flow, trace, size, true), 0);
	status = ptah_profile_feed(profile, trace, size, true);
	for (;;) {
		struct ptah_time time;

		read_events(flow, &b);
		assert_int_equal(status, flow_is_paused(flow) ? PROFILE_PAUSED : 0);
		assert_int_equal(a.count, b.count);
		assert_memory_equal(a.items + same, b.items + same,
				    (a.count - same) * sizeof(*a.items));
		same = a.count;
		if (!status)
			break;
		flow_get_time(flow, &time);
		limit = time.tsc + step;
		profile_set_time_limit(profile, limit);
		flow_set_time_limit(flow, limit);
		status = profile_resume(profile);
	}
	ptah_profile_free(profile);
	ptah_flow_free(flow);
}

/*
 * CYC packets are added up between events; each event has the time after all CYC packets before it.
 */
TEST(clocks)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(28, 8); seed++) {
		struct ptah_flow_config config = {.size = sizeof(config)};
		size_t size, timed_size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));
		uint8_t *timed = timed_new(m->trace, size, seed, &timed_size, &config);

		assert_non_null(timed);
		assert_true(profile_equals_flow(image, &config, timed, timed_size, 0));
		compare_times(image, &config, timed, timed_size, 0);
		compare_times(image, &config, timed, timed_size, 5000);
		free(timed);
		ptah_image_free(image);
		machine_free(m);
	}
}

/* A packet that leaves more calls open than an effect holds. */
TEST(many_calls)
{
	static const uint8_t psb[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
				      0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};
	static const uint8_t begin[] = {0x99, 0x01, 0x7d, 0, 0, 0x40, 0, 0, 0, 0x02, 0x23};
	uint8_t code[16 * 10] = {0xe8, 11, 0, 0, 0, 0xeb, 0xf9}; /* again: call f0; jmp again */
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;
	struct ptah_image *image;
	uint8_t trace[600];

	for (unsigned i = 1; i < 9; i++) { /* call the next one; ret */
		code[16 * i] = 0xe8;
		code[16 * i + 1] = 11;
		code[16 * i + 5] = 0xc3;
	}
	memcpy(code + 16 * 9, (uint8_t[]){0x75, 0x00, 0xc3}, 3); /* jne to ret */
	memcpy(trace, psb, sizeof(psb));
	memcpy(trace + sizeof(psb), begin, sizeof(begin));
	/*
	 * Each packet: 6 outcomes, the branch taken or a return. A round is the branch and 9
	 * returns.
	 */
	memset(trace + sizeof(psb) + sizeof(begin), 0xfe, 500);
	image = image_of(code, sizeof(code));
	assert_true(profile_equals_flow(image, NULL, trace, sizeof(psb) + sizeof(begin) + 500, 0));
	assert_int_equal(ptah_profile_new(image, NULL, &profile), 0);
	assert_int_equal(ptah_profile_feed(profile, trace, sizeof(psb) + sizeof(begin) + 500, true),
			 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_true(totals.errors == 0 && totals.classes[PTAH_INSN_COND] == 300 &&
		    totals.classes[PTAH_INSN_RETURN] == 2700);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

/*
 * Code with so many places, and so many outcomes at each, that a profile with small tables keeps
 * its counts in lines, in the rows beside them, and forgets both now and then: branches to the next
 * instruction, and now and then a call of a function that has one as well.
 */
struct many_outcomes {
	uint8_t code[2048], trace[1 << 16];
	size_t size; /* of the trace */
	uint32_t random;
	unsigned payload;
	uint64_t branches, returns;
};

static unsigned pick(struct many_outcomes *m, unsigned n)
{
	m->random = m->random * 1664525 + 1013904223;
	return (m->random >> 16) % n;
}

static void put_packet(struct many_outcomes *m)
{
	if (m->payload > 1)
		m->trace[m->size++] = (uint8_t)(m->payload << 1);
	m->payload = 1;
}

static void put_outcome(struct many_outcomes *m, bool taken)
{
	m->payload = m->payload << 1 | taken;
	if (m->payload >= 64 || !pick(m, 8))
		put_packet(m);
}

static void put_branch(struct many_outcomes *m)
{
	put_outcome(m, pick(m, 2));
	m->branches++;
}

/* The function at the end is called, and returns to `to` by an outcome or by a TIP. */
static void put_call(struct many_outcomes *m, uint32_t to)
{
	put_branch(m);
	m->returns++;
	if (pick(m, 3)) {
		put_outcome(m, true);
		return;
	}
	put_packet(m);
	m->trace[m->size++] = 0x4d; /* TIP with the low 4 bytes */
	store_le32(m->trace + m->size, to);
	m->size += 4;
}

static void outcomes_of(unsigned elements, size_t chunk)
{
	static const uint8_t begin[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,
					0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x99, 0x01,
					0x7d, 0,    0,	  0x40, 0,    0,    0,	  0x02, 0x23};
	static struct many_outcomes m;
	const uint32_t function = 5 * elements + 5;
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;
	struct ptah_image *image;

	m = (struct many_outcomes){.size = sizeof(begin), .random = elements, .payload = 1};
	memcpy(m.trace, begin, sizeof(begin));
	for (unsigned i = 0; i < elements; i++) { /* jne to nops; or call */
		memcpy(m.code + 5 * i, (uint8_t[]){0x75, 0, 0x90, 0x90, 0x90}, 5);
		if (i % 7 == 3) {
			m.code[5 * i] = 0xe8;
			store_le32(m.code + 5 * i + 1, function - 5 * i - 5);
		}
	}
	m.code[5 * elements] = 0xe9; /* jmp to the first */
	store_le32(m.code + 5 * elements + 1, 0 - function);
	memcpy(m.code + function, (uint8_t[]){0x75, 0, 0xc3}, 3); /* jne; ret */
	while (m.size < sizeof(m.trace) - 16 * elements)
		for (unsigned i = 0; i < elements; i++) {
			if (i % 7 == 3)
				put_call(&m, BASE + 5 * i + 5);
			else
				put_branch(&m);
		}
	put_packet(&m);
	image = image_of(m.code, sizeof(m.code));
	assert_true(profile_equals_flow(image, NULL, m.trace, m.size, chunk));
	assert_int_equal(
	    ptah_profile_new(image,
			     &(struct ptah_profile_config){
				 .size = sizeof(struct ptah_profile_config), .max_places = 1},
			     &profile),
	    0);
	assert_int_equal(ptah_profile_feed(profile, m.trace, m.size, true), 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_true(totals.errors == 0 && totals.classes[PTAH_INSN_COND] == m.branches &&
		    totals.classes[PTAH_INSN_RETURN] == m.returns);
	assert_true(profile->lines && profile->used_wide > 0);
	ptah_profile_free(profile);
	ptah_image_free(image);
}

TEST(many_outcomes)
{
	outcomes_of(20, 0);
	outcomes_of(40, 1000);
	outcomes_of(400, 0); /* more places than the tables may have */
}

/*
 * Other code at the same addresses, and a few packets that are passed without counting, as at a
 * segment's start.
 */
static void pass_some(struct ptah_profile *p, const struct machine *m, size_t size)
{
	struct ptah_item items[64];
	unsigned blocks = 0;
	bool starved = false;

	ptah_profile_seek(p, 0);
	assert_int_equal(profile_feed_only(p, m->trace, size, true), 0);
	while (blocks < 50 && !starved) {
		const int n = profile_pass_packet(p, items, 64, &starved);

		for (int i = 0; i < n; i++)
			blocks += items[i].type == PTAH_ITEM_BLOCK;
	}
	assert_int_equal(ptah_profile_reset(p), 0);
	assert_int_equal(profile_resume(p), 0);
}

TEST(rows_of_former_code)
{
	struct ptah_profile_totals used, fresh;
	struct ptah_profile *a, *b;
	size_t size, other_size;
	struct machine *m = machine_new(3, true, false, false, &size);
	struct machine *other = machine_new(5, true, false, false, &other_size);
	struct ptah_image *image = image_of(m->code, sizeof(m->code));

	assert_int_equal(ptah_profile_new(image, NULL, &a), 0);
	assert_int_equal(ptah_profile_feed(a, m->trace, size, true), 0);
	assert_int_equal(ptah_image_add_bytes(image, other->code, sizeof(other->code), BASE, NULL),
			 0);
	assert_int_equal(ptah_profile_new(image, NULL, &b), 0);
	pass_some(a, other, other_size);
	pass_some(b, other, other_size);
	assert_int_equal(ptah_profile_totals(a, &used), 0);
	assert_int_equal(ptah_profile_totals(b, &fresh), 0);
	assert_true(fresh.errors == 0 && fresh.instructions > other->instructions / 2);
	assert_memory_equal(&used, &fresh, sizeof(used));
	ptah_profile_free(a);
	ptah_profile_free(b);
	ptah_image_free(image);
	machine_free(other);
	machine_free(m);
}
