/* SPDX-License-Identifier: MIT */
/*
 * Random calls of a set of captures beside single captures and processors that come and go. What
 * should be traced follows from the calls that were made; what was traced is what the processors
 * have output.
 */
#include "random.h"
#include "engine/sets.h"

#include <stdio.h>

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	return random_below(&seed, n);
}

/* What should be, from the calls that were made. */
struct play {
	struct ptah_captures *set;
	struct ptah_capture *single[CPUS];
	unsigned mask, known, on; /* bits: in the mask, has a capture in the set, online */
	bool strict, started, paused;
	unsigned held, rests; /* bits: processors where the single capture is started, paused */
	unsigned aside;	      /* bits: of the set, paused here */
};

static unsigned expected(const struct play *p)
{
	unsigned of_set = p->started && !p->paused ? p->known & ~p->aside : 0;

	return (of_set | (p->held & ~p->rests)) & p->on;
}

static void random_set_call(struct play *p)
{
	unsigned blocked = p->known & (p->held | (p->strict ? ~p->on : 0)), fresh;
	int status;

	switch (below(8)) {
	case 0:
	case 1:
		status = ptah_captures_start(p->set, &w.problem);
		if (!p->started && blocked) {
			assert_true(status == PTAH_E_BUSY || status == PTAH_E_OFFLINE);
			assert_true(blocked >> w.problem.cpu & 1);
			break;
		}
		assert_int_equal(status, PTAH_OK);
		p->paused = p->started && p->paused;
		p->started = true;
		break;
	case 2:
		assert_int_equal(ptah_captures_stop(p->set), PTAH_OK);
		p->started = p->paused = false;
		p->aside = 0;
		break;
	case 3:
		status = ptah_captures_pause(p->set);
		assert_int_equal(status, p->started ? PTAH_OK : PTAH_E_INVAL);
		p->paused = p->started;
		break;
	case 4:
		status = ptah_captures_resume(p->set, &w.problem);
		assert_int_equal(status, p->started ? PTAH_OK : PTAH_E_INVAL);
		p->paused = false;
		p->aside = 0;
		break;
	case 5:
		assert_int_equal(ptah_captures_flush(p->set), PTAH_OK);
		break;
	case 6:
		w.trace.no_retcomp = below(2);
		assert_int_equal(ptah_captures_reconfigure(p->set, &w.trace, NULL), PTAH_OK);
		break;
	default:
		/* Processors that have been online by now, and have no capture yet. */
		fresh = p->mask & ~p->known;
		for (unsigned n = 0; n < CPUS; n++) {
			if (!ptah_engine_caps(w.rig.engine, n))
				fresh &= ~(1u << n);
		}
		status = ptah_captures_update(p->set, &w.problem);
		if (p->started && fresh & p->held) {
			assert_int_equal(status, PTAH_E_BUSY);
			break;
		}
		assert_int_equal(status, (fresh & 1) + (fresh >> 1 & 1) + (fresh >> 2 & 1) +
					     (fresh >> 3 & 1));
		p->known |= fresh;
		break;
	}
}

static void random_single_call(struct play *p)
{
	unsigned n = (unsigned)below(CPUS), bit = 1u << n;
	bool of_set = p->started && p->known & bit;
	struct ptah_capture *c = p->single[n];
	int status;

	if (!c)
		return;
	switch (below(4)) {
	case 0:
		status = ptah_capture_start(c);
		if (of_set) {
			assert_int_equal(status, PTAH_E_BUSY);
			break;
		}
		assert_int_equal(status, p->on & bit || p->held & bit ? PTAH_OK : PTAH_E_OFFLINE);
		if (!(p->held & bit))
			p->rests &= ~bit;
		p->held |= bit;
		break;
	case 1:
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		p->held &= ~bit;
		break;
	case 2:
		if (p->held & bit) {
			assert_int_equal(ptah_capture_pause(c), PTAH_OK);
			p->rests |= bit;
		}
		break;
	default:
		if (of_set && p->on & bit) {
			ptah_machine_set_cpu(w.rig.machine, n);
			assert_int_equal(ptah_capture_pause_here(ptah_captures_get(p->set, n)),
					 PTAH_OK);
			p->aside |= bit;
		}
		break;
	}
}

