/* SPDX-License-Identifier: MIT */
/*
 * The page for a consumer in another process. A companion that has the page and the
 * buffer and nothing else gets exactly the bytes that the processor has output, and a
 * record for each time it was woken; under every policy and shape, and at whatever
 * instruction of the engine it reads. One that writes nonsense into the page loses its
 * own trace and does no other harm.
 */
/* A view that is taken while the engine writes is given up at once: see every_instruction(). */
#define PTAH_CAPTURE_TRIES 2u

#include "engine/companion.h"
#include "engine/internal.h"
#include "engine/stream.h"

#include <signal.h>
#include <stdio.h>

struct kind {
	const char *processor;
	uint8_t shape;
	bool no_pmi;
	size_t buffer, region;
	unsigned pmis;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, false, 32768, 4096, 0},
    {"skylake", PTAH_SHAPE_RING, true, 32768, 4096, 0},
    {"skylake", PTAH_SHAPE_RING, false, 32768, 4096, 2},
    {"maximal", PTAH_SHAPE_RING, false, 3 * 8192, 8192, 0},
    {"skylake", PTAH_SHAPE_OVERFLOW, false, 16384, 0, 0},
    {"minimal", PTAH_SHAPE_AUTO, false, 16384, 4096, 0},
    {"minimal", PTAH_SHAPE_AUTO, true, 16384, 4096, 0},
    {"skylake", PTAH_SHAPE_SINGLE, false, 16384, 0, 0},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define OWNER 7u
#define ARENA ((size_t)8 << 20)
#define MOST  (1u << 21)

static struct play {
	struct rig rig;
	struct ptah_capture *c;
	struct ptah_trace_config trace;
	struct stream stream;
	struct companion m;
	void (*fence)(void *port);
	bool thread, open;
	uint64_t random;
	unsigned gaps;	      /* so many more may be used */
	bool putting, inside; /* a put, a gap is at work: none begins inside of it */
	uint64_t confirmed, read_to;
	uint64_t looked; /* output when TraceEn was cleared last */
	uint64_t expected[8192];
	unsigned wakes, records;
	uint64_t lost;
	uint32_t flags;
	uint8_t seen[MOST]; /* what the companion got, and where `known` */
	bool known[MOST];
	void *apart; /* the page's memory */
	void (*release)(void *port, const struct ptah_hal_memory *memory);
	int (*alloc)(void *port, size_t size, size_t align, struct ptah_hal_memory *memory);
	int (*map)(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
		   bool writable, uint64_t *address);
} p;

static uint64_t chance(uint64_t n)
{
	p.random = p.random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (p.random >> 33) % n;
}

static void put(uint64_t n)
{
	unsigned cpu = ptah_machine_cpu(p.rig.machine);

	if (p.putting)
		return;
	p.putting = true;
	if (rig_enabled(&p.rig, cpu))
		stream_put(&p.stream, &p.rig, cpu, n);
	p.putting = false;
}

/* The companion got these bytes, after those before. */
static void got(void *argument, uint64_t from, const uint8_t *bytes, uint64_t n)
{
	(void)argument;
	assert_true(from >= p.read_to && from + n <= MOST);
	memcpy(p.seen + from, bytes, (size_t)n);
	memset(p.known + from, 1, (size_t)n);
	p.confirmed += n;
	p.read_to = from + n;
}

/* All that the companion got is what the processors have output. */
static void compare_seen(void)
{
	uint64_t at;

	assert_true(p.read_to <= p.stream.n);
	for (at = 0; at < p.read_to; at++) {
		if (p.known[at] && p.seen[at] != p.stream.bytes[at])
			fail_msg("byte %llu is another", (unsigned long long)at);
	}
}

static void take_records(void)
{
	struct ptah_capture_record record;

	while (ptah_capture_reader_record(&p.m.r, &record)) {
		assert_true(p.records < p.wakes);
		assert_int_equal(record.position, p.expected[p.records]);
		assert_int_equal(record.lost != 0, (record.flags & PTAH_CAPTURED_LOST) != 0);
		p.records++;
		p.lost += record.lost;
		p.flags |= record.flags;
	}
}

static void woken(void *port, void *cookie)
{
	(void)port;
	(void)cookie;
	assert_true(p.wakes < sizeof(p.expected) / sizeof(p.expected[0]));
	p.expected[p.wakes++] = p.looked;
	/* What wakes the companion is in the page by then. */
	assert_int_equal(ptah_capture_recorded(p.c), p.wakes);
	if (p.open)
		assert_int_equal(p.m.page->records_written, p.wakes);
}

static void step(void)
{
	if (!p.open || p.m.sync)
		return;
	if (p.m.step == COMPANION_VIEW)
		take_records();
	companion_step(&p.m, 1 + chance(9000));
}

/* What another processor sees between two instructions of the engine. */
static void observe(void)
{
	struct ptah_capture_view view = {0};
	uint64_t output = 0;
	unsigned cpu;

	if (!p.open || p.putting)
		return;
	assert_true(ptah_capture_reader_view(&p.m.r, &view));
	for (cpu = 0; cpu < 2; cpu++) {
		output += rig_output(&p.rig, cpu);
		/* Otherwise bytes would be taken for certain that are being overwritten. */
		if (rig_enabled(&p.rig, cpu))
			assert_int_equal(view.state, PTAH_CAPTURE_RUNNING);
	}
	assert_true(view.position <= output && view.end <= view.position);
	assert_true(view.oldest <= view.position && view.tail <= view.position);
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	(void)argument;
	(void)callback;
	if (p.inside)
		return;
	p.inside = true;
	observe();
	if (p.gaps && !chance(3)) {
		p.gaps--;
		switch (chance(4)) {
		case 0:
			if (cpu == ptah_machine_cpu(p.rig.machine))
				put(chance(300));
			break;
		case 1:
			ptah_model_nmi(ptah_machine_model(p.rig.machine, cpu));
			break;
		default:
			step();
		}
	}
	p.inside = false;
}

/* The engine has cleared TraceEn: the position of this look is what was output until now. */
static void fenced(void *port)
{
	p.looked = rig_output(&p.rig, 0) + rig_output(&p.rig, 1);
	p.fence(port);
}

