/* SPDX-License-Identifier: MIT */
/*
 * pt_qry_* of libipt.so.2 and of Debian's libipt in one process, with the same calls: the same
 * answers, statuses, events, errors and positions, on random traces, on those of real processors,
 * and on damaged ones. What may differ is in docs/migrating-from-libipt.md.
 */
#include "both.h"

/* The size of libipt 2.0's struct pt_event. */
#define OLD_EVENT 64

#define FUNCTIONS(X)                                                                               \
	X(alloc_decoder)                                                                           \
	X(free_decoder)                                                                            \
	X(sync_forward)                                                                            \
	X(sync_backward)                                                                           \
	X(sync_set)                                                                                \
	X(get_offset)                                                                              \
	X(get_sync_offset)                                                                         \
	X(cond_branch)                                                                             \
	X(indirect_branch)                                                                         \
	X(event)                                                                                   \
	X(time)                                                                                    \
	X(core_bus_ratio)

struct library {
#define X(name) __typeof__(pt_qry_##name) *name;
	FUNCTIONS(X)
#undef X
};

static struct library judge, ours;
static __typeof__(pt_errstr) *error_text;

static bool load(struct library *library, const char *path)
{
	void *handle = both_open(path);

	if (!handle)
		return false;
#define X(name) *(void **)&library->name = dlsym(handle, "pt_qry_" #name);
	FUNCTIONS(X)
#undef X
	return library->alloc_decoder != NULL;
}

enum call {
	CALL_FORWARD,
	CALL_BACKWARD,
	CALL_SET,
	CALL_OFFSET,
	CALL_SYNC_OFFSET,
	CALL_COND,
	CALL_INDIRECT,
	CALL_EVENT,
	CALL_TIME,
	CALL_RATIO,
	CALL_COUNT,
};

static const char *const call_names[] = {
    "sync_forward", "sync_backward",   "sync_set", "get_offset", "get_sync_offset",
    "cond_branch",  "indirect_branch", "event",	   "time",	 "core_bus_ratio",
};

struct answer {
	int status;
	uint64_t value;
	struct pt_event event;
};

static void call(const struct library *l, struct pt_query_decoder *q, enum call which,
		 uint64_t offset, struct answer *a)
{
	uint32_t ratio = 0;
	int taken = 0;

	*a = (struct answer){0};
	switch (which) {
	case CALL_FORWARD:
		a->status = l->sync_forward(q, &a->value);
		break;
	case CALL_BACKWARD:
		a->status = l->sync_backward(q, &a->value);
		break;
	case CALL_SET:
		a->status = l->sync_set(q, &a->value, offset);
		break;
	case CALL_OFFSET:
		a->status = l->get_offset(q, &a->value);
		break;
	case CALL_SYNC_OFFSET:
		a->status = l->get_sync_offset(q, &a->value);
		break;
	case CALL_COND:
		a->status = l->cond_branch(q, &taken);
		a->value = (uint64_t)taken;
		break;
	case CALL_INDIRECT:
		a->status = l->indirect_branch(q, &a->value);
		break;
	case CALL_EVENT:
		a->status = l->event(q, &a->event, OLD_EVENT);
		break;
	case CALL_TIME:
		a->status = l->time(q, &a->value, NULL, NULL);
		break;
	default:
		a->status = l->core_bus_ratio(q, &ratio);
		a->value = ratio;
		break;
	}
	if (a->status < 0 && which != CALL_TIME)
		a->value = 0;
	a->event.lost_mtc = a->event.lost_cyc = 0; /* Ptah loses none */
	if (a->event.type != ptev_async_vmcs)
		return;
	/* libipt does not set the time, and leaves the field of another event in the address. */
	a->event.has_tsc = 0;
	a->event.tsc = 0;
	if (a->event.ip_suppressed)
		a->event.variant.async_vmcs.ip = 0;
}

static void print_answer(const char *who, const struct answer *a)
{
	print_message("  %s: %d %s value %" PRIx64, who, a->status,
		      a->status < 0 ? error_text(pt_errcode(a->status)) : "", a->value);
	if (a->event.type || a->event.has_tsc || a->event.variant.enabled.ip)
		print_event(&a->event);
	print_message("\n");
}

struct run {
	struct random random;
	const uint8_t *bytes;
	size_t size;
	bool verbose;
	bool damaged;
	bool strict; /* compare the position after every call */
};

