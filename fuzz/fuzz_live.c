/* SPDX-License-Identifier: MIT */
/*
 * Proves of live sessions: a recording through a pipe, whatever it is, is followed or refused with
 * a sentence; what is made of it does not depend on where it is cut, nor on whether counts are
 * taken when a stream ends; all trace is decoded or dropped, and memory stays below its limit.
 *
 * Input: a byte that says how it is cut the second time, and a perf.data in the layout of a pipe.
 * The binaries that it names are searched for in an empty folder.
 */
#include "fuzz.h"

#include <ptah/live.h>

#include <string.h>

#define MEMORY (UINT64_C(1) << 22)

struct result {
	int status;
	uint64_t bytes, instructions, blocks, errors, calls, marks, begun, ended;
	size_t threads;
};

static int on_calls(void *context, const struct ptah_live_thread *thread,
		    const struct ptah_call_mark *marks, size_t n)
{
	struct result *r = context;

	CHECK(thread->size == sizeof(*thread));
	for (size_t i = 0; i < n; i++) {
		r->begun += !marks[i].end;
		r->ended += marks[i].end;
	}
	r->marks += n;
	return 0;
}

static int take(void *context, size_t stream, struct ptah_profile *profile)
{
	struct result *r = context;
	struct ptah_profile_totals totals;

	(void)stream;
	CHECK(!ptah_profile_totals(profile, &totals));
	r->instructions += totals.instructions;
	r->blocks += totals.blocks;
	r->errors += totals.errors;
	return 0;
}

static int on_counts(void *context, const struct ptah_live_thread *thread,
		     struct ptah_profile *profile)
{
	take(context, thread->number, profile);
	return 1;
}

static void ask(struct ptah_live *live, struct result *r)
{
	struct ptah_live_status s = {.size = sizeof(s)};
	struct ptah_live_function *rows;
	size_t n;

	CHECK(!ptah_live_status(live, &s));
	CHECK(r->status < 0 || (s.bytes == s.decoded && !s.behind));
	CHECK(s.memory <= 2 * MEMORY);
	CHECK(!ptah_live_counts(live, take, r));
	CHECK(!ptah_live_functions(live, &rows, &n));
	for (size_t i = 0; i < n; i++)
		CHECK(r->status < 0 || !rows[i].open);
	free(rows);
	r->bytes = s.bytes;
	r->calls = s.calls;
	r->threads = s.threads;
	CHECK(r->status < 0 || r->begun == r->ended);
}

/* No chunk has two marks of rounds, so that each is decoded by itself. */
static struct result follow(const uint8_t *data, size_t size, size_t chunk, bool takes)
{
	struct result r = {0};
	struct ptah_live_config config = {.size = sizeof(config),
					  .what = PTAH_LIVE_COUNTS | PTAH_LIVE_CALLS,
					  .memory = MEMORY,
					  .queue = 1 << 16,
					  .on_calls = on_calls,
					  .on_counts = takes ? on_counts : NULL,
					  .context = &r};
	struct ptah_live *live;

	config.session = (struct ptah_session_config){
	    .size = sizeof(config.session), .symfs = "/nonexistent", .ignore_build_ids = true};
	CHECK(!ptah_live_new(&config, &live));
	for (size_t at = 0; at < size && r.status >= 0; at += chunk) {
		r.status = ptah_live_feed(live, data + at, size - at < chunk ? size - at : chunk);
		if (r.status >= 0)
			r.status = ptah_live_poll(live);
	}
	if (r.status >= 0)
		r.status = ptah_live_finish(live);
	CHECK(r.status >= 0 || *ptah_live_why(live));
	if (r.status >= 0)
		ask(live, &r);
	ptah_live_free(live);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result a, b, taken;

	if (!size)
		return 0;
	a = follow(data + 1, size - 1, 8, false);
	b = follow(data + 1, size - 1, 1 + data[0] % 7, false);
	taken = follow(data + 1, size - 1, 8, true);
	CHECK(!memcmp(&a, &b, sizeof(a)));
	CHECK(taken.status == a.status && taken.marks == a.marks);
	CHECK(a.status < 0 || (taken.instructions == a.instructions && taken.errors == a.errors));
	return 0;
}