/* Memory of its own for the page, so that AddressSanitizer sees each access outside of it. */
static int alloc_apart(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	(void)port;
	memory->address = aligned_alloc(align, size);
	assert_non_null(memory->address);
	memory->physical = 0x4000;
	memory->size = size;
	p.apart = memory->address;
	return PTAH_OK;
}

static void release_apart(void *port, const struct ptah_hal_memory *memory)
{
	if (memory->address != p.apart)
		p.release(port, memory);
	else
		free(memory->address);
}

static void open_play(const struct kind *kind, uint8_t policy, bool thread, uint64_t seed)
{
	struct ptah_model_faults faults = {0};
	struct ptah_capture_config config;

	memset(&p, 0, sizeof(p));
	p.random = seed;
	p.thread = thread;
	rig_open_at(&p.rig, ptah_model_find(kind->processor), 2, ARENA, 0x10000000);
	faults.pmi_skid_bytes = seed & 1 ? 700 : 0;
	faults.pmi_skid_boundaries = seed & 2 ? 2 : 0;
	rig_silence(&p.rig, 0, &faults);
	rig_silence(&p.rig, 1, &faults);
	p.rig.hal.wake = woken;
	p.fence = p.rig.hal.fence;
	p.rig.hal.fence = fenced;
	config = rig_config(&p.rig, &p.trace);
	config.shape = kind->shape;
	config.no_pmi = kind->no_pmi;
	config.buffer = kind->buffer;
	config.region = kind->region;
	config.policy = policy;
	config.pmis = kind->pmis;
	config.records = 4096;
	if (thread)
		config.cpu = PTAH_CAPTURE_THREAD;
	p.c = rig_capture(&p.rig, &config);
	p.alloc = p.rig.hal.alloc;
	p.release = p.rig.hal.release;
	p.rig.hal.alloc = alloc_apart;
	p.rig.hal.release = release_apart;
	companion_open(&p.m, p.rig.machine, p.c, OWNER);
	p.rig.hal.alloc = p.alloc;
	p.m.read = got;
	p.open = true;
	ptah_machine_on_gap(p.rig.machine, gap, NULL);
}

static void close_play(void)
{
	ptah_machine_on_gap(p.rig.machine, NULL, NULL);
	if (p.open)
		companion_close(&p.m, p.c);
	p.open = false;
	assert_int_equal(ptah_capture_free(p.c), PTAH_OK);
	stream_free(&p.stream);
	rig_close(&p.rig);
}

/* The companion reads until it has everything. */
static void finish_reading(void)
{
	struct ptah_capture_view view = {0};
	unsigned steps;

	p.m.sync = false;
	for (steps = 0; steps < 100000; steps++) {
		assert_true(ptah_capture_reader_view(&p.m.r, &view));
		if (p.m.step == COMPANION_VIEW && p.m.next == view.position)
			break;
		p.m.sync = false;
		step();
	}
	take_records();
	assert_int_equal(p.m.next, view.position);
}

/* Following a trace */

/* With STOP a buffer that is full needs a consumer first. */
static void expect_started(int status)
{
	if (status != PTAH_E_NOSPACE || rig_status(p.c).policy != PTAH_POLICY_STOP)
		assert_int_equal(status, PTAH_OK);
}

static void one_action(unsigned round)
{
	unsigned n;

	switch (chance(8)) {
	case 0:
		if (rig_status(p.c).state == PTAH_CAPTURE_IDLE)
			break;
		assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
		step();
		expect_started(ptah_capture_resume(p.c));
		break;
	case 1:
		assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
		break;
	case 2:
		assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
		break;
	case 3:
		if (p.thread) {
			rig_switch(&p.rig, p.c, ptah_machine_cpu(p.rig.machine), false);
			step();
			rig_switch(&p.rig, p.c, round & 1, true);
		}
		break;
	case 4:
		assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
		break;
	default:
		for (n = (unsigned)chance(6); n; n--)
			step();
	}
	if (p.m.sync) {
		p.m.sync = false;
		assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
	}
}

static void follow(const struct kind *kind, uint8_t policy, bool thread, uint64_t seed)
{
	struct ptah_capture_status s;
	unsigned round, part;

	open_play(kind, policy, thread, seed);
	for (round = 0; round < 60; round++) {
		expect_started(ptah_capture_start(p.c));
		if (thread && !round)
			rig_switch(&p.rig, p.c, 0, true);
		p.gaps = 20;
		for (part = 0; part < 8; part++) {
			put(chance(kind->buffer / 16));
			step();
		}
		/* A single range has no PMIs, and only one lap between two looks is noticed. */
		if (kind->shape == PTAH_SHAPE_SINGLE)
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
		one_action(round);
		s = rig_status(p.c);
		assert_true(s.tail <= p.m.next);
	}
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	finish_reading();
	s = rig_status(p.c);
	assert_int_equal(s.position, rig_output(&p.rig, 0) + rig_output(&p.rig, 1));
	assert_int_equal(s.position, p.stream.n);
	compare_seen();
	assert_int_equal(p.confirmed + p.m.lost, s.position);
	assert_int_equal(p.records, p.wakes);
	assert_int_equal(p.lost, p.m.view.lost);
	assert_false(p.flags & (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_DROPPED));
	if (policy != PTAH_POLICY_WRAP)
		assert_int_equal(p.m.lost, 0);
	/* One who reads all the time misses little even of a buffer that wraps. */
	assert_true(p.confirmed > s.position / 8);
	assert_true(s.position > kind->buffer);
	close_play();
}

TEST(follows)
{
	unsigned policy;
	uint64_t seed;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			if (kinds[i].shape == PTAH_SHAPE_SINGLE && policy != PTAH_POLICY_WRAP)
				continue;
			for (seed = 0; seed < 12; seed++)
				follow(&kinds[i], (uint8_t)policy, seed % 3 == 2, seed);
		}
	}
}

/* States and turns */

/* The page has what ptah_capture_status() returns. */
static void expect_state(unsigned state)
{
	struct ptah_capture_status s = rig_status(p.c);
	struct ptah_capture_view view = {0};

	assert_true(ptah_capture_reader_view(&p.m.r, &view));
	assert_int_equal(s.state, state);
	assert_int_equal(view.state, s.state);
	assert_int_equal(view.position, s.position);
	assert_int_equal(view.oldest, s.oldest);
	assert_int_equal(view.tail, s.tail);
	assert_int_equal(view.cpu, s.cpu);
	assert_int_equal(view.error, s.error);
	assert_int_equal(view.looks, s.looks);
	assert_int_equal(view.dropped, s.dropped_records);
	if (!p.m.r.starts)
		assert_int_equal(view.laps, s.position / s.buffer);
}