/* The call that a client would make, or any. */
static enum call choose(struct run *r, int status, enum call last, unsigned wild)
{
	if (wild && !roll(&r->random, wild))
		return (enum call)roll(&r->random, CALL_COUNT);
	if (status < 0)
		return status == -pte_bad_query && last == CALL_COND ? CALL_INDIRECT : CALL_FORWARD;
	if (status & pts_event_pending)
		return CALL_EVENT;
	if (status & pts_eos)
		return CALL_FORWARD;
	return CALL_COND;
}

static bool same(const struct answer *a, const struct answer *b)
{
	return a->status == b->status && a->value == b->value &&
	       !memcmp(&a->event, &b->event, OLD_EVENT);
}

/*
 * Where Ptah does more: it finds packets where the SDM does not allow them, which libipt 2.0 does
 * not check; and it reports events without an address when the packet with the address was lost
 * (libipt 2.0 gives an MWAIT that of another packet).
 */
static bool is_more(const struct answer *mine)
{
	if (mine->event.ip_suppressed &&
	    (mine->event.type == ptev_mwait || mine->event.type == ptev_exstop ||
	     mine->event.type == ptev_ptwrite || mine->event.type == ptev_tsx))
		return true;
	return mine->status == -pte_bad_context || mine->status == -pte_noip ||
	       mine->status == -pte_bad_packet || mine->status == -pte_ip_suppressed;
}

/* The same for what comes next, which this answer's status may already announce. */
static bool will_be_more(struct pt_query_decoder *mine)
{
	static const enum call calls[] = {CALL_EVENT, CALL_COND, CALL_INDIRECT};
	struct answer answer;

	for (unsigned i = 0; i < 100; i++) {
		for (unsigned k = 0; k < 3; k++) {
			call(&ours, mine, calls[k], 0, &answer);
			if (answer.status != -pte_bad_query)
				break;
		}
		/* For a branch that is cut, libipt may still announce the event. */
		if (is_more(&answer) || (!i && answer.status == -pte_eos))
			return true;
		if (answer.status < 0)
			break;
	}
	return false;
}

static bool compare(struct run *r, const struct pt_config *config, unsigned wild)
{
	struct pt_query_decoder *theirs = judge.alloc_decoder(config);
	struct pt_query_decoder *mine = ours.alloc_decoder(config);
	enum call which = CALL_FORWARD;
	struct answer a = {0}, b = {0}, at, bt;
	unsigned ends = 0;
	bool ok = true;

	assert_non_null(theirs);
	assert_non_null(mine);
	for (unsigned i = 0; i < 1000000 && ends < 5; i++) {
		uint64_t offset = roll(&r->random, (unsigned)r->size + 3);
		const uint8_t *psb = memmem(r->bytes + (offset < r->size ? offset : 0),
					    r->size - (offset < r->size ? offset : 0),
					    "\x02\x82\x02\x82\x02\x82\x02\x82", 8);

		if (psb && roll(&r->random, 4))
			offset = (uint64_t)(psb - r->bytes);
		call(&judge, theirs, which, offset, &a);
		call(&ours, mine, which, offset, &b);
		ok = same(&a, &b);
		if (r->verbose || !ok)
			print_message("%s %" PRIx64 "\n", call_names[which], offset);
		if (r->verbose)
			print_answer("judge", &a);
		if (!ok && r->damaged &&
		    (is_more(&b) || a.event.type == ptev_mwait || will_be_more(mine))) {
			ok = true;
			break;
		}
		if (!ok) {
			print_answer("judge", &a);
			print_answer("ours ", &b);
		}
		call(&judge, theirs, CALL_OFFSET, 0, &at);
		if (r->strict || !ok)
			call(&ours, mine, CALL_OFFSET, 0, &bt);
		if (r->verbose)
			print_message("   at %" PRIx64 "\n", at.value);
		if (!ok || (r->strict && !same(&at, &bt))) {
			if (ok)
				print_message("get_offset after %s\n", call_names[which]);
			print_answer("judge at", &at);
			print_answer("ours  at", &bt);
			ok = false;
			break;
		}
		ends += a.status == -pte_eos && which == CALL_FORWARD;
		which = choose(r, a.status, which, wild);
	}
	judge.free_decoder(theirs);
	ours.free_decoder(mine);
	return ok;
}

