/* SPDX-License-Identifier: MIT */
/*
 * pt_evt_* of libipt.so.2 compared with the libipt 2.3 whose file the environment variable
 * LIBIPT_2_3 names: the same events, times, positions and errors.
 */
#include "both.h"

#define FUNCTIONS(X)                                                                               \
	X(alloc_decoder)                                                                           \
	X(free_decoder)                                                                            \
	X(sync_forward)                                                                            \
	X(sync_backward)                                                                           \
	X(sync_set)                                                                                \
	X(get_offset)                                                                              \
	X(get_sync_offset)                                                                         \
	X(next)

struct library {
#define X(name) __typeof__(pt_evt_##name) *name;
	FUNCTIONS(X)
#undef X
};

static struct library judge, ours;

static bool load(struct library *library, const char *path)
{
	void *handle = both_open(path);

	if (!handle)
		return false;
#define X(name) *(void **)&library->name = dlsym(handle, "pt_evt_" #name);
	FUNCTIONS(X)
#undef X
	return library->alloc_decoder != NULL;
}

struct answer {
	int status, at_status, sync_status;
	uint64_t at, sync;
	struct pt_event event;
};

enum call {
	CALL_NEXT,
	CALL_FORWARD,
	CALL_BACKWARD,
	CALL_SET,
};

static void call(const struct library *l, struct pt_event_decoder *d, enum call which,
		 uint64_t offset, struct answer *a)
{
	*a = (struct answer){0};
	switch (which) {
	case CALL_NEXT:
		a->status = l->next(d, &a->event, sizeof(a->event));
		break;
	case CALL_FORWARD:
		a->status = l->sync_forward(d);
		break;
	case CALL_BACKWARD:
		a->status = l->sync_backward(d);
		break;
	default:
		a->status = l->sync_set(d, offset);
		break;
	}
	a->at_status = l->get_offset(d, &a->at);
	a->sync_status = l->get_sync_offset(d, &a->sync);
	a->event.lost_mtc = a->event.lost_cyc = 0; /* Ptah loses none */
	/* libipt leaves the field of another event there. */
	if (a->event.type == ptev_async_vmcs && a->event.ip_suppressed)
		a->event.variant.async_vmcs.ip = 0;
}

static void print_answer(const char *who, const struct answer *a)
{
	print_message("  %s: %d at %d %" PRIx64 " sync %" PRIx64, who, a->status, a->at_status,
		      a->at, a->sync);
	if (a->event.type || a->event.has_tsc || a->event.variant.enabled.ip)
		print_event(&a->event);
	print_message("\n");
}

static bool compare(struct random *r, const uint8_t *bytes, size_t size, unsigned wild,
		    bool verbose, bool iflags)
{
	struct pt_event_decoder *theirs, *mine;
	struct pt_config config;
	enum call which = CALL_FORWARD;
	struct answer a, b;
	unsigned ends = 0;
	bool ok = true, lost;

	init_config(&config, bytes, size);
	config.flags.variant.event.enable_iflags_events = iflags;
	theirs = judge.alloc_decoder(&config);
	mine = ours.alloc_decoder(&config);
	for (unsigned i = 0; i < 1000000 && ends < 3 && ok; i++) {
		uint64_t offset = roll(r, (unsigned)size + 3);
		const uint8_t *psb = memmem(bytes + (offset < size ? offset : 0),
					    size - (offset < size ? offset : 0),
					    "\x02\x82\x02\x82\x02\x82\x02\x82", 8);

		offset = psb ? (uint64_t)(psb - bytes) : 0;
		call(&judge, theirs, which, offset, &a);
		call(&ours, mine, which, offset, &b);
		/* After a failure to synchronise, libipt's position makes no sense. */
		lost = which != CALL_NEXT && a.status < 0;
		/*
		 * SDM "MODE.Exec Packet": its branch may be a TIP.PGD; libipt forgets that for IF.
		 */
		if (a.status == -pte_bad_context && b.event.type == ptev_iflags)
			break;
		ok = lost ? a.status == b.status : !memcmp(&a, &b, sizeof(a));
		if (verbose || !ok) {
			print_message("%d %" PRIx64 "\n", which, offset);
			print_answer("judge", &a);
			if (!ok)
				print_answer("ours ", &b);
		}
		ends += a.status == -pte_eos && which == CALL_FORWARD;
		which = a.status < 0 ? CALL_FORWARD : CALL_NEXT;
		if (wild && !roll(r, wild))
			which = (enum call)roll(r, 4);
		if (lost)
			which = CALL_SET;
	}
	judge.free_decoder(theirs);
	ours.free_decoder(mine);
	return ok;
}

static void check(const uint8_t *bytes, size_t size, uint64_t seed, unsigned wild, const char *what)
{
	struct random r = random_of(seed);

	if (compare(&r, bytes, size, wild, false, seed % 2))
		return;
	r = random_of(seed);
	if (size < 2000 || getenv("DUMP")) {
		compare(&r, bytes, size, wild, true, seed % 2);
		print_packets(bytes, size);
	}
	fail_msg("seed %" PRIu64 ": %s", seed, what);
}

/* Leaves the C-state before the next PSB; libipt treats a PSB+ in between as an error. */
static void leave(struct random_story *random)
{
	static struct random_story old;
	const char *at = old.text, *entry;

	old = *random;
	random->length = 0;
	while ((entry = strstr(at, "PWRE "))) {
		entry = strchr(entry, ';') + 1;
		story_say(random, "%.*s PWRX last 1 deepest 2; ", (int)(entry - at), at);
		at = entry;
	}
	story_say(random, "%s", at);
}

TEST(random_traces)
{
	static struct random_story random;
	static struct story story;
	const char *from = getenv("SEED");

	if (!judge.next)
		skip();
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
		leave(&random);
		assemble(&story, random.text);
		check(story.bytes, story.size, seed, seed % 3 ? 0 : 10, random.text);
	}
}

TEST(traces_of_hardware)
{
	static const char *const names[] = {"foo", "unzip", "mruby"};

	if (!judge.next)
		skip();
	for (size_t i = 0; i < 3; i++) {
		size_t size;
		uint8_t *bytes = read_trace(names[i], &size);

		if (size) {
			check(bytes, size, 1, 0, names[i]);
			check(bytes, size, 2, 20, names[i]);
		}
		free(bytes);
	}
}

static int prepare(void **state)
{
	(void)state;
	load(&judge, getenv("LIBIPT_2_3"));
	return load(&ours, TWIN_JUDGED) ? 0 : -1;
}

TEST_GROUP(prepare, NULL)