/* After each call that changes the state, the page has it, although no look may have been needed.
 */
TEST(states)
{
	uint64_t irqs;

	open_play(&kinds[0], PTAH_POLICY_DRAIN, false, 4);
	expect_state(PTAH_CAPTURE_IDLE);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_RUNNING);
	put(100);
	assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_PAUSED);
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_IDLE);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	put(40000);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	expect_state(PTAH_CAPTURE_FULL);
	assert_true(p.m.page->waiting);
	finish_reading();
	assert_true(p.m.sync);
	assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_RUNNING);
	assert_false(p.m.page->waiting);
	ptah_model_vmxon(ptah_machine_model(p.rig.machine, 0));
	ptah_model_vmxoff(ptah_machine_model(p.rig.machine, 0));
	irqs = p.rig.hal.irq_save(p.rig.machine);
	ptah_engine_cpu_offline(p.rig.engine);
	p.rig.hal.irq_restore(p.rig.machine, irqs);
	expect_state(PTAH_CAPTURE_BLOCKED);
	irqs = p.rig.hal.irq_save(p.rig.machine);
	ptah_engine_cpu_online(p.rig.engine);
	p.rig.hal.irq_restore(p.rig.machine, irqs);
	expect_state(PTAH_CAPTURE_RUNNING);
	/* Another tracer: the start is refused. */
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	ptah_model_wrmsr(ptah_machine_model(p.rig.machine, 0), PTAH_IA32_RTIT_CTL,
			 PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_TRACE_EN);
	p.open = false; /* observe() knows of the engine's traces only */
	assert_int_equal(ptah_capture_start(p.c), PTAH_E_BUSY);
	p.open = true;
	expect_state(PTAH_CAPTURE_IDLE);
	assert_int_equal(p.m.page->error, PTAH_E_BUSY);
	ptah_model_wrmsr(ptah_machine_model(p.rig.machine, 0), PTAH_IA32_RTIT_CTL, 0);
	close_play();

	open_play(&kinds[0], PTAH_POLICY_WRAP, true, 4);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_OUT);
	rig_switch(&p.rig, p.c, 1, true);
	expect_state(PTAH_CAPTURE_RUNNING);
	assert_int_equal(p.m.page->cpu, 1);
	put(10);
	rig_switch(&p.rig, p.c, 1, false);
	expect_state(PTAH_CAPTURE_OUT);
	assert_int_equal(p.m.page->position, 10);
	assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_PAUSED);
	rig_switch(&p.rig, p.c, 0, true);
	expect_state(PTAH_CAPTURE_PAUSED);
	assert_int_equal(ptah_capture_resume(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_RUNNING);
	/* Its processor goes offline: the thread is on none then, and may go on elsewhere. */
	irqs = p.rig.hal.irq_save(p.rig.machine);
	ptah_engine_cpu_offline(p.rig.engine);
	p.rig.hal.irq_restore(p.rig.machine, irqs);
	expect_state(PTAH_CAPTURE_OUT);
	irqs = p.rig.hal.irq_save(p.rig.machine);
	ptah_engine_cpu_online(p.rig.engine);
	p.rig.hal.irq_restore(p.rig.machine, irqs);
	rig_switch(&p.rig, p.c, 0, true);
	expect_state(PTAH_CAPTURE_RUNNING);
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_IDLE);
	close_play();
}

/* A guest's capture is RUNNING from before the VM entry to after the VM exit. */
TEST(guests)
{
	const struct kind kind = {"sapphire-rapids", PTAH_SHAPE_RING, false, 32768, 4096, 0};
	struct ptah_model_vmcs vmcs = {.load_rtit_ctl = true, .clear_rtit_ctl = true};
	struct ptah_model *model;
	unsigned round;
	uint64_t irqs;

	open_play(&kind, PTAH_POLICY_WRAP, true, 4);
	model = ptah_machine_model(p.rig.machine, 0);
	assert_int_equal(ptah_model_vmxon(model), PTAH_OK);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	for (round = 0; round < 10; round++) {
		irqs = p.rig.hal.irq_save(p.rig.machine);
		assert_int_equal(ptah_capture_vmentry(p.c, &vmcs.guest_rtit_ctl), PTAH_OK);
		expect_state(PTAH_CAPTURE_RUNNING);
		assert_int_equal(ptah_model_vm_entry(model, &vmcs), PTAH_OK);
		put(3000);
		step();
		ptah_model_vm_exit(model, &vmcs);
		expect_state(PTAH_CAPTURE_RUNNING);
		ptah_capture_vmexit(p.c);
		p.rig.hal.irq_restore(p.rig.machine, irqs);
		expect_state(PTAH_CAPTURE_OUT);
		assert_int_equal(p.m.page->position, rig_output(&p.rig, 0));
	}
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	expect_state(PTAH_CAPTURE_IDLE);
	finish_reading();
	compare_seen();
	assert_int_equal(p.confirmed, 30000);
	close_play();
}

