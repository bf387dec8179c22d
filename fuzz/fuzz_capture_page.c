/* SPDX-License-Identifier: MIT */
/*
 * Proves of the page that a capture shares with a process, for any calls in any order
 * and anything that the process writes anywhere into the page, between any two
 * instructions of the engine: the engine reads and writes nothing outside of the page
 * (AddressSanitizer) and breaks no rule of hal.h; each call ends after as many
 * instructions as ever; the tail stays between the oldest unread byte and the
 * position, and never goes back; the position is the processor's, and with STOP and
 * DRAIN each byte from the tail on is the one that was output. And of the reader of
 * capture_page.h, on such a page: it stays within the page and the buffer, and ends.
 *
 * Input: the processor and the capture (three bytes), then actions: a byte that
 * chooses the action, and three for its arguments.
 */
#include "fuzz.h"

#define PTAH_CAPTURE_TRIES 4u

#include <ptah/engine/engine.h>
#include <ptah/model/machine.h>

#define ARENA	(1u << 20)
#define PROCESS 5u
#define OUTPUT	(1u << 20)
/* Far more callbacks of the HAL than any call makes. */
#define CALLS 2000u

static struct play {
	struct ptah_machine *machine;
	struct ptah_hal inner, hal;
	struct ptah_engine *engine;
	struct ptah_capture *c;
	uint64_t buffer, address;
	struct ptah_capture_page *page; /* in memory of its own */
	size_t page_bytes;
	bool apart, thread, wraps, mapped;
	struct ptah_capture_reader r;
	bool reads;
	uint64_t output, tail;
	unsigned gaps, calls;
	uint64_t chance;
} p;

static uint8_t *arena;

static struct ptah_model *model(void)
{
	return ptah_machine_model(p.machine, 0);
}