static void random_hotplug(struct play *p)
{
	unsigned n = (unsigned)below(CPUS), bit = 1u << n;

	if (p->on == bit)
		return; /* the last one */
	if (p->on & bit)
		offline(n);
	else
		online(n);
	p->on ^= bit;
	if (!p->single[n] && ptah_engine_caps(w.rig.engine, n)) {
		struct ptah_capture_config config = w.capture;

		config.cpu = (int)n;
		config.owner = OWNER + 1;
		p->single[n] = rig_capture(&w.rig, &config);
	}
	for (n = 0; !(p->on >> n & 1); n++)
		;
	ptah_machine_set_cpu(w.rig.machine, n);
}

/* Nothing traces: what a processor has output is in its two captures. */
static void check_bytes(const struct play *p)
{
	unsigned n;

	for (n = 0; n < CPUS; n++) {
		struct ptah_capture *c = ptah_captures_get(p->set, n);
		uint64_t bytes = c ? ptah_capture_position(c) : 0;

		if (p->single[n])
			bytes += ptah_capture_position(p->single[n]);
		assert_int_equal(bytes, rig_output(&w.rig, n));
	}
}

/* Without tables there is at most a lap between two looks, or laps are missed. */
static void look_often(const struct play *p)
{
	unsigned n;

	if (ptah_engine_caps(w.rig.engine, ptah_machine_cpu(w.rig.machine))->topa)
		return;
	assert_int_equal(ptah_captures_flush(p->set), PTAH_OK);
	for (n = 0; n < CPUS; n++) {
		if (p->single[n])
			assert_int_equal(ptah_capture_flush(p->single[n], NULL), PTAH_OK);
	}
}

static void play(void)
{
	/* Tables of several entries, of one, and none. */
	static const char *const names[] = {"skylake", "minimal", "minimal-range", "goldmont"};
	struct play p = {.on = 0xf};
	uint64_t mask;
	unsigned i, n, hidden;
	size_t before;

	world_open(names[below(ARRAY_SIZE(names))], (enum way)below(WAYS));
	hidden = below(2) ? (unsigned)below(15) : 0;
	forget(hidden);
	ptah_machine_set_cpu(w.rig.machine, 0);
	p.on = 0xf & ~hidden;
	for (n = 0; !(p.on >> n & 1); n++)
		;
	ptah_machine_set_cpu(w.rig.machine, n);
	mask = 1 + below(15);
	p.mask = (unsigned)mask;
	p.strict = !(mask & hidden) && below(2);
	w.config.mask = &mask;
	w.config.words = 1;
	w.config.offline = !p.strict;
	p.known = p.mask & p.on;
	before = ptah_machine_allocated(w.rig.machine);
	p.set = new_set();
	for (n = 0; n < CPUS; n++) {
		struct ptah_capture_config config = w.capture;

		config.cpu = (int)n;
		config.owner = OWNER + 1;
		p.single[n] = p.on >> n & 1 ? rig_capture(&w.rig, &config) : NULL;
	}
	for (i = 0; i < 200; i++) {
		switch (below(8)) {
		case 0:
			random_hotplug(&p);
			break;
		case 1:
		case 2:
			random_single_call(&p);
			break;
		default:
			random_set_call(&p);
		}
		assert_int_equal(enabled(), expected(&p));
		for (n = 0; n < CPUS; n++)
			mark(n, (unsigned)below(200));
		look_often(&p);
		if (!enabled())
			check_bytes(&p);
		assert_null(ptah_machine_violation(w.rig.machine));
	}
	if (below(2)) {
		assert_int_equal(ptah_captures_free(p.set), PTAH_OK);
	} else {
		n = (p.known & 1) + (p.known >> 1 & 1) + (p.known >> 2 & 1) + (p.known >> 3 & 1);
		assert_int_equal(ptah_engine_release_owner(w.rig.engine, OWNER), n);
	}
	for (n = 0; n < CPUS; n++)
		assert_int_equal(ptah_capture_free(p.single[n]), PTAH_OK);
	assert_int_equal(ptah_machine_allocated(w.rig.machine), before);
	for (n = 0; n < CPUS; n++) {
		if (!(p.on >> n & 1))
			online(n);
	}
	check_free();
	world_close();
}

TEST(random_plays)
{
	const char *rounds = getenv("ENGINE_ROUNDS"), *first = getenv("ENGINE_SEED");
	unsigned n = rounds ? (unsigned)atoi(rounds) / 2 : 100, i;
	uint64_t begin = first ? strtoull(first, NULL, 0) : 1;

	for (i = 0; i < n; i++) {
		seed = (begin + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		print_message("\rseed %llu ", (unsigned long long)(begin + i));
		play();
	}
	print_message("\n");
}