/* One consumer at a time; each begins where the one before has ended. */
TEST(turns)
{
	struct ptah_capture_record record;
	struct ptah_capture_reader watching;
	struct ptah_capture_view view = {0};
	uint64_t address, watch;
	size_t bytes;

	open_play(&kinds[0], PTAH_POLICY_DRAIN, false, 4);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	put(3000);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_consume(p.c, 10, NULL), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_records(p.c, &record, 1), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_map_page(p.c, 8, true, &address), PTAH_E_BUSY);
	/* An observer sees everything and changes nothing. */
	assert_int_equal(ptah_capture_map_page(p.c, 8, false, &watch), PTAH_OK);
	assert_true(ptah_capture_reader_init(
	    &watching, ptah_machine_user(p.rig.machine, 8, watch, &bytes), NULL));
	assert_true(ptah_capture_reader_view(&watching, &view));
	assert_int_equal(view.position, 3000);
	assert_true(ptah_capture_reader_record(&p.m.r, &record));
	assert_int_equal(record.flags, PTAH_CAPTURED_STARTED);
	ptah_capture_reader_release(&p.m.r, 2990);
	assert_int_equal(ptah_capture_free(p.c), PTAH_E_BUSY);
	/* What the process released last counts, although nothing has looked since. */
	p.open = false;
	companion_close(&p.m, p.c);
	assert_int_equal(ptah_capture_page_sync(p.c), PTAH_E_INVAL);
	assert_int_equal(rig_status(p.c).tail, 2990);
	assert_int_equal(ptah_capture_consume(p.c, 2995, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_records(p.c, &record, 1), 1);
	assert_int_equal(record.flags, PTAH_CAPTURED_DATA);
	assert_int_equal(record.position, 3000);
	put(1000);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	assert_true(ptah_capture_reader_view(&watching, &view));
	assert_int_equal(view.position, 4000);
	/* The next process has another page content, whatever the last one wrote. */
	memset(p.m.page, 0xee, p.m.page->bytes);
	companion_open(&p.m, p.rig.machine, p.c, OWNER);
	assert_int_equal(p.m.next, 2995);
	assert_int_equal(p.m.page->consumed, 2995);
	assert_true(ptah_capture_reader_record(&p.m.r, &record));
	assert_int_equal(record.position, 4000);
	assert_false(ptah_capture_reader_record(&p.m.r, &record));
	/* When it dies, the capture's owner goes on. */
	ptah_engine_release_owner(p.rig.engine, OWNER);
	ptah_engine_release_owner(p.rig.engine, 8);
	free(p.m.copy);
	assert_int_equal(ptah_machine_mapped(p.rig.machine), 0);
	assert_int_equal(ptah_capture_consume(p.c, 3000, NULL), PTAH_OK);
	put(100);
	close_play();
}

/* Single-entry ToPA: the next consumer finds where the regions begin, whatever the last one wrote.
 */
TEST(starts_again)
{
	uint64_t before[4], *starts;
	unsigned i;

	open_play(&kinds[5], PTAH_POLICY_WRAP, false, 4);
	ptah_machine_on_gap(p.rig.machine, NULL, NULL);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	put(11000);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	assert_int_equal(p.m.page->regions, 4);
	assert_int_equal(p.m.page->fills, 2);
	starts = (uint64_t *)(void *)((uint8_t *)p.m.page + p.m.page->starts);
	memcpy(before, starts, sizeof(before));
	for (i = 1; i < 3; i++)
		assert_in_range(before[i] - before[i - 1], 1, 4096);
	memset(p.m.page, 0xee, p.m.page->bytes);
	companion_close(&p.m, p.c);
	companion_open(&p.m, p.rig.machine, p.c, OWNER);
	starts = (uint64_t *)(void *)((uint8_t *)p.m.page + p.m.page->starts);
	assert_memory_equal(starts, before, 3 * sizeof(before[0]));
	close_play();
}

/* After the capture got another buffer the page is that of the new one. */
TEST(resized)
{
	const size_t larger = 600 * 4096;
	uint64_t position;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		if (kinds[i].shape != PTAH_SHAPE_RING && kinds[i].shape != PTAH_SHAPE_AUTO)
			continue;
		open_play(&kinds[i], PTAH_POLICY_WRAP, false, 4);
		ptah_machine_on_gap(p.rig.machine, NULL, NULL);
		assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
		put(9000);
		assert_int_equal(ptah_capture_resize(p.c, larger, 4096, NULL), PTAH_E_BUSY);
		assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
		finish_reading();
		companion_close(&p.m, p.c);
		p.open = false;
		assert_int_equal(ptah_capture_resume(p.c), PTAH_OK);
		assert_int_equal(ptah_capture_resize(p.c, larger, 4096, NULL), PTAH_OK);
		put(700000);
		assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
		position = p.m.next;
		companion_open(&p.m, p.rig.machine, p.c, OWNER);
		p.m.read = got;
		p.open = true;
		assert_int_equal(p.m.next, position);
		assert_int_equal(p.m.page->buffer, larger);
		assert_int_equal(p.m.page->regions, 600);
		finish_reading();
		compare_seen();
		assert_int_equal(p.m.lost, 0);
		close_play();
	}
}

/* A capture that comes out of its pool again has a page without the last owner's trace. */
TEST(pooled)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_record record;
	struct ptah_capture *c;
	struct companion m;
	struct ptah_pool *pool;
	struct rig rig;
	unsigned round;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	rig_silence(&rig, 0, &(struct ptah_model_faults){.silent = true});
	config = rig_config(&rig, &trace);
	config.policy = PTAH_POLICY_DRAIN;
	assert_int_equal(ptah_pool_new(rig.engine, &config, 1, &pool, NULL), PTAH_OK);
	for (round = 0; round < 3; round++) {
		assert_int_equal(ptah_pool_take(pool, 1, NULL, NULL, &c, NULL), PTAH_OK);
		companion_open(&m, rig.machine, c, OWNER);
		assert_int_equal(m.next, 0);
		assert_int_equal(m.page->records_read, 0);
		assert_int_equal(m.page->laps, 0);
		assert_false(ptah_capture_reader_record(&m.r, &record));
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 5000);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_true(ptah_capture_reader_record(&m.r, &record));
		assert_true(m.page->position >= 65536 && m.page->tail == 0);
		ptah_capture_reader_release(&m.r, 5000);
		memset(m.page, 0xee, m.page_bytes);
		/* The owner of the capture dies, or that of the mapping and then the capture's. */
		if (round)
			ptah_engine_release_owner(rig.engine, OWNER);
		ptah_engine_release_owner(rig.engine, 1);
		assert_int_equal(ptah_machine_mapped(rig.machine), 0);
		assert_int_equal(ptah_pool_left(pool), 1);
	}
	assert_int_equal(ptah_pool_free(pool), PTAH_OK);
	rig_close(&rig);
}

static int map_fails(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
		     bool writable, uint64_t *address)
{
	(void)port;
	(void)owner;
	(void)pieces;
	(void)n;
	(void)writable;
	(void)address;
	return PTAH_E_NOMEM;
}

static uint64_t drains(void *cookie, struct ptah_capture *c, uint64_t tail, uint64_t position)
{
	(void)cookie;
	(void)c;
	(void)tail;
	return position;
}