static uint8_t byte_of(uint64_t position)
{
	return (uint8_t)(position * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static void put(unsigned n)
{
	uint8_t bytes[64];
	unsigned part, i;

	for (; n; n -= part) {
		uint64_t before = ptah_model_output_bytes(model(), NULL);

		part = n < sizeof(bytes) ? n : (unsigned)sizeof(bytes);
		for (i = 0; i < part; i++)
			bytes[i] = byte_of(before + i);
		ptah_model_put(model(), bytes, part);
		p.output = ptah_model_output_bytes(model(), NULL);
		ptah_model_boundary(model());
	}
}

static int alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	if (!p.apart)
		return p.inner.alloc(port, size, align, memory);
	memory->address = aligned_alloc(align, size);
	CHECK(memory->address);
	memory->physical = 0x4000;
	memory->size = size;
	p.page = memory->address;
	p.page_bytes = size;
	return PTAH_OK;
}

static void release(void *port, const struct ptah_hal_memory *memory)
{
	if (memory->address == p.page)
		free(memory->address);
	else
		p.inner.release(port, memory);
}

static void on_pmi(void *argument, unsigned cpu)
{
	(void)argument;
	(void)cpu;
	ptah_engine_pmi(p.engine);
}

/* The process */

static uint64_t number(unsigned which, unsigned a)
{
	switch (which % 6) {
	case 0:
		return p.output - (a & 15) + 4;
	case 1:
		return ptah_capture_position(p.c) * a / 255;
	case 2:
		return ptah_capture_recorded(p.c) - (a & 7) + 3;
	case 3:
		return a;
	case 4:
		return ~(uint64_t)a;
	default:
		return fuzz_random(&p.chance);
	}
}

static void scribble(unsigned a, unsigned b, unsigned c)
{
	uint64_t value = number(a, c);

	if (!p.mapped)
		return;
	switch (a / 6 % 4) {
	case 0:
		p.page->consumed = value;
		break;
	case 1:
		p.page->records_read = (uint32_t)value;
		break;
	case 2:
		memcpy((uint8_t *)p.page + (b & 63) * 8, &value, 8);
		break;
	default:
		memcpy((uint8_t *)p.page + (b << 8 | c) % (p.page_bytes / 8) * 8, &value, 8);
	}
}

/* Reads like a process that knows nothing of the nonsense that it has written. */
static void read_page(unsigned a)
{
	struct ptah_capture_view before, after;
	struct ptah_capture_record record;
	const uint8_t *buffer = (const uint8_t *)(uintptr_t)p.buffer;
	const void *address;
	uint64_t first, last, at;
	unsigned n;

	if (!p.mapped)
		return;
	if (a & 1)
		p.reads = ptah_capture_reader_init(&p.r, p.page, buffer);
	if (!p.reads)
		return;
	for (n = 0; n < 4; n++)
		ptah_capture_reader_record(&p.r, &record);
	if (!ptah_capture_reader_view(&p.r, &before))
		return;
	for (n = 0, at = before.oldest; n < 8; n++) {
		size_t size = ptah_capture_reader_bytes(&p.r, at, before.end, &address);
		uint64_t offset = (uint64_t)((uintptr_t)address - p.buffer);

		if (!size)
			break;
		CHECK(offset < p.r.size && size <= p.r.size - offset && size <= before.end - at);
		at += size;
	}
	if (ptah_capture_reader_view(&p.r, &after))
		ptah_capture_reader_sure(&p.r, &before, &after, &first, &last);
	if (a & 2)
		ptah_capture_reader_release(&p.r, before.end);
}

static void on_gap(void *argument, unsigned cpu, const char *callback)
{
	uint64_t chance;

	(void)argument;
	(void)cpu;
	(void)callback;
	CHECK(p.calls++ < CALLS);
	if (!p.gaps)
		return;
	p.gaps--;
	chance = fuzz_random(&p.chance);
	if (chance % 4 == 0)
		put(chance >> 8 & 63);
	else if (chance % 4 == 1)
		read_page(chance >> 8 & 3);
	else
		scribble(chance >> 8 & 255, chance >> 16 & 255, chance >> 24 & 255);
}

/* The driver */

static void map_page(void)
{
	p.apart = true;
	p.mapped = ptah_capture_map_page(p.c, PROCESS, true, &p.address) == PTAH_OK;
	p.apart = false;
	CHECK(p.mapped);
	p.reads = ptah_capture_reader_init(&p.r, p.page, (void *)(uintptr_t)p.buffer);
	/* Whatever was in it before. */
	CHECK(p.reads && p.page->consumed == p.tail);
}

static void toggle_map(void)
{
	struct ptah_capture_record record;

	if (!p.mapped) {
		map_page();
		return;
	}
	CHECK(ptah_capture_unmap(p.c, PROCESS, p.address) == PTAH_OK);
	p.mapped = false;
	while (ptah_capture_records(p.c, &record, 1) == 1)
		CHECK(record.position <= p.output && record.cpu == 0);
}

static void switch_thread(bool in)
{
	uint64_t irqs = p.hal.irq_save(p.machine);

	if (in)
		ptah_capture_switch_in(p.c);
	else
		ptah_capture_switch_out(p.c);
	p.hal.irq_restore(p.machine, irqs);
}

static void check(void)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	struct ptah_piece pieces[4];
	uint64_t at;
	int n, i;

	CHECK(ptah_capture_status(p.c, &s) == PTAH_OK);
	CHECK(s.tail >= p.tail && s.tail <= s.position && s.position <= p.output);
	p.tail = s.tail;
	if (s.cpu >= 0 || p.wraps)
		return;
	CHECK(s.position == p.output && s.oldest <= s.tail);
	for (at = s.tail; at < s.position;) {
		n = ptah_capture_pieces(p.c, at, s.position, pieces, 4);
		CHECK(n > 0);
		for (i = 0; i < n; i++) {
			const uint8_t *bytes = pieces[i].address;
			size_t k;

			for (k = 0; k < pieces[i].size; k++, at++)
				CHECK(bytes[k] == byte_of(at));
		}
	}
}

