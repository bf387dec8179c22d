/* SPDX-License-Identifier: MIT */
/*
 * Whoever reads the machine's memory alone, at any instruction, finds the captures by the engine's
 * note and the bytes that were traced: by physical addresses, in every shape and while buffers are
 * exchanged. A copy of the processor's output is the judge.
 */
#include "engine/stream.h"

#include <ptah/engine/crash_note.h>

struct kind {
	const char *processor;
	uint8_t shape, policy;
	bool no_pmi, thread;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, true, true},
    {"skylake", PTAH_SHAPE_RING, PTAH_POLICY_STOP, false, false},
    {"skylake", PTAH_SHAPE_OVERFLOW, PTAH_POLICY_WRAP, false, false},
    {"skylake", PTAH_SHAPE_SINGLE, PTAH_POLICY_WRAP, false, false},
    {"minimal", PTAH_SHAPE_RING, PTAH_POLICY_WRAP, false, false},
};

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_model_faults faults;
	unsigned reads; /* in gaps */
	bool reading;
};

/* The memory, as a dump has it: nothing of the engine is called. */
static bool read_memory(struct scene *s, uint64_t physical, void *bytes, uint64_t n)
{
	uint64_t left;
	const uint8_t *memory;

	if (physical < 0x10000000 || physical - 0x10000000 >= s->rig.arena_size)
		return false;
	memory = ptah_machine_memory(s->rig.machine, physical, &left);
	if (!memory || left < n)
		return false;
	memcpy(bytes, memory, n);
	return true;
}

static uint64_t variable(struct scene *s, const struct ptah_crash_capture *n, uint32_t at,
			 size_t size)
{
	uint64_t value = 0;

	assert_true(read_memory(s, n->physical + at, &value, size));
	return value;
}

/* The byte of the buffer at a distance from its beginning. */
static uint8_t buffer_byte(struct scene *s, const struct ptah_crash_capture *n, uint64_t at)
{
	uint64_t physical = 0, size = 0, entry = n->blocks, i;
	uint64_t count = variable(s, n, n->blocks_at, 4);
	uint8_t byte = 0;

	for (i = 0; i < count; i++, entry += n->block_step) {
		assert_true(read_memory(s, entry + n->block_address, &physical, 8));
		assert_true(read_memory(s, entry + n->block_size, &size, 8));
		if (at < size) {
			assert_true(read_memory(s, physical + at, &byte, 1));
			return byte;
		}
		at -= size;
	}
	fail_msg("the blocks end before byte %llu", (unsigned long long)at);
	return 0;
}

/* Where the byte at a position lies in a buffer of single-entry ToPA; *oldest: the first there is.
 */
static uint64_t region_byte(struct scene *s, const struct ptah_crash_capture *n, uint64_t position,
			    uint64_t *oldest)
{
	uint64_t q = variable(s, n, n->fills_at, 8), start = 0, last, at = UINT64_MAX;

	last = q >= n->regions ? q - n->regions + 1 : 0;
	for (;; q--) {
		assert_true(read_memory(s, n->starts + 8 * (q % n->regions), &start, 8));
		if (start <= position && at == UINT64_MAX)
			at = q % n->regions * n->region + (position - start);
		if (q == last)
			break;
	}
	*oldest = start;
	return at;
}

/* All bytes that a capture's note leads to are those of the output; returns the position. */
static uint64_t check_capture(struct scene *s, const struct ptah_crash_capture *n)
{
	const uint64_t position = variable(s, n, n->position_at, 8);
	uint64_t at, end, from = position > n->buffer ? position - n->buffer : 0, oldest = 0;

	if (from < variable(s, n, n->floor_at, 8))
		from = variable(s, n, n->floor_at, 8);
	assert_true(position <= rig_output(&s->rig, 0));
	if (position && n->layout == PTAH_CRASH_REGIONS) {
		region_byte(s, n, position - 1, &oldest);
		from = from < oldest ? oldest : from;
	}
	/* A PMI comes before the test has its copy of what caused it. */
	end = position < s->stream.n ? position : s->stream.n;
	for (at = from; at < end; at += at + 97 < end ? 97 : 1) {
		const uint64_t offset = n->layout == PTAH_CRASH_REGIONS
					    ? region_byte(s, n, at, &oldest)
					    : at % n->buffer;

		if (buffer_byte(s, n, offset) != s->stream.bytes[at])
			fail_msg("kind %u read %u: byte %llu of [%llu, %llu) is another", n->shape,
				 s->reads, (unsigned long long)at, (unsigned long long)from,
				 (unsigned long long)position);
	}
	return position;
}

/* Reads what a dump of this moment would have; returns how many captures there are. */
static unsigned read_dump(struct scene *s, uint64_t *position)
{
	struct ptah_crash_capture n;
	struct ptah_crash_note note;
	unsigned captures = 0;
	uint64_t at;

	assert_true(read_memory(s, ptah_engine_crash_note(s->rig.engine), &note, sizeof(note)));
	assert_memory_equal(note.magic, PTAH_CRASH_MAGIC, 16);
	assert_int_equal(note.version, PTAH_CRASH_VERSION);
	assert_int_equal(note.physical % 4096, 0);
	assert_int_equal(note.physical, ptah_engine_crash_note(s->rig.engine));
	for (at = note.first; at; at = n.next, captures++) {
		assert_true(captures < 10);
		assert_true(read_memory(s, at, &n, sizeof(n)));
		assert_int_equal(n.physical, at);
		assert_int_equal(n.size, sizeof(n));
		if (n.sequence & 1)
			continue;
		if (!variable(s, &n, n.running_at, 1))
			*position = check_capture(s, &n);
	}
	return captures;
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct scene *s = argument;
	uint64_t position;

	(void)cpu, (void)callback;
	if (!s->reading || !s->rig.engine)
		return;
	s->reading = false;
	s->reads += read_dump(s, &position);
	s->reading = true;
}