static int alloc_more(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	return p.alloc(port, size + 4096, align, memory);
}

static struct ptah_capture *mapped_meanwhile;

static int alloc_slowly(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	struct ptah_capture *c = mapped_meanwhile;
	uint64_t address;

	mapped_meanwhile = NULL;
	if (c)
		assert_int_equal(ptah_capture_map_page(c, 2, false, &address), PTAH_OK);
	return p.alloc(port, size, align, memory);
}

/* Two processes map the page of a capture that has none yet: as if one after the other. */
TEST(mapped_twice_at_once)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	size_t allocated[2];
	uint64_t address;
	struct rig rig;
	unsigned n;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	p.alloc = rig.hal.alloc;
	for (n = 0; n < 2; n++) {
		c = rig_capture(&rig, &config);
		rig.hal.alloc = alloc_slowly;
		mapped_meanwhile = n ? c : NULL;
		assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_OK);
		if (!n)
			assert_int_equal(ptah_capture_map_page(c, 2, false, &address), PTAH_OK);
		rig.hal.alloc = p.alloc;
		allocated[n] = ptah_machine_allocated(rig.machine);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		ptah_engine_release_owner(rig.engine, 1);
		ptah_engine_release_owner(rig.engine, 2);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
	}
	assert_int_equal(allocated[0], allocated[1]);
	rig_close(&rig);
}

/* What fails leaves nothing behind, neither memory nor a consumer. */
TEST(refused)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	uint64_t address;
	struct rig rig;
	size_t before;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	config.policy = PTAH_POLICY_DRAIN;
	config.drain = drains;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_map_page(c, 1, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_unmap(c, 1, address), PTAH_OK);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	config.drain = NULL;
	c = rig_capture(&rig, &config);
	before = ptah_machine_allocated(rig.machine);
	assert_int_equal(ptah_capture_map_page(NULL, 1, true, &address), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_map_page(c, 1, true, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_page_sync(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_page_sync(c), PTAH_E_INVAL);
	ptah_machine_fail_alloc(rig.machine, 1);
	assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_E_NOMEM);
	assert_int_equal(ptah_machine_allocated(rig.machine), before);
	/* A larger block has memory of others in it. */
	p.alloc = rig.hal.alloc;
	rig.hal.alloc = alloc_more;
	assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_E_UNSUPPORTED);
	rig.hal.alloc = p.alloc;
	assert_int_equal(ptah_machine_allocated(rig.machine), before);
	p.map = rig.hal.user_map;
	rig.hal.user_map = map_fails;
	assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_E_NOMEM);
	rig.hal.user_map = p.map;
	assert_int_equal(ptah_capture_consume(c, 0, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_map_page(c, 1, true, &address), PTAH_OK);
	assert_int_equal(ptah_capture_unmap(c, 1, address), PTAH_OK);
	assert_int_equal(ptah_capture_unmap(c, 1, address), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

/* The ABI */

/* Each byte of the trace is where ptah_capture_pieces() says, also in a buffer of many blocks. */
TEST(addresses)
{
	struct ptah_piece pieces[64];
	struct ptah_capture_status s;
	const void *address = NULL;
	uint64_t at, size;
	size_t i, there;
	int n, k;

	for (i = 0; i < KINDS; i++) {
		open_play(&kinds[i], PTAH_POLICY_WRAP, false, 4);
		assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
		for (k = 0; k < 100; k++) {
			put(700);
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
		}
		assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
		s = rig_status(p.c);
		assert_int_equal(p.m.page->buffer, s.buffer);
		assert_int_equal(p.m.page->region, s.region);
		assert_int_equal(p.m.page->regions, s.regions);
		assert_int_equal(p.m.page->shape, s.shape);
		assert_int_equal(p.m.page->policy, s.policy);
		assert_int_equal(p.m.page->processor, 0);
		assert_int_equal(p.m.page->end, s.position);
		assert_true(s.oldest > 0);
		n = ptah_capture_pieces(p.c, s.oldest, s.position, pieces, 64);
		assert_true(n > 0);
		for (k = 0, at = s.oldest; k < n; at += pieces[k++].size) {
			for (there = 0; there < pieces[k].size; there += size) {
				size = ptah_capture_reader_bytes(&p.m.r, at + there,
								 at + pieces[k].size, &address);
				assert_true(size > 0);
				assert_int_equal((uintptr_t)address - p.m.buffer_address,
						 pieces[k].offset + there);
			}
		}
		assert_int_equal(at, s.position);
		/* What was overwritten, and what does not exist, has no address. */
		if (p.m.r.starts)
			assert_int_equal(ptah_capture_reader_bytes(&p.m.r, 0, 10, &address), 0);
		assert_int_equal(ptah_capture_reader_bytes(&p.m.r, 10, 10, &address), 0);
		close_play();
	}
}

/* A reader does not begin on what is no page, or where its parts are not within it. */
TEST(no_page)
{
	static const struct {
		size_t offset, size;
		uint64_t value;
	} wrong[] = {
	    {offsetof(struct ptah_capture_page, magic), 8, 1},
	    {offsetof(struct ptah_capture_page, version), 4, 2},
	    {offsetof(struct ptah_capture_page, size), 4, 383},
	    {offsetof(struct ptah_capture_page, bytes), 8, 4096 + 64 * 32 - 1},
	    {offsetof(struct ptah_capture_page, buffer), 8, 0},
	    {offsetof(struct ptah_capture_page, regions), 4, 0},
	    {offsetof(struct ptah_capture_page, regions), 4, 5},
	    {offsetof(struct ptah_capture_page, region), 8, 0},
	    {offsetof(struct ptah_capture_page, region), 8, 4097},
	    {offsetof(struct ptah_capture_page, layout), 4, 2},
	    {offsetof(struct ptah_capture_page, records), 4, 8192},
	    {offsetof(struct ptah_capture_page, records), 4, 376},
	    {offsetof(struct ptah_capture_page, records), 4, 4100},
	    {offsetof(struct ptah_capture_page, record_size), 4, 24},
	    {offsetof(struct ptah_capture_page, record_size), 4, 4096},
	    {offsetof(struct ptah_capture_page, record_count), 4, 0},
	    {offsetof(struct ptah_capture_page, record_count), 4, 48},
	    {offsetof(struct ptah_capture_page, record_count), 4, 128},
	    {offsetof(struct ptah_capture_page, starts), 4, 376},
	    {offsetof(struct ptah_capture_page, starts), 4, 4096 + 64 * 32 + 8},
	};
	struct ptah_capture_reader r;
	static union {
		struct ptah_capture_page page;
		uint8_t bytes[8192]; /* as many as the page says that it has */
	} copy;
	size_t i;

	open_play(&kinds[5], PTAH_POLICY_WRAP, false, 4);
	p.m.page->record_count = 64; /* as for 64 records */
	p.m.page->starts = 4096 + 64 * 32;
	p.m.page->bytes = p.m.page->starts + 4 * 8;
	copy.page = *p.m.page;
	assert_true(ptah_capture_reader_init(&r, &copy.page, NULL));
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		copy.page = *p.m.page;
		memcpy(copy.bytes + wrong[i].offset, &wrong[i].value, wrong[i].size);
		assert_false(ptah_capture_reader_init(&r, &copy.page, NULL));
	}
	close_play();
}

/* docs/capture-page.md lists each field with its offset and size, as the header has it. */
TEST(documented)
{
#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct ptah_capture_page, name),                                   \
		    sizeof(((struct ptah_capture_page *)NULL)->name)                               \
	}
	static const struct {
		const char *name;
		size_t offset, size;
	} fields[] = {
	    FIELD(magic),	FIELD(version),		FIELD(size),	  FIELD(bytes),
	    FIELD(buffer),	FIELD(region),		FIELD(origin),	  FIELD(regions),
	    FIELD(layout),	FIELD(shape),		FIELD(policy),	  FIELD(records),
	    FIELD(record_size), FIELD(record_count),	FIELD(starts),	  FIELD(processor),
	    FIELD(covered),	FIELD(reserved0),	FIELD(sequence),  FIELD(position),
	    FIELD(end),		FIELD(oldest),		FIELD(tail),	  FIELD(lost),
	    FIELD(laps),	FIELD(looks),		FIELD(fills),	  FIELD(dropped),
	    FIELD(state),	FIELD(error),		FIELD(cpu),	  FIELD(reserved1),
	    FIELD(owed),	FIELD(records_written), FIELD(waiting),	  FIELD(reserved2),
	    FIELD(consumed),	FIELD(records_read),	FIELD(reserved3),
	};
	const char *source = getenv("PTAH_SOURCE");
	char path[1024], line[1024], row[128];
	size_t i = 0, end = 0;
	FILE *file;

	if (!source)
		skip();
	snprintf(path, sizeof(path), "%s/docs/capture-page.md", source);
	file = fopen(path, "r");
	assert_non_null(file);
	while (i < sizeof(fields) / sizeof(fields[0]) && fgets(line, sizeof(line), file)) {
		snprintf(row, sizeof(row), "| %zu | %zu | `%s` |", fields[i].offset, fields[i].size,
			 fields[i].name);
		if (strncmp(line, row, strlen(row)))
			continue;
		/* No gaps that a compiler could fill otherwise. */
		assert_int_equal(fields[i].offset, end);
		end += fields[i++].size;
	}
	fclose(file);
	if (i < sizeof(fields) / sizeof(fields[0]))
		fail_msg("no row \"%s\", in this place", row);
	assert_int_equal(end, sizeof(struct ptah_capture_page));
}