static void act(unsigned which, unsigned a, unsigned b, unsigned c)
{
	p.calls = 0;
	switch (which % 12) {
	case 0:
	case 1:
		for (a &= 15; a && p.output < OUTPUT; a--) {
			p.calls = 0;
			put(b * 4);
		}
		break;
	case 2:
	case 3:
		scribble(a, b, c);
		break;
	case 4:
		read_page(a);
		break;
	case 5:
		p.gaps = a;
		break;
	case 6:
		ptah_capture_start(p.c);
		break;
	case 7:
		CHECK(a & 3 || ptah_capture_stop(p.c) == PTAH_OK);
		break;
	case 8:
		CHECK(ptah_capture_page_sync(p.c) == (p.mapped ? PTAH_OK : PTAH_E_INVAL));
		break;
	case 9:
		if (a & 1)
			ptah_capture_pause(p.c);
		else
			ptah_capture_resume(p.c);
		break;
	case 10:
		if (p.thread)
			switch_thread(a & 1);
		break;
	default:
		if (a < 64)
			toggle_map();
	}
	CHECK(!ptah_machine_violation(p.machine));
	check();
}

static bool open_play(unsigned which, unsigned a, unsigned b)
{
	static const char *const names[] = {"skylake", "minimal", "maximal", "broadwell"};
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = 1,
	    .processor = ptah_model_find(names[which & 3]),
	    .arena_size = ARENA,
	    .physical = 0x10000000,
	};
	struct ptah_capture_config request = {.size = sizeof(request)};
	struct ptah_model_faults faults = {.silent = true, .pmi_skid_bytes = (b & 7) * 100};
	struct ptah_trace_config trace;

	memset(&p, 0, sizeof(p));
	p.chance = which * 2 + 1;
	if (!arena)
		arena = aligned_alloc(4096, ARENA);
	p.machine = malloc(ptah_machine_size(1));
	CHECK(arena && p.machine);
	config.arena = arena;
	CHECK(ptah_machine_init(p.machine, &config) == PTAH_OK);
	ptah_model_set_faults(model(), &faults);
	ptah_machine_hal(p.machine, &p.inner);
	p.hal = p.inner;
	p.hal.alloc = alloc;
	p.hal.release = release;
	CHECK(ptah_engine_new(&p.hal, p.machine, &p.engine) == PTAH_OK);
	ptah_machine_on_pmi(p.machine, on_pmi, NULL);
	ptah_trace_config_default(ptah_engine_caps(p.engine, 0), &trace);
	p.thread = a & 1;
	p.wraps = a / 2 % PTAH_POLICY_MAX == PTAH_POLICY_WRAP;
	request.trace = &trace;
	request.cpu = p.thread ? PTAH_CAPTURE_THREAD : 0;
	request.policy = (uint8_t)(a / 2 % PTAH_POLICY_MAX);
	request.no_pmi = a & 0x40;
	request.buffer = 16384 << (a >> 7);
	request.region = b & 8 ? 4096 : 0;
	request.records = 1u << (b >> 4 & 7);
	if (ptah_capture_new(p.engine, &request, &p.c, NULL) < 0)
		return false;
	CHECK(ptah_capture_map(p.c, PROCESS, false, &p.buffer) == PTAH_OK);
	map_page();
	ptah_machine_on_gap(p.machine, on_gap, NULL);
	return true;
}

static void close_play(void)
{
	p.gaps = p.calls = 0;
	if (p.c) {
		CHECK(ptah_capture_stop(p.c) == PTAH_OK);
		check();
		ptah_engine_release_owner(p.engine, PROCESS);
		CHECK(ptah_capture_free(p.c) == PTAH_OK);
	}
	CHECK(ptah_engine_free(p.engine) == PTAH_OK);
	CHECK(!ptah_machine_violation(p.machine));
	CHECK(ptah_machine_allocated(p.machine) == 0 && ptah_machine_mapped(p.machine) == 0);
	free(p.machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t i;

	if (size < 3)
		return 0;
	if (open_play(data[0], data[1], data[2])) {
		for (i = 3; i + 4 <= size && i < 3 + 4 * 400; i += 4)
			act(data[i], data[i + 1], data[i + 2], data[i + 3]);
	}
	close_play();
	return 0;
}