static void open_scene(struct scene *s, const struct kind *kind)
{
	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find(kind->processor), 2);
	rig_silence(&s->rig, 0, &s->faults);
	s->config = rig_config(&s->rig, &s->trace);
	s->config.buffer = 16384;
	s->config.region = kind->shape == PTAH_SHAPE_RING ? 4096 : 0;
	s->config.shape = kind->shape;
	s->config.policy = kind->policy;
	s->config.no_pmi = kind->no_pmi;
	s->config.cpu = kind->thread ? PTAH_CAPTURE_THREAD : 0;
	ptah_machine_on_gap(s->rig.machine, gap, s);
}

static void close_scene(struct scene *s)
{
	s->reading = false;
	stream_free(&s->stream);
	rig_close(&s->rig);
}

TEST(every_moment_can_be_read)
{
	uint64_t position = 0;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct ptah_capture *c;
		struct scene s;

		open_scene(&s, &kinds[i]);
		c = rig_capture(&s.rig, &s.config);
		s.reading = true;
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		if (kinds[i].thread)
			rig_switch(&s.rig, c, 0, true);
		stream_put(&s.stream, &s.rig, 0, 9000);
		ptah_capture_flush(c, NULL);
		stream_put(&s.stream, &s.rig, 0, 3000);
		ptah_capture_pause(c);
		assert_int_equal(ptah_capture_resize(c, 8192, 0, NULL),
				 kinds[i].policy == PTAH_POLICY_STOP ? PTAH_E_NOSPACE : PTAH_OK);
		ptah_capture_resume(c);
		stream_put(&s.stream, &s.rig, 0, 3000);
		assert_int_equal(ptah_capture_resize(c, 32768, 0, NULL), PTAH_OK);
		stream_put(&s.stream, &s.rig, 0, 50000);
		if (kinds[i].thread)
			rig_switch(&s.rig, c, 0, false);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_int_equal(read_dump(&s, &position), 1);
		assert_int_equal(position, rig_status(c).position);
		assert_true(position > 20000 && s.reads > 30);
		s.reading = false;
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		close_scene(&s);
	}
}

/* The list of captures is right whichever leaves, and what the numbers of a capture are of. */
TEST(captures_come_and_go)
{
	struct ptah_crash_note note;
	struct ptah_crash_capture n;
	struct ptah_capture *c[3];
	uint64_t position, at;
	struct scene s;

	open_scene(&s, &kinds[0]);
	s.reading = true;
	assert_int_equal(read_dump(&s, &position), 0);
	for (int i = 0; i < 3; i++) {
		s.config.cpu = i == 2 ? PTAH_CAPTURE_THREAD : i;
		s.config.owner = 100 + (uint64_t)i;
		c[i] = rig_capture(&s.rig, &s.config);
		assert_int_equal(read_dump(&s, &position), i + 1);
	}
	assert_int_equal(ptah_capture_free(c[1]), PTAH_OK);
	assert_int_equal(read_dump(&s, &position), 2);
	at = ptah_engine_crash_note(s.rig.engine);
	assert_true(read_memory(&s, at, &note, sizeof(note)));
	assert_true(read_memory(&s, note.first, &n, sizeof(n)));
	assert_int_equal(variable(&s, &n, n.owner_at, 8), 102);
	assert_int_equal((int32_t)variable(&s, &n, n.cpu_at, 4), PTAH_CAPTURE_THREAD);
	assert_int_equal(n.family, 6);
	assert_int_equal(variable(&s, &n, n.ctl_at, 8) & PTAH_RTIT_CTL_TRACE_EN, 0);
	assert_int_equal(variable(&s, &n, n.ctl_at, 8),
			 ptah_trace_config_ctl(&s.trace) | PTAH_RTIT_CTL_TOPA);
	s.trace.tsc = !s.trace.tsc;
	assert_int_equal(ptah_capture_reconfigure(c[2], &s.trace, NULL), PTAH_OK);
	assert_int_equal(variable(&s, &n, n.ctl_at, 8),
			 ptah_trace_config_ctl(&s.trace) | PTAH_RTIT_CTL_TOPA);
	assert_int_equal(ptah_capture_free(c[2]), PTAH_OK);
	assert_int_equal(ptah_engine_release_owner(s.rig.engine, 100), 1);
	assert_int_equal(read_dump(&s, &position), 0);
	s.reading = false;
	/* Memory that was freed is found by its magic otherwise. */
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_OK);
	assert_true(read_memory(&s, at, &note, sizeof(note)));
	assert_memory_not_equal(note.magic, PTAH_CRASH_MAGIC, 16);
	s.rig.engine = NULL;
	close_scene(&s);
}
