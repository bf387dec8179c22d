/* SPDX-License-Identifier: MIT */
/*
 * pt_qry_* of libipt.so.2 and of Debian's libipt in one process, driven through
 * the same calls: the same answers, statuses, events, errors and positions, on
 * random traces, on those of real processors, and on damaged ones. What may
 * differ is in docs/libipt-differences.part.md.
 */
#include "../event/random_story.h"

#include <dlfcn.h>
#include <intel-pt.h>

#include <stdlib.h>

/* What libipt 2.0 calls struct pt_event is so long. */
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
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		print_message("%s\n", dlerror());
		return false;
	}
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
	/* libipt forgets its time, and leaves in its address what had been another event. */
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
		print_message(" event %d%s%s%s tsc %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64,
			      (int)a->event.type, a->event.ip_suppressed ? " noip" : "",
			      a->event.status_update ? " status" : "",
			      a->event.has_tsc ? " has_tsc" : "", a->event.tsc,
			      a->event.variant.async_branch.from, a->event.variant.async_branch.to,
			      a->event.variant.ptwrite.payload);
	print_message("\n");
}

struct run {
	uint64_t seed;
	const uint8_t *bytes;
	size_t size;
	const char *what;
	bool verbose;
	bool strict; /* compare the position after every call */
	uint64_t calls;
};

static unsigned roll(struct run *r, unsigned n)
{
	r->seed ^= r->seed << 13;
	r->seed ^= r->seed >> 7;
	r->seed ^= r->seed << 17;
	return (unsigned)(r->seed >> 11) % n;
}

/* What a client would ask, or anything. */
static enum call choose(struct run *r, int status, enum call last, unsigned wild)
{
	if (wild && !roll(r, wild))
		return (enum call)roll(r, CALL_COUNT);
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
		uint64_t offset = roll(r, (unsigned)r->size + 3);
		const uint8_t *psb = memmem(r->bytes + (offset < r->size ? offset : 0),
					    r->size - (offset < r->size ? offset : 0),
					    "\x02\x82\x02\x82\x02\x82\x02\x82", 8);

		if (psb && roll(r, 4))
			offset = (uint64_t)(psb - r->bytes);
		call(&judge, theirs, which, offset, &a);
		call(&ours, mine, which, offset, &b);
		r->calls++;
		ok = same(&a, &b);
		if (r->verbose || !ok)
			print_message("%s %" PRIx64 "\n", call_names[which], offset);
		if (r->verbose)
			print_answer("judge", &a);
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

static void init_config(struct pt_config *config, const uint8_t *bytes, size_t size)
{
	pt_config_init(config);
	config->begin = (uint8_t *)bytes;
	config->end = (uint8_t *)bytes + size;
}

/* Prints what led there when the two differ. */
static void check(const uint8_t *bytes, size_t size, uint64_t seed, unsigned wild, const char *what)
{
	struct run r = {.seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1,
			.bytes = bytes,
			.size = size,
			.strict = true};
	struct pt_config config;

	init_config(&config, bytes, size);
	if (compare(&r, &config, wild))
		return;
	print_message("seed %" PRIu64 "\n", seed);
	if (size < 2000) {
		r = (struct run){.seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1,
				 .bytes = bytes,
				 .size = size,
				 .strict = true,
				 .verbose = true};
		compare(&r, &config, wild);
	}
	print_message("%s\n", what);
	for (size_t at = 0; size < 2000 && at < size;) {
		struct ptah_packet packet;
		char text[128];
		int n = ptah_packet_decode(&packet, bytes + at, size - at, 0);

		if (n <= 0) {
			print_message("%zx: ? %02x %d\n", at, bytes[at], n);
			at++;
			continue;
		}
		ptah_packet_format(&packet, text, sizeof(text));
		print_message("%zx: %s %s\n", at, ptah_packet_name(packet.type), text);
		at += (size_t)n;
	}
	fail_msg("seed %" PRIu64, seed);
}

/* Time that goes on: Ptah's never goes back. */
static void assemble(struct story *story, char *text)
{
	unsigned now = 1;

	for (char *at = text; (at = strstr(at, " TSC 0x")); at += 7) {
		size_t digits = strspn(at + 7, "0123456789abcdef");
		char number[16];

		snprintf(number, sizeof(number), "%0*x", (int)digits, now);
		if (strlen(number) == digits)
			memcpy(at + 7, number, digits);
		now += 5;
	}
	story_assemble(story, text);
}

static void random_traces(void **state)
{
	static struct random_story random;
	static struct story story;
	const char *from = getenv("SEED");

	(void)state;
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
		check(story.bytes, story.size, seed, seed & 1 ? 0 : 10, random.text);
	}
}

static uint8_t *read_trace(const char *name, size_t *size)
{
	const char *shared = getenv("PTAH_SHARED");
	uint8_t *bytes = malloc(1 << 20);
	char path[4096];
	FILE *f;

	assert_non_null(bytes);
	snprintf(path, sizeof(path), "%s/traces/%s.pt", shared ? shared : "", name);
	f = fopen(path, "r");
	*size = f ? fread(bytes, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
	return bytes;
}

static void traces_of_hardware(void **state)
{
	static const char *const names[] = {"foo", "unzip", "mruby"};

	(void)state;
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
	if (!load(&judge, LIBIPT_JUDGE) || !load(&ours, LIBIPT_OURS))
		return -1;
	*(void **)&error_text = dlsym(dlopen(LIBIPT_OURS, RTLD_NOW | RTLD_LOCAL), "pt_errstr");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_traces),
	    cmocka_unit_test(traces_of_hardware),
	};

	return cmocka_run_group_tests(tests, prepare, NULL);
}