/* What the callback returns for unknown packets; 0: there is no callback. */
static int unknown_size;

static int unknown(struct pt_packet_unknown *packet, const struct pt_config *config,
		   const uint8_t *pos, void *context)
{
	(void)packet;
	(void)config;
	(void)pos;
	(void)context;
	return unknown_size;
}

/* Prints the calls before a difference. */
static void check(const uint8_t *bytes, size_t size, bool damaged, uint64_t seed, unsigned wild,
		  const char *what)
{
	struct run r = {.random = random_of(seed),
			.bytes = bytes,
			.size = size,
			.strict = !damaged,
			.damaged = damaged};
	struct pt_config config;

	init_config(&config, bytes, size);
	config.decode.callback = unknown_size ? unknown : NULL;
	if (compare(&r, &config, wild))
		return;
	print_message("seed %" PRIu64 "\n", seed);
	if (size < 2000) {
		r = (struct run){.random = random_of(seed),
				 .bytes = bytes,
				 .size = size,
				 .strict = !damaged,
				 .damaged = damaged,
				 .verbose = true};
		compare(&r, &config, wild);
	}
	print_message("%s\n", what);
	if (size < 2000)
		print_packets(bytes, size);
	fail_msg("seed %" PRIu64, seed);
}

TEST(random_traces)
{
	static struct random_story random;
	static struct story story;
	const char *from = getenv("SEED");

	for (uint64_t seed = from ? strtoull(from, NULL, 0) : 1; seed <= 3000; seed++) {
		story_begin(&random, seed);
		for (unsigned i = 0; i < 30; i++) {
			if (!story_random(&random, 3))
				story_say_anywhere(&random);
			else if (random.on)
				story_say_on(&random);
			else
				story_say_off(&random);
		}
		assemble(&story, random.text);
		check(story.bytes, story.size, false, seed, seed & 1 ? 0 : 10, random.text);
	}
}

/* Cuts the trace anywhere, or adds an unknown packet. */
static size_t damage(struct random *r, uint8_t *bytes, size_t size)
{
	const size_t at = 16 + roll(r, (unsigned)size - 16);
	struct ptah_packet packet;
	size_t next = 0;
	int n;

	if (roll(r, 2))
		return at;
	while (next < at && (n = ptah_packet_decode(&packet, bytes + next, size - next, 0)) > 0)
		next += (size_t)n;
	if (next > size)
		return size;
	memmove(bytes + next + 2, bytes + next, size - next);
	memcpy(bytes + next, "\x02\xff", 2);
	unknown_size = roll(r, 2) ? 0 : roll(r, 2) ? 2 : -pte_nomem;
	return size + 2;
}

TEST(damaged_traces)
{
	static struct random_story random;
	static struct story story;
	const char *from = getenv("SEED");

	for (uint64_t seed = from ? strtoull(from, NULL, 0) : 1; seed <= 10000; seed++) {
		struct random r = random_of(seed);

		story_begin(&random, seed);
		for (unsigned i = 0; i < 12; i++) {
			if (!story_random(&random, 3))
				story_say_anywhere(&random);
			else if (random.on)
				story_say_on(&random);
			else
				story_say_off(&random);
		}
		assemble(&story, random.text);
		unknown_size = 0;
		story.size = damage(&r, story.bytes, story.size);
		check(story.bytes, story.size, true, seed, 0, random.text);
	}
	unknown_size = 0;
}

TEST(traces_of_hardware)
{
	static const char *const names[] = {"foo", "unzip", "mruby"};

	for (size_t i = 0; i < 3; i++) {
		size_t size;
		uint8_t *bytes = read_trace(names[i], &size);

		if (size) {
			check(bytes, size, false, 1, 0, names[i]);
			check(bytes, size, false, 2, 20, names[i]);
		}
		free(bytes);
	}
}

static int prepare(void **state)
{
	(void)state;
	if (!load(&judge, TWIN_JUDGE) || !load(&ours, TWIN_JUDGED))
		return -1;
	*(void **)&error_text = dlsym(dlopen(TWIN_JUDGED, RTLD_NOW | RTLD_LOCAL), "pt_errstr");
	return 0;
}

TEST_GROUP(prepare, NULL)