/* Records */

/* The same calls each time; `records` find room in the ring. Returns how many the companion got. */
static unsigned eventful(unsigned records, struct ptah_capture_record *got_records)
{
	struct ptah_capture_config config;
	struct ptah_capture_view view = {0};
	struct ptah_capture_record owed;
	unsigned i, n = 0;

	memset(&p, 0, sizeof(p));
	rig_open(&p.rig, ptah_model_find("skylake"), 1);
	rig_silence(&p.rig, 0, &(struct ptah_model_faults){.silent = true});
	config = rig_config(&p.rig, &p.trace);
	config.region = 4096;
	config.records = records;
	p.c = rig_capture(&p.rig, &config);
	companion_open(&p.m, p.rig.machine, p.c, OWNER);
	p.m.r.record = p.m.page->records_read;
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	stream_put(&p.stream, &p.rig, 0, 100);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	ptah_capture_reader_release(&p.m.r, 1);
	for (i = 0; i < 30; i++) {
		stream_put(&p.stream, &p.rig, 0, 16000);
		assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
		if (i == 7)
			assert_int_equal(ptah_capture_reconfigure(p.c, &p.trace, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_resume(p.c), PTAH_OK);
		if (i == 12)
			ptah_model_senter(ptah_machine_model(p.rig.machine, 0));
	}
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	while (ptah_capture_reader_record(&p.m.r, &got_records[n]))
		n++;
	assert_true(ptah_capture_reader_view(&p.m.r, &view));
	owed = view.owed;
	assert_int_equal(owed.flags != 0, view.dropped != 0);
	assert_int_equal(view.lost, view.oldest - 1);
	/* There is room now: the next look delivers the rest, as one record. */
	assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
	while (ptah_capture_reader_record(&p.m.r, &got_records[n])) {
		assert_int_equal(got_records[n].flags, owed.flags);
		assert_int_equal(got_records[n].lost, owed.lost);
		assert_int_equal(got_records[n].position, owed.position);
		n++;
	}
	assert_int_equal(n, records < 100 ? records + 1 : n);
	assert_true(ptah_capture_reader_view(&p.m.r, &view));
	assert_int_equal(view.owed.flags, 0);
	stream_free(&p.stream);
	companion_close(&p.m, p.c);
	assert_int_equal(ptah_capture_free(p.c), PTAH_OK);
	rig_close(&p.rig);
	return n;
}

TEST(records_overflow)
{
	static struct ptah_capture_record all[512], few[512];
	unsigned n, k, room, i;
	uint64_t lost = 0, lost_of_few;
	uint32_t flags = 0, flags_of_few;

	n = eventful(256, all);
	assert_true(n > 60 && n < 256);
	for (i = 0; i < n; i++) {
		assert_true(!i || all[i].position >= all[i - 1].position);
		lost += all[i].lost;
		flags |= all[i].flags;
	}
	/* SENTER has cleared TraceEn for one of the thirty times. */
	assert_int_equal(all[n - 1].position, 29 * 16000 + 100);
	for (room = 1; room <= 16; room *= 4) {
		k = eventful(room, few);
		lost_of_few = flags_of_few = 0;
		for (i = 0; i < k; i++) {
			lost_of_few += few[i].lost;
			flags_of_few |= few[i].flags;
			if (i < room)
				assert_int_equal(few[i].position, all[i].position);
		}
		assert_int_equal(lost_of_few, lost);
		assert_int_equal(flags_of_few, flags | PTAH_CAPTURED_DROPPED);
	}
}

/* Waiting */

static struct {
	unsigned at, seen;
	bool done;
	uint64_t upto;
} once;

/* The companion releases everything in one gap. */
static void release_in_gap(void *argument, unsigned cpu, const char *callback)
{
	struct ptah_capture_view view = {0};

	(void)argument;
	(void)cpu;
	(void)callback;
	if (once.done || once.seen++ != once.at)
		return;
	once.done = true;
	assert_true(ptah_capture_reader_view(&p.m.r, &view));
	once.upto = view.position;
	p.m.sync = ptah_capture_reader_release(&p.m.r, view.position);
}

/*
 * A companion that releases bytes at any instruction of a look continues the trace: the engine
 * finds the room by itself, or the companion learns that it is waited for.
 */
static bool releases_at(const struct kind *kind, unsigned at, unsigned filled)
{
	uint64_t before;
	unsigned round;

	open_play(kind, PTAH_POLICY_DRAIN, false, 4);
	ptah_machine_on_gap(p.rig.machine, release_in_gap, NULL);
	once.seen = 0;
	once.done = true;
	once.at = at;
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	for (round = 0; round < filled; round++) {
		put(kind->buffer / 16);
		/* The tail is in the second region of several. */
		if (round != 4)
			continue;
		assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
		ptah_capture_reader_release(&p.m.r, kind->buffer / 7);
	}
	/* The looks of PMIs alone, or also one that comes without. */
	once.done = false;
	put(kind->buffer / 8);
	if (filled % 2 == 0 || kind->no_pmi)
		assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	put(kind->buffer / 16);
	/* From now on it works as capture_page.h says, but nobody else looks. */
	for (round = 0; once.done && round < 64; round++) {
		struct ptah_capture_view view = {0};

		before = rig_output(&p.rig, 0);
		if (p.m.sync)
			assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
		p.m.sync = false;
		put(kind->buffer / 16);
		assert_true(ptah_capture_reader_view(&p.m.r, &view));
		if (view.position > once.upto) {
			once.upto = view.position;
			p.m.sync = ptah_capture_reader_release(&p.m.r, once.upto);
		}
		/* Without PMIs somebody has to look from time to time. */
		p.m.sync |= kind->no_pmi;
		assert_true(rig_output(&p.rig, 0) > before || p.m.sync);
	}
	assert_true(!once.done || rig_output(&p.rig, 0) > 2 * kind->buffer);
	close_play();
	return once.done;
}

TEST(nobody_waits)
{
	unsigned at, filled, gaps = 0;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		if (kinds[i].shape == PTAH_SHAPE_SINGLE)
			continue;
		for (filled = 9; filled <= 16; filled++) {
			for (at = 0; releases_at(&kinds[i], at, filled); at++)
				gaps++;
		}
	}
	assert_true(gaps > 300);
}

/* The engine has just found the buffer full: the line for the log is written then. */
static void release_in_log(void *port, const char *line)
{
	(void)port;
	release_in_gap(NULL, 0, line);
}

/*
 * With few PMIs the buffer is full before the engine has said that it waits. Room that the
 * companion makes after the search for it, before the page says so, is found nevertheless.
 */
TEST(full_at_once)
{
	static const struct kind kind = {"skylake", PTAH_SHAPE_RING, false, 65536, 4096, 2};
	uint64_t output;
	unsigned by_log;

	for (by_log = 0; by_log < 2; by_log++) {
		open_play(&kind, PTAH_POLICY_DRAIN, false, 4);
		rig_silence(&p.rig, 0, &(struct ptah_model_faults){0});
		ptah_machine_on_gap(p.rig.machine, NULL, NULL);
		p.open = false;
		once.done = false;
		once.seen = once.at = 0;
		if (by_log)
			p.rig.hal.log = release_in_log;
		assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
		put(66000);
		assert_int_equal(once.done, by_log);
		assert_int_equal(p.m.page->state == PTAH_CAPTURE_RUNNING, by_log);
		assert_int_equal(p.m.page->waiting != 0, !by_log);
		output = rig_output(&p.rig, 0);
		put(5000);
		assert_int_equal(rig_output(&p.rig, 0) > output, by_log);
		p.rig.hal.log = NULL;
		p.open = true;
		close_play();
	}
}

/* Each instruction */

/* A signal for each instruction takes too long with the sanitizers' own. */
#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !HAS_FEATURE(address_sanitizer) && !HAS_FEATURE(thread_sanitizer)
#define SINGLE_STEPS 1
#endif

#ifdef SINGLE_STEPS

static struct {
	volatile unsigned steps, views, wrong, records;
	struct ptah_capture_reader r;
} each;

/* Takes the records that there are. Each is of a look at the processor: it has flags. */
static void take_each_record(void)
{
	struct ptah_capture_record record;

	while (ptah_capture_reader_record(&each.r, &record)) {
		each.records = each.records + 1;
		if (!record.flags)
			each.wrong = each.wrong + 1;
	}
}

/* Between two instructions of the engine another processor takes a view. */
static void on_instruction(int number)
{
	struct ptah_capture_view v;

	(void)number;
	each.steps = each.steps + 1;
	if (!ptah_capture_reader_view(&each.r, &v))
		return;
	take_each_record();
	each.views = each.views + 1;
	if (v.laps != v.position / each.r.size || v.end != v.position ||
	    v.oldest != (v.position < each.r.size ? 0 : v.position - each.r.size) ||
	    v.lost > v.oldest || (v.state == PTAH_CAPTURE_RUNNING) != (v.cpu == 0) ||
	    (v.state != PTAH_CAPTURE_RUNNING && rig_enabled(&p.rig, 0)))
		each.wrong = each.wrong + 1;
}

static void single_step(bool on)
{
	uint64_t flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags)::"memory");
	flags = on ? flags | 0x100 : flags & ~UINT64_C(0x100);
	__asm__ volatile("pushq %0\n\tpopfq" ::"r"(flags) : "memory", "cc");
}

#endif

/* Every view that is taken, at whatever instruction, has all fields of one moment. */
TEST(every_instruction)
{
#ifdef SINGLE_STEPS
	struct sigaction old, trap = {.sa_handler = on_instruction};
	unsigned round;

	open_play(&kinds[0], PTAH_POLICY_WRAP, false, 4);
	ptah_machine_on_gap(p.rig.machine, NULL, NULL);
	memset(&each, 0, sizeof(each));
	each.r = p.m.r;
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	put(10);
	assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
	ptah_capture_reader_release(&p.m.r, 1);
	assert_int_equal(sigaction(SIGTRAP, &trap, &old), 0);
	for (round = 0; round < 3; round++) {
		put(20000);
		single_step(true);
		if (round == 0)
			ptah_capture_flush(p.c, NULL);
		else if (round == 1)
			ptah_capture_pause(p.c);
		else
			ptah_capture_stop(p.c);
		single_step(false);
	}
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
	assert_int_equal(each.wrong, 0);
	assert_true(each.records >= 4);
	assert_true(each.views > 500 && each.views < each.steps);
	close_play();
#else
	skip();
#endif
}

/* Room that is made between the search for it and the report that there is none is found: the
 * companion does not know yet that it is waited for. */
TEST(room_meanwhile)
{
	open_play(&kinds[0], PTAH_POLICY_DRAIN, false, 4);
	assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
	put(kinds[0].buffer);
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	/* As in a start, after room_find(). */
	atomic_store(&p.c->started, true);
	atomic_store(&p.c->halt, HALT_FULL);
	assert_false(ptah_capture_reader_release(&p.m.r, 5000));
	assert_true(page_publish(p.c));
	assert_int_equal(rig_status(p.c).tail, 5000);
	/* From now on the companion knows. */
	assert_true(ptah_capture_reader_release(&p.m.r, 6000));
	assert_false(page_publish(p.c));
	atomic_store(&p.c->started, false);
	close_play();
}

/* Hostile companions */

static uint64_t nonsense(void)
{
	uint64_t position = ptah_capture_position(p.c);

	switch (chance(6)) {
	case 0:
		return position;
	case 1:
		return position + chance(3) - 1;
	case 2:
		return chance(position + 1);
	case 3:
		return p.m.page->records_written + chance(5) - 2;
	case 4:
		return chance(2) ? 0 : UINT64_MAX;
	default:
		return chance(UINT32_MAX) << chance(33);
	}
}

static void write_nonsense(void)
{
	uint64_t *words = (uint64_t *)(void *)p.m.page, value = nonsense();
	unsigned n;

	switch (chance(4)) {
	case 0:
		p.m.page->consumed = value;
		break;
	case 1:
		p.m.page->records_read = (uint32_t)value;
		break;
	case 2:
		words[chance(p.m.page_bytes / 8)] = value;
		break;
	default:
		for (n = 0; n < 48; n++)
			words[n] = nonsense();
	}
}

static void hostile_gap(void *argument, unsigned cpu, const char *callback)
{
	(void)argument;
	(void)cpu;
	(void)callback;
	p.gaps++;
	if (p.inside)
		return;
	p.inside = true;
	if (!chance(2))
		write_nonsense();
	if (!chance(8))
		put(chance(200));
	p.inside = false;
}

static void attack(const struct kind *kind, uint8_t policy, uint64_t seed)
{
	struct ptah_capture_record record;
	struct ptah_capture_status s;
	uint64_t tail = 0, from, position = 0;
	unsigned round, n = 0;

	open_play(kind, policy, seed & 1, seed);
	p.open = false;
	ptah_machine_on_gap(p.rig.machine, hostile_gap, NULL);
	for (round = 0; round < 40; round++) {
		p.gaps = 0;
		expect_started(ptah_capture_start(p.c));
		if (p.thread)
			rig_switch(&p.rig, p.c, 0, true);
		/* Each call ends, after as many instructions as with any other consumer. */
		assert_true(p.gaps < 300);
		put(chance(kind->buffer / 2));
		write_nonsense();
		if (chance(2))
			assert_int_equal(ptah_capture_page_sync(p.c), PTAH_OK);
		if (p.thread)
			rig_switch(&p.rig, p.c, 0, false);
		/* With STOP it may not have been started. */
		if (ptah_capture_pause(p.c) < 0)
			assert_int_equal(policy, PTAH_POLICY_STOP);
		s = rig_status(p.c);
		assert_int_equal(s.position, rig_output(&p.rig, 0));
		assert_true(s.tail >= tail && s.tail <= s.position);
		tail = s.tail;
		/* What the engine takes for unread is not overwritten. */
		from = s.tail > s.oldest ? s.tail : s.oldest;
		if (policy != PTAH_POLICY_WRAP)
			assert_true(s.oldest <= s.tail);
		stream_check(&p.stream, p.c, from, s.position);
		if (ptah_capture_stop(p.c) < 0)
			fail();
	}
	/* Without it everything is in order: the engine keeps its records to itself. */
	companion_close(&p.m, p.c);
	ptah_machine_on_gap(p.rig.machine, NULL, NULL);
	while (ptah_capture_records(p.c, &record, 1) == 1) {
		assert_true(record.position >= position && record.position <= s.position);
		assert_true(record.cpu < 2 && !(record.flags & PTAH_CAPTURED_DROPPED << 1));
		position = record.position;
		n++;
	}
	assert_true(n <= p.wakes);
	assert_int_equal(ptah_capture_consume(p.c, s.position, NULL), PTAH_OK);
	close_play();
}

TEST(hostile)
{
	unsigned policy;
	uint64_t seed;
	size_t i;

	for (i = 0; i < KINDS; i++) {
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			if (kinds[i].shape == PTAH_SHAPE_SINGLE)
				continue;
			for (seed = 0; seed < 6; seed++)
				attack(&kinds[i], (uint8_t)policy, seed);
		}
	}
}
